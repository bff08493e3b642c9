"""Ingest of texts: tables of JSON lines, CSV or Parquet with columns of text and of labels.

Texts become words by a `Tokenizer`, which is stored with the corpus and with models fitted to it. Words
become columns by a vocabulary, by hashing, or by the vocabulary of another corpus.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from pipeline.corpus.format import MAX_COLUMNS
from pipeline.corpus.rows import SparseRows
from pipeline.corpus.store import Corpus
from pipeline.corpus.text_info import Columns, TextInfo, Tokenizer
from pipeline.errors import InputError
from pipeline.ingest.columns import Sample, check_columns, choose_columns, guess_separator
from pipeline.ingest.sources import Paths, find_files
from pipeline.ingest.spool import (
    IngestKeywords,
    IngestOptions,
    Learned,
    Names,
    PieceWriter,
    Renumbering,
    Shape,
    Source,
    Spool,
    build_corpus,
)
from pipeline.ingest.tables import Batch, TablePart, Wanted, cut_table, table_kind, take_sample
from pipeline.ingest.vocabulary import LabelNumbers, Limits, VocabularyBuilder, hashed_columns, sorted_rows
from pipeline.tasks import map_tasks
from pipeline.text.terms import TermTable
from pipeline.text.words import Found, WordFinder

_EXAMPLES = 3


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
    strict: bool = False,
    **options: Unpack[IngestKeywords],
) -> Corpus:
    """Turn tables of texts and labels into a corpus on disk, in parallel and in bounded memory.

    Parameters
    ----------
    sources
        A file, a glob pattern, or several: JSON lines or CSV, plain or compressed, or Parquet.
    dest
        Where the corpus shall be; it appears there only once it is whole.
    text
        The column that holds the text, or several; dots lead into nested ones. None: guessed by name.
    labels
        The column that holds the labels: lists, texts with a separator, or numbers. None: guessed by name;
        the empty text: documents have no labels.
    label_separator
        What stands between labels in one text. None: guessed; the empty text: each is one label.
    tokenizer
        What a word is; see `Tokenizer`.
    limits
        Which terms are kept; see `Limits`. Of no use with hashing or `like`.
    like
        A corpus made of texts before: columns, tokenizer, terms and labels are those, so that a model fitted
        to it can be evaluated on this one. Labels that it does not have are left out.
    strict
        Refuse rows that cannot be read, and texts that are not UTF-8. Otherwise such rows are left out, such
        bytes are taken as blanks, and a warning tells how many there were.
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
    wanted = [text] if isinstance(text, str) else text
    tables = Tables.look_at(sources, wanted, labels, label_separator, like)
    return ingest_tables(tables, dest, tokenizer, limits or Limits(), strict, IngestOptions(**options))


@dataclass(frozen=True, slots=True)
class Tables:
    """Files with texts, and what will be read of them."""

    files: list[tuple[Path, str, Sample]]
    """Path, kind, first rows."""
    columns: Columns
    guess: str | None
    """What was guessed, in words."""
    like: Corpus | None

    @classmethod
    def look_at(
        cls,
        sources: Paths,
        text: Sequence[str] | None = None,
        labels: str | None = None,
        separator: str | None = None,
        like: Corpus | str | Path | None = None,
    ) -> Tables:
        """Find the files and choose the columns; for the parameters see `ingest_text`."""
        files = []
        for path in find_files(sources):
            kind = table_kind(path)
            if kind is None:
                raise InputError(
                    f"{path} is no table of texts that is known. Found neither JSON lines, CSV nor Parquet. "
                    "Name it .jsonl, .csv, .tsv or .parquet if it is one of these."
                )
            files.append((path, kind, take_sample(path, kind)))
        guess = None
        if like is not None:
            like = like if isinstance(like, Corpus) else Corpus.open(like)
            columns = _columns_like(like, text, labels, separator, files[0][2])
        else:
            columns, guess = choose_columns(files[0][2], text, labels, separator)
        for _, _, sample in files:
            check_columns(sample, columns, labels=True)
        return cls(files, columns, guess, like)


