"""Origins of the documents of a corpus (file, row, id), by which results can be joined to the source.

The group `origins` holds the arrays, each of them optional. Without any, documents are numbered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from ..storage import arrays
from ..storage.guard import DamageError
from ..types import Array
from . import format as fmt

GROUP = "origins"
ROWS, FILES, ID_BYTES, ID_OFFSETS = (
    f"{GROUP}/{name}" for name in ("rows", "files", "ids/bytes", "ids/offsets")
)


@dataclass(frozen=True, slots=True)
class Origins:
    """Origins of some documents, in order."""

    rows: Array
    """(n,) int64: number of each document in its file, or in the corpus."""
    files: list[str] | None = None
    """File name of each document; None if there is only one file."""
    ids: list[Any] | None = None
    """Source id of each document, None for a document without one."""

    def records(self) -> Iterator[dict[str, Any]]:
        """Fields that identify each document in results: `document`, and `file` and `id` if known."""
        for i, row in enumerate(self.rows.tolist()):
            record: dict[str, Any] = {"document": row}
            if self.files is not None:
                record["file"] = self.files[i]
            if self.ids is not None and self.ids[i] is not None:
                record["id"] = self.ids[i]
            yield record


class StoredOrigins:
    """Checked origins of all documents of a corpus."""

    def __init__(self, root: zarr.Group, info: fmt.CorpusInfo) -> None:
        self._rows = self._files = None
        self._ids: tuple[bytes, Array] | None = None
        names = info.source.get("files")
        self._names = [str(name) for name in names] if isinstance(names, list) else []
        with fmt.refusing():
            if ROWS in info.crc32c:
                self._rows = _read(root, info, ROWS, (info.n_docs,), np.int64)
            if FILES in info.crc32c:
                self._files = _read(root, info, FILES, (info.n_docs,), np.int32)
            if ID_OFFSETS in info.crc32c:
                self._ids = _read_ids(root, info)
            self._check()

    @property
    def has_files(self) -> bool:
        return self._files is not None

    @property
    def has_ids(self) -> bool:
        return self._ids is not None

    def of(self, documents: Array) -> Origins:
        """Origins of documents, by their numbers in the whole corpus."""
        rows = documents if self._rows is None else self._rows[documents]
        files = None
        if self._files is not None:
            files = [self._names[i] for i in self._files[documents].tolist()]
        if self._ids is None:
            return Origins(rows, files)
        text, offsets = self._ids
        with fmt.refusing():
            try:
                ids = [json.loads(text[offsets[i] : offsets[i + 1]]) for i in documents.tolist()]
            except (ValueError, RecursionError) as error:
                raise DamageError(ID_BYTES, f"not all ids are JSON ({error})") from error
        return Origins(rows, files, ids)

    def _check(self) -> None:
        files = self._files
        if files is not None and len(files) and not (files.min() >= 0 and files.max() < len(self._names)):
            raise DamageError(FILES, f"they are not all among the {len(self._names)} files")
        if self._rows is not None and len(self._rows) and self._rows.min() < 0:
            raise DamageError(ROWS, "some are negative")


def _read_ids(root: zarr.Group, info: fmt.CorpusInfo) -> tuple[bytes, Array]:
    offsets = _read(root, info, ID_OFFSETS, (info.n_docs + 1,), np.int64)
    if offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise DamageError(ID_OFFSETS, "they do not begin at 0 and increase")
    return bytes(_read(root, info, ID_BYTES, (int(offsets[-1]),), np.uint8)), offsets


def _read(root: zarr.Group, info: fmt.CorpusInfo, name: str, shape: arrays.Shape, dtype: Any) -> Array:
    return arrays.read_array(root, name, shape, dtype, crc=info.crc32c.get(name))
