"""Pure functions from a few CSR rows, and arrays, to partial sums. No Dask, no files.

`X` is the block's words: binary when `values` is None, else counts c. Sums are added into `out`, so that one
accumulator serves a whole segment. Letters are the paper's; shapes stand beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..corpus.rows import SparseRows
from ..jit import jit
from ..types import Array

SLAB = 4096
"""Rows that are worked on at a time: their dense (SLAB, K) products stay in cache or close to it."""
_WORDS = 1024
"""Words whose sums are made at a time: they stay in cache."""
_TRIPLE_SLAB = 2048
TRIPLE_BLOCK = 4

_jit = jit(fastmath=True)


def times(X: SparseRows, W: Array, dtype: npt.DTypeLike = None, columns: slice | None = None) -> Array:
    """Z = X W: (n, D) sparse times (D, K), summed in `dtype`, or in that of W; or only some columns of it.

    W is in single precision, or of short integers.

    Cost: nnz rows of W are gathered; n K floats out.
    """
    first, last = (0, W.shape[1]) if columns is None else (columns.start, columns.stop)
    Z = np.zeros((X.n_rows, last - first), dtype or W.dtype)
    _times(X.indptr, X.indices, X.values, W, first, Z)
    return Z


def add_transposed_times(X: SparseRows, Z: Array, out: Array) -> None:
    """out += X' Z: (D, n) sparse times (n, K); for the first words alone where `out` has fewer rows.

    Cost: nnz rows of `out` are read and written.
    """
    _add_transposed_times(X.indptr, X.indices, X.values, Z, out)


def later_columns(X: SparseRows, first: int) -> SparseRows:
    """The columns of X from `first` on, numbered from 0.

    Cost: a binary search in each row; what is left is copied.
    """
    indptr = np.zeros(X.n_rows + 1, np.int64)
    _count_later(X.indptr, X.indices, first, indptr)
    np.cumsum(indptr, out=indptr)

    def later(entries: Array) -> Array:
        out = np.empty(indptr[-1], entries.dtype)
        _copy_ends(X.indptr, entries, indptr, out)
        return out

    indices = later(X.indices)
    indices -= first
    values = None if X.values is None else later(X.values)
    return SparseRows(indptr, indices, values, X.n_columns - first)


def add_word_sums(parts: Sequence[tuple[SparseRows, Array]], out: Array) -> None:
    """out += X' Z of all parts together, word by word: what there is for a word is summed up, then added.

    The way for words that few documents have: every row of `out` (D, K) is reached once, not once for each
    document, and the sums are those that an `out` of zeros would have held.

    Cost: nnz rows of Z are gathered, as many rows of `out` read and written as words are in use; 8 bytes for
    each word and part, 4 and its value for each nonzero.
    """
    by_word = [_Transposed.of(X) for X, _ in parts]
    sums = np.empty((min(_WORDS, len(out)), out.shape[1]), out.dtype)
    for first in range(0, len(out), _WORDS):
        last = min(first + _WORDS, len(out))
        sums[: last - first] = 0
        for part, (_, Z) in zip(by_word, parts, strict=True):
            _add_word_sums(part.starts[first : last + 1], part.rows, part.values, Z, sums)
        out[first:last] += sums[: last - first]


def add_pairs(X: SparseRows, out: Array) -> None:
    """out += X' X, only for i <= j: the sum of x ⊗ x over documents (the paper's pass 1).

    Cost: sum of nnz(x)² / 2 additions; no memory.
    """
    _add_pairs(X.indptr, X.indices, X.values, out)


def add_whitened_triples(Z: Array, out: Array) -> None:
    """out += the sum of z ⊗ z ⊗ z over the rows of Z (n, K), only for i <= j <= k (the paper's pass 2).

    The plain formula is `np.einsum("ni,nj,nk->ijk", Z, Z, Z)`. Here a few j at a time, with all i up to them,
    make one GEMM of (few · j, n) by (n, K - j), in the type of Z, added to `out` (K, K, K) in its own. What
    else is written to `out` lies within a block of j; `symmetrise` reads none of it.

    Cost: 1/3 n K³ flops, and few · K² for each n.
    """
    K = Z.shape[1]
    # made once: the system takes longer to hand out such arrays than it takes to fill them
    rows = min(len(Z), _TRIPLE_SLAB)
    all_pairs = np.empty(K * TRIPLE_BLOCK * rows, Z.dtype)
    all_triples = np.empty(K * TRIPLE_BLOCK * K, Z.dtype)
    for top in range(0, len(Z), _TRIPLE_SLAB):
        slab = Z[top : top + _TRIPLE_SLAB]  # (s, K)
        s = len(slab)
        columns = np.ascontiguousarray(slab.T)  # (K, s)
        for j in range(0, K, TRIPLE_BLOCK):
            end = min(j + TRIPLE_BLOCK, K)
            n_pairs = end * (end - j)
            P = all_pairs[: n_pairs * s].reshape(end, end - j, s)
            triples = all_triples[: n_pairs * (K - j)].reshape(n_pairs, K - j)
            np.multiply(columns[:end, None], columns[None, j:end], out=P)
            np.matmul(P.reshape(n_pairs, s), slab[:, j:], out=triples)
            out[:end, j:end, j:] += triples.reshape(end, end - j, K - j)


@_jit
def symmetrise(triples: Array) -> None:
    """Make the tensor (K, K, K) whole, in place, from its entries with i <= j <= k."""
    K = len(triples)
    for i in range(K):
        for j in range(i, K):
            for k in range(j, K):
                value = triples[i, j, k]
                triples[i, k, j] = value
                triples[j, i, k] = value
                triples[j, k, i] = value
                triples[k, i, j] = value
                triples[k, j, i] = value


def add_label_moments(Y: SparseRows, S: Array, out: Array) -> None:
    """out[l] += the sum of S[d] over the documents d that carry label l: Y' S (the paper's pass 3).

    Cost: nnz(Y) rows of `out` (L, K) are read and written; no N x L array.
    """
    _add_transposed_times(Y.indptr, Y.indices, None, S, out)


@_jit
def add_rows(ids: Array, W: Array, out: Array) -> None:
    """out += the rows of W (D, K) with these numbers: reaching rows, and nothing else."""
    for i in ids:
        for k in range(W.shape[1]):
            out[k] += W[i, k]


@jit  # fast mathematics would simplify the rounding away
def round_to_half(values: Array) -> None:
    """Round float32 numbers to those that half precision holds, in place; none may be too large for it.

    Veltkamp's splitting keeps the first 11 bits of 24. Below 2^-14 half precision has steps of 2^-24, which
    are the last bits of numbers around 0.75.
    """
    split, smallest, shift = np.float32(2.0**13 + 1), np.float32(2.0**-14), np.float32(0.75)
    for i in range(len(values)):
        value = values[i]
        if abs(value) < smallest:
            values[i] = (value + shift) - shift
        else:
            scaled = value * split
            values[i] = scaled - (scaled - value)


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
def _times(indptr: Array, indices: Array, values: Array | None, W: Array, first: int, Z: Array) -> None:
    K = Z.shape[1]
    for row in range(len(indptr) - 1):
        z = Z[row]
        for entry in range(indptr[row], indptr[row + 1]):
            w = W[indices[entry], first : first + K]  # a view: `first + k` as an index would not vectorise
            if values is None:
                for k in range(K):
                    z[k] += np.float32(w[k])  # W may hold short integers
            else:
                value = values[entry]
                for k in range(K):
                    z[k] += value * np.float32(w[k])


@_jit
def _add_transposed_times(indptr: Array, indices: Array, values: Array | None, Z: Array, out: Array) -> None:
    K = Z.shape[1]
    for row in range(len(indptr) - 1):
        z = Z[row]
        for entry in range(indptr[row], indptr[row + 1]):
            if indices[entry] >= len(out):
                break  # columns are sorted
            o = out[indices[entry]]
            if values is None:
                for k in range(K):
                    o[k] += z[k]
            else:
                value = values[entry]
                for k in range(K):
                    o[k] += value * z[k]


class _Transposed(NamedTuple):
    """The rows that have each column, in order."""

    starts: Array
    """(D + 1,) int64."""
    rows: Array
    """(nnz,) int32."""
    values: Array | None

    @classmethod
    def of(cls, X: SparseRows) -> _Transposed:
        values = None if X.values is None else np.empty(X.nnz, X.values.dtype)
        transposed = cls(np.zeros(X.n_columns + 1, np.int64), np.empty(X.nnz, np.int32), values)
        _transpose(X.indptr, X.indices, X.values, *transposed)
        return transposed


@_jit
def _count_later(indptr: Array, indices: Array, first: int, counts: Array) -> None:
    """counts[row + 1] = how many entries of the row are in columns from `first` on."""
    for row in range(len(indptr) - 1):
        own = indices[indptr[row] : indptr[row + 1]]
        counts[row + 1] = len(own) - np.searchsorted(own, first)


@_jit
def _copy_ends(indptr: Array, entries: Array, out_indptr: Array, out: Array) -> None:
    """Write the last entries of each row, as many as `out_indptr` has room for."""
    for row in range(len(indptr) - 1):
        skipped = indptr[row + 1] - out_indptr[row + 1]
        for at in range(out_indptr[row], out_indptr[row + 1]):
            out[at] = entries[at + skipped]


@_jit
def _transpose(
    indptr: Array,
    indices: Array,
    values: Array | None,
    starts: Array,
    rows: Array,
    out_values: Array | None,
) -> None:
    """The rows, and values, of each column, in order; `starts` (D + 1,) comes as zeros."""
    for column in indices:
        starts[column + 1] += 1
    for column in range(len(starts) - 1):
        starts[column + 1] += starts[column]
    places = starts[:-1].copy()
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            place = places[indices[entry]]
            places[indices[entry]] += 1
            rows[place] = row
            if values is not None and out_values is not None:
                out_values[place] = values[entry]


@_jit
def _add_word_sums(starts: Array, rows: Array, values: Array | None, Z: Array, out: Array) -> None:
    """out[word] += the rows of Z that a word has, for some words; their rows are between `starts`."""
    K = Z.shape[1]
    for word in range(len(starts) - 1):
        o = out[word]
        for entry in range(starts[word], starts[word + 1]):
            z = Z[rows[entry]]
            if values is None:
                for k in range(K):
                    o[k] += z[k]
            else:
                value = values[entry]
                for k in range(K):
                    o[k] += value * z[k]


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
