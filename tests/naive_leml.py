"""Slow, obvious LEML on dense arrays: the oracle of `test_leml.py` and `test_leml_losses.py`."""

from __future__ import annotations

import numpy as np
import scipy.optimize


def objective(X, Y, W, H, lam):
    loss = ((Y - X @ W @ H.T) ** 2).sum()
    return loss / 2 + lam / 2 * ((W**2).sum() + (H**2).sum())


def gradient(X, Y, W, H, lam):
    """(D, K): the objective's derivative by W."""
    return X.T @ (X @ W @ H.T - Y) @ H + lam * W


def best_words(X, Y, H, lam):
    """(D, K): W at which that derivative is 0, from one system in all its entries, row after row."""
    system = np.kron(X.T @ X, H.T @ H) + lam * np.eye(X.shape[1] * H.shape[1])
    return np.linalg.solve(system, (X.T @ Y @ H).ravel()).reshape(X.shape[1], H.shape[1])


def best_labels(X, Y, W, lam):
    """(L, K): a ridge regression of each label on Z = X W."""
    Z = X @ W
    return np.array([np.linalg.solve(Z.T @ Z + lam * np.eye(Z.shape[1]), Z.T @ y) for y in Y.T])


def alternate(X, Y, H, lam, n_outer):
    """W and H after so many exact steps of each, W first, from a given H."""
    for _ in range(n_outer):
        W = best_words(X, Y, H, lam)
        H = best_labels(X, Y, W, lam)
    return W, H


def signed_loss(loss, T, Y):
    """The sum of losses of scores T (N, L), for labels as signs."""
    margins = np.where(Y > 0, T, -T)
    if loss == "logistic":
        return np.logaddexp(0, -margins).sum()
    return (np.maximum(0, 1 - margins) ** 2).sum() / 2


def signed_objective(loss, X, Y, W, H, lam):
    return signed_loss(loss, X @ W @ H.T, Y) + lam / 2 * ((W**2).sum() + (H**2).sum())


def lowest(function, shape):
    """Where a smooth function of an array of this shape is lowest, by derivatives from differences."""
    found = scipy.optimize.minimize(
        lambda a: function(a.reshape(shape)), np.zeros(shape).ravel(), method="BFGS", options={"gtol": 1e-4}
    )
    return found.x.reshape(shape)


def alternate_signed(loss, X, Y, H, lam, n_outer):
    """As `alternate`, for another loss."""
    for _ in range(n_outer):
        previous = H
        W = lowest(lambda W, H=previous: signed_objective(loss, X, Y, W, H, lam), (X.shape[1], H.shape[1]))
        H = lowest(lambda H, W=W: signed_objective(loss, X, Y, W, H, lam), H.shape)
    return W, H
