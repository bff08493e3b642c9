"""Ingest of texts: tables of JSON lines, CSV or Parquet with columns of text and of labels.

A `Tokenizer` turns texts into words. It is stored with the corpus and with models fitted to it. A vocabulary,
hashing, or the vocabulary of another corpus turns words into columns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ..corpus.encode import encode, terms_in_source_order
from ..corpus.format import MAX_COLUMNS
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..display import how_many
from ..errors import InputError
from ..tasks import map_tasks
from ..text.info import Columns, TextInfo, Tokenizer
from ..text.terms import TermTable
from ..text.words import DocumentWords, WordFinder
from ..warn import warn
from .batches import Batch, ColumnSelection
from .columns import ColumnChoice, Sample, check_columns, choose_columns, guess_separator, id_column
from .compose import build_corpus
from .encodings import known_encoding
from .origins import PartOrigins, write_origins
from .sizes import SIZES, Sizes
from .sources import Paths, distinct_names, find_files
from .spool import (
    IngestKeywords,
    IngestOptions,
    Names,
    PieceWriter,
    Renumbering,
    Shape,
    Source,
    SourceSummary,
    Spool,
)
from .tables import TablePart, cut_table, table_kind, take_sample
from .tally import Tally, script_doubts
from .vocabulary import LabelNumbers, Limits, VocabularyBuilder


def ingest_text(
    sources: Paths,
    dest: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    labels: str | None = None,
    label_separator: str | None = None,
    tokenizer: Tokenizer | None = None,
    limits: Limits | None = None,
    like: Corpus | str | Path | None = None,
    encoding: str | None = None,
    strict: bool = False,
    **options: Unpack[IngestKeywords],
) -> Corpus:
    """Turn tables of texts and labels into a corpus on disk, in parallel and in bounded memory.

    Parameters
    ----------
    sources
        A file, a glob pattern, or several: JSON lines or CSV, plain or compressed, or Parquet.
    dest
        Path of the new corpus, which appears only once it is complete.
    text
        Column that holds the text, or several; dots lead into nested ones. None: guessed by name.
    labels
        Column that holds the labels: lists, strings with a separator, or numbers; dots lead into objects, as
        in `tags.name`. None: guessed by name. Empty: documents have no labels.
    label_separator
        Separator between labels in one string; `[]` if strings are lists, of JSON or of Python. None:
        guessed. Empty: each string is one label.
    tokenizer
        Definition of a word; see `Tokenizer`.
    limits
        Limits on the terms to keep; see `Limits`. Ignored with hashing or `like`.
    like
        An existing corpus of texts. The new one takes its columns, tokenizer, terms and labels, so that a
        model fitted to it can be evaluated on the new one. Labels that it does not have are left out.
    encoding
        Python's name of the encoding of JSON lines and CSV. None: UTF-8. For files that are not UTF-8, the
        encoding is guessed, with a warning, or that of `like`.
    strict
        Refuse rows that cannot be read, and texts that are not UTF-8. Otherwise such rows are left out, bytes
        that are not UTF-8 are read as blanks, and a warning says how many there were.
    **options
        `binary`, `block_bytes`, `overwrite`, `n_threads`, `progress`: see `IngestOptions`.

    Raises
    ------
    InputError
        A column is missing, or no document or no term is left. Nothing is left at `dest`.
    StoreError
        `dest` exists or cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rows = ['{"text": "Rain in Spain", "tags": ["sky"]}', '{"text": "Rain!", "tags": ["sky", "news"]}']
    >>> _ = (folder / "posts.jsonl").write_text("\\n".join(rows))
    >>> corpus = ingest_text(folder / "posts.jsonl", folder / "posts.zarr")
    >>> corpus.terms, corpus.labels
    (['rain', 'in', 'spain'], ['news', 'sky'])
    """
    choice = ColumnChoice([text] if isinstance(text, str) else text, labels, label_separator, encoding)
    settings = IngestOptions(**options)
    tables = Tables.look_at(sources, choice, like, settings.sizes)
    return ingest_tables(tables, dest, tokenizer, limits or Limits(), strict, settings)


@dataclass(frozen=True, slots=True)
class Tables:
    """Files with texts, and the columns to read from them."""

    files: Files
    columns: Columns
    guess: str | None
    """Guesses about the columns, in words."""
    like: Corpus | None

    @classmethod
    def look_at(
        cls,
        sources: Paths,
        choice: ColumnChoice,
        like: Corpus | str | Path | None = None,
        sizes: Sizes = SIZES,
    ) -> Tables:
        """Find the files and choose the columns. `ingest_text` describes the parameters."""
        if like is not None and not isinstance(like, Corpus):
            like = Corpus.open(like)
        known = None if like is None or like.info.text is None else like.info.text.columns.encoding
        files = look_at_files(sources, choice.encoding, known, sizes=sizes)
        guess = None
        if like is not None:
            columns = _columns_like(like, choice, files[0][2])
        else:
            columns, guess = choose_columns(files[0][2], choice)
            if columns.labels is None and choice.labels is None:
                warn(
                    f"{files[0][0]}: the corpus will have no labels, because no column looks like labels. "
                    f"Columns found: {', '.join(files[0][2].names[:30])}. Name it with --labels, or pass "
                    "--labels '' for no labels.",
                )
        for _, _, sample in files:
            check_columns(sample, columns, labels=True)
        encodings = [sample.encoding for _, _, sample in files if sample.encoding is not None]
        return cls(files, replace(columns, encoding=next(iter(encodings), None)), guess, like)


Files = list[tuple[Path, str, Sample]]
"""Path, kind and first rows of each file."""


def look_at_files(
    sources: Paths,
    encoding: str | None,
    known: str | None,
    other: str | None = None,
    sizes: Sizes = SIZES,
) -> Files:
    """Find tables of texts and read their first rows. Warns if an encoding is guessed.

    Parameters
    ----------
    encoding
        The user's choice; None for a guess.
    known
        Encoding that was used before for files that are not UTF-8.
    other
        Kind to assume for files of no recognisable kind; None to refuse them.
    """
    given = known_encoding(encoding)
    files: Files = []
    for path in find_files(sources):
        kind = table_kind(path) or other
        if kind is None:
            raise InputError(
                f"{path} is not a known kind of table. Found neither JSON lines, CSV nor Parquet. "
                "Name it .jsonl, .csv, .tsv or .parquet if it is one of these."
            )
        files.append((path, kind, take_sample(path, kind, given, known, sizes.row_bytes)))
    guessed = [sample for _, _, sample in files if sample.is_guess]
    if guessed:
        are = "is" if len(guessed) == 1 else "and more are"
        warn(
            f"{guessed[0].path} {are} not UTF-8, and read as {guessed[0].encoding}. "
            "Name another encoding with --encoding if letters are wrong."
        )
    return files


def ingest_tables(
    tables: Tables,
    dest: str | Path,
    tokenizer: Tokenizer | None,
    limits: Limits,
    strict: bool,
    options: IngestOptions,
) -> Corpus:
    """Second half of `ingest_text`: ingest the chosen columns."""
    if tables.like is not None:
        if tokenizer is not None:
            raise InputError(
                "Both like and a tokenizer were given. The tokenizer comes from like. Leave one out."
            )
        assert tables.like.info.text is not None
        tokenizer = tables.like.info.text.tokenizer
    tokenizer = tokenizer or Tokenizer()
    if tables.like is None and tokenizer.pattern is None:
        sample = tables.files[0][2]
        for doubt in script_doubts(text for name in tables.columns.text for text in sample.texts(name)):
            warn(doubt)
    ingest = _TextIngest(tables, tokenizer, limits, strict)
    kinds = sorted({kind for _, kind, _ in tables.files})
    n_terms = 2**tokenizer.hash_bits if tokenizer.hash_bits is not None else None
    files = distinct_names([path for path, _, _ in tables.files])
    source = Source(
        read=ingest.read,
        description={"kind": "text", "format": kinds, "files": files},
        shape=Shape(n_terms if tables.like is None else tables.like.n_terms),
        summarize=ingest.summarize,
        write_extras=lambda root: write_origins(root, ingest.origins),
        text=TextInfo(tokenizer, tables.columns),
    )
    corpus = build_corpus(dest, source, options)
    ingest.tally.warn(corpus, ingest.labels.unknown, tables.like is not None)
    return corpus


class _TextIngest:
    """Both stages of an ingest of texts, and their shared state."""

    def __init__(self, tables: Tables, tokenizer: Tokenizer, limits: Limits, strict: bool) -> None:
        self.tables = tables
        self.tokenizer = tokenizer
        self.finder = WordFinder(tokenizer)
        self.limits = limits
        self.tally = Tally(strict)
        self.labels = LabelNumbers(None if tables.like is None else tables.like.labels)
        self._term_counts = np.zeros(0, np.int64)
        self._lock = threading.Lock()
        self._known: TermTable | None = None
        if tables.like is not None and tokenizer.hash_bits is None:
            self._known = TermTable.of_names(terms_in_source_order(tables.like))

    def read(self, spool: Spool) -> list[PieceWriter]:
        """Stage 1: read all parts of all files."""
        parts = [
            (number, part, sample)
            for number, (path, kind, sample) in enumerate(self.tables.files)
            for part in cut_table(path, kind, sample.encoding, spool.options.sizes)
        ]
        total = sum(part.n_bytes for _, part, _ in parts)
        self._label_ids = spool.directory / "labels.npy" if self.tables.like is None else None
        self._builder = VocabularyBuilder(spool.directory, self.limits, spool.options.sizes.run_terms)
        self.origins = [
            PartOrigins(file, spool.directory / f"ids-{i:06d}") for i, (file, _, _) in enumerate(parts)
        ]

        def read_part(job: tuple[int, tuple[int, TablePart, Sample]]) -> PieceWriter:
            number, (_, part, sample) = job
            writer = spool.writer(number)
            wanted = ColumnSelection(self.tables.columns, id=id_column(sample, self.tables.columns))
            batches = part.batches(
                wanted, sample, self.tally.bad_row, lambda n: spool.advance("read", n, total)
            )
            with self._encoder() as encoder:
                for batch in batches:
                    self.origins[number].add(batch)
                    self._add(writer, batch, encoder, part.path)
            return writer

        return map_tasks(
            read_part, list(enumerate(parts)), name="ingest-read", n_threads=spool.options.n_threads
        )

    @contextmanager
    def _encoder(self) -> Iterator[Callable[[DocumentWords], tuple[SparseRows, Path | None]]]:
        """Make one task's function from words to rows and the path of their columns' source ids."""
        if self.tokenizer.hash_bits is not None:
            yield self._hashed
        elif self._known is not None:
            table = self._known.reader()
            yield lambda found: (encode(found, table, self.tokenizer, table.n_terms), None)
        else:

            def counted(found: DocumentWords) -> tuple[SparseRows, Path | None]:
                with self._builder.borrow() as (table, ids):
                    triple = table.count(found, self.tokenizer.bigrams, learn=True)
                    return SparseRows(*triple, MAX_COLUMNS), ids

            yield counted

    def _hashed(self, found: DocumentWords) -> tuple[SparseRows, Path | None]:
        assert self.tokenizer.hash_bits is not None
        return encode(found, TermTable(), self.tokenizer, 2**self.tokenizer.hash_bits), None

    def _add(
        self,
        writer: PieceWriter,
        batch: Batch,
        encoder: Callable[[DocumentWords], tuple[SparseRows, Path | None]],
        path: Path,
    ) -> None:
        found = self.finder.find(batch.texts)
        self.tally.add(found, path)
        X, term_ids = encoder(found)
        Y = self.labels.rows(batch.labels)
        if term_ids is None:
            with self._lock:
                counts = np.bincount(X.indices, minlength=len(self._term_counts))
                counts[: len(self._term_counts)] += self._term_counts
                self._term_counts = counts
        writer.add(X, Y, Renumbering(term_ids, self._label_ids))

    def summarize(self) -> SourceSummary:
        """Finish the vocabulary and the labels, between the stages."""
        tally = self.tally
        if tally.documents == 0:
            first = f" The first: {sorted(tally.examples)[0]}." if tally.examples else ""
            raise InputError(
                f"No document is left. Found {how_many(tally.bad, 'row')} that cannot be used.{first} "
                "Check the file."
            )
        if tally.empty == tally.documents:
            raise InputError(
                f"No document has any text. Found {how_many(tally.documents, 'row')} with nothing in "
                f"{', '.join(self.tables.columns.text)}. Name another column with --text."
            )
        told: dict[str, Any] = {key: value for key, value in tally.as_dict().items() if value}
        label_names, label_counts = self.labels.finish(self._label_ids)
        like = self.tables.like
        if self.tokenizer.hash_bits is not None or like is not None:
            n_terms = like.n_terms if like is not None else 2 ** (self.tokenizer.hash_bits or 0)
            terms = None if self._known is None or like is None else terms_in_source_order(like)
            counts = np.pad(self._term_counts, (0, n_terms - len(self._term_counts)))
            return SourceSummary(Names(terms, label_names), counts, label_counts, told)
        vocabulary = self._builder.finish(tally.documents)
        told["terms_left_out"] = vocabulary.n_seen - len(vocabulary.names)
        return SourceSummary(Names(vocabulary.names, label_names), vocabulary.counts, label_counts, told)


def _columns_like(like: Corpus, choice: ColumnChoice, sample: Sample) -> Columns:
    if like.info.text is None:
        raise InputError(
            f"The corpus given as like was not made of texts. Found {like!r}. Name one that was ingested "
            "from JSON lines, CSV or Parquet."
        )
    columns = like.info.text.columns
    separator = choice.separator
    if choice.text is not None:
        columns = replace(columns, text=tuple(choice.text))
    if choice.labels is not None:
        columns = replace(columns, labels=choice.labels or None)
    columns = replace(columns, encoding=None)
    if separator is None and columns.separator is None and columns.labels is not None:
        separator = guess_separator(sample, columns.labels)  # what were lists there may be strings here
    return columns if separator is None else replace(columns, separator=separator)
