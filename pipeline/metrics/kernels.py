"""Compiled loops over documents for the ranking metrics; no Dask, no files."""

from __future__ import annotations

import numpy as np

from ..jit import jit
from ..types import Array


@jit
def _count_below(ascending: Array, bound: float, or_equal: bool) -> int:
    """Number of `ascending` values below `bound`, or also equal to it."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] < bound or (or_equal and ascending[middle] == bound):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def document_auc(scores: Array, indptr: Array, indices: Array, auc: Array) -> int:
    """Write the AUC of each document into `auc`; return the first document with a NaN score, or -1.

    Parameters
    ----------
    scores
        (n, L) floats.
    indptr, indices
        CSR triple of the labels, ids sorted in each row: (n + 1,) and (nnz,).
    auc
        (n,) float64, overwritten; NaN where all labels or none are positive.

    Notes
    -----
    Cost: O(L log P) time and O(P) bytes for a document with P labels.
    """
    n_labels = scores.shape[1]
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        n_positives = stop - start
        n_negatives = n_labels - n_positives
        if n_positives == 0 or n_negatives == 0:
            auc[row] = np.nan
            continue
        positives = np.empty(n_positives, scores.dtype)  # (P,)
        for j in range(start, stop):
            positives[j - start] = scores[row, indices[j]]
        if np.isnan(positives).any():
            return row
        positives.sort()
        # A pair counts 2 when the negative wins and 1 when it ties, so the sum is an exact integer.
        lost = 0
        label = 0
        for j in range(start, stop + 1):
            next_positive = indices[j] if j < stop else n_labels
            for negative in range(label, next_positive):
                score = scores[row, negative]
                # A good ranking puts most negatives below every positive: skip the search for them.
                if score < positives[0]:
                    continue
                if np.isnan(score):
                    return row
                below = _count_below(positives, score, False)
                tied = below < n_positives and positives[below] == score
                lost += below + (_count_below(positives, score, True) if tied else below)
            label = next_positive + 1
        auc[row] = 1.0 - 0.5 * lost / (n_positives * n_negatives)
    return -1


@jit
def mark_hits(topk: Array, indptr: Array, indices: Array, hits: Array) -> None:
    """Set `hits[i, r]` where `topk[i, r]` is a label of document i.

    Parameters
    ----------
    topk
        (n, K) label ids; ids that are not labels, such as -1, never hit.
    indptr, indices
        CSR triple of the labels, ids sorted in each row: (n + 1,) and (nnz,).
    hits
        (n, at least K) bool, False on entry.

    Notes
    -----
    Cost: O(K log P) for a document with P labels.
    """
    for row in range(topk.shape[0]):
        labels = indices[indptr[row] : indptr[row + 1]]  # (P,)
        for rank in range(topk.shape[1]):
            place = _count_below(labels, topk[row, rank], False)
            hits[row, rank] = place < len(labels) and labels[place] == topk[row, rank]


@jit
def largest_weights(indptr: Array, indices: Array, weights: Array, largest: Array) -> None:
    """Write the largest weights among each document's labels into `largest`, in descending order.

    Parameters
    ----------
    indptr, indices
        CSR triple of the labels: (n + 1,) and (nnz,).
    weights
        (L,) floats.
    largest
        (n, K), zero on entry; places beyond a document's last label stay zero.

    Notes
    -----
    Cost: O(P log P) time and O(P) bytes for a document with P labels.
    """
    for row in range(largest.shape[0]):
        ascending = np.sort(weights[indices[indptr[row] : indptr[row + 1]]])  # (P,)
        n_labels = len(ascending)
        for rank in range(min(n_labels, largest.shape[1])):
            largest[row, rank] = ascending[n_labels - 1 - rank]


@jit
def reliability(
    probabilities: Array, indptr: Array, indices: Array, edges: Array, bins: Array, own: Array
) -> float:
    """Add pairs, probabilities and truths to the bins (3, b) between the inner `edges` (b - 1,).

    Returns the sum of (probability - truth)², and writes the sum of each document to `own` (n,). An edge
    belongs to the bin above it.
    """
    n, L = probabilities.shape
    squares = 0.0
    true = np.zeros(L, np.bool_)
    for d in range(n):
        for label in indices[indptr[d] : indptr[d + 1]]:
            true[label] = True
        own[d] = 0
        for label in range(L):
            p = np.float64(probabilities[d, label])
            place = 0
            while place < len(edges) and p >= edges[place]:  # nearly all stop at the first edge
                place += 1
            bins[0, place] += 1
            bins[1, place] += p
            square = p * p
            if true[label]:
                bins[2, place] += 1
                square = (1 - p) * (1 - p)
                true[label] = False
            squares += square
            own[d] += square
    return squares
