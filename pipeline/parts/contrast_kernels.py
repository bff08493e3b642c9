"""Compiled classifiers that tell look-alike labels apart: finding look-alikes, solving, scoring."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..types import Array


@jit
def look_alikes(
    votes: tuple[Array, Array, Array],
    x: tuple[Array, Array, Array],
    postings: tuple[Array, Array, Array],
    n_labels: int,
    out: Array,
) -> None:
    """The labels (n, m) that look most like a document's: by its neighbours' votes and by a few postings.

    Parameters
    ----------
    votes
        (n, L): weighted votes of its neighbours.
    x
        (n, D): weighted words.
    postings
        (D, L): for each word the few labels that it speaks for most.
    out
        Best first, -1 where there are fewer; written here.
    """
    v_indptr, v_labels, v_values = votes
    x_indptr, x_indices, x_values = x
    indptr, labels, values = postings
    sums, touched = np.zeros(n_labels, np.float32), np.empty(n_labels, np.int32)
    scores = np.empty(out.shape[1], np.float32)
    for d in range(len(out)):
        n_touched = 0
        for entry in range(v_indptr[d], v_indptr[d + 1]):
            touched[n_touched] = v_labels[entry]
            sums[v_labels[entry]] = v_values[entry]
            n_touched += 1
        for x_entry in range(x_indptr[d], x_indptr[d + 1]):
            word, weight = x_indices[x_entry], x_values[x_entry]
            for entry in range(indptr[word], indptr[word + 1]):
                label = labels[entry]
                if sums[label] == 0:
                    touched[n_touched] = label
                    n_touched += 1
                # a label that was touched stays so, even where weights are no longer seen in single precision
                sums[label] = max(sums[label] + weight * values[entry], np.float32(1e-30))
        scores[:] = 0
        own = out[d]
        own[:] = -1
        for i in range(n_touched):
            label, score = touched[i], sums[touched[i]]
            sums[label] = 0
            place = len(own)
            while place > 0 and (
                score > scores[place - 1] or (score == scores[place - 1] and label < own[place - 1])
            ):
                place -= 1
            if place < len(own):
                for later in range(len(own) - 1, place, -1):
                    scores[later], own[later] = scores[later - 1], own[later - 1]
                scores[place], own[place] = score, label


@jit
def pairs_by_label(lists: Array, y: tuple[Array, Array], skip: Array, n_labels: int) -> tuple[Array, Array]:
    """For each label the documents that carry it, and those that look as if they did.

    Parameters
    ----------
    lists
        (n, m): labels that each document looks like; -1 for none.
    skip
        (n,) bool: documents to leave out.

    Returns
    -------
    indptr
        (L + 1,) int64.
    docs
        Document d as d + 1 where it carries the label, as -(d + 1) where it does not; in order.
    """
    y_indptr, y_indices = y
    carried = np.zeros(n_labels, np.bool_)
    indptr = np.zeros(n_labels + 1, np.int64)
    docs, at = np.empty(0, np.int32), np.empty(0, np.int64)
    for writing in range(2):
        if writing:
            indptr[1:] = np.cumsum(indptr[1:])
            docs, at = np.empty(indptr[-1], np.int32), indptr[:-1].copy()
        for d in range(len(lists)):
            if skip[d]:
                continue
            own = y_indices[y_indptr[d] : y_indptr[d + 1]]
            for label in own:
                carried[label] = True
                if writing:
                    docs[at[label]] = d + 1
                    at[label] += 1
                else:
                    indptr[label + 1] += 1
            for label in lists[d]:
                if label >= 0 and not carried[label]:
                    if writing:
                        docs[at[label]] = -(d + 1)
                        at[label] += 1
                    else:
                        indptr[label + 1] += 1
            for label in own:
                carried[label] = False
    return indptr, docs


class Problem(NamedTuple):
    """Documents to tell apart, and how."""

    words: tuple[Array, Array, Array]
    """indptr, indices and values of X~ (n, D), in units."""
    unit: float
    """What the values are divided by."""
    indptr: Array
    """(L + 1,) int64, with `docs` as from `pairs_by_label`."""
    docs: Array
    cost: float
    """C: what an error costs beside the weights' squares."""
    seed: int


class Stopping(NamedTuple):
    """When a classifier is done."""

    epochs: int
    gradient: float
    """The largest projected gradient that is left."""
    least: float
    """Smaller weights are dropped."""


@jit
def solve_labels(
    problem: Problem, stopping: Stopping, labels: tuple[int, int], n_terms: int
) -> tuple[Array, Array, Array, Array]:
    """Weights and biases of the classifiers of a range of labels.

    Each minimises |w|²/2 + C sum max(0, 1 - y (w x + b))² with b one more weight, of a one in each document;
    by coordinate descent in its dual, in an order that is drawn anew in each epoch (Hsieh et al., 2008).
    Coordinates that stay at 0 are left out until all others are done.

    Returns
    -------
    indptr, words, weights
        The CSR triple (labels, D), words in order.
    biases
        (labels,) float32; -1 for labels without documents of their own.

    Notes
    -----
    Cost: for each epoch two reads of the words of a label's documents.
    """
    first, last = labels
    n_labels = last - first
    indptr, biases = np.zeros(n_labels + 1, np.int64), np.full(n_labels, -1, np.float32)
    longest = 0
    for label in range(first, last):
        longest = max(longest, problem.indptr[label + 1] - problem.indptr[label])
    alpha, order = np.empty(longest, np.float32), np.empty(longest, np.int32)
    w = np.zeros(n_terms, np.float32)
    words, weights = np.empty(1024, np.int32), np.empty(1024, np.float32)
    end = 0
    for label in range(first, last):
        docs = problem.docs[problem.indptr[label] : problem.indptr[label + 1]]
        row = label - first
        if len(docs) and docs.max() > 0:
            room = alpha[: len(docs)], order[: len(docs)]
            biases[row] = _descend(problem, stopping, label, docs, room, w)
        start = end
        for doc in docs:  # what was not touched is 0
            for entry in range(problem.words[0][abs(doc) - 1], problem.words[0][abs(doc)]):
                word = problem.words[1][entry]
                if abs(w[word]) >= stopping.least:
                    if end == len(words):
                        words = np.concatenate((words, np.empty_like(words)))
                        weights = np.concatenate((weights, np.empty_like(weights)))
                    words[end], weights[end] = word, w[word]
                    end += 1
                w[word] = 0
        in_order = np.argsort(words[start:end])
        words[start:end], weights[start:end] = words[start:end][in_order], weights[start:end][in_order]
        indptr[row + 1] = end
    return indptr, words[:end].copy(), weights[:end].copy(), biases


