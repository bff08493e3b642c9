"""Accumulators: what passes add up, how two of them become one, and where large ones lie."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from ..types import Array

Sums = dict[str, Any]
"""An accumulator: every entry is a sum over documents, so two of them merge by adding.

Entries are arrays, or sums again, or objects that know how to add themselves up and how to become arrays and
be made from them (`to_arrays`, `from_arrays`); large ones also how to lie in mapped files (`spilled`).
"""
_SPILL_BYTES = 16_000_000
"""Smaller arrays are not worth a file."""


def spilled(sums: Sums, empty: bool = True) -> Sums:
    """The same, large arrays in files without a name that lie in the temporary folder.

    Parameters
    ----------
    empty
        The arrays are all zeros, and a new file is: nothing has to be copied.
    """

    def mapped(value: Any) -> Any:
        if isinstance(value, dict):
            return spilled(value, empty)
        if hasattr(value, "spilled"):
            return value.spilled(empty)
        if not isinstance(value, np.ndarray) or value.nbytes < _SPILL_BYTES:
            return value
        array = zeros(value.shape, value.dtype, mapped=True)
        if not empty:
            array[...] = value
        return array

    return {name: mapped(value) for name, value in sums.items()}


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike, mapped: bool = False) -> Array:
    """An array of zeros; in a file without a name where it is to be mapped and worth it."""
    dtype = np.dtype(dtype)
    if not mapped or int(np.prod(shape)) * dtype.itemsize < _SPILL_BYTES:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile(prefix="threepass-") as file:
        return np.memmap(file, dtype, "w+", shape=shape)


def settle(sums: Sums) -> None:
    """Let entries that have put off some work do it now: in a task, not when it is merged."""
    for value in sums.values():
        if isinstance(value, dict):
            settle(value)
        elif hasattr(value, "settle"):
            value.settle()


def sums_bytes(sums: Sums) -> int:
    """What an accumulator takes."""
    return sum(
        sums_bytes(value)
        if isinstance(value, dict)
        else value.nbytes
        if isinstance(value, np.ndarray)
        else value.__sizeof__()
        for value in sums.values()
    )


def merge_into(one: Sums, other: Sums) -> Sums:
    """Add `other` to `one`, in place."""
    for name, value in other.items():
        if isinstance(value, dict):
            merge_into(one[name], value)
        else:
            one[name] += value
    return one
