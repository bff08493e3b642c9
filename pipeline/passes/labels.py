"""Pass 3: labels with pairs of words (the paper's Algorithm 1, step 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.corpus.rows import Array
from pipeline.corpus.store import Block
from pipeline.passes import kernels
from pipeline.passes.pairs import accumulator_type
from pipeline.passes.run import Sums
from pipeline.passes.triples import HALVES
from pipeline.passes.words import WordView


@dataclass(frozen=True)
class Labels:
    """Sums y ⊗ (V'x)² over the even and the odd documents, V = WU.

    Without self-pairs the square becomes (v_k·x)² - sum_v c_v V_vk².
    """

    view: WordView
    V: Array
    """(D, K) float32."""
    n_labels: int
    name: str = "labels"

    def zero(self) -> Sums:
        shape = (self.n_labels, self.V.shape[1])
        sums: Sums = {}
        for half in HALVES:
            sums[f"moments {half}"] = np.zeros(shape, accumulator_type(shape[0] * shape[1]))
            sums[f"weight {half}"] = np.zeros(1)
        return sums

    def add(self, sums: Sums, block: Block) -> None:
        X, Y = self.view.words(block), block.Y
        weights = self.view.pair_weight(self.view.lengths(X)) * np.diff(Y.indptr)
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            slab = X.slice(start, stop)
            S = kernels.times(slab, self.V) ** 2  # (s, K)
            if self.view.drop_self_pairs:
                S -= kernels.times(slab, self.V**2)
            for half, parity in zip(HALVES, (0, 1), strict=True):
                first = (block.first_row + start + parity) % 2
                rows = Y.slice(start, stop).take(np.arange(first, stop - start, 2))
                kernels.add_label_moments(rows, np.ascontiguousarray(S[first::2]), sums[f"moments {half}"])
                sums[f"weight {half}"] += weights[start:stop][first::2].sum()


def label_moments(sums: Sums, half: str | None = None) -> Array:
    """(L, K): M2L(WU, WU), column k being gamma_k, of one half of the documents or, when None, of all."""
    halves = HALVES if half is None else (half,)
    moments = np.sum([sums[f"moments {h}"] for h in halves], axis=0)
    weight = sum(float(sums[f"weight {h}"][0]) for h in halves)
    return np.asarray(moments / max(weight, 1.0))
