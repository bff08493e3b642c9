"""Streamed prediction: the best labels of every document of a corpus, written to a file of several kinds.

Blocks are read, scored and written a few at a time, so that memory does not depend on N x L. The file appears
under its name only once it is whole.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import zarr
import zarr.storage

from ..corpus.origins import Origins
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError
from ..progress import Progress
from ..storage.arrays import write_names
from ..storage.destination import new_directory, new_file
from ..storage.marks import has_mark, write_mark
from ..types import Array
from .inputs import Documents, documents
from .predictor import Predictor, predictor_of
from .texts import check_like

if TYPE_CHECKING:
    from .labeler import MomentLabeler

FORMAT = "threepass-predictions"
VERSION = 1
_CHUNK_ROWS = 65_536
_LINES = (".jsonl", ".ndjson")
_TABLES = {".csv": ",", ".tsv": "\t"}
_MARKS = (";", "|", "||", "\n")

Record = dict[str, Any]
"""Prediction for one document: its origin, and its labels and scores, or an error."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions for some documents, in order."""

    records: Iterator[Record]
    fields: list[str]
    """Fields that records may have, in the order of a table's columns."""


@dataclass(frozen=True, slots=True)
class BestLabels:
    """The best labels of some documents."""

    labels: Array
    """(n, k) int32, -1 where there are no more."""
    scores: Array
    """(n, k) float32."""
    has_words: Array
    """(n,) bool: whether the model knows any of its words; without one it has no labels."""

    def records(self, origins: Iterable[Record], names: Sequence[str]) -> Iterator[Record]:
        """Yield a record for each document."""
        rows = zip(self.labels.tolist(), self.scores.tolist(), self.has_words.tolist(), strict=True)
        for origin, (own, their, has_words) in zip(origins, rows, strict=True):
            record = {
                **origin,
                "labels": [names[label] for label in own if label >= 0],
                "scores": [round(score, 6) for label, score in zip(own, their, strict=True) if label >= 0],
            }
            yield record if has_words else {**record, "known_words": 0}


