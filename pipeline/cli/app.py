"""The command `threepass`: one thin command for each stage.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 the input is wrong (one line says
what, where and what to do), 2 the command line is wrong, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from typing import Annotated, Any

import typer

from .. import __version__
from ..corpus.describe import describe, render
from ..corpus.store import Corpus
from ..errors import ThreepassError
from ..ingest.synthetic import SHAPES, ingest_shape
from ..model.files import FORMAT as MODEL_FORMAT
from ..model.labeler import MomentLabeler
from ..model.summary import describe_model, render_model
from ..model.verify import check as check_store
from ..progress import begin
from ..storage.marks import kind_of
from . import startup
from .data import data
from .demo import demo
from .display import ProgressDisplay
from .fit import fit
from .ingest import DEFAULT_BLOCK, BlockSize, Dest, block_bytes, ingest, tell_new
from .interrupt import interruptible
from .options import Commands, Json, Overwrite, Quiet, Threads, tell
from .predict import predict
from .report import report


class _Threepass(Commands):
    def invoke(self, ctx: Any) -> Any:
        try:
            with interruptible():
                result = super().invoke(ctx)
                sys.stdout.flush()
        except BrokenPipeError:  # whoever reads has enough, as in `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more
            raise typer.Exit(0) from None
        return result


app = typer.Typer(
    cls=_Threepass,
    help="Put the right labels on documents: learn from corpora that do not fit in memory, in three reads.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    # messages name parameters as Python has them
    context_settings={"token_normalize_func": lambda name: name.replace("_", "-")},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"threepass {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


app.command(
    epilog="Examples: 'threepass ingest posts.jsonl posts.zarr --text title,body --labels tags', "
    "'threepass ingest test.csv test.zarr --like posts.zarr', "
    "'threepass ingest train.txt.gz train.zarr --label-names labels.txt', "
    "'threepass ingest part-?.txt all.zarr --binary', 'threepass ingest X.npz Y.npz train.zarr'."
)(ingest)


@app.command(epilog="Example: threepass synth amazoncat az.zarr --scale 0.1")
def synth(
    shape: Annotated[str, typer.Argument(metavar="SHAPE", help=f"One of: {', '.join(SHAPES)}.")],
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


app.add_typer(data, name="data")
app.command(epilog="Example: threepass fit train.zarr model.zarr -k 100")(fit)


app.command(
    epilog="Examples: 'threepass predict model.zarr new.jsonl best.jsonl --top 5', "
    "'echo some text | threepass predict model.zarr -', "
    "'threepass predict model.zarr test.zarr best.parquet'."
)(predict)


@app.command(epilog="Example: threepass evaluate model.zarr test.zarr")
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
    with ProgressDisplay(quiet) as progress:
        begin(progress, "load")
        labeler = MomentLabeler.load(model)
        documents = progress.corpus = Corpus.open(corpus)
        scores = labeler.evaluate(documents, auc="all" if exact else True, progress=progress)
    tell(str(scores), scores, json_file)


@app.command(epilog="Examples: 'threepass info train.zarr', 'threepass info model.zarr'.")
def info(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A corpus or a model.")],
    json_file: Json = None,
) -> None:
    """Describe a corpus (counts, sizes, histograms, a sample) or a model (what it learned, and how well)."""
    with ProgressDisplay() as progress:
        begin(progress, "load")
        if kind_of(path) == MODEL_FORMAT:
            description = describe_model(path)
            text = render_model(description)
        else:
            description = describe(Corpus.open(path))
            text = render(description)
    tell(text, description, json_file)


@app.command(epilog="Example: threepass check train.zarr")
def check(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A corpus or a model.")],
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Read all of a corpus or a model, and tell whether everything in it is as it was written."""
    with ProgressDisplay(quiet) as progress:
        report = check_store(path, progress=progress)
    tell(str(report), report.as_dict(), json_file)
    if not report.is_whole:
        raise typer.Exit(1)


app.command(epilog="Example: threepass report model.zarr report.html --corpus test.zarr")(report)
app.command(epilog="Example: threepass demo --out somewhere")(demo)


def main() -> None:
    """Run the command line. Typer sees to usage errors (exit code 2); what users can mend exits with 1."""
    startup.loaded()
    warnings.showwarning = lambda message, *_, **__: print(f"threepass: warning: {message}", file=sys.stderr)
    try:
        app()
    except ThreepassError as error:
        print("threepass:", " ".join(str(error).split()), file=sys.stderr)
        sys.exit(1)
