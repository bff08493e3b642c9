"""What tests of damaged stores share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks.mutators import sign

Change = Callable[[dict[str, Any]], Any]


def edit(path: Path, change: Change) -> None:
    """Change a JSON file."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edit_mark(store: Path, change: Change) -> None:
    """Change what the root says, and make its checksum match."""
    tree = json.loads((store / "zarr.json").read_text())
    change(tree["attributes"]["threepass"])
    sign(store, tree)


def without_checksums(store: Path, *keys: str) -> None:
    """Take these keys and the checksum out of the mark, as stores of the format's first days had none."""

    def change(tree: dict[str, Any]) -> None:
        for key in ("checksum", *keys):
            tree["attributes"]["threepass"].pop(key)

    edit(store / "zarr.json", change)


def set_to(*path: Any, to: Any) -> Change:
    """A change of the value at the end of a path of keys."""

    def change(mark: dict[str, Any]) -> None:
        for key in path[:-1]:
            mark = mark[key]
        mark[path[-1]] = to

    return change


def at(place: Any, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """A change of one number of an array."""

    def change(array: np.ndarray) -> np.ndarray:
        array[place] = value
        return array

    return change


def stored(store: Path, name: str) -> np.ndarray:
    return np.asarray(zarr.open_group(store, mode="r")[name][...])  # type: ignore[index]
