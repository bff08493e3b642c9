"""The corpus on disk, version 1.

A corpus is a zarr v3 group. Documents are cut into *blocks*; block 7 lies in the groups `X/00007` (words)
and `Y/00007` (labels), each a CSR matrix with AnnData's attributes, so that other tools open a block:

=====================  ==========================================================================
`X/00007/indptr`       int64, (rows + 1,)
`X/00007/indices`      int32, sorted and unique in each row
`X/00007/data`         the values, in one type for the whole corpus (below)
attributes             `encoding-type: csr_matrix`, `encoding-version: 0.1.0`, `shape`
=====================  ==========================================================================

Beside the blocks, in the root group:

=====================  ==========================================================================
`term_ids`             int32 (D,): the id that column j of X had in the source
`term_counts`          int64 (D,): in how many documents term j occurs; never increasing
`label_counts`         int64 (L,): on how many documents label l is
`names/terms/bytes`    optional: all names as one UTF-8 string, in column order, ...
`names/terms/offsets`  ... and where each begins and ends in it, int64 (D + 1,); likewise `labels`
=====================  ==========================================================================

Columns of X are ranked by document frequency, ties by source id: the codec then needs a third fewer bits,
and the rows of D x K matrices that are read most lie together. Columns of Y keep their source ids.

Values are positive; zeros are not stored. Their type is the smallest that holds all of them, named by the
attribute `values`: `ones` (then `data` is a zarr array with fill value 1 and no chunk at all), `uint8`,
`uint16`, `uint32`, `float32` or `float64`. Y is always `ones`.

The root's attribute `threepass` is written last. It holds the format's name and version, the counts, for
each block its rows, nonzeros and the CRC-32C of its decoded arrays (checked on every read), and the
fingerprint, which changes with any of it. A group without the attribute is unfinished and does not open.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import google_crc32c
import numpy as np
import zarr
import zarr.abc.store
import zarr.codecs
import zarr.errors
import zarr.storage

from pipeline.corpus.rows import Array, SparseRows
from pipeline.destination import partial_path
from pipeline.errors import StoreError

FORMAT = "threepass-corpus"
VERSION = 1
ATTRIBUTE = "threepass"
VALUE_TYPES = ("ones", "uint8", "uint16", "uint32", "float32", "float64")
MAX_COLUMNS = 2**27
"""Widest matrix the format takes: several arrays of this length must fit in memory."""

Side = Literal["X", "Y"]
Location = str | Path | zarr.abc.store.Store

# Chosen by measurement: level 3 saves 5 % more and packs four times slower; small inner blocks lose 5 %.
_CODEC = zarr.codecs.BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", blocksize=2**20)
_CHUNK = 2**27
"""Most entries in a chunk: Blosc takes less than 2 GiB at once."""


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """What the root says of one block."""

    n_docs: int
    x_nnz: int
    y_nnz: int
    x_crc32c: int
    y_crc32c: int


@dataclass(frozen=True, slots=True)
class CorpusInfo:
    """What the root says of the corpus: the attribute `threepass`, without its name and version."""

    n_docs: int
    n_terms: int
    n_labels: int
    values: str
    blocks: tuple[BlockInfo, ...]
    fingerprint: str
    source: dict[str, Any] = field(default_factory=dict)


def block_path(side: Side, number: int) -> str:
    return f"{side}/{number:05d}"


def write_array(group: zarr.Group, name: str, array: Array, fill_value: int = 0) -> None:
    width = int(np.prod(array.shape[1:]))
    rows = min(max(len(array), 1), max(1, _CHUNK // max(width, 1)))
    stored = group.create_array(
        name,
        shape=array.shape,
        chunks=(rows, *(max(size, 1) for size in array.shape[1:])),
        dtype=array.dtype,
        compressors=[_CODEC],
        fill_value=fill_value,
    )
    if array.size:
        stored[:] = array


def write_rows(root: zarr.Group, side: Side, number: int, rows: SparseRows) -> int:
    """Write one side of one block and return its checksum. No two tasks may write the same block."""
    group = root.create_group(block_path(side, number))
    write_array(group, "indptr", rows.indptr)
    write_array(group, "indices", rows.indices)
    # An array equal to its fill value gets no chunk: binary corpora store no values.
    values = np.ones(rows.nnz, np.uint8) if rows.values is None else rows.values
    write_array(group, "data", values, fill_value=1)
    group.attrs.update(
        {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [rows.n_rows, rows.n_columns]}
    )
    return checksum(rows)


def read_rows(root: zarr.Group, info: CorpusInfo, side: Side, number: int) -> SparseRows:
    """Read one side of one block and check it against what the root says of it."""
    block = info.blocks[number]
    nnz, n_columns, crc = {
        "X": (block.x_nnz, info.n_terms, block.x_crc32c),
        "Y": (block.y_nnz, info.n_labels, block.y_crc32c),
    }[side]
    kind = info.values if side == "X" else "ones"
    path = block_path(side, number)
    wanted = {"indptr": (block.n_docs + 1, "int64"), "indices": (nnz, "int32")}
    if kind != "ones":
        wanted["data"] = (nnz, kind)
    arrays = {}
    for name, (length, dtype) in wanted.items():
        try:
            stored = root[f"{path}/{name}"]
            if not isinstance(stored, zarr.Array) or stored.shape != (length,) or stored.dtype != dtype:
                raise _damaged(path, f"'{name}' should hold {length} values of type {dtype}")
            arrays[name] = np.asarray(stored[:])
        except (KeyError, ValueError, RuntimeError, OSError) as error:
            raise _damaged(path, f"'{name}' cannot be read ({error})") from error
    rows = SparseRows(arrays["indptr"], arrays["indices"], arrays.get("data"), n_columns)
    if checksum(rows) != crc:
        raise _damaged(path, "its checksum does not match")
    return rows


def checksum(rows: SparseRows) -> int:
    """CRC-32C of the decoded arrays, in the order indptr, indices, values."""
    arrays = (rows.indptr, rows.indices, rows.values)
    return crc32c(*(array for array in arrays if array is not None))


def crc32c(*arrays: Array) -> int:
    """CRC-32C of the bytes of some arrays, one after the other."""
    crc = google_crc32c.Checksum()
    for array in arrays:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for start in range(0, len(raw), 2**20):  # the library wants bytes: copy little at a time
            crc.update(raw[start : start + 2**20].tobytes())
    return int.from_bytes(crc.digest(), "big")


def write_names(root: zarr.Group, what: str, names: Sequence[str]) -> None:
    encoded = [name.encode() for name in names]
    group = root.create_group(f"names/{what}")
    write_array(group, "bytes", np.frombuffer(b"".join(encoded), np.uint8))
    write_array(group, "offsets", np.cumsum([0, *map(len, encoded)], dtype=np.int64))


def read_names(root: zarr.Group, what: str) -> list[str] | None:
    """The stored names, or None when the source had none."""
    if f"names/{what}" not in root:
        return None
    text = bytes(read_array(root, f"names/{what}/bytes"))
    offsets = read_array(root, f"names/{what}/offsets").tolist()
    return [text[a:b].decode() for a, b in pairwise(offsets)]


def read_array(root: zarr.Group, name: str) -> Array:
    try:
        return np.asarray(root[name][...])  # type: ignore[index]
    except (KeyError, ValueError, RuntimeError, OSError) as error:
        raise _damaged(name, f"it cannot be read ({error})") from error


def fingerprint(root: zarr.Group, info: CorpusInfo) -> str:
    """A name for exactly this content, cut in exactly these blocks."""
    digest = hashlib.sha256(json.dumps([VERSION, {**asdict(info), "fingerprint": "", "source": {}}]).encode())
    for name in ("term_ids", "names/terms/bytes", "names/labels/bytes"):
        if name in root:
            digest.update(read_array(root, name).tobytes())
    return digest.hexdigest()[:32]


def write_info(root: zarr.Group, info: CorpusInfo) -> None:
    """Write the completion mark: the last thing an ingest does."""
    root.attrs[ATTRIBUTE] = {"format": FORMAT, "version": VERSION, **asdict(info)}


def open_root(location: Location) -> tuple[zarr.Group, CorpusInfo]:
    """Open a corpus for reading and validate what its root says.

    Raises
    ------
    StoreError
        Nothing is there, or it is not a corpus, unfinished, of a newer version, or contradicts itself.
    """
    root, mark = open_marked(location, FORMAT, VERSION, "corpus", "threepass ingest SRC DEST")
    return root, _validated(mark, str(location))


def open_marked(
    location: Location, kind: str, version: int, noun: str, command: str
) -> tuple[zarr.Group, dict[str, Any]]:
    """Open a zarr group that carries a completion mark of the given kind, and return the mark.

    Parameters
    ----------
    noun, command
        What it is called, and how one is made; for error messages.
    """
    store = location
    if isinstance(location, str | Path) and "://" not in str(location):
        path = Path(location)
        if not path.exists():
            raise StoreError(f"There is no {noun} at {path}. {_hint(path, noun, command)}")
        if not path.is_dir():
            raise StoreError(f"{path} is not a {noun}: it is a file. Make one with: {command}")
        store = zarr.storage.LocalStore(path, read_only=True)
    try:
        root = zarr.open_group(store, mode="r", zarr_format=3)
        mark = dict(root.attrs).get(ATTRIBUTE)
    except (FileNotFoundError, zarr.errors.GroupNotFoundError, ValueError, KeyError) as error:
        raise StoreError(
            f"{location} is not a {noun}: it holds no zarr v3 group. Make one with: {command}"
        ) from error
    if mark is None and "X" in root:
        raise StoreError(
            f"{location} is an unfinished corpus: its completion mark is missing. "
            "Remove it, and run the ingest again."
        )
    if not isinstance(mark, dict) or mark.get("format") != kind:
        raise StoreError(
            f"{location} is a zarr group but not a {noun}: its attribute '{ATTRIBUTE}' does not say "
            f"'{kind}'. Make one with: {command}"
        )
    if mark.get("version") != version:
        raise StoreError(
            f"{location} has {noun} format version {mark.get('version')}; this threepass reads version "
            f"{version}. Upgrade threepass, or make it again with: {command}"
        )
    return root, mark


def has_mark(path: Path, kind: str = FORMAT) -> bool:
    """Whether a finished store of this kind stands at `path`, which may then be replaced."""
    try:
        mark = dict(zarr.open_group(path, mode="r", zarr_format=3).attrs).get(ATTRIBUTE)
    except Exception:  # whatever it is, it is not ours
        return False
    return isinstance(mark, dict) and mark.get("format") == kind


def _hint(location: Path, noun: str, command: str) -> str:
    partial = partial_path(location)
    if partial.exists():
        return (
            f"Writing it was cut short, or goes on still ({partial} is there). "
            "Run the same command again: it starts afresh and cleans up."
        )
    return f"Check the path, or make a {noun} with: {command}"


def _validated(mark: dict[str, Any], where: str) -> CorpusInfo:
    try:
        blocks = tuple(BlockInfo(**{k: _count(v) for k, v in block.items()}) for block in mark["blocks"])
        info = CorpusInfo(
            n_docs=_count(mark["n_docs"]),
            n_terms=_count(mark["n_terms"]),
            n_labels=_count(mark["n_labels"]),
            values=mark["values"],
            blocks=blocks,
            fingerprint=str(mark["fingerprint"]),
            source=dict(mark["source"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(where, f"its attributes are not those of a corpus ({error!r})") from error
    if info.values not in VALUE_TYPES or max(info.n_terms, info.n_labels) > MAX_COLUMNS:
        raise _damaged(where, f"{info.n_terms} terms, {info.n_labels} labels, values '{info.values}'")
    if sum(block.n_docs for block in blocks) != info.n_docs:
        raise _damaged(where, f"its blocks do not add up to {info.n_docs} documents")
    return info


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _damaged(what: str, how: str) -> StoreError:
    return StoreError(f"The corpus is damaged at {what}: {how}. Ingest the source again with --overwrite.")
