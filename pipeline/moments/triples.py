"""Pass 2: whitened triples of words (Algorithm 1, step 4), and how well the words are whitened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..corpus.store import Block
from ..passes import kernels
from ..passes.cost import Cost, Size
from ..passes.sums import Sums
from ..passes.tall import TallSum, segment_tall_bytes, tall_bytes
from ..types import Array
from .words import WordView

_WORDS = 512
"""Words whose outer products are held at a time: 41 MB at K = 100."""
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
        return int(16 * K**3 + (8 * D + tall_bytes(D, K)) * len(self._with_products))

    def segment_bytes(self, n_docs: int, nnz: int) -> int:
        D, K = self.W.shape
        products = 8 * D + segment_tall_bytes(D, K, (n_docs + 1) // 2, (nnz + 1) // 2)
        return int(16 * K**3 + products * len(self._with_products))

    def cost(self, size: Size) -> Cost:
        K = self.W.shape[1]
        products = 0.5 * len(self._with_products)  # of the documents
        return Cost(size.n_docs * (K**3 / 3 + K**2), (4 + 8 * products) * size.x_nnz * K)

    def zero(self) -> Sums:
        D, K = self.W.shape
        sums: Sums = {}
        for half in (EVEN, ODD):
            sums[f"weights {half}"] = np.zeros(2)
            sums[f"pairs {half}"] = np.zeros((K, K))
            sums[f"triples {half}"] = np.zeros((K, K, K))
        for half in self._with_products:
            sums[f"products {half}"] = TallSum.zero(D, K)
            sums[f"totals {half}"] = np.zeros(D)
        return sums

    def add(self, sums: Sums, block: Block) -> None:
        words = self.view.words(block)
        for half, parity in ((EVEN, 0), (ODD, 1)):
            X = words.take(np.arange((block.first_row + parity) % 2, words.n_rows, 2))
            n = self.view.lengths(X)
            pairs, triples = self.view.pair_weight(n), self.view.triple_weight(n)
            sums[f"weights {half}"] += [pairs.sum(), triples.sum()]
            Z = kernels.times(X, self.W)  # (n, K)
            for start in range(0, X.n_rows, kernels.SLAB):
                slab = Z[start : start + kernels.SLAB]
                sums[f"pairs {half}"] += slab.T @ slab
                kernels.add_whitened_triples(slab, sums[f"triples {half}"])
            if half in self._with_products:
                sums[f"products {half}"].add(X, Z)
                sums[f"totals {half}"] += np.bincount(X.indices, X.values, minlength=len(self.W))

    def moments(self, sums: Sums, *halves: str) -> WhitenedMoments:
        """M2 and M3 in the coordinates of W, of the given halves together.

        Without self-pairs (c the counts, w_v the rows of W, s = W'c, A = X'(XW)):
        W'M2W = (sum s⊗s - sum_v c_v w_v⊗w_v) / sum n(n - 1), and
        M3 = (sum s⊗s⊗s - sym(sum_v A_v ⊗ w_v ⊗ w_v) + 2 sum_v c_v w_v⊗w_v⊗w_v) / sum n(n - 1)(n - 2),
        where sym adds up the three places that A_v can stand in.
        """

        def total(name: str) -> Array:
            return np.asarray(np.sum([sums[f"{name} {half}"] for half in halves], axis=0))

        pairs, triples = total("pairs"), total("triples")
        kernels.symmetrise(triples)
        n_pairs, n_triples = total("weights")
        if self.view.drop_self_pairs:
            K, c = self.W.shape[1], total("totals")
            products = [sums[f"products {half}"].finished() for half in halves]
            once = np.zeros((K, K, K))
            for start in range(0, len(self.W), _WORDS):
                rows = slice(start, start + _WORDS)
                W = self.W[rows].astype(np.float64)
                A = np.add.reduce([product[rows] for product in products], dtype=np.float64)
                cW = W * c[rows, None]
                outer = (W[:, :, None] * W[:, None, :]).reshape(len(W), -1)
                pairs -= cW.T @ W
                once += (A.T @ outer).reshape(K, K, K)  # sum_v A_v ⊗ w_v ⊗ w_v
                triples += 2 * (cW.T @ outer).reshape(K, K, K)
            triples -= once + once.transpose(1, 0, 2) + once.transpose(1, 2, 0)
        return WhitenedMoments(pairs / (n_pairs or 1), triples / (n_triples or 1))

    def even_m2_times(self, sums: Sums, coordinates: Array, rows: slice) -> Array:
        """(n, m): some rows of M2 W A for a (K, m) matrix A; M2 is the even documents', up to a factor."""
        coordinates = coordinates.astype(np.float32)
        product = sums[f"products {EVEN}"].finished()[rows] @ coordinates
        if self.view.drop_self_pairs:
            product -= sums[f"totals {EVEN}"][rows, None] * (self.W[rows] @ coordinates)
        return np.asarray(product)
