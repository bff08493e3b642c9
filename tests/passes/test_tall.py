"""Sums with a row for each word: as the dense product, and in double precision where it counts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.passes import tall as module
from pipeline.passes.sums import Sums, merge_into
from pipeline.passes.tall import HOT, add_tall, tall, tall_bytes, zero_tall
from tests.passes.conftest import normal, sparse_rows, ugly_matrices

D, WIDTH = 23, 5
HOTS = [0, 1, 7, D, 100]
LARGE = np.float32(2**25)
"""Single precision has steps of 4 here: a one is lost."""


@pytest.fixture(params=HOTS)
def hot(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many of the words are summed in double precision."""
    monkeypatch.setattr(module, "HOT", request.param)
    return min(request.param, D)


def whole_numbers(*shape: int) -> np.ndarray:
    """float32 that add and multiply without rounding."""
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(np.float32)


def rows(n: int) -> np.ndarray:
    """Counts, with empty rows and words never seen."""
    X = ugly_matrices(40, D, 1, seed=3)[0][:n]
    assert n < 40 or ((X.sum(axis=0) == 0).any() and (X.sum(axis=1) == 0).any())
    return X


def added(sums: Sums, X: np.ndarray, Z: np.ndarray) -> Sums:
    add_tall(sums, "a", sparse_rows(X, np.float32), Z)
    return sums


@pytest.mark.parametrize("n", [0, 1, 40])
@pytest.mark.parametrize("width", [0, 1, WIDTH])
def test_tall__equals_the_dense_product(hot: int, n: int, width: int) -> None:
    X, Z = rows(n), whole_numbers(n, width)
    sums = added(zero_tall("a", D, width), X, Z)
    out = tall(sums, "a")
    assert out.dtype == np.float32
    assert out.shape == (D, width)
    np.testing.assert_array_equal(out, X.T @ Z)


@pytest.mark.parametrize("kind", ["ones", "counts"])
def test_tall__sums_over_slabs(hot: int, kind: str) -> None:
    X, Z = rows(40), whole_numbers(40, WIDTH)
    sums = zero_tall("a", D, WIDTH)
    for start, stop in pairwise([0, 13, 13, 14, 40]):
        slab = sparse_rows(X[start:stop], np.float32 if kind == "counts" else None)
        add_tall(sums, "a", slab, Z[start:stop])
    dense = X if kind == "counts" else X > 0
    np.testing.assert_array_equal(tall(sums, "a"), dense.T.astype(np.float32) @ Z)


def test_zero_tall__is_zero(hot: int) -> None:
    sums = zero_tall("a", D, WIDTH)
    assert all(not array.any() for array in sums.values())
    np.testing.assert_array_equal(tall(sums, "a"), np.zeros((D, WIDTH)))


def test_tall__is_made_in_the_accumulators_own_memory(hot: int) -> None:
    sums = added(zero_tall("a", D, WIDTH), rows(40), whole_numbers(40, WIDTH))
    assert any(tall(sums, "a") is array for array in sums.values())


def test_tall__may_be_called_between_additions(hot: int) -> None:
    X, Z = rows(40), whole_numbers(40, WIDTH)
    sums, expected = zero_tall("a", D, WIDTH), np.zeros((D, WIDTH))
    for start, stop in pairwise([0, 10, 25, 40]):
        added(sums, X[start:stop], Z[start:stop])
        expected += X[start:stop].T @ Z[start:stop]
        for _ in range(2):
            np.testing.assert_array_equal(tall(sums, "a"), expected)


def test_tall__sums_under_two_names_do_not_meet(hot: int) -> None:
    X, Z = rows(40), whole_numbers(40, WIDTH)
    sums = {**zero_tall("a", D, WIDTH), **zero_tall("b", D, WIDTH)}
    add_tall(sums, "a", sparse_rows(X, np.float32), Z)
    add_tall(sums, "b", sparse_rows(X[:9], np.float32), Z[:9])
    np.testing.assert_array_equal(tall(sums, "a"), X.T @ Z)
    np.testing.assert_array_equal(tall(sums, "b"), X[:9].T @ Z[:9])
    assert len(sums) == 4


# -- precision ------------------------------------------------------------------------------------------


def test_hot__first_words_keep_what_single_precision_loses(hot: int) -> None:
    ones = np.ones((1, D))
    sums = added(zero_tall("a", D, 1), ones, np.full((1, 1), LARGE))
    for _ in range(64):
        added(sums, ones, np.ones((1, 1), np.float32))
    out = tall(sums, "a")[:, 0]
    np.testing.assert_array_equal(out[:hot], LARGE + 64)
    np.testing.assert_array_equal(out[hot:], LARGE)  # each addition of a one was lost


