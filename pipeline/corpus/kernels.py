"""Compiled copying and checking of sparse rows; no Dask, no files."""

from __future__ import annotations

from typing import Any

import numba
import numpy.typing as npt


@numba.njit(nogil=True, cache=True)
def copy_rows(
    indptr: npt.NDArray[Any],
    entries: npt.NDArray[Any],
    rows: npt.NDArray[Any],
    out_indptr: npt.NDArray[Any],
    out: npt.NDArray[Any],
) -> None:
    """Write the entries of the given rows, one after the other, to `out`; `out_indptr` says where."""
    for i in range(len(rows)):
        start = indptr[rows[i]]
        for j in range(out_indptr[i + 1] - out_indptr[i]):
            out[out_indptr[i] + j] = entries[start + j]


@numba.njit(nogil=True, cache=True)
def flaw_of_rows(indptr: npt.NDArray[Any], indices: npt.NDArray[Any], n_columns: int) -> int:
    """1: rows do not start one after the other, from 0 to nnz. 2: a column is out of range. 3: the columns of
    a row do not increase. 0: none of these.

    Notes
    -----
    Cost: three comparisons for each nonzero, without a branch, so that many are made at once: columns may fall
    only where a row starts, and it is enough to count.
    """
    n_rows, nnz = len(indptr) - 1, len(indices)
    if n_rows < 0 or indptr[0] != 0 or indptr[n_rows] != nnz:
        return 1
    falls_at_starts = 0
    for row in range(n_rows):
        start, stop = indptr[row], indptr[row + 1]
        if stop < start or stop > nnz:
            return 1
        if 0 < start < stop and indices[start] <= indices[start - 1]:
            falls_at_starts += 1
    if nnz == 0:
        return 0
    falls, least, most = 0, indices[0], indices[0]
    for entry in range(1, nnz):
        falls += indices[entry] <= indices[entry - 1]
        least, most = min(least, indices[entry]), max(most, indices[entry])
    if least < 0 or most >= n_columns:
        return 2
    return 3 if falls != falls_at_starts else 0
