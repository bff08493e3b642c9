"""Beside pass 3: one EM step. How likely each topic is for each document, and words and labels by that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..moments.labels import label_bytes, zero_labels
from ..moments.words import WordView
from ..passes import kernels
from ..passes.cost import Cost, Size
from ..passes.sums import Sums
from ..passes.tall import TallSum, segment_tall_bytes, tall_bytes
from ..types import Array
from .held_out import others

_SMALLEST = float(np.finfo(np.float32).tiny)
"""Below it single precision is neither precise nor fast: products of such numbers take ten times as long."""


@dataclass(frozen=True)
class Responsibilities:
    """Sums X'R (D, K), Y'R (L, K) and R (K,), where R ~ pi exp(X log O), rows of R adding up to 1.

    With `log_Q` also the document's labels speak: R ~ pi exp(X log O + Y log Q). Documents that are held out
    are in no sum.
    """

    view: WordView
    log_O: Array
    """(D, K) float32."""
    log_pi: Array
    """(K,) float64."""
    n_labels: int
    held_out_share: float
    log_Q: Array | None = None
    """(L, K) float32."""
    name: str = "refine"

    @property
    def n_topics(self) -> int:
        return len(self.log_pi)

    @property
    def accumulator_bytes(self) -> int:
        D, K = self.log_O.shape
        return tall_bytes(D, K) + label_bytes(self.n_labels, K)

    def segment_bytes(self, n_docs: int, nnz: int) -> int:
        D, K = self.log_O.shape
        return segment_tall_bytes(D, K, n_docs, nnz) + label_bytes(self.n_labels, K)

    def cost(self, size: Size) -> Cost:
        K = self.log_O.shape[1]
        labels = 8 if self.log_Q is None else 12
        return Cost(gathered=12 * size.x_nnz * K + labels * size.y_nnz * K)

    def zero(self) -> Sums:
        D, K = self.log_O.shape
        return {
            "words": TallSum.zero(D, K),
            "labels": zero_labels(self.n_labels, K),
            "topics": np.zeros(K),
        }

    def add(self, sums: Sums, block: Block) -> None:
        block = others(block, self.held_out_share)
        X = self.view.words(block)
        R = np.empty((X.n_rows, len(self.log_pi)), np.float32)
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            words, labels = X.slice(start, stop), block.Y.slice(start, stop)
            R[start:stop] = posterior(words, self.log_O, self.log_pi, labels, self.log_Q)
            kernels.add_label_moments(labels, R[start:stop], sums["labels"])
            sums["topics"] += R[start:stop].sum(axis=0, dtype=np.float64)
        sums["words"].add(X, R)


def posterior(
    X: SparseRows,
    log_O: Array,
    log_pi: Array,
    Y: SparseRows | None = None,
    log_Q: Array | None = None,
    temperature: float = 1.0,
) -> Array:
    """(n, K) float32: P[topic | document], from a document's distinct words (the paper's section 2.4).

    P[h | d] ~ (pi_h prod_v O_vh)^(1/T), in logarithms, with the row's maximum taken out before exp. A
    document with no known word gets the prior. With `log_Q`, times prod_l Q_lh over the document's labels.

    Cost: nnz rows of log O are gathered.
    """
    binary = SparseRows(X.indptr, X.indices, None, X.n_columns)
    # logarithms of long documents run into the thousands: only double precision keeps their differences
    P = kernels.times(binary, log_O, np.float64)  # (n, K)
    P += log_pi
    if Y is not None and log_Q is not None:
        P += kernels.times(SparseRows(Y.indptr, Y.indices, None, Y.n_columns), log_Q, np.float64)
    P /= temperature
    P -= P.max(axis=1, keepdims=True)
    np.exp(P, out=P)
    P /= P.sum(axis=1, keepdims=True)
    P[P < _SMALLEST] = 0
    return P.astype(np.float32)
