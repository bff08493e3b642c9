"""Train and test rows by a hash of the document's number: the same on any machine, for any blocks."""

from __future__ import annotations

import numpy as np

from ..types import Array


def hash_uniform(numbers: Array, seed: int) -> Array:
    """Pseudorandom number in [0, 1) for each document number (splitmix64's finisher)."""
    with np.errstate(over="ignore"):  # numbers wrap modulo 2**64 on purpose
        z = numbers.astype(np.uint64) + np.uint64(seed % 2**64) * np.uint64(0xD1342543DE82EF95)
        z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def in_test(numbers: Array, test: float, seed: int) -> Array:
    """Mask of the documents on the test side."""
    mask: Array = hash_uniform(numbers, seed) < test
    return mask
