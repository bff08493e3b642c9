"""`SparseRows`: the CSR triple that every kernel sees."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..types import CSR, Array
from .kernels import copy_rows, flaw_of_rows

if TYPE_CHECKING:
    import scipy.sparse
    import sparse

if "dask" in sys.modules:  # a worker, or a program that hands these rows to Dask itself
    from . import dask_compat as _dask_compat  # noqa: F401  (registers sizes and tokens of sparse blocks)


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows of a sparse matrix: column ids sorted and unique in each row, no stored zeros.

    Parameters
    ----------
    indptr
        (n_rows + 1,) int64; row i holds entries `indptr[i]` to `indptr[i + 1]`.
    indices
        (nnz,) int32 column ids.
    values
        (nnz,) positive values, or None when every stored value is 1.
    n_columns
        Width of the matrix.
    """

    indptr: Array
    indices: Array
    values: Array | None
    n_columns: int

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_columns

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        values = 0 if self.values is None else self.values.nbytes
        return int(self.indptr.nbytes + self.indices.nbytes + values)

    def flaw(self) -> str | None:
        """Description of a flaw in `indptr` or `indices`; None if there is none."""
        flaws = (
            None,
            f"its row starts are not in order from 0 to {self.nnz}",
            f"its columns are not all from 0 to {self.n_columns - 1}",
            "the columns of a row are not sorted and unique",
        )
        return flaws[flaw_of_rows(self.indptr, self.indices, self.n_columns)]

    def take(self, rows: Array) -> SparseRows:
        """Select rows by number, in the given order. No number may be negative."""
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

        def taken(entries: Array) -> Array:
            out = np.empty(indptr[-1], entries.dtype)
            copy_rows(self.indptr, entries, rows, indptr, out)
            return out

        values = None if self.values is None else taken(self.values)
        return SparseRows(indptr, taken(self.indices), values, self.n_columns)

    def slice(self, start: int, stop: int) -> SparseRows:
        """Rows `start` to `stop`. They share this object's memory, except for the `indptr`."""
        first, last = self.indptr[start], self.indptr[stop]
        values = None if self.values is None else self.values[first:last]
        return SparseRows(
            self.indptr[start : stop + 1] - first, self.indices[first:last], values, self.n_columns
        )

    def compact(self) -> tuple[SparseRows, Array]:
        """The same rows with only the columns in use, and the numbers of these columns, both in order."""
        used = np.zeros(self.n_columns, bool)
        used[self.indices] = True
        places = (np.cumsum(used) - 1).astype(np.int32)
        columns = np.flatnonzero(used)
        return SparseRows(self.indptr, places[self.indices], self.values, len(columns)), columns

    def values_as(self, dtype: npt.DTypeLike) -> Array:
        """Values as `dtype`, with implicit ones written out. Copies only if the type changes."""
        if self.values is None:
            return np.ones(self.nnz, dtype)
        return self.values.astype(dtype, copy=False)

    def csr(self) -> CSR:
        """The three arrays, with values in single precision. Copies values only if their type changes."""
        return self.indptr, self.indices, self.values_as(np.float32)

    def to_scipy(self, dtype: npt.DTypeLike = np.float32) -> scipy.sparse.csr_array:
        """A scipy CSR array on the same `indices`."""
        import scipy.sparse

        # scipy wants one type for both index arrays; the short one is the one to copy.
        indptr = self.indptr.astype(np.int32) if self.nnz < 2**31 else self.indptr
        triple = (self.values_as(dtype), self.indices, indptr)
        matrix = scipy.sparse.csr_array(triple, shape=self.shape)
        matrix.has_canonical_format = True
        return matrix

    def to_gcxs(self, dtype: npt.DTypeLike = np.float32) -> sparse.GCXS:
        """A pydata/sparse array on the same `indices` and `indptr`."""
        import sparse

        triple = (self.values_as(dtype), self.indices, self.indptr)
        return sparse.GCXS(triple, shape=self.shape, compressed_axes=(0,))

    @staticmethod
    def concatenate(parts: Sequence[SparseRows]) -> SparseRows:
        """Concatenate the rows of all parts, which must have the same width."""
        if len(parts) == 1:
            return parts[0]
        offsets = np.concatenate([[0], np.cumsum([part.nnz for part in parts])])
        indptr = np.concatenate(
            [np.zeros(1, np.int64), *(part.indptr[1:] + at for part, at in zip(parts, offsets, strict=False))]
        )
        indices = np.concatenate([part.indices for part in parts])
        values = None
        if any(part.values is not None for part in parts):
            widest = np.result_type(*(part.values.dtype for part in parts if part.values is not None))
            values = np.concatenate([part.values_as(widest) for part in parts])
        return SparseRows(indptr, indices, values, parts[0].n_columns)
