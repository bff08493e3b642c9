"""From whitened eigenvectors back to words, labels and topic weights (Algorithm 1, steps 6 to 9)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..linalg.tall import row_slices, times
from ..types import Array

Prior = Literal["eigenvalues", "uniform"]


@dataclass(frozen=True, slots=True)
class Simplex:
    """Map of tall columns to distributions.

    It takes the sign with more mass, for eigenvectors are known up to their sign, loses its negative entries,
    and adds up to 1. A column of nothing but zeros becomes uniform.
    """

    signs: Array
    totals: Array
    """Mass that is left of each column, by which it is divided."""
    n_rows: int

    @classmethod
    def of(cls, parts: Iterable[Array]) -> Simplex:
        """From all rows, some of them at a time."""
        positive: Any = 0.0
        negative: Any = 0.0
        n_rows = 0
        for part in parts:
            positive = positive + np.maximum(part, 0).sum(axis=0, dtype=np.float64)
            negative = negative + np.maximum(-part, 0).sum(axis=0, dtype=np.float64)
            n_rows += len(part)
        return cls(np.where(negative > positive, -1, 1), np.maximum(positive, negative), n_rows)

    def apply(self, part: Array) -> Array:
        """Some rows of the distributions, from the same rows of the columns."""
        share = np.maximum(part * self.signs, 0) / np.where(self.totals > 0, self.totals, 1)
        return np.asarray(np.where(self.totals > 0, share, 1 / max(self.n_rows, 1)), part.dtype)


def on_simplex(columns: Array) -> Array:
    """Make each column a distribution, in place."""
    simplex = Simplex.of(columns[rows] for rows in row_slices(len(columns)))
    for rows in row_slices(len(columns)):
        columns[rows] = simplex.apply(columns[rows])
    return columns


def word_topics(W: Array, coordinates: Array) -> Array:
    """(D, K) float32: O, its columns mu_k = W† u_k = W Sigma u_k made distributions.

    Parameters
    ----------
    W
        (D, K): the whitening.
    coordinates
        (K, K): Sigma u_k in column k.
    """
    return on_simplex(times(W, coordinates).astype(np.float32, copy=False))


def label_topics(moments: Array) -> Array:
    """(L, K): Q, its columns gamma_k made distributions. Squares need no sign: what is negative is noise."""
    slices = row_slices(len(moments))
    total = sum(np.maximum(moments[rows], 0).sum(axis=0, dtype=np.float64) for rows in slices)
    simplex = Simplex(np.ones(1), np.asarray(total), len(moments))
    Q = np.empty_like(moments)
    for rows in slices:
        Q[rows] = simplex.apply(moments[rows])
    return Q


def topic_weights(eigenvalues: Array, prior: Prior = "eigenvalues") -> Array:
    """(K,): pi_k = lambda_k^-2, made a distribution; all the same with a `uniform` prior.

    As pi_k <= 1, an eigenvalue below 1 is noise, and would make one topic swallow the others: such topics get
    the median weight of the rest. Where fewer than half can be trusted, all weights are the same.
    """
    K = len(eigenvalues)
    trusted = eigenvalues >= 1
    if prior == "uniform" or K == 1 or too_few(trusted):
        return np.full(K, 1 / K)
    weights = np.where(trusted, np.where(trusted, eigenvalues, 1.0) ** -2.0, 0.0)
    weights[~trusted] = np.median(weights[trusted])
    return np.asarray(weights / weights.sum())


def too_few(trusted: Array) -> bool:
    """Whether so few eigenvalues can be trusted that topics have no weights of their own."""
    return int(trusted.sum()) * 2 < len(trusted)
