"""Compiled copying, sorting, checking and hashing of sparse rows; no Dask, no files."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..jit import jit

_TILE = 2**16
"""Entries per tile, few enough to stay in cache."""


@jit
def copy_rows(
    indptr: npt.NDArray[Any],
    entries: npt.NDArray[Any],
    rows: npt.NDArray[Any],
    out_indptr: npt.NDArray[Any],
    out: npt.NDArray[Any],
) -> None:
    """Copy the entries of the given rows, in order, to the places in `out` that `out_indptr` names."""
    for i in range(len(rows)):
        start = indptr[rows[i]]
        for j in range(out_indptr[i + 1] - out_indptr[i]):
            out[out_indptr[i] + j] = entries[start + j]


@jit
def merge_repeats(indptr: npt.NDArray[Any], indices: npt.NDArray[Any], values: npt.NDArray[Any]) -> int:
    """Sort each row's columns, add up the values of repeated ones and drop zeros, all in place.

    Rows that are strictly increasing already only move. Returns how many entries remain; what lies beyond
    them is garbage. Repeats are added in order of appearance.

    Cost: O(nnz) for sorted rows, O(n log n) for a row of n entries that is not.
    """
    kept = 0
    start = indptr[0]
    for row in range(len(indptr) - 1):
        stop = indptr[row + 1]
        increasing = True
        for j in range(start + 1, stop):
            if indices[j] <= indices[j - 1]:
                increasing = False
                break
        if not increasing:
            order = np.argsort(indices[start:stop], kind="mergesort")
            indices[start:stop] = indices[start:stop][order]
            values[start:stop] = values[start:stop][order]
        row_start = kept
        j = start
        while j < stop:
            column, value = indices[j], values[j]
            j += 1
            while j < stop and indices[j] == column:
                value += values[j]
                j += 1
            if value != 0:
                indices[kept] = column
                values[kept] = value
                kept += 1
        indptr[row] = row_start
        start = stop
    indptr[len(indptr) - 1] = kept
    return kept


@jit
def flaw_of_rows(indptr: npt.NDArray[Any], indices: npt.NDArray[Any], n_columns: int) -> int:
    """Code of the first flaw in some rows, or 0.

    1: row starts are not in order from 0 to nnz. 2: a column is out of range. 3: the columns of a row do not
    increase.

    Notes
    -----
    Cost: two comparisons for each nonzero, without a branch, so that the compiler can vectorise them. Columns
    may fall only where a row starts, so it is enough to count the falls. Memory is read once, tile by tile.
    """
    n_rows, nnz = len(indptr) - 1, len(indices)
    if n_rows < 0 or indptr[0] != 0 or indptr[n_rows] != nnz:
        return 1
    row = falls = 0
    largest = 0
    for first in range(0, nnz + 1, _TILE):  # one further, for empty rows that start at nnz
        before = max(0, first - 1)
        falls_here, largest_here = _falls(indices[before : first + _TILE].view(np.uint32))
        falls += falls_here
        largest = max(largest, largest_here)
        while row < n_rows and indptr[row] < first + _TILE:
            start, stop = indptr[row], indptr[row + 1]
            if stop < start or stop > nnz:
                return 1
            if 0 < start < stop:
                falls -= indices[start] <= indices[start - 1]
            row += 1
    if nnz and largest >= n_columns:
        return 2
    return 3 if falls else 0


@jit
def _falls(columns: npt.NDArray[Any]) -> tuple[int, int]:
    """Number of columns not above the one before, and the largest column. Unsigned: negatives are huge."""
    falls, largest = 0, np.uint32(0)
    if len(columns):
        largest = columns[0]
    for entry in range(1, len(columns)):
        falls += columns[entry] <= columns[entry - 1]
        largest = max(largest, columns[entry])
    return falls, np.int64(largest)


@jit
def hash_rows(
    indptr: npt.NDArray[Any], columns: npt.NDArray[Any], values: npt.NDArray[Any], out: npt.NDArray[Any]
) -> None:
    """Write a hash of each row's columns and values to `out`; -1 for an empty row.

    The hash does not depend on the order of the entries. `values` are the bits of single precision numbers as
    uint32, or empty if every value is 1.
    """
    one = np.uint64(0x3F800000)  # the bits of 1
    for row in range(len(indptr) - 1):
        total = np.uint64(0)
        for entry in range(indptr[row], indptr[row + 1]):
            value = np.uint64(values[entry]) if len(values) else one
            total += _mixed((np.uint64(columns[entry]) << np.uint64(32)) | value)
        empty = indptr[row] == indptr[row + 1]
        out[row] = -1 if empty else np.int64(_mixed(total) >> np.uint64(1))


@jit
def _mixed(z: int) -> int:
    """Splitmix64's finisher."""
    z += np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
