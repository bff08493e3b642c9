"""Pass 3: labels with pairs of words (the paper's Algorithm 1, step 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..passes import kernels
from ..passes.cost import Cost, Size
from ..passes.sums import Sums
from ..types import Array
from .words import WordView


@dataclass(frozen=True)
class Directions:
    """Directions V = WU in the space of words, as coordinates in that of W."""

    U: Array
    """(K, K) float32."""
    squares: Array | None = None
    """(D, K) float32: V², where self-pairs are dropped."""

    @classmethod
    def of(cls, W: Array, U: Array, view: WordView) -> Directions:
        U = U.astype(np.float32)
        return cls(U, (W @ U) ** 2 if view.drop_self_pairs else None)

    def pair_weights(self, words: SparseRows, Z: Array) -> Array:
        """(n, K): (v_k·x)², less sum_v c_v V_vk² where self-pairs are dropped; Z (n, K) is XW.

        Cost: 2 n K² flops, less than to gather rows of V.
        """
        S = Z @ self.U
        S *= S
        if self.squares is not None:
            S -= kernels.times(words, self.squares)
        return np.asarray(S)


@dataclass(frozen=True)
class Labels:
    """Sums y ⊗ (V'x)², V = WU; without self-pairs the square becomes (v_k·x)² - sum_v c_v V_vk².

    When error bars are wanted, `even` holds the directions that the even documents alone would give, and the
    same sum over these documents is made with it.
    """

    view: WordView
    W: Array
    """(D, K) float32."""
    directions: Directions
    n_labels: int
    even: Directions | None = None
    name: str = "labels"

    @property
    def n_topics(self) -> int:
        return int(self.W.shape[1])

    @property
    def accumulator_bytes(self) -> int:
        return (1 + (self.even is not None)) * label_bytes(self.n_labels, self.W.shape[1])

    def segment_bytes(self, n_docs: int, nnz: int) -> int:
        return self.accumulator_bytes

    def cost(self, size: Size) -> Cost:
        K, times = self.W.shape[1], 1 + 0.5 * (self.even is not None)
        squares = 0 if self.directions.squares is None else times
        gathered = 4 * (1 + squares) * size.x_nnz * K + 8 * times * size.y_nnz * K
        return Cost(2 * times * size.n_docs * K**2, gathered)

    def zero(self) -> Sums:
        sums: Sums = {
            "weights": np.zeros(2),
            "label_counts": np.zeros(self.n_labels, np.int64),
            "moments": zero_labels(self.n_labels, self.W.shape[1]),
        }
        if self.even is not None:
            sums["even moments"] = zero_labels(self.n_labels, self.W.shape[1])
        return sums

    def add(self, sums: Sums, block: Block) -> None:
        X, Y = self.view.words(block), block.Y
        weights = self.view.pair_weight(self.view.lengths(X)) * np.diff(Y.indptr)
        sums["label_counts"] += np.bincount(Y.indices, minlength=self.n_labels)
        sums["weights"] += [weights.sum(), weights[block.first_row % 2 :: 2].sum()]
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            words, labels = X.slice(start, stop), Y.slice(start, stop)
            Z = kernels.times(words, self.W)
            kernels.add_label_moments(labels, self.directions.pair_weights(words, Z), sums["moments"])
            if self.even is not None:
                rows = np.arange((block.first_row + start) % 2, stop - start, 2)
                pairs = self.even.pair_weights(words.take(rows), Z[rows])
                kernels.add_label_moments(labels.take(rows), pairs, sums["even moments"])

    def moments(self, sums: Sums) -> Array:
        """(L, K): M2L(WU, WU), column k being gamma_k."""
        return np.asarray(sums["moments"] / float(sums["weights"][0] or 1))

    def even_moments(self, sums: Sums) -> Array:
        """(L, K): the same from the even documents alone, with their own directions."""
        return np.asarray(sums["even moments"] / float(sums["weights"][1] or 1))


_DOUBLE_BYTES = 256_000_000
"""Sums with a row for each label are made in double precision, unless they would take more."""


def zero_labels(n_labels: int, width: int) -> Array:
    """(L, width): an accumulator with a row for each label."""
    double = 8 * n_labels * width <= _DOUBLE_BYTES
    return np.zeros((n_labels, width), np.float64 if double else np.float32)


def label_bytes(n_labels: int, width: int) -> int:
    double = 8 * n_labels * width
    return double if double <= _DOUBLE_BYTES else double // 2
