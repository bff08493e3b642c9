"""Sums over documents: what a pass adds up, and the algebra that all of it follows.

    zero -> add(block) ... -> merge(other) ... -> finish

A pass makes a `zero` and adds blocks to it. The sums of two runs of documents merge into those of both,
always in the corpus' order, so that the result depends on how the corpus is cut into segments and on nothing
else. What a pass makes of its sums in the end is its own matter.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..types import Array

SPILL_BYTES = 16_000_000
"""Smaller arrays are not worth a file."""


class Sums:
    """Base of a dataclass of sums.

    Its fields are arrays, numbers, other sums, or None for what is not summed. A class that is not the plain
    sum of its fields overrides what it does otherwise: `merge`, and with it how it is stored.
    """

    def merge(self, other: Self) -> None:
        """Add the sums of the documents that follow, in place."""
        for (name, mine), (_, theirs) in zip(self._entries(), other._entries(), strict=True):
            if isinstance(mine, Sums):
                mine.merge(theirs)
            else:
                mine += theirs  # in place for arrays
                object.__setattr__(self, name, mine)

    def settle(self) -> None:
        """Do work that was put off: in a task, not when sums are merged."""
        for _, value in self._entries():
            if isinstance(value, Sums):
                value.settle()

    def spill(self, empty: bool = True, least: int = SPILL_BYTES) -> None:
        """Move large arrays into files without a name, in the temporary folder.

        Parameters
        ----------
        empty
            The arrays are all zeros, and so is a new file: nothing has to be copied.
        least
            Bytes of an array that is worth a file.
        """
        for name, value in self._entries():
            if isinstance(value, Sums):
                value.spill(empty, least)
            elif isinstance(value, np.ndarray) and value.nbytes >= least:
                array = zeros(value.shape, value.dtype, least)
                if not empty:
                    array[...] = value
                object.__setattr__(self, name, array)

    @property
    def nbytes(self) -> int:
        """Bytes that the sums take."""
        return sum(int(value.nbytes) for _, value in self._entries() if not isinstance(value, int | float))

    def __sizeof__(self) -> int:
        """Bytes: Dask asks for them, to know when to spill."""
        return self.nbytes

    def to_arrays(self) -> dict[str, Array]:
        """The sums as arrays, to be kept in a file."""
        arrays: dict[str, Array] = {}
        for name, value in self._entries():
            if isinstance(value, Sums):
                arrays |= {f"{name}/{key}": array for key, array in value.to_arrays().items()}
            else:
                arrays[name] = np.asarray(value)
        return arrays

    def restore(self, arrays: dict[str, Array]) -> None:
        """Take what `to_arrays` gave, in the place of own zeros.

        Raises
        ------
        ValueError
            The arrays are not of these sums.
        """
        for name, value in self._entries():
            if isinstance(value, Sums):
                above = f"{name}/"
                own = {key.removeprefix(above): arrays[key] for key in arrays if key.startswith(above)}
                value.restore(own)
                continue
            array, like = arrays[name], np.asarray(value)
            if array.dtype != like.dtype or array.shape != like.shape:
                raise ValueError(f"'{name}' should be {like.dtype} of shape {like.shape}")
            object.__setattr__(self, name, array if isinstance(value, np.ndarray) else type(value)(array))

    def _entries(self) -> Iterator[tuple[str, Any]]:
        """Names and values of all fields that are summed."""
        for field in fields(self):  # type: ignore[arg-type]
            if field.metadata.get("summed", True) and (value := getattr(self, field.name)) is not None:
                yield field.name, value


@dataclass
class JointSums(Sums):
    """The sums of several passes."""

    parts: tuple[Sums, ...]

    def _entries(self) -> Iterator[tuple[str, Any]]:
        yield from ((str(i), part) for i, part in enumerate(self.parts))


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike, least: int | None = None) -> Array:
    """An array of zeros; in a file without a name where it has at least so many bytes."""
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * dtype.itemsize
    if least is None or nbytes < max(1, least):
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile(prefix="threepass-") as file:
        return np.memmap(file, dtype, "w+", shape=shape)
