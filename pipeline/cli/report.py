"""The command `threepass report`: a model as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..progress import begin
from .display import ProgressDisplay
from .options import Json, Quiet, tell
from .startup import loading


def report(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.html", help="Where to write the page.")],
    corpus: Annotated[
        str | None,
        typer.Option(metavar="TEST", help="Documents with labels, not those it learned from: adds accuracy."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.html.")] = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Write one HTML page about a model: topics, labels, guarantee, time, memory; accuracy and examples."""
    if out.suffix not in (".html", ".htm"):
        raise InputError(f"The report is an HTML page. Found {out}. Choose a name that ends in .html.")
    with loading(quiet):
        from ..corpus.store import Corpus
        from ..model.labeler import MomentLabeler
        from ..report.page import write_report
    with ProgressDisplay(quiet) as progress:
        begin(progress, "load")
        labeler = MomentLabeler.load(model)
        test = progress.corpus = None if corpus is None else Corpus.open(corpus)
        write_report(labeler, out, test, overwrite=overwrite, progress=progress)
    size = out.stat().st_size
    tell(f"{out}: {size / 1e6:.2f} MB", {"path": str(out), "bytes": size}, json_file)
