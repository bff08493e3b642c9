"""Ingest of sparse text: the XMC repository's format, and svmlight with several labels.

XMC text begins with a header `N D L` (documents, features, labels). svmlight files have no header: the
largest ids decide D and L, `#` starts a comment, and blank lines are skipped. `parser_kernels` describes
a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from ..corpus.format import MAX_COLUMNS
from ..corpus.kernels import merge_repeats
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError
from ..tasks import map_tasks
from .compose import build_corpus
from .parser_kernels import BAD_FEATURE, BAD_LABEL, OK, Parsed, parse, round_value
from .sources import LineReader, Part, Paths, cut_file, decompressed, find_files, read_names, reading
from .spool import (
    IngestKeywords,
    IngestOptions,
    Names,
    PieceWriter,
    Shape,
    Source,
    Spool,
)

_BOM = b"\xef\xbb\xbf"


def ingest_xmc(
    sources: Paths,
    dest: str | Path,
    *,
    header: bool = True,
    feature_names: str | Path | Sequence[str] | None = None,
    label_names: str | Path | Sequence[str] | None = None,
    **options: Unpack[IngestKeywords],
) -> Corpus:
    """Turn sparse text files into a corpus on disk, in parallel and in bounded memory.

    Parameters
    ----------
    sources
        A file, a glob pattern, or several; plain or compressed with gzip, bzip2, xz or zstd. The documents of
        several files follow each other; their headers must agree in D and L.
    dest
        Path of the new corpus, which appears only once it is complete.
    header
        Whether each file begins with `N D L`. False reads svmlight with several labels.
    feature_names, label_names
        A file with one name per line, or the names themselves, in the order of the ids.
    **options
        `binary`, `block_bytes`, `overwrite`, `n_threads`, `progress`: see `IngestOptions`.

    Returns
    -------
    Corpus
        The finished corpus, open.

    Raises
    ------
    InputError
        The text does not follow the format; the message names file and line. Nothing is left at `dest`.
    StoreError
        `dest` exists or cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.txt").write_text("2 4 3\\n0,2 1:1 3:2\\n1 3:1\\n")
    >>> ingest_xmc(folder / "train.txt", folder / "train.zarr")
    <Corpus: 2 documents x 4 terms, 3 labels, 1 block>
    """
    files = [_SourceFile.look_at(path, header) for path in find_files(sources)]
    shape = _common_shape(files)
    source = Source(
        read=partial(_read_files, files, shape, header),
        description={"kind": "xmc" if header else "svmlight", "files": [file.path.name for file in files]},
        shape=shape,
        names=Names(_names(feature_names), _names(label_names)),
        float32=True,
    )
    return build_corpus(dest, source, IngestOptions(**options))


@dataclass(frozen=True, slots=True)
class _SourceFile:
    """A file and the numbers in its header."""

    path: Path
    n_docs: int | None
    shape: Shape
    data_start: int
    """Start of the first document's line, in decompressed bytes."""

    @classmethod
    def look_at(cls, path: Path, header: bool) -> _SourceFile:
        with reading(path), path.open("rb") as raw:
            start = decompressed(raw).read(4096)
        bom = len(_BOM) if start.startswith(_BOM) else 0
        if not start[bom:].strip():
            raise InputError(f"{path} is empty. Found no documents. Check that it was written completely.")
        if not header:
            return cls(path, None, Shape(), bom)
        if b"\0" in start:
            raise InputError(
                f"{path} is not a text file: it contains zero bytes. "
                "Give a text file, plain or compressed with gzip, bzip2, xz or zstd."
            )
        line, newline, _ = start[bom:].partition(b"\n")
        numbers = line.split()
        if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
            raise InputError(
                f"{path}, line 1: expected the header 'N D L' (documents, features, labels). "
                f"Found {_shown(line)}. For svmlight files without a header pass header=False (--no-header)."
            )
        n_docs, n_terms, n_labels = (int(number) if len(number) < 19 else 10**18 for number in numbers)
        if max(n_terms, n_labels) > MAX_COLUMNS:
            raise InputError(
                f"{path}, line 1: the header announces {n_terms:,} features and {n_labels:,} labels. "
                f"At most {MAX_COLUMNS:,} of each are supported. Hash or renumber them."
            )
        if n_docs == 0:
            raise InputError(f"{path}, line 1: the header announces no documents. Give a file that has some.")
        return cls(path, n_docs, Shape(n_terms, n_labels), bom + len(line) + len(newline))

    def check_documents(self, outcomes: list[_Outcome]) -> None:
        """Compare with the header. Blank lines at the end are documents only if the header counts them."""
        if self.n_docs is None:
            return
        last = outcomes[-1]
        found = sum(outcome.writer.totals.n_docs for outcome in outcomes)
        missing = self.n_docs - found
        if 0 < missing <= last.blank_tail:
            last.writer.add(_empty_rows(missing), _empty_rows(missing))
        elif missing > 0:
            raise InputError(
                f"{self.path}, line {found + 1}: the file ends too early. "
                f"The header announces {self.n_docs:,} documents, found {found:,}. "
                "Fix the header, or get the whole file."
            )
        elif missing < 0:
            raise InputError(
                f"{self.path}, line {self.n_docs + 2}: more documents than announced. The header announces "
                f"{self.n_docs:,}, found {found:,}. Fix the header, or remove the rest."
            )


