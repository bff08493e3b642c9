"""Labels for texts in files or from a pipe: read, scored and told a batch at a time, in order."""

from __future__ import annotations

import heapq
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..errors import InputError
from ..ingest.batches import Batch, ColumnSelection, Places
from ..ingest.columns import check_columns, id_column
from ..ingest.encodings import as_utf8, guess_encoding, known_encoding
from ..ingest.json_rows import JsonFields, read_rows
from ..ingest.sizes import SIZES, Sizes
from ..ingest.sources import Paths, distinct_names
from ..ingest.tables import cut_table, sample_lines
from ..ingest.tally import Tally
from ..ingest.text import look_at_files
from ..progress import Progress
from ..text.info import Columns
from ..warn import warn
from .inputs import row_documents
from .predictions import Predictions, Record, labelled_parts, prediction_lines
from .predictor import Predictor, predictor_of
from .texts import check_takes_texts

if TYPE_CHECKING:
    from .labeler import MomentLabeler

_DOCUMENTS = 2048
"""Documents that a task scores."""
_CHUNK = 2**20
_STDIN = "standard input"
_ERROR_LINES = "given an error in place of labels"


@dataclass(frozen=True, slots=True)
class TextReading:
    """How texts to be labelled are read; `predict_texts` explains it."""

    text: Sequence[str] | None = None
    encoding: str | None = None
    strict: bool = False
    sizes: Sizes = SIZES

    def columns(self, model: Predictor) -> Columns:
        """Columns of the texts."""
        check_takes_texts(model.text)
        assert model.text is not None
        columns = model.text.columns
        return columns if self.text is None else replace(columns, text=tuple(self.text))


def predict_texts(
    model: Predictor | MomentLabeler,
    sources: Paths,
    *,
    k: int = 5,
    text: Sequence[str] | None = None,
    encoding: str | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    sizes: Sizes = SIZES,
) -> Iterator[str]:
    """Lines of JSON with the k best labels of each document of some tables of texts.

    `document` is the number of the row in its file, from 0: of the line in JSON lines, blank ones counted; of
    the record in CSV, the header not counted. Beside it stand `file`, when there are several, and `id`, where
    there is a column for it. A row that cannot be read has an `error` in place of labels; a document
    without a word that the model knows has no labels, and `known_words` is 0.

    Parameters
    ----------
    model
        Fitted to a corpus made of texts.
    sources
        JSON lines, CSV or Parquet; a file, a pattern, or several.
    text
        Columns that hold the text; None: those of the training texts.
    encoding
        Of JSON lines and CSV, as Python names it. None: UTF-8; a file that is not is read as the training
        texts were, or as it looks, with a warning.
    strict
        Refuse rows that cannot be read.
    sizes
        Sizes of what is read at a time.
    """
    how = TextReading(text, encoding, strict, sizes)
    found = text_predictions(predictor_of(model), sources, how, k, progress)
    return prediction_lines(found.records)


def text_predictions(
    model: Predictor,
    sources: Paths,
    how: TextReading = TextReading(),
    k: int = 5,
    progress: Progress | None = None,
) -> Predictions:
    """Records of `predict_texts`."""
    columns = how.columns(model)
    files = look_at_files(sources, how.encoding, columns.encoding, other="jsonl", sizes=how.sizes)
    for _, _, sample in files:
        check_columns(sample, columns, labels=False)
    tally = Tally(how.strict, _ERROR_LINES)
    names = distinct_names([path for path, _, _ in files])
    parts = [
        (name, part, sample)
        for name, (path, kind, sample) in zip(names, files, strict=True)
        for part in cut_table(path, kind, sample.encoding, how.sizes)
    ]
    total = sum(part.n_bytes for _, part, _ in parts)
    done = 0.0

    def advance(amount: float) -> None:
        nonlocal done
        done += amount
        if progress is not None:
            progress("predict", min(done, total), total)

    def batches() -> Iterator[tuple[str | None, Batch]]:
        for name, part, sample in parts:
            wanted = ColumnSelection(columns, labels=False, id=id_column(sample, columns))
            for batch in part.batches(wanted, sample, tally.bad_row, advance):
                yield name if len(files) > 1 else None, batch

    has_id = any(id_column(sample, columns) is not None for _, _, sample in files)
    fields = ["document", "file", "id", "labels", "scores", "error"]
    absent = {"file": len(files) == 1, "id": not has_id}
    return Predictions(
        _records(model, batches(), k, tally, ", ".join(str(path) for path, _, _ in files)[:200]),
        [name for name in fields if not absent.get(name)],
    )


def stream_predictions(
    model: Predictor, stream: IO[bytes], how: TextReading = TextReading(), k: int = 5
) -> Predictions:
    """Records for the texts of a pipe: JSON lines, or a plain text on each line."""
    tally = Tally(how.strict, _ERROR_LINES)
    columns = how.columns(model)
    given = known_encoding(how.encoding)
    slabs = _slabs(stream if given is None else as_utf8(stream, given))
    if given is None:
        slabs = _readable(slabs, columns.encoding)
    batches = ((None, batch) for batch in _stream_batches(slabs, columns, tally))
    return Predictions(
        _records(model, batches, k, tally, _STDIN), ["document", "id", "labels", "scores", "error"]
    )


