"""Where documents came from is stored with them, checked, and refused when it is damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.damage import edit_mark
from threepass import Corpus, StoreError, check, ingest_text
from threepass.storage.arrays import write_array

ARRAYS = ["origins/rows", "origins/files", "origins/ids/bytes", "origins/ids/offsets"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origins")
    for name, first in (("a", 0), ("b", 100)):
        rows = [
            {"id": first + i if i % 2 else f"é{i}", "text": f"rain {i}x", "tags": [f"t{i % 2}"]}
            for i in range(20)
        ]
        lines = [json.dumps(row) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n\n".join(lines))
    ingest_text([folder / "a.jsonl", folder / "b.jsonl"], folder / "c.zarr", block_bytes=300)
    return folder / "c.zarr"


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "c.zarr"))


def use(path: Path) -> list[dict[str, object]]:
    corpus = Corpus.open(path)
    return list(corpus.origins.of(corpus.doc_ids).records())


def test_origins__are_those_of_the_source(whole: Path) -> None:
    assert check(whole).is_whole
    records = use(whole)
    assert records[:2] == [
        {"document": 0, "file": "a.jsonl", "id": "é0"},
        {"document": 2, "file": "a.jsonl", "id": 1},
    ]
    assert records[21] == {"document": 2, "file": "b.jsonl", "id": 101}
    test = Corpus.open(whole).split(0.4)[1].head(5)
    assert list(test.origins.of(test.doc_ids).records()) == [records[i] for i in test.doc_ids.tolist()]


def test_origins__same_fingerprint_without(whole: Path, tmp_path: Path) -> None:
    """They are not what a model learns from."""
    for name in "ab":
        text = (whole.parent / f"{name}.jsonl").read_text()
        (tmp_path / f"{name}.jsonl").write_text(text.replace("\n\n", "\n").replace('"id"', '"x"'))
    again = ingest_text(str(tmp_path / "?.jsonl"), tmp_path / "c.zarr", block_bytes=300)
    assert again.fingerprint == Corpus.open(whole).fingerprint


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove chunk", "remove"])
def test_origins__damage_is_named(store: Path, name: str, damage: str) -> None:
    chunk = store / name / "c/0"
    content = bytearray(chunk.read_bytes())
    if damage == "flip":
        content[-3] ^= 1
        chunk.write_bytes(content)
    elif damage == "truncate":
        chunk.write_bytes(content[: len(content) // 2])
    elif damage == "remove chunk":
        chunk.unlink()
    else:
        shutil.rmtree(store / name)
    with pytest.raises(StoreError, match=f"damaged at {name}.*Ingest the source again"):
        use(store)
    report = check(store)
    assert not report.is_whole
    assert any(line.startswith(name) for line in report.damage)


@pytest.mark.parametrize(
    ("name", "array", "why"),
    [
        ("origins/rows", np.full(40, -1), "some are negative"),
        ("origins/files", np.full(40, 2, np.int32), "not all among the 2 files"),
        ("origins/files", np.full(40, -1, np.int32), "not all among the 2 files"),
        ("origins/ids/offsets", np.arange(41)[::-1].copy(), "do not begin at 0"),
        ("origins/ids/offsets", np.full(41, 10**12), "do not begin at 0"),
        ("origins/ids/offsets", np.arange(41), "values; wanted is uint8, 40 values|not all ids are JSON"),
    ],
)
def test_origins__forged_ones_are_refused(store: Path, name: str, array: np.ndarray, why: str) -> None:
    """Their checksums fit."""
    shutil.rmtree(store / name)
    group, _, last = name.rpartition("/")
    found = zarr.open_group(store, mode="r+")[group]
    checksums = write_array(found, last, array)  # type: ignore[arg-type]
    edit_mark(store, lambda mark: mark["crc32c"].update(checksums))
    with pytest.raises(StoreError, match=why):
        use(store)
    assert not check(store).is_whole
