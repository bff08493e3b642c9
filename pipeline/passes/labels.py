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

    @property
    def accumulator_bytes(self) -> int:
        return 16 * self.n_labels * int(self.V.shape[1])

    def zero(self) -> Sums:
        shape = (self.n_labels, self.V.shape[1])
        dtype = accumulator_type(shape[0] * shape[1])
        sums: Sums = {
            "weights": np.zeros(2),
            "label_counts": np.zeros(self.n_labels, np.int64),
            "moments": np.zeros(shape, dtype),
        }
        if self.V_even is not None:
            sums["even moments"] = np.zeros(shape, dtype)
        return sums

    def add(self, sums: Sums, block: Block) -> None:
        X, Y = self.view.words(block), block.Y
        weights = self.view.pair_weight(self.view.lengths(X)) * np.diff(Y.indptr)
        drop = self.view.drop_self_pairs
        V, V_even = (_with_squares(V, drop) for V in (self.V, self.V_even))
        sums["label_counts"] += np.bincount(Y.indices, minlength=self.n_labels)
        sums["weights"] += [weights.sum(), weights[block.first_row % 2 :: 2].sum()]
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            words, labels = X.slice(start, stop), Y.slice(start, stop)
            kernels.add_label_moments(labels, _pair_weights(words, V), sums["moments"])
            if self.V_even is not None:
                even = np.arange((block.first_row + start) % 2, stop - start, 2)
                pairs = _pair_weights(words.take(even), V_even)
                kernels.add_label_moments(labels.take(even), pairs, sums["even moments"])

    def moments(self, sums: Sums) -> Array:
        """(L, K): M2L(WU, WU), column k being gamma_k."""
        return np.asarray(sums["moments"] / (sums["weights"][0] or 1))

    def even_moments(self, sums: Sums) -> Array:
        """(L, K): the same from the even documents alone, with their own directions."""
        return np.asarray(sums["even moments"] / (sums["weights"][1] or 1))


def _with_squares(V: Array | None, drop: bool) -> tuple[Array | None, Array | None]:
    return V, V * V if drop and V is not None else None


def _pair_weights(words: SparseRows, directions: tuple[Array | None, Array | None]) -> Array:
    """(n, K): (v_k·x)², less sum_v c_v V_vk² where the squares are given."""
    V, squares = directions
    assert V is not None
    S = kernels.times(words, V)
    S *= S
    if squares is not None:
        S -= kernels.times(words, squares)
    return S
