"""Beside pass 2: the ridge head's moments F'F and F'Y, for features F of a document's weighted words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..moments.labels import label_bytes, zero_labels
from ..passes import kernels
from ..passes.cost import Cost, Size
from ..passes.sums import Sums
from ..types import Array
from .held_out import others
from .weighting import Weighting


@dataclass(frozen=True)
class Features:
    """Sums F'F (p, p) and Y'F (L, p) of the documents that are not held out."""

    weighting: Weighting
    B: Array
    """(D, p_linear) float32."""
    waves: Array
    """(p_linear, m) float32; m may be 0."""
    phases: Array
    """(m,) float32."""
    n_labels: int
    held_out_share: float
    name: str = "features"

    @property
    def width(self) -> int:
        return int(sum(self.waves.shape)) + 1

    @property
    def accumulator_bytes(self) -> int:
        return 8 * self.width**2 + label_bytes(self.n_labels, self.width)

    def segment_bytes(self, n_docs: int, nnz: int) -> int:
        return self.accumulator_bytes

    def cost(self, size: Size) -> Cost:
        p, m = self.waves.shape
        flops = size.n_docs * (self.width**2 + 2 * p * m)
        return Cost(flops, 4 * size.x_nnz * p + 8 * size.y_nnz * self.width)

    def zero(self) -> Sums:
        labels = zero_labels(self.n_labels, self.width)
        return {"gram": np.zeros((self.width, self.width)), "labels": labels}

    def add(self, sums: Sums, block: Block) -> None:
        block = others(block, self.held_out_share)
        X = self.weighting.of(block.X)
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            F = features(X.slice(start, stop), self.B, self.waves, self.phases)
            sums["gram"] += F.T @ F
            kernels.add_label_moments(block.Y.slice(start, stop), F, sums["labels"])


def features(X: SparseRows, B: Array, waves: Array, phases: Array) -> Array:
    """(n, p) float32: Z = X~B, random waves of its direction, and a one for the labels' own level.

    The waves sqrt(2/m) cos(z/|z| · w + phase) approximate a Gaussian kernel between documents (Rahimi and
    Recht, 2007): what they add is what words say together. One read of their moments is kernel ridge
    regression, without the documents.

    Cost: nnz rows of B are gathered; 2 n p_linear m flops.
    """
    p, m = waves.shape
    F = np.ones((X.n_rows, p + m + 1), np.float32)
    Z = kernels.times(X, B)
    F[:, :p] = Z
    if m:
        lengths = np.sqrt(np.einsum("np,np->n", Z, Z))
        Z /= np.where(lengths > 0, lengths, 1)[:, None]
        angles = Z @ waves
        angles += phases
        np.cos(angles, out=angles)
        F[:, p:-1] = angles * np.float32(np.sqrt(2 / m))
    return F
