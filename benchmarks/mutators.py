"""Ways to damage a store; each takes a copy, damages it, and says in a line what it did."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr

from threepass.corpus import format as fmt
from threepass.corpus.rows import SparseRows
from threepass.storage.arrays import crc32c, write_array

Mutator = Callable[[Path, np.random.Generator], str]
KINDS: dict[str, Mutator] = {}


def mutate(source: Path, copy: Path, kind: str, rng: np.random.Generator) -> str:
    """Copy a store and damage the copy. Files are linked, so a mutator must replace those that it changes."""
    shutil.copytree(source, copy, copy_function=os.link)
    return KINDS[kind](copy, rng)


def _kind(name: str) -> Callable[[Mutator], Mutator]:
    def register(mutator: Mutator) -> Mutator:
        KINDS[name] = mutator
        return mutator

    return register


def _replace(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def _pick(items: list[Any], rng: np.random.Generator) -> Any:
    return items[rng.integers(len(items))]


def _a_file(store: Path, rng: np.random.Generator, pattern: str = "*") -> Path:
    """Metadata and chunks are as likely as each other, and so is the root."""
    files = sorted(path for path in store.rglob(pattern) if path.is_file())
    groups = [
        [store / "zarr.json"],
        *([p for p in files if (p.name == "zarr.json") == is_] for is_ in (0, 1)),
    ]
    return Path(_pick(_pick([group for group in groups if group and group[0].match(pattern)], rng), rng))


@_kind("flip")
def _flip(store: Path, rng: np.random.Generator) -> str:
    path = _a_file(store, rng)
    content = bytearray(path.read_bytes())
    places = rng.integers(len(content), size=rng.integers(1, 5))
    for place in places:
        content[place] ^= int(rng.integers(1, 256)) if rng.random() < 0.5 else 1 << int(rng.integers(8))
    _replace(path, bytes(content))
    return f"{path.relative_to(store)}: bytes {places.tolist()} changed"


@_kind("truncate")
def _truncate(store: Path, rng: np.random.Generator) -> str:
    path = _a_file(store, rng)
    content = path.read_bytes()
    length = int(rng.integers(len(content)))
    _replace(path, content[:length])
    return f"{path.relative_to(store)}: cut to {length} of {len(content)} bytes"


@_kind("append")
def _append(store: Path, rng: np.random.Generator) -> str:
    path = _a_file(store, rng)
    extra = rng.bytes(int(rng.integers(1, 65)))
    _replace(path, path.read_bytes() + extra)
    return f"{path.relative_to(store)}: {len(extra)} bytes appended"


@_kind("delete")
def _delete(store: Path, rng: np.random.Generator) -> str:
    path = _a_file(store, rng)
    if rng.random() < 0.3 and path.parent != store:
        path = path.parent
        shutil.rmtree(path)
    else:
        path.unlink()
    return f"{path.relative_to(store)}: deleted"


@_kind("swap")
def _swap(store: Path, rng: np.random.Generator) -> str:
    one = _a_file(store, rng)
    other = _a_file(store, rng, one.name)
    first, second = one.read_bytes(), other.read_bytes()
    _replace(other, first)
    if rng.random() < 0.5:
        _replace(one, second)
    return f"{one.relative_to(store)} put in the place of {other.relative_to(store)}"


@_kind("link")
def _link(store: Path, rng: np.random.Generator) -> str:
    path = _a_file(store, rng)
    if rng.random() < 0.3 and path.parent != store:
        path = path.parent
    outside = store.with_name("outside")
    if path.is_dir():
        shutil.copytree(path, outside)
        shutil.rmtree(path)
    else:
        shutil.copy(path, outside)
        path.unlink()
    kind = _pick(["the same outside", "nothing", "itself", "another file", "/dev/zero", "pipe"], rng)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        targets = {"the same outside": outside, "nothing": store / "nothing", "itself": path}
        inside = os.path.relpath(_a_file(store, rng, "zarr.json"), path.parent) if "other" in kind else ""
        path.symlink_to(targets.get(kind, Path(inside or kind)))
    return f"{path.relative_to(store)}: replaced by a link to {kind}"


# -- JSON -------------------------------------------------------------------------------------------------

_VALUES: list[Any] = [0, -1, 1, 2, 7, 2**26, 2**31, 2**40, 10**12, 10**30, 0.5, 1e308, float("nan")]
_VALUES += [float("inf"), "", "12", "../..", None, True, [], {}, [1], {"a": 1}, "ones", "float64", [[]]]


def _spots(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every value of a JSON tree is."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [spot for key, child in children for spot in [(*at, key), *_spots(child, (*at, key))]]


def _edit(tree: Any, rng: np.random.Generator, under: tuple[Any, ...] = ()) -> str:
    """Change one value of a JSON tree, in place."""
    spot = _pick([spot for spot in _spots(tree) if spot[: len(under)] == under and spot != under], rng)
    parent = tree
    for key in spot[:-1]:
        parent = parent[key]
    old, last = parent[spot[-1]], spot[-1]
    how = _pick(["set", "set", "set", "nudge", "remove", "rename", "repeat", "nest"], rng)
    if how == "remove":
        del parent[last]
    elif how == "rename" and isinstance(parent, dict):
        parent[f"{last}_"] = parent.pop(last)
    elif how == "repeat" and isinstance(parent, list):
        parent.append(old)
    elif how == "nest":
        parent[last] = _nested(int(_pick([1, 50, 940, 5000], rng)))
    elif how == "nudge" and isinstance(old, int | float):
        parent[last] = _pick([old + 1, old - 1, old * 2, -old, float(old), str(old)], rng)
    else:
        how, parent[last] = "set", _pick(_VALUES, rng)
    new = str(parent[last])[:40] if how in ("set", "nudge") else ""
    return f"{'/'.join(map(str, spot))} {how} {new}"


def _nested(depth: int) -> Any:
    return f"NEST{depth}"  # json.dumps would not write as deep a list


def _dumped(tree: Any) -> bytes:
    text = json.dumps(tree)
    for depth in (1, 50, 940, 5000):
        text = text.replace(f'"NEST{depth}"', "[" * depth + "]" * depth)
    return text.encode()


@_kind("edit")
def _edit_json(store: Path, rng: np.random.Generator) -> str:
    path = _a_file(store, rng, "zarr.json")
    tree = json.loads(path.read_bytes())
    what = _edit(tree, rng)
    _replace(path, _dumped(tree))
    return f"{path.relative_to(store)}: {what}"


_BLOSC = {"typesize": 1, "cname": "zstd", "clevel": 1, "shuffle": "shuffle", "blocksize": 0}
_CODECS: list[Any] = [
    [{"name": "bytes", "configuration": {"endian": "big"}}],
    [{"name": "bytes"}],
    [{"name": "numcodecs.pickle", "configuration": {}}],
    [{"name": "bytes"}, {"name": "numcodecs.bz2", "configuration": {"level": 1}}],
    [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 5}}],
    [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 0, "checksum": False}}],
    [{"name": "bytes"}, {"name": "crc32c"}],
    [{"name": "bytes"}, {"name": "blosc", "configuration": _BLOSC | {"cname": "lz4"}}],
    [{"name": "transpose", "configuration": {"order": [0]}}, {"name": "bytes"}],
    [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": [{"name": "bytes"}]}}],
    [{"name": "os.system"}],
]
_CHANGES: dict[str, list[Any]] = {
    "shape": [[10**12], [2**26], [0], [-1], [1, 10**9], [], "x", [1.5]],
    "data_type": ["int8", "int64", "float64", "string", "object", "|O", "r800", {"name": "struct"}, 4],
    "codecs": _CODECS,
    "fill_value": [7, -1, "NaN", "Infinity", 1e308, None, [1], "x", 2**70],
    "chunk_grid": [
        *(
            {"name": "regular", "configuration": {"chunk_shape": s}}
            for s in ([1], [10**12], [0], [2**40], [-3])
        ),
        {"name": "rectangular"},
    ],
    "chunk_key_encoding": [
        {"name": "v2", "configuration": {"separator": "."}},
        {"name": "default", "configuration": {"separator": "../"}},
    ],
    "storage_transformers": [[{"name": "x"}]],
    "node_type": ["group", "x", None],
    "zarr_format": [2, 4, None],
    "dimension_names": [["x"], "x", [None, None]],
    "attributes": [{"a": 1}, [], None],
    "consolidated_metadata": [{"kind": "inline", "must_understand": False, "metadata": {}}],
    "must": [{"understand": True}],
}


@_kind("array metadata")
def _change_array(store: Path, rng: np.random.Generator) -> str:
    paths = [path for path in sorted(store.rglob("zarr.json")) if b'"array"' in path.read_bytes()]
    path = _pick(paths, rng)
    tree = json.loads(path.read_bytes())
    name = _pick(list(_CHANGES), rng)
    tree[name] = _pick(_CHANGES[name], rng)
    if rng.random() < 0.3 and name == "shape" and isinstance(tree[name], list):  # a lie that is consistent
        tree["chunk_grid"]["configuration"]["chunk_shape"] = tree[name]
    _replace(path, json.dumps(tree).encode())
    return f"{path.relative_to(store)}: {name} is {str(tree[name])[:80]}"


# -- forged: with checksums that match --------------------------------------------------------------------


def sign(store: Path, tree: dict[str, Any]) -> None:
    """Write the root's metadata, with the checksum of its mark."""
    mark = tree["attributes"]["threepass"]
    if isinstance(mark, dict):
        mark.pop("checksum", None)
        mark = json.loads(_dumped(mark))
        checksum = int(google_crc32c.value(json.dumps(mark, sort_keys=True).encode()))
        tree["attributes"]["threepass"] = {**mark, "checksum": checksum}
    _replace(store / "zarr.json", _dumped(tree))


