"""Products of tall matrices: as plain ones, in place, and the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from threepass.linalg.tall import gaussian, gram, reorder_rows, row_slices, times, times_in_place

SLICE = 8192
"""Rows that are worked on at a time."""
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


tall_matrices = pytest.mark.parametrize("D", [1, 50, SLICE, 2 * SLICE + 3])


def whole_numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """Numbers that add and multiply without rounding."""
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(dtype)


@dtypes
@pytest.mark.parametrize(("p", "q"), [(1, 1), (6, 6), (6, 2), (0, 3)])
@tall_matrices
def test_gram__equals_the_plain_product(D: int, p: int, q: int, dtype: type) -> None:
    A, B = whole_numbers(D, p, dtype=dtype), whole_numbers(D, q, dtype=dtype)
    kept = A.copy(), B.copy()
    out = gram(A, B)
    assert out.dtype == np.float64
    assert out.shape == (p, q)
    np.testing.assert_array_equal(out, A.T @ B)
    for array, before in zip((A, B), kept, strict=True):
        np.testing.assert_array_equal(array, before)


@tall_matrices
def test_gram__of_some_columns_of_a_wider_matrix(D: int) -> None:
    wide = whole_numbers(D, 9)
    np.testing.assert_array_equal(gram(wide[:, :4], wide[:, :4]), wide[:, :4].T @ wide[:, :4])


def test_gram__across_slices_in_double_precision() -> None:
    column = np.zeros((65 * SLICE, 1), np.float32)
    column[::SLICE] = 1
    column[0] = 2**13  # single precision loses a one beside 2**26
    assert gram(column, column).tolist() == [[2**26 + 64]]


def test_gram__of_no_rows() -> None:
    np.testing.assert_array_equal(gram(np.zeros((0, 3)), np.zeros((0, 2))), np.zeros((3, 2)))


@dtypes
@pytest.mark.parametrize(("p", "r"), [(1, 1), (6, 6), (6, 2), (6, 0)])
@tall_matrices
def test_times_in_place__equals_the_plain_product(D: int, p: int, r: int, dtype: type) -> None:
    tall, small = whole_numbers(D, p, dtype=dtype), whole_numbers(p, r, dtype=np.float64)
    expected = tall @ small
    kept, rest = small.copy(), tall[:, r:].copy()
    out = times_in_place(tall, small)
    assert out.dtype == dtype
    assert out.base is tall
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(tall[:, :r], expected)
    np.testing.assert_array_equal(tall[:, r:], rest)
    np.testing.assert_array_equal(small, kept)


def test_times_in_place__of_no_rows() -> None:
    assert times_in_place(np.zeros((0, 3)), np.ones((3, 2))).shape == (0, 2)


@pytest.mark.parametrize("n_threads", [2, 3, None])
def test_products__threads_do_not_change_a_bit(n_threads: int | None) -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4 * SLICE + 5, 20), dtype=np.float32)
    A *= 10 ** rng.uniform(-3, 3, (len(A), 1)).astype(np.float32)
    small = rng.standard_normal((20, 14))
    one, other = (gram(A, A, n) for n in (1, n_threads))
    np.testing.assert_array_equal(one, other)
    one, other = (times_in_place(A.copy(), small, n) for n in (1, n_threads))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(times(A, small, n_threads), one)


@pytest.mark.parametrize("step", [1, 3, 4096])
@pytest.mark.parametrize("n_rows", [0, 1, 3, 7, 4096, 4097])
def test_row_slices__cover_every_row_once(n_rows: int, step: int) -> None:
    slices = row_slices(n_rows, step)
    assert [row for rows in slices for row in range(n_rows)[rows]] == list(range(n_rows))
    assert all(rows.stop - rows.start <= step for rows in slices)
    assert len(slices) == max(1, -(-n_rows // step))  # one that is empty, where there are none
    assert max(rows.stop for rows in slices) == n_rows


@dtypes
@pytest.mark.parametrize("width", [0, 1, 7, 8, 9, 20])
def test_reorder_rows__in_place(width: int, dtype: type) -> None:
    D = 50
    tall = np.random.default_rng(width).standard_normal((D, width)).astype(dtype)
    order = np.random.default_rng(1).permutation(D)
    expected = tall[order]
    assert reorder_rows(tall, order) is tall
    np.testing.assert_array_equal(tall, expected)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_gaussian__the_same_for_any_number_of_threads(n_threads: int) -> None:
    one = gaussian(20_000, 3, 5, 1)
    assert one.dtype == np.float32
    np.testing.assert_array_equal(gaussian(20_000, 3, 5, n_threads), one)
    assert not (gaussian(20_000, 3, 6, n_threads) == one).any()


def test_gaussian__independent_and_standard() -> None:
    draws = gaussian(30_000, 4, 0)
    np.testing.assert_allclose(draws.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), np.eye(4), atol=0.04)
    assert len(np.unique(draws)) > 0.98 * draws.size  # slices do not repeat each other
    assert gaussian(0, 4, 0).shape == (0, 4)
    assert gaussian(5, 0, 0).shape == (5, 0)
