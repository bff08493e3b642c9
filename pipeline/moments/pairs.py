"""Pass 1: pairs of words, and the normalisers of all three moments (the paper's section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..passes import kernels
from ..passes.cost import Cost, Needs, Size
from ..passes.sums import Sums
from ..passes.tall import TallSum, segment_tall_bytes, tall_bytes
from ..passes.work import Pass
from ..tasks import map_tasks
from ..types import Array
from .words import WordView

_LARGEST = float(np.iinfo(np.int16).max)


@dataclass
class Statistics(Sums):
    """Sums over the documents that the moments and the guarantee are divided by."""

    n_docs: int = 0
    n_labelled: int = 0
    """Documents with at least one label."""
    words: float = 0.0
    """sum n"""
    pairs: float = 0.0
    """sum n², or n(n - 1) without self-pairs; M2's normaliser (equation 16)."""
    triples: float = 0.0
    """sum n³, or n(n - 1)(n - 2); M3's normaliser (equation 17)."""
    label_pairs: float = 0.0
    """sum n² nnz(y), or n(n - 1) nnz(y); M2L's normaliser (equation 20)."""
    label_words: float = 0.0
    """sum n nnz(y)"""


@dataclass
class PairSums(Sums):
    """Sums of pass 1."""

    statistics: Statistics
    term_totals: Array
    """(D,) float64: sum_d c_v, by which self-pairs are taken out at the end."""
    pairs: Array | None = None
    """(D, D) float64: X'X, its upper half."""
    product: TallSum | None = None
    """(D, p): X'(X Omega), where there is a sketch."""


@dataclass(frozen=True)
class Sketch:
    """Omega (D, p), its entries as short integers.

    Any matrix that spans about the same space will do, so nothing is lost by rounding it, and rows of half as
    many bytes are reached in little more than half of the time.
    """

    values: Array
    """(D, p) int16."""
    scale: Array
    """(p,) float32: Omega is `values` times this."""

    @classmethod
    def of(cls, basis: Array, words: Array, n_terms: int, n_threads: int | None = None) -> Sketch:
        """From the rows (m, p) of some words; those of all others are zero."""
        slabs = [slice(start, start + kernels.SLAB) for start in range(0, len(words), kernels.SLAB)]

        def largest(some: slice) -> Array:
            return np.asarray(np.abs(basis[some]).max(axis=0))

        found = map_tasks(largest, slabs, name="sketch", n_threads=n_threads)
        extent = np.max([np.zeros(basis.shape[1]), *found], axis=0)
        scale = np.where(extent > 0, extent / _LARGEST, 1).astype(np.float32)
        values = np.zeros((n_terms, basis.shape[1]), np.int16)

        def put(some: slice) -> None:
            values[words[some]] = np.rint(basis[some] / scale)

        map_tasks(put, slabs, name="sketch", n_threads=n_threads)
        return cls(values, scale)

    @property
    def shape(self) -> tuple[int, int]:
        n_terms, width = self.values.shape
        return n_terms, width

    def __getitem__(self, rows: slice) -> Array:
        """Some rows of Omega, float32."""
        return np.asarray(self.values[rows] * self.scale)

    def products(self, X: SparseRows) -> Array:
        """(n, p) float32: X Omega.

        Cost: nnz rows of 2 p bytes are gathered.
        """
        Z = kernels.times(X, self.values, np.float32)
        Z *= self.scale
        return Z


@dataclass(frozen=True)
class Pairs(Pass[PairSums]):
    """Pass 1: X'X when `sketch` is None, else X'(X Omega)."""

    view: WordView
    n_terms: int
    sketch: Sketch | None = None
    name = "pairs"

    def needs(self, size: Size) -> Needs:
        D = self.n_terms
        if self.sketch is None:
            sums = 8 * D + 8 * D * D
            return Needs(sums, sums, cost=Cost(gathered=8 * size.pairs))  # half of the pairs, 16 bytes each
        shape = self.sketch.shape
        return Needs(
            sums=8 * D + tall_bytes(*shape),
            segment=8 * D + segment_tall_bytes(*shape, size.n_docs, size.x_nnz),
            block_document=4 * shape[1],
            cost=Cost(gathered=10 * size.x_nnz * shape[1]),
        )

    def zero(self) -> PairSums:
        D = self.n_terms
        if self.sketch is None:
            return PairSums(Statistics(), np.zeros(D), pairs=np.zeros((D, D)))
        return PairSums(Statistics(), np.zeros(D), product=TallSum.zero(*self.sketch.shape))

    def add(self, sums: PairSums, block: Block) -> None:
        X = self.view.words(block)
        n, n_labels = self.view.lengths(X), np.diff(block.Y.indptr)
        pairs, triples = self.view.pair_weight(n), self.view.triple_weight(n)
        sums.statistics.merge(
            Statistics(
                len(n),
                int((n_labels > 0).sum()),
                float(n.sum()),
                float(pairs.sum()),
                float(triples.sum()),
                float((pairs * n_labels).sum()),
                float((n * n_labels).sum()),
            )
        )
        sums.term_totals += np.bincount(X.indices, X.values, minlength=self.n_terms)
        if sums.pairs is not None:
            kernels.add_pairs(X, sums.pairs)
        if self.sketch is not None and sums.product is not None:
            sums.product.add(X, self.sketch.products(X))


def exact_m2(sums: PairSums, view: WordView) -> Array:
    """(D, D): M2 = X'X / sum n², or without self-pairs (X'X - diag(c)) / sum n(n - 1).

    The pairs leave the sums.
    """
    M2, sums.pairs = sums.pairs, None
    assert M2 is not None
    for j in range(1, len(M2)):
        M2[j, :j] = M2[:j, j]
    if view.drop_self_pairs:
        M2[np.diag_indices(len(M2))] -= sums.term_totals
    M2 /= sums.statistics.pairs
    return M2


def sketched_m2(sums: PairSums, view: WordView, sketch: Sketch) -> Array:
    """(D, p) float32: M2 Omega, made in place of X'(X Omega), which leaves the sums."""
    assert sums.product is not None
    product, sums.product = sums.product.finished(), None
    if view.drop_self_pairs:
        for start in range(0, len(product), kernels.SLAB):  # another D x p would be large
            rows = slice(start, start + kernels.SLAB)
            product[rows] -= sums.term_totals[rows, None] * sketch[rows]
    product /= sums.statistics.pairs
    return product
