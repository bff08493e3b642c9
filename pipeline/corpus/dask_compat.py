"""Sizes and deterministic tokens of sparse blocks, registered with Dask.

Without them `dask.sizeof.sizeof` sees 56 bytes in a block of 64 MB, so a worker never starts to spill, and
`dask.base.tokenize` gives a scipy matrix a new token each time.
"""

from __future__ import annotations

from typing import Any

import scipy.sparse
import sparse
from dask.base import normalize_token
from dask.sizeof import sizeof

_ARRAYS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
    "gcxs": ("data", "indices", "indptr"),
    "pydata_coo": ("data", "coords"),
}
_OVERHEAD = 200  # bytes of Python objects around the arrays


def _kind(matrix: Any) -> str:
    if isinstance(matrix, sparse.GCXS):
        return "gcxs"
    return "pydata_coo" if isinstance(matrix, sparse.COO) else str(matrix.format)


def _size(matrix: Any) -> int:
    names = _ARRAYS.get(_kind(matrix))
    if names is None:  # lil and dok: Python objects per entry
        return _OVERHEAD + 100 * int(matrix.nnz)
    return _OVERHEAD + sum(int(getattr(matrix, name).nbytes) for name in names)


def _token(matrix: Any) -> Any:
    kind = _kind(matrix)
    source = matrix if kind in _ARRAYS else matrix.tocoo()
    arrays = [normalize_token(getattr(source, name)) for name in _ARRAYS.get(kind, _ARRAYS["coo"])]
    return (type(matrix).__name__, kind, matrix.shape, str(matrix.dtype), *arrays)


for _class in (sparse.GCXS, sparse.COO, scipy.sparse.sparray, scipy.sparse.spmatrix):
    sizeof.register(_class, _size)
    normalize_token.register(_class, _token)
