"""Compiled measures on shortlists: some labels of each held-out document instead of all."""

from __future__ import annotations

import numpy as np

from ..jit import jit
from ..types import Array


@jit
def make_shortlist(
    best: Array, y_indptr: Array, y_indices: Array, drawn: Array, n_labels: int
) -> tuple[Array, Array, Array, Array]:
    """For each document its own labels, the `best` (n, t) ones, and those `drawn` (n, r) at random.

    Returns
    -------
    indptr
        (n + 1,) int64.
    labels
        (pairs,) int32, increasing within a document.
    hits
        (pairs,) bool: the document carries the label.
    weights
        (pairs,) float32: how many labels each stands for; the drawn ones stand for all that are not listed.
    """
    n = len(best)
    most = n * (best.shape[1] + drawn.shape[1]) + len(y_indices)
    indptr = np.zeros(n + 1, np.int64)
    labels = np.empty(most, np.int32)
    hits = np.zeros(most, np.bool_)
    weights = np.ones(most, np.float32)
    state = np.zeros(n_labels, np.int8)  # 1: best, 2: carried, 3: drawn
    end = 0
    for d in range(n):
        start = end
        own = y_indices[y_indptr[d] : y_indptr[d + 1]]
        for label in best[d]:
            if label >= 0 and state[label] == 0:
                state[label] = 1
                labels[end] = label
                end += 1
        for label in own:
            if state[label] == 0:
                labels[end] = label
                end += 1
            state[label] = 2
        listed = end - start
        for label in drawn[d]:
            if state[label] == 0:
                state[label] = 3
                labels[end] = label
                end += 1
        n_drawn = end - start - listed
        labels[start:end] = np.sort(labels[start:end])
        for i in range(start, end):
            hits[i] = state[labels[i]] == 2
            if state[labels[i]] == 3:
                weights[i] = (n_labels - listed) / n_drawn
            state[labels[i]] = 0
        indptr[d + 1] = end
    return indptr, labels[:end].copy(), hits[:end].copy(), weights[:end].copy()


@jit(fastmath=True)
def pair_products(indptr: Array, labels: Array, F: Array, A: Array, out: Array) -> None:
    """out[i] = F[d] · A[l] for pair i = (d, l). Cost: p multiply-adds a pair."""
    for d in range(len(indptr) - 1):
        for i in range(indptr[d], indptr[d + 1]):
            total = np.float32(0)
            for p in range(F.shape[1]):
                total += F[d, p] * A[labels[i], p]
            out[i] = total


@jit(fastmath=True)
def knot_products(
    pairs: tuple[Array, Array], F: Array, A: Array, starts: Array, shares: Array, out: Array
) -> None:
    """Products of a document and a label, shared out among knots: out[k, i] = sum_p F[d, p] A[l, p] h_kp.

    Parameters
    ----------
    pairs
        indptr (n + 1,) and the labels of each document; pair i is one of them.
    starts
        (knots,): columns from `starts[k]` to `starts[k + 1]` lie between the knots k and k + 1.
    shares
        (p,) float32: what a column gives to the knot above it; the knot below gets the rest.

    Notes
    -----
    Cost: 3 p multiply-adds a pair.
    """
    indptr, labels = pairs
    for d in range(len(indptr) - 1):
        for i in range(indptr[d], indptr[d + 1]):
            label = labels[i]
            for k in range(len(out)):
                out[k, i] = 0
            for k in range(len(starts) - 1):
                total, above = np.float32(0), np.float32(0)
                for p in range(starts[k], starts[k + 1]):
                    product = F[d, p] * A[label, p]
                    total += product
                    above += product * shares[p]
                out[k, i] += total - above
                out[k + 1, i] += above


@jit
def document_measures(indptr: Array, hits: Array, weights: Array, scores: Array, out: Array) -> None:
    """AUC, P@1, P@3 and P@5 of each document, by its shortlist, into `out` (n, 4).

    A tie goes to the lower label in P@k, and counts one half in the AUC. NaN where there is nothing to
    measure: of documents without labels, and for the AUC of those that have all labels.
    """
    best_score = np.empty(5, np.float32)
    best_hit = np.empty(5, np.bool_)
    own = np.empty(np.diff(indptr).max() if len(indptr) > 1 else 0, np.float32)
    out[:] = np.nan
    for d in range(len(indptr) - 1):
        start, stop = indptr[d], indptr[d + 1]
        n_hits = hits[start:stop].sum()
        if n_hits == 0:
            continue
        best_score[:] = -np.inf
        best_hit[:] = False
        place = 0
        for i in range(start, stop):
            if hits[i]:
                own[place] = scores[i]
                place += 1
            if scores[i] > best_score[4]:
                place_of = 4
                while place_of > 0 and scores[i] > best_score[place_of - 1]:
                    best_score[place_of] = best_score[place_of - 1]
                    best_hit[place_of] = best_hit[place_of - 1]
                    place_of -= 1
                best_score[place_of] = scores[i]
                best_hit[place_of] = hits[i]
        out[d, 1] = best_hit[0]
        out[d, 2] = best_hit[:3].sum() / 3
        out[d, 3] = best_hit.sum() / 5
        negatives = 0.0
        won = 0.0
        for j in range(start, stop):
            if not hits[j]:
                negatives += weights[j]
                for score in own[:n_hits]:
                    if score > scores[j]:
                        won += weights[j]
                    elif score == scores[j]:
                        won += 0.5 * weights[j]
        if negatives > 0:
            out[d, 0] = won / (negatives * n_hits)
