from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from sklearn.exceptions import NotFittedError

from tests.conftest import random_matrices
from threepass import MomentLabeler, StoreError, ingest_matrices
from threepass.model.files import open_model
from threepass.model.summary import describe_model, render_model
from threepass.storage import guard

X, Y = random_matrices(300, 23, 7)
LEARNED = ("word_topics_", "label_topics_", "topic_weights_", "whitening_", "eigenvalues_")
LEARNED += ("tensor_eigenvalues_", "label_counts_")
ARRAYS = (
    "moments/whitening",
    "moments/label_topics",
    "moments/eigenvalues",
    "moments/tensor_eigenvalues",
    "moments/tensor_eigenvectors",
    "moments/word_errors",
    "parts/ridge/basis",
    "parts/refined/word_topics",
    "calibration/scores",
    "label_counts",
    "idf",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> MomentLabeler:
    """Every parameter differs from its default."""
    corpus = ingest_matrices(
        X, Y, tmp_path_factory.mktemp("corpus") / "c.zarr", label_names=[*"abcdef", "ärger\n"]
    )
    settings: dict[str, Any] = {
        "head": "blend",
        "head_dim": 12,
        "weighting": "counts",
        "refine_passes": 1,
        "tail_weight": 0.5,
        "memory_limit": "1GB",
        "whitening": "sketch",
        "tensor": "power",
        "self_pairs": "drop",
        "words": "counts",
        "prior": "uniform",
        "smoothing": 0.3,
        "n_jobs": 2,
        "random_state": 5,
    }
    return MomentLabeler(2, **settings).fit(corpus)


@pytest.fixture(scope="module")
def saved(model: MomentLabeler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.zarr"
    model.save(path)
    return path


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    """A saved model to damage."""
    return Path(shutil.copytree(saved, tmp_path / "copy.zarr"))


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
def test_load__predicts_bitwise_the_same(model: MomentLabeler, saved: Path) -> None:
    loaded = MomentLabeler.load(saved)
    for ours, theirs in zip(model.predict_topk(X, k=9), loaded.predict_topk(X, k=9), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(model.transform(X), loaded.transform(X))
    np.testing.assert_array_equal(model.predict_proba(X), loaded.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X).toarray(), loaded.predict(X).toarray())
    assert model.evaluate(X, Y) == loaded.evaluate(X, Y)


def test_load__has_everything_that_fit_made(model: MomentLabeler, saved: Path) -> None:
    loaded = MomentLabeler.load(str(saved))
    assert loaded.get_params() == model.get_params()
    assert {name for name in vars(loaded) if name.endswith("_")} == {
        name for name in vars(model) if name.endswith("_")
    }
    for name in LEARNED:
        ours, theirs = getattr(model, name), getattr(loaded, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.statistics_ == model.statistics_
    assert loaded.fit_stats_ == model.fit_stats_
    assert loaded.tensor_residual_ == model.tensor_residual_
    assert loaded.n_passes_ == 4
    assert loaded.n_features_in_ == 23
    assert loaded.label_names_ == [*"abcdef", "ärger\n"]
    np.testing.assert_equal(asdict(loaded.guarantee(0.1)), asdict(model.guarantee(0.1)))


def test_load__a_loaded_model_saves_and_fits_again(
    tmp_path: Path, model: MomentLabeler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    saved = tmp_path / "once.zarr"
    model.save(saved)
    loaded = MomentLabeler.load(saved)
    loaded.save(tmp_path / "again.zarr")
    files = [p.relative_to(saved) for p in sorted(saved.rglob("*")) if p.is_file()]
    for file in files:
        assert (tmp_path / "again.zarr" / file).read_bytes() == (saved / file).read_bytes(), file
    np.testing.assert_array_equal(loaded.fit(X, Y).word_topics_, model.word_topics_)


def test_save__says_who_wrote_it_and_when(
    tmp_path: Path, model: MomentLabeler, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    model.save(tmp_path / "now.zarr")
    written = open_model(tmp_path / "now.zarr")[1]["written"]
    assert written["threepass"] == metadata.version("threepass")
    assert before <= datetime.fromisoformat(written["date"]) <= datetime.now(UTC)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    model.save(tmp_path / "then.zarr")
    assert open_model(tmp_path / "then.zarr")[1]["written"]["date"] == "2023-11-14T22:13:20+00:00"


def test_save__large_arrays_are_written_in_half_precision_chunk_by_chunk(
    model: MomentLabeler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "CHUNK", 40)
    model.save(tmp_path / "cut.zarr")
    stored = zarr.open_group(tmp_path / "cut.zarr", mode="r")
    assert stored["parts/ridge/basis"].dtype == np.float16
    assert stored["parts/ridge/basis"].nchunks > 3
    loaded = MomentLabeler.load(tmp_path / "cut.zarr")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_save__plain_models_too(tmp_path: Path) -> None:
    model = MomentLabeler(2).fit(X, Y)
    model.save(tmp_path / "plain.zarr")
    loaded = MomentLabeler.load(tmp_path / "plain.zarr")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_save__parameters_may_be_numpy_numbers(tmp_path: Path) -> None:
    model = MomentLabeler(np.int64(2), smoothing=np.float64(0.25), random_state=np.int32(3)).fit(X, Y)
    model.save(tmp_path / "numpy.zarr")
    loaded = MomentLabeler.load(tmp_path / "numpy.zarr")
    assert loaded.get_params() == model.get_params()


def test_save__no_pickle(saved: Path) -> None:
    files = [path for path in saved.rglob("*") if path.is_file()]
    assert len(files) > 2 * len(ARRAYS)
    for path in files:
        content = path.read_bytes()
        assert b"pickle" not in content.lower()
        if path.name == "zarr.json":
            json.loads(content)
        else:
            assert "c" in path.relative_to(saved).parts  # a chunk
    data_types = {json.loads(path.read_text()).get("data_type") for path in files if path.name == "zarr.json"}
    assert data_types == {None, "float16", "float32", "float64", "int32", "int64", "uint8"}


def test_save__existing_is_refused(copy: Path, model: MomentLabeler) -> None:
    before = (copy / "zarr.json").read_bytes()
    with pytest.raises(StoreError, match=r"exists already.*overwrite"):
        model.save(copy)
    assert (copy / "zarr.json").read_bytes() == before


def test_save__overwrite_replaces(copy: Path) -> None:
    other = MomentLabeler(3).fit(X[:, :9], Y)
    other.save(copy, overwrite=True)
    assert MomentLabeler.load(copy).word_topics_.shape == (9, 3)
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


@pytest.mark.parametrize("there", ["file", "folder", "corpus", "group"])
def test_save__never_replaces_what_is_no_model(tmp_path: Path, model: MomentLabeler, there: str) -> None:
    path = tmp_path / "there"
    if there == "file":
        path.write_text("precious")
    elif there == "folder":
        path.mkdir()
    elif there == "corpus":
        ingest_matrices(X, Y, path)
    else:
        zarr.create_group(path)
    with pytest.raises(StoreError, match="not replaced"):
        model.save(path, overwrite=True)
    assert path.exists()
    with pytest.raises(StoreError):
        MomentLabeler.load(path)


def test_save__nowhere(tmp_path: Path, model: MomentLabeler) -> None:
    with pytest.raises(StoreError, match="no directory"):
        model.save(tmp_path / "missing" / "model.zarr")


def test_save__unfitted(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        MomentLabeler().save(tmp_path / "unfitted.zarr")
    assert not list(tmp_path.iterdir())


def test_load__missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no model at .*nothing.*threepass fit"):
        MomentLabeler.load(tmp_path / "nothing")


def test_load__a_corpus_is_no_model(tmp_path: Path) -> None:
    ingest_matrices(X, Y, tmp_path / "c.zarr")
    with pytest.raises(StoreError, match="not a model"):
        MomentLabeler.load(tmp_path / "c.zarr")


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads((path / "zarr.json").read_text())
    content["attributes"]["threepass"].pop("checksum")  # or all of this would be noticed by it
    change(content["attributes"]["threepass"])
    (path / "zarr.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda mark: mark.update(version=1), "version 1;.*fitted again: threepass fit CORPUS MODEL"),
        (lambda mark: mark.update(version=3), "version 3;.*Upgrade"),
        (lambda mark: mark.pop("version"), "version None"),
        (lambda mark: mark.update(format="threepass-corpus"), "not a model"),
        (lambda mark: mark.pop("parameters"), "damaged.*parameters"),
        (lambda mark: mark["parameters"].update(colour="red"), "damaged.*colour"),
        (lambda mark: mark.update(parameters=[1]), "damaged"),
        (lambda mark: mark.pop("statistics"), "damaged.*statistics"),
        (lambda mark: mark["statistics"].pop("n_docs"), "damaged.*n_docs"),
        (lambda mark: mark.pop("fit_stats"), "damaged.*fit_stats"),
    ],
)
def test_load__a_description_that_lies_is_refused(copy: Path, change: Any, why: str) -> None:
    edit(copy, change)
    with pytest.raises(StoreError, match=why):
        MomentLabeler.load(copy)


def test_load__without_its_mark(copy: Path) -> None:
    content = json.loads((copy / "zarr.json").read_text())
    content["attributes"].clear()
    (copy / "zarr.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match="not a model"):
        MomentLabeler.load(copy)


@pytest.mark.parametrize("name", ARRAYS)
def test_load__a_missing_array_is_named(copy: Path, name: str) -> None:
    shutil.rmtree(copy / name)
    with pytest.raises(StoreError, match=f"model.*damaged.*{name}.*Fit it again"):
        MomentLabeler.load(copy)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("wrong", ["shape", "type"])
def test_load__an_array_of_another_shape_or_type(copy: Path, name: str, wrong: str) -> None:
    root = zarr.open_group(copy, mode="r+")
    array = np.asarray(root[name][...])  # type: ignore[index]
    array = array[:-1] if wrong == "shape" else array.astype(np.int16)
    root.create_array(name, data=array, overwrite=True)
    with pytest.raises(StoreError, match="damaged"):
        MomentLabeler.load(copy)


@pytest.mark.parametrize("name", ["moments/whitening", "parts/memory/values", "label_counts"])
@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "remove"])
def test_load__a_damaged_chunk_is_refused(copy: Path, name: str, damage: str) -> None:
    (chunk,) = (path for path in (copy / name / "c").rglob("*") if path.is_file())
    content = bytearray(chunk.read_bytes())
    if damage == "remove":
        chunk.unlink()
    elif damage == "flip":
        content[-1] ^= 4
        chunk.write_bytes(content)
    else:
        chunk.write_bytes(content[:18] if damage == "truncate" else b"")
    with pytest.raises(StoreError, match=f"damaged.*{name}"):
        MomentLabeler.load(copy)


def test_load__names_of_other_labels_are_refused(copy: Path) -> None:
    root = zarr.open_group(copy, mode="r+")
    offsets = np.asarray(root["names/labels/offsets"][...])  # type: ignore[index]
    root.create_array("names/labels/offsets", data=offsets[:-1], overwrite=True)
    with pytest.raises(StoreError, match="damaged"):
        MomentLabeler.load(copy)


# -- a fit that saves as it goes -----------------------------------------------------------------------------


def test_fit_to__saves_what_it_fits_and_keeps_its_log(tmp_path: Path) -> None:
    corpus = ingest_matrices(X, Y, tmp_path / "c.zarr")
    model = MomentLabeler(2, head="posterior")
    assert model.fit_to(corpus, tmp_path / "m.zarr", run_log=tmp_path / "run.jsonl") is model
    loaded = MomentLabeler.load(tmp_path / "m.zarr")
    np.testing.assert_array_equal(
        loaded.word_topics_, MomentLabeler(2, head="posterior").fit(X, Y).word_topics_
    )
    assert list(loaded.fit_stats_["seconds"])[-1] == "save"
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)
    assert len(lines) >= 3
    assert not (tmp_path / "m.zarr.run").exists()
    with pytest.raises(StoreError, match=r"exists already.*overwrite"):
        model.fit_to(corpus, tmp_path / "m.zarr")
    model.fit_to(corpus, tmp_path / "m.zarr", overwrite=True)


def test_describe__a_saved_model(saved: Path, model: MomentLabeler) -> None:
    said = describe_model(saved)
    assert (said["topics"], said["terms"], said["labels"]) == (2, 23, 7)
    assert said["bytes_on_disk"] > 1000
    assert said["parameters"] == model.get_params()
    text = render_model(json.loads(json.dumps(said)))
    assert text.startswith("a model with the head blend: 2 topics, 23 terms, 7 labels\n")
    assert "learned from 300 documents" in text
    assert "takes words as columns" in text
    html = model._repr_mimebundle_()["text/html"]
    assert "reads of the corpus" in html
    assert "reads of the corpus" not in MomentLabeler()._repr_mimebundle_()["text/html"]
