"""Orthonormal bases: of the span, whatever the columns are like."""

from __future__ import annotations

import numpy as np
import pytest

from threepass.linalg.basis import orthonormal


def outside(vectors: np.ndarray, span: np.ndarray) -> float:
    """The largest share of a column's length that lies outside the columns' span."""
    U, values, _ = np.linalg.svd(span.astype(np.float64), full_matrices=False)
    U = U[:, values > 1e-5 * values.max(initial=0)]
    left = vectors - U @ (U.T @ vectors)
    return float((np.linalg.norm(left, axis=0) / np.linalg.norm(vectors, axis=0)).max(initial=0))


def assert_orthonormal(B: np.ndarray, atol: float = 1e-5) -> None:
    assert B.dtype == np.float32
    assert B.flags.c_contiguous
    B = B.astype(np.float64)
    np.testing.assert_allclose(B.T @ B, np.eye(B.shape[1]), atol=atol)


@pytest.mark.parametrize(("n_terms", "p"), [(1, 1), (30, 1), (30, 7), (8, 8), (400, 60)])
def test_orthonormal__basis_of_the_span(n_terms: int, p: int) -> None:
    M = np.random.default_rng(p).standard_normal((n_terms, p)).astype(np.float32)
    kept = M.copy()
    B = orthonormal(M)
    assert B.shape == (n_terms, p)
    assert_orthonormal(B, atol=1e-3 if n_terms == p else 1e-5)
    assert outside(M, B) < 1e-3
    assert outside(B, M) < 1e-3
    np.testing.assert_array_equal(M, kept)


def test_orthonormal__dependent_and_zero_columns_are_dropped() -> None:
    rng = np.random.default_rng(0)
    M = rng.standard_normal((50, 5)).astype(np.float32)
    zero, double, total = np.zeros((50, 1), np.float32), 2 * M[:, :1], M[:, 1:2] - 3 * M[:, 2:3]
    B = orthonormal(np.concatenate([zero, M, double, zero, total, M], axis=1))
    assert B.shape == (50, 5)
    assert_orthonormal(B)
    assert outside(M, B) < 1e-5


def test_orthonormal__more_columns_than_rows() -> None:
    B = orthonormal(np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32))
    assert B.shape == (6, 6)
    assert_orthonormal(B)


def test_orthonormal__short_columns_count_as_much_as_long_ones() -> None:
    M = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    B = orthonormal(M * np.geomspace(1e-12, 1e12, 6).astype(np.float32))
    assert B.shape == (50, 6)
    assert_orthonormal(B)
    assert outside(M, B) < 1e-5


@pytest.mark.parametrize("p", [0, 1, 4])
def test_orthonormal__nothing_to_span(p: int) -> None:
    B = orthonormal(np.zeros((5, p), np.float32))
    assert B.shape == (5, 0)
    assert B.dtype == np.float32


def test_orthonormal__in_place() -> None:
    """Of two slices of rows and a bit."""
    M = np.random.default_rng(0).standard_normal((20_000, 6)).astype(np.float32)
    before, expected = M.copy(), orthonormal(M)
    np.testing.assert_array_equal(M, before)
    B = orthonormal(M, overwrite=True)
    assert B.base is M
    assert B.shape == M.shape
    np.testing.assert_array_equal(M, expected)
    M[:, 3] = M[:, 1]
    assert orthonormal(M, overwrite=True).shape == (20_000, 5)


@pytest.mark.parametrize("n_threads", [2, None])
def test_orthonormal__threads_do_not_change_a_bit(n_threads: int | None) -> None:
    M = np.random.default_rng(0).standard_normal((20_000, 40)).astype(np.float32)
    M[:, 7] = M[:, 3]
    one, other = (orthonormal(M, n_threads=n) for n in (1, n_threads))
    assert one.shape == (20_000, 39)
    np.testing.assert_array_equal(one, other)
