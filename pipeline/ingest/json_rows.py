"""Rows of JSON lines, read by Arrow if they are regular, otherwise one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ..text.info import Columns
from .batches import Places, Refused
from .labels import LISTS, is_list, listed_labels
from .sizes import SIZES

_SCALARS = {str: pa.binary(), int: pa.int64()}
"""Types that Arrow reads as we do. Strings are binary, because Arrow does not check that they are UTF-8."""


@dataclass(frozen=True, slots=True)
class JsonFields:
    """Fields to read from each row, by dotted names."""

    text: tuple[str, ...]
    labels: str | None
    separator: str | None
    id: str | None
    types: dict[str, Any]
    """Arrow types of `labels` and `id`, guessed from the first rows; None if Arrow cannot read the field."""

    @classmethod
    def guess(
        cls, columns: Columns, labels: bool, id_column: str | None, rows: Sequence[dict[str, Any]]
    ) -> JsonFields:
        """Fields of a table that begins with `rows`, with or without labels."""
        label_column = columns.labels if labels else None
        types = {}
        for name in (label_column, id_column):
            if name is not None:
                types[name] = _type_of([row[name] for row in rows if row.get(name) is not None])
        return cls(columns.text, label_column, columns.separator, id_column, types)

    @property
    def names(self) -> list[str]:
        return [*self.text, *(name for name in (self.labels, self.id) if name is not None)]

    @property
    def schema(self) -> Any:
        """Schema for Arrow; None if Arrow cannot read these fields."""
        tree: dict[str, Any] = {}
        for name in self.names:
            kind = pa.binary() if name in self.text else self.types[name]
            if kind is None:
                return None
            *outer, last = name.split(".")
            level = tree
            for part in outer:
                level = level.setdefault(part, {})
                if not isinstance(level, dict):
                    return None
            if last in level:
                return None
            level[last] = kind
        return pa.schema(_fields(tree))


def flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a row. Nested fields get dotted names; fields of objects in a list become lists."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and value:
            values |= flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            inside = dict.fromkeys(key for item in value for key in item)
            values |= {f"{prefix}{name}.{key}": [item.get(key) for item in value] for key in inside}
        else:
            values[f"{prefix}{name}"] = value
    return values


def read_rows(
    slab: bytes, fields: JsonFields, row_bytes: int = SIZES.row_bytes
) -> tuple[dict[str, Any], Places]:
    """Read whole lines of JSON into Arrow arrays by name. Texts are binary and never null.

    Also returns the lines of the rows, and the refused rows.
    """
    schema = fields.schema
    places = None if schema is None or len(slab) > row_bytes else _places(slab)
    if places is None:
        return _one_by_one(slab, fields, row_bytes)
    try:
        table = pa.json.read_json(
            pa.BufferReader(slab),
            pa.json.ReadOptions(use_threads=False, block_size=len(slab) + 1),
            pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:  # some row is not regular
        return _one_by_one(slab, fields, row_bytes)
    if table.num_rows != len(places.rows):  # a line holds several objects
        return _one_by_one(slab, fields, row_bytes)
    return _columns(table, fields), places


def _places(slab: bytes) -> Places | None:
    """Lines that are not blank; None if one of them does not begin and end with a brace.

    Such a line is not a whole object, and Arrow must not see it: a line `null` crashes the process.
    """
    n_lines = slab.count(b"\n") + (not slab.endswith(b"\n"))
    if slab.count(b"}\n{") == n_lines - 1 and slab[:1] == b"{" and slab.endswith((b"}\n", b"}")):
        return Places.all(n_lines)
    lines = [line.strip() for line in slab.split(b"\n")]
    rows = np.flatnonzero([len(line) > 0 for line in lines])
    whole = all(lines[i].startswith(b"{") and lines[i].endswith(b"}") for i in rows)
    return Places(rows, n_lines) if whole else None


def struct_column(table: Any, name: str) -> Any:
    """Column with a dotted name, as one array."""
    outer, *inner = [name] if name in table.column_names else name.split(".")
    column = table.column(outer).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return _inside(column, inner)


def _inside(column: Any, names: Sequence[str]) -> Any:
    """Values of a column of structs under nested names. Structs in lists give lists."""
    if not names:
        return column
    if is_list(column.type) and pa.types.is_struct(column.type.value_type):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, _inside(column.flatten(), names))
    return _inside(pc.struct_field(column, names[0]), names[1:])


def _columns(table: Any, fields: JsonFields) -> dict[str, Any]:
    columns = {name: struct_column(table, name) for name in fields.names}
    for name in fields.text:
        columns[name] = pc.fill_null(columns[name], b"")
    return columns


def _one_by_one(slab: bytes, fields: JsonFields, row_bytes: int) -> tuple[dict[str, Any], Places]:
    found: dict[str, list[Any]] = {name: [] for name in fields.names}
    rows: list[int] = []
    refused: list[Refused] = []
    lines = slab.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        known = None
        try:
            row = _row(line, row_bytes)
            known = None if fields.id is None else _value(row, fields.id)
            values: dict[str, Any] = {} if fields.id is None else {fields.id: known}
            if fields.labels is not None:
                values[fields.labels] = _labels(fields, _value(row, fields.labels))
            values |= {name: _text(name, _value(row, name)) for name in fields.text}
        except ValueError as error:
            refused.append(Refused(number, str(error), known))
            continue
        rows.append(number)
        for name, value in values.items():
            found[name].append(value)
    columns = {name: pa.array(found[name], pa.large_binary()) for name in fields.text}
    if fields.labels is not None:
        columns[fields.labels] = pa.array(found[fields.labels], pa.list_(pa.large_binary()))
    if fields.id is not None:
        columns[fields.id] = found[fields.id]
    return columns, Places(np.array(rows, np.int64), len(lines), refused)


def _row(line: bytes, row_bytes: int) -> dict[str, Any]:
    if len(line) > row_bytes:
        raise ValueError(f"the row has {len(line):,} bytes; at most {row_bytes:,} are allowed")
    try:
        row = json.loads(line.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(row, dict):
        raise ValueError(f"not an object with named fields, but {_kind(row)}")
    return row


def _value(row: dict[str, Any], name: str) -> Any:
    """Value of a row under a dotted name; None if there is none."""
    value: Any = row
    for part in [name] if name in row else name.split("."):
        if isinstance(value, list):
            value = [item.get(part) for item in value if isinstance(item, dict)]
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _text(name: str, value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, list) and all(isinstance(part, str | None) for part in value):
        value = " ".join(part for part in value if part is not None)
    if isinstance(value, dict | list):
        raise ValueError(f"the text {name!r} is {_kind(value)}")
    return _as_text(value).encode("utf-8", "replace")


def _labels(fields: JsonFields, value: Any) -> list[bytes] | None:
    """Labels of a row as a list; None if it has none."""
    if value is None:
        return None
    if isinstance(value, dict | bool):
        raise ValueError(f"the labels {fields.labels!r} are {_kind(value)}")
    if not isinstance(value, list):
        text = _as_text(value)
        if fields.separator == LISTS:
            value = listed_labels(text)
        else:
            value = text.split(fields.separator) if fields.separator else [text]
    if any(isinstance(label, dict | list) for label in value):
        raise ValueError(f"the labels {fields.labels!r} are objects or lists in a list")
    return [_as_text(label).encode("utf-8", "replace") for label in value if label is not None]


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else str(value)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        names = list(value)[:5]
        return f"an object with the fields {', '.join(names)}" if names else "an empty object"
    return "a list" if isinstance(value, list) else f"{json.dumps(value)[:40]}"


def _type_of(values: list[Any]) -> Any:
    """Arrow type of all values; None if they have several types, or one that is not simple."""
    if not values:
        return pa.binary()
    lists = [value for value in values if isinstance(value, list)]
    if lists:
        inner = _type_of([item for value in lists for item in value if item is not None])
        return pa.list_(inner) if len(lists) == len(values) and inner is not None else None
    kinds = {type(value) for value in values}
    return _SCALARS.get(kinds.pop()) if len(kinds) == 1 else None


def _fields(tree: dict[str, Any]) -> list[Any]:
    return [
        pa.field(name, pa.struct(_fields(kind)) if isinstance(kind, dict) else kind)
        for name, kind in tree.items()
    ]
