"""Arrays and names on disk: written in one way, and read back only when they are as they were written."""

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
"""None where anything will do: what follows from nothing else is bounded by the size of the files."""


def crc32c(*arrays: Array) -> int:
    """CRC-32C of the bytes of some arrays, one after the other."""
    crc = 0
    for array in arrays:
        crc = _extended(crc, array)
    return crc


def _extended(crc: int, array: Array) -> int:
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    raw.flags.writeable = False  # this view's alone: what cannot change is not copied
    return int(google_crc32c.extend(crc, raw))


def write_array(
    group: zarr.Group,
    name: str,
    array: Array,
    fill_value: int = 0,
    dtype: npt.DTypeLike | None = None,
) -> dict[str, int]:
    """Write an array, as `dtype` where one is given, and return its checksum, by its path in the store.

    One chunk at a time, so that at most a chunk is held beside the array, as it is and packed.
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
    """An array of this shape and one of these types; nothing of it is read yet.

    Raises
    ------
    DamageError
        It is not there, or another one.
    """
    stored = _whatever_is_wrong(name, lambda: root[name])
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
    """Read such an array, and check it against its checksum where there is one.

    Raises
    ------
    DamageError
        It is not there, another one, or not as it was written.
    """
    stored = open_array(root, name, shape, *dtypes)
    array = np.asarray(_whatever_is_wrong(name, lambda: stored[...]))
    if crc is not None and crc32c(array) != crc:
        raise DamageError(name, "its checksum does not match")
    return array


def write_names(root: zarr.Group, what: str, names: Sequence[str]) -> dict[str, int]:
    """Write names as one long text and where each begins; returns the checksums of both."""
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
        They are not there, not n, or not text.
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
    return int(_whatever_is_wrong(name, lambda: root[name].nbytes_stored()))  # type: ignore[union-attr]


def read_attributes(root: zarr.Group, name: str) -> dict[str, Any]:
    """The attributes of a group or an array."""
    return dict(_whatever_is_wrong(name, lambda: root[name].attrs.asdict()))


def holds(root: zarr.Group, name: str) -> bool:
    """Whether there is an array or a group of this name."""
    return bool(_whatever_is_wrong(name, lambda: name in root))


def _times(shape: Shape) -> str:
    return " x ".join("any" if n is None else str(n) for n in shape or ()) + " values"


def _whatever_is_wrong(name: str, read: Callable[[], Any]) -> Any:
    """What zarr reads; `DamageError` for whatever error it, its codecs or the disk come up with."""
    try:
        return read()
    except (DamageError, MemoryError):  # memory is only taken for sizes that were checked: it is really short
        raise
    except KeyError as error:
        raise DamageError(name, "it is missing") from error
    except Exception as error:
        raise DamageError(name, f"it cannot be read ({error})") from error
