"""The command `threepass info`: a corpus or a model in numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from ..progress import begin
from .display import ProgressDisplay
from .options import Json, tell
from .startup import loading


def info(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A corpus or a model.")],
    json_file: Json = None,
) -> None:
    """Describe a corpus (counts, sizes, histograms, a sample) or a model (what it learned, and how well)."""
    with loading():
        from ..model.files import FORMAT as MODEL_FORMAT
        from ..storage.marks import kind_of
    with ProgressDisplay() as progress:
        begin(progress, "load")
        if kind_of(path) == MODEL_FORMAT:
            from ..model.summary import describe_model, render_model

            description = describe_model(path)
            text = render_model(description)
        else:
            from ..corpus.describe import describe, render
            from ..corpus.store import Corpus

            description = describe(Corpus.open(path))
            text = render(description)
    tell(text, description, json_file)
