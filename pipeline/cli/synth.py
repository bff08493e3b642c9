"""The command `threepass synth`: planted corpora with the shapes of the paper's data sets."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ..progress import begin
from .display import ProgressDisplay
from .options import (
    DEFAULT_BLOCK,
    BlockSize,
    Dest,
    Json,
    Overwrite,
    Quiet,
    Threads,
    block_bytes,
    tell_new,
)
from .startup import loading

SHAPES = "bibtex, delicious, nytimes, wiki31k, amazoncat, wikilshtc"


def synth(
    shape: Annotated[str, typer.Argument(metavar="SHAPE", help=f"One of: {SHAPES}.")],
    dest: Dest,
    scale: Annotated[float, typer.Option(help="Share of the documents to draw.")] = 1.0,
    block_size: BlockSize = DEFAULT_BLOCK,
    threads: Threads = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Draw a corpus with the shape of one of the paper's data sets from a planted model."""
    started = time.monotonic()
    with loading(quiet):
        from ..ingest.synthetic import ingest_shape
    with ProgressDisplay(quiet) as progress:
        begin(progress, "draw")
        corpus = ingest_shape(
            shape,
            dest,
            scale=scale,
            block_bytes=block_bytes(block_size),
            overwrite=overwrite,
            n_threads=threads,
            progress=progress,
        )
    tell_new(corpus, dest, started, json_file)
