"""Pass 3: labels with pairs of words (the paper's Algorithm 1, step 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.corpus.rows import Array, SparseRows
from pipeline.corpus.store import Block
from pipeline.passes import kernels
from pipeline.passes.pairs import accumulator_type
from pipeline.passes.run import Sums
from pipeline.passes.words import WordView


@dataclass(frozen=True)
class Labels:
    """Sums y ⊗ (V'x)², V = WU; without self-pairs the square becomes (v_k·x)² - sum_v c_v V_vk².

    When error bars are wanted, `V_even` holds the directions that the even documents alone would give, and
    the same sum over these documents is made with it.
    """

    view: WordView
    V: Array
    """(D, K) float32."""
    n_labels: int
    V_even: Array | None = None
    """(D, K) float32."""
    name: str = "labels"

    def zero(self) -> Sums:
        shape = (self.n_labels, self.V.shape[1])
        dtype = accumulator_type(shape[0] * shape[1])
        sums: Sums = {"weights": np.zeros(2), "moments": np.zeros(shape, dtype)}
        if self.V_even is not None:
            sums["even moments"] = np.zeros(shape, dtype)
        return sums

    def add(self, sums: Sums, block: Block) -> None:
        X, Y = self.view.words(block), block.Y
        weights = self.view.pair_weight(self.view.lengths(X)) * np.diff(Y.indptr)
        sums["weights"] += [weights.sum(), weights[block.first_row % 2 :: 2].sum()]
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            words, labels = X.slice(start, stop), Y.slice(start, stop)
            kernels.add_label_moments(labels, self._squares(words, self.V), sums["moments"])
            if self.V_even is not None:
                even = np.arange((block.first_row + start) % 2, stop - start, 2)
                squares = self._squares(words.take(even), self.V_even)
                kernels.add_label_moments(labels.take(even), squares, sums["even moments"])

    def _squares(self, words: SparseRows, V: Array) -> Array:
        """(n, K): (v_k·x)², or without self-pairs."""
        S = kernels.times(words, V)
        S *= S
        if self.view.drop_self_pairs:
            S -= kernels.times(words, V * V)
        return S

    def moments(self, sums: Sums) -> Array:
        """(L, K): M2L(WU, WU), column k being gamma_k."""
        return np.asarray(sums["moments"] / (sums["weights"][0] or 1))

    def even_moments(self, sums: Sums) -> Array:
        """(L, K): the same from the even documents alone, with their own directions."""
        return np.asarray(sums["even moments"] / (sums["weights"][1] or 1))