def _read_files(files: list[_SourceFile], shape: Shape, header: bool, spool: Spool) -> list[PieceWriter]:
    """Stage 1: parse every part of every file, each in its own task."""
    part_bytes = spool.options.sizes.part_bytes
    parts = [(file, part) for file in files for part in cut_file(file.path, file.data_start, part_bytes)]
    total = sum(file.path.stat().st_size for file in files)
    jobs = [_ReadJob(spool, number, part, shape, header, total) for number, (_, part) in enumerate(parts)]
    outcomes = map_tasks(_read_part, jobs, name="ingest-read", n_threads=spool.options.n_threads)
    for file in files:
        file.check_documents(
            [outcome for (owner, _), outcome in zip(parts, outcomes, strict=True) if owner is file]
        )
    return [outcome.writer for outcome in outcomes]


@dataclass(frozen=True, slots=True)
class _ReadJob:
    spool: Spool
    number: int
    part: Part
    shape: Shape
    header: bool
    total_bytes: int


@dataclass(frozen=True, slots=True)
class _Outcome:
    writer: PieceWriter
    blank_tail: int


def _read_part(job: _ReadJob) -> _Outcome:
    """Stage 1 for one part of one file: parse, convert to canonical form, spool."""
    writer = job.spool.writer(job.number)
    reader = LineReader(job.part, job.spool.options.sizes)
    n_terms = MAX_COLUMNS if job.shape.n_terms is None else job.shape.n_terms
    n_labels = MAX_COLUMNS if job.shape.n_labels is None else job.shape.n_labels
    done = 0
    for slab in reader:
        parsed = parse(slab, n_terms, n_labels, not job.header)
        if parsed.status != OK:
            raise _bad_token(reader, slab, parsed.status, parsed.position, n_terms, n_labels)
        _finish_values(reader, slab, parsed)
        nnz = merge_repeats(parsed.x_indptr, parsed.x_indices, parsed.values)
        X = SparseRows(parsed.x_indptr, parsed.x_indices[:nnz], parsed.values[:nnz], n_terms)
        labels_nnz = merge_repeats(parsed.y_indptr, parsed.y_indices, np.ones(len(parsed.y_indices)))
        writer.add(X, SparseRows(parsed.y_indptr, parsed.y_indices[:labels_nnz], None, n_labels))
        job.spool.advance("read", reader.file_position - done, job.total_bytes)
        done = reader.file_position
    job.spool.advance("read", reader.file_position - done, job.total_bytes)
    return _Outcome(writer, reader.blank_tail)


def _finish_values(reader: LineReader, slab: bytes, parsed: Parsed) -> None:
    """Convert the rare numbers that the compiled parser cannot round correctly."""
    for entry in np.flatnonzero(parsed.values < 0).tolist():
        position = int(-1 - parsed.values[entry])
        value = round_value(float(_token(slab, position).split(b"#")[0]))
        if value == float("inf"):
            raise _bad_token(reader, slab, -1, position, 0, 0)
        parsed.values[entry] = value


def _bad_token(
    reader: LineReader, slab: bytes, status: int, position: int, n_terms: int, n_labels: int
) -> InputError:
    where = f"{reader.part.path}, line {reader.line_number(slab, position)}"
    token = _token(slab, position)
    shown = _shown(token)
    if status == BAD_LABEL:
        label = token.split(b",")[0]
        return InputError(f"{where}: {_bad_id('label', label, n_labels, 'L')}")
    if status == BAD_FEATURE:
        if b":" not in token:
            return InputError(
                f"{where}: a feature has no colon. Found {shown}. Write features as id:value and labels "
                "as numbers separated by commas, without blanks."
            )
        return InputError(f"{where}: {_bad_id('feature', token.partition(b':')[0], n_terms, 'D')}")
    try:
        number = float(token)
    except ValueError:
        return InputError(f"{where}: a value is not a number. Found {shown}. Write features as id:value.")
    if number < 0:
        return InputError(
            f"{where}: a value is negative. Found {shown}. Values are counts or weights, 0 or more."
        )
    if not number < float(np.finfo(np.float32).max):
        return InputError(
            f"{where}: a value is not finite in single precision. Found {shown}. Fix or remove it."
        )
    return InputError(
        f"{where}: a value is not a plain number. Found {shown}. Write digits, as in 12 or 0.5e-3."
    )


def _bad_id(what: str, token: bytes, limit: int, letter: str) -> str:
    shown = _shown(token)
    if token.startswith(b"-") and token[1:].isdigit():
        return f"a {what} id is negative. Found {shown}. Ids run from 0."
    if not token.isdigit():
        return f"a {what} id is not a whole number. Found {shown}. Ids are whole numbers from 0."
    if limit == MAX_COLUMNS:
        return (
            f"a {what} id is too large. Found {shown}. Ids up to {limit - 1:,} are supported; renumber them."
        )
    return (
        f"a {what} id is not below {letter} = {limit:,}. Found {shown}. "
        f"Fix the header, or number the {what}s from 0."
    )


def _token(slab: bytes, position: int) -> bytes:
    """Word that begins at a byte, up to the next blank or end of line."""
    word = re.match(rb"[^ \t\r\n]*", slab[position : position + 400])
    return word[0] if word else b""


def _shown(token: bytes) -> str:
    text = token[:60].decode("utf-8", "replace")
    return repr(text + ("…" if len(token) > 60 else ""))


def _empty_rows(n: int) -> SparseRows:
    return SparseRows(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), None, 0)


def _names(given: str | Path | Sequence[str] | None) -> Sequence[str] | None:
    return read_names(given) if isinstance(given, str | Path) else given


def _common_shape(files: list[_SourceFile]) -> Shape:
    first = files[0]
    for file in files[1:]:
        if file.shape != first.shape:
            raise InputError(
                f"{file.path} and {first.path} do not belong together. Their headers announce "
                f"{file.shape.n_terms} and {first.shape.n_terms} features, {file.shape.n_labels} and "
                f"{first.shape.n_labels} labels. Ingest them separately, or fix the headers."
            )
    return first.shape
