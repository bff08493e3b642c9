"""From words to topic posteriors, and from these to the best labels (the paper's section 2.4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.corpus.rows import Array, SparseRows
from pipeline.model.scoring_kernels import keep_best
from pipeline.passes import kernels

SCORE_BYTES = 64_000_000
"""Scores held at a time: some documents by some or all labels, in single precision."""
_SLAB = 1024
_TILE = 8192


def log_word_topics(O: Array, smoothing: float) -> Array:
    """(D, K) float32: log of O mixed with a uniform distribution; no single word may rule a topic out."""
    D = max(1, len(O))
    return np.log((1 - smoothing) * O + smoothing / D).astype(np.float32)


def posterior(X: SparseRows, log_O: Array, log_pi: Array) -> Array:
    """(n, K) float32: P[topic | document], from the distinct words of each document.

    P[h | d] ~ pi_h prod_v O_vh, in logarithms, with the row's maximum taken out before exp. A document with
    no known word gets the prior.

    Cost: nnz rows of log O are gathered.
    """
    binary = SparseRows(X.indptr, X.indices, None, X.n_columns)
    # logarithms of long documents run into the thousands: only double precision keeps their differences
    P = kernels.times(binary, log_O, np.float64) + log_pi  # (n, K)
    P -= P.max(axis=1, keepdims=True)
    np.exp(P, out=P)
    P /= P.sum(axis=1, keepdims=True)
    return P.astype(np.float32)


def top_labels(P: Array, Q: Array, k: int) -> tuple[Array, Array]:
    """The k best labels of each document by P Q', tile by tile: never an N x L array.

    Returns
    -------
    labels
        (n, k) int32, best first; ties by label id; -1 where there are fewer than k labels.
    scores
        (n, k) float32: P[label | document]; NaN where there is no label.

    Cost: 2 n L K flops, and a comparison for each of the n L scores.
    """
    labels = np.full((len(P), k), -1, np.int32)
    scores = np.full((len(P), k), -np.inf, np.float32)
    for start in range(0, len(P), _SLAB):
        rows = slice(start, start + _SLAB)
        for first in range(0, len(Q), _TILE):
            tile = P[rows] @ Q[first : first + _TILE].T  # (s, t)
            keep_best(tile, first, labels[rows], scores[rows])
    scores[labels < 0] = np.nan
    return labels, scores


def all_scores(P: Array, Q: Array) -> Iterator[tuple[slice, Array]]:
    """P Q' for a few documents at a time, all labels: for measures that need every score."""
    step = max(1, SCORE_BYTES // max(1, 4 * len(Q)))
    for start in range(0, max(1, len(P)), step):
        rows = slice(start, min(start + step, len(P)))
        yield rows, P[rows] @ Q.T
