"""Conversion of a label column, in any notation, to lists of labels."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from ..types import Array

LISTS = "[]"
"""Separator that stands for strings that are lists, in the notation of JSON or Python."""
NAME_FIELDS = ("label", "name", "title", "term", "value", "text", "tag")
"""Fields of an object that may hold its label, best first."""


@dataclass(frozen=True, slots=True)
class LabelLists:
    """Labels of some documents: trimmed, none empty, repeats included."""

    indptr: Array
    """(documents + 1,) int64."""
    names: Any
    """Arrow array of large strings."""

    @classmethod
    def none(cls, n_documents: int) -> LabelLists:
        return cls(np.zeros(n_documents + 1, np.int64), pa.nulls(0, pa.large_string()))


def listed_labels(text: str) -> list[str]:
    """Labels of a list that is written as a string.

    Raises
    ------
    ValueError
        It is not a list of strings, numbers or named objects, in the notation of JSON or Python.

    Examples
    --------
    >>> listed_labels('["a", "b"]'), listed_labels("['a', 7]"), listed_labels(" ")
    (['a', 'b'], ['a', '7'], [])
    >>> listed_labels('[{"id": 1, "label": "a"}, {"id": 2, "label": "b"}]')
    ['a', 'b']
    """
    text = text.strip()
    if not text:
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = _python_list(text)
    items = [found] if isinstance(found, dict) else found
    names = [_name_of(item) for item in items] if isinstance(items, list) else [()]
    if any(isinstance(name, list | dict | tuple | set | bool) for name in names):
        raise ValueError(f"the labels are not a list of names: {text[:60]!r}")
    return [str(name) for name in names if name is not None]


def _name_of(item: Any) -> Any:
    """Label field of an object, or the object if it has none; any other item unchanged."""
    if not isinstance(item, dict):
        return item
    fields = {str(field).lower(): value for field, value in item.items()}
    return next((fields[name] for name in NAME_FIELDS if name in fields), item)


def _python_list(text: str) -> Any:
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    # Python joins 'a' 'b', which is how numpy writes two
    same = _bare(repr(found)) == _bare(text)
    return found if same else None


def _bare(text: str) -> str:
    return "".join(text.replace('"', "'").split())


def read_labels(column: Any, separator: str | None) -> tuple[LabelLists, dict[int, str]]:
    """Read the labels in an Arrow array of lists, strings or numbers. Also returns errors, by row.

    Raises
    ------
    InputError
        The array has another type.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind):
        return LabelLists.none(len(column)), {}
    if is_list(kind):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        return _trimmed(lengths.astype(np.int64), _strings(column.flatten())), {}
    strings = pc.fill_null(_strings(column), "")
    if separator == LISTS:
        return _listed(strings.to_pylist())
    if not separator:
        return _trimmed(np.ones(len(strings), np.int64), strings), {}
    lists = pc.split_pattern(strings, pattern=separator)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return _trimmed(lengths.astype(np.int64), lists.flatten()), {}


def _listed(texts: list[str]) -> tuple[LabelLists, dict[int, str]]:
    lists: list[list[str]] = []
    wrong: dict[int, str] = {}
    for row, text in enumerate(texts):
        try:
            lists.append(listed_labels(text))
        except ValueError as error:
            lists.append([])
            wrong[row] = str(error)
    names = pa.array([name for names in lists for name in names], pa.large_string())
    return _trimmed(np.array([len(names) for names in lists], np.int64), names), wrong


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is a list type."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _strings(values: Any) -> Any:
    """Values as strings: numbers as written, invalid UTF-8 replaced."""
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


def _trimmed(lengths: Array, names: Any) -> LabelLists:
    names = pc.utf8_trim_whitespace(pc.fill_null(names, ""))
    keep = pc.binary_length(names).to_numpy(zero_copy_only=False) > 0
    rows = np.repeat(np.arange(len(lengths)), lengths)
    kept = np.bincount(rows[keep], minlength=len(lengths))
    return LabelLists(np.concatenate([[0], np.cumsum(kept)]).astype(np.int64), names.filter(pa.array(keep)))
