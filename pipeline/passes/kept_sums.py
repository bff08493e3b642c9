"""Sums of a pass as one file, so that they outlive the process that made them.

The file is a line of JSON, and after it the arrays, one behind the other, each at a multiple of 64 bytes. The
line tells what the sums are of (`stamp`), where each array lies and of which type and shape it is, how many
bytes follow, and the CRC-32C of these. A file gets its name only once it is whole; whoever reads it says what
it must hold, so that nothing is allocated, or believed, because a file says so.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..storage.arrays import crc32c
from ..types import Array
from .sums import Sums
from .work import S

VERSION = 1
_ALIGNED = 64
_LONGEST_LINE = 2**20


class DamagedError(Exception):
    """The file is not whole, or not what was asked for: make it again."""


def write_partial(path: Path, sums: Sums, stamp: dict[str, Any]) -> int:
    """Write the sums under their final name, or nothing; returns the bytes.

    No `fsync`: a file that a power cut tears is noticed by its checksum, and its sums are made again.
    """
    arrays = sums.to_arrays()
    layout, end = {}, 0
    for name, array in arrays.items():
        layout[name] = [array.dtype.str, list(array.shape), end]
        end += -(-array.nbytes // _ALIGNED) * _ALIGNED
    head = {"version": VERSION, "stamp": stamp, "arrays": layout, "bytes": end, "crc32c": _checksum(arrays)}
    line = json.dumps(head).encode()
    line += b" " * (-(len(line) + 1) % _ALIGNED) + b"\n"
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            _write_all(file, line)
            for array in arrays.values():
                _write_all(file, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
                _write_all(file, bytes(-array.nbytes % _ALIGNED))
        Path(unfinished).replace(path)
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return len(line) + end


def read_partial(path: Path, zero: Callable[[], S], stamp: dict[str, Any]) -> S:
    """The sums in a file: of exactly this stamp, and with entries like those that `zero` makes.

    Raises
    ------
    DamagedError
        There is no such file, or it is torn, changed, or of something else.
    """
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_LINE)
            head = json.loads(line)
            if head["version"] != VERSION or head["stamp"] != stamp:
                raise DamagedError(f"{path.name} is of other sums")
            if os.fstat(file.fileno()).st_size != len(line) + head["bytes"]:
                raise DamagedError(f"{path.name} is cut short, or too long")
            arrays = {name: _array(file, len(line), *where) for name, where in head["arrays"].items()}
        if _checksum(arrays) != head["crc32c"]:
            raise DamagedError(f"{path.name} does not match its checksum")
        sums = zero()
        sums.restore(arrays)
        return sums
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"{path.name} cannot be read ({error})") from error


def _array(file: BinaryIO, start: int, dtype: str, shape: list[int], offset: int) -> Array:
    """Read an array; a file that is as long as its line says cannot ask for more than its own length."""
    kind = np.dtype(dtype)
    if kind.kind not in "biuf" or min(shape, default=0) < 0 or offset < 0:
        raise DamagedError(f"an array of type {dtype}, shape {shape} at {offset}")
    size = int(np.prod([int(length) for length in shape], dtype=object))
    if size * kind.itemsize > os.fstat(file.fileno()).st_size - start - offset:
        raise DamagedError("an array that is longer than the file")
    file.seek(start + offset)
    return np.fromfile(file, kind, size).reshape(shape)


def _checksum(arrays: dict[str, Array]) -> int:
    return crc32c(*arrays.values())


def _write_all(file: Any, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while len(view):
        view = view[file.write(view[: 2**30]) :]
