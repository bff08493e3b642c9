"""Sums with a row for each label."""

from __future__ import annotations

import numpy as np

from ..types import Array

_DOUBLE_BYTES = 256_000_000
"""Sums are made in double precision, unless they would take more."""


def zero_labels(n_labels: int, width: int) -> Array:
    """(L, width): sums of no documents."""
    double = 8 * n_labels * width <= _DOUBLE_BYTES
    return np.zeros((n_labels, width), np.float64 if double else np.float32)


def label_bytes(n_labels: int, width: int) -> int:
    """Bytes of `zero_labels`."""
    double = 8 * n_labels * width
    return double if double <= _DOUBLE_BYTES else double // 2
