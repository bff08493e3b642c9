"""Compiled search for the training documents that are most like a document."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..types import Array


class Search(NamedTuple):
    """Limits of a search for similar documents."""

    most_postings: int
    """Postings after which no further word of a document is looked up, its heaviest words coming first."""
    n_candidates: int
    """Candidates whose similarity is computed from all words."""


@jit
def postings(x: tuple[Array, Array, Array], n_terms: int, most: int) -> tuple[Array, Array, Array]:
    """For each word the documents where it weighs most, `most` at the most; those of equal weight in order.

    Returns
    -------
    indptr, docs, values
        The CSR triple (D, n); a word's documents in order.

    Notes
    -----
    Cost: two reads of X, and a sort of the documents of each word that has more than `most`.
    """
    x_indptr, x_indices, x_values = x
    starts = np.zeros(n_terms + 1, np.int64)
    for entry in range(len(x_indices)):
        starts[x_indices[entry] + 1] += 1
    longest = 0
    indptr = np.zeros(n_terms + 1, np.int64)
    for word in range(n_terms):
        longest = max(longest, starts[word + 1])
        indptr[word + 1] = indptr[word] + min(most, starts[word + 1])
        starts[word + 1] += starts[word]
    # the weight that a word's documents must exceed, and how many of just that weight are kept
    values = np.empty(len(x_indices), x_values.dtype)
    at = starts[:-1].copy()
    for entry in range(len(x_indices)):
        values[at[x_indices[entry]]] = x_values[entry]
        at[x_indices[entry]] += 1
    limits, equals = np.zeros(n_terms, x_values.dtype), np.zeros(n_terms, np.int64)
    for word in range(n_terms):
        count = starts[word + 1] - starts[word]
        if count > most:
            own = np.sort(values[starts[word] : starts[word + 1]])
            limits[word] = own[count - most]
            equals[word] = most
            for i in range(count - most, count):
                equals[word] -= own[i] > limits[word]
    docs, kept = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], x_values.dtype)
    at = indptr[:-1].copy()
    for doc in range(len(x_indptr) - 1):
        for entry in range(x_indptr[doc], x_indptr[doc + 1]):
            word, value = x_indices[entry], x_values[entry]
            if value < limits[word]:
                continue
            if value == limits[word] and limits[word] > 0:
                if equals[word] == 0:
                    continue
                equals[word] -= 1
            docs[at[word]], kept[at[word]] = doc, value
            at[word] += 1
    return indptr, docs, kept


@jit
def nearest(
    x: tuple[Array, Array, Array],
    known: tuple[Array, Array, Array],
    index: tuple[Array, Array, Array],
    unit: float,
    search: tuple[Search, Array],
    found: tuple[Array, Array],
) -> None:
    """The documents that are most like each of some others, by the products of their words, best first.

    Candidates are documents in the postings of its heaviest words. The best of these by that much are
    compared by all words.

    Parameters
    ----------
    x
        Documents to find neighbours of: weights, float32.
    known
        Documents among which they are found, with weights that are `unit` times as large.
    index
        Their `postings`.
    search
        How far to search; and for each document its own number among the known ones, which is not to be
        found, or -1.
    found
        docs (n, k) int32, -1 where there are fewer; similarities (n, k) float32, 0 there. Written here.

    Notes
    -----
    Cost: for each document an addition for each posting, and a sparse product for each candidate.
    """
    x_indptr, x_indices, x_values = x
    k_indptr, k_indices, k_values = known
    indptr, docs, values = index
    (most_postings, n_candidates), own = search
    sums = np.zeros(len(k_indptr) - 1, np.float32)
    used = np.empty(len(sums), np.int32)
    row = np.zeros(len(indptr) - 1, np.float32)
    candidates, scores = np.empty(n_candidates, np.int32), np.empty(n_candidates, np.float32)
    for d in range(len(x_indptr) - 1):
        start, stop = x_indptr[d], x_indptr[d + 1]
        n_used, n_postings = 0, 0
        for place in np.argsort(-x_values[start:stop], kind="mergesort"):
            word, weight = x_indices[start + place], x_values[start + place]
            # of no weight are the words that others outweigh by more than single precision can tell
            if n_postings > most_postings or not weight > 0:
                break
            for posting in range(indptr[word], indptr[word + 1]):
                doc = docs[posting]
                if sums[doc] == 0:
                    used[n_used] = doc
                    n_used += 1
                sums[doc] += weight * np.float32(values[posting])
            n_postings += indptr[word + 1] - indptr[word]
        candidates[:], scores[:] = -1, 0
        for i in range(n_used):
            doc, score = used[i], sums[used[i]]
            sums[doc] = 0
            if score > scores[-1] and doc != own[d]:
                _insert(doc, score, candidates, scores)
        for entry in range(start, stop):
            row[x_indices[entry]] = x_values[entry]
        labels, similarities = found[0][d], found[1][d]
        labels[:], similarities[:] = -1, 0
        for candidate in candidates:
            if candidate < 0:
                break
            product = 0.0
            for entry in range(k_indptr[candidate], k_indptr[candidate + 1]):
                product += row[k_indices[entry]] * np.float64(k_values[entry])
            _insert(candidate, np.float32(product / unit), labels, similarities)
        for entry in range(start, stop):
            row[x_indices[entry]] = 0


@jit
def _insert(number: int, score: float, numbers: Array, scores: Array) -> None:
    """Put a number where it belongs among the best; the lower of equally good ones first."""
    place = len(numbers)
    while place > 0 and (
        score > scores[place - 1] or (score == scores[place - 1] and 0 <= number < numbers[place - 1])
    ):
        place -= 1
    if place == len(numbers):
        return
    for later in range(len(numbers) - 1, place, -1):
        numbers[later], scores[later] = numbers[later - 1], scores[later - 1]
    numbers[place], scores[place] = number, score


@jit
def count_votes(
    docs: Array, similarities: Array, y: tuple[Array, Array], power: float, weight: float, n_labels: int
) -> tuple[Array, Array, Array]:
    """Votes of neighbours for their labels: shares of sum similarity^power, times the weight.

    Returns
    -------
    indptr, labels, votes
        The CSR triple (n, L), labels in order.
    """
    y_indptr, y_indices = y
    n, k = docs.shape
    room = 0
    for d in range(n):
        for j in range(k):
            if docs[d, j] >= 0:
                room += y_indptr[docs[d, j] + 1] - y_indptr[docs[d, j]]
    indptr = np.zeros(n + 1, np.int64)
    labels, votes = np.empty(room, np.int32), np.empty(room, np.float32)
    sums = np.zeros(n_labels, np.float32)
    end = 0
    for d in range(n):
        total = 0.0
        for j in range(k):
            total += similarities[d, j] ** power
        end = indptr[d]
        for j in range(k):
            if docs[d, j] < 0 or total <= 0:
                continue
            share = np.float32(weight * similarities[d, j] ** power / total)
            if not share > 0:
                continue
            for entry in range(y_indptr[docs[d, j]], y_indptr[docs[d, j] + 1]):
                label = y_indices[entry]
                if sums[label] == 0:
                    labels[end] = label
                    end += 1
                sums[label] += share
        own = np.sort(labels[indptr[d] : end])
        for i in range(len(own)):
            labels[indptr[d] + i], votes[indptr[d] + i] = own[i], sums[own[i]]
            sums[own[i]] = 0
        indptr[d + 1] = end
    return indptr, labels[:end], votes[:end]


@jit
def sort_rows(indptr: Array, indices: Array, values: Array) -> None:
    """Put each row's entries in the order of their columns, in place."""
    for row in range(len(indptr) - 1):
        entries = slice(indptr[row], indptr[row + 1])
        order = np.argsort(indices[entries])
        indices[entries], values[entries] = indices[entries][order], values[entries][order]
