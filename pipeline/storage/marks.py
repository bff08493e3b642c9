"""The completion mark: an attribute of a store's root, written last, that identifies a finished store.

It holds the name and version of the format, the content that the format defines, the threepass version and
the time that it was `written`, and a `checksum`: the CRC-32C of the rest of the mark, as JSON with sorted
keys. The oldest marks have neither `written` nor `checksum`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import google_crc32c
import zarr
import zarr.abc.store
import zarr.storage

from ..errors import StoreError
from .destination import partial_path
from .guard import DamageError, GuardedStore

ATTRIBUTE = "threepass"
Location = str | Path | zarr.abc.store.Store


def write_mark(root: zarr.Group, kind: str, version: int, content: dict[str, Any]) -> None:
    """Write the mark, as the last step of writing a store."""
    # as JSON will return it: tuples as lists, keys as text
    mark = json.loads(json.dumps({"format": kind, "version": version, "written": _written(), **content}))
    root.attrs[ATTRIBUTE] = {**mark, "checksum": _checksum(mark)}


def open_marked(
    location: Location, kind: str, version: int, noun: str, command: str
) -> tuple[zarr.Group, dict[str, Any]]:
    """Open a zarr group that has a mark of the given kind, and return the mark.

    Parameters
    ----------
    noun, command
        Name of such a store, and a command that makes one; for error messages.
    """
    with _refusing(location, noun, command):
        root = _open(location, noun, command)
        mark = root.attrs.asdict().get(ATTRIBUTE)
        unfinished = mark is None and "X" in root
    if unfinished:
        raise StoreError(
            f"{location} is an unfinished corpus: its completion mark is missing. "
            "Remove it, and run the ingest again."
        )
    if not isinstance(mark, dict) or mark.get("format") != kind:
        raise StoreError(
            f"{location} is a zarr group but not a {noun}: its attribute '{ATTRIBUTE}' does not say "
            f"'{kind}'. Make one with: {command}"
        )
    if mark.get("version") != version:
        raise StoreError(_other_version(location, mark.get("version"), version, noun, command))
    if "checksum" in mark and mark.pop("checksum") != _checksum(mark):
        raise StoreError(
            f"{location} is a damaged {noun}: the checksum of its root's attributes does not match. "
            f"Make it again with: {command}"
        )
    return root, mark


def _other_version(location: Location, found: Any, version: int, noun: str, command: str) -> str:
    """Message about a store of another version."""
    told = f"{location} has {noun} format version {str(found)[:20]}; this threepass reads version {version}."
    if not (isinstance(found, int) and found < version):
        return f"{told} Upgrade threepass, or make it again with: {command}"
    again = "fitted" if noun == "model" else "ingested"
    return f"{told} An older {noun} has to be {again} again: {command}"


def kind_of(location: Location) -> str | None:
    """Format that the mark of a store names; None without a mark."""
    noun, command = "corpus or model", "threepass ingest SRC DEST"
    with _refusing(location, noun, command):
        root = _open(location, noun, command)
        mark = root.attrs.asdict().get(ATTRIBUTE)
    kind = mark.get("format") if isinstance(mark, dict) else None
    return kind if isinstance(kind, str) else None


def has_mark(path: Path, kind: str) -> bool:
    """Whether there is a finished store of this kind at `path`; it may be replaced."""
    try:
        return kind_of(path) == kind
    except Exception:  # then it is not ours
        return False


def _open(location: Location, noun: str, command: str) -> zarr.Group:
    store = GuardedStore(_store(location, noun, command))
    return zarr.open_group(store, mode="r", zarr_format=3, use_consolidated=False)


@contextmanager
def _refusing(location: Location, noun: str, command: str) -> Iterator[None]:
    """Turn errors of opening a store into a `StoreError` of one line."""
    try:
        yield
    except DamageError as damage:
        raise StoreError(
            f"{location} is not a whole {noun}: {damage.what} is damaged: {damage.how}. "
            f"Make one with: {command}"
        ) from damage
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{location} is not a {noun}: it holds no zarr v3 group. Make one with: {command}"
        ) from error
    except OSError as error:
        raise StoreError(
            f"{location} cannot be read: {error.strerror or error}. Check the path and its permissions."
        ) from error


def _store(location: Location, noun: str, command: str) -> zarr.abc.store.Store:
    if isinstance(location, zarr.abc.store.Store):
        return location
    if "://" in str(location):
        return zarr.storage.FsspecStore.from_url(str(location), read_only=True)
    path = Path(location)
    if not path.exists():
        raise StoreError(f"There is no {noun} at {path}. {_hint(path, noun, command)}")
    if not path.is_dir():
        raise StoreError(f"{path} is not a {noun}: it is a file. Make one with: {command}")
    return zarr.storage.LocalStore(
        path.absolute(), read_only=True
    )  # workers may have another current directory


def _written() -> dict[str, str]:
    """Version of threepass and the current time; SOURCE_DATE_EPOCH, if set, makes stores reproducible."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    try:
        version = metadata.version("threepass")
    except metadata.PackageNotFoundError:  # run from its sources
        version = "unknown"
    return {"threepass": version, "date": datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")}


def written_by(mark: Any) -> str | None:
    """Version of threepass that wrote a store, and the time, as text; None if its mark lacks them."""
    said = mark.get("written") if isinstance(mark, dict) else None
    if not isinstance(said, dict):
        return None
    return f"threepass {str(said.get('threepass'))[:30]}, {str(said.get('date'))[:30]}"


def _checksum(mark: dict[str, Any]) -> int:
    return int(google_crc32c.value(json.dumps(mark, sort_keys=True).encode()))


def _hint(location: Path, noun: str, command: str) -> str:
    partial = partial_path(location)
    if partial.exists():
        return (
            f"Writing it was cut short, or is still going on ({partial} exists). "
            "Run the same command again: it cleans up and starts over."
        )
    return f"Check the path, or make a {noun} with: {command}"