@jit(fastmath={"reassoc", "contract"})
def _descend(
    problem: Problem, stopping: Stopping, label: int, docs: Array, room: tuple[Array, Array], w: Array
) -> float:
    """Solve one label into w, which is 0 on entry; returns its bias."""
    indptr, indices, values = problem.words
    alpha, order = room
    scale = np.float32(1 / problem.unit)
    diagonal = np.float32(0.5 / problem.cost)
    whole = diagonal + np.float32(2)  # rows have unit length, and the one of the bias
    bias = np.float32(0)
    alpha[:] = 0
    for i in range(len(docs)):
        order[i] = i
    state = np.uint64(problem.seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(2 * label + 1)
    n_active, most = len(docs), np.float32(np.inf)
    for _ in range(stopping.epochs):
        for i in range(n_active - 1, 0, -1):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            j = np.int64((state >> np.uint64(33)) % np.uint64(i + 1))
            order[i], order[j] = order[j], order[i]
        worst, highest, i = np.float32(0), np.float32(-np.inf), 0
        while i < n_active:
            k = order[i]
            y = np.float32(1) if docs[k] > 0 else np.float32(-1)
            start, stop = indptr[abs(docs[k]) - 1], indptr[abs(docs[k])]
            product = np.float32(0)
            for entry in range(start, stop):
                product += w[indices[entry]] * np.float32(values[entry])
            gradient = y * (product * scale + bias) - np.float32(1) + diagonal * alpha[k]
            if alpha[k] == 0:
                if gradient > most:  # far on the right side: it is looked at again in the end
                    n_active -= 1
                    order[i], order[n_active] = order[n_active], order[i]
                    continue
                gradient = min(gradient, np.float32(0))
            worst, highest = max(worst, abs(gradient)), max(highest, gradient)
            if gradient != 0:
                changed = max(alpha[k] - gradient / whole, np.float32(0))
                step = (changed - alpha[k]) * y
                alpha[k] = changed
                bias += step
                for entry in range(start, stop):
                    w[indices[entry]] += step * scale * np.float32(values[entry])
            i += 1
        most = highest if highest > 0 else np.float32(np.inf)
        if worst < stopping.gradient:
            if n_active == len(docs):
                break
            n_active, most = len(docs), np.float32(np.inf)
    return bias


_LOOKED_UP = 20
"""Words of a classifier for each word of a document, above which the latter are looked up."""


@jit
def margins(
    x: tuple[Array, Array, Array],
    classifiers: tuple[Array, Array, Array, Array],
    pairs: tuple[Array, Array],
    n_terms: int,
    out: Array,
) -> None:
    """w_l · x_d + b_l for pairs of a document and a label; written to `out`.

    Parameters
    ----------
    x
        (n, D) float32.
    classifiers
        indptr, words and weights (L, D), and biases (L,).
    pairs
        indptr (n + 1,) and the labels of each document; -1 gives -inf.

    Notes
    -----
    Cost: the words of each label's classifier are read once for each of its documents, or looked up in where
    they are many beside those of the document.
    """
    x_indptr, x_indices, x_values = x
    indptr, words, weights, biases = classifiers
    row = np.zeros(n_terms, np.float32)
    for d in range(len(x_indptr) - 1):
        for entry in range(x_indptr[d], x_indptr[d + 1]):
            row[x_indices[entry]] = x_values[entry]
        for pair in range(pairs[0][d], pairs[0][d + 1]):
            label = pairs[1][pair]
            if label < 0:
                out[pair] = -np.inf
                continue
            total = biases[label]
            start, stop = indptr[label], indptr[label + 1]
            # one after the other, or looked up: words are added in the same order
            if stop - start < _LOOKED_UP * (x_indptr[d + 1] - x_indptr[d]):
                for entry in range(start, stop):
                    total += row[words[entry]] * weights[entry]
            else:
                for x_entry in range(x_indptr[d], x_indptr[d + 1]):
                    entry = start + np.searchsorted(words[start:stop], x_indices[x_entry])
                    if entry < stop and words[entry] == x_indices[x_entry]:
                        total += x_values[x_entry] * weights[entry]
            out[pair] = total
        for entry in range(x_indptr[d], x_indptr[d + 1]):
            row[x_indices[entry]] = 0


@jit
def places_by_score(indptr: Array, scores: Array) -> Array:
    """(pairs,) int32: place of each pair among those of its document, best first; the first of equal ones."""
    out = np.empty(len(scores), np.int32)
    for d in range(len(indptr) - 1):
        order = np.argsort(-scores[indptr[d] : indptr[d + 1]], kind="mergesort")
        for place in range(len(order)):
            out[indptr[d] + order[place]] = place
    return out
