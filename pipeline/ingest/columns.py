"""Which columns of a table hold texts and labels, and the labels of a column as lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.corpus.rows import Array
from pipeline.corpus.text_info import Columns
from pipeline.errors import InputError

_TITLES = ("title", "headline", "subject", "name")
_BODIES = ("text", "body", "content", "abstract", "description", "document", "summary", "message", "review")
_LABELS = (
    *("labels", "tags", "label", "tag", "categories", "category", "topics", "topic", "subjects"),
    *("classes", "class", "keywords", "genres", "genre"),
)
_IDS = ("id", "_id", "doc_id", "docid", "document_id", "uid", "key")
_SEPARATORS = ";|,"


@dataclass(frozen=True, slots=True)
class Sample:
    """The first rows of a table, made flat: `{"body": {"main": 1}}` has the column `body.main`."""

    path: str
    names: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def values(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows if row.get(name) is not None]


def choose_columns(
    sample: Sample, text: Sequence[str] | None, labels: str | None, separator: str | None
) -> tuple[Columns, str | None]:
    """The columns to read, and in words what was guessed; None when nothing was.

    Parameters
    ----------
    text, labels, separator
        As given; None where a guess is wanted. The empty text as `labels` or `separator` wants none.
    """
    guessed = []
    if text is None:
        text = _guess_text(sample)
        guessed.append(f"text from {_quoted(text)}")
    for name in text:
        _check_column(sample, name, "--text")
    if labels is None:
        label_column = _first(sample, _LABELS, but=text)
        guessed.append(f"labels from {label_column!r}" if label_column else "no labels")
    else:
        label_column = labels or None
        if label_column is not None:
            _check_column(sample, label_column, "--labels")
    if label_column is None:
        separator = None
    elif separator is None:
        separator = guess_separator(sample, label_column)
        if separator:
            guessed.append(f"labels separated by {separator!r}")
    columns = Columns(tuple(text), label_column, separator)
    return columns, f"{sample.path}: took {', '.join(guessed)}." if guessed else None


def id_column(sample: Sample, columns: Columns) -> str | None:
    """The column that tells documents apart, if there is one."""
    return _first(sample, _IDS, but=[*columns.text, columns.labels or ""])


def check_columns(sample: Sample, columns: Columns, labels: bool) -> None:
    """Refuse a table in which columns are missing; those of labels only when they are wanted."""
    for name in columns.text:
        _check_column(sample, name, "--text")
    if labels and columns.labels is not None:
        _check_column(sample, columns.labels, "--labels")


def _check_column(sample: Sample, name: str, option: str) -> None:
    if name in sample.names:
        return
    inside = [other for other in sample.names if other.startswith(f"{name}.")]
    if inside:
        raise InputError(
            f"{sample.path}: the column {name!r} is nested. It holds {_listed(inside)}. "
            f"Name one of them, as in {option} {inside[0]}."
        )
    close = get_close_matches(name, sample.names, 1) or get_close_matches(name.lower(), sample.names, 1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Pass one of them as {option}."
    raise InputError(f"{sample.path} has no column {name!r}. Columns found: {_listed(sample.names)}. {hint}")


def _guess_text(sample: Sample) -> list[str]:
    body, title = _first(sample, _BODIES), _first(sample, _TITLES)
    if body is not None:
        return [title, body] if title is not None else [body]
    if title is not None:
        return [title]
    known = {name for name in sample.names if name.lower() in (*_LABELS, *_IDS)}
    strings = [
        name
        for name in sample.names
        if name not in known
        and sample.values(name)
        and all(isinstance(value, str | bytes) for value in sample.values(name))
    ]
    if len(strings) == 1:
        return strings
    raise InputError(
        f"{sample.path}: it is not clear which column holds the text. "
        f"Columns found: {_listed(sample.names)}. Name it with --text, as in --text title,body."
    )


def _first(sample: Sample, wanted: Sequence[str], but: Sequence[str] = ()) -> str | None:
    by_name = {name.lower(): name for name in reversed(sample.names) if name not in but}
    return next((by_name[name] for name in wanted if name in by_name), None)


def guess_separator(sample: Sample, name: str) -> str | None:
    """What stands between labels in one text; nothing where texts are one label each, None for lists."""
    values = sample.values(name)
    strings = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
    strings = [value for value in strings if isinstance(value, str) and value.strip()]
    if strings and all(value.strip()[0] == "[" and value.strip()[-1] == "]" for value in strings):
        raise InputError(
            f"{sample.path}: the labels in {name!r} are lists written as text. Found {strings[0][:60]!r}. "
            "Write them with a separator, as in a;b, or the rows as JSON lines."
        )
    none = "" if strings else None
    return next((mark for mark in _SEPARATORS if any(mark in value for value in strings)), none)


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else "") or "none"


# -- labels as lists ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of some documents: trimmed, none empty; repeats are still there."""

    indptr: Array
    """(documents + 1,) int64."""
    names: Any
    """Arrow array of large strings."""

    @classmethod
    def none(cls, n_documents: int) -> Labels:
        return cls(np.zeros(n_documents + 1, np.int64), pa.array([], pa.large_string()))


def read_labels(column: Any, separator: str | None) -> Labels:
    """The labels in an Arrow array of lists, strings or numbers.

    Raises
    ------
    InputError
        They are of none of these types.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind):
        return Labels.none(len(column))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        return _trimmed(lengths.astype(np.int64), _strings(column.flatten()))
    strings = pc.fill_null(_strings(column), "")
    if not separator:
        return _trimmed(np.ones(len(strings), np.int64), strings)
    lists = pc.split_pattern(strings, pattern=separator)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return _trimmed(lengths.astype(np.int64), lists.flatten())


def _strings(values: Any) -> Any:
    """Values as text: numbers as they are written, what is no UTF-8 replaced."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        try:
            return values.cast(pa.large_string())
        except pa.ArrowInvalid:
            texts = [None if raw is None else raw.decode("utf-8", "replace") for raw in values.to_pylist()]
            return pa.array(texts, pa.large_string())
    simple = pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (simple or pa.types.is_null(kind)):
        raise InputError(
            f"The labels are neither texts, numbers nor lists of these. Found the type {kind}. "
            "Name a column inside, as in --labels tag.name, or make them lists of names."
        )
    return values.cast(pa.large_string())


def _trimmed(lengths: Array, names: Any) -> Labels:
    names = pc.utf8_trim_whitespace(pc.fill_null(names, ""))
    keep = pc.binary_length(names).to_numpy(zero_copy_only=False) > 0
    rows = np.repeat(np.arange(len(lengths)), lengths)
    kept = np.bincount(rows[keep], minlength=len(lengths))
    return Labels(np.concatenate([[0], np.cumsum(kept)]).astype(np.int64), names.filter(pa.array(keep)))
