"""The best labels of documents, with most labels left out: the same answer as from all scores."""

from __future__ import annotations

import numpy as np

from ..corpus.rows import SparseRows
from ..types import Array
from .blend import Blend, DocumentFeatures
from .pruning_kernels import Bounds, DocumentSide, LabelSide, best_labels
from .terms import Dense, Sparse

_MOST_GIVEN_UP = 1 / 2
"""Share of a slab's documents given up, after which no further slab is tried."""


def prune(blend: Blend, seen: DocumentFeatures, labels: Array, ranking: Array) -> Array:
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
    `Blend.scores` where the two differ in the last digits of single precision, and nowhere else.

    Cost: 4 p flops for each document and tile, p being the columns of all dense terms, and that of
    `best_labels`.
    """
    tiles, of = blend.tiles, _labels(blend)
    emphasis = tiles.maxima(of.emphasis) if len(of.emphasis) else of.emphasis
    most, step = int(blend.sizes.most_scored * blend.n_labels), blend.sizes.pruned_docs
    scored = np.full(seen.n_docs, -1)
    for start in range(0, seen.n_docs, step):
        rows = slice(start, min(start + step, seen.n_docs))
        some = _documents(blend, seen, rows)
        own = tiles.bounds(some.dense[: len(tiles.extremes)], rows.stop - rows.start)
        bounds = Bounds(tiles.order, tiles.width, own, emphasis)
        given_up = best_labels(bounds, of, some, most, (labels[rows], ranking[rows]), scored[rows])
        scored[rows][given_up] = -1
        if given_up.mean() > _MOST_GIVEN_UP:
            break
    return scored


def _labels(blend: Blend) -> LabelSide:
    dense = [term for term in blend.terms if isinstance(term, Dense)]
    sparse = [term.postings for term in blend.terms if isinstance(term, Sparse)]
    knots, heights, emphasis = (np.zeros(0, np.float32) for _ in range(3))
    if blend.emphasis is not None:
        emphasis = blend.emphasis
        if blend.calibration is not None:
            knots, heights = blend.calibration.scores, blend.calibration.probabilities
    return LabelSide(
        # a compiled tuple may not be empty
        tuple(_contiguous(term.labels) for term in dense) or (np.zeros((blend.n_labels, 0), np.float32),),
        np.array([term.root_weight for term in dense] or [0.0], np.float32).astype(np.float64),
        tuple(rows.csr() for rows in sparse) or (_NOTHING,),
        len(sparse) > 0,
        knots,
        heights,
        emphasis,
    )


def _documents(blend: Blend, seen: DocumentFeatures, rows: slice) -> DocumentSide:
    n = rows.stop - rows.start
    dense = [side[rows] for side in seen.sides if not isinstance(side, SparseRows)]
    sparse = [side.slice(rows.start, rows.stop) for side in seen.sides if isinstance(side, SparseRows)]
    return DocumentSide(
        tuple(map(_contiguous, dense)) or (np.zeros((n, 0), np.float32),),
        tuple(rows.csr() for rows in sparse) or (_NOTHING,),
    )


def _contiguous(array: Array) -> Array:
    return np.ascontiguousarray(array, np.float32)


_NOTHING = np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
