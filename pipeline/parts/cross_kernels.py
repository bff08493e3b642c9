"""Compiled sums of a sparse matrix, a row for each label and a column for each word; no Dask, no files."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..types import CSR, Array


class LabelMixture(NamedTuple):
    """G (L, p): row l has the entries `weights[l] · signs[l]` in the `columns[l]`."""

    columns: Array
    """(L, s): a column may come up twice."""
    signs: Array
    """(L, s)."""
    weights: Array
    """(L,)."""


def add_documents(M: CSR, X: CSR, docs_of: tuple[Array, Array], n_columns: int, most: int) -> CSR:
    """M + Y'X, only the `most` largest entries of each row; the first of equal ones.

    Parameters
    ----------
    M
        (L, D): a row's columns may stand in any order, but not twice.
    X
        (n, D), none of it negative.
    docs_of
        Where each label's documents start, and the documents: Y' without its ones.

    Notes
    -----
    Cost: nnz(M) + sum nnz(x) nnz(y) additions into one dense row, which stays in cache; 8 bytes for each
    entry of the result.
    """
    # More than is needed, but memory is only taken by what is written. Not made in compiled code: NumPy asks
    # the system for large pages, and filling those takes a third of the time.
    room = _room(M[0], X[0], *docs_of, most)
    indices, values = np.empty(room, np.int32), np.empty(room, np.float32)
    indptr = _add_documents(M, X, docs_of, n_columns, most, (indices, values))
    return indptr, indices[: indptr[-1]], values[: indptr[-1]]


@jit
def _room(indptr: Array, x_indptr: Array, docs_indptr: Array, docs: Array, most: int) -> int:
    """Upper bound of the entries of all rows."""
    room = 0
    for label in range(len(indptr) - 1):
        room += min(most, _products(label, indptr, x_indptr, docs_indptr, docs))
    return room


@jit
def _add_documents(
    M: CSR, X: CSR, docs_of: tuple[Array, Array], n_columns: int, most: int, out: tuple[Array, Array]
) -> Array:
    """`add_documents` into indices and values with enough room; returns where each row ends."""
    indptr, indices, values = M
    x_indptr, x_indices, x_values = X
    docs_indptr, docs = docs_of
    out_indices, out_values = out
    n_labels = len(indptr) - 1
    out_indptr = np.zeros(n_labels + 1, np.int64)
    row = np.zeros(n_columns, np.float32)
    columns = np.empty(n_columns, np.int32)  # those of the row that are not zero, as they turned up
    sums = np.empty(n_columns, np.float32)
    end = 0
    for label in range(n_labels):
        count = 0
        for entry in range(indptr[label], indptr[label + 1]):
            columns[count] = indices[entry]
            row[indices[entry]] = values[entry]
            count += 1
        for d in docs[docs_indptr[label] : docs_indptr[label + 1]]:
            for entry in range(x_indptr[d], x_indptr[d + 1]):
                column = x_indices[entry]
                sum_so_far = row[column]
                row[column] = sum_so_far + x_values[entry]
                if sum_so_far == 0.0 and x_values[entry] > 0.0:
                    columns[count] = column
                    count += 1
        for i in range(count):
            sums[i] = row[columns[i]]
            row[columns[i]] = 0.0
        end = _write_largest(columns[:count], sums[:count], most, out_indices, out_values, end)
        out_indptr[label + 1] = end
    return out_indptr


@jit
def largest_entries(M: CSR, most: int) -> CSR:
    """M with only the `most` largest entries of each row; the first of equal ones."""
    indptr, indices, values = M
    n_rows = len(indptr) - 1
    out_indptr = np.zeros(n_rows + 1, np.int64)
    for row in range(n_rows):
        out_indptr[row + 1] = out_indptr[row] + min(most, indptr[row + 1] - indptr[row])
    out_indices = np.empty(out_indptr[-1], np.int32)
    out_values = np.empty(out_indptr[-1], np.float32)
    for row in range(n_rows):
        entries = slice(indptr[row], indptr[row + 1])
        _write_largest(indices[entries], values[entries], most, out_indices, out_values, out_indptr[row])
    return out_indptr, out_indices, out_values


@jit
def _products(label: int, indptr: Array, x_indptr: Array, docs_indptr: Array, docs: Array) -> int:
    """Upper bound of the entries of a label's row."""
    total = indptr[label + 1] - indptr[label]
    for d in docs[docs_indptr[label] : docs_indptr[label + 1]]:
        total += x_indptr[d + 1] - x_indptr[d]
    return int(total)


