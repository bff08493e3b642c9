"""The best labels of documents, and all of their scores, tile by tile: never an N x L array."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.corpus.rows import Array
from pipeline.model.heads import Head, Seen
from pipeline.model.scoring_kernels import keep_best

SCORE_BYTES = 64_000_000
"""Scores held at a time: some documents by all labels, in single precision."""
_SLAB = 1024
_TILE = 8192


def top_labels(head: Head, seen: Seen, k: int) -> tuple[Array, Array]:
    """The k best labels of each document.

    Returns
    -------
    labels
        (n, k) int32, best first; ties by label id; -1 where there are fewer than k labels.
    scores
        (n, k) float32, as users see them; NaN where there is no label.

    Notes
    -----
    Cost: that of all scores, and a comparison for each.
    """
    labels = np.full((seen.n_docs, k), -1, np.int32)
    scores = np.full((seen.n_docs, k), -np.inf, np.float32)
    for start in range(0, seen.n_docs, _SLAB):
        rows = slice(start, min(start + _SLAB, seen.n_docs))
        for first in range(0, head.n_labels, _TILE):
            some = slice(first, min(first + _TILE, head.n_labels))
            keep_best(head.ranking(head.scores(seen, rows, some), some), first, labels[rows], scores[rows])
    known = labels >= 0
    scores[known] = head.shown(scores[known])
    scores[~known] = np.nan
    return labels, scores


def all_scores(head: Head, seen: Seen) -> Iterator[tuple[slice, Array]]:
    """Raw scores of all labels, for a few documents at a time: for measures that need every score."""
    step = max(1, SCORE_BYTES // max(1, 4 * head.n_labels))
    for start in range(0, seen.n_docs, step):
        rows = slice(start, min(start + step, seen.n_docs))
        yield rows, head.scores(seen, rows, slice(0, head.n_labels))
