"""The commands `threepass data list` and `threepass data fetch`: public data sets, by name."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..storage.destination import last_finished
from .display import ProgressDisplay
from .interrupt import leaves
from .options import Commands, Json, Overwrite, Quiet, Threads, tell
from .startup import loading

if TYPE_CHECKING:
    from ..ingest.fetch import Fetched
    from ..ingest.manifest import Manifest

data = typer.Typer(
    cls=Commands,
    help="Public data sets: where they are, and how to get them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="DIR",
        help="Take the files from this folder or its sub-folder NAME; THREEPASS_DATA if absent.",
    ),
]


@data.command("list", epilog="Example: threepass data list --from ~/data")
def list_command(source: From = None, json_file: Json = None) -> None:
    """List the data sets whose manifests come with threepass."""
    with loading():
        from ..ingest.fetch import data_folder
        from ..ingest.manifest import list_datasets
    folder = data_folder(source)
    manifests = list_datasets()
    rows = [_row(manifest, folder) for manifest in manifests]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        name, *numbers, where, licence = row
        right = [f"{number:>{width}}" for number, width in zip(numbers, widths[1:], strict=False)]
        lines.append("  ".join([f"{name:<{widths[0]}}", *right, f"{where:<{widths[-2]}}", licence]))
    found = [{**manifest.as_dict(), "where": _where(manifest, folder)} for manifest in manifests]
    tell("\n".join(lines), {"datasets": found}, json_file)


@data.command(epilog="Example: threepass data fetch bibtex --from ~/data")
def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name of 'data list', or a manifest.toml of your own.")
    ],
    source: From = None,
    dest: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to write NAME-train.zarr and NAME-test.zarr.")
    ] = Path(),
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where downloads are kept; the user's cache if absent.")
    ] = None,
    threads: Threads = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Get a data set, ingest its two splits, and compare their counts with the manifest's.

    Counts that differ are listed, and the exit code is 1; the corpora are written all the same.
    """
    started = time.monotonic()
    with loading(quiet):
        from ..ingest.fetch import fetch_dataset
    leaves(_what_is_left)
    with ProgressDisplay(quiet) as progress:
        fetched = fetch_dataset(
            name,
            dest,
            source=source,
            cache=cache,
            overwrite=overwrite,
            n_threads=threads,
            progress=progress,
        )
    numbers = {**fetched.as_dict(), "seconds": time.monotonic() - started}
    tell(_told(fetched, numbers["seconds"]), numbers, json_file)
    if fetched.differences:
        print(
            f"threepass: {fetched.manifest.name} was ingested, but is not what its manifest describes.",
            *(f"  {difference}" for difference in fetched.differences),
            sep="\n",
            file=sys.stderr,
        )
        raise typer.Exit(1)


def _what_is_left() -> str:
    whole = last_finished()
    return "What was downloaded is kept." + ("" if whole is None else f" {whole} is whole.")


def _row(manifest: Manifest, folder: Path | None) -> tuple[str, ...]:
    counts = manifest.counts
    documents = f"{counts.train_documents:,} + {counts.test_documents:,} documents"
    sizes = f"{counts.features:,} features", f"{counts.labels:,} labels"
    return manifest.name, documents, *sizes, _where(manifest, folder), manifest.licence


def _where(manifest: Manifest, folder: Path | None) -> str:
    from ..ingest.fetch import find_locally

    if folder is not None and find_locally(manifest, folder):
        return "local"
    return "download" if manifest.is_downloadable else "manual"


def _told(fetched: Fetched, seconds: float) -> str:
    from ..corpus.describe import in_brief

    lines = []
    for split, path in fetched.paths.items():
        corpus = fetched.train if split == "train" else fetched.test
        size = {"documents": corpus.n_docs, "terms": corpus.n_terms, "labels": corpus.n_labels}
        lines.append(f"{path}: {in_brief(size)}")
    for file in fetched.files.values():
        if file.sha256 is not None and not file.pinned:
            lines.append(f"{file.path}: sha256 {file.sha256}, which the manifest does not state")
    A, B = fetched.manifest.propensity
    lines.append(f"propensity A = {A:g}, B = {B:g}; licence: {fetched.manifest.licence}")
    if not fetched.differences:
        n_stated = len(fetched.manifest.counts.as_dict())
        lines.append(f"all {n_stated} counts are as the manifest states, in {seconds:.1f} s")
    return "\n".join(lines)
