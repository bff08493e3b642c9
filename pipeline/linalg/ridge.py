"""Ridge regression from moments alone: A = Y'F (F'F + lambda I)^-1, for one lambda or for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..tasks import map_tasks, one_blas_thread
from ..types import Array
from .tall import row_slices, times

_LABELS = 512
"""Labels per task."""


@one_blas_thread()
def ridge_weights(gram: Array, labels: Array, strength: float, n_threads: int | None = None) -> Array:
    """(L, p) float32: ridge weights for each label.

    Parameters
    ----------
    gram
        (p, p): F'F.
    labels
        (L, p): Y'F.
    strength
        lambda, above 0.

    Notes
    -----
    Cost: p³/3 + 2 L p² flops.
    """
    import scipy.linalg  # needed only to learn

    factor = scipy.linalg.cho_factor(gram + strength * np.eye(len(gram)), lower=True)
    weights = np.empty(labels.shape, np.float32)

    def part(some: slice) -> None:  # in double precision, because F'F may be nearly singular
        weights[some] = scipy.linalg.cho_solve(factor, labels[some].T.astype(np.float64)).T

    map_tasks(part, row_slices(len(labels), _LABELS), name="ridge", n_threads=n_threads)
    return weights


@dataclass(frozen=True, slots=True)
class RidgePath:
    """Decomposition F'F = V diag(w) V', in which each strength is a filter 1 / (w + lambda)."""

    values: Array
    """(p,) float64: w."""
    vectors: Array
    """(p, p) float32: V."""
    labels: Array
    """(L, p) float32: Y'F V."""

    @classmethod
    @one_blas_thread()
    def of(cls, gram: Array, labels: Array, n_threads: int | None = None) -> RidgePath:
        """Decompose F'F and rotate Y'F. Cost: about 9 p³ + 2 L p² flops."""
        values, vectors = np.linalg.eigh(gram)
        vectors = vectors.astype(np.float32)
        products = times(labels.astype(np.float32, copy=False), vectors, n_threads)
        return cls(np.maximum(values, 0), vectors, products)

    def filters(self, strengths: Sequence[float]) -> Array:
        """(n, p) float32: factor of each eigenvector, for each strength."""
        return np.asarray(1 / (self.values + np.asarray(strengths)[:, None]), np.float32)
