"""Corpora that lie with checksums that match: what they say is held against itself, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.mutators import forge
from tests import naive
from tests.conftest import random_matrices
from tests.corpus.damage import refused, use
from tests.damage import at, edit, edit_mark, set_to, stored, without_checksums
from threepass import Corpus, StoreError, ingest_matrices
from threepass.corpus import kernels
from threepass.corpus.describe import describe


def test_mark__any_change_is_noticed(store: Path) -> None:
    edit(store / "zarr.json", set_to("attributes", "threepass", "source", "kind", to="magic"))
    refused(store, "checksum of its root's attributes does not match")


@pytest.mark.parametrize(
    "change",
    [
        *(set_to("n_docs", to=value) for value in (61, -1, 1e9, "60", None, True, float("nan"), 10**30)),
        *(set_to("n_terms", to=value) for value in (22, 24, 0, 2**26, 2**27 + 1, 23.0)),
        *(set_to("n_labels", to=value) for value in (6, 8, 2**26)),
        *(set_to("values", to=value) for value in ("ones", "uint16", "float64", "object", None, ["uint8"])),
        *(set_to("fingerprint", to=value) for value in ("", "../../etc/passwd", 7)),
        set_to("blocks", to=7),
        set_to("blocks", to=[]),
        set_to("blocks", to=[{}] * 6),
        lambda mark: mark["blocks"].append(mark["blocks"][-1]),
        lambda mark: mark["blocks"].append({**mark["blocks"][0], "n_docs": 0, "x_nnz": 0, "y_nnz": 0}),
        lambda mark: mark["blocks"].pop(),
        *(set_to("blocks", 2, "x_nnz", to=value) for value in (0, 10**9, -4, "4", 2**70)),
        set_to("blocks", 2, "y_nnz", to=10**4),
        set_to("blocks", 2, "x_crc32c", to=1),
        set_to("blocks", 2, to=None),
        set_to("blocks", 2, "more", to=1),
        set_to("source", to=7),
        set_to("crc32c", to=7),
        set_to("crc32c", "term_ids", to=1),
        set_to("crc32c", "names/terms/offsets", to="1"),
        lambda mark: mark.pop("n_terms"),
        lambda mark: mark.pop("source"),
    ],
)
def test_mark__a_lie_with_the_right_checksum(store: Path, change: Any) -> None:
    edit_mark(store, change)
    refused(store, "damaged")


@pytest.mark.parametrize("depth", [70, 900, 5000])
def test_mark__nested_without_end(store: Path, depth: int) -> None:
    """Also where it can just be parsed, but no longer be written again."""
    text = (store / "zarr.json").read_text()
    assert '"matrices"' in text
    (store / "zarr.json").write_text(text.replace('"matrices"', "[" * depth + "]" * depth))
    refused(store, "nested too deeply")


@pytest.mark.parametrize("version", [2, 0, "1", None, 1.5, [1]])
def test_mark__another_version(store: Path, version: Any) -> None:
    edit_mark(store, set_to("version", to=version))
    refused(store, "format version .*(Upgrade threepass|has to be ingested again)")


def test_mark__without_checksums_as_corpora_once_were(store: Path, whole: Path) -> None:
    """A store of that time opens and is read as ever."""
    without_checksums(store, "crc32c")
    assert use(store) == use(whole)


def _decreasing(indptr: np.ndarray) -> np.ndarray:
    place = int(np.flatnonzero(np.diff(indptr))[2])
    indptr[place], indptr[place + 1] = indptr[place + 1], indptr[place]
    return indptr


STARTS, COLUMNS = "row starts are not in order", "columns are not all from 0 to"


@pytest.mark.parametrize("side", ["X", "Y"])
@pytest.mark.parametrize(
    ("part", "change", "why"),
    [
        ("indptr", at(0, 1), STARTS),
        ("indptr", at(0, -1), STARTS),
        ("indptr", at(-1, 3), STARTS),
        ("indptr", at(-1, 2**40), STARTS),
        ("indptr", at(3, 2**62), STARTS),
        ("indptr", at(3, -(2**62)), STARTS),
        ("indptr", _decreasing, STARTS),
        ("indices", at(-1, 23), COLUMNS),
        ("indices", at(-1, 2**31 - 1), COLUMNS),
        ("indices", at(0, -1), COLUMNS),
        ("indices", at(0, -(2**31)), COLUMNS),
        ("indices", np.flip, "not sorted and unique"),
        ("indices", np.zeros_like, "not sorted and unique"),
        ("indices", lambda a: a.astype(np.int64), "it is int64"),
        ("indices", lambda a: a[:0], ""),
        ("indptr", lambda a: a.astype(np.int32), "it is int32"),
        ("indptr", lambda a: a[:-1], "wanted is int64, 11 values"),
        ("indptr", lambda a: a.reshape(1, -1), ""),
    ],
)
def test_forged__structure_of_a_block(store: Path, side: str, part: str, change: Any, why: str) -> None:
    name = f"{side}/00002/{part}"
    forge(store, name, np.ascontiguousarray(change(stored(store, name))))
    refused(store, f"damaged at {side}/00002.*{why}")


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, -np.inf])
def test_forged__values(tmp_path: Path, value: float) -> None:
    path = tmp_path / "f.zarr"
    X, Y = random_matrices(60, 23, 7)
    ingest_matrices(X * 0.3, Y, path, block_bytes=700)
    name = "X/00002/data"
    forge(path, name, at(4, value)(stored(path, name)))
    refused(path, "damaged at X/00002: not all of its values are positive and finite")


def test_forged__zero_counts(store: Path) -> None:
    forge(store, "X/00002/data", at(4, 0)(stored(store, "X/00002/data")))
    refused(store, "damaged at X/00002: not all of its values are positive and finite")


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("term_ids", at(0, 1_000), "each once"),
        ("term_ids", at(0, -1), "each once"),
        ("term_ids", np.zeros_like, "each once"),
        ("term_ids", lambda a: a[:-1], "wanted is int32, 23 values"),
        ("term_ids", lambda a: a.astype(np.int64), "it is int64"),
        ("term_counts", at(0, 61), "between 0 and the 60 documents"),
        ("term_counts", at(-1, -1), "between 0 and the 60 documents"),
        ("term_counts", np.flip, "they increase"),
        ("term_counts", lambda a: a - (a > 0), "do not add up"),
        ("term_counts", lambda a: np.append(a, 0), "wanted is int64, 23 values"),
        ("label_counts", at(0, 2**62), "between 0 and the 60 documents"),
        ("label_counts", lambda a: a + 1, "do not add up"),
        ("label_counts", lambda a: a.astype(np.float64), "it is float64"),
        ("names/terms/offsets", at(0, 1), "begin at 0"),
        ("names/terms/offsets", at(3, 0), "begin at 0"),
        ("names/terms/offsets", at(-1, 2**62), "bytes: it is uint8"),
        ("names/terms/offsets", at(1, 2), "UTF-8"),  # in the middle of a letter
        ("names/terms/offsets", lambda a: a[:-1], "wanted is int64, 24 values"),
        ("names/terms/offsets", lambda a: a - 2**62, "begin at 0"),
        ("names/labels/bytes", at(0, 255), "UTF-8"),
        ("names/labels/bytes", lambda a: a[:-1], "it is uint8"),
    ],
)
def test_forged__arrays_of_the_root(store: Path, name: str, change: Any, why: str) -> None:
    forge(store, name, np.ascontiguousarray(change(stored(store, name))))
    refused(store, f"damaged at {name.rpartition('/')[0]}.*{why}")


def test_describe__row_lengths_are_checked(store: Path) -> None:
    """`describe` reads row starts alone, without the block's own checksum."""
    name = "X/00002/indptr"
    root = zarr.open_group(store, mode="r+")
    root[name][3] -= 1  # type: ignore[index, operator]
    with pytest.raises(StoreError, match="X/00002/indptr: its checksum does not match"):
        describe(Corpus.open(store))


