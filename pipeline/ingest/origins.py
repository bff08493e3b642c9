"""Origins of documents, collected while tables are read and stored with the corpus."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import zarr

from ..corpus.origins import FILES, ID_BYTES, ID_OFFSETS, ROWS
from ..storage.arrays import write_array
from ..types import Array
from .batches import Batch

_NONE = np.zeros(0, np.int64)


class PartOrigins:
    """Rows and ids of one part of a file. Ids are kept on disk."""

    def __init__(self, file: int, spool: Path) -> None:
        self.file = file
        self.n_rows = 0
        self.has_ids = False
        self._rows: list[Array] = []
        self._lengths: list[Array] = []
        self._spool = spool

    def add(self, batch: Batch) -> None:
        """Record the next rows of the part."""
        self._rows.append(batch.rows + self.n_rows)
        self.n_rows += batch.n_rows
        ids = [b"null"] * batch.n_documents
        if batch.ids is not None:
            self.has_ids = True
            ids = [json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") for value in batch.ids]
        self._lengths.append(np.array([len(text) for text in ids], np.int64))
        with self._spool.open("ab") as file:
            file.write(b"".join(ids))

    def rows(self) -> Array:
        """(documents,) int64: row numbers in the part."""
        return np.concatenate([_NONE, *self._rows])

    def ids(self) -> tuple[Array, Array]:
        """Ids as concatenated JSON, and the length of each."""
        text = np.fromfile(self._spool, np.uint8) if self._spool.exists() else np.zeros(0, np.uint8)
        return text, np.concatenate([_NONE, *self._lengths])


def write_origins(root: zarr.Group, parts: Sequence[PartOrigins]) -> dict[str, int]:
    """Write the origins that document numbers do not imply. Returns the arrays' checksums."""
    rows, files = [], []
    first, last_file = 0, -1
    for part in parts:
        first = 0 if part.file != last_file else first
        rows.append(part.rows() + first)
        files.append(np.full(len(rows[-1]), part.file, np.int32))
        first, last_file = first + part.n_rows, part.file
    found: dict[str, Array] = {}
    all_rows = np.concatenate(rows)
    if not np.array_equal(all_rows, np.arange(len(all_rows))):
        found[ROWS] = all_rows
    if last_file > 0:
        found[FILES] = np.concatenate(files)
    if any(part.has_ids for part in parts):
        texts, lengths = zip(*(part.ids() for part in parts), strict=True)
        found[ID_BYTES] = np.concatenate(texts)
        found[ID_OFFSETS] = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    checksums: dict[str, int] = {}
    for name, array in found.items():
        group, _, last = name.rpartition("/")
        checksums |= write_array(root.require_group(group), last, array)
    return checksums
