"""The command `threepass predict`: labels for a corpus, for tables of texts, or for a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli_ingest import names_of
from pipeline.cli_options import Overwrite, Quiet
from pipeline.corpus.store import Corpus
from pipeline.destination import new_file
from pipeline.display import how_many
from pipeline.errors import InputError
from pipeline.model.labeler import MomentLabeler
from pipeline.predict import Progress, corpus_parts, predict_to_file, prediction_lines
from pipeline.predict_text import predict_stream, predict_texts
from pipeline.progress import ProgressDisplay
from pipeline.stages import begin


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC", help="Documents to label: a corpus, JSON lines, CSV, Parquet, or - for a pipe."
        ),
    ],
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="NAME.jsonl, or - for stdout; for a corpus also NAME.parquet, or any other name for zarr.",
        ),
    ] = Path("-"),
    top: Annotated[int, typer.Option(min=1, help="Labels for each document.")] = 5,
    text: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Columns with text; as in training if absent.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse rows that cannot be read.")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Predict the best labels of every document."""
    with ProgressDisplay(quiet) as progress:
        begin(progress, "load")
        labeler = MomentLabeler.load(model)
    # results and bars would overwrite each other where both go to the terminal
    hidden = out == Path("-") and sys.stdout.isatty()
    with ProgressDisplay(quiet or hidden) as progress:
        if Path(source).is_dir() or "://" in source:
            corpus = Corpus.open(source)
            if out != Path("-"):
                predict_to_file(labeler, corpus, out, k=top, overwrite=overwrite, progress=progress)
                n_docs = corpus.n_docs
            else:
                parts = corpus_parts(labeler, corpus, top, progress)
                n_docs = _write(prediction_lines(parts, labeler.label_names_), out, overwrite)
        else:
            n_docs = _write(_text_lines(labeler, source, top, text, strict, progress), out, overwrite)
    if out != Path("-"):
        print(f"{out}: the {how_many(top, 'best label')} of {how_many(n_docs, 'document')}")


def _write(lines: Iterator[str], out: Path, overwrite: bool) -> int:
    """Write lines to a file, or to stdout; return how many they were."""
    if out == Path("-"):
        sys.stdout.writelines(lines)
        return 0
    if out.suffix not in (".jsonl", ".ndjson"):
        raise InputError(
            f"Labels of texts are written as JSON lines. Found the name {out}. Name it .jsonl, or ingest "
            "the texts with --like first, and predict for that corpus."
        )
    n_lines = 0
    with new_file(out, overwrite=overwrite) as partial, partial.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line)
            n_lines += 1
    return n_lines


def _text_lines(
    labeler: MomentLabeler, source: str, top: int, text: str | None, strict: bool, progress: Progress
) -> Iterator[str]:
    if source == "-":
        return predict_stream(labeler, sys.stdin.buffer, k=top, text=names_of(text), strict=strict)
    return predict_texts(labeler, source, k=top, text=names_of(text), strict=strict, progress=progress)
