from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from benchmarks.mutators import forge
from tests.conftest import random_matrices
from tests.damage import edit, edit_mark, set_to, stored, without_checksums
from threepass import MomentLabeler, StoreError, check, ingest_matrices, ingest_shape
from threepass.model.predictions import predict_to_file

X, Y = random_matrices(300, 23, 7)
NAMES: dict[str, Any] = {"feature_names": [f"t{i}" for i in range(23)], "label_names": list("abcdefg")}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    ingest_matrices(X, Y, tmp_path / "c.zarr", block_bytes=4000, **NAMES)
    return tmp_path / "c.zarr"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "m.zarr"
    MomentLabeler(2, head="blend").fit(X, Y).save(path)
    return path


@pytest.fixture
def model(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "m.zarr"))


def flip(chunk: Path) -> None:
    content = bytearray(chunk.read_bytes())
    content[-3] ^= 1
    chunk.write_bytes(content)


def test_check__a_whole_corpus(corpus: Path) -> None:
    report = check(corpus)
    assert report.is_whole
    assert report.counts["documents"] == 300
    assert report.counts["nonzeros"] == np.count_nonzero(X)
    assert report.counts["blocks"] > 3
    assert str(report).count("\n") == 0
    assert "a whole corpus" in str(report)
    assert json.loads(json.dumps(report.as_dict()))["whole"] is True


@pytest.mark.parametrize("binary", [True, False])
def test_check__corpora_of_other_kinds(tmp_path: Path, binary: bool) -> None:
    ingest_matrices(X * 0.3, Y * 0, tmp_path / "f.zarr", binary=binary)
    assert check(tmp_path / "f.zarr").damage == []
    ingest_shape("bibtex", tmp_path / "p.zarr", scale=0.01)
    assert check(tmp_path / "p.zarr").damage == []


def test_check__names_everything_that_is_damaged(corpus: Path) -> None:
    flip(corpus / "X/00001/indices/c/0")
    shutil.rmtree(corpus / "Y/00002")
    (corpus / "label_counts/zarr.json").write_text("{}")
    flip(corpus / "names/terms/offsets/c/0")
    report = check(corpus)
    assert not report.is_whole
    assert len(report.damage) == 4
    for what in (
        "X/00001",
        "Y/00002/indptr: it is missing",
        "label_counts",
        "names/terms/offsets",
    ):
        assert any(what in line for line in report.damage), what
    assert str(report).count("\n") == 4
    assert "a damaged corpus" in str(report)


def test_check__counts_again(corpus: Path) -> None:
    counts = stored(corpus, "label_counts")
    assert counts[0] != counts[1]
    counts[[0, 1]] = counts[[1, 0]]  # adds up as before
    forge(corpus, "label_counts", counts)
    assert check(corpus).damage == ["label_counts: 2 of them are not what the blocks have; the first is 0"]


def test_check__computes_the_fingerprint_again(corpus: Path) -> None:
    """By which another name is noticed in a corpus from before names had checksums."""
    without_checksums(corpus, "crc32c")
    assert check(corpus).is_whole
    zarr.open_group(corpus, mode="r+")["names/labels/bytes"][0] = ord("z")  # type: ignore[index]
    (line,) = check(corpus).damage
    assert "fingerprint" in line


@pytest.mark.parametrize("attribute", ["shape", "encoding-type"])
def test_check__what_only_other_tools_read(corpus: Path, attribute: str) -> None:
    edit(corpus / "X/00001/zarr.json", set_to("attributes", attribute, to=[1, 1]))
    (line,) = check(corpus).damage
    assert line.startswith("X/00001: its attributes are not those of a csr_matrix")


def test_check__ones_that_are_not(corpus: Path) -> None:
    forge(corpus, "Y/00001/data", stored(corpus, "Y/00001/data") * 2)
    assert check(corpus).damage == ["Y/00001/data: its values are not all 1"]


def test_check__row_starts_have_a_checksum_of_their_own(corpus: Path) -> None:
    edit_mark(corpus, set_to("crc32c", "X/00001/indptr", to=5))
    assert check(corpus).damage == ["X/00001/indptr: its checksum does not match"]


def test_check__the_truth_of_planted_corpora(tmp_path: Path) -> None:
    ingest_shape("bibtex", tmp_path / "p.zarr", scale=0.01)
    flip(tmp_path / "p.zarr/truth/pi/c/0")
    (line,) = check(tmp_path / "p.zarr").damage
    assert line.startswith("truth/pi: ")


def test_check__a_whole_model(model: Path) -> None:
    report = check(model)
    assert report.is_whole
    assert {**report.counts, "arrays": 0} == {"arrays": 0, "terms": 23, "labels": 7, "topics": 2}
    assert "a whole model" in str(report)


def test_check__everything_in_a_model(model: Path) -> None:
    flip(model / "parts/ridge/weights/c/0/0")
    shutil.rmtree(model / "idf")
    report = check(model)
    assert sorted(line.split(":")[0] for line in report.damage) == ["idf", "parts/ridge/weights"]
    assert "Fit it again" in str(report)


def test_check__a_model_whose_arrays_are_whole_but_not_its_numbers(model: Path) -> None:
    edit_mark(model, set_to("head", "parts", "refined", "temperature", to=0))
    (line,) = check(model).damage
    assert "parts/refined/temperature is 0" in line


def test_check__a_model_must_predict(model: Path) -> None:
    weights = stored(model, "parts/ridge/weights").astype(np.float32)
    weights[:] = 3e38  # finite, but not what they add up to
    weights[:, ::2] = -3e38
    basis = stored(model, "parts/ridge/basis").astype(np.float32)
    forge(model, "parts/ridge/weights", weights)
    forge(model, "parts/ridge/basis", np.full_like(basis, 3e38))
    with np.errstate(all="ignore"):
        (line,) = check(model).damage
    assert line.startswith("the model: it gives documents the labels")


def test_check__progress(corpus: Path, model: Path) -> None:
    for path in (corpus, model):
        told: list[tuple[str, float, float]] = []
        check(path, progress=lambda *step, told=told: told.append(step))  # type: ignore[misc]
        told = [step for step in told if step[2]]  # what is counted
        assert {stage for stage, _, _ in told} == {"check"}
        done = [now for _, now, _ in told]
        assert done == sorted(set(done))
        assert done[-1] == told[-1][2]


def test_check__what_is_neither(tmp_path: Path, corpus: Path, model: Path) -> None:
    from threepass import Corpus

    predict_to_file(MomentLabeler.load(model), Corpus.open(corpus), tmp_path / "p")
    zarr.create_group(tmp_path / "group")
    for name, why in (
        ("p", "neither a corpus nor a model"),
        ("nothing", "There is no"),
        ("group", "not a corpus"),
    ):
        with pytest.raises(StoreError, match=why):
            check(tmp_path / name)


def test_check__a_root_that_is_damaged(corpus: Path) -> None:
    edit(corpus / "zarr.json", set_to("attributes", "threepass", "n_docs", to=301))
    with pytest.raises(StoreError, match="checksum of its root's attributes"):
        check(corpus)
