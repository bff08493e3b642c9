"""One epoch of stochastic gradient steps on WARP losses, in one thread."""

from __future__ import annotations

import numpy as np

from threepass.jit import jit
from threepass.types import Array

_jit = jit(fastmath=True)


@_jit
def warp_epoch(
    order: Array,
    words: tuple[Array, Array, Array],
    labels: tuple[Array, Array],
    W: Array,
    H: Array,
    squares_W: Array,
    squares_H: Array,
    rate: float,
    margin: float,
    max_norm: float,
    max_trials: int,
    rank_loss: Array,
    state: Array,
) -> None:
    """Visit documents in `order`; for each of its labels look for another that scores too high.

    With z = x W, labels that the document lacks are drawn until one of them, n, has z h_n > z h_p - margin.
    Found in trial t, it lies at rank (L - P) / t or so, and the step is weighed by the rank's loss. h_p and
    h_n move at once, the words of the document when all of its labels had their turn.

    Parameters
    ----------
    order
        (N,) document numbers.
    words, labels
        `indptr`, `indices` and, of words, float32 `values` of sparse rows.
    W, H
        (D, K) and (L, K) float32, changed in place; no row longer than `max_norm`.
    squares_W, squares_H
        (D,) and (L,) float32: sums of each row's mean squared gradients (AdaGrad, a rate for each row).
    max_trials
        Draws for one label of one document at most.
    rank_loss
        (L + 1,) float32: the loss of each rank.
    state
        (1,) uint64: of the random numbers; changed in place.

    Notes
    -----
    Cost: 2 K multiplications for each word of a document, and K for each trial.
    """
    x_indptr, x_indices, x_values = words
    y_indptr, y_indices = labels
    L, K = H.shape
    positive = np.zeros(L, np.bool_)
    z, change = np.empty(K, np.float32), np.empty(K, np.float32)
    for row in order:
        start, stop = x_indptr[row], x_indptr[row + 1]
        own = y_indices[y_indptr[row] : y_indptr[row + 1]]
        if start == stop or len(own) == 0 or len(own) == L:
            continue
        z[:] = 0
        change[:] = 0
        for entry in range(start, stop):
            x = x_values[entry]
            w = W[x_indices[entry]]
            for k in range(K):
                z[k] += x * w[k]
        positive[own] = True
        moved = False
        for p in own:
            bar = _dot(z, H[p]) - margin
            for trial in range(1, max_trials + 1):
                n = _draw(state, L)
                while positive[n]:
                    n = _draw(state, L)
                if _dot(z, H[n]) > bar:
                    weight = rank_loss[max((L - len(own)) // trial, 1)]
                    for k in range(K):
                        change[k] += weight * (H[p, k] - H[n, k])
                    size = weight * weight * _dot(z, z) / K
                    _step(H, squares_H, p, z, weight, size, rate, max_norm)
                    _step(H, squares_H, n, z, -weight, size, rate, max_norm)
                    moved = True
                    break
        positive[own] = False
        if not moved:
            continue
        size = _dot(change, change) / K
        for entry in range(start, stop):
            x = x_values[entry]
            _step(W, squares_W, x_indices[entry], change, x, x * x * size, rate, max_norm)


@_jit
def _step(
    A: Array, squares: Array, row: int, g: Array, scale: float, size: float, rate: float, max_norm: float
) -> None:
    """A[row] += rate · scale · g / sqrt(sum of sizes), then back into the ball of radius max_norm."""
    squares[row] += size
    if squares[row] == 0:  # nothing to move by, or too little for single precision
        return
    length = np.float32(rate * scale / np.sqrt(squares[row]))
    a = A[row]
    for k in range(len(g)):
        a[k] += length * g[k]
    norm = np.sqrt(_dot(a, a))
    if norm > max_norm:
        shrink = np.float32(max_norm / norm)
        for k in range(len(g)):
            a[k] *= shrink


@_jit
def _dot(a: Array, b: Array) -> np.float32:
    out = np.float32(0)
    for k in range(len(a)):
        out += a[k] * b[k]
    return out


@_jit
def _draw(state: Array, n: int) -> int:
    """A number below n, as if at random (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.int64(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
