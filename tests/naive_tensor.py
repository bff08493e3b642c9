"""Slow, obvious tensor algebra, index by index: the oracles of `decompose/test_tensor.py`."""

from __future__ import annotations

import itertools
import math

import numpy as np


def pair_contractions(T, V):
    """(K, n): T(I, v, v) for every column v."""
    return np.stack([np.einsum("ijl,j,l->i", T, v, v) for v in V.T], axis=1)


def rank_one_sum(lambdas, U):
    """(K, K, K): sum_k lambda_k u_k⊗u_k⊗u_k."""
    K = len(U)
    T = np.zeros((K, K, K))
    for value, u in zip(lambdas, U.T, strict=True):
        T += value * np.multiply.outer(np.multiply.outer(u, u), u)
    return T


def relative_residual(T, lambdas, U):
    """The length of what the pairs leave of T, over the length of T, entry by entry."""
    left = (T - rank_one_sum(lambdas, U)).ravel()
    return math.sqrt(sum(x * x for x in left) / sum(x * x for x in T.ravel()))


def symmetrized(T):
    """Mean over the six orders of the indices."""
    return sum(T.transpose(order) for order in itertools.permutations(range(3))) / 6


def power_method(T, starts, n_iter, shift=0):
    """Eigenvalues and vectors by the power method, one start after another; (K, n) `starts` for each pair."""

    def climb(u):
        for _ in range(n_iter):
            u = np.einsum("ijl,j,l->i", T, u, u) + shift * u
            u = u / np.linalg.norm(u)
        return np.einsum("ijl,i,j,l", T, u, u, u), u

    lambdas, U = [], []
    for V in starts:
        ends = [climb(v / np.linalg.norm(v)) for v in V.T]
        value, u = climb(max(ends, key=lambda end: end[0])[1])
        lambdas.append(value)
        U.append(u)
        T = T - rank_one_sum([value], u[:, None])
    return np.array(lambdas), np.stack(U, axis=1)
