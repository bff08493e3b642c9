"""Terms of a score: products of what a document is with what a label is.

Every part's score of a label is a sum of such terms. So scoring, upper bounds for pruning, and bytes need to
know terms alone, whatever parts there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..corpus.rows import SparseRows
from ..types import Array
from . import cross_kernels


@dataclass(frozen=True, slots=True)
class Dense:
    """F_d · A_l, or weight * sqrt(F_d · A_l); a document is a row of F (n, p)."""

    labels: Array
    """(L, p) float32: A."""
    root_weight: float = 0.0
    """Weight of the square root; 0 for the product itself."""
    is_nonnegative: bool = False
    """Whether neither F nor A has a number below 0; a square root asks for that."""

    def add(self, side: Any, rows: slice, labels: slice, out: Array | None) -> Array:
        """Add the scores (s, t) of some labels for some documents; in place, where there are some already.

        Cost: 2 s t p flops.
        """
        product = side[rows] @ self.labels[labels].T
        if self.root_weight:
            np.sqrt(product, out=product)
            product *= np.float32(self.root_weight)
        if out is None:
            return np.asarray(product)
        out += product
        return out


@dataclass(frozen=True, slots=True)
class Sparse:
    """x_d · C_l for sparse rows; a document is a row of SparseRows (n, D)."""

    postings: SparseRows
    """(D, L): for each word the labels that it speaks for, float32."""

    def add(self, side: Any, rows: slice, labels: slice, out: Array | None) -> Array:
        """Add the scores (s, t) of some labels for some documents; in place, where there are some already.

        Cost: for each word of each document the labels that it speaks for.
        """
        X, C = side.slice(rows.start, rows.stop), self.postings
        if out is None:
            out = np.zeros((X.n_rows, labels.stop - labels.start), np.float32)
        cross_kernels.add_scores(X.csr(), C.csr(), labels.start, out)
        return out


Term = Dense | Sparse
Side = Array | SparseRows
"""A term's view of some documents."""


def take_side(side: Side, rows: Array) -> Side:
    """Some of the documents."""
    return side.take(rows) if isinstance(side, SparseRows) else side[rows]
