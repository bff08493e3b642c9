"""Pass 3: labels with pairs of words (the paper's Algorithm 1, step 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..passes import kernels
from ..passes.cost import Cost, Needs, Size
from ..passes.label_rows import label_bytes, zero_labels
from ..passes.sums import Sums
from ..passes.work import Pass
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


@dataclass
class LabelSums(Sums):
    """Sums of pass 3."""

    label_counts: Array
    """(L,) int64: on how many documents each label is."""
    moments: Array
    """(L, K): sum y ⊗ (V'x)²."""
    weight: float = 0.0
    """sum n² nnz(y), or n(n - 1) nnz(y); what the moments are divided by."""
    even_moments: Array | None = None
    """(L, K): the same of the even documents, along their own directions."""
    even_weight: float = 0.0


@dataclass(frozen=True)
class LabelPairs(Pass[LabelSums]):
    """Pass 3: labels with pairs of words, sum y ⊗ (V'x)² for V = WU.

    Without self-pairs the square becomes (v_k·x)² - sum_v c_v V_vk². When error bars are wanted, `even` holds
    the directions that the even documents alone would give.
    """

    view: WordView
    W: Array
    """(D, K) float32."""
    directions: Directions
    n_labels: int
    even: Directions | None = None
    name = "labels"

    def needs(self, size: Size) -> Needs:
        K, times = self.W.shape[1], 1 + 0.5 * (self.even is not None)
        sums = (1 + (self.even is not None)) * label_bytes(self.n_labels, K)
        squares = 0 if self.directions.squares is None else times
        gathered = 4 * (1 + squares) * size.x_nnz * K + 8 * times * size.y_nnz * K
        cost = Cost(2 * times * size.n_docs * K**2, gathered)
        return Needs(sums, sums, slab_document=16 * K, cost=cost)

    def zero(self) -> LabelSums:
        shape = self.n_labels, self.W.shape[1]
        even = None if self.even is None else zero_labels(*shape)
        return LabelSums(np.zeros(self.n_labels, np.int64), zero_labels(*shape), even_moments=even)

    def add(self, sums: LabelSums, block: Block) -> None:
        X, Y = self.view.words(block), block.Y
        weights = self.view.pair_weight(self.view.lengths(X)) * np.diff(Y.indptr)
        sums.label_counts += np.bincount(Y.indices, minlength=self.n_labels)
        sums.weight += float(weights.sum())
        sums.even_weight += float(weights[block.first_row % 2 :: 2].sum())
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            words, labels = X.slice(start, stop), Y.slice(start, stop)
            Z = kernels.times(words, self.W)
            kernels.add_label_moments(labels, self.directions.pair_weights(words, Z), sums.moments)
            if self.even is not None and sums.even_moments is not None:
                rows = np.arange((block.first_row + start) % 2, stop - start, 2)
                pairs = self.even.pair_weights(words.take(rows), Z[rows])
                kernels.add_label_moments(labels.take(rows), pairs, sums.even_moments)


def label_moments(sums: LabelSums) -> Array:
    """(L, K): M2L(WU, WU), column k being gamma_k."""
    return np.asarray(sums.moments / (sums.weight or 1.0))


def even_label_moments(sums: LabelSums) -> Array:
    """(L, K): the same from the even documents alone, along their own directions."""
    assert sums.even_moments is not None
    return np.asarray(sums.even_moments / (sums.even_weight or 1.0))
