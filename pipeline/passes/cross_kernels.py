"""Compiled sums of a sparse matrix, a row for each label and a column for each word; no Dask, no files."""

from __future__ import annotations

import numba
import numpy as np

from pipeline.corpus.rows import Array

_jit = numba.njit(nogil=True, cache=True)


@_jit
def add_documents(
    indptr: Array,
    indices: Array,
    values: Array,
    x_indptr: Array,
    x_indices: Array,
    x_values: Array,
    docs_indptr: Array,
    docs: Array,
    n_columns: int,
) -> tuple[Array, Array, Array]:
    """The CSR triple of M + Y'X.

    Parameters
    ----------
    indptr, indices, values
        M (L, D): a row's columns may stand in any order, but not twice.
    x_indptr, x_indices, x_values
        X (n, D).
    docs_indptr, docs
        The documents of each label: Y' without its ones.

    Notes
    -----
    Cost: nnz(M) + sum nnz(x) nnz(y) additions into one dense row; 8 bytes for each, before the cut to size.
    """
    n_labels = len(indptr) - 1
    most = len(indices)
    for label in range(n_labels):
        for d in docs[docs_indptr[label] : docs_indptr[label + 1]]:
            most += x_indptr[d + 1] - x_indptr[d]
    out_indptr = np.zeros(n_labels + 1, np.int64)
    out_indices = np.empty(most, np.int32)
    out_values = np.empty(most, np.float32)
    row = np.zeros(n_columns, np.float64)
    seen = np.zeros(n_columns, np.bool_)
    end = 0
    for label in range(n_labels):
        start = end
        for entry in range(indptr[label], indptr[label + 1]):
            column = indices[entry]
            seen[column] = True
            row[column] = values[entry]
            out_indices[end] = column
            end += 1
        for d in docs[docs_indptr[label] : docs_indptr[label + 1]]:
            for entry in range(x_indptr[d], x_indptr[d + 1]):
                column = x_indices[entry]
                if not seen[column]:
                    seen[column] = True
                    out_indices[end] = column
                    end += 1
                row[column] += x_values[entry]
        for entry in range(start, end):
            column = out_indices[entry]
            out_values[entry] = row[column]
            row[column] = 0.0
            seen[column] = False
        out_indptr[label + 1] = end
    return out_indptr, out_indices[:end].copy(), out_values[:end].copy()


@_jit
def largest_entries(indptr: Array, indices: Array, values: Array, most: int) -> tuple[Array, Array, Array]:
    """The CSR triple with only the `most` largest entries of each row; the first of equal ones."""
    n_rows = len(indptr) - 1
    out_indptr = np.zeros(n_rows + 1, np.int64)
    for row in range(n_rows):
        out_indptr[row + 1] = out_indptr[row] + min(most, indptr[row + 1] - indptr[row])
    out_indices = np.empty(out_indptr[-1], np.int32)
    out_values = np.empty(out_indptr[-1], np.float32)
    for row in range(n_rows):
        start, stop, end = indptr[row], indptr[row + 1], out_indptr[row]
        if stop - start <= most:
            out_indices[end : end + stop - start] = indices[start:stop]
            out_values[end : end + stop - start] = values[start:stop]
            continue
        bound = np.partition(values[start:stop], stop - start - most)[stop - start - most]
        equal = most - (values[start:stop] > bound).sum()  # how many of the entries at the bound stay
        for entry in range(start, stop):
            if values[entry] > bound or (values[entry] == bound and equal > 0):
                equal -= values[entry] == bound
                out_indices[end] = indices[entry]
                out_values[end] = values[entry]
                end += 1
    return out_indptr, out_indices, out_values


@_jit
def add_directions(
    indptr: Array, indices: Array, values: Array, weights: Array, columns: Array, signs: Array, out: Array
) -> None:
    """out += M' G: (D, L) sparse times (L, p) sparse, into (D, p).

    Row l of G has the entries `weights[l] · signs[l]` in the `columns[l]`, both (L, s).

    Notes
    -----
    Cost: s nnz(M) additions.
    """
    for label in range(len(indptr) - 1):
        for entry in range(indptr[label], indptr[label + 1]):
            value = values[entry] * weights[label]
            for j in range(columns.shape[1]):
                out[indices[entry], columns[label, j]] += value * signs[label, j]


@_jit
def add_scores(
    x_indptr: Array,
    x_indices: Array,
    x_values: Array,
    indptr: Array,
    indices: Array,
    values: Array,
    first: int,
    out: Array,
) -> None:
    """out += X C for some columns: (n, D) sparse times (D, L) sparse, labels `first`, ..., into (n, t).

    Notes
    -----
    Cost: for each word of each document, the labels among these that the word has an entry for.
    """
    last = first + out.shape[1]
    for row in range(len(x_indptr) - 1):
        for x_entry in range(x_indptr[row], x_indptr[row + 1]):
            word = x_indices[x_entry]
            value = x_values[x_entry]
            start, stop = indptr[word], indptr[word + 1]
            start += np.searchsorted(indices[start:stop], first)
            for entry in range(start, stop):
                label = indices[entry]
                if label >= last:
                    break
                out[row, label - first] += value * values[entry]
