"""Batches of table rows: texts, labels, ids, and the place of each row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from ..text.info import Columns
from ..types import Array
from .labels import LabelLists, is_list, read_labels


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that cannot be used."""

    row: int
    """Place of the row, counted as in `Batch.rows`."""
    why: str
    id: Any = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A run of rows of a table."""

    texts: list[Any]
    """An Arrow array of binary values, without nulls, for each text column."""
    labels: LabelLists
    ids: list[Any] | None
    """Values of the id column, ready for JSON."""
    rows: Array
    """(documents,) int64: place of each document in this run; the first row of the run is 0."""
    n_rows: int
    """Rows of the run: documents, refused rows and blank lines."""
    refused: list[Refused] = field(default_factory=list)
    """Refused rows, in order."""

    @property
    def n_documents(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Places:
    """Places of rows in their run, and the refused rows of the run."""

    rows: Array
    n_rows: int
    refused: list[Refused] = field(default_factory=list)

    @classmethod
    def all(cls, n_rows: int) -> Places:
        """Places of a run without blank or refused rows."""
        return cls(np.arange(n_rows), n_rows)


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """Columns to read from a table."""

    columns: Columns
    labels: bool = True
    id: str | None = None

    @property
    def names(self) -> list[str]:
        others = (self.columns.labels if self.labels else None, self.id)
        return list(dict.fromkeys([*self.columns.text, *(name for name in others if name is not None)]))

    def batch(self, found: dict[str, Any], places: Places) -> Batch:
        """Make a batch from the columns of a table, by name."""
        texts = [_texts(found[name], name) for name in self.columns.text]
        ids = None if self.id is None else _ids(found[self.id])
        batch = Batch(texts, LabelLists.none(len(texts[0])), ids, places.rows, places.n_rows, places.refused)
        if not self.labels or self.columns.labels is None:
            return batch
        labels, wrong = read_labels(found[self.columns.labels], self.columns.separator)
        return _without(replace(batch, labels=labels), wrong) if wrong else replace(batch, labels=labels)


def _without(batch: Batch, wrong: dict[int, str]) -> Batch:
    """The batch without some documents, which become refused rows. They must have no labels."""
    keep = np.ones(batch.n_documents, bool)
    keep[list(wrong)] = False
    ids = batch.ids
    refused = [Refused(int(batch.rows[i]), why, None if ids is None else ids[i]) for i, why in wrong.items()]
    lengths = np.diff(batch.labels.indptr)[keep]
    return replace(
        batch,
        texts=[texts.filter(pa.array(keep)) for texts in batch.texts],
        labels=LabelLists(np.concatenate([[0], np.cumsum(lengths)]), batch.labels.names),
        ids=None if ids is None else [ids[i] for i in np.flatnonzero(keep).tolist()],
        rows=batch.rows[keep],
        refused=sorted([*batch.refused, *refused], key=lambda row: row.row),
    )


def _texts(column: Any, name: str) -> Any:
    """A column as binary values without nulls."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_list(column.type) and _is_text(column.type.value_type):
        column = pc.binary_join(column, " ")
    if pa.types.is_nested(column.type):
        raise InputError(
            f"The text {name!r} is neither text nor a list of texts. Found the type {column.type}. "
            "Name a column inside, as in --text body.main."
        )
    if pa.types.is_null(column.type) or not _is_text(column.type):
        column = column.cast(pa.large_string())
    column = column.cast(pa.large_binary())
    return pc.fill_null(column, b"") if column.null_count else column  # it would load pandas


def _is_text(kind: Any) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def _ids(column: Any) -> list[Any]:
    values = column if isinstance(column, list) else column.to_pylist()
    return [_ready(value) for value in values]


def _ready(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str | int | float | bool | list | dict) or value is None else str(value)
