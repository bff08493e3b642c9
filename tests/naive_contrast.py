"""Contrast from dense matrices in double precision: oracles of `parts`."""

from __future__ import annotations

import numpy as np


def look_alikes(votes, X, C, m):
    """(n, m) labels by votes + X C, best first, ties by number; -1 where nothing speaks for one."""
    out = np.full((len(X), m), -1)
    for d, scores in enumerate(votes + X @ C):
        best = sorted((-score, label) for label, score in enumerate(scores) if score > 0)[:m]
        out[d, : len(best)] = [label for _, label in best]
    return out


def pairs_by_label(lists, Y, skip):
    """For each label d + 1 for a document that carries it, and -(d + 1) for one that only looks like it."""
    out = [[] for _ in range(Y.shape[1])]
    for d, alike in enumerate(lists):
        for label in range(Y.shape[1]):
            if not skip[d] and (Y[d, label] or label in alike):
                out[label].append(d + 1 if Y[d, label] else -(d + 1))
    return out


def classifier(X, y, cost):
    """w and b that minimise |w|²/2 + b²/2 + C sum max(0, 1 - y (x w + b))², by Newton's method.

    Where the documents inside of the margin are known, the minimum is that of a ridge regression.
    """
    F = np.hstack([X, np.ones((len(X), 1))])
    inside = np.ones(len(X), bool)
    for _ in range(100):
        own = F[inside]
        w = np.linalg.solve(np.eye(F.shape[1]) + 2 * cost * own.T @ own, 2 * cost * own.T @ y[inside])
        now = y * (F @ w) < 1
        if (now == inside).all():
            return w[:-1], w[-1]
        inside = now
    raise AssertionError("Newton's method goes in circles")


def margins(X, W, b, pairs):
    """w_l x_d + b_l of (document, label) pairs."""
    return np.array([-np.inf if label < 0 else X[d] @ W[label] + b[label] for d, label in pairs])


def places(scores):
    """The place of each score among all of them, the best first and the first of equal ones."""
    return [
        sum(other > score or (other == score and j < i) for j, other in enumerate(scores))
        for i, score in enumerate(scores)
    ]
