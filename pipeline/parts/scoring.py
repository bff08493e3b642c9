"""The best labels of documents, and all of their scores, tile by tile: never an N x L array."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..types import Array
from .blend import Blend, DocumentFeatures
from .pruning import prune
from .scoring_kernels import keep_best

_FEW = 10


def top_labels(blend: Blend, seen: DocumentFeatures, k: int) -> tuple[Array, Array]:
    """The k best labels of each document.

    Labels that cannot be among the best are not scored, where it pays to find out which; documents that
    `prune` gives up have all labels scored.

    Returns
    -------
    labels
        (n, k) int32, best first; ties by label id; -1 where there are fewer than k labels.
    scores
        (n, k) float32, as users see them; NaN where there is no label.

    Notes
    -----
    Cost: at most about that of all scores, and a comparison for each.
    """
    labels, ranking = _best(blend, seen, k) if blend.rescorer is None else _best_anew(blend, seen, k)
    known = labels >= 0
    ranking[known] = blend.shown(ranking[known])
    ranking[~known] = np.nan
    return labels, ranking


def _best(blend: Blend, seen: DocumentFeatures, k: int) -> tuple[Array, Array]:
    """The k best labels by all parts that score every label, and what they are ranked by."""
    labels = np.full((seen.n_docs, k), -1, np.int32)
    ranking = np.full((seen.n_docs, k), -np.inf, np.float32)
    if pruning_pays(blend, k):
        given_up = np.flatnonzero(prune(blend, seen, labels, ranking) < 0)
        rest = labels[given_up], ranking[given_up]
        _score_all(blend, seen.take(given_up), *rest)
        labels[given_up], ranking[given_up] = rest
    else:
        _score_all(blend, seen, labels, ranking)
    return labels, ranking


def _best_anew(blend: Blend, seen: DocumentFeatures, k: int) -> tuple[Array, Array]:
    """The k best labels where the foremost are scored anew, and what they are ranked by.

    A bonus is never below 0. So a label that is not scored anew is among the k best only if it is among the
    k best of its kind, or k + width of all.
    """
    rescorer = blend.rescorer
    assert rescorer is not None
    plain = blend if blend.emphasis is None or blend.plain is None else blend.plain
    width = min(rescorer.rescored, blend.n_labels)
    most = max(width, min(k, blend.n_labels))
    labels, raw = _best(plain, seen, most if plain is blend else width)
    anew = labels[:, :width]
    raw[:, :width] += rescorer.bonus(seen.words.weighted, anew)
    if plain is not blend:
        assert blend.emphasis is not None
        others, ranking = _best(blend, seen, min(k + width, blend.n_labels))
        twice = np.zeros(others.shape, bool)
        for column in anew.T:
            twice |= others == column[:, None]
        others[twice], ranking[twice] = -1, -np.inf
        own = blend.probabilities(raw) * blend.emphasis[labels]
        own[labels < 0] = -np.inf
        labels, raw = np.concatenate([labels, others], axis=1), np.concatenate([own, ranking], axis=1)
    last = np.where(labels < 0, blend.n_labels, labels)
    order = np.lexsort((last, -raw), axis=1)[:, :k]
    labels, raw = np.take_along_axis(labels, order, 1), np.take_along_axis(raw, order, 1)
    missing = ((0, 0), (0, k - labels.shape[1]))
    return np.pad(labels, missing, constant_values=-1), np.pad(raw, missing, constant_values=-np.inf)


def foremost(blend: Blend, seen: DocumentFeatures) -> Array:
    """(n, width): the labels of each document that are scored anew."""
    rescorer, plain = blend.rescorer, blend if blend.plain is None else blend.plain
    assert rescorer is not None
    return _best(plain, seen, min(rescorer.rescored, blend.n_labels))[0]


def labels_above(blend: Blend, seen: DocumentFeatures, threshold: float) -> tuple[Array, Array]:
    """The labels of each document whose scores are at least the threshold.

    Returns
    -------
    rows, labels
        (pairs,) int64 and int32: documents, and their labels.

    Notes
    -----
    The best few are looked at first; where all of these are above the threshold, four times as many.
    """
    rows, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    left, k = np.arange(seen.n_docs), min(_FEW, blend.n_labels)
    while len(left):
        labels, scores = top_labels(blend, seen, k)
        above = (labels >= 0) & (scores >= threshold)
        more = above.all(axis=1) & (k < blend.n_labels)
        above[more] = False
        rows.append(left[np.nonzero(above)[0]])
        found.append(labels[above])
        seen, left, k = seen.take(np.flatnonzero(more)), left[more], min(4 * k, blend.n_labels)
    return np.concatenate(rows), np.concatenate(found)


def pruning_pays(blend: Blend, k: int) -> bool:
    """Whether labels are many, and so many for each of the k."""
    return k > 0 and blend.n_labels >= max(blend.sizes.fewest_labels, k * blend.sizes.labels_per_rank)


def all_scores(blend: Blend, seen: DocumentFeatures) -> Iterator[tuple[slice, Array]]:
    """Raw scores of all labels, for a few documents at a time: for measures that need every score."""
    step = max(1, blend.sizes.score_bytes // max(1, 4 * blend.n_labels))
    for start in range(0, seen.n_docs, step):
        rows = slice(start, min(start + step, seen.n_docs))
        scores = blend.scores(seen, rows, slice(0, blend.n_labels))
        if (rescorer := blend.rescorer) is not None:
            shape = len(scores), min(rescorer.rescored, blend.n_labels)
            anew = np.full(shape, -1, np.int32)
            keep_best(scores, 0, anew, np.full(shape, -np.inf, np.float32))
            X = seen.words.weighted.slice(rows.start, rows.stop)
            scores[np.arange(len(scores))[:, None], anew] += rescorer.bonus(X, anew)
        yield rows, scores


def _score_all(blend: Blend, seen: DocumentFeatures, labels: Array, ranking: Array) -> None:
    n_docs, n_labels = blend.sizes.docs, blend.sizes.labels
    for start in range(0, seen.n_docs, n_docs):
        rows = slice(start, min(start + n_docs, seen.n_docs))
        for first in range(0, blend.n_labels, n_labels):
            some = slice(first, min(first + n_labels, blend.n_labels))
            keep_best(blend.ranking(blend.scores(seen, rows, some), some), first, labels[rows], ranking[rows])