@given(
    indptr=st.lists(st.integers(-2, 8), min_size=1, max_size=6),
    indices=st.lists(st.integers(-1, 5), max_size=7),
    sound=st.booleans(),
)
def test_flaw_of_rows__equals_the_naive(indptr: list[int], indices: list[int], sound: bool) -> None:
    if sound:  # mostly nothing is right, so help: starts that are, and columns nearly
        indptr = [0, *sorted(abs(i) % (len(indices) + 1) for i in indptr), len(indices)]
        indices = [max(0, i) for i in indices]
    found = kernels.flaw_of_rows(np.array(indptr, np.int64), np.array(indices, np.int32), 5)
    assert found == naive.flaw_of_rows(indptr, indices, 5)


@pytest.mark.parametrize("place", [0, 1, 2**16 - 1, 2**16, 2**16 + 1, 150_000, 199_999])
def test_flaw_of_rows__wherever_it_is(place: int) -> None:
    """Long enough for several tiles, at whose edges a row may start or go on."""
    lengths = np.full(200, 1000)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.tile(np.arange(0, 2000, 2, dtype=np.int32), 200)
    assert kernels.flaw_of_rows(indptr, indices, 2000) == 0
    indices[place] += 2 if place % 1000 < 999 else -2  # as its neighbour is
    assert kernels.flaw_of_rows(indptr, indices, 2000) == 3
    indices[place] = 2000
    assert kernels.flaw_of_rows(indptr, indices, 2000) == 2
