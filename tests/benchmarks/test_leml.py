from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.baselines.leml import Leml, Limits
from tests import naive_leml as naive
from tests.benchmarks.conftest import Dense, Rows, sparse_rows
from threepass.corpus.rows import SparseRows
from threepass.errors import InputError

LAM = 0.7


def first_labels(rank: int, rows: Rows) -> np.ndarray:
    """The H that every fit of this rank starts from."""
    return Leml(rank, LAM, n_outer=0).fit(*rows).H_


@pytest.mark.parametrize("rank", [1, 3, 14])  # 14 is above twice the 6 labels: H'H is not formed
@pytest.mark.parametrize("n_outer", [1, 3])
@pytest.mark.parametrize("n_threads", [1, 2, 50])  # 50 is more than there are documents
@pytest.mark.parametrize("slab", [7, 1024])
def test_fit__equals_exact_alternation(
    dense: Dense,
    rows: Rows,
    rank: int,
    n_outer: int,
    n_threads: int,
    slab: int,
) -> None:
    W, H = naive.alternate(*dense, first_labels(rank, rows), LAM, n_outer)
    model = Leml(rank, LAM, n_outer, n_threads, tolerance=1e-6, limits=Limits(slab=slab)).fit(*rows)
    assert model.W_.dtype == model.H_.dtype == np.float32
    np.testing.assert_allclose(model.W_, W, atol=1e-4)
    np.testing.assert_allclose(model.H_, H, atol=1e-4)


@pytest.mark.parametrize("lam", [0.01, 1, 30])
@pytest.mark.parametrize("tolerance", [0.1, 0.9])
def test_fit__never_increases_the_objective(dense: Dense, rows: Rows, lam: float, tolerance: float) -> None:
    W, H = np.zeros((13, 4)), first_labels(4, rows)
    values = [naive.objective(*dense, W, H, lam)]

    def note(model: Leml) -> None:
        values.append(naive.objective(*dense, model.W_, model.H_, lam))

    Leml(4, lam, n_outer=8, tolerance=tolerance).fit(*rows, note)
    assert len(values) == 9
    assert (np.diff(values) <= 1e-5 * values[0]).all()
    assert values[-1] < 0.95 * values[0]


@pytest.mark.parametrize("tolerance", [0.3, 0.1, 1e-4])
def test_fit__ends_each_solve_at_the_tolerance(dense: Dense, rows: Rows, tolerance: float) -> None:
    pairs = [(np.zeros((13, 4)), first_labels(4, rows))]
    model = Leml(4, LAM, n_outer=3, tolerance=tolerance)
    model.fit(*rows, lambda model: pairs.append((model.W_.copy(), model.H_)))
    for (W, H), (W_next, _) in pairwise(pairs):
        before, after = (np.linalg.norm(naive.gradient(*dense, V, H, LAM)) for V in (W, W_next))
        assert 0.01 * tolerance * before < after <= 1.01 * tolerance * before


def test_fit__stops_at_the_most_steps(rows: Rows) -> None:
    model = Leml(4, LAM, n_outer=3, tolerance=1e-6, limits=Limits(newton=1, gradient=2))
    assert model.fit(*rows).n_steps_ == [2, 2, 2]


def test_fit__directions_are_conjugate(rows: Rows) -> None:
    # in exact arithmetic the 13 unknowns of rank 1 take 13 steps; steepest descent takes far more
    assert Leml(1, 0.01, n_outer=1, tolerance=1e-4).fit(*rows).n_steps_[0] <= 14


def test_fit__without_any_label_is_zero(rows: Rows) -> None:
    X, _ = rows
    model = Leml(4, LAM, n_outer=2).fit(X, sparse_rows(np.zeros((40, 6))))
    assert not model.W_.any()
    assert not model.H_.any()
    assert model.n_steps_ == [0, 0]


def test_fit__takes_words_without_values_as_ones(dense: Dense, rows: Rows) -> None:
    X, Y = rows
    ones = SparseRows(X.indptr, X.indices, None, X.n_columns)
    expected = Leml(4, LAM).fit(sparse_rows((dense[0] > 0) * 1.0), Y)
    model = Leml(4, LAM).fit(ones, Y)
    np.testing.assert_allclose(model.scores(ones), expected.scores(ones), atol=1e-5)


def test_fit__does_not_look_at_the_values_of_labels(dense: Dense, rows: Rows) -> None:
    X, Y = rows
    model = Leml(4, LAM).fit(X, sparse_rows(3 * dense[1]))
    np.testing.assert_array_equal(model.H_, Leml(4, LAM).fit(X, Y).H_)


def test_fit__seed_decides(rows: Rows) -> None:
    first, again, other = (Leml(4, LAM, n_threads=2, seed=seed).fit(*rows).H_ for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert abs(first - other).max() > 0.01


def test_seconds__grow_and_leave_out_the_callback(rows: Rows) -> None:
    model = Leml(4, LAM, n_outer=3).fit(*rows)
    model.fit(*rows, lambda _: time.sleep(0.5))
    assert len(model.seconds_) == 3
    assert (np.diff([0, *model.seconds_]) > 0).all()
    assert model.seconds_[-1] < 0.5


def test_scores__equal_the_dense_product(dense: Dense, rows: Rows) -> None:
    model = Leml(4, LAM).fit(*rows)
    scores = model.scores(rows[0])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, dense[0] @ model.W_ @ model.H_.T, atol=1e-5)
    assert not scores[dense[0].sum(axis=1) == 0].any()
    assert not scores[:, 2].any()


def test_nbytes__are_those_of_both_factors(rows: Rows) -> None:
    assert Leml(4, LAM, n_outer=1).fit(*rows).nbytes == 4 * 4 * (13 + 6)


@pytest.mark.parametrize(("rank", "lam"), [(0, 1.0), (3, 0.0), (3, float("nan"))])
def test_fit__refuses_parameters(rows: Rows, rank: int, lam: float) -> None:
    with pytest.raises(InputError, match=f"rank={rank}, lam={lam}"):
        Leml(rank, lam).fit(*rows)


def test_fit__refuses_labels_of_other_documents(rows: Rows) -> None:
    X, Y = rows
    with pytest.raises(InputError, match="40 and 39 rows"):
        Leml(3, LAM).fit(X, Y.slice(0, 39))


def test_bias__is_a_word_that_all_documents_have(dense: Dense, rows: Rows) -> None:
    X, Y = rows
    with_word = sparse_rows(np.hstack([dense[0], np.full((40, 1), 0.3)]))
    expected = Leml(4, LAM, bias=0.0).fit(with_word, Y)
    model = Leml(4, LAM, bias=0.3).fit(X, Y)
    np.testing.assert_array_equal(model.W_, expected.W_)
    np.testing.assert_array_equal(model.scores(X), expected.scores(with_word))
    with pytest.raises(InputError, match=r"the 13 columns of the fit\. Found 14"):
        model.scores(with_word)


def test_scores__refuse_other_words(rows: Rows) -> None:
    X, Y = rows
    with pytest.raises(InputError, match="Found 6"):
        Leml(3, LAM).fit(X, Y).scores(Y)
