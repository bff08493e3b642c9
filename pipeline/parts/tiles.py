"""Labels in tiles with upper bounds on their scores, so that most labels need not be scored at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import Array
from .pruning_kernels import tile_extremes

WIDTH = 128
"""Labels in a tile: few enough to be alike, and so many that bounds cost little beside scores."""
_EPS = 2.0**-24
"""The relative error of one operation in single precision."""
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Tiles:
    """The labels of a head, like ones together, and for each tile the extremes of their weights.

    For a label l of a tile t and a document of topics P >= 0 and features F,

        P · Q_l <= P · max_t Q    and    F · A_l <= max(F, 0) · max_t A + min(F, 0) · min_t A

    with maxima and minima over the tile's labels, column by column.
    """

    order: Array
    """(L,) int32: the labels, tile after tile; the last tile may be short."""
    width: int
    """Labels in a tile."""
    topics: Array
    """(T, K) float32: max Q; K is 0 for a head without topics."""
    ridge: Array
    """(T, 2p) float32: max A and min A, side by side; p is 0 for a head without ridge regression."""
    longest: float
    """The length of the longest such row of A's extremes, the larger of each pair."""
    topics_weight: float
    """b, for scores with b sqrt(P Q'); 0 where P Q' itself is the score."""

    @classmethod
    def of(cls, Q: Array, A: Array | None, topics_weight: float) -> Tiles:
        """Sort labels by the score they can reach, in powers of two, then by their main topic.

        Parameters
        ----------
        Q
            (L, K) float32.
        A
            (L, p) float32; None where topics alone make the scores.
        topics_weight
            b >= 0, where there is an A.

        Notes
        -----
        Cost: a few reads of Q and A, and a sort; 4 L + 4 (K + 2p) L / WIDTH bytes.
        """
        topics_weight = float(np.float32(topics_weight))  # as scores are made with it
        reach = Q.max(axis=1)  # a document of one topic only
        if A is not None:
            lengths = np.sqrt(np.einsum("lp,lp->l", A, A))  # features of a document are about of length 1
            reach = lengths + topics_weight * np.sqrt(reach)
        powers = np.frexp(np.maximum(reach, _TINY))[1]
        order = np.lexsort((-reach, Q.argmax(axis=1), -powers)).astype(np.int32)
        if A is None:
            highest, _ = tile_extremes(Q, order, WIDTH)
            return cls(order, WIDTH, highest, np.zeros((len(highest), 0), np.float32), 0.0, 0.0)
        highest, lowest = tile_extremes(A, order, WIDTH)
        longest = float(np.linalg.norm(np.maximum(highest, -lowest), axis=1).max(initial=0))
        topics, _ = tile_extremes(Q if topics_weight else Q[:, :0], order, WIDTH)
        return cls(order, WIDTH, topics, np.hstack([highest, lowest]), longest, topics_weight)

    @property
    def nbytes(self) -> int:
        return self.order.nbytes + self.topics.nbytes + self.ridge.nbytes

    def maxima(self, values: Array) -> Array:
        """(T,): the largest of each tile's values (L,)."""
        return np.maximum.reduceat(values[self.order], np.arange(0, len(self.order), self.width))

    def bounds(self, P: Array, F: Array) -> Array:
        """(n, T) float32: no label of the tile has a larger score, memory left out.

        Widened by more than rounding can take away, here and where labels are scored. A sum of m products in
        single precision, in any order, is off by at most m eps times the sum of their absolute values, which
        for topics is the sum itself, and for features at most |F| times the length of a tile's extremes.

        Parameters
        ----------
        P, F
            (n, K) and (n, p) float32; of width 0 where the head does without.

        Notes
        -----
        Cost: 2 n T (K + 2p) flops.
        """
        m = 4 * (P.shape[1] + 2 * F.shape[1] + 8)
        bounds = P @ self.topics.T  # (n, T)
        bounds *= 1 + m * _EPS
        bounds += m * _TINY  # what underflow may have lost
        if self.topics_weight:
            np.sqrt(bounds, out=bounds)
            bounds *= np.float32(self.topics_weight)
        if F.shape[1]:
            bounds += np.hstack([np.maximum(F, 0), np.minimum(F, 0)]) @ self.ridge.T
            lengths = np.sqrt(np.einsum("np,np->n", F, F))
            bounds += (m * _EPS * self.longest * lengths)[:, None]
        return bounds
