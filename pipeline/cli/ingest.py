"""The command `threepass ingest`: texts, sparse text or matrices, told apart by the names of files."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from ..progress import begin
from .display import ProgressDisplay
from .options import (
    DEFAULT_BLOCK,
    BlockSize,
    Dest,
    Encoding,
    Json,
    Overwrite,
    Quiet,
    Threads,
    block_bytes,
    names_of,
    of_tables,
    tell_new,
)
from .startup import loading

if TYPE_CHECKING:
    from ..corpus.store import Corpus
    from ..ingest.spool import IngestKeywords

# options, by the panel of the help that they stand in
of_words = partial(typer.Option, rich_help_panel="Words of texts")
of_sparse_text = partial(typer.Option, rich_help_panel="Sparse text and matrices")


def ingest(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC...",
            help="Texts as JSON lines, CSV, TSV or Parquet; or XMC text ('N D L' header, then "
            "'l1,l2 f1:v1 ...'); plain, gz, bz2, xz or zst; files or patterns. Or X.npz and Y.npz.",
        ),
    ],
    dest: Dest,
    text: Annotated[
        str | None,
        of_tables(metavar="NAMES", help="Columns with text, as in title,body; guessed if absent."),
    ] = None,
    labels: Annotated[
        str | None,
        of_tables(
            metavar="NAME", help="Column with labels, a list or a text; guessed if absent, '' for none."
        ),
    ] = None,
    label_separator: Annotated[
        str | None,
        of_tables(
            metavar="MARK",
            help="Between labels in one text; guessed if absent, '' for one label, [] for lists.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        of_tables(metavar="CORPUS", help="Take columns, tokenizer, terms and labels of this corpus."),
    ] = None,
    min_df: Annotated[
        int | None,
        of_words(min=1, help="Documents that must have a term; 2 from 1,000 documents on if absent."),
    ] = None,
    max_df: Annotated[float, of_words(help="Largest share of documents that may have a term.")] = 1.0,
    max_terms: Annotated[int | None, of_words(min=1, help="Keep the most frequent terms.")] = None,
    bigrams: Annotated[bool, of_words("--bigrams", help="Also count pairs of words.")] = False,
    lower: Annotated[bool, of_words("--lower/--keep-case", help="Take capitals as small.")] = True,
    accents: Annotated[
        bool,
        of_words("--accents/--strip-accents", help="--strip-accents: take é as e."),
    ] = True,
    min_length: Annotated[int, of_words(min=1, help="Characters of the shortest word.")] = 2,
    stop_words: Annotated[
        str | None,
        of_words(metavar="FILE", help="'english', or a file with one word to leave out a line."),
    ] = None,
    token_pattern: Annotated[
        str | None,
        of_words(metavar="REGEX", help="What a word is, in RE2 syntax, as in \\p{L}+."),
    ] = None,
    hash_bits: Annotated[
        int | None,
        of_words(min=1, help="Hash words to 2^BITS columns, without a vocabulary."),
    ] = None,
    encoding: Encoding = None,
    strict: Annotated[bool, of_tables("--strict", help="Refuse rows that cannot be read.")] = False,
    header: Annotated[
        bool,
        of_sparse_text("--header/--no-header", help="--no-header: svmlight, several labels."),
    ] = True,
    binary: Annotated[bool, typer.Option("--binary", help="Keep that a word occurs, not how often.")] = False,
    feature_names: Annotated[Path | None, of_sparse_text(help="File with one feature name a line.")] = None,
    label_names: Annotated[Path | None, of_sparse_text(help="File with one label name a line.")] = None,
    block_size: BlockSize = DEFAULT_BLOCK,
    threads: Threads = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Turn texts, sparse text or matrices into a corpus on disk."""
    started = time.monotonic()
    with loading(quiet):
        from ..ingest.columns import ColumnChoice
        from ..ingest.spool import IngestKeywords, IngestOptions
        from ..ingest.text import Tables, ingest_tables
        from ..ingest.vocabulary import Limits
        from ..ingest.xmc import ingest_xmc
        from ..text.info import Tokenizer
    is_text = text is not None or like is not None or _are_tables(sources)
    with ProgressDisplay(quiet) as progress:
        begin(progress, "read")
        options = IngestKeywords(
            binary=binary,
            block_bytes=block_bytes(block_size),
            overwrite=overwrite,
            n_threads=threads,
            progress=progress,
        )
        if is_text:
            settings: dict[str, Any] = {
                "lower": lower,
                "accents": accents,
                "min_length": min_length,
                "bigrams": bigrams,
                "stop_words": _stop_words(stop_words),
                "pattern": token_pattern,
                "hash_bits": hash_bits,
            }
            tokenizer = Tokenizer(**settings)
            choice = ColumnChoice(names_of(text), labels, label_separator, encoding)
            tables = Tables.look_at(sources, choice, like)
            if tables.guess is not None and not quiet:
                print(f"threepass: {tables.guess}", file=sys.stderr)
            chosen = None if like is not None and tokenizer == Tokenizer() else tokenizer
            limits = Limits(min_df, max_df, max_terms)
            corpus = ingest_tables(tables, dest, chosen, limits, strict, IngestOptions(**options))
        elif all(source.endswith(".npz") for source in sources):
            corpus = _ingest_npz(sources, dest, feature_names, label_names, options)
        else:
            corpus = ingest_xmc(
                sources, dest, header=header, feature_names=feature_names, label_names=label_names, **options
            )
    tell_new(corpus, dest, started, json_file)


def _are_tables(sources: list[str]) -> bool:
    from ..ingest.sources import find_files
    from ..ingest.tables import table_kind

    if all(source.endswith(".npz") for source in sources):
        return False
    return table_kind(find_files(sources)[0]) is not None


def _stop_words(given: str | None) -> tuple[str, ...]:
    if given is None:
        return ()
    if given == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return tuple(sorted(ENGLISH_STOP_WORDS))
    from ..ingest.sources import read_names

    return tuple(dict.fromkeys(word.strip() for word in read_names(given) if word.strip()))


def _ingest_npz(
    sources: list[str],
    dest: Path,
    feature_names: Path | None,
    label_names: Path | None,
    options: IngestKeywords,
) -> Corpus:
    from ..ingest.matrices import ingest_matrices
    from ..ingest.sources import read_names

    if len(sources) > 2:
        raise InputError(f"Matrices come as X.npz and Y.npz. Found {len(sources)} files. Give one or two.")
    return ingest_matrices(
        sources[0],
        sources[1] if len(sources) == 2 else None,
        dest,
        feature_names=read_names(feature_names) if feature_names else None,
        label_names=read_names(label_names) if label_names else None,
        **options,
    )