@jit
def _write_largest(
    columns: Array, sums: Array, most: int, out_indices: Array, out_values: Array, end: int
) -> int:
    """Write the `most` largest of some positive entries from place `end` on; returns where they end.

    The bound between large and small is found in the upper bits of the numbers, which are ordered as the
    numbers are; only those that agree with the bound's are compared in full.
    """
    n = len(sums)
    if n <= most:
        out_indices[end : end + n] = columns
        out_values[end : end + n] = sums
        return end + n
    bits = sums.view(np.int32)
    histogram = np.zeros(4096, np.int32)  # by sign, exponent and the first three bits of the fraction
    for i in range(n):
        histogram[bits[i] >> 20] += 1
    larger, bin_ = 0, 4095
    while larger + histogram[bin_] < most:
        larger += histogram[bin_]
        bin_ -= 1
    alike = np.empty(histogram[bin_], np.float32)
    count = 0
    for i in range(n):
        if bits[i] >> 20 == bin_:
            alike[count] = sums[i]
            count += 1
    place = count - (most - larger)  # of the bound, were they sorted
    bound = np.partition(alike, place)[place]
    equal = most - larger - (alike > bound).sum()  # how many of the entries at the bound stay
    for i in range(n):
        if sums[i] > bound or (sums[i] == bound and equal > 0):
            equal -= sums[i] == bound
            out_indices[end] = columns[i]
            out_values[end] = sums[i]
            end += 1
    return end


@jit
def row_lengths(indptr: Array, values: Array, out: Array) -> None:
    """Write the Euclidean length of each row."""
    for row in range(len(out)):
        squares = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            squares += np.float64(values[entry]) ** 2
        out[row] = np.sqrt(squares)


@jit
def count_columns(indices: Array, counts: Array) -> None:
    """Add up how many entries each column has."""
    for column in indices:
        counts[column] += 1


@jit
def transpose_columns(M: CSR, first: int, last: int, out: CSR) -> None:
    """Write the rows `first` to `last` of M' (D, L), whose `indptr` is known; columns sorted in each.

    Cost: all of M is looked at, so that threads may each write some rows without a word to each other.
    """
    indptr, indices, values = M
    out_indptr, out_indices, out_values = out
    places = out_indptr[first:last].copy()
    for label in range(len(indptr) - 1):
        for entry in range(indptr[label], indptr[label + 1]):
            word = indices[entry]
            if first <= word < last:
                place = places[word - first]
                out_indices[place] = label
                out_values[place] = values[entry]
                places[word - first] = place + 1


@jit
def add_directions(M: CSR, G: LabelMixture, first: int, last: int, out: Array) -> None:
    """out += M' G: (D, L) sparse times (L, p) sparse, into (D, p), only its rows `first` to `last`.

    Notes
    -----
    Cost: all of M is looked at; s additions for each of its entries in these rows.
    """
    indptr, indices, values = M
    columns, signs, weights = G
    for label in range(len(indptr) - 1):
        for entry in range(indptr[label], indptr[label + 1]):
            word = indices[entry]
            if first <= word < last:
                value = values[entry] * weights[label]
                for j in range(columns.shape[1]):
                    out[word, columns[label, j]] += value * signs[label, j]


@jit
def add_scores(X: CSR, C: CSR, first: int, out: Array) -> None:
    """out += X C for some columns: (n, D) sparse times (D, L) sparse, labels `first`, ..., into (n, t).

    Notes
    -----
    Cost: for each word of each document, the labels among these that the word has an entry for.
    """
    x_indptr, x_indices, x_values = X
    indptr, indices, values = C
    last = first + out.shape[1]
    for row in range(len(x_indptr) - 1):
        for x_entry in range(x_indptr[row], x_indptr[row + 1]):
            word = x_indices[x_entry]
            value = x_values[x_entry]
            stop = indptr[word + 1]
            for entry in range(_first_of(indices, indptr[word], stop, first), stop):
                label = indices[entry]
                if label >= last:
                    break
                out[row, label - first] += value * values[entry]


@jit
def _first_of(ascending: Array, start: int, stop: int, least: int) -> int:
    """First place from `start` on whose value is at least `least`, or `stop`.

    `np.searchsorted` does the same, but code with it takes long to load.
    """
    while start < stop:
        middle = (start + stop) // 2
        if ascending[middle] < least:
            start = middle + 1
        else:
            stop = middle
    return start
