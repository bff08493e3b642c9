"""Slow, obvious WSABIE on dense arrays: the oracle of `tests/benchmarks/test_wsabie.py`."""

from __future__ import annotations

import numpy as np


class Draws:
    """splitmix64 on Python's integers."""

    def __init__(self, state):
        self.state = state

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        z ^= z >> 31
        return (z >> 32) * n >> 32

    def below_but(self, n, taken):
        draw = self.below(n)
        while draw in taken:
            draw = self.below(n)
        return draw


def adagrad(A, squares, row, gradient, rate, max_norm):
    """A step of one row against the root of all its mean squared gradients, then back into the ball."""
    size = (gradient**2).mean()
    if size == 0:
        return
    squares[row] += size
    A[row] += rate * gradient / np.sqrt(squares[row])
    norm = np.linalg.norm(A[row])
    if norm > max_norm:
        A[row] *= max_norm / norm


def epoch(order, X, Y, W, H, squares_W, squares_H, rate, margin, max_norm, max_trials, draws):
    """Change W, H and the sums of squares, as one visit of every document does."""
    L = len(H)
    for x, y in zip(X[order], Y[order], strict=True):
        own = set(np.flatnonzero(y).tolist())
        if not x.any() or not own or len(own) == L:
            continue
        z = x @ W
        change = np.zeros_like(z)
        for p in sorted(own):
            wanted = z @ H[p] - margin
            for trial in range(1, max_trials + 1):
                n = draws.below_but(L, own)
                if z @ H[n] > wanted:
                    rank = max(1, (L - len(own)) // trial)
                    weight = sum(1 / i for i in range(1, rank + 1))
                    change += weight * (H[p] - H[n])
                    adagrad(H, squares_H, p, weight * z, rate, max_norm)
                    adagrad(H, squares_H, n, -weight * z, rate, max_norm)
                    break
        for word in np.flatnonzero(x):
            adagrad(W, squares_W, word, x[word] * change, rate, max_norm)
