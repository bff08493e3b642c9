"""Pass 2: whitened triples of words (Algorithm 1, step 4), and how well the words are whitened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.corpus.rows import Array
from pipeline.corpus.store import Block
from pipeline.passes import kernels
from pipeline.passes.pairs import accumulator_type
from pipeline.passes.run import Sums
from pipeline.passes.words import WordView

HALVES = ("even", "odd")
"""Documents by the parity of their number: what differs between the halves is what chance did."""


@dataclass(frozen=True, slots=True)
class WhitenedMoments:
    """What pass 2 tells of one half of the documents, or of all."""

    M2: Array
    """(K, K): W'M2W; the identity, as far as W was computed from these documents."""
    M3: Array
    """(K, K, K): M3(W, W, W)."""


@dataclass(frozen=True)
class Triples:
    """Sums z⊗z and z⊗z⊗z for z = W'x, for the even and the odd documents.

    Without self-pairs also A = X'(XW) and the words' totals, from which the correction is made at the end.
    """

    view: WordView
    W: Array
    """(D, K) float32."""
    name: str = "triples"

    def zero(self) -> Sums:
        D, K = self.W.shape
        sums: Sums = {}
        for half in HALVES:
            sums[f"weights {half}"] = np.zeros(2)
            sums[f"pairs {half}"] = np.zeros((K, K))
            sums[f"triples {half}"] = np.zeros((K, K, K))
            if self.view.drop_self_pairs:
                sums[f"products {half}"] = np.zeros((D, K), accumulator_type(D * K))
                sums[f"totals {half}"] = np.zeros(D)
        return sums

    def add(self, sums: Sums, block: Block) -> None:
        X = self.view.words(block)
        n = self.view.lengths(X)
        for start in range(0, X.n_rows, kernels.SLAB):
            slab = X.slice(start, min(start + kernels.SLAB, X.n_rows))
            Z = kernels.times(slab, self.W)  # (s, K)
            for half, parity in zip(HALVES, (0, 1), strict=True):
                first = (block.first_row + start + parity) % 2
                own = np.ascontiguousarray(Z[first::2])
                lengths = n[start : start + len(Z)][first::2]
                sums[f"weights {half}"] += [
                    self.view.pair_weight(lengths).sum(), self.view.triple_weight(lengths).sum()
                ]  # fmt: skip
                sums[f"pairs {half}"] += own.T @ own
                kernels.add_whitened_triples(own, sums[f"triples {half}"])
                if self.view.drop_self_pairs:
                    rows = slab.take(np.arange(first, slab.n_rows, 2))
                    kernels.add_transposed_times(rows, own, sums[f"products {half}"])
                    sums[f"totals {half}"] += np.bincount(rows.indices, rows.values, minlength=len(self.W))


def whitened_moments(sums: Sums, work: Triples, half: str | None = None) -> WhitenedMoments:
    """M2 and M3 in the coordinates of W, of one half of the documents or, when None, of all.

    Without self-pairs (c the counts, w_v the rows of W, s = W'c, A = X'(XW)):
    W'M2W = (sum s⊗s - sum_v c_v w_v⊗w_v) / sum n(n - 1), and
    M3 = (sum s⊗s⊗s - sym(sum_v A_v ⊗ w_v ⊗ w_v) + 2 sum_v c_v w_v⊗w_v⊗w_v) / sum n(n - 1)(n - 2),
    where sym adds up the three places that A_v can stand in.
    """
    halves = HALVES if half is None else (half,)

    def total(name: str) -> Array:
        return np.asarray(np.sum([sums[f"{name} {h}"] for h in halves], axis=0))

    pairs, triples = total("pairs"), kernels.symmetrised(total("triples"))
    n_pairs, n_triples = total("weights")
    if work.view.drop_self_pairs:
        W = work.W.astype(np.float64)
        A, c = total("products").astype(np.float64), total("totals")
        pairs -= (W * c[:, None]).T @ W
        K = W.shape[1]
        once = np.zeros((K, K, K))
        for start in range(0, len(W), kernels.SLAB):  # sum_v A_v ⊗ w_v ⊗ w_v
            rows = slice(start, start + kernels.SLAB)
            outer = (W[rows, :, None] * W[rows, None, :]).reshape(len(W[rows]), -1)
            once += (A[rows].T @ outer).reshape(K, K, K)
            triples += 2 * ((W[rows] * c[rows, None]).T @ outer).reshape(K, K, K)
        triples -= once + once.transpose(1, 0, 2) + once.transpose(1, 2, 0)
    return WhitenedMoments(pairs / max(n_pairs, 1), triples / max(n_triples, 1))
