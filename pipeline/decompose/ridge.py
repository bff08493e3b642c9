"""Ridge regression from moments alone: A = Y'F (F'F + lambda I)^-1, for one lambda or for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from pipeline.corpus.rows import Array

_LABELS = 4096
"""Labels that are solved for at a time."""


def ridge_weights(gram: Array, labels: Array, strength: float) -> Array:
    """(L, p) float32: how much each feature speaks for each label.

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
    factor = scipy.linalg.cho_factor(gram + strength * np.eye(len(gram)), lower=True)
    weights = np.empty(labels.shape, np.float32)
    for start in range(0, len(labels), _LABELS):  # in double precision, for F'F may be all but singular
        some = slice(start, start + _LABELS)
        weights[some] = scipy.linalg.cho_solve(factor, labels[some].T.astype(np.float64)).T
    return weights


@dataclass(frozen=True, slots=True)
class RidgePath:
    """F'F = V diag(w) V', in which every strength is a filter 1 / (w + lambda)."""

    values: Array
    """(p,) float64: w."""
    vectors: Array
    """(p, p) float32: V."""
    labels: Array
    """(L, p) float32: Y'F V."""

    @classmethod
    def of(cls, gram: Array, labels: Array) -> RidgePath:
        """Cost: about 9 p³ + 2 L p² flops."""
        values, vectors = np.linalg.eigh(gram)
        vectors = vectors.astype(np.float32)
        return cls(np.maximum(values, 0), vectors, labels.astype(np.float32, copy=False) @ vectors)

    def filters(self, strengths: Sequence[float]) -> Array:
        """(n, p) float32: what each eigenvector is multiplied by, for each strength."""
        return np.asarray(1 / (self.values + np.asarray(strengths)[:, None]), np.float32)
