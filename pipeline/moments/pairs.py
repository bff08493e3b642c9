"""Pass 1: pairs of words, and the normalisers of all three moments (the paper's section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..passes import kernels
from ..passes.cost import Cost, Size
from ..passes.sums import Sums
from ..passes.tall import TallSum, segment_tall_bytes, tall_bytes
from ..tasks import map_tasks
from ..types import Array
from .words import WordView

_LARGEST = float(np.iinfo(np.int16).max)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Sums over the documents that the moments and the guarantee are divided by."""

    n_docs: int
    n_labelled: int
    """Documents with at least one label."""
    words: float
    """sum n"""
    pairs: float
    """sum n², or n(n - 1) without self-pairs; M2's normaliser."""
    triples: float
    """sum n³, or n(n - 1)(n - 2); M3's normaliser."""
    label_pairs: float
    """sum n² nnz(y), or n(n - 1) nnz(y); M2L's normaliser."""
    label_words: float
    """sum n nnz(y)"""

    @classmethod
    def of(cls, sums: Sums) -> Statistics:
        n_docs, n_labelled, *rest = sums["statistics"].tolist()
        return cls(int(n_docs), int(n_labelled), *rest)


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
class Pairs:
    """Sums X'X (upper half) when `sketch` is None, else X'(X Omega).

    `term_totals` is sum_d c_v, by which self-pairs are taken out at the end.
    """

    view: WordView
    n_terms: int
    sketch: Sketch | None = None
    name: str = "pairs"

    @property
    def accumulator_bytes(self) -> int:
        D = self.n_terms
        return 8 * D + (8 * D * D if self.sketch is None else tall_bytes(*self.sketch.shape))

    def segment_bytes(self, n_docs: int, nnz: int) -> int:
        if self.sketch is None:
            return self.accumulator_bytes
        return 8 * self.n_terms + segment_tall_bytes(*self.sketch.shape, n_docs, nnz)

    def cost(self, size: Size) -> Cost:
        if self.sketch is None:
            return Cost(gathered=8 * size.pairs)  # half of the pairs, 16 bytes each
        return Cost(gathered=10 * size.x_nnz * self.sketch.shape[1])

    def zero(self) -> Sums:
        D = self.n_terms
        pairs = np.zeros((D, D)) if self.sketch is None else TallSum.zero(*self.sketch.shape)
        return {"statistics": np.zeros(7), "term_totals": np.zeros(D), "pairs": pairs}

    def add(self, sums: Sums, block: Block) -> None:
        X = self.view.words(block)
        n, n_labels = self.view.lengths(X), np.diff(block.Y.indptr)
        pairs, triples = self.view.pair_weight(n), self.view.triple_weight(n)
        sums["statistics"] += [
            len(n),
            (n_labels > 0).sum(),
            n.sum(),
            pairs.sum(),
            triples.sum(),
            (pairs * n_labels).sum(),
            (n * n_labels).sum(),
        ]
        sums["term_totals"] += np.bincount(X.indices, X.values, minlength=self.n_terms)
        if self.sketch is None:
            kernels.add_pairs(X, sums["pairs"])
        else:
            sums["pairs"].add(X, self.sketch.products(X))


def exact_m2(sums: Sums, view: WordView) -> Array:
    """(D, D): M2 = X'X / sum n², or without self-pairs (X'X - diag(c)) / sum n(n - 1).

    The pairs leave the accumulator.
    """
    M2: Array = sums.pop("pairs")
    for j in range(1, len(M2)):
        M2[j, :j] = M2[:j, j]
    if view.drop_self_pairs:
        M2[np.diag_indices(len(M2))] -= sums["term_totals"]
    M2 /= Statistics.of(sums).pairs
    return M2


def sketched_m2(sums: Sums, view: WordView, sketch: Sketch) -> Array:
    """(D, p) float32: M2 Omega, made in place of X'(X Omega), which leaves the accumulator."""
    product: Array = sums.pop("pairs").finished()
    if view.drop_self_pairs:
        for start in range(0, len(product), kernels.SLAB):  # another D x p would be large
            rows = slice(start, start + kernels.SLAB)
            product[rows] -= sums["term_totals"][rows, None] * sketch[rows]
    product /= Statistics.of(sums).pairs
    return product
