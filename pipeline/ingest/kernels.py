"""Compiled loops over the rows of a CSR triple; no Dask, no files."""

from __future__ import annotations

import numpy as np

from ..jit import jit
from ..types import Array


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