def ingest_tables(
    tables: Tables,
    dest: str | Path,
    tokenizer: Tokenizer | None,
    limits: Limits,
    strict: bool,
    options: IngestOptions,
) -> Corpus:
    """Stage two of `ingest_text`, once it is known what to read."""
    if tables.like is not None:
        if tokenizer is not None:
            raise InputError(
                "Both like and a tokenizer were given. The tokenizer is that of like. Leave one out."
            )
        assert tables.like.info.text is not None
        tokenizer = tables.like.info.text.tokenizer
    tokenizer = tokenizer or Tokenizer()
    ingest = _TextIngest(tables, tokenizer, limits, strict)
    kinds = sorted({kind for _, kind, _ in tables.files})
    n_terms = 2**tokenizer.hash_bits if tokenizer.hash_bits is not None else None
    source = Source(
        read=ingest.read,
        description={"kind": "text", "format": kinds, "files": [path.name for path, _, _ in tables.files]},
        shape=Shape(n_terms if tables.like is None else tables.like.n_terms),
        learned=ingest.learned,
        text=TextInfo(tokenizer, tables.columns),
    )
    corpus = build_corpus(dest, source, options)
    ingest.tally.warn(corpus, ingest.labels.unknown)
    return corpus


def encode(found: Found, table: TermTable, tokenizer: Tokenizer, n_terms: int) -> SparseRows:
    """Documents as rows of the terms of a table; with hashing, of those that the terms hash to."""
    hashed = tokenizer.hash_bits is not None
    indptr, indices, values = table.count(found, tokenizer.bigrams, learn=hashed)
    if tokenizer.hash_bits is not None:
        names = [name.decode() for name in table.names(np.arange(table.n_terms))]
        indices = hashed_columns(names, tokenizer.hash_bits)[indices] if names else indices
    return sorted_rows((indptr, indices, values), n_terms)


@dataclass
class Tally:
    """What was not as it should be; safe to use from many threads."""

    strict: bool
    bad: int = 0
    broken: int = 0
    empty: int = 0
    documents: int = 0
    examples: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def bad_row(self, where: Callable[[], str], why: str) -> None:
        """Count a row that cannot be used."""
        if self.strict:
            raise InputError(f"{where()}: {why}. Mend the row, or leave --strict out to skip such rows.")
        with self._lock:
            self.bad += 1
            shown = len(self.examples) < _EXAMPLES
        if shown:
            example = f"{where()}: {why}"
            with self._lock:
                self.examples.append(example)

    def add(self, found: Found, path: Path | str) -> None:
        """Count documents."""
        n_broken = int(found.broken.sum())
        if n_broken and self.strict:
            raise InputError(
                f"{path}: {_number(n_broken, 'text is', 'texts are')} not UTF-8. Convert the file, as with "
                "iconv, or leave --strict out to take the broken bytes as blanks."
            )
        with self._lock:
            self.broken += n_broken
            self.empty += int(found.empty.sum())
            self.documents += found.n_documents

    def as_dict(self) -> dict[str, int]:
        return {"rows_left_out": self.bad, "not_utf8": self.broken, "without_text": self.empty}

    def messages(self) -> list[str]:
        """What users should know, a sentence or two each."""
        told = []
        if self.bad:
            examples = "; ".join(sorted(self.examples)[:_EXAMPLES])
            told.append(
                f"{_number(self.bad, 'row was', 'rows were')} left out: {examples}"
                f"{'; ...' if self.bad > len(self.examples) else ''}. Mend them, or pass --strict."
            )
        if self.broken:
            texts = _number(self.broken, "document is", "documents are")
            told.append(f"{texts} not UTF-8 throughout; broken bytes were taken as blanks. Convert the file.")
        if self.empty:
            told.append(f"{_number(self.empty, 'document has', 'documents have')} no text, and no words.")
        return told

    def warn(self, corpus: Corpus, unknown: dict[str, int]) -> None:
        """Tell what should be known of a new corpus."""
        told = self.messages()
        if unknown:
            most = sorted(unknown, key=lambda name: (-unknown[name], name))[:3]
            more = ", ..." if len(unknown) > 3 else ""
            told.append(
                f"{_number(len(unknown), 'label is', 'labels are')} not in the corpus to be like. Left out "
                f"{_number(sum(unknown.values()), 'time', 'times')}: {', '.join(most)}{more}."
            )
        counts = corpus.label_counts
        if corpus.n_labels == 1:
            told.append(
                f"There is one label only, {corpus.labels[0]!r}. Is it the right column or separator?"
            )
        elif corpus.n_labels and int(counts.min()) == corpus.n_docs:
            told.append("Every document has the same labels, so there is nothing to tell documents apart by.")
        for message in told:
            warnings.warn(message, stacklevel=4)


