"""Compiled loops over the rows of a CSR triple; no Dask, no files."""

from __future__ import annotations

import numpy as np

from ..jit import jit
from ..types import Array


@jit
def merge_repeats(indptr: Array, indices: Array, values: Array) -> int:
    """Sort each row's columns, add up the values of repeated columns and drop zeros, all in place.

    Rows that already increase strictly only move. Repeats are added in order of appearance. Returns the
    number of entries that remain; entries beyond them are garbage.

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
def rename_columns(indptr: Array, indices: Array, rank: Array) -> None:
    """Renumber column c as `rank[c]` and sort each row again, in place; for rows without values.

    Cost: O(n log n) for a row of n entries; insertion sort for the short rows of titles.
    """
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        for j in range(start, stop):
            indices[j] = rank[indices[j]]
        if stop - start > 24:
            indices[start:stop].sort()
        else:
            for j in range(start + 1, stop):
                column = indices[j]
                i = j
                while i > start and indices[i - 1] > column:
                    indices[i] = indices[i - 1]
                    i -= 1
                indices[i] = column


@jit
def rename_columns_with_values(indptr: Array, indices: Array, values: Array, rank: Array) -> None:
    """Do as `rename_columns` for rows with values."""
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        keys = np.empty(stop - start, np.int64)
        for j in range(start, stop):
            # new column in the high half, old place in the low half: one sort moves both
            keys[j - start] = (np.int64(rank[indices[j]]) << 32) | (j - start)
        keys.sort()
        old = values[start:stop].copy()
        for j in range(stop - start):
            indices[start + j] = keys[j] >> 32
            values[start + j] = old[keys[j] & 0xFFFFFFFF]


@jit
def count_columns(indices: Array, counts: Array) -> None:
    """Add 1 to `counts[c]` for every entry in column c."""
    for column in indices:
        counts[column] += 1
