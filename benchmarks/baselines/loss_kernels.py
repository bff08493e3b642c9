"""Losses of the score t of a label with sign y, +1 where a document has the label and -1 elsewhere.

Logistic: log(1 + exp(-y t)). Squared hinge: ½ max(0, 1 - y t)².
"""

from __future__ import annotations

import numpy as np

from threepass.jit import jit
from threepass.types import Array

_jit = jit(fastmath=True)


@_jit
def slopes(T: Array, indptr: Array, indices: Array, logistic: bool, values: Array) -> None:
    """Replace the scores T (s, L) by the losses' derivatives, and add the losses to `values` (L,) float64.

    Cost: s L exponentials and logarithms, or none for the squared hinge.
    """
    n, L = T.shape
    one, none = np.float32(1), np.float32(0)
    signs = np.full(L, -one)
    for row in range(n):
        positives = indices[indptr[row] : indptr[row + 1]]
        signs[positives] = one
        for label in range(L):
            y = signs[label]
            if logistic:
                margin = y * T[row, label]
                small = np.exp(-abs(margin))
                values[label] += np.log(one + small) + max(-margin, none)
                T[row, label] = -y * (small if margin > none else one) / (one + small)
            else:
                lack = max(one - y * T[row, label], none)
                values[label] += lack * lack / 2
                T[row, label] = -y * lack
        signs[positives] = -one


@_jit
def times_curvature(T: Array, indptr: Array, indices: Array, logistic: bool, V: Array) -> None:
    """V (s, L) times the losses' second derivatives at the scores T (s, L), in place of V.

    Cost: s L exponentials, or none for the squared hinge.
    """
    n, L = T.shape
    one, none = np.float32(1), np.float32(0)
    signs = np.full(L, -one)
    for row in range(n):
        positives = indices[indptr[row] : indptr[row + 1]]
        signs[positives] = one
        for label in range(L):
            if logistic:
                small = np.exp(-abs(T[row, label]))
                V[row, label] *= small / ((one + small) * (one + small))
            else:
                V[row, label] = V[row, label] if signs[label] * T[row, label] < one else none
        signs[positives] = -one
