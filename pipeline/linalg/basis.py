"""Orthonormal bases of tall matrices."""

from __future__ import annotations

import numpy as np

from ..tasks import one_blas_thread
from ..types import Array
from .tall import gram, times_in_place

_DEPENDENT = 1e-7
"""Share of the largest squared length below which a direction is a sum of the others, up to rounding."""


@one_blas_thread()
def orthonormal(directions: Array, overwrite: bool = False, n_threads: int | None = None) -> Array:
    """(D, p) float32: an orthonormal basis of the columns' span; p is less where columns depend on others.

    By the eigenvectors of S M'M S, where S makes columns equally long: M S V diag(1 / sqrt(values)). Columns
    that hardly differ from others are orthonormal only up to rounding.

    Parameters
    ----------
    overwrite
        Make the basis in the place of the directions: another D x p would be large.

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
