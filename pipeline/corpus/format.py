"""The corpus on disk, version 1.

A corpus is a zarr v3 group. Documents are cut into *blocks*. Block 7 is in the groups `X/00007` (words) and
`Y/00007` (labels). Each is a CSR matrix with AnnData's attributes, so that other tools can open a block:

=====================  ==========================================================================
`X/00007/indptr`       int64, (rows + 1,)
`X/00007/indices`      int32, sorted and unique in each row
`X/00007/data`         values, in one type for the whole corpus (see below)
attributes             `encoding-type: csr_matrix`, `encoding-version: 0.1.0`, `shape`
=====================  ==========================================================================

The root group also holds:

=====================  ==========================================================================
`term_ids`             int32 (D,): source id of column j of X
`term_counts`          int64 (D,): number of documents with term j; never increasing
`label_counts`         int64 (L,): number of documents with label l
`names/terms/bytes`    optional: all names as one UTF-8 string, in column order, ...
`names/terms/offsets`  ... and where each begins and ends in it, int64 (D + 1,); likewise `labels`
`origins/rows`         optional: int64 (N,), row number of each document in its file
`origins/files`        optional: int32 (N,), number of its file among the source's `files`
`origins/ids/bytes`    optional: the documents' ids as JSON, one after the other, and ...
`origins/ids/offsets`  ... where each begins and ends, int64 (N + 1,)
=====================  ==========================================================================

Columns of X are ranked by document frequency, ties by source id. The codec then needs a third fewer bits, and
the rows of D x K matrices that are read most are close together. Columns of Y keep their source ids.

Values are positive; zeros are not stored. Their type is the smallest that holds all of them, named by the
attribute `values`: `ones` (then `data` is a zarr array with fill value 1 and no chunk at all), `uint8`,
`uint16`, `uint32`, `float32` or `float64`. Y is always `ones`.

The root's attribute `threepass`, called the mark, is written last. It holds the format's name and version,
the counts, and for each block its rows, its nonzeros and the CRC-32C of its decoded arrays. Its fingerprint
changes with any of these. Its `crc32c` holds the checksums of the arrays that are read separately: those of
the root, and the `indptr` of each block. In a corpus of texts, `text` holds the tokenizer's settings and the
source's columns. A group without the attribute is unfinished and does not open.

What is verified, and when
--------------------------
*On opening*: the mark matches its own checksum; its counts add up; the root's arrays have the types and
shapes that it implies; and, on a local disk, the files of every block are large enough for its arrays.

*On reading a block*: its checksum matches; row starts are in order from 0 to the number of nonzeros; columns
are in range, sorted and unique in each row; values are positive and finite.

*On reading an array of the root*: its checksum matches; `term_ids` holds every id once; the counts add up to
the nonzeros of all blocks; there is one name in UTF-8 for each column; each document has an origin, in a file
that the source has.

*On every access*: the checks of `threepass.storage.guard`.

`threepass check` reads everything, and computes the counts and the fingerprint again. This also finds damage
in old corpora whose marks, counts and names have no checksums.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import zarr

from ..errors import StoreError
from ..storage import arrays
from ..storage.guard import DamageError, GuardedStore
from ..storage.marks import Location, open_marked, write_mark
from ..text.info import TextInfo
from ..types import Array
from .rows import SparseRows

FORMAT = "threepass-corpus"
VERSION = 1
VALUE_TYPES = ("ones", "uint8", "uint16", "uint32", "float32", "float64")
MAX_COLUMNS = 2**27
"""Most columns of a matrix, because several arrays of this length must fit in memory."""

_MAX_COUNT = 2**48
"""Largest count that is accepted, so that sums of counts cannot overflow."""

Side = Literal["X", "Y"]
SIDES: tuple[Side, Side] = ("X", "Y")


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """Metadata of one block, from the mark."""

    n_docs: int
    x_nnz: int
    y_nnz: int
    x_crc32c: int
    y_crc32c: int


@dataclass(frozen=True, slots=True)
class CorpusInfo:
    """Metadata of the corpus: the mark without its name and version."""

    n_docs: int
    n_terms: int
    n_labels: int
    values: str
    blocks: tuple[BlockInfo, ...]
    fingerprint: str
    source: dict[str, Any] = field(default_factory=dict)
    crc32c: dict[str, int] = field(default_factory=dict)
    """Checksums of the arrays that are read separately, by path; empty in old corpora."""
    text: TextInfo | None = None
    """Tokenizer and columns of the texts; None if the corpus was not made of texts."""

    def nnz(self, side: Side) -> int:
        """Nonzeros of one side of all blocks."""
        return sum(block.x_nnz if side == "X" else block.y_nnz for block in self.blocks)


def block_path(side: Side, number: int) -> str:
    return f"{side}/{number:05d}"


def write_rows(root: zarr.Group, side: Side, number: int, rows: SparseRows) -> tuple[int, dict[str, int]]:
    """Write one side of one block. Returns its checksum, and the checksum of its `indptr` by path.

    No two tasks may write the same block.
    """
    group = root.create_group(block_path(side, number))
    checksums = arrays.write_array(group, "indptr", rows.indptr)
    arrays.write_array(group, "indices", rows.indices)
    # An array equal to its fill value gets no chunk: binary corpora store no values.
    values = np.ones(rows.nnz, np.uint8) if rows.values is None else rows.values
    arrays.write_array(group, "data", values, fill_value=1)
    group.attrs.update(
        {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [rows.n_rows, rows.n_columns]}
    )
    return checksum(rows), checksums


def read_rows(root: zarr.Group, info: CorpusInfo, side: Side, number: int) -> SparseRows:
    """Read one side of one block and check it against the mark."""
    block = info.blocks[number]
    nnz, n_columns, crc = {
        "X": (block.x_nnz, info.n_terms, block.x_crc32c),
        "Y": (block.y_nnz, info.n_labels, block.y_crc32c),
    }[side]
    kind = info.values if side == "X" else "ones"
    path = block_path(side, number)
    with refusing():
        indptr = arrays.read_array(root, f"{path}/indptr", (block.n_docs + 1,), np.int64)
        indices = arrays.read_array(root, f"{path}/indices", (nnz,), np.int32)
        values = None if kind == "ones" else arrays.read_array(root, f"{path}/data", (nnz,), kind)
        rows = SparseRows(indptr, indices, values, n_columns)
        if checksum(rows) != crc:
            raise DamageError(path, "its checksum does not match")
        # A checksum can be forged, and compiled loops do not check where they write.
        if (flaw := rows.flaw()) is not None:
            raise DamageError(path, flaw)
        if values is not None and nnz and not (values.min() > 0 and values.max() < np.inf):
            raise DamageError(path, "not all of its values are positive and finite")
    return rows


def read_lengths(root: zarr.Group, info: CorpusInfo, side: Side, number: int) -> Array:
    """(rows,) int64: nonzeros of each row of one side of one block. Reads only its `indptr`."""
    path = f"{block_path(side, number)}/indptr"
    with refusing():
        n_docs = info.blocks[number].n_docs
        indptr = arrays.read_array(root, path, (n_docs + 1,), np.int64, crc=info.crc32c.get(path))
        lengths = np.diff(indptr)
        nnz = info.blocks[number].x_nnz if side == "X" else info.blocks[number].y_nnz
        if indptr[0] != 0 or indptr[-1] != nnz or (lengths < 0).any():
            raise DamageError(path, f"its row starts are not in order from 0 to {nnz}")
    return lengths


def checksum(rows: SparseRows) -> int:
    """CRC-32C of the decoded arrays, in the order indptr, indices, values."""
    parts = (rows.indptr, rows.indices, rows.values)
    return arrays.crc32c(*(array for array in parts if array is not None))


def read_term_ids(root: zarr.Group, info: CorpusInfo) -> Array:
    """(n_terms,) int32: source id of each column of X."""
    with refusing():
        ids = arrays.read_array(root, "term_ids", (info.n_terms,), np.int32, crc=info.crc32c.get("term_ids"))
        seen = np.zeros(len(ids), bool)
        if len(ids) and not (ids.min() < 0 or ids.max() >= len(ids)):
            seen[ids] = True
        if not seen.all():
            raise DamageError("term_ids", f"they are not the numbers 0 to {info.n_terms - 1}, each once")
    return ids


def read_counts(root: zarr.Group, info: CorpusInfo, side: Side) -> Array:
    """(columns,) int64: number of documents with each term or label."""
    name, n_columns = ("term_counts", info.n_terms) if side == "X" else ("label_counts", info.n_labels)
    with refusing():
        counts = arrays.read_array(root, name, (n_columns,), np.int64, crc=info.crc32c.get(name))
        if len(counts) and not (counts.min() >= 0 and counts.max() <= info.n_docs):
            raise DamageError(name, f"they are not all between 0 and the {info.n_docs} documents")
        if side == "X" and (np.diff(counts) > 0).any():
            raise DamageError(name, "they increase, but terms should be ranked by them")
        if counts.sum() != info.nnz(side):
            raise DamageError(name, f"they do not add up to the {info.nnz(side)} nonzeros of all blocks")
    return counts


def read_names(root: zarr.Group, info: CorpusInfo, side: Side) -> list[str] | None:
    """Names of the columns, or None if the source had none."""
    what, n = ("terms", info.n_terms) if side == "X" else ("labels", info.n_labels)
    with refusing():
        there = f"names/{what}/bytes" in info.crc32c if info.crc32c else arrays.holds(root, f"names/{what}")
        return arrays.read_names(root, what, n, info.crc32c) if there else None


def fingerprint(root: zarr.Group, info: CorpusInfo) -> str:
    """Hash of exactly this content, cut into exactly these blocks."""
    said = {**asdict(info), "fingerprint": "", "source": {}}
    del said["crc32c"], said["text"]  # the fingerprint is older than these
    digest = hashlib.sha256(json.dumps([VERSION, said]).encode())
    with refusing():
        for name, dtype in (
            ("term_ids", np.int32),
            ("names/terms/bytes", np.uint8),
            ("names/labels/bytes", np.uint8),
        ):
            if arrays.holds(root, name):
                digest.update(arrays.read_array(root, name, (None,), dtype).tobytes())
    return digest.hexdigest()[:32]


def write_info(root: zarr.Group, info: CorpusInfo) -> None:
    """Write the mark, which completes an ingest."""
    text = None if info.text is None else info.text.as_dict()
    write_mark(root, FORMAT, VERSION, {**asdict(info), "text": text})


def open_root(location: Location) -> tuple[zarr.Group, CorpusInfo]:
    """Open a corpus for reading and validate its mark.

    Raises
    ------
    StoreError
        There is no corpus, or it is unfinished, of a newer version, or contradicts itself.
    """
    root, info = read_info(location)
    with refusing():
        for name, length, dtype in (
            ("term_ids", info.n_terms, np.int32),
            ("term_counts", info.n_terms, np.int64),
            ("label_counts", info.n_labels, np.int64),
        ):
            arrays.open_array(root, name, (length,), dtype)
        store = root.store
        assert isinstance(store, GuardedStore)
        for number, block in enumerate(info.blocks):
            for side, nnz in (("X", block.x_nnz), ("Y", block.y_nnz)):
                path = block_path(side, number)  # type: ignore[arg-type]
                store.check_files(f"{path}/indptr", (block.n_docs + 1,), "int64")
                store.check_files(f"{path}/indices", (nnz,), "int32")
    return root, info


def read_info(location: Location) -> tuple[zarr.Group, CorpusInfo]:
    """Read the root and the mark of a corpus, without comparing the mark with the files."""
    root, mark = open_marked(location, FORMAT, VERSION, "corpus", "threepass ingest SRC DEST")
    return root, _validated(mark, str(location))


@contextmanager
def refusing() -> Iterator[None]:
    """Turn damage into a `StoreError` that says what to do."""
    try:
        yield
    except DamageError as damage:
        raise _damaged(damage.what, damage.how) from damage


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
            crc32c={str(name): _count(value) for name, value in mark.get("crc32c", {}).items()},
            text=None if mark.get("text") is None else TextInfo.from_dict(mark["text"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # also from refused settings
        raise _damaged(where, f"its attributes are not those of a corpus ({error!r})") from error
    if info.values not in VALUE_TYPES or max(info.n_terms, info.n_labels) > MAX_COLUMNS:
        raise _damaged(where, f"{info.n_terms} terms, {info.n_labels} labels, values '{info.values}'")
    bits = None if info.text is None else info.text.tokenizer.hash_bits
    if bits is not None and info.n_terms != 2**bits:
        raise _damaged(where, f"{info.n_terms} terms, and words are hashed to {bits} bits")
    if not re.fullmatch("[0-9a-f]{32}", info.fingerprint):
        raise _damaged(where, "its fingerprint is malformed")
    if sum(block.n_docs for block in blocks) != info.n_docs:
        raise _damaged(where, f"its blocks do not add up to {info.n_docs} documents")
    for number, block in enumerate(blocks):
        if block.x_nnz > block.n_docs * info.n_terms or block.y_nnz > block.n_docs * info.n_labels:
            raise _damaged(f"block {number}", f"{block.n_docs} documents cannot have so many nonzeros")
    return info


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"{str(value)[:50]!r} is not a count")
    return value


def _damaged(what: str, how: str) -> StoreError:
    return StoreError(f"The corpus is damaged at {what}: {how}. Ingest the source again with --overwrite.")
