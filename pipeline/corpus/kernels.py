"""Compiled copying of sparse rows; no Dask, no files."""

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
