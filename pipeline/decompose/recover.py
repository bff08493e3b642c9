"""From whitened eigenvectors back to words, labels and topic weights (Algorithm 1, steps 6 to 9)."""

from __future__ import annotations

import warnings

import numpy as np

from pipeline.corpus.rows import Array


def on_simplex(columns: Array) -> Array:
    """Make each column a distribution: the sign with more mass, no negative entries, sum 1.

    Eigenvectors are known up to their sign. A column of nothing but zeros becomes uniform.
    """
    positive = np.maximum(columns, 0).sum(axis=0, dtype=np.float64)
    negative = np.maximum(-columns, 0).sum(axis=0, dtype=np.float64)
    signs = np.where(negative > positive, -1, 1).astype(columns.dtype)
    clipped = np.maximum(columns * signs, 0)
    total = clipped.sum(axis=0, dtype=np.float64)
    uniform = 1 / max(len(columns), 1)
    return np.asarray(np.where(total > 0, clipped / np.where(total > 0, total, 1), uniform), columns.dtype)


def word_topics(unwhitening: Array, eigenvectors: Array) -> Array:
    """(D, K): O, its columns mu_k = W† u_k made distributions.

    Parameters
    ----------
    unwhitening
        (D, K): W† = W(W'W)^-1.
    eigenvectors
        (K, K): u_k in column k.
    """
    return on_simplex(unwhitening @ eigenvectors.astype(unwhitening.dtype))


def label_topics(moments: Array) -> Array:
    """(L, K): Q, its columns gamma_k made distributions. Squares need no sign: what is negative is noise."""
    clipped = np.maximum(moments, 0)
    total = clipped.sum(axis=0)
    uniform = 1 / max(len(moments), 1)
    return np.where(total > 0, clipped / np.where(total > 0, total, 1), uniform)


def topic_weights(eigenvalues: Array) -> Array:
    """(K,): pi_k = lambda_k^-2, made a distribution.

    As pi_k <= 1, an eigenvalue below 1 is noise, and would make one topic swallow the others: such topics get
    the median weight of the rest. When fewer than half can be trusted, all weights are equal, with a warning.
    """
    K = len(eigenvalues)
    if K == 1:
        return np.ones(1)
    trusted = eigenvalues >= 1
    if trusted.sum() * 2 < K:
        warnings.warn(
            f"The topic weights could not be estimated: {K - int(trusted.sum())} of {K} tensor eigenvalues "
            "are below 1, which no probability allows. All topics get the same weight. "
            "Use fewer topics (n_components) or more documents.",
            stacklevel=3,
        )
        return np.full(K, 1 / K)
    weights = np.where(trusted, np.where(trusted, eigenvalues, 1.0) ** -2.0, 0.0)
    weights[~trusted] = np.median(weights[trusted])
    return np.asarray(weights / weights.sum())
