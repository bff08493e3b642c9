"""Streamed prediction: the best labels of every document of a corpus, written to zarr, Parquet or JSON lines.

Blocks are read, scored and written a few at a time, so that memory depends neither on the number of
documents nor on N x L. The file appears under its name only once it is whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import zarr
import zarr.storage

from pipeline.corpus.arrays import write_names
from pipeline.corpus.marks import has_mark, write_mark
from pipeline.corpus.rows import Array
from pipeline.corpus.store import Corpus
from pipeline.destination import new_directory, new_file
from pipeline.model.labeler import MomentLabeler

FORMAT = "threepass-predictions"
VERSION = 1
_CHUNK_ROWS = 65_536

Progress = Callable[[str, float, float], None]
Part = tuple[Array, Array, Array]
"""Document numbers (n,), labels (n, k) and scores (n, k)."""


def predict_to_file(
    model: MomentLabeler,
    corpus: Corpus,
    dest: str | Path,
    *,
    k: int = 5,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the k best labels of each document.

    Parameters
    ----------
    dest
        A name that ends in `.parquet` makes a Parquet file with the columns `document`, `labels` (ids),
        `names` and `scores`; one that ends in `.jsonl` a line of JSON for each document, with `document`,
        `labels` (names) and `scores`; any other a zarr group with the arrays `documents` (n,), `labels`
        (n, k) and `scores` (n, k), and `names/labels`.
    """
    dest = Path(dest)
    parts = corpus_parts(model, corpus, k, progress)
    if dest.suffix == ".parquet":
        with new_file(dest, overwrite=overwrite) as partial:
            _write_parquet(partial, parts, model.label_names_)
    elif dest.suffix == ".jsonl":
        with new_file(dest, overwrite=overwrite) as partial, partial.open("w", encoding="utf-8") as file:
            file.writelines(prediction_lines(parts, model.label_names_))
    else:
        with new_directory(dest, overwrite=overwrite, is_ours=lambda p: has_mark(p, FORMAT)) as partial:
            _write_zarr(partial, parts, corpus.n_docs, k, model.label_names_)
    return dest


def prediction_lines(
    parts: Iterable[Part], names: list[str], ids: Sequence[Any] | None = None, first: int = 0
) -> Iterator[str]:
    """A line of JSON for each document: its number, its id where it has one, its best labels, their scores.

    Parameters
    ----------
    ids
        Of documents, from number `first` on.
    """
    for documents, labels, scores in parts:
        for document, own, their in zip(documents.tolist(), labels.tolist(), scores.tolist(), strict=True):
            line = (
                {"document": document} if ids is None else {"document": document, "id": ids[document - first]}
            )
            found = {
                "labels": [names[label] for label in own if label >= 0],  # fewer where the model has fewer
                "scores": [round(score, 6) for label, score in zip(own, their, strict=True) if label >= 0],
            }
            yield json.dumps({**line, **found}, ensure_ascii=False) + "\n"


def corpus_parts(model: MomentLabeler, corpus: Corpus, k: int, progress: Progress | None) -> Iterator[Part]:
    """The predictions of a block at a time, in order."""
    row = 0
    for labels, scores in model.stream_topk(corpus, k, progress):
        yield corpus.doc_ids[row : row + len(labels)], labels, scores
        row += len(labels)


def _write_zarr(path: Path, parts: Iterator[Part], n_docs: int, k: int, names: list[str]) -> None:
    root = zarr.create_group(zarr.storage.LocalStore(path), zarr_format=3)
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
    for documents, labels, scores in parts:  # one writer: chunks and blocks do not end at the same rows
        rows = slice(row, row + len(documents))
        for array, values in zip(arrays.values(), (documents, labels, scores), strict=True):
            if len(values):
                array[rows] = values
        row = rows.stop
    write_names(root, "labels", names)
    write_mark(root, FORMAT, VERSION, {"n_docs": n_docs, "k": k})


def _write_parquet(path: Path, parts: Iterator[Part], names: list[str]) -> None:
    schema = pa.schema(
        [
            ("document", pa.int64()),
            ("labels", pa.list_(pa.int32())),
            ("names", pa.list_(pa.string())),
            ("scores", pa.list_(pa.float32())),
        ]
    )
    all_names = pa.array(names, pa.string())
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for documents, labels, scores in parts:
            known = labels >= 0  # fewer than k where the model has fewer labels
            offsets = pa.array(np.concatenate([[0], np.cumsum(known.sum(axis=1))]), pa.int32())
            ids = pa.array(labels[known], pa.int32())
            columns = [
                pa.array(documents, pa.int64()),
                pa.ListArray.from_arrays(offsets, ids),
                pa.ListArray.from_arrays(offsets, all_names.take(ids)),
                pa.ListArray.from_arrays(offsets, pa.array(scores[known], pa.float32())),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
