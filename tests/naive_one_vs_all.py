"""Slow, obvious one-vs-all on dense arrays: the oracle of `tests/benchmarks/test_one_vs_all.py`."""

from __future__ import annotations

import numpy as np
import scipy.optimize


def classifier(X, y, C):
    """(D,) weights and an intercept: lowest ½ ||w||² + ½ b² + C · the sum of squared hinge losses."""
    X = np.hstack([X, np.ones((len(X), 1))])
    signs = np.where(y > 0, 1.0, -1.0)

    def objective(w):
        lack = np.maximum(0, 1 - signs * (X @ w))
        return w @ w / 2 + C * lack @ lack, w - 2 * C * X.T @ (signs * lack)

    options = {"gtol": 1e-8, "ftol": 1e-14, "maxiter": 10_000}
    found = scipy.optimize.minimize(
        objective, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options=options
    )
    return found.x[:-1], found.x[-1]


def scores(X, Y, X_new, C):
    """(n, L) margins; ±1 for a label that all documents of training have, or none."""
    columns = []
    for y in Y.T:
        if y.all() or not y.any():
            columns.append(np.full(len(X_new), 1.0 if y.any() else -1.0))
        else:
            w, b = classifier(X, y, C)
            columns.append(X_new @ w + b)
    return np.array(columns).T
