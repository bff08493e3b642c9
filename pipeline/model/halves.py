"""Measured error bars: topics refitted from two disjoint halves of the documents, without another read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize

from pipeline.corpus.rows import Array
from pipeline.decompose.recover import on_simplex
from pipeline.decompose.tensor import Method, TensorDecomposition, decompose
from pipeline.decompose.whitening import Whitening
from pipeline.passes.triples import WhitenedMoments


@dataclass(frozen=True, slots=True)
class HalfTopics:
    """How far the topics of two halves lie apart; 0 is agreement, 2 is nothing in common.

    Each topic of a half is matched with the topic of the whole fit that it resembles most. NaN where a half
    was too small or too degenerate to be fitted.
    """

    words: Array
    """(K,): L1 distance between the two halves' columns of O."""
    labels: Array
    """(K,): L1 distance between the two halves' columns of Q."""


def half_topics(
    whitening: Whitening,
    whole: TensorDecomposition,
    moments: list[WhitenedMoments],
    label_topics: list[Array],
    method: Method,
    seed: int,
) -> HalfTopics:
    """Refit each half from its moments, which are given in the coordinates of the whole fit's W.

    Within these coordinates a half is whitened again, S'(W'M2W)S = I, decomposed and taken back: its topics
    are W† S^-1 u. Label topics use the whole fit's eigenvectors, for pass 3 knew only these.
    """
    labels = abs(label_topics[0] - label_topics[1]).sum(axis=0)
    nothing = np.full(len(whole.eigenvalues), np.nan)
    in_k_space = [_refit(half, whole, whitening.eigenvalues, method, seed) for half in moments]
    if any(vectors is None for vectors in in_k_space):
        return HalfTopics(nothing, labels)
    unwhitening = whitening.unwhitening
    words = nothing.copy()
    for k in range(len(words)):  # a column at a time: D x K would be held three times otherwise
        columns = np.stack([vectors[:, k] for vectors in in_k_space if vectors is not None], axis=1)
        one, other = on_simplex(unwhitening @ columns.astype(unwhitening.dtype)).T
        words[k] = abs(one - other).sum(dtype=np.float64)
    return HalfTopics(words, labels)


def _refit(
    half: WhitenedMoments, whole: TensorDecomposition, eigenvalues: Array, method: Method, seed: int
) -> Array | None:
    """(K, K): a half's topics as whitened vectors, in the whole fit's order; None when it is degenerate."""
    values, vectors = np.linalg.eigh((half.M2 + half.M2.T) / 2)
    if not np.isfinite(values).all() or values[0] <= 1e-6 * values[-1]:
        return None
    S = vectors / np.sqrt(values)  # (K, K), so that S'M2S = I
    back = vectors * np.sqrt(values)  # pinv(S')
    M3 = half.M3
    for _ in range(3):
        M3 = np.tensordot(M3, S, axes=(0, 0))
    topics = back @ decompose(M3, method, seed=seed).eigenvectors
    # cosine of mu = W†x in word space: W†'W† = diag(eigenvalues)
    cosine = _unit(whole.eigenvectors, eigenvalues).T @ (eigenvalues[:, None] * _unit(topics, eigenvalues))
    _, match = scipy.optimize.linear_sum_assignment(-abs(cosine))
    return np.asarray(topics[:, match])


def _unit(vectors: Array, eigenvalues: Array) -> Array:
    length = np.sqrt((eigenvalues[:, None] * vectors**2).sum(axis=0))
    return np.asarray(vectors / np.where(length > 0, length, 1))
