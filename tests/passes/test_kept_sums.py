"""Sums in files: they come back to the last bit, and nothing else is believed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.test_run import all_passes, assert_identical, head_passes, planted, planted_path
from threepass import Corpus
from threepass.parts.cross import CrossMoment
from threepass.parts.held_out import Gathered, SetAside
from threepass.passes.kept_sums import DamagedError, read_partial, write_partial
from threepass.passes.runner import Runner
from threepass.passes.segments import segments

__all__ = ["planted", "planted_path"]
STAMP = {"read": "pairs", "done": 3}


def some_sums() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    moment = CrossMoment(np.array([0, 0, 2]), np.array([2, 0], np.int32), np.float32([1.5, 2]), n_terms=4)
    deeper = {"whole": np.arange(5, dtype=np.int64), "moment": moment, "none": np.zeros((0, 3), np.float32)}
    return {"wide": rng.random((7, 3), np.float32), "one": np.array([np.nan]), "deeper": deeper}


def empty_sums() -> dict[str, Any]:
    deeper = {
        "whole": np.zeros(5, np.int64),
        "moment": CrossMoment.zero(2, 4),
        "none": np.zeros((0, 3), "f4"),
    }
    return {"wide": np.zeros((7, 3), np.float32), "one": np.zeros(1), "deeper": deeper}


def test_partial__comes_back_to_the_last_bit(tmp_path: Path) -> None:
    size = write_partial(tmp_path / "p", some_sums(), STAMP)
    assert size == (tmp_path / "p").stat().st_size
    assert_identical(read_partial(tmp_path / "p", empty_sums(), STAMP), some_sums())
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
    assert (tmp_path / "p").stat().st_mode & 0o777 == 0o600


def test_partial__of_every_pass(planted: Corpus, tmp_path: Path) -> None:
    for work in (*all_passes(planted), *head_passes(planted), SetAside(0.2), SetAside(0.0)):
        sums = Runner(1).run(work, planted, segments(planted, 1))
        write_partial(tmp_path / "p", sums, STAMP)
        found = read_partial(tmp_path / "p", work.zero(), STAMP)
        again = read_partial(tmp_path / "p", work.zero(), STAMP)
        write_partial(tmp_path / "q", found, STAMP)
        assert (tmp_path / "p").read_bytes() == (tmp_path / "q").read_bytes()
        for name, value in found.items():
            if isinstance(value, np.ndarray):
                value += 1  # what is read can be added to
                assert (value != again[name]).any() or value.size == 0


def test_partial__held_out_documents_come_back_block_by_block(planted: Corpus, tmp_path: Path) -> None:
    sums = Runner(1).run(SetAside(0.3), planted, segments(planted, 1))
    write_partial(tmp_path / "p", sums, STAMP)
    found: Gathered = read_partial(tmp_path / "p", SetAside(0.3).zero(), STAMP)["documents"]
    assert len(found.blocks) == len(sums["documents"].blocks) > 3
    for one, other in zip(found.blocks, sums["documents"].blocks, strict=True):
        assert (one.number, one.first_row) == (other.number, other.first_row)
        for side in ("X", "Y"):
            assert (getattr(one, side).to_scipy() != getattr(other, side).to_scipy()).nnz == 0


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_partial__a_changed_file_is_noticed(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = tmp_path_factory.mktemp("partial")
    write_partial(folder / "p", some_sums(), STAMP)
    raw = bytearray((folder / "p").read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw = raw[:place]
    else:
        raw[place] ^= data.draw(st.integers(1, 255))
    (folder / "p").write_bytes(raw)
    try:
        found = read_partial(folder / "p", empty_sums(), STAMP)
    except DamagedError:
        return
    assert_identical(found, some_sums())  # padding, or white space: nothing that counts was hit


@pytest.mark.parametrize(
    "like",
    [
        {"wide": np.zeros((7, 3))},
        {"wide": np.zeros((3, 7), np.float32)},
        {"other": np.zeros((7, 3), np.float32)},
    ],
    ids=["type", "shape", "name"],
)
def test_partial__of_other_arrays_is_not_used(tmp_path: Path, like: dict[str, Any]) -> None:
    write_partial(tmp_path / "p", {"wide": np.zeros((7, 3), np.float32)}, STAMP)
    with pytest.raises(DamagedError):
        read_partial(tmp_path / "p", like, STAMP)


def test_partial__of_something_else_is_not_used(tmp_path: Path) -> None:
    write_partial(tmp_path / "p", {"a": np.zeros(2)}, STAMP)
    with pytest.raises(DamagedError, match="other sums"):
        read_partial(tmp_path / "p", {"a": np.zeros(2)}, {**STAMP, "done": 4})
    with pytest.raises(DamagedError, match="cannot be read"):
        read_partial(tmp_path / "nothing", {"a": np.zeros(2)}, STAMP)


@pytest.mark.parametrize("shape", [[10**15], [-1], [2**62, 2**62], [1.5], "x"])
def test_partial__sizes_that_lie_allocate_nothing(tmp_path: Path, shape: Any) -> None:
    write_partial(tmp_path / "p", {"a": np.zeros(2)}, STAMP)
    line, arrays = (tmp_path / "p").read_bytes().split(b"\n", 1)
    head = json.loads(line)
    head["arrays"]["a"][1] = shape
    (tmp_path / "p").write_bytes(json.dumps(head).encode() + b"\n" + arrays)
    with pytest.raises(DamagedError):
        read_partial(tmp_path / "p", {"a": np.zeros(2)}, STAMP)


def test_partial__a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_partial(tmp_path / "p", {"a": np.zeros(2)}, STAMP)

    def full(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("threepass.passes.kept_sums._write_all", full)
    with pytest.raises(OSError, match="No space left"):
        write_partial(tmp_path / "p", {"a": np.ones(2)}, STAMP)
    assert read_partial(tmp_path / "p", {"a": np.zeros(2)}, STAMP)["a"].tolist() == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
