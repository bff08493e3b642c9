"""Ingest of Mulan's data sets: ARFF, dense or sparse, and an XML file that lists the labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack
from xml.etree import ElementTree

import numpy as np
import scipy.sparse

from ..corpus.store import Corpus
from ..errors import InputError
from .matrices import ingest_matrices
from .sources import decompressed, reading
from .spool import IngestKeywords

_ATTRIBUTE = re.compile(
    r"""@attribute\s+ (?: '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>\S+) )""",
    re.VERBOSE | re.IGNORECASE,
)


def ingest_mulan(arff: Path, labels: Path, dest: str | Path, **options: Unpack[IngestKeywords]) -> Corpus:
    """Turn an ARFF file into a corpus on disk; the whole file is held in memory.

    Parameters
    ----------
    arff
        One document a line, dense (`0,1,0.5`) or sparse (`{1 1,2 0.5}`); plain or compressed.
    labels
        Mulan's XML file: it lists the labels in their order; all other attributes are features.
    dest
        Path of the corpus; it appears there only once it is complete.
    **options
        `binary`, `block_bytes`, `overwrite`, `n_threads`, `progress`: see `IngestOptions`.

    Raises
    ------
    InputError
        A file does not follow the format; the message names file and line.
    """
    label_names = _read_label_names(labels)
    table = _Arff(arff)
    column_of = {_key(name): column for column, name in enumerate(table.names)}
    missing = [name for name in label_names if _key(name) not in column_of]
    if missing:
        raise InputError(
            f"{arff} and {labels} do not belong together. The label '{missing[0]}' is not an attribute "
            "of the first. Give the two files of one data set."
        )
    label_columns = [column_of[_key(name)] for name in label_names]
    feature_columns = np.setdiff1d(np.arange(len(table.names)), label_columns)
    rows = table.rows()
    return ingest_matrices(
        rows[:, feature_columns],
        rows[:, label_columns],
        dest,
        feature_names=[table.names[column] for column in feature_columns.tolist()],
        label_names=label_names,
        **options,
    )


def _read_label_names(path: Path) -> list[str]:
    with reading(path), path.open("rb") as raw:
        content = decompressed(raw).read()
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise InputError(f"{path} is not XML: {error}. Give Mulan's file of labels.") from error
    names = [element.get("name", "") for element in root.iter() if element.tag.endswith("label")]
    if not names or len({_key(name) for name in names}) < len(names) or not all(names):
        raise InputError(
            f"{path} must name each label once. Found {len(names)} labels. Give Mulan's file of labels."
        )
    return names


def _key(name: str) -> str:
    """Name without backslashes, by which ARFF escapes characters and XML does not."""
    return name.replace("\\", "")


@dataclass
class _Arff:
    """Names of the attributes of an ARFF file, and its rows."""

    path: Path

    def __post_init__(self) -> None:
        self.names: list[str] = []
        self._lines = self._read_lines()
        for number, line in self._lines:
            if line.lower().startswith("@data"):
                break
            if line.lower().startswith("@attribute"):
                found = _ATTRIBUTE.match(line)
                if found is None:
                    raise self._wrong(number, "an attribute has no name", line)
                self.names.append(next(name for name in found.groups() if name is not None))
        if not self.names:
            raise InputError(
                f"{self.path} is not ARFF: it has no attributes before '@data'. Give a whole file."
            )

    def rows(self) -> scipy.sparse.csr_array:
        """All rows, (documents, attributes) float64."""
        indptr, indices, values = [0], [], []
        for number, line in self._lines:
            columns, numbers = self._parse(number, line)
            indices.append(columns)
            values.append(numbers)
            indptr.append(indptr[-1] + len(columns))
        if len(indptr) == 1:
            raise InputError(f"{self.path} has no documents after '@data'. Get the whole file.")
        shape = len(indptr) - 1, len(self.names)
        return scipy.sparse.csr_array((np.concatenate(values), np.concatenate(indices), indptr), shape=shape)

    def _parse(self, number: int, line: str) -> tuple[np.ndarray, np.ndarray]:
        try:
            if line.startswith("{"):
                if not line.endswith("}"):
                    raise ValueError
                pairs = [cell.split() for cell in line[1:-1].split(",") if cell.strip()]
                columns = np.array([int(column) for column, _ in pairs], np.int64)
                values = np.array([float(value) for _, value in pairs])
            else:
                values = np.array([float(cell) for cell in line.split(",")])
                columns = np.flatnonzero(values)
                if len(values) != len(self.names):
                    raise ValueError
                values = values[columns]
        except ValueError:
            raise self._wrong(
                number, f"not {len(self.names)} numbers, nor 'column number' pairs in braces", line
            ) from None
        if len(columns) and not (columns.min() >= 0 and columns.max() < len(self.names)):
            raise self._wrong(number, f"a column is not below {len(self.names)}", line)
        return columns, values

    def _read_lines(self) -> Iterator[tuple[int, str]]:
        """Yield lines that are neither blank nor comments, with their numbers from 1."""
        with reading(self.path), self.path.open("rb") as raw:
            for number, line in enumerate(decompressed(raw), start=1):
                text = line.decode("utf-8", "replace").strip()
                if text and not text.startswith("%"):
                    yield number, text

    def _wrong(self, number: int, what: str, line: str) -> InputError:
        shown = line if len(line) <= 60 else line[:60] + "…"
        return InputError(f"{self.path}, line {number}: {what}. Found {shown!r}. Get the file again.")
