"""Labels for texts in files or from a pipe: read, scored and told a batch at a time, in order."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np
import pyarrow as pa

from pipeline.corpus.text_info import Columns
from pipeline.errors import InputError
from pipeline.ingest.columns import check_columns, id_column
from pipeline.ingest.json_rows import MAX_ROW_BYTES, JsonFields, read_rows
from pipeline.ingest.sources import Paths, find_files
from pipeline.ingest.tables import Batch, Wanted, cut_table, sample_lines, table_kind, take_sample
from pipeline.ingest.text import Tally
from pipeline.model.inputs import row_documents
from pipeline.model.labeler import MomentLabeler
from pipeline.predict import Part, Progress, prediction_lines

_DOCUMENTS = 2048
"""Documents that a task scores."""
_CHUNK = 2**20


def predict_texts(
    model: MomentLabeler,
    sources: Paths,
    *,
    k: int = 5,
    text: Sequence[str] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Iterator[str]:
    """Lines of JSON with the k best labels of each document of some tables of texts.

    Parameters
    ----------
    model
        Fitted to a corpus made of texts.
    sources
        JSON lines, CSV or Parquet; a file, a pattern, or several.
    text
        Columns that hold the text; None: those of the training texts.
    strict
        Refuse rows that cannot be read. Otherwise they are left out, and a warning tells how many there were.
    """
    columns = _columns(model, text)
    files = []
    for path in find_files(sources):
        kind = table_kind(path) or "jsonl"
        sample = take_sample(path, kind)
        check_columns(sample, columns, labels=False)
        files.append((path, kind, sample))
    tally = Tally(strict)
    parts = [(part, sample) for path, kind, sample in files for part in cut_table(path, kind)]
    total = sum(part.n_bytes for part, _ in parts)
    done = 0.0

    def advance(amount: float) -> None:
        nonlocal done
        done += amount
        if progress is not None:
            progress("predict", min(done, total), total)

    def batches() -> Iterator[Batch]:
        for part, sample in parts:
            wanted = Wanted(columns, labels=False, id=id_column(sample, columns))
            yield from part.batches(wanted, sample, tally.bad_row, advance)

    return _lines(model, batches(), k, tally, ", ".join(str(path) for path, _, _ in files)[:200])


def predict_stream(
    model: MomentLabeler,
    stream: IO[bytes],
    *,
    k: int = 5,
    text: Sequence[str] | None = None,
    strict: bool = False,
) -> Iterator[str]:
    """As `predict_texts`, for what comes out of a pipe: JSON lines, or a plain text on each line."""
    tally = Tally(strict)
    return _lines(model, _stream_batches(stream, _columns(model, text), tally), k, tally, "standard input")


def _stream_batches(stream: IO[bytes], columns: Columns, tally: Tally) -> Iterator[Batch]:
    wanted = fields = None
    lines_before = 0
    is_json: bool | None = None
    for slab in _slabs(stream):
        if is_json is None:
            if not slab.strip():
                continue
            is_json = slab.lstrip().startswith(b"{")
        if not is_json:
            lines = [line for line in slab.splitlines() if line.strip()]
            yield Wanted(Columns(("",)), labels=False).batch({"": pa.array(lines, pa.large_binary())})
            continue
        if wanted is None or fields is None:
            sample = sample_lines("standard input", slab)
            check_columns(sample, columns, labels=False)
            wanted = Wanted(columns, labels=False, id=id_column(sample, columns))
            fields = JsonFields.guess(columns, False, wanted.id, sample.rows)

        def complain(position: int, why: str, slab: bytes = slab, before: int = lines_before) -> None:
            number = before + slab.count(b"\n", 0, position) + 1
            tally.bad_row(lambda: f"standard input, line {number}", why)

        yield wanted.batch(read_rows(slab, fields, complain))
        lines_before += slab.count(b"\n")


def _slabs(stream: IO[bytes]) -> Iterator[bytes]:
    """Whole lines, as soon as they are there."""
    read: Any = getattr(stream, "read1", stream.read)
    pending = b""
    while chunk := read(_CHUNK):
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline:
            yield pending + whole + newline
            pending = rest
        else:
            pending += chunk
        if len(pending) > 8 * MAX_ROW_BYTES:
            raise InputError(
                f"Standard input has a line of more than {8 * MAX_ROW_BYTES:,} bytes. "
                "Give one document a line."
            )
    if pending:
        yield pending


def _lines(
    model: MomentLabeler, batches: Iterator[Batch], k: int, tally: Tally, source: str
) -> Iterator[str]:
    encoder, first = model.text_encoder(), 0
    for batch in batches:
        found = encoder.find(batch.texts)
        tally.add(found, source)
        n = batch.n_documents
        if n:
            parts = _numbered(model, row_documents(encoder.encode(found), n_rows=_DOCUMENTS), k, first)
            yield from prediction_lines(parts, model.label_names_, batch.ids, first)
        first += n
    for message in tally.messages():
        warnings.warn(message, stacklevel=2)
    if first == 0:
        raise InputError(f"There is no document to label in {source}. Give at least one.")


def _numbered(model: MomentLabeler, documents: Any, k: int, first: int) -> Iterator[Part]:
    for labels, scores in model.stream_topk(documents, k):
        yield np.arange(first, first + len(labels)), labels, scores
        first += len(labels)


def _columns(model: MomentLabeler, text: Sequence[str] | None) -> Columns:
    model.text_encoder()  # refuses a model that knows no texts
    assert model.text_ is not None
    columns = model.text_.columns
    return columns if text is None else replace(columns, text=tuple(text))
