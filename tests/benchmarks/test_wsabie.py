from __future__ import annotations

import time

import numpy as np
import pytest

from benchmarks.baselines.wsabie import Wsabie
from benchmarks.baselines.wsabie_kernels import warp_epoch
from tests import naive_wsabie as naive
from tests.benchmarks.conftest import Dense, Rows, sparse_rows
from threepass.corpus.rows import SparseRows
from threepass.errors import InputError


@pytest.mark.parametrize("max_norm", [0.8, 5.0])
@pytest.mark.parametrize("max_trials", [1, 3, 50])
@pytest.mark.parametrize("margin", [0.1, 1.0])
def test_epoch__equals_the_naive_one(dense: Dense, max_norm: float, max_trials: int, margin: float) -> None:
    X, Y = dense
    Y[5] = 1  # a document with all labels has none to be told from
    rng = np.random.default_rng(8)
    W, H = rng.standard_normal((13, 3)) / 2, rng.standard_normal((6, 3)) / 2
    squares = np.zeros(13), np.zeros(6)
    order = rng.permutation(40)
    fast = [A.astype(np.float32) for A in (W, H, *squares)]
    words, labels = sparse_rows(X), sparse_rows(Y)
    rank_loss = np.array([0, *np.cumsum(1 / np.arange(1, 7))], np.float32)
    state, draws = np.array([12345], np.uint64), naive.Draws(12345)
    for _ in range(2):
        naive.epoch(order, X, Y, W, H, *squares, 0.3, margin, max_norm, max_trials, draws)
        warp_epoch(
            order,
            (words.indptr, words.indices, words.values),
            (labels.indptr, labels.indices),
            *fast,
            0.3,
            margin,
            max_norm,
            max_trials,
            rank_loss,
            state,
        )
    assert int(state[0]) == draws.state
    for found, expected in zip(fast, (W, H, *squares), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    assert (np.linalg.norm(fast[1], axis=1) <= max_norm * 1.0001).all()


def test_fit__ranks_labels_that_words_tell() -> None:
    rng = np.random.default_rng(0)
    Y = rng.random((300, 12)) < 0.15
    words = sparse_rows(Y * 1.0)
    scores = Wsabie(8, 0.1, n_epochs=30).fit(words, sparse_rows(Y * 1.0)).scores(words)
    labelled = Y.any(axis=1)
    assert Y[np.arange(300), scores.argmax(axis=1)][labelled].mean() > 0.95


def test_fit__takes_words_without_values_as_ones(dense: Dense, rows: Rows) -> None:
    X, Y = rows
    ones = SparseRows(X.indptr, X.indices, None, X.n_columns)
    expected = Wsabie(4, 0.1, n_epochs=2).fit(sparse_rows((dense[0] > 0) * 1.0), Y)
    np.testing.assert_array_equal(Wsabie(4, 0.1, n_epochs=2).fit(ones, Y).W_, expected.W_)


def test_fit__seed_decides(rows: Rows) -> None:
    first, again, other = (Wsabie(4, 0.1, n_epochs=3, seed=seed).fit(*rows).H_ for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert abs(first - other).max() > 0.01


def test_fit__calls_back_after_each_epoch_with_the_clock_stopped(rows: Rows) -> None:
    seen = []
    model = Wsabie(4, 0.1, n_epochs=3)

    def note(model: Wsabie) -> None:
        time.sleep(0.2)
        seen.append(model.H_.copy())

    model.fit(*rows)
    model.fit(*rows, note)
    assert len(seen) == len(model.seconds_) == 3
    np.testing.assert_array_equal(seen[1], Wsabie(4, 0.1, n_epochs=2).fit(*rows).H_)
    assert (np.diff([0, *model.seconds_]) > 0).all()
    assert model.seconds_[-1] < 0.2


def test_scores__equal_the_dense_product(dense: Dense, rows: Rows) -> None:
    model = Wsabie(4, 0.1, n_epochs=2).fit(*rows)
    scores = model.scores(rows[0])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, dense[0] @ model.W_ @ model.H_.T, atol=1e-5)
    assert model.nbytes == 4 * 4 * (13 + 6)


@pytest.mark.parametrize("bad", [{"rank": 0}, {"rate": 0.0}, {"margin": -1.0}, {"max_norm": float("nan")}])
def test_fit__refuses_parameters(rows: Rows, bad: dict[str, float]) -> None:
    (name, value), *_ = bad.items()
    with pytest.raises(InputError, match=f"{name}={value}"):
        Wsabie(**{"rank": 3, "rate": 0.1, **bad}).fit(*rows)


def test_fit__refuses_labels_of_other_documents(rows: Rows) -> None:
    with pytest.raises(InputError, match="40 and 39 rows"):
        Wsabie(3, 0.1).fit(rows[0], rows[1].slice(0, 39))


def test_bias__is_a_word_that_all_documents_have(dense: Dense, rows: Rows) -> None:
    X, Y = rows
    with_word = sparse_rows(np.hstack([dense[0], np.full((40, 1), 0.3)]))
    expected = Wsabie(4, 0.1, n_epochs=3, bias=0.0).fit(with_word, Y)
    model = Wsabie(4, 0.1, n_epochs=3, bias=0.3).fit(X, Y)
    np.testing.assert_array_equal(model.W_, expected.W_)
    np.testing.assert_array_equal(model.scores(X), expected.scores(with_word))
    with pytest.raises(InputError, match=r"the 13 columns of the fit\. Found 14"):
        model.scores(with_word)


def test_scores__refuse_other_words(rows: Rows) -> None:
    with pytest.raises(InputError, match="Found 6"):
        Wsabie(3, 0.1, n_epochs=1).fit(*rows).scores(rows[1])
