"""Pass 1: pairs of words, and the normalisers of all three moments (the paper's section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.corpus.rows import Array
from pipeline.corpus.store import Block
from pipeline.passes import kernels
from pipeline.passes.run import Sums
from pipeline.passes.words import WordView


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
class Pairs:
    """Sums X'X (upper half) when `sketch` is None, else X'(X Omega) for the D x p matrix `sketch`.

    `term_totals` is sum_d c_v, by which self-pairs are taken out at the end.
    """

    view: WordView
    n_terms: int
    sketch: Array | None = None
    name: str = "pairs"

    @property
    def _width(self) -> int:
        return self.n_terms if self.sketch is None else int(self.sketch.shape[1])

    @property
    def accumulator_bytes(self) -> int:
        return 8 * self.n_terms * self._width

    def zero(self) -> Sums:
        size = self.n_terms * self._width
        return {
            "statistics": np.zeros(7),
            "term_totals": np.zeros(self.n_terms),
            "pairs": np.zeros((self.n_terms, self._width), accumulator_type(size)),
        }

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
            return
        for start in range(0, X.n_rows, kernels.SLAB):
            slab = X.slice(start, min(start + kernels.SLAB, X.n_rows))
            kernels.add_transposed_times(slab, kernels.times(slab, self.sketch), sums["pairs"])


def exact_m2(sums: Sums, view: WordView) -> Array:
    """(D, D): M2 = X'X / sum n², or without self-pairs (X'X - diag(c)) / sum n(n - 1)."""
    upper = np.triu(sums["pairs"])
    M2 = upper + np.triu(upper, 1).T
    if view.drop_self_pairs:
        M2[np.diag_indices(len(M2))] -= sums["term_totals"]
    return np.asarray(M2 / Statistics.of(sums).pairs)


def sketched_m2(sums: Sums, view: WordView, sketch: Array) -> Array:
    """(D, p): M2 Omega, from X'(X Omega)."""
    product: Array = sums["pairs"]
    if view.drop_self_pairs:
        product -= sums["term_totals"][:, None] * sketch
    product /= Statistics.of(sums).pairs
    return product


def accumulator_type(size: int) -> type[np.floating]:
    """Double precision, unless an accumulator would take more than 256 MB."""
    return np.float64 if 8 * size <= 256_000_000 else np.float32
