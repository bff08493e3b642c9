"""The command `threepass`: one thin command for each stage.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 the input is wrong (one line says
what, where and what to do), 2 the command line is wrong.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from dask.utils import parse_bytes

from pipeline.cli_data import data
from pipeline.cli_demo import demo
from pipeline.cli_fit import fit
from pipeline.cli_options import Json, Overwrite, Quiet, Threads, tell
from pipeline.cli_report import report
from pipeline.corpus.describe import describe, render
from pipeline.corpus.store import Corpus
from pipeline.errors import InputError, ThreepassError
from pipeline.ingest.matrices import ingest_matrices
from pipeline.ingest.sources import read_names
from pipeline.ingest.spool import BLOCK_BYTES, IngestKeywords
from pipeline.ingest.synthetic import SHAPES, ingest_shape
from pipeline.ingest.xmc import ingest_xmc
from pipeline.model.labeler import MomentLabeler
from pipeline.predict import predict_to_file
from pipeline.progress import ProgressDisplay
from pipeline.verify import check as check_store


class _Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise ThreepassError("Interrupted. Nothing was left behind.") from None


app = typer.Typer(
    cls=_Commands,
    help="Put the right labels on documents: learn from corpora that do not fit in memory, in three reads.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

BlockSize = Annotated[
    str, typer.Option("--block-size", metavar="SIZE", help="Size of a block once read, as in 32MB.")
]
Dest = Annotated[Path, typer.Argument(metavar="DEST", help="Where the corpus shall be, as in train.zarr.")]


@app.command(
    epilog="Examples: 'threepass ingest train.txt.gz train.zarr --label-names labels.txt', "
    "'threepass ingest part-?.txt all.zarr --binary', 'threepass ingest X.npz Y.npz train.zarr'."
)
def ingest(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC...",
            help="XMC text ('N D L' header, then 'l1,l2 f1:v1 ...'), plain, gz, bz2, xz or zst; "
            "files or patterns. Or X.npz and Y.npz.",
        ),
    ],
    dest: Dest,
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="--no-header: svmlight, several labels.")
    ] = True,
    binary: Annotated[bool, typer.Option("--binary", help="Keep that a word occurs, not how often.")] = False,
    feature_names: Annotated[Path | None, typer.Option(help="File with one feature name a line.")] = None,
    label_names: Annotated[Path | None, typer.Option(help="File with one label name a line.")] = None,
    block_size: BlockSize = f"{BLOCK_BYTES // 1_000_000}MB",
    threads: Threads = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Turn sparse text or matrices into a corpus on disk."""
    started = time.monotonic()
    with ProgressDisplay(quiet) as progress:
        options = IngestKeywords(
            binary=binary,
            block_bytes=_bytes(block_size),
            overwrite=overwrite,
            n_threads=threads,
            progress=progress,
        )
        if all(source.endswith(".npz") for source in sources):
            if len(sources) > 2:
                raise InputError(
                    f"Matrices come as X.npz and Y.npz. Found {len(sources)} files. Give one or two."
                )
            corpus = ingest_matrices(
                sources[0],
                sources[1] if len(sources) == 2 else None,
                dest,
                feature_names=read_names(feature_names) if feature_names else None,
                label_names=read_names(label_names) if label_names else None,
                **options,
            )
        else:
            corpus = ingest_xmc(
                sources, dest, header=header, feature_names=feature_names, label_names=label_names, **options
            )
    _tell_new(corpus, dest, started, json_file)


@app.command(epilog="Example: threepass synth amazoncat az.zarr --scale 0.1")
def synth(
    shape: Annotated[str, typer.Argument(metavar="SHAPE", help=f"One of: {', '.join(SHAPES)}.")],
    dest: Dest,
    scale: Annotated[float, typer.Option(help="Share of the documents to draw.")] = 1.0,
    block_size: BlockSize = f"{BLOCK_BYTES // 1_000_000}MB",
    threads: Threads = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Draw a corpus with the shape of one of the paper's data sets from a planted model."""
    started = time.monotonic()
    with ProgressDisplay(quiet) as progress:
        corpus = ingest_shape(
            shape,
            dest,
            scale=scale,
            block_bytes=_bytes(block_size),
            overwrite=overwrite,
            n_threads=threads,
            progress=progress,
        )
    _tell_new(corpus, dest, started, json_file)


app.add_typer(data, name="data")
app.command(epilog="Example: threepass fit train.zarr model.zarr -k 100")(fit)


@app.command(epilog="Example: threepass predict model.zarr test.zarr best.parquet --top 5")
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model.")],
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="Documents to label.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="NAME.parquet, or any other name for zarr.")],
    top: Annotated[int, typer.Option(min=1, help="Labels for each document.")] = 5,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write the best labels of every document of a corpus."""
    labeler, source = MomentLabeler.load(model), Corpus.open(corpus)
    with ProgressDisplay(quiet) as progress:
        predict_to_file(labeler, source, out, k=top, overwrite=overwrite, progress=progress)
    print(f"{out}: the {top} best labels of {source.n_docs:,} documents")


@app.command(epilog="Example: threepass evaluate model.zarr test.zarr")
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model.")],
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="Documents with their true labels.")],
    json_file: Json = None,
) -> None:
    """Measure how well a model labels a corpus: AUC, P@k, nDCG@k, recall@k, PSP@k, PSnDCG@k, calibration."""
    scores = MomentLabeler.load(model).evaluate(Corpus.open(corpus))
    tell(str(scores), scores, json_file)


@app.command(epilog="Example: threepass info train.zarr")
def info(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A corpus.")],
    json_file: Json = None,
) -> None:
    """Describe a corpus: counts, sparsity, size, histograms, a sample document."""
    description = describe(Corpus.open(path))
    tell(render(description), description, json_file)


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


def _bytes(size: str) -> int:
    try:
        return int(parse_bytes(size))
    except ValueError as error:
        raise InputError(f"--block-size is not a size. Found '{size}'. Write it as in 32MB.") from error


def _tell_new(corpus: Corpus, dest: Path, started: float, json_file: Path | None) -> None:
    seconds = time.monotonic() - started
    description = {**describe(corpus), "path": str(dest), "seconds": seconds}
    text = (
        f"{dest}: {corpus.n_docs:,} documents x {corpus.n_terms:,} terms, {corpus.n_labels:,} labels, "
        f"{description['bytes_on_disk'] / 1e6:,.1f} MB on disk, in {seconds:.1f} s"
    )
    tell(text, description, json_file)


def main() -> None:
    """Run the command line. Typer sees to usage errors (exit code 2); what users can mend exits with 1."""
    warnings.showwarning = lambda message, *_, **__: print(f"threepass: warning: {message}", file=sys.stderr)
    try:
        app()
    except ThreepassError as error:
        print("threepass:", " ".join(str(error).split()), file=sys.stderr)
        sys.exit(1)
