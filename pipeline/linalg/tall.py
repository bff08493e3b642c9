"""Products of tall matrices, which have a row for each word, with small ones.

Each product runs in slices of rows, on one BLAS thread each. So the result does not depend on the number of
threads, and threads do not wait for each other at every product. On a busy machine that would take longer
than the products.
"""

from __future__ import annotations

import operator
from typing import Protocol

import numpy as np

from ..tasks import map_tasks, one_blas_thread, ordered_reduce
from ..types import Array

_ROWS = 8192


class RowsOf(Protocol):
    """A tall matrix read in slices of rows: an array, or an object that computes rows on demand."""

    def __getitem__(self, rows: slice, /) -> Array: ...


@one_blas_thread()
def gram(A: RowsOf, B: Array, n_threads: int | None = None) -> Array:
    """(p, q) float64: A'B of (D, p) and (D, q), summed in their own type within a slice, in double across.

    Cost: 2 D p q flops, half of it where A is B.
    """

    def part(rows: slice) -> Array:
        return np.asarray(A[rows].T @ B[rows], np.float64)

    product: Array = ordered_reduce(
        part, operator.iadd, row_slices(len(B), _ROWS), name="gram", at_a_time=n_threads
    )
    return product


def times(tall: Array, small: Array, n_threads: int | None = None) -> Array:
    """(D, r): `tall` (D, p) times `small` (p, r), in the type of `tall`."""
    product = np.empty((len(tall), small.shape[1]), tall.dtype)
    return _times(tall, small, product, n_threads)


def times_in_place(tall: Array, small: Array, n_threads: int | None = None) -> Array:
    """(D, r): `tall` (D, p) times `small` (p, r), r <= p, written over `tall`.

    Cost: 2 D p r flops, without a second D x p matrix.
    """
    return _times(tall, small, tall[:, : small.shape[1]], n_threads)


@one_blas_thread()
def _times(tall: Array, small: Array, product: Array, n_threads: int | None) -> Array:
    small = small.astype(tall.dtype, copy=False)

    def part(rows: slice) -> None:
        product[rows] = tall[rows] @ small

    map_tasks(part, row_slices(len(tall), _ROWS), name="times", n_threads=n_threads)
    return product


def reorder_rows(tall: Array, order: Array, n_threads: int | None = None) -> Array:
    """Move row `order[i]` to place i, a few columns at a time to save a second tall matrix."""

    def part(columns: slice) -> None:
        tall[:, columns] = tall[order, columns]

    map_tasks(part, row_slices(tall.shape[1], 8), name="reorder", n_threads=n_threads)
    return tall


def gaussian(n_rows: int, width: int, seed: int, n_threads: int | None = None) -> Array:
    """(n_rows, width) float32: independent standard normals, the same for any number of threads."""
    out = np.empty((n_rows, width), np.float32)
    slices = row_slices(n_rows, _ROWS)
    streams = np.random.default_rng(seed).spawn(len(slices))

    def part(own: tuple[slice, np.random.Generator]) -> None:
        rows, stream = own
        stream.standard_normal(dtype=np.float32, out=out[rows])

    map_tasks(part, list(zip(slices, streams, strict=True)), name="gaussian", n_threads=n_threads)
    return out


@one_blas_thread()
def small_eigenpairs(matrix: Array) -> tuple[Array, Array]:
    """Ascending eigenvalues and eigenvectors of a small symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return values, vectors


def row_slices(n_rows: int, step: int = 4096) -> list[slice]:
    """Slices of a few thousand rows, so that the result of one is small and stays in cache."""
    return [slice(start, min(start + step, n_rows)) for start in range(0, max(1, n_rows), step)]
