"""The command `threepass evaluate`: how well a model labels documents whose labels are known."""

from __future__ import annotations

from typing import Annotated

import typer

from ..progress import begin
from .display import ProgressDisplay
from .options import Json, Quiet, tell
from .startup import loading


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model.")],
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="Documents with their true labels.")],
    exact: Annotated[
        bool,
        typer.Option("--exact", help="AUC and calibration of every document; else of a sample, if many."),
    ] = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Measure how well a model labels a corpus: AUC, P@k, nDCG@k, recall@k, PSP@k, PSnDCG@k, calibration."""
    with loading(quiet):
        from ..corpus.store import Corpus
        from ..model.predictor import Predictor
    with ProgressDisplay(quiet) as progress:
        begin(progress, "load")
        predictor = Predictor.load(model)
        documents = progress.corpus = Corpus.open(corpus)
        scores = predictor.evaluate(documents, auc="all" if exact else True, progress=progress)
    tell(str(scores), scores, json_file)
