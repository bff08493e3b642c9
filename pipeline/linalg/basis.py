"""Orthonormal bases of tall matrices."""

from __future__ import annotations

import numpy as np

from ..tasks import one_blas_thread
from ..types import Array
from .tall import gram, times_in_place

_DEPENDENT = 1e-7
"""Relative eigenvalue below which a direction depends linearly on the others, up to rounding."""


@one_blas_thread()
def orthonormal(directions: Array, overwrite: bool = False, n_threads: int | None = None) -> Array:
    """(D, q) float32: an orthonormal basis of the columns' span; q < p if columns depend on each other.

    The basis is M S V diag(1 / sqrt(values)), where S scales columns to equal length and V are eigenvectors
    of S M'M S. Nearly dependent columns are orthonormal only up to rounding.

    Parameters
    ----------
    overwrite
        Write the basis over the directions, because a second D x p matrix would be large.

    Notes
    -----
    Cost: 4 D p² flops.
    """
    M = directions if overwrite else directions.copy()
    products = gram(M, M, n_threads)
    lengths = np.sqrt(np.diag(products))
    scale = 1 / np.where(lengths > 0, lengths, 1)
    values, vectors = np.linalg.eigh(scale[:, None] * products * scale)
    independent = values > _DEPENDENT * max(1, len(values)) * values.max(initial=0)
    V = scale[:, None] * vectors[:, independent] / np.sqrt(values[independent])  # (p, q)
    return np.ascontiguousarray(times_in_place(M, V, n_threads))