def forge(store: Path, name: str, array: Any) -> None:
    """Put another array in the place of one, and its checksums in the mark."""
    root = zarr.open_group(store, mode="r+", use_consolidated=False)
    fill = json.loads((store / name / "zarr.json").read_bytes())["fill_value"]
    shutil.rmtree(store / name)
    group, _, last = name.rpartition("/")
    parent = root[group] if group else root
    assert isinstance(parent, zarr.Group)
    write_array(parent, last, array, fill_value=fill)
    tree = json.loads((store / "zarr.json").read_bytes())
    mark = tree["attributes"]["threepass"]
    if name in mark["crc32c"]:
        mark["crc32c"][name] = crc32c(array)
    side, _, rest = name.partition("/")
    if side in ("X", "Y"):
        path = f"{side}/{rest.split('/')[0]}"
        parts = [np.asarray(root[f"{path}/{part}"][...]) for part in ("indptr", "indices", "data")]  # type: ignore[index]
        values = parts[2] if side == "X" and mark["values"] != "ones" else None
        block = mark["blocks"][int(path[2:])]
        block[f"{side.lower()}_crc32c"] = fmt.checksum(SparseRows(parts[0], parts[1], values, 1))
        block[f"{side.lower()}_nnz"] = len(parts[1])
    sign(store, tree)


