"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from ..errors import InputError

if TYPE_CHECKING:
    from ..corpus.store import Corpus

Json = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Also write the numbers as JSON; - for stdout, in place of the text."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and warnings only.")]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace what stands at the destination, once the new one is whole."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Tasks at a time; all processors if absent.")
]
Dest = Annotated[Path, typer.Argument(metavar="DEST", help="Where to write the corpus, as in train.zarr.")]
DEFAULT_BLOCK = "20MB"
BlockSize = Annotated[
    str, typer.Option("--block-size", metavar="SIZE", help="Size of a block once read, as in 20MB.")
]
of_tables = partial(typer.Option, rich_help_panel="Tables of texts")
"""An option in this panel of the help."""
Encoding = Annotated[
    str | None,
    of_tables(metavar="NAME", help="Of JSON lines and CSV, as in cp1252; UTF-8, or as they look, if absent."),
]


class Commands(typer.core.TyperGroup):
    """A group of commands whose flags are True or False, and have no type beside them in the help."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, name: str) -> Any:
        command = super().get_command(ctx, name)
        if command is not None:
            _plain_flags(command.get_params(ctx))
        return command


def _plain_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = param.metavar or ""
            if param.default is None:  # those of completion; typer loads pydantic for all that is not a bool
                param.default = False
    return params


def tell(text: str, numbers: dict[str, Any], json_file: Path | None) -> None:
    """Print the text, and the numbers where they are wanted."""
    if json_file == Path("-"):
        print(json.dumps(numbers, indent=2))
        return
    print(text)
    if json_file is not None:
        try:
            json_file.write_text(json.dumps(numbers, indent=2) + "\n")
        except OSError as error:
            raise InputError(
                f"{json_file} could not be written: {error.strerror}. Check the path."
            ) from error


def tell_new(corpus: Corpus, dest: Path, started: float, json_file: Path | None) -> None:
    """Print the size of a new corpus, and the time since `started`."""
    from ..corpus.describe import describe, in_brief

    seconds = time.monotonic() - started
    description = {**describe(corpus), "path": str(dest), "seconds": seconds}
    size = f"{description['bytes_on_disk'] / 1e6:,.1f} MB on disk"
    tell(f"{dest}: {in_brief(description)}, {size}, in {seconds:.1f} s", description, json_file)


def block_bytes(size: str) -> int:
    """Bytes of a size such as 20MB."""
    from dask.utils import parse_bytes

    try:
        return int(parse_bytes(size))
    except ValueError as error:
        raise InputError(f"--block-size is not a size. Found '{size}'. Write it as in 20MB.") from error


def names_of(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
