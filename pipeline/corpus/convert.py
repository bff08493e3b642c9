"""Conversion of any library's matrices to canonical sparse rows. Imports no library to recognise it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .rows import SparseRows
from .store import Corpus


def is_dask(matrix: Any) -> bool:
    """Whether the matrix is a Dask array."""
    return _package(matrix) == "dask"


def is_pydata(matrix: Any) -> bool:
    """Whether the matrix is a pydata/sparse array."""
    return _package(matrix) == "sparse"


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def as_scipy(matrix: Any) -> Any:
    """Convert sparse matrices of any library to scipy's, and lists to arrays. Lazy matrices stay lazy."""
    if matrix is None or is_dask(matrix) or isinstance(matrix, Corpus | str | Path):
        return matrix
    if is_pydata(matrix):
        import sparse

        return sparse.COO(matrix).to_scipy_sparse() if matrix.ndim == 2 else matrix.todense()
    if hasattr(matrix, "tocsr") or hasattr(matrix, "iloc"):
        return matrix
    return np.asarray(matrix)


def as_rows(matrix: Any, name: str, indicator: bool = False) -> SparseRows:
    """Canonical sparse rows of a matrix in memory, which does not change.

    Parameters
    ----------
    indicator
        Drop the values and keep only which are not 0, as for labels.
    """
    import scipy.sparse  # texts do without

    csr = scipy.sparse.csr_array(as_scipy(matrix))
    if csr.dtype.kind not in "buif":
        raise InputError(f"{name} must hold numbers. Found type {csr.dtype}.")
    if not csr.has_canonical_format or (csr.data == 0).any():
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    if csr.data.dtype.kind == "f" and not np.isfinite(csr.data).all():
        raise InputError(
            f"{name} holds NaN or infinite values. Found in row {_row_of(csr, ~np.isfinite(csr.data))}."
        )
    if (csr.data < 0).any():
        raise InputError(
            f"{name} holds negative values. Found in row {_row_of(csr, csr.data < 0)}. "
            "Negative values in data are neither counts nor labels."
        )
    values = None if indicator or csr.dtype == bool else csr.data
    return SparseRows(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), values, csr.shape[1])


def _row_of(csr: Any, bad: Any) -> int:
    return int(np.searchsorted(csr.indptr, np.flatnonzero(bad)[0], side="right")) - 1
