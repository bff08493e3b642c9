"""Arrays and names on disk: written in one way, and read back only if they are unchanged.

A checksum covers the numbers of a whole array and is kept apart from it, in the mark of the store. So it also
detects chunks that are missing or belong to another array. zarr's crc32c codec is as fast, but does not: it
puts a checksum at the end of each chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import zarr

from ..types import Array
from .guard import CODEC, DamageError, chunk_shape

Shape = tuple[int | None, ...] | None
"""None where any length is accepted; the size of the files limits it."""


def crc32c(*arrays: Array) -> int:
    """CRC-32C of the bytes of the arrays, one after the other."""
    crc = 0
    for array in arrays:
        crc = _extended(crc, array)
    return crc


def _extended(crc: int, array: Array) -> int:
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    raw.flags.writeable = False  # of this view alone: google_crc32c copies memory that may change
    return int(google_crc32c.extend(crc, raw))


def write_array(
    group: zarr.Group,
    name: str,
    array: Array,
    fill_value: int = 0,
    dtype: npt.DTypeLike | None = None,
) -> dict[str, int]:
    """Write an array, as `dtype` if one is given, and return its checksum by its path in the store.

    It is written one chunk at a time, so that at most one chunk is held beside the array.
    """
    chunks = chunk_shape(array.shape)
    stored = group.create_array(
        name,
        shape=array.shape,
        chunks=chunks,
        dtype=array.dtype if dtype is None else dtype,
        compressors=[CODEC],
        fill_value=fill_value,
    )
    crc = 0
    for start in range(0, len(array), chunks[0]):
        rows = slice(start, min(start + chunks[0], len(array)))
        part = np.ascontiguousarray(array[rows], stored.dtype)
        if part.size:
            stored[rows] = part
        crc = _extended(crc, part)
    return {stored.path: crc}


def open_array(root: zarr.Group, name: str, shape: Shape, *dtypes: npt.DTypeLike) -> zarr.Array[Any]:
    """Open an array of this shape and one of these types; no chunk is read yet.

    Raises
    ------
    DamageError
        It is missing, or has another shape or type.
    """
    stored = _or_damage(name, lambda: root[name])
    if not isinstance(stored, zarr.Array):
        raise DamageError(name, "it is not an array")
    fits = shape is None or (
        len(stored.shape) == len(shape)
        and all(wanted in (None, found) for found, wanted in zip(stored.shape, shape, strict=True))
    )
    kinds = [np.dtype(dtype) for dtype in dtypes]
    if stored.dtype not in kinds or not fits:
        wanted = f"{' or '.join(map(str, kinds))}, {_times(shape)}"
        raise DamageError(name, f"it is {stored.dtype}, {_times(stored.shape)}; wanted is {wanted}")
    return stored


def read_array(
    root: zarr.Group, name: str, shape: Shape, *dtypes: npt.DTypeLike, crc: int | None = None
) -> Array:
    """Read an array of this shape and one of these types, and check it against its checksum, if given.

    Raises
    ------
    DamageError
        It is missing, has another shape or type, or has changed since it was written.
    """
    stored = open_array(root, name, shape, *dtypes)
    array = np.asarray(_or_damage(name, lambda: stored[...]))
    if crc is not None and crc32c(array) != crc:
        raise DamageError(name, "its checksum does not match")
    return array


def write_names(root: zarr.Group, what: str, names: Sequence[str]) -> dict[str, int]:
    """Write names as one text and the offset of each; return the checksums of both."""
    encoded = [name.encode() for name in names]
    group = root.create_group(f"names/{what}")
    text = np.frombuffer(b"".join(encoded), np.uint8)
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return write_array(group, "bytes", text) | write_array(group, "offsets", offsets)


def read_names(root: zarr.Group, what: str, n: int, checksums: Mapping[str, int]) -> list[str]:
    """Read n names.

    Raises
    ------
    DamageError
        They are missing, not n, or not text.
    """
    path = f"names/{what}/offsets"
    offsets = read_array(root, path, (n + 1,), np.int64, crc=checksums.get(path))
    if offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise DamageError(path, "they do not begin at 0 and increase")
    path = f"names/{what}/bytes"
    text = bytes(read_array(root, path, (int(offsets[-1]),), np.uint8, crc=checksums.get(path)))
    try:
        return [text[a:b].decode() for a, b in pairwise(offsets.tolist())]
    except UnicodeDecodeError as error:
        raise DamageError(path, f"not all names are UTF-8 ({error})") from error


def stored_bytes(root: zarr.Group, name: str) -> int:
    """Bytes that an array takes on disk."""
    return int(_or_damage(name, lambda: root[name].nbytes_stored()))  # type: ignore[union-attr]


def read_attributes(root: zarr.Group, name: str) -> dict[str, Any]:
    """Attributes of a group or an array."""
    return dict(_or_damage(name, lambda: root[name].attrs.asdict()))


def holds(root: zarr.Group, name: str) -> bool:
    """Whether there is an array or a group of this name."""
    return bool(_or_damage(name, lambda: name in root))


def _times(shape: Shape) -> str:
    return " x ".join("any" if n is None else str(n) for n in shape or ()) + " values"


def _or_damage(name: str, read: Callable[[], Any]) -> Any:
    """Result of a read; any error of zarr, its codecs or the disk becomes a `DamageError`."""
    try:
        return read()
    except (DamageError, MemoryError):  # sizes were checked: memory is really short
        raise
    except KeyError as error:
        raise DamageError(name, "it is missing") from error
    except Exception as error:
        raise DamageError(name, f"it cannot be read ({error})") from error
