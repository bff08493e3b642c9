"""The command `threepass check`: whether everything in a store is as it was written."""

from __future__ import annotations

from typing import Annotated

import typer

from .display import ProgressDisplay
from .options import Json, Quiet, tell
from .startup import loading


def check(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A corpus or a model.")],
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Read all of a corpus or a model, and tell whether everything in it is as it was written."""
    with loading(quiet):
        from ..model.verify import check as check_store
    with ProgressDisplay(quiet) as progress:
        report = check_store(path, progress=progress)
    tell(str(report), report.as_dict(), json_file)
    if not report.is_whole:
        raise typer.Exit(1)
