"""Pass 2: whitened triples of words (Algorithm 1, step 4), and how well the words are whitened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..corpus.store import Block
from ..passes import kernels
from ..passes.cost import Cost, Needs, Size
from ..passes.sums import Sums
from ..passes.tall import TallSum, segment_tall_bytes, tall_bytes
from ..passes.work import Pass
from ..types import Array
from .words import WordView

_WORDS = 512
"""Words whose outer products are held at a time: 41 MB at K = 100."""


@dataclass
class HalfSums(Sums):
    """Sums of pass 2 over every other document."""

    pairs: Array
    """(K, K): z⊗z."""
    triples: Array
    """(K, K, K): z⊗z⊗z."""
    pair_weight: float = 0.0
    """sum n², or n(n - 1)."""
    triple_weight: float = 0.0
    """sum n³, or n(n - 1)(n - 2)."""
    products: TallSum | None = None
    """(D, K): A = X'(XW)."""
    term_totals: Array | None = None
    """(D,): c, the words' totals."""


@dataclass
class TripleSums(Sums):
    """Sums of pass 2, by the parity of a document's row.

    What the even documents alone tell differs from the whole by chance, which gives the error bars.
    """

    even: HalfSums
    odd: HalfSums

    @property
    def halves(self) -> tuple[HalfSums, HalfSums]:
        return self.even, self.odd


@dataclass(frozen=True, slots=True)
class WhitenedMoments:
    """Whitened moments of all documents, or of the even ones."""

    M2: Array
    """(K, K): W'M2W; the identity, as far as W was computed from these documents."""
    M3: Array
    """(K, K, K): M3(W, W, W)."""

    def carried(self, R: Array) -> WhitenedMoments:
        """The same moments in the coordinates of W R."""
        M3 = self.M3
        for _ in range(3):  # each turn contracts the first index and puts the new one last
            M3 = np.tensordot(M3, R, axes=(0, 0))
        return WhitenedMoments(R.T @ self.M2 @ R, M3)


@dataclass(frozen=True)
class Triples(Pass[TripleSums]):
    """Pass 2: z⊗z and z⊗z⊗z for z = W'x, separately for the even and the odd documents.

    Where they are needed, also A = X'(XW) and the words' totals c: for all documents when self-pairs are
    dropped, for they are taken out at the end; and for the even ones when error bars are wanted.
    """

    view: WordView
    W: Array
    """(D, K) float32."""
    error_bars: bool = True
    name = "triples"

    @property
    def _with_products(self) -> tuple[bool, bool]:
        """Whether the even and the odd documents have products."""
        drop = self.view.drop_self_pairs
        return drop or self.error_bars, drop

    def needs(self, size: Size) -> Needs:
        (D, K), halves = self.W.shape, sum(self._with_products)
        segment = 8 * D + segment_tall_bytes(D, K, (size.n_docs + 1) // 2, (size.x_nnz + 1) // 2)
        products = 0.5 * halves  # of the documents
        cost = Cost(size.n_docs * (K**3 / 3 + K**2), (4 + 8 * products) * size.x_nnz * K)
        return Needs(
            sums=16 * K**3 + (8 * D + tall_bytes(D, K)) * halves,
            segment=16 * K**3 + segment * halves,
            slab_document=(4 + 4 * kernels.TRIPLE_BLOCK) * K,
            block_document=2 * K,  # half of the documents at a time
            cost=cost,
        )

    def zero(self) -> TripleSums:
        return TripleSums(*(self._zero_half(products) for products in self._with_products))

    def _zero_half(self, products: bool) -> HalfSums:
        D, K = self.W.shape
        sums = HalfSums(np.zeros((K, K)), np.zeros((K, K, K)))
        if products:
            sums.products, sums.term_totals = TallSum.zero(D, K), np.zeros(D)
        return sums

    def add(self, sums: TripleSums, block: Block) -> None:
        words = self.view.words(block)
        for parity, half in enumerate(sums.halves):
            X = words.take(np.arange((block.first_row + parity) % 2, words.n_rows, 2))
            n = self.view.lengths(X)
            half.pair_weight += float(self.view.pair_weight(n).sum())
            half.triple_weight += float(self.view.triple_weight(n).sum())
            Z = kernels.times(X, self.W)  # (n, K)
            for start in range(0, X.n_rows, kernels.SLAB):
                slab = Z[start : start + kernels.SLAB]
                half.pairs += slab.T @ slab
                kernels.add_whitened_triples(slab, half.triples)
            if half.products is not None and half.term_totals is not None:
                half.products.add(X, Z)
                half.term_totals += np.bincount(X.indices, X.values, minlength=len(self.W))

    def moments(self, *halves: HalfSums) -> WhitenedMoments:
        """M2 and M3 in the coordinates of W, of the given halves together.

        Without self-pairs (c the counts, w_v the rows of W, s = W'c, A = X'(XW)):
        W'M2W = (sum s⊗s - sum_v c_v w_v⊗w_v) / sum n(n - 1), and
        M3 = (sum s⊗s⊗s - sym(sum_v A_v ⊗ w_v ⊗ w_v) + 2 sum_v c_v w_v⊗w_v⊗w_v) / sum n(n - 1)(n - 2),
        where sym adds up the three places that A_v can stand in.
        """
        pairs = np.asarray(np.sum([half.pairs for half in halves], axis=0))
        triples = np.asarray(np.sum([half.triples for half in halves], axis=0))
        kernels.symmetrise(triples)
        n_pairs = sum(half.pair_weight for half in halves)
        n_triples = sum(half.triple_weight for half in halves)
        if self.view.drop_self_pairs:
            K = self.W.shape[1]
            c = np.sum([half.term_totals for half in halves if half.term_totals is not None], axis=0)
            products = [half.products.finished() for half in halves if half.products is not None]
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
        return WhitenedMoments(pairs / (n_pairs or 1.0), triples / (n_triples or 1.0))

    def even_m2_times(self, even: HalfSums, coordinates: Array, rows: slice) -> Array:
        """(n, m): some rows of M2 W A for a (K, m) matrix A; M2 is the even documents', up to a factor."""
        assert even.products is not None
        assert even.term_totals is not None
        coordinates = coordinates.astype(np.float32)
        product = even.products.finished()[rows] @ coordinates
        if self.view.drop_self_pairs:
            product -= even.term_totals[rows, None] * (self.W[rows] @ coordinates)
        return np.asarray(product)
