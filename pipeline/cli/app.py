"""The command `threepass`, put together of its commands.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 the input is wrong (one line says
what, where and what to do), 2 the command line is wrong, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any

import typer

from ..errors import ThreepassError
from .check import check
from .data import data
from .demo import demo
from .evaluate import evaluate
from .fit import fit
from .info import info
from .ingest import ingest
from .interrupt import interruptible
from .options import Commands
from .predict import predict
from .report import report
from .synth import synth


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
        from .. import __version__

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


app.command(epilog="Example: threepass synth amazoncat az.zarr --scale 0.1")(synth)
app.add_typer(data, name="data")
app.command(epilog="Example: threepass fit train.zarr model.zarr -k 100")(fit)
app.command(
    epilog="Examples: 'threepass predict model.zarr new.jsonl best.jsonl --top 5', "
    "'echo some text | threepass predict model.zarr -', "
    "'threepass predict model.zarr test.zarr best.parquet'."
)(predict)
app.command(epilog="Example: threepass evaluate model.zarr test.zarr")(evaluate)
app.command(epilog="Examples: 'threepass info train.zarr', 'threepass info model.zarr'.")(info)
app.command(epilog="Example: threepass check train.zarr")(check)
app.command(epilog="Example: threepass report model.zarr report.html --corpus test.zarr")(report)
app.command(epilog="Example: threepass demo --out somewhere")(demo)


def main() -> None:
    """Run the command line. Typer sees to usage errors (exit code 2); what users can mend exits with 1."""
    warnings.showwarning = lambda message, *_, **__: print(f"threepass: warning: {message}", file=sys.stderr)
    try:
        app()
    except ThreepassError as error:
        print("threepass:", " ".join(str(error).split()), file=sys.stderr)
        sys.exit(1)
