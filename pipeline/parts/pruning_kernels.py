"""Compiled search for the best labels that skips tiles of labels which cannot be among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..types import CSR, Array
from .scoring_kernels import interpolated

_COMB = 64
"""Labels whose largest memory is found together."""
_FOREMOST = 64
"""Combs that are to have a label of more memory than the level: these labels are scored one by one."""
_ROUNDING = 1e-6
"""Sixteen roundings in single precision: more than a calibrated, emphasised score goes through."""


class LabelSide(NamedTuple):
    """The terms of a blend, as far as labels go."""

    dense: tuple[Array, ...]
    """(L, p) float32 each."""
    roots: Array
    """(terms,) float64: the weight of a term's square root; 0 where the product itself counts."""
    sparse: tuple[CSR, ...]
    """(D, L) each."""
    has_sparse: bool
    knots: Array
    """(m,) float32, with `heights` the calibration; used with an emphasis only."""
    heights: Array
    emphasis: Array
    """(L,) float32."""


class DocumentSide(NamedTuple):
    """Some documents, as each term sees them."""

    dense: tuple[Array, ...]
    """(n, p) float32 each."""
    sparse: tuple[CSR, ...]
    """(n, D) each."""


class Bounds(NamedTuple):
    """Labels in tiles, and how good a document's tiles can be."""

    order: Array
    """(L,) int32: the labels, tile after tile; the last tile may be short."""
    width: int
    scores: Array
    """(n, T) float32: no label of the tile has a higher score, sparse terms left out."""
    emphasis: Array
    """(T,) float32: no label of the tile has a larger one."""


