from __future__ import annotations

import numpy as np
import pytest

from benchmarks.baselines.one_vs_all import Limits, OneVsAll
from tests import naive_one_vs_all as naive
from tests.benchmarks.conftest import Dense, Rows, sparse_rows
from threepass.errors import InputError


@pytest.mark.parametrize("C", [0.1, 3.0])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_scores__equal_the_naive_ones(dense: Dense, C: float, n_threads: int) -> None:
    X, Y = dense
    Y[:, 4] = 1  # beside label 2, which no document has
    model = OneVsAll(C, n_threads, Limits(smallest=0.0)).fit(sparse_rows(X), sparse_rows(Y))
    found = model.scores(sparse_rows(X[:9]))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, naive.scores(X, Y, X[:9], C), atol=2e-3)
    assert (found[:, [2, 4]] == [-1, 1]).all()
    assert model.n_unconverged_ == 0


def test_fit__keeps_no_tiny_weights(rows: Rows) -> None:
    X, Y = rows
    whole = OneVsAll().fit(X, Y).weights_.toarray()
    model = OneVsAll(limits=Limits(smallest=0.2)).fit(X, Y)
    expected = np.where(abs(whole) >= 0.2, whole, 0)
    assert 0 < model.weights_.nnz < np.count_nonzero(whole)
    np.testing.assert_array_equal(model.weights_.toarray(), expected)
    # 4 bytes for a weight and for its column, for the start of each of 14 rows, and for each of 6 intercepts
    assert model.nbytes == 8 * model.weights_.nnz + 4 * 14 + 4 * 6


def test_fit__is_the_same_for_any_threads(rows: Rows) -> None:
    one, three = (OneVsAll(n_threads=n).fit(*rows).weights_.toarray() for n in (1, 3))
    np.testing.assert_array_equal(one, three)


def test_fit__does_not_look_at_the_values_of_labels(dense: Dense, rows: Rows) -> None:
    model = OneVsAll().fit(rows[0], sparse_rows(3 * dense[1]))
    np.testing.assert_array_equal(model.intercepts_, OneVsAll().fit(*rows).intercepts_)


def test_fit__calls_back_once(rows: Rows) -> None:
    seen = []
    model = OneVsAll().fit(*rows, seen.append)
    assert seen == [model]
    assert len(model.seconds_) == 1


def test_fit__refuses_too_many_weights(rows: Rows) -> None:
    with pytest.raises(InputError, match="Found 13 x 6"):
        OneVsAll(limits=Limits(n_bytes=4 * 13 * 6 - 1)).fit(*rows)


def test_fit__refuses_too_much_work(rows: Rows) -> None:
    with pytest.raises(InputError, match="words where"):
        OneVsAll(limits=Limits(work=rows[0].nnz * 6 - 1)).fit(*rows)


def test_fit__refuses_c(rows: Rows) -> None:
    with pytest.raises(InputError, match=r"Found 0\.0"):
        OneVsAll(0.0).fit(*rows)


def test_scores__refuse_other_words(rows: Rows) -> None:
    with pytest.raises(InputError, match="Found 6"):
        OneVsAll().fit(*rows).scores(rows[1])
