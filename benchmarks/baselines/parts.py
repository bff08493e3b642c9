"""Documents in slabs of rows, shared out among threads: what LEML of any loss works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from threepass.corpus.rows import SparseRows
from threepass.types import Array

Part = list[tuple[SparseRows, SparseRows]]
"""Slabs of words and labels."""
Result = TypeVar("Result")


class Parts:
    """The words and labels of the documents, in slabs of rows, shared out among threads."""

    def __init__(self, parts: list[Part], pool: ThreadPoolExecutor, blas: ThreadpoolController) -> None:
        self._parts = parts
        self._pool = pool
        self._blas = blas

    @classmethod
    @contextmanager
    def shared_out(cls, X: SparseRows, Y: SparseRows, n_threads: int, slab: int) -> Iterator[Parts]:
        """A part for each thread, with about as many nonzeros as the others, in slabs of `slab` rows."""
        X, Y = single(X), replace(Y, values=None)
        cuts = np.searchsorted(X.indptr, np.linspace(0, X.nnz, n_threads + 1)[1:-1])
        parts = [
            [
                (X.slice(top, min(top + slab, stop)), Y.slice(top, min(top + slab, stop)))
                for top in range(start, stop, slab)
            ]
            for start, stop in pairwise([0, *cuts.tolist(), X.n_rows])
        ]
        blas = ThreadpoolController().select(user_api="blas")
        # Threads of BLAS spin for a while after each call, and would take the cores from ours.
        with ThreadPoolExecutor(n_threads) as pool, blas.limit(limits=1):
            yield cls(parts, pool, blas)

    def each(self, function: Callable[[Part], Result]) -> list[Result]:
        """`function` of each thread's slabs, at the same time."""
        return list(self._pool.map(function, self._parts))

    def all_cores(self) -> AbstractContextManager[object]:
        """Within it BLAS has as many threads as there are parts."""
        limit: AbstractContextManager[object] = self._blas.limit(limits=len(self._parts))
        return limit


def total(arrays: Sequence[Array]) -> Array:
    """The sum, in the place of the first."""
    for array in arrays[1:]:
        arrays[0][...] += array
    return arrays[0]


def with_bias(X: SparseRows, bias: float) -> SparseRows:
    """The same rows in single precision, and a column where all have `bias`; none if it is 0."""
    if bias == 0:
        return single(X)
    indptr = X.indptr + np.arange(X.n_rows + 1)
    values = np.insert(X.values_as(np.float32), X.indptr[1:], np.float32(bias))
    indices = np.insert(X.indices, X.indptr[1:], np.int32(X.n_columns))
    return SparseRows(indptr, indices, values, X.n_columns + 1)


def single(X: SparseRows) -> SparseRows:
    """The same rows, their values in single precision."""
    return X if X.values is None else replace(X, values=X.values_as(np.float32))
