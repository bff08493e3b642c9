"""Pure functions from a few CSR rows, and arrays, to partial sums. No Dask, no files.

`X` is the block's words: binary when `values` is None, else counts c. Sums are added into `out`, so that one
accumulator serves a whole segment. Letters are the paper's; shapes stand beside them.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from pipeline.corpus.rows import Array, SparseRows

SLAB = 4096
"""Rows that are worked on at a time: their dense (SLAB, K) products stay in cache or close to it."""
_TRIPLE_SLAB = 512
_TRIPLE_BLOCK = 16

_jit = numba.njit(nogil=True, cache=True, fastmath=True)


def times(X: SparseRows, W: Array, dtype: npt.DTypeLike = None) -> Array:
    """Z = X W: (n, D) sparse times (D, K), summed in `dtype`, or in that of W.

    Cost: nnz rows of W are gathered; n K floats out.
    """
    Z = np.zeros((X.n_rows, W.shape[1]), dtype or W.dtype)
    _times(X.indptr, X.indices, X.values, W, Z)
    return Z


def add_transposed_times(X: SparseRows, Z: Array, out: Array) -> None:
    """out += X' Z: (D, n) sparse times (n, K).

    Cost: nnz rows of `out` are read and written.
    """
    _add_transposed_times(X.indptr, X.indices, X.values, Z, out)


def add_pairs(X: SparseRows, out: Array) -> None:
    """out += X' X, only for i <= j: the sum of x ⊗ x over documents (the paper's pass 1).

    Cost: sum of nnz(x)² / 2 additions; no memory.
    """
    _add_pairs(X.indptr, X.indices, X.values, out)


def add_whitened_triples(Z: Array, out: Array) -> None:
    """out += the sum of z ⊗ z ⊗ z over the rows of Z (n, K), only for i <= j, k (the paper's pass 2).

    The plain formula is `np.einsum("ni,nj,nk->ijk", Z, Z, Z)`. Here a few i at a time make one GEMM of
    (few · (K - i), n) by (n, K - i), in the type of Z, added to `out` (K, K, K) in its own; `symmetrised`
    fills in the rest at the very end.

    Cost: 2/3 n K³ flops; a third of the plain product's.
    """
    K = Z.shape[1]
    for top in range(0, len(Z), _TRIPLE_SLAB):
        slab = Z[top : top + _TRIPLE_SLAB]  # (s, K)
        for i in range(0, K, _TRIPLE_BLOCK):
            j = min(i + _TRIPLE_BLOCK, K)
            P = slab[:, i:j, None] * slab[:, None, i:]  # (s, j - i, K - i)
            triples = P.reshape(len(slab), -1).T @ slab[:, i:]
            out[i:j, i:, i:] += triples.reshape(j - i, K - i, K - i)


def symmetrised(triples: Array) -> Array:
    """(K, K, K): the whole tensor from its entries with i <= j, k."""
    K = len(triples)
    i, j, k = np.ogrid[:K, :K, :K]
    first = np.minimum(np.minimum(i, j), k)
    # the other two indices, in any order: entry (first, a, b) and (first, b, a) are the same sum
    largest = np.maximum(np.maximum(i, j), k)
    whole: Array = triples[first, i + j + k - first - largest, largest]
    return whole


def add_label_moments(Y: SparseRows, S: Array, out: Array) -> None:
    """out[l] += the sum of S[d] over the documents d that carry label l: Y' S (the paper's pass 3).

    Cost: nnz(Y) rows of `out` (L, K) are read and written; no N x L array.
    """
    _add_transposed_times(Y.indptr, Y.indices, None, S, out)


@_jit
def unit_rows(indptr: Array, indices: Array, values: Array | None, idf: Array, log: bool, out: Array) -> None:
    """Write tf · idf of each entry into `out` (nnz,), every row of length 1: `Weighting.of`."""
    for row in range(len(indptr) - 1):
        squares = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            weight = _term_frequency(values, entry, log) * idf[indices[entry]]
            squares += weight * weight
        scale = 1.0 / np.sqrt(squares) if squares > 0.0 else 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            out[entry] = _term_frequency(values, entry, log) * idf[indices[entry]] * scale


@_jit
def _term_frequency(values: Array | None, entry: int, log: bool) -> float:
    count = 1.0 if values is None else float(values[entry])
    return 1.0 + np.log(count) if log and count > 1.0 else count


@_jit
def _times(indptr: Array, indices: Array, values: Array | None, W: Array, Z: Array) -> None:
    K = W.shape[1]
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            column = indices[entry]
            if values is None:
                for k in range(K):
                    Z[row, k] += W[column, k]
            else:
                value = values[entry]
                for k in range(K):
                    Z[row, k] += value * W[column, k]


@_jit
def _add_transposed_times(indptr: Array, indices: Array, values: Array | None, Z: Array, out: Array) -> None:
    K = Z.shape[1]
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            column = indices[entry]
            if values is None:
                for k in range(K):
                    out[column, k] += Z[row, k]
            else:
                value = values[entry]
                for k in range(K):
                    out[column, k] += value * Z[row, k]


@_jit
def _add_pairs(indptr: Array, indices: Array, values: Array | None, out: Array) -> None:
    for row in range(len(indptr) - 1):
        stop = indptr[row + 1]
        for i in range(indptr[row], stop):
            for j in range(i, stop):
                if values is None:
                    out[indices[i], indices[j]] += 1.0
                else:
                    out[indices[i], indices[j]] += values[i] * values[j]
