"""The best labels of documents, with most labels left out: the same answer as from all scores."""

from __future__ import annotations

import numpy as np

from ..corpus.rows import SparseRows
from ..types import Array
from .heads import Head, Seen
from .pruning_kernels import Bounds, Documents, Labels, best_labels

_SLAB = 256
_MOST_SCORED = 1 / 16
"""Share of labels to score before a document is given up: one by one they cost some ten times as much."""
_MOST_GIVEN_UP = 1 / 2
"""Share of a slab's documents given up, after which no further slab is tried."""


def prune(head: Head, seen: Seen, labels: Array, ranking: Array) -> Array:
    """Find the best labels, scoring only those whose tile's bound is not below the k-th best.

    Parameters
    ----------
    labels, ranking
        (n, k), written here; -1 and -inf on entry.

    Returns
    -------
    scored
        (n,): how many labels were scored; -1 for documents given up, of which nothing is written.

    Notes
    -----
    Scores are summed in double precision and rounded once. Labels may come in another order than by
    `Head.scores` where the two differ in the last digits of single precision, and nowhere else.

    Cost: 2 (K + 2p) flops for each document and tile, and that of `best_labels`.
    """
    tiles, of = head.tiles, _labels(head)
    emphasis = tiles.maxima(of.emphasis) if len(of.emphasis) else of.emphasis
    most = int(_MOST_SCORED * head.n_labels)
    scored = np.full(seen.n_docs, -1)
    for start in range(0, seen.n_docs, _SLAB):
        rows = slice(start, min(start + _SLAB, seen.n_docs))
        some = _documents(seen, rows)
        bounds = Bounds(tiles.order, tiles.width, tiles.bounds(some.P, some.F), emphasis)
        given_up = best_labels(bounds, of, some, most, labels[rows], ranking[rows], scored[rows])
        scored[rows][given_up] = -1
        if given_up.mean() > _MOST_GIVEN_UP:
            break
    return scored


def _labels(head: Head) -> Labels:
    Q, n_labels = head.topics.Q, head.n_labels
    knots, heights, emphasis = (np.zeros(0, np.float32) for _ in range(3))
    if head.emphasis is not None:
        emphasis = head.emphasis
        if head.calibration is not None:
            knots, heights = head.calibration.scores, head.calibration.probabilities
    return Labels(
        Q if head.tiles.topics.shape[1] else Q[:, :0],
        np.zeros((n_labels, 0), np.float32) if head.ridge is None else head.ridge.A,
        head.tiles.topics_weight,
        *_triple(head.memory),
        knots,
        heights,
        emphasis,
    )


def _documents(seen: Seen, rows: slice) -> Documents:
    nothing = np.zeros((rows.stop - rows.start, 0), np.float32)
    return Documents(
        nothing if seen.P is None else seen.P[rows],
        nothing if seen.F is None else seen.F[rows],
        *_triple(None if seen.X is None else seen.X.slice(rows.start, rows.stop)),
    )


def _triple(rows: SparseRows | None) -> tuple[Array, Array, Array]:
    if rows is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    return rows.indptr, rows.indices, rows.values_as(np.float32)
