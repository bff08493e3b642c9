"""Sums with a row for each word: single precision, and double where most additions meet.

Words are ranked by how many documents they are in. The first few hundred take part in so many additions that
single precision would lose what is small beside their sums; all others together are the memory.
"""

from __future__ import annotations

import numpy as np

from pipeline.corpus.rows import Array, SparseRows
from pipeline.passes import kernels
from pipeline.passes.sums import Sums

HOT = 512
"""Words whose sums are made in double precision."""


def tall_bytes(n_terms: int, width: int) -> int:
    return 4 * n_terms * width + 8 * min(HOT, n_terms) * width


def zero_tall(name: str, n_terms: int, width: int) -> Sums:
    """The entries of an accumulator that hold a (D, width) sum."""
    return {
        name: np.zeros((n_terms, width), np.float32),
        _hot(name): np.zeros((min(HOT, n_terms), width)),
    }


def add_tall(sums: Sums, name: str, X: SparseRows, Z: Array) -> None:
    """Add X'Z, for the few documents of a slab, in place."""
    out, hot = sums[name], sums[_hot(name)]
    out[: len(hot)] = 0  # these rows only ever hold the sum over one slab
    kernels.add_transposed_times(X, Z, out)
    hot += out[: len(hot)]


def tall(sums: Sums, name: str) -> Array:
    """(D, width) float32: the sum so far, in the accumulator's own memory."""
    out: Array = sums[name]
    hot = sums[_hot(name)]
    out[: len(hot)] = hot
    return out


def _hot(name: str) -> str:
    return f"{name} of hot words"
