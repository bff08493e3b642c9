"""Measured error bars: the topics that half of the documents alone would give, without another read.

Let e and o be the estimates from the even and the odd documents. The whole fit is about (e + o) / 2, so its
distance from e is about |e - o| / 2, which is as large as the whole fit's own error: both halves err
independently, each by sqrt(2) times as much as the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg.tall import row_slices
from ..types import Array
from .recover import Simplex
from .tensor import Method, TensorDecomposition, decompose
from .triples import HalfSums, Triples, WhitenedMoments


@dataclass(frozen=True, slots=True)
class ErrorBars:
    """For each topic the L1 distance between the whole fit and the even documents' own; 0 to 2.

    NaN where the even documents are too few or too degenerate to be fitted, or error bars were not wanted.
    """

    words: Array
    """(K,): of the topic's column of O."""
    labels: Array
    """(K,): of the topic's column of Q."""

    @classmethod
    def unknown(cls, n_topics: int) -> ErrorBars:
        return cls(np.full(n_topics, np.nan), np.full(n_topics, np.nan))


def half_directions(
    half: WhitenedMoments, whole: TensorDecomposition, eigenvalues: Array, method: Method, seed: int
) -> Array | None:
    """(K, K): what the half's own fit would have for U, in the coordinates of W and the order of `whole`.

    The half is whitened again within the coordinates of the whole fit's W, S'(W'M2W)S = I, and decomposed;
    its directions are W S u. Each is matched with the topic of the whole fit that it resembles most.

    Parameters
    ----------
    eigenvalues
        (K,): of M2; they are the metric of word space, for mu = W†x and W†'W† = diag(eigenvalues).
    """
    values, vectors = np.linalg.eigh((half.M2 + half.M2.T) / 2)
    if not np.isfinite(values).all() or values[0] <= 1e-6 * values[-1]:
        return None
    S = vectors / np.sqrt(values)  # (K, K)
    U = decompose(half.carried(S).M3, method, seed=seed).eigenvectors
    topics = (vectors * np.sqrt(values)) @ U  # pinv(S') U: the whitened mu of the half
    cosine = _unit(whole.eigenvectors, eigenvalues).T @ (eigenvalues[:, None] * _unit(topics, eigenvalues))
    import scipy.optimize  # not needed to read bars

    _, match = scipy.optimize.linear_sum_assignment(-abs(cosine))
    return np.asarray(S @ U[:, match])


def word_error_bars(O: Array, triples: Triples, even: HalfSums, directions: Array) -> Array:
    """(K,): L1 distance between each column of O and the even documents' own mu = M2 v, v = W `directions`.

    For the whole fit M2 v_k = M2 W u_k = W† u_k: this is how it computes mu, too.
    """

    def mu(rows: slice) -> Array:  # made twice: another D x K would be large
        return triples.even_m2_times(even, directions, rows)

    slices = row_slices(len(O))
    simplex = Simplex.of(map(mu, slices))
    errors = np.zeros(O.shape[1])
    for rows in slices:
        errors += abs(simplex.apply(mu(rows)) - O[rows]).sum(axis=0, dtype=np.float64)
    return errors


def _unit(vectors: Array, eigenvalues: Array) -> Array:
    length = np.sqrt((eigenvalues[:, None] * vectors**2).sum(axis=0))
    return np.asarray(vectors / np.where(length > 0, length, 1))
