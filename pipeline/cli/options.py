"""What several commands have in common: options, and how results are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from ..errors import InputError

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


class Commands(typer.core.TyperGroup):
    """A group of commands whose help shows no type beside flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flag_types(super().get_params(ctx))

    def get_command(self, ctx: Any, name: str) -> Any:
        command = super().get_command(ctx, name)
        if command is not None:
            _without_flag_types(command.get_params(ctx))
        return command


def _without_flag_types(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
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
