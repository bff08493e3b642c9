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
def pair_products(indptr: Array, labels: Array, F: Array, A: Array, filters: Array, out: Array) -> None:
    """out[j, i] = sum_p F[d, p] A[l, p] filters[j, p] for pair i = (d, l).

    Cost: (m + 1) p multiply-adds a pair.
    """
    product = np.empty(F.shape[1], np.float32)
    for d in range(len(indptr) - 1):
        for i in range(indptr[d], indptr[d + 1]):
            for p in range(F.shape[1]):
                product[p] = F[d, p] * A[labels[i], p]
            for j in range(len(filters)):
                total = np.float32(0)
                for p in range(F.shape[1]):
                    total += product[p] * filters[j, p]
                out[j, i] = total


@jit
def shortlist_measures(indptr: Array, hits: Array, weights: Array, scores: Array) -> tuple[float, Array]:
    """Mean AUC, and mean P@1, P@3 and P@5, of the documents that have labels; by their shortlists.

    A tie goes to the lower label in P@k, and counts one half in the AUC.
    """
    precision = np.zeros(3)
    areas = 0.0
    n_areas = 0
    n_docs = 0
    best_score = np.empty(5, np.float32)
    best_hit = np.empty(5, np.bool_)
    own = np.empty(np.diff(indptr).max() if len(indptr) > 1 else 0, np.float32)
    for d in range(len(indptr) - 1):
        start, stop = indptr[d], indptr[d + 1]
        n_hits = hits[start:stop].sum()
        if n_hits == 0:
            continue
        n_docs += 1
        best_score[:] = -np.inf
        best_hit[:] = False
        for i in range(start, stop):
            place = 4
            if scores[i] > best_score[4]:
                while place > 0 and scores[i] > best_score[place - 1]:
                    best_score[place] = best_score[place - 1]
                    best_hit[place] = best_hit[place - 1]
                    place -= 1
                best_score[place] = scores[i]
                best_hit[place] = hits[i]
        precision[0] += best_hit[0]
        precision[1] += best_hit[:3].sum() / 3
        precision[2] += best_hit.sum() / 5
        place = 0
        for i in range(start, stop):
            if hits[i]:
                own[place] = scores[i]
                place += 1
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
            areas += won / (negatives * n_hits)
            n_areas += 1
    return areas / max(n_areas, 1), precision / max(n_docs, 1)