def predict_to_file(
    model: Predictor | MomentLabeler,
    corpus: Corpus,
    dest: str | Path,
    *,
    k: int = 5,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the k best labels of each document. One without a word that the model knows has none.

    A document is told by the number of its row in its file, and by file and id where the corpus has them.

    Parameters
    ----------
    dest
        A name that ends in `.jsonl` or `.ndjson` makes a line of JSON for each document, with `document`,
        `labels` (names) and `scores`; in `.csv` or `.tsv` a table with these columns, and a mark between
        labels and between scores; in `.parquet` a Parquet file with `document`, `labels` (ids), `names` and
        `scores`. One in `.zarr`, or without a suffix, makes a zarr group with the arrays `documents` (n,),
        which are numbers in the corpus, `labels` (n, k) and `scores` (n, k), and `names/labels`.

    Raises
    ------
    InputError
        The name ends in something else.
    """
    model, dest = predictor_of(model), Path(dest)
    check_suffix(dest, (*_LINES, *_TABLES, ".parquet", ".zarr", ""))
    if dest.suffix in (".zarr", ""):
        with new_directory(dest, overwrite=overwrite, is_ours=lambda p: has_mark(p, FORMAT)) as partial:
            _write_zarr(partial, corpus, _corpus_parts(model, corpus, k, progress), k, model.label_names)
    elif dest.suffix == ".parquet":
        with new_file(dest, overwrite=overwrite) as partial:
            parts = _corpus_parts(model, corpus, k, progress)
            _write_parquet(partial, corpus, parts, model.label_names)
    else:
        fields = ["document", "file", "id", "labels", "scores"]
        absent = {"file": not corpus.origins.has_files, "id": not corpus.origins.has_ids}
        fields = [name for name in fields if not absent.get(name)]
        found = Predictions(corpus_records(model, corpus, k, progress), fields)
        write_records(found, dest, model.label_names, overwrite=overwrite)
    return dest


def corpus_records(
    model: Predictor, corpus: Corpus, k: int, progress: Progress | None = None
) -> Iterator[Record]:
    """The predictions for a corpus, a document at a time, in order."""
    row = 0
    for part in _corpus_parts(model, corpus, k, progress):
        rows = corpus.doc_ids[row : row + len(part.labels)]
        yield from part.records(corpus.origins.of(rows).records(), model.label_names)
        row += len(rows)


def prediction_lines(records: Iterable[Record]) -> Iterator[str]:
    """A line of JSON for each record."""
    return (json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def write_records(found: Predictions, dest: Path, names: Sequence[str], *, overwrite: bool) -> int:
    """Write lines of JSON, or CSV; returns how many documents could be read.

    Parameters
    ----------
    names
        Of all labels: what stands between labels in a cell is in none of them.
    """
    check_suffix(dest, (*_LINES, *_TABLES), "ingest the texts with --like first, and predict for that corpus")
    mark = next((mark for mark in _MARKS if not any(mark in name for name in names)), _MARKS[0])
    n_documents = 0
    with (
        new_file(dest, overwrite=overwrite) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(
            file,
            found.fields,
            extrasaction="ignore",
            delimiter=_TABLES.get(dest.suffix, ","),
            lineterminator="\n",
        )
        if dest.suffix in _TABLES:
            writer.writeheader()
        for record in found.records:
            n_documents += "labels" in record
            if dest.suffix in _LINES:
                file.writelines(prediction_lines([record]))
                continue
            joined = {name: mark.join(map(str, record.get(name, ()))) for name in ("labels", "scores")}
            writer.writerow({**record, **joined})
    return n_documents


def check_suffix(dest: Path, known: Sequence[str], otherwise: str | None = None) -> None:
    """Refuse a name from which it is not clear what to write."""
    if dest.suffix not in known:
        listed = ", ".join(suffix for suffix in known if suffix)
        raise InputError(
            f"{dest} does not tell what to write. Found the suffix {dest.suffix!r}. Name it with one of "
            f"{listed}{f', or {otherwise}' if otherwise else ''}."
        )


def labelled_parts(
    model: Predictor, docs: Documents, k: int, progress: Progress | None = None
) -> Iterator[BestLabels]:
    """The k best labels of some documents at a time, in order."""
    with_words: dict[int, Array] = {}

    def read(number: int) -> tuple[SparseRows, SparseRows | None]:
        X, Y = docs.read(number)
        with_words[number] = np.diff(X.indptr) > 0
        return X, Y

    ahead, number = np.zeros(0, bool), 0
    for labels, scores in model.stream_topk(replace(docs, read=read), k, progress):
        while len(ahead) < len(labels):  # parts are no longer than blocks
            ahead = np.concatenate([ahead, with_words.pop(number)])
            number += 1
        has_words, ahead = ahead[: len(labels)], ahead[len(labels) :]
        yield BestLabels(np.where(has_words[:, None], labels, -1), scores * has_words[:, None], has_words)


def _corpus_parts(
    model: Predictor, corpus: Corpus, k: int, progress: Progress | None
) -> Iterator[BestLabels]:
    check_like(corpus, model.text, model.term_names, None)
    yield from labelled_parts(model, documents(corpus, None, model.n_terms), k, progress)


def _write_zarr(path: Path, corpus: Corpus, parts: Iterator[BestLabels], k: int, names: list[str]) -> None:
    root = zarr.create_group(zarr.storage.LocalStore(path), zarr_format=3)
    n_docs = corpus.n_docs
    shapes = {
        "documents": ((n_docs,), "int64"),
        "labels": ((n_docs, k), "int32"),
        "scores": ((n_docs, k), "float32"),
    }
    arrays = {
        name: root.create_array(
            name, shape=shape, chunks=(min(_CHUNK_ROWS, max(1, n_docs)), *shape[1:]), dtype=dtype
        )
        for name, (shape, dtype) in shapes.items()
    }
    row = 0
    for part in parts:  # one writer: chunks and blocks do not end at the same rows
        rows = slice(row, row + len(part.labels))
        for array, values in zip(
            arrays.values(), (corpus.doc_ids[rows], part.labels, part.scores), strict=True
        ):
            if len(values):
                array[rows] = values
        row = rows.stop
    write_names(root, "labels", names)
    write_mark(root, FORMAT, VERSION, {"n_docs": n_docs, "k": k})


def _write_parquet(path: Path, corpus: Corpus, parts: Iterator[BestLabels], names: list[str]) -> None:
    stored = corpus.origins
    schema = pa.schema(
        [
            ("document", pa.int64()),
            *([("file", pa.string())] if stored.has_files else []),
            *([("id", pa.string())] if stored.has_ids else []),
            ("labels", pa.list_(pa.int32())),
            ("names", pa.list_(pa.string())),
            ("scores", pa.list_(pa.float32())),
        ]
    )
    all_names = pa.array(names, pa.string())
    row = 0
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for part in parts:
            origins = stored.of(corpus.doc_ids[row : row + len(part.labels)])
            row += len(part.labels)
            known = part.labels >= 0  # fewer than k where the model has fewer labels
            offsets = pa.array(np.concatenate([[0], np.cumsum(known.sum(axis=1))]), pa.int32())
            ids = pa.array(part.labels[known], pa.int32())
            columns = [
                pa.array(origins.rows, pa.int64()),
                *_origin_columns(origins),
                pa.ListArray.from_arrays(offsets, ids),
                pa.ListArray.from_arrays(offsets, all_names.take(ids)),
                pa.ListArray.from_arrays(offsets, pa.array(part.scores[known], pa.float32())),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _origin_columns(origins: Origins) -> list[Any]:
    columns = [] if origins.files is None else [pa.array(origins.files, pa.string())]
    if origins.ids is not None:
        texts = [None if value is None else str(value) for value in origins.ids]
        columns.append(pa.array(texts, pa.string()))
    return columns
