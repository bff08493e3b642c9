"""Choice of the columns of a table that hold texts and labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from statistics import median
from typing import Any

from ..errors import InputError
from ..text.info import Columns
from .labels import LISTS, NAME_FIELDS, listed_labels

_TITLES = ("title", "headline", "subject", "name")
_BODIES = ("text", "body", "content", "abstract", "description", "document", "summary", "message", "review")
_LABELS = (
    *("labels", "tags", "label", "tag", "categories", "category", "topics", "topic", "subjects", "subject"),
    *("classes", "class", "keywords", "keyword", "genres", "genre"),
)
_MAYBE_TITLES = ("subject", "topic")
"""Label columns that hold running text in tables of mail and forum posts."""
_IDS = ("id", "_id", "doc_id", "docid", "document_id", "uid", "key", "identifier")
_SEPARATORS = ("||", ";", "|", "\n", ",")
_SHORT, _PHRASE = 2, 5
"""Words of a label: a text of the first length nearly always is one, of the second if texts repeat or have
separators."""
_FEWEST_ONE_HOT = 3
_BITS = ({"0"}, {"1"}, {"0", "1"}, {"true", "false"}, {"true"}, {"false"}, {"0.0", "1.0"}, {"0.0"})


@dataclass(frozen=True, slots=True)
class Sample:
    """First rows of a table, flattened: `{"body": {"main": 1}}` has the column `body.main`."""

    path: str
    names: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    encoding: str | None = None
    """Encoding of the file; None for UTF-8."""
    is_guess: bool = False
    """Whether the encoding was guessed."""

    def values(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows if row.get(name) is not None]

    def texts(self, name: str) -> list[str]:
        """Values of a column that are strings and not blank."""
        values = (v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in self.values(name))
        return [value for value in values if isinstance(value, str) and value.strip()]


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """The user's choice of columns. None asks for a guess, an empty `labels` or `separator` for none."""

    text: Sequence[str] | None = None
    labels: str | None = None
    separator: str | None = None
    encoding: str | None = None


def choose_columns(sample: Sample, choice: ColumnChoice) -> tuple[Columns, str | None]:
    """Choose the columns to read. Also returns what was guessed, in words, or None."""
    text, labels, separator = choice.text, choice.labels, choice.separator
    guessed = []
    label_column = labels or None
    if labels is None:
        label_column = _guess_labels(sample, text or ())
    elif labels and labels not in sample.names:
        label_column = _inner(sample, labels) or labels
        _check_column(sample, label_column, "--labels")
    if text is None:
        text = _guess_text(sample, label_column)
        guessed.append(f"text from {_quoted(text)}")
    for name in text:
        _check_column(sample, name, "--text")
    if label_column != (labels or None):
        guessed.append(f"labels from {label_column!r}")
    elif labels is None:
        _refuse_one_hot(sample, text)
        guessed.append("no labels")
    if label_column is None:
        separator = None
    else:
        _refuse_booleans(sample, label_column)
        if separator is None:
            separator = guess_separator(sample, label_column)
            if separator:
                guessed.append(
                    "lists written as text" if separator == LISTS else f"labels separated by {separator!r}"
                )
    columns = Columns(tuple(text), label_column, separator)
    return columns, f"{sample.path}: took {', '.join(guessed)}." if guessed else None


def id_column(sample: Sample, columns: Columns) -> str | None:
    """Column that identifies documents, if there is one."""
    return _first(sample, _IDS, but=[*columns.text, columns.labels or ""])


def check_columns(sample: Sample, columns: Columns, labels: bool) -> None:
    """Refuse a table without the chosen columns. Checks the label column only if `labels`."""
    for name in columns.text:
        _check_column(sample, name, "--text")
    if labels and columns.labels is not None:
        _check_column(sample, columns.labels, "--labels")


def _check_column(sample: Sample, name: str, option: str) -> None:
    outer = name.partition(".")[0]
    if name in sample.names or (outer != name and outer in sample.names and not any(sample.values(outer))):
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


def _guess_text(sample: Sample, labels: str | None) -> list[str]:
    others = [name for name in sample.names if _plain(name) in _MAYBE_TITLES and _are_labels(sample, name)]
    but = [labels or "", *others]
    body, title = _first(sample, _BODIES, but), _first(sample, _TITLES, but)
    if body is not None:
        return [title, body] if title is not None else [body]
    if title is not None:
        return [title]
    known = {name for name in sample.names if _plain(name) in (*_LABELS, *_IDS)} | {labels}
    strings = [
        name
        for name in sample.names
        if name not in known
        and sample.values(name)
        and all(isinstance(value, str | bytes) for value in sample.values(name))
        and not _is_one_hot(sample, name)
    ]
    if len(strings) == 1:
        return strings
    raise InputError(
        f"{sample.path}: it is not clear which column holds the text. "
        f"Columns found: {_listed(sample.names)}. Name it with --text, as in --text title,body."
    )


