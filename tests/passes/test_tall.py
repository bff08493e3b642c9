"""Sums with a row for each word: as the dense product, and in double precision where it counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows import normal, sparse_rows, ugly_matrices
from threepass.corpus.rows import SparseRows
from threepass.passes.tall import RANKS as DEFAULT
from threepass.passes.tall import Ranks, TallSum, segment_tall_bytes, tall_bytes

D, WIDTH = 23, 5
RANKS = [Ranks(*pair, 10.0) for pair in [(0, 0), (0, 4), (7, 9), (7, D), (100, 100)]]
"""Words that are summed in double precision, and words that have a row in every segment.

As many documents as there are may wait.
"""
LARGE = np.float32(2**25)
"""Single precision has steps of 4 here: a one is lost."""


ranked = pytest.mark.parametrize("ranks", RANKS, ids=str)


def whole_numbers(*shape: int) -> np.ndarray:
    """float32 that add and multiply without rounding."""
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(np.float32)


def rows(n: int) -> np.ndarray:
    """Counts, with empty rows and words never seen."""
    X = ugly_matrices(40, D, 1, seed=3)[0][:n]
    assert n < 40 or ((X.sum(axis=0) == 0).any() and (X.sum(axis=1) == 0).any())
    return X


def summed(X: np.ndarray, Z: np.ndarray, *ends: int, ranks: Ranks = DEFAULT) -> TallSum:
    """The documents up to each of the ends, and the rest, one after the other."""
    total = TallSum.zero(X.shape[1], Z.shape[1], ranks)
    for start, stop in pairwise([0, *ends, len(X)]):
        total.add(sparse_rows(X[start:stop], np.float32), Z[start:stop])
    return total


@ranked
@pytest.mark.parametrize(("n", "width"), [(0, WIDTH), (1, 1), (40, 0), (40, 1), (40, WIDTH)])
def test_finished__equals_the_dense_product(ranks: Ranks, n: int, width: int) -> None:
    X, Z = rows(n), whole_numbers(n, width)
    total = summed(X, Z, ranks=ranks)
    out = total.finished()
    assert out.dtype == np.float32
    assert out.shape == (D, width)
    np.testing.assert_array_equal(out, X.T @ Z)
    assert total.finished() is total.rows  # made in its own memory
    assert not total.waiting


@pytest.mark.parametrize("waiting", [0.0, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("kind", ["ones", "counts"])
def test_add__sums_over_blocks(kind: str, waiting: float) -> None:
    X, Z = rows(40), whole_numbers(40, WIDTH)
    total = TallSum.zero(D, WIDTH, Ranks(2, 6, waiting))
    for start, stop in pairwise([0, 13, 13, 14, 40]):
        block = sparse_rows(X[start:stop], np.float32 if kind == "counts" else None)
        total.add(block, Z[start:stop])
    assert (len(total.rows) == D) == (waiting < 10) == (not total.waiting)
    dense = X if kind == "counts" else X > 0
    np.testing.assert_array_equal(total.finished(), dense.T.astype(np.float32) @ Z)


def test_add__rare_words_wait_and_take_no_rows() -> None:
    total = summed(rows(40), normal(40, WIDTH), 13, ranks=Ranks(2, 6, 10.0))
    assert total.rows.shape == (6, WIDTH)
    assert [X.n_rows for X, _ in total.waiting] == [13, 27]
    assert {X.n_columns for X, _ in total.waiting} == {D - 6}


@ranked
def test_finished__may_be_called_between_additions(ranks: Ranks) -> None:
    X, Z = rows(40), whole_numbers(40, WIDTH)
    total, expected = TallSum.zero(D, WIDTH, ranks), np.zeros((D, WIDTH))
    for start, stop in pairwise([0, 10, 25, 40]):
        total.add(sparse_rows(X[start:stop], np.float32), Z[start:stop])
        expected += X[start:stop].T @ Z[start:stop]
        for _ in range(2):
            np.testing.assert_array_equal(total.finished(), expected)


# -- precision ------------------------------------------------------------------------------------------


@ranked
def test_hot__first_words_keep_what_single_precision_loses(ranks: Ranks) -> None:
    Z = np.ones((65, 1), np.float32)
    Z[0] = LARGE
    out = summed(np.ones((65, D)), Z, *range(1, 65), ranks=ranks).finished()[:, 0]
    np.testing.assert_array_equal(out[: ranks.hot], LARGE + 64)
    np.testing.assert_array_equal(out[ranks.hot :], LARGE)  # each addition of a one was lost


@pytest.mark.parametrize("how", ["added", "added and looked at", "merged"])
@ranked
def test_hot__stays_double(ranks: Ranks, how: str) -> None:
    ones, one = np.ones((1, D)), np.ones((1, 1), np.float32)
    total = summed(ones, LARGE * one, ranks=ranks)
    for _ in range(4):
        if how == "merged":
            total.merge(summed(ones, one, ranks=ranks))
            continue
        total.add(sparse_rows(ones), one)
        if how == "added and looked at":
            total.finished()  # rounds 2**25 + 1 to 2**25, for show only
    np.testing.assert_array_equal(total.finished()[: ranks.hot, 0], LARGE + 4)


def test_hot__many_additions_err_like_double_precision() -> None:
    """As long as each slab is short: 20,000 documents one by one, all of them with the same word."""
    n, hot = 20_000, DEFAULT.hot
    Z = np.random.default_rng(0).random((n, 1), dtype=np.float32)
    X = np.zeros((10, hot + 1))
    X[:, [0, hot]] = 1
    words = sparse_rows(X)
    total = TallSum.zero(hot + 1, 1)
    for start in range(0, n, 10):
        total.add(words, Z[start : start + 10])
    exact = Z.sum(dtype=np.float64)
    errors = abs(total.finished()[[0, hot], 0] - exact) / exact
    assert errors[0] < 1e-7  # but for the rounding of the result itself
    assert errors[1] > 3e-7  # the same sum in single precision


# -- merging --------------------------------------------------------------------------------------------


@ranked
@pytest.mark.parametrize("looked_at", [(), (0,), (1,), (0, 1)], ids=str)
def test_merge__adds_two_sums(ranks: Ranks, looked_at: tuple[int, ...]) -> None:
    X, Z = rows(40), whole_numbers(40, WIDTH)
    parts = [summed(X[:15], Z[:15], 6, ranks=ranks), summed(X[15:30], Z[15:30], 4, ranks=ranks)]
    for number in looked_at:
        parts[number].finished()
    total, other = parts
    total.merge(other)
    np.testing.assert_array_equal(total.finished(), X[:30].T @ Z[:30])
    total.add(sparse_rows(X[30:], np.float32), Z[30:])
    np.testing.assert_array_equal(total.finished(), X.T @ Z)
    np.testing.assert_array_equal(other.finished(), X[15:30].T @ Z[15:30])


@ranked
def test_merge__is_bitwise_the_same_whether_a_segment_was_whole_before(ranks: Ranks) -> None:
    """As it is when a segment's sums are looked at, or come from a file."""
    X, Z = rows(40), normal(40, WIDTH)
    results = []
    for whole in (False, True):
        total = summed(X[:15], Z[:15], ranks=ranks)
        segment = summed(X[15:], Z[15:], 9, ranks=ranks)
        if whole:
            segment.finished()
        total.merge(segment)
        results.append(total.finished().tobytes())
    assert results[0] == results[1]


