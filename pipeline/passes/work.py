"""The protocol of a pass: what is summed while the corpus streams by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ..corpus.store import Block
from ..types import Array
from .cost import Needs, Size
from .sums import JointSums, Sums

S = TypeVar("S", bound=Sums)


class Pass(ABC, Generic[S]):
    """Base of a pass: a dataclass of settings and arrays that sums over documents.

    It knows nothing of segments, tasks or disks.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """First word of its task keys."""

    @abstractmethod
    def zero(self) -> S:
        """Sums of no documents."""

    @abstractmethod
    def add(self, sums: S, block: Block) -> None:
        """Add the documents of one block, in place."""

    @abstractmethod
    def needs(self, size: Size) -> Needs:
        """Bytes and work for so many documents; shapes alone decide it."""

    def inputs(self) -> list[Array]:
        """Every array that the pass was made with; and one of all its numbers."""
        return [*arrays_of(self), np.array(_numbers_of(self), np.float64)]

    def adder(self, segment_number: int) -> Callable[[S, Block], None]:
        """`add`, as the segment of this number does it."""
        del segment_number
        return self.add


@dataclass(frozen=True, slots=True)
class JointPass(Pass[JointSums]):
    """Several passes in one read; named after the first of them where there is no title."""

    parts: Sequence[Pass[Any]]
    title: str | None = None

    @property
    def name(self) -> str:
        return self.title or self.parts[0].name

    def needs(self, size: Size) -> Needs:
        return sum((part.needs(size) for part in self.parts), Needs())

    def zero(self) -> JointSums:
        return JointSums(tuple(part.zero() for part in self.parts))

    def add(self, sums: JointSums, block: Block) -> None:
        for part, own in zip(self.parts, sums.parts, strict=True):
            part.add(own, block)

    def adder(self, segment_number: int) -> Callable[[JointSums, Block], None]:
        """Take the passes from the last to the first in every other segment.

        Two tasks are then rarely at the same pass, both reaching for memory at once and then both computing.
        The sums are the same, for no pass knows of another.
        """

        def add_backwards(sums: JointSums, block: Block) -> None:
            for part, own in zip(reversed(self.parts), reversed(sums.parts), strict=True):
                part.add(own, block)

        return add_backwards if segment_number % 2 else self.add


def arrays_of(value: Any) -> list[Array]:
    """Every array in a dataclass of dataclasses, sequences and arrays, in order."""
    if isinstance(value, np.ndarray):
        return [value]
    parts: Sequence[Any] = ()
    if isinstance(value, tuple | list):
        parts = value
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, part.name) for part in fields(value)]
    return [array for part in parts for array in arrays_of(part)]


def _numbers_of(value: Any) -> list[float]:
    """Every number in a dataclass of dataclasses, sequences and numbers, in order."""
    if isinstance(value, int | float):
        return [float(value)]
    parts: Sequence[Any] = ()
    if isinstance(value, tuple | list):
        parts = value
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, part.name) for part in fields(value)]
    return [number for part in parts for number in _numbers_of(part)]


def hollow(*shape: int, dtype: Any = np.float32) -> Array:
    """An array of zeros that takes no memory; `nbytes` tells what a real one would."""
    return np.broadcast_to(np.dtype(dtype).type(0), shape)


def array_bytes(value: Any) -> int:
    """Bytes of all arrays in a dataclass of dataclasses, sequences and arrays; each counts once."""
    return sum({id(array): int(array.nbytes) for array in arrays_of(value)}.values())