@_kind("forged mark")
def _forge_mark(store: Path, rng: np.random.Generator) -> str:
    tree = json.loads((store / "zarr.json").read_bytes())
    what = "; ".join(_edit(tree, rng, ("attributes", "threepass")) for _ in range(rng.integers(1, 3)))
    try:
        sign(store, tree)
    except RecursionError:  # too deep to be signed: unsigned then
        _replace(store / "zarr.json", _dumped(tree))
    return what


@_kind("forged array")
def _forge_array(store: Path, rng: np.random.Generator) -> str:
    path = _pick([p for p in sorted(store.rglob("zarr.json")) if b'"array"' in p.read_bytes()], rng).parent
    name = path.relative_to(store).as_posix()
    array = np.asarray(zarr.open_group(store, mode="r")[name][...])  # type: ignore[index]
    how = _pick(["numbers", "numbers", "numbers", "shuffled", "shorter", "longer"], rng)
    if how == "numbers" and array.size:
        flat = array.reshape(-1)
        places = rng.integers(flat.size, size=rng.integers(1, 4))
        flat[places] = [_number(array.dtype, rng) for _ in places]
    elif how == "shuffled":
        rng.shuffle(array)
    elif how == "shorter":
        array = array[: len(array) // 2]
    else:
        array = np.concatenate([array, array])
    forge(store, name, array)
    return f"{name}: {how}"


def _number(dtype: np.dtype[Any], rng: np.random.Generator) -> Any:
    if dtype.kind == "f":
        largest = np.finfo(dtype).max
        return _pick([0, -1, np.nan, np.inf, -np.inf, largest, -largest, np.finfo(dtype).tiny], rng)
    ends = np.iinfo(dtype)
    return _pick([0, 1, ends.min, ends.max, ends.max // 2, int(rng.integers(100)), ends.min // 2], rng)
