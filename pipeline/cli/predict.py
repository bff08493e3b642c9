"""The command `threepass predict`: labels for a corpus, for tables of texts, or for a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..display import how_many
from ..progress import begin
from .display import ProgressDisplay
from .options import Encoding, Overwrite, Quiet, names_of
from .startup import loading


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
            help="NAME.jsonl, NAME.csv or NAME.tsv, or - for stdout; for a corpus also NAME.parquet or "
            "NAME.zarr. 'document' is the number of a row in its file, from 0: of the line of JSON lines, "
            "blank ones counted; of the record of CSV, without the header.",
        ),
    ] = Path("-"),
    top: Annotated[int, typer.Option(min=1, help="Labels for each document.")] = 5,
    text: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Columns with text; as in training if absent.")
    ] = None,
    encoding: Encoding = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse rows that cannot be read; they are given an error if absent."),
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Predict the best labels of every document."""
    with loading(quiet):
        from ..corpus.store import Corpus
        from ..model.predictions import corpus_records, predict_to_file, prediction_lines, write_records
        from ..model.predictor import Predictor
        from ..model.text_predictions import TextReading, stream_predictions, text_predictions
    with ProgressDisplay(quiet) as progress:
        begin(progress, "load")
        predictor = Predictor.load(model)
    # results and bars would overwrite each other where both go to the terminal
    hidden = out == Path("-") and sys.stdout.isatty()
    with ProgressDisplay(quiet or hidden) as progress:
        if Path(source).is_dir() or "://" in source:
            corpus = Corpus.open(source)
            if out == Path("-"):
                sys.stdout.writelines(prediction_lines(corpus_records(predictor, corpus, top, progress)))
                return
            predict_to_file(predictor, corpus, out, k=top, overwrite=overwrite, progress=progress)
            n_docs = corpus.n_docs
        else:
            how = TextReading(names_of(text), encoding, strict)
            if source == "-":
                found = stream_predictions(predictor, sys.stdin.buffer, how, top)
            else:
                found = text_predictions(predictor, source, how, top, progress)
            if out == Path("-"):
                sys.stdout.writelines(prediction_lines(found.records))
                return
            n_docs = write_records(found, out, predictor.label_names, overwrite=overwrite)
    print(f"{out}: the {how_many(top, 'best label')} of {how_many(n_docs, 'document')}")