class _TextIngest:
    """The two stages of an ingest of texts, and what they share."""

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
        """Stage 1: all parts of all files."""
        files = [(part, sample) for path, kind, sample in self.tables.files for part in cut_table(path, kind)]
        total = sum(part.n_bytes for part, _ in files)
        self._label_ids = spool.directory / "labels.npy" if self.tables.like is None else None
        self._builder = VocabularyBuilder(spool.directory, self.limits)
        wanted = Wanted(self.tables.columns)

        def read_part(job: tuple[int, tuple[TablePart, Sample]]) -> PieceWriter:
            number, (part, sample) = job
            writer = spool.writer(number)
            batches = part.batches(
                wanted, sample, self.tally.bad_row, lambda n: spool.advance("read", n, total)
            )
            with self._encoder() as encoder:
                for batch in batches:
                    self._add(writer, batch, encoder, part.path)
            return writer

        return map_tasks(
            read_part, list(enumerate(files)), name="ingest-read", n_threads=spool.options.n_threads
        )

    @contextmanager
    def _encoder(self) -> Iterator[Callable[[Found], tuple[SparseRows, Path | None]]]:
        """What turns words into rows, for one task; and where the source ids of its columns will be."""
        if self.tokenizer.hash_bits is not None:
            yield self._hashed
        elif self._known is not None:
            table = self._known.reader()
            yield lambda found: (encode(found, table, self.tokenizer, table.n_terms), None)
        else:

            def counted(found: Found) -> tuple[SparseRows, Path | None]:
                with self._builder.borrow() as (table, ids):
                    triple = table.count(found, self.tokenizer.bigrams, learn=True)
                    return SparseRows(*triple, MAX_COLUMNS), ids

            yield counted

    def _hashed(self, found: Found) -> tuple[SparseRows, Path | None]:
        assert self.tokenizer.hash_bits is not None
        return encode(found, TermTable(), self.tokenizer, 2**self.tokenizer.hash_bits), None

    def _add(
        self,
        writer: PieceWriter,
        batch: Batch,
        encoder: Callable[[Found], tuple[SparseRows, Path | None]],
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

    def learned(self) -> Learned:
        """Between the stages: the vocabulary, the labels, and what there is to tell."""
        tally = self.tally
        if tally.documents == 0:
            first = f" The first: {sorted(tally.examples)[0]}." if tally.examples else ""
            raise InputError(
                f"No document is left. Found {tally.bad:,} rows that cannot be used.{first} Check the file."
            )
        if tally.empty == tally.documents:
            raise InputError(
                f"No document has any text. Found {tally.documents:,} rows with nothing in "
                f"{', '.join(self.tables.columns.text)}. Name another column with --text."
            )
        told: dict[str, Any] = {key: value for key, value in tally.as_dict().items() if value}
        label_names, label_counts = self.labels.finish(self._label_ids)
        like = self.tables.like
        if self.tokenizer.hash_bits is not None or like is not None:
            n_terms = like.n_terms if like is not None else 2 ** (self.tokenizer.hash_bits or 0)
            terms = None if self._known is None or like is None else terms_in_source_order(like)
            counts = np.pad(self._term_counts, (0, n_terms - len(self._term_counts)))
            return Learned(Names(terms, label_names), counts, label_counts, told)
        vocabulary = self._builder.finish(tally.documents)
        told["terms_left_out"] = vocabulary.n_seen - len(vocabulary.names)
        return Learned(Names(vocabulary.names, label_names), vocabulary.counts, label_counts, told)


def terms_in_source_order(corpus: Corpus) -> list[str]:
    """The names of terms by their source ids."""
    terms: list[str] = [""] * corpus.n_terms
    for i, name in zip(corpus.term_ids.tolist(), corpus.terms, strict=True):
        terms[i] = name
    return terms


def _columns_like(
    like: Corpus, text: Sequence[str] | None, labels: str | None, separator: str | None, sample: Sample
) -> Columns:
    if like.info.text is None:
        raise InputError(
            f"The corpus to be like was not made of texts. Found {like!r}. Name one that was ingested from "
            "JSON lines, CSV or Parquet."
        )
    columns = like.info.text.columns
    if text is not None:
        columns = replace(columns, text=tuple(text))
    if labels is not None:
        columns = replace(columns, labels=labels or None)
    if separator is None and columns.separator is None and columns.labels is not None:
        separator = guess_separator(sample, columns.labels)  # lists there may be texts here
    return columns if separator is None else replace(columns, separator=separator)


def _number(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"