@jit
def tile_extremes(M: Array, order: Array, width: int) -> tuple[Array, Array]:
    """(T, p) float32 each: the largest and the smallest entry of each column of M, among a tile's rows.

    Cost: one read of M (L, p).
    """
    shape = -(-len(order) // width), M.shape[1]
    highest, lowest = np.full(shape, -np.inf, np.float32), np.full(shape, np.inf, np.float32)
    for place in range(len(order)):
        tile, row = place // width, order[place]
        for j in range(M.shape[1]):
            highest[tile, j] = max(highest[tile, j], M[row, j])
            lowest[tile, j] = min(lowest[tile, j], M[row, j])
    return highest, lowest


@jit
def best_labels(
    bounds: Bounds, of: LabelSide, seen: DocumentSide, most: int, best: tuple[Array, Array], scored: Array
) -> Array:
    """Find each document's k best labels and what they are ranked by, ties by label id.

    A document's tiles are visited best bound first, until the next bound is below the k-th best label so far.
    Before that its sparse terms, the memory, are summed for all labels, and the few labels that have most of
    it are scored one by one: no other label has more of it than a level, which is then added to every tile's
    bound.

    Parameters
    ----------
    most
        Labels to score before a document is given up.
    best
        Labels and what they are ranked by: (n, k) each, written here; -1 and -inf on entry.
    scored
        (n,) written here: how many labels were scored.

    Returns
    -------
    given_up
        (n,) bool: documents for which bounds are of no use; theirs are -1 and -inf again.

    Notes
    -----
    Dense terms are summed in double precision, and scores rounded once, so that a score does not depend on
    when and with what other labels it is asked for.

    Cost: for each document T comparisons, an addition for each entry that the memory has of its words, and
    2 p flops for each label scored, p being the columns of all dense terms. 4 L bytes.
    """
    labels, ranking = best
    n, k = labels.shape
    n_tiles, n_labels = bounds.scores.shape[1], len(bounds.order)
    given_up = np.zeros(n, np.bool_)
    at_most, pending = np.empty(n_tiles), np.empty(n_tiles, np.int64)
    memory = np.zeros(n_labels if of.has_sparse else 0, np.float32)
    remembered = np.empty(most + 1, np.int32)
    starts = np.zeros(len(seen.dense) + 1, np.int64)
    for term in range(len(seen.dense)):
        starts[term + 1] = starts[term] + seen.dense[term].shape[1]
    f = np.empty(starts[-1])  # a document in all terms, one after the other
    for row in range(n):
        for term in range(len(seen.dense)):
            f[starts[term] : starts[term + 1]] = seen.dense[term][row]
        own = labels[row], ranking[row]
        level, count = 0.0, 0
        if len(memory):
            _remember(seen, row, of, memory)
            level, n_remembered = _foremost(memory, remembered)
            count += _visit(remembered[:n_remembered], of, starts, f, memory, own)
        first = np.argmax(bounds.scores[row])
        count += _visit(_tile(bounds, first), of, starts, f, memory, own)
        _ranked_at_most(bounds.scores[row], level * (1 + _ROUNDING), of, bounds.emphasis, at_most)
        n_pending = 0
        for tile in range(n_tiles):
            if tile != first and at_most[tile] >= ranking[row, k - 1]:
                pending[n_pending] = tile
                n_pending += 1
        for i in np.argsort(-at_most[pending[:n_pending]]):
            if at_most[pending[i]] < ranking[row, k - 1] or count > most:
                break
            count += _visit(_tile(bounds, pending[i]), of, starts, f, memory, own)
        scored[row] = count
        if count > most:
            given_up[row] = True
            labels[row], ranking[row] = -1, -np.inf
    return given_up


@jit
def _tile(bounds: Bounds, number: int) -> Array:
    """The tile's labels."""
    return bounds.order[number * bounds.width : (number + 1) * bounds.width]


@jit
def _remember(seen: DocumentSide, row: int, of: LabelSide, memory: Array) -> None:
    """memory = the sparse terms of one document: (L,)."""
    memory[:] = 0
    for term in range(len(of.sparse)):
        indptr, indices, values = of.sparse[term]
        x_indptr, x_indices, x_values = seen.sparse[term]
        for x_entry in range(x_indptr[row], x_indptr[row + 1]):
            word, value = x_indices[x_entry], x_values[x_entry]
            for entry in range(indptr[word], indptr[word + 1]):
                memory[indices[entry]] += value * values[entry]


@jit
def _foremost(memory: Array, out: Array) -> tuple[float, int]:
    """Write to `out` the few labels whose memory is above a level, as many as it holds.

    Any level is right. This one is lowered until labels of some combs are above it, which is quickly found
    out, or until what is left of the memory is too little to matter.

    Returns
    -------
    level, found
        The level, and how many labels were written.
    """
    peaks = _peaks(memory)
    level = highest = peaks.max()
    while level > 0.01 * highest and _n_above(level, peaks) < _FOREMOST:
        level *= 0.75
    found = 0
    for comb in np.flatnonzero(peaks > level):
        for label in range(comb, len(memory), len(peaks)):
            if memory[label] > level and found < len(out):
                out[found] = label
                found += 1
    return level, found


@jit
def _n_above(level: float, values: Array) -> int:
    count = 0
    for value in values:
        count += value > level
    return count


@jit
def _peaks(values: Array) -> Array:
    """(n,): the largest value of each comb, and 0 at least. Comb c has the values c, c + n, c + 2n and so on.

    So combs stand side by side, and are compared several at a time.
    """
    peaks = np.zeros(-(-len(values) // _COMB), values.dtype)
    for start in range(0, len(values), len(peaks)):
        some = values[start : start + len(peaks)]
        for c in range(len(some)):
            peaks[c] = max(peaks[c], some[c])
    return peaks


@jit
def _visit(
    some: Array, of: LabelSide, starts: Array, f: Array, memory: Array, best: tuple[Array, Array]
) -> int:
    """Score some labels and keep the best; returns how many were scored."""
    ranking = _scores(some, of, starts, f, memory)
    if len(of.emphasis):
        _emphasise(some, of, ranking)
    labels, scores = best
    for i in range(len(some)):
        _keep(some[i], ranking[i], labels, scores)
    return len(some)


@jit
def _scores(some: Array, of: LabelSide, starts: Array, f: Array, memory: Array) -> Array:
    """(len(some),) float32: raw scores of some labels for one document."""
    out = np.zeros(len(some), np.float64)
    for term in range(len(of.dense)):
        A, root, own = of.dense[term], of.roots[term], f[starts[term] : starts[term + 1]]
        for i in range(len(some)):
            score = _dot(own, A[some[i]])
            out[i] += root * np.sqrt(score) if root > 0 else score
    if len(memory):
        for i in range(len(some)):
            out[i] += memory[some[i]]
    return out.astype(np.float32)


# the order of additions is free, as it must be for several at a time, but the same for every label
@jit(fastmath={"reassoc", "contract"})
def _dot(x: Array, y: Array) -> float:
    total = 0.0
    for j in range(len(x)):
        total += x[j] * np.float64(y[j])
    return total


@jit
def _emphasise(some: Array, of: LabelSide, scores: Array) -> None:
    """Turn scores into the numbers that labels are ranked by, in place; as `Blend.ranking` does."""
    for i in range(len(some)):
        if len(of.knots):
            scores[i] = interpolated(scores[i], of.knots, of.heights)
        scores[i] *= of.emphasis[some[i]]


@jit
def _ranked_at_most(scores: Array, level: float, of: LabelSide, emphasis: Array, out: Array) -> None:
    """Bound the numbers that labels of each tile are ranked by, if none has a memory above the level."""
    for tile in range(len(scores)):
        out[tile] = scores[tile] + level
    for tile in range(len(emphasis)):
        if len(of.knots):
            out[tile] = interpolated(np.float32(out[tile]), of.knots, of.heights)
        out[tile] = max(0.0, out[tile]) * emphasis[tile] * (1 + _ROUNDING)


@jit
def _keep(label: int, score: float, labels: Array, scores: Array) -> None:
    """Put the label where it belongs among the best, if it is not there already; ties by label id."""
    place = len(labels)
    while place > 0 and (
        score > scores[place - 1] or (score == scores[place - 1] and label < labels[place - 1])
    ):
        place -= 1
    if place == len(labels) or (place > 0 and labels[place - 1] == label):
        return
    for later in range(len(labels) - 1, place, -1):
        labels[later], scores[later] = labels[later - 1], scores[later - 1]
    labels[place], scores[place] = label, score