@given(
    cuts=st.lists(st.integers(0, 40), max_size=6),
    split=st.integers(0, 6),
    ranks=st.sampled_from(RANKS),
    waiting=st.sampled_from([0.0, 0.3, 1.0, 10.0]),
)
def test_sums__do_not_depend_on_blocks_and_segments(
    cuts: list[int], split: int, ranks: Ranks, waiting: float
) -> None:
    X, Z = rows(40), normal(40, WIDTH)
    parts = [TallSum.zero(D, WIDTH, replace(ranks, waiting=waiting)) for _ in range(2)]
    for number, (start, stop) in enumerate(pairwise([0, *sorted(cuts), 40])):
        parts[number >= split].add(sparse_rows(X[start:stop], np.float32), Z[start:stop])
    parts[0].merge(parts[1])
    out = parts[0].finished()
    np.testing.assert_allclose(out, X.T @ Z.astype(np.float64), rtol=1e-6, atol=1e-5)


# -- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [None, np.float32])
@pytest.mark.parametrize("waiting", [0.0, 10.0])
def test_arrays__give_the_same_sum_again(values: type | None, waiting: float) -> None:
    X, Z, ranks = sparse_rows(rows(40), values), normal(40, WIDTH), Ranks(2, 6, waiting)
    total, found = TallSum.zero(D, WIDTH, ranks), TallSum.zero(D, WIDTH, ranks)
    for start, stop in ((0, 13), (13, 40)):
        total.add(X.slice(start, stop), Z[start:stop])
    arrays = total.to_arrays()
    assert ("Z" in arrays) == (waiting > 0)
    found.restore(arrays)
    assert found.finished().tobytes() == total.finished().tobytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.update(rows=arrays["rows"][:, 1:]),
        lambda arrays: arrays.update(rows=arrays["rows"][1:]),
        lambda arrays: arrays.update(hot=arrays["hot"][1:]),
        lambda arrays: arrays.update(Z=arrays["Z"][1:]),
        lambda arrays: arrays.update(Z=arrays["Z"][:, 1:]),
        lambda arrays: arrays.update(indices=arrays["indices"] + 1),
        lambda arrays: arrays.update(values=arrays["values"][1:]),
        lambda arrays: arrays.update(indptr=arrays["indptr"][::-1].copy()),
    ],
)
def test_arrays__out_of_place_are_refused(change: Callable[..., None]) -> None:
    ranks = Ranks(2, 6, 10.0)
    arrays = summed(np.ones((4, D)), normal(4, WIDTH), ranks=ranks).to_arrays()
    change(arrays)
    with pytest.raises(ValueError, match=r"sums of shape|out of place"):
        TallSum.zero(D, WIDTH, ranks).restore(arrays)


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("waiting", [0.0, 10.0])
def test_spill__rows_of_all_words_lie_in_a_file(empty: bool, waiting: float) -> None:
    ranks = Ranks(2, 6, waiting)
    X, Z = rows(40), whole_numbers(40, WIDTH)
    start = 0 if empty else 9
    total = TallSum.zero(D, WIDTH, ranks) if empty else summed(X[:9], Z[:9], ranks=ranks)
    total.spill(empty, least=1)
    total.add(sparse_rows(X[start:], np.float32), Z[start:])
    assert isinstance(total.finished(), np.memmap)
    np.testing.assert_array_equal(total.finished(), X.T @ Z)


# -- sizes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_terms", [0, 1, DEFAULT.hot + 1, 5000, DEFAULT.frequent + 1])
def test_tall_bytes__is_the_true_size(n_terms: int) -> None:
    for width in (0, 1, 9):
        total = TallSum.zero(n_terms, width)
        total.finished()
        assert tall_bytes(n_terms, width) == total.nbytes
    assert 4 <= tall_bytes(10**6, 100) / 10**8 < 4.01


@pytest.mark.parametrize("n_terms", [100, 20_000])
@pytest.mark.parametrize("n", [0, 300, 15_000])
def test_segment_tall_bytes__is_no_less_than_the_true_size(n_terms: int, n: int) -> None:
    words = np.random.default_rng(0).integers(n_terms, size=n).astype(np.int32)
    X = SparseRows(np.arange(n + 1), words, None, n_terms)
    total = TallSum.zero(n_terms, 3)
    total.add(X, normal(n, 3))
    projected = segment_tall_bytes(n_terms, 3, n, X.nnz)
    assert total.nbytes <= projected + 8 * len(total.waiting) <= 3 * total.nbytes