@pytest.mark.parametrize("between", [True, False])
def test_hot__stays_double_when_it_is_looked_at(hot: int, between: bool) -> None:
    ones = np.ones((1, D))
    sums = added(zero_tall("a", D, 1), ones, np.full((1, 1), LARGE))
    for _ in range(3):
        added(sums, ones, np.ones((1, 1), np.float32))
        if between:
            tall(sums, "a")  # rounds 2**25 + 1 to 2**25, for show only
    added(sums, ones, np.ones((1, 1), np.float32))
    np.testing.assert_array_equal(tall(sums, "a")[:hot, 0], LARGE + 4)


@pytest.mark.parametrize("merge", [merge_into])
def test_hot__stays_double_when_it_is_merged(hot: int, merge: Callable[[Sums, Sums], Sums]) -> None:
    ones = np.ones((1, D))
    total = added(zero_tall("a", D, 1), ones, np.full((1, 1), LARGE))
    for _ in range(4):
        total = merge(total, added(zero_tall("a", D, 1), ones, np.ones((1, 1), np.float32)))
    np.testing.assert_array_equal(tall(total, "a")[:hot, 0], LARGE + 4)


def test_hot__many_additions_err_like_double_precision() -> None:
    """As long as each slab is short: 20,000 documents one by one, all of them with the same word."""
    n = 20_000
    rng = np.random.default_rng(0)
    Z = rng.random((n, 1), dtype=np.float32)
    X = np.zeros((n, HOT + 1))
    X[:, [0, HOT]] = 1
    words = sparse_rows(X)
    sums = zero_tall("a", HOT + 1, 1)
    for start in range(0, n, 10):
        add_tall(sums, "a", words.slice(start, start + 10), Z[start : start + 10])
    exact = Z.sum(dtype=np.float64)
    errors = abs(tall(sums, "a")[[0, HOT], 0] - exact) / exact
    assert errors[0] < 1e-7  # but for the rounding of the result itself
    assert errors[1] > 3e-7  # the same sum in single precision


# -- merging --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("looked_at", [(), (0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("merge", [merge_into])
def test_merge__adds_two_accumulators(
    hot: int, merge: Callable[[Sums, Sums], Sums], looked_at: tuple[int, ...]
) -> None:
    X, Z = rows(40), whole_numbers(40, WIDTH)
    parts = [
        added(zero_tall("a", D, WIDTH), X[:15], Z[:15]),
        added(zero_tall("a", D, WIDTH), X[15:30], Z[15:30]),
    ]
    for number in looked_at:
        tall(parts[number], "a")
    total = merge(*parts)
    np.testing.assert_array_equal(tall(total, "a"), X[:30].T @ Z[:30])
    added(total, X[30:], Z[30:])
    np.testing.assert_array_equal(tall(total, "a"), X.T @ Z)
    np.testing.assert_array_equal(tall(parts[1], "a"), X[15:30].T @ Z[15:30])


@given(cuts=st.lists(st.integers(0, 40), max_size=6), split=st.integers(0, 6), hot=st.sampled_from(HOTS))
def test_tall__does_not_depend_on_slabs_and_segments(cuts: list[int], split: int, hot: int) -> None:
    X, Z = rows(40), normal(40, WIDTH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "HOT", hot)
        parts = [zero_tall("a", D, WIDTH), zero_tall("a", D, WIDTH)]
        for number, (start, stop) in enumerate(pairwise([0, *sorted(cuts), 40])):
            added(parts[number >= split], X[start:stop], Z[start:stop])
        out = tall(merge_into(*parts), "a")
    np.testing.assert_allclose(out, X.T @ Z.astype(np.float64), rtol=1e-6, atol=1e-5)


# -- sizes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [0, 1, 9])
@pytest.mark.parametrize("n_terms", [0, 1, HOT - 1, HOT, HOT + 1, 5000])
def test_tall_bytes__is_the_true_size(n_terms: int, width: int) -> None:
    sums = zero_tall("a", n_terms, width)
    assert tall_bytes(n_terms, width) == sum(array.nbytes for array in sums.values())


def test_tall_bytes__is_about_that_of_single_precision() -> None:
    assert 4 <= tall_bytes(10**6, 100) / 10**8 < 4.01
