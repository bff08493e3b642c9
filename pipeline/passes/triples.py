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

EVEN, ODD = "even", "odd"
"""Documents by the parity of their row: what the even ones alone tell differs from the whole by chance."""


@dataclass(frozen=True, slots=True)
class WhitenedMoments:
    """What pass 2 tells of all documents, or of the even ones."""

    M2: Array
    """(K, K): W'M2W; the identity, as far as W was computed from these documents."""
    M3: Array
    """(K, K, K): M3(W, W, W)."""


@dataclass(frozen=True)
class Triples:
    """Sums z⊗z and z⊗z⊗z for z = W'x, separately for the even and the odd documents.

    Where they are needed, also A = X'(XW) and the words' totals c: for all documents when self-pairs are
    dropped, for they are taken out at the end; and for the even ones when error bars are wanted.
    """

    view: WordView
    W: Array
    """(D, K) float32."""
    error_bars: bool = True
    name: str = "triples"

    @property
    def _with_products(self) -> tuple[str, ...]:
        if self.view.drop_self_pairs:
            return EVEN, ODD
        return (EVEN,) if self.error_bars else ()

    @property
    def accumulator_bytes(self) -> int:
        D, K = self.W.shape
        return int(16 * K**3 + 8 * D * K * len(self._with_products))

    def zero(self) -> Sums:
        D, K = self.W.shape
        sums: Sums = {}
        for half in (EVEN, ODD):
            sums[f"weights {half}"] = np.zeros(2)
            sums[f"pairs {half}"] = np.zeros((K, K))
            sums[f"triples {half}"] = np.zeros((K, K, K))
        for half in self._with_products:
            sums[f"products {half}"] = np.zeros((D, K), accumulator_type(D * K))
            sums[f"totals {half}"] = np.zeros(D)
        return sums

    def add(self, sums: Sums, block: Block) -> None:
        X = self.view.words(block)
        n = self.view.lengths(X)
        for start in range(0, X.n_rows, kernels.SLAB):
            slab = X.slice(start, min(start + kernels.SLAB, X.n_rows))
            Z = kernels.times(slab, self.W)  # (s, K)
            for half, parity in ((EVEN, 0), (ODD, 1)):
                first = (block.first_row + start + parity) % 2
                own = np.ascontiguousarray(Z[first::2])
                lengths = n[start : start + len(Z)][first::2]
                pairs, triples = self.view.pair_weight(lengths), self.view.triple_weight(lengths)
                sums[f"weights {half}"] += [pairs.sum(), triples.sum()]
                sums[f"pairs {half}"] += own.T @ own
                kernels.add_whitened_triples(own, sums[f"triples {half}"])
                if half in self._with_products:
                    rows = slab.take(np.arange(first, slab.n_rows, 2))
                    kernels.add_transposed_times(rows, own, sums[f"products {half}"])
                    sums[f"totals {half}"] += np.bincount(rows.indices, rows.values, minlength=len(self.W))

    def moments(self, sums: Sums, *halves: str) -> WhitenedMoments:
        """M2 and M3 in the coordinates of W, of the given halves together.

        Without self-pairs (c the counts, w_v the rows of W, s = W'c, A = X'(XW)):
        W'M2W = (sum s⊗s - sum_v c_v w_v⊗w_v) / sum n(n - 1), and
        M3 = (sum s⊗s⊗s - sym(sum_v A_v ⊗ w_v ⊗ w_v) + 2 sum_v c_v w_v⊗w_v⊗w_v) / sum n(n - 1)(n - 2),
        where sym adds up the three places that A_v can stand in.
        """

        def total(name: str) -> Array:
            return np.asarray(np.sum([sums[f"{name} {half}"] for half in halves], axis=0))

        pairs, triples = total("pairs"), kernels.symmetrised(total("triples"))
        n_pairs, n_triples = total("weights")
        if self.view.drop_self_pairs:
            W = self.W.astype(np.float64)
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
        return WhitenedMoments(pairs / (n_pairs or 1), triples / (n_triples or 1))

    def even_m2_times(self, sums: Sums, coordinates: Array) -> Array:
        """(D, m): M2 W A for a (K, m) matrix A, M2 being that of the even documents, up to a factor."""
        product = sums[f"products {EVEN}"] @ coordinates.astype(sums[f"products {EVEN}"].dtype)
        if self.view.drop_self_pairs:
            product -= sums[f"totals {EVEN}"][:, None] * (self.W @ coordinates.astype(self.W.dtype))
        return np.asarray(product)
