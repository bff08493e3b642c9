"""Ingest of texts: tables of JSON lines, CSV or Parquet with columns of text and of labels.

Texts become words by a `Tokenizer`, which is stored with the corpus and with models fitted to it. Words
become columns by a vocabulary, by hashing, or by the vocabulary of another corpus.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ..corpus.format import MAX_COLUMNS
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..display import how_many
from ..errors import InputError
from ..tasks import map_tasks
from ..text.info import Columns, TextInfo, Tokenizer
from ..text.terms import TermTable
from ..text.words import Found, WordFinder
from ..warn import warn
from .batches import Batch, Wanted
from .columns import Sample, check_columns, choose_columns, guess_separator, id_column
from .encodings import known_encoding
from .origins import PartOrigins, write_origins
from .sources import Paths, distinct_names, find_files
from .spool import (
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
from .tables import TablePart, cut_table, table_kind, take_sample
from .tally import Tally, script_doubts
from .vocabulary import LabelNumbers, Limits, VocabularyBuilder, hashed_columns, sorted_rows


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
        Where the corpus shall be; it appears there only once it is whole.
    text
        The column that holds the text, or several; dots lead into nested ones. None: guessed by name.
    labels
        The column that holds the labels: lists, texts with a separator, or numbers; dots lead into objects,
        as in `tags.name`. None: guessed by name; the empty text: documents have no labels.
    label_separator
        What stands between labels in one text; `[]` where texts are lists, of JSON or of Python. None:
        guessed; the empty text: each is one label.
    tokenizer
        What a word is; see `Tokenizer`.
    limits
        Which terms are kept; see `Limits`. Of no use with hashing or `like`.
    like
        A corpus made of texts before: columns, tokenizer, terms and labels are those, so that a model fitted
        to it can be evaluated on this one. Labels that it does not have are left out.
    encoding
        Of JSON lines and CSV, as Python names it. None: UTF-8; a file that is not is read as it looks, with a
        warning, or as the files of `like` were.
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
    tables = Tables.look_at(sources, wanted, labels, label_separator, like, encoding)
    return ingest_tables(tables, dest, tokenizer, limits or Limits(), strict, IngestOptions(**options))


@dataclass(frozen=True, slots=True)
class Tables:
    """Files with texts, and what will be read of them."""

    files: Files
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
        encoding: str | None = None,
    ) -> Tables:
        """Find the files and choose the columns; for the parameters see `ingest_text`."""
        if like is not None and not isinstance(like, Corpus):
            like = Corpus.open(like)
        known = None if like is None or like.info.text is None else like.info.text.columns.encoding
        files = look_at_files(sources, encoding, known)
        guess = None
        if like is not None:
            columns = _columns_like(like, text, labels, separator, files[0][2])
        else:
            columns, guess = choose_columns(files[0][2], text, labels, separator)
            if columns.labels is None and labels is None:
                warn(
                    f"{files[0][0]}: the corpus will have no labels, for no column is known to hold them. "
                    f"Columns found: {', '.join(files[0][2].names[:30])}. Name it with --labels, or pass "
                    "--labels '' to do without."
                )
        for _, _, sample in files:
            check_columns(sample, columns, labels=True)
        encodings = [sample.encoding for _, _, sample in files if sample.encoding is not None]
        return cls(files, replace(columns, encoding=next(iter(encodings), None)), guess, like)


Files = list[tuple[Path, str, Sample]]
"""Path, kind, first rows."""


def look_at_files(sources: Paths, encoding: str | None, known: str | None, other: str | None = None) -> Files:
    """Find tables of texts and look at how they begin; what they seem to be encoded in is warned of.

    Parameters
    ----------
    encoding
        As given; None where a guess is wanted.
    known
        What files that are not UTF-8 were read with before.
    other
        The kind of files that do not look like one; None where they are refused.
    """
    given = known_encoding(encoding)
    files: Files = []
    for path in find_files(sources):
        kind = table_kind(path) or other
        if kind is None:
            raise InputError(
                f"{path} is no table of texts that is known. Found neither JSON lines, CSV nor Parquet. "
                "Name it .jsonl, .csv, .tsv or .parquet if it is one of these."
            )
        files.append((path, kind, take_sample(path, kind, given, known)))
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
    """Stage two of `ingest_text`, once it is known what to read."""
    if tables.like is not None:
        if tokenizer is not None:
            raise InputError(
                "Both like and a tokenizer were given. The tokenizer is that of like. Leave one out."
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
        learned=ingest.learned,
        write_extras=lambda root: write_origins(root, ingest.origins),
        text=TextInfo(tokenizer, tables.columns),
    )
    corpus = build_corpus(dest, source, options)
    ingest.tally.warn(corpus, ingest.labels.unknown, tables.like is not None)
    return corpus


def encode(found: Found, table: TermTable, tokenizer: Tokenizer, n_terms: int) -> SparseRows:
    """Documents as rows of the terms of a table; with hashing, of those that the terms hash to."""
    hashed = tokenizer.hash_bits is not None
    indptr, indices, values = table.count(found, tokenizer.bigrams, learn=hashed)
    if tokenizer.hash_bits is not None:
        names = [name.decode() for name in table.names(np.arange(table.n_terms))]
        indices = hashed_columns(names, tokenizer.hash_bits)[indices] if names else indices
    return sorted_rows((indptr, indices, values), n_terms)


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
        parts = [
            (number, part, sample)
            for number, (path, kind, sample) in enumerate(self.tables.files)
            for part in cut_table(path, kind, sample.encoding)
        ]
        total = sum(part.n_bytes for _, part, _ in parts)
        self._label_ids = spool.directory / "labels.npy" if self.tables.like is None else None
        self._builder = VocabularyBuilder(spool.directory, self.limits)
        self.origins = [
            PartOrigins(file, spool.directory / f"ids-{i:06d}") for i, (file, _, _) in enumerate(parts)
        ]

        def read_part(job: tuple[int, tuple[int, TablePart, Sample]]) -> PieceWriter:
            number, (_, part, sample) = job
            writer = spool.writer(number)
            wanted = Wanted(self.tables.columns, id=id_column(sample, self.tables.columns))
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
    columns = replace(columns, encoding=None)
    if separator is None and columns.separator is None and columns.labels is not None:
        separator = guess_separator(sample, columns.labels)  # lists there may be texts here
    return columns if separator is None else replace(columns, separator=separator)
