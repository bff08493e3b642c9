"""Labels in tiles with upper bounds on their scores, so that most labels need not be scored at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..types import Array
from .pruning_kernels import tile_extremes
from .terms import Dense

_EPS = 2.0**-24
"""The relative error of one operation in single precision."""
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Extremes:
    """Extremes of a dense term's labels, tile by tile.

    For a label l of a tile t and a document F, max(F, 0) · max_t A + min(F, 0) · min_t A >= F · A_l, with
    maxima and minima over the tile's labels, column by column.
    """

    values: Array
    """(T, p) float32: max A, for numbers of one sign; else (T, 2p): max A and min A, side by side."""
    is_nonnegative: bool
    """As of the term."""
    longest: float
    """The length of the longest such row, the larger of each pair."""
    root_weight: float
    """As of the term, rounded as scores are made with it."""

    @classmethod
    def of(cls, term: Dense, order: Array, width: int) -> Extremes:
        """Cost: one read of A."""
        highest, lowest = tile_extremes(term.labels, order, width)
        longest = float(np.linalg.norm(np.maximum(highest, -lowest), axis=1).max(initial=0))
        values = highest if term.is_nonnegative else np.hstack([highest, lowest])
        return cls(values, term.is_nonnegative, longest, float(np.float32(term.root_weight)))

    def bounds(self, F: Array, rounding: int) -> Array:
        """(n, T) float32: no label of the tile has more of the term.

        Widened by more than rounding can take away, here and where labels are scored. A sum of m products in
        single precision, in any order, is off by at most m eps times the sum of their absolute values: the
        sum itself where all are of one sign, else at most |F| times the length of a tile's extremes.
        """
        if self.is_nonnegative:
            bounds = F @ self.values.T
            bounds *= 1 + rounding * _EPS
            bounds += rounding * _TINY  # what underflow may have lost
            if self.root_weight:
                np.sqrt(bounds, out=bounds)
                bounds *= np.float32(self.root_weight)
            return np.asarray(bounds)
        bounds = np.hstack([np.maximum(F, 0), np.minimum(F, 0)]) @ self.values.T
        lengths = np.sqrt(np.einsum("np,np->n", F, F))
        bounds += (rounding * _EPS * self.longest * lengths)[:, None]
        return np.asarray(bounds)


@dataclass(frozen=True)
class Tiles:
    """The labels of a blend, like ones together, with what bounds their scores."""

    order: Array
    """(L,) int32: the labels, tile after tile; the last tile may be short."""
    width: int
    """Labels in a tile."""
    extremes: tuple[Extremes, ...]
    """Of each dense term."""

    @classmethod
    def of(cls, terms: Sequence[Dense], n_labels: int, width: int) -> Tiles:
        """Sort labels by the score they can reach, in powers of two, then by their main column.

        Notes
        -----
        Cost: a few reads of all A, and a sort; 4 L + 8 p L / width bytes.
        """
        reach, main = np.zeros(n_labels), np.zeros(n_labels, np.int64)
        for term in terms:
            if term.is_nonnegative:
                most = term.labels.max(axis=1, initial=0)  # a document of one column only
                reach += term.root_weight * np.sqrt(most) if term.root_weight else most
            else:
                reach += np.sqrt(np.einsum("lp,lp->l", term.labels, term.labels))  # F is about of length 1
            if term.labels.shape[1]:
                main = np.abs(term.labels).argmax(axis=1)
        powers = np.frexp(np.maximum(reach, _TINY))[1]
        order = np.lexsort((-reach, main, -powers)).astype(np.int32)
        return cls(order, width, tuple(Extremes.of(term, order, width) for term in terms))

    @property
    def count(self) -> int:
        """T, the number of tiles."""
        return -(-len(self.order) // self.width)

    @property
    def nbytes(self) -> int:
        return self.order.nbytes + sum(extremes.values.nbytes for extremes in self.extremes)

    def maxima(self, values: Array) -> Array:
        """(T,): the largest of each tile's values (L,)."""
        return np.maximum.reduceat(values[self.order], np.arange(0, len(self.order), self.width))

    def bounds(self, sides: Sequence[Array], n_docs: int) -> Array:
        """(n, T) float32: no label of the tile has a larger score, sparse terms left out.

        Parameters
        ----------
        sides
            The documents as each dense term sees them; no side where all terms are sparse.

        Notes
        -----
        Cost: 4 n T p flops, p being the columns of all terms; half of it where numbers are of one sign.
        """
        rounding = 4 * (2 * sum(side.shape[1] for side in sides) + 8)
        total = np.zeros((n_docs, self.count), np.float32)
        for extremes, side in zip(self.extremes, sides, strict=True):
            total += extremes.bounds(side, rounding)
        return total