def _guess_labels(sample: Sample, but: Sequence[str]) -> str | None:
    names = list(but)
    while (name := _first(sample, _LABELS, names)) is not None:
        if _plain(name) not in _MAYBE_TITLES or _are_labels(sample, name):
            return name
        names.append(name)
    return next((inner for name in _LABELS if (inner := _inner(sample, name)) and inner not in but), None)


def _inner(sample: Sample, name: str) -> str | None:
    """Field that names the label, in a column with lists of objects."""
    inside = [
        other
        for other in sample.names
        if _plain(other).startswith(f"{_plain(name)}.")
        and any(isinstance(value, list) for value in sample.values(other))
    ]
    if len(inside) == 1:
        return inside[0]
    by_field = {_plain(other).rpartition(".")[2]: other for other in inside}
    return next((by_field[wanted] for wanted in NAME_FIELDS if wanted in by_field), None)


def _first(sample: Sample, wanted: Sequence[str], but: Sequence[str] = ()) -> str | None:
    by_name = {_plain(name): name for name in reversed(sample.names) if name not in but}
    return next((by_name[name] for name in wanted if name in by_name), None)


def _plain(name: str) -> str:
    """Column name in lower case, with `dc.subject[sv]` reduced to `subject`."""
    return re.sub(r"^(dc|dcterms)[.:]|\[\w*\]$", "", name.strip().lower())


def _are_labels(sample: Sample, name: str) -> bool:
    """Whether a column holds lists, or strings that are labels by their length and repetition."""
    values, texts = sample.values(name), sample.texts(name)
    if not texts:
        return any(not isinstance(value, str) for value in values)
    mark = _separator_of(texts)
    if mark == "," and sum(mark in text for text in texts) * 2 < len(texts):
        mark = None
    pieces = [piece.strip() for text in texts for piece in (text.split(mark) if mark else [text])]
    pieces = [piece for piece in pieces if piece]
    n_words = median([len(piece.split()) for piece in pieces] or [0])
    if n_words <= _SHORT or mark == LISTS:
        return True
    separated = mark not in (None, ",") and sum(mark in text for text in texts) * 10 >= len(texts)
    return n_words <= _PHRASE and (separated or len(set(pieces)) * 2 <= len(pieces))


def guess_separator(sample: Sample, name: str) -> str | None:
    """Separator between labels in one string; empty if each string is one label, None for lists.

    `LISTS` if strings are lists.
    """
    texts = sample.texts(name)
    return (_separator_of(texts) or "") if texts else None


def _separator_of(texts: Sequence[str]) -> str | None:
    if texts and all(text.strip()[0] + text.strip()[-1] in ("[]", "{}") for text in texts):
        for text in texts:
            try:
                listed_labels(text)
            except ValueError as error:
                raise InputError(
                    f"The labels are lists in an unknown form: {error}. "
                    'Write them as JSON, as in ["a", "b"], or with a separator, as in a;b.'
                ) from error
        return LISTS
    # a mark in one text of a hundred may be part of a label
    often = [mark for mark in _SEPARATORS if sum(mark in text for text in texts) * 20 >= len(texts) > 0]
    there = [mark for mark in _SEPARATORS if any(mark in text for text in texts)]
    return next(iter([*often, *there]), None)


# -- refused tables ----------------------------------------------------------------------------------------


def _refuse_booleans(sample: Sample, name: str) -> None:
    values = [
        item for value in sample.values(name) for item in (value if isinstance(value, list) else [value])
    ]
    words = {str(value).strip().lower() for value in values if value not in ("", None)}
    if words and words <= {"true", "false"}:
        raise InputError(
            f"{sample.path}: the labels in {name!r} are {' and '.join(sorted(words))}, which are not names. "
            f"Write a label's name where it is true and nothing where it is not, as with pandas: "
            f"df['labels'] = df[{name!r}].map({{True: {name!r}, False: ''}})"
        )


def _refuse_one_hot(sample: Sample, text: Sequence[str]) -> None:
    found = [name for name in sample.names if name not in text and _is_one_hot(sample, name)]
    found = [name for name in found if _plain(name) not in _IDS]
    if len(found) >= _FEWEST_ONE_HOT:
        first, last = sample.names.index(found[0]), sample.names.index(found[-1])
        together = last - first + 1 == len(found)
        chosen = f"df.loc[:, {found[0]!r}:{found[-1]!r}]" if together else f"df[{found}]"
        raise InputError(
            f"{sample.path}: each label seems to have its own column. Found {len(found)} columns of 0 and 1: "
            f"{_listed(found)}. Write them to one column, as with pandas: marks = {chosen} == 1; "
            "df['labels'] = [list(marks.columns[row]) for row in marks.values]; "
            "df.to_json('rows.jsonl', orient='records', lines=True); or pass --labels '' for no labels."
        )


def _is_one_hot(sample: Sample, name: str) -> bool:
    words = {str(value).strip().lower() for value in sample.values(name)} - {""}
    return words in _BITS


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else "") or "none"
