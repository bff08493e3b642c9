"""Sums in files: they come back to the last bit, and nothing else is believed."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.passes.conftest import assert_identical
from threepass.parts.cross import CrossMoment
from threepass.passes.kept_sums import DamagedError, read_partial, write_partial
from threepass.passes.sums import Sums
from threepass.types import Array

STAMP = {"read": "pairs", "done": 3}


@dataclass
class Deeper(Sums):
    whole: Array = field(default_factory=lambda: np.zeros(5, np.int64))
    moment: CrossMoment = field(default_factory=lambda: CrossMoment.zero(2, 4))
    none: Array = field(default_factory=lambda: np.zeros((0, 3), np.float32))


@dataclass
class Some(Sums):
    """Arrays of all kinds, numbers and sums."""

    wide: Array = field(default_factory=lambda: np.zeros((7, 3), np.float32))
    one: Array = field(default_factory=lambda: np.zeros(1))
    count: int = 0
    weight: float = 0.0
    deeper: Deeper = field(default_factory=Deeper)
    unused: Array | None = None


@dataclass
class One(Sums):
    a: Any = field(default_factory=lambda: np.zeros(2))


def some_sums() -> Some:
    moment = CrossMoment(np.array([0, 0, 2]), np.array([2, 0], np.int32), np.float32([1.5, 2]), n_terms=4)
    wide = np.random.default_rng(0).random((7, 3), np.float32)
    return Some(wide, np.array([np.nan]), 7, 0.1, Deeper(np.arange(5), moment))


@contextmanager
def small_disk(nbytes: int) -> Iterator[None]:
    """No file may become larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_partial__comes_back_to_the_last_bit(tmp_path: Path) -> None:
    size = write_partial(tmp_path / "p", some_sums(), STAMP)
    assert size == (tmp_path / "p").stat().st_size
    found = read_partial(tmp_path / "p", Some, STAMP)
    assert_identical(found, some_sums())
    assert (found.count, found.weight, found.unused) == (7, 0.1, None)
    assert isinstance(found.count, int)
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
    assert (tmp_path / "p").stat().st_mode & 0o777 == 0o600
    found.wide += 1  # what is read can be added to
    assert_identical(read_partial(tmp_path / "p", Some, STAMP), some_sums())


@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(0, 255))
def test_partial__a_changed_file_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, place: float, flip: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed"
    write_partial(path, some_sums(), STAMP)
    raw = bytearray(path.read_bytes())
    at = int(place * len(raw))
    raw[at] ^= flip
    path.write_bytes(raw if flip else raw[:at])
    try:
        found = read_partial(path, Some, STAMP)
    except DamagedError:
        return
    assert_identical(found, some_sums())  # padding, or white space: nothing that counts was hit


@pytest.mark.parametrize("like", [np.zeros((7, 3)), np.zeros((3, 7), np.float32), None, 0])
def test_partial__of_other_arrays_is_not_used(tmp_path: Path, like: Any) -> None:
    write_partial(tmp_path / "p", One(np.zeros((7, 3), np.float32)), STAMP)
    with pytest.raises(DamagedError):
        read_partial(tmp_path / "p", Some if like is None else lambda: One(like), STAMP)


def test_partial__of_something_else_is_not_used(tmp_path: Path) -> None:
    write_partial(tmp_path / "p", One(), STAMP)
    with pytest.raises(DamagedError, match="other sums"):
        read_partial(tmp_path / "p", One, {**STAMP, "done": 4})
    with pytest.raises(DamagedError, match="cannot be read"):
        read_partial(tmp_path / "nothing", One, STAMP)


@pytest.mark.parametrize("shape", [[10**15], [-1], [2**62, 2**62], [1.5], "x"])
def test_partial__sizes_that_lie_allocate_nothing(tmp_path: Path, shape: Any) -> None:
    write_partial(tmp_path / "p", One(), STAMP)
    line, arrays = (tmp_path / "p").read_bytes().split(b"\n", 1)
    head = json.loads(line)
    head["arrays"]["a"][1] = shape
    (tmp_path / "p").write_bytes(json.dumps(head).encode() + b"\n" + arrays)
    with pytest.raises(DamagedError):
        read_partial(tmp_path / "p", One, STAMP)


def test_partial__a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    write_partial(tmp_path / "p", One(), STAMP)
    with small_disk(20_000), pytest.raises(OSError, match="File too large"):
        write_partial(tmp_path / "p", One(np.ones(10_000)), STAMP)
    assert read_partial(tmp_path / "p", One, STAMP).a.tolist() == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