def _stream_batches(slabs: Iterator[bytes], columns: Columns, tally: Tally) -> Iterator[Batch]:
    reader = None
    n_lines = n_blank = 0
    for slab in slabs:
        if reader is None and not slab.strip():
            n_blank += slab.count(b"\n")
            continue
        if reader is None:
            reader = _JsonReader(columns).batch if slab.lstrip().startswith(b"{") else _plain_texts
        batch = reader(slab)
        batch = replace(
            batch,
            rows=batch.rows + n_blank,
            n_rows=batch.n_rows + n_blank,
            refused=[replace(row, row=row.row + n_blank) for row in batch.refused],
        )
        n_blank = 0
        for row in batch.refused:
            tally.bad_row(partial("{}, line {}".format, _STDIN, n_lines + row.row + 1), row.why)
        yield batch
        n_lines += batch.n_rows


class _JsonReader:
    """Rows from a pipe of JSON lines; what they have is known from the first that can be read."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._fields: JsonFields | None = None
        self._wanted = ColumnSelection(columns, labels=False)

    def batch(self, slab: bytes) -> Batch:
        if self._fields is not None:
            return self._wanted.batch(*read_rows(slab, self._fields))
        try:
            sample = sample_lines(_STDIN, slab)
        except InputError:  # nothing here can be read: every line is refused
            return self._wanted.batch(*read_rows(slab, JsonFields.guess(self._columns, False, None, [])))
        check_columns(sample, self._columns, labels=False)
        self._wanted = ColumnSelection(self._columns, labels=False, id=id_column(sample, self._columns))
        self._fields = JsonFields.guess(self._columns, False, self._wanted.id, sample.rows)
        return self.batch(slab)


def _plain_texts(slab: bytes) -> Batch:
    lines = slab.removesuffix(b"\n").split(b"\n")
    rows = [i for i, line in enumerate(lines) if line.strip()]
    kept = [lines[i] for i in rows]
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in kept])]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(kept))]
    texts = pa.Array.from_buffers(pa.large_binary(), len(kept), buffers)  # pa.array would load pandas
    places = Places(np.array(rows, np.int64), len(lines))
    return ColumnSelection(Columns(("",)), labels=False).batch({"": texts}, places)


def _readable(slabs: Iterator[bytes], known: str | None) -> Iterator[bytes]:
    """Slabs as UTF-8: those that are not are read as the training texts were, or as they look."""
    encoding = None
    for slab in slabs:
        if encoding is None and not slab.isascii():
            encoding = guess_encoding(io.BytesIO(slab), _STDIN, known)
            if encoding not in (None, known):
                warn(
                    f"Standard input is not UTF-8, and read as {encoding}. "
                    "Name another encoding with --encoding if letters are wrong."
                )
        yield slab if encoding is None else as_utf8(io.BytesIO(slab), encoding).read()


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
        if len(pending) > 8 * SIZES.row_bytes:
            raise InputError(
                f"Standard input has a line of more than {8 * SIZES.row_bytes:,} bytes. "
                "Give one document a line."
            )
    if pending:
        yield pending


def _records(
    model: Predictor, batches: Iterator[tuple[str | None, Batch]], k: int, tally: Tally, source: str
) -> Iterator[Record]:
    encoder = model.encoder
    file, first, n_told = None, 0, 0
    for name, batch in batches:
        file, first = name, first if name == file else 0
        origin = {} if name is None else {"file": name}
        found = encoder.find(batch.texts)
        tally.add(found, source)
        labelled: Iterator[Record] = iter(())
        if batch.n_documents:
            origins = (
                _origin(first + row, origin, None if batch.ids is None else batch.ids[i])
                for i, row in enumerate(batch.rows.tolist())
            )
            labelled = _labelled(model, row_documents(encoder.encode(found), None, _DOCUMENTS), k, origins)
        refused = ({**_origin(first + row.row, origin, row.id), "error": row.why} for row in batch.refused)
        for record in heapq.merge(labelled, refused, key=itemgetter("document")):
            yield record
            n_told += 1
        first += batch.n_rows
    for message in tally.messages():
        warn(message)
    if n_told == 0:
        raise InputError(f"There is no document to label in {source}. Give at least one.")


def _labelled(model: Predictor, docs: Any, k: int, origins: Iterator[Record]) -> Iterator[Record]:
    for part in labelled_parts(model, docs, k):
        own = [next(origins) for _ in range(len(part.labels))]
        yield from part.records(own, model.label_names)


def _origin(row: int, file: Record, own_id: Any) -> Record:
    return {"document": row, **file} | ({} if own_id is None else {"id": own_id})
