"""Models that are damaged, or made to do harm: each is refused in a line that says where."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.mutators import forge
from tests.conftest import random_matrices
from tests.damage import at, edit, edit_mark, set_to, stored, without_checksums
from threepass import MomentLabeler, StoreError, ingest_matrices

X, Y = random_matrices(300, 23, 7)
NAMES = ["names/labels/bytes", "names/labels/offsets", "names/terms/bytes", "names/terms/offsets"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every array that a model can have."""
    path = tmp_path_factory.mktemp("whole") / "m.zarr"
    corpus = ingest_matrices(X, Y, path.with_name("c.zarr"))
    model = MomentLabeler(2, head="blend").fit(corpus.head(299))
    assert model.training_documents_ is not None
    assert model.training_documents_.rows is not None
    assert model.head_.memory is not None
    assert model.head_.memory.nnz > 10
    model.save(path)
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A model to damage."""
    return Path(shutil.copytree(whole, tmp_path / "m.zarr"))


def refused(path: Path, why: str) -> None:
    with pytest.raises(StoreError, match=why) as error:
        MomentLabeler.load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("damage", ["flip", "truncate", "append", "remove chunk", "remove"])
def test_files__damage_to_any_array_is_named(whole: Path, tmp_path: Path, damage: str) -> None:
    names = [path.parent.relative_to(whole).as_posix() for path in sorted(whole.rglob("c"))]
    assert set(NAMES) < set(names)
    assert len(names) > 20
    for i, name in enumerate(names):
        store = Path(shutil.copytree(whole, tmp_path / str(i)))
        chunk = next(path for path in (store / name / "c").rglob("*") if path.is_file())
        content = bytearray(chunk.read_bytes())
        if damage == "flip":
            content[-3] ^= 1
            chunk.write_bytes(content)
        elif damage == "truncate":
            chunk.write_bytes(content[:-1])
        elif damage == "append":
            chunk.write_bytes(content + b"\0")
        elif damage == "remove chunk":
            chunk.unlink()
        else:
            shutil.rmtree(store / name)
        refused(store, f"model at .* is damaged at {name}.*Fit it again")


@pytest.mark.parametrize("name", ["zarr.json", "word_topics/c/0/0", "weights", "names"])
def test_links__out_of_the_store_are_refused(store: Path, tmp_path: Path, name: str) -> None:
    shutil.move(store / name, tmp_path / "outside")
    (store / name).symlink_to(tmp_path / "outside")
    refused(store, "a link that leads out of the store")


def test_links__to_the_store_are_fine(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store)
    assert MomentLabeler.load(tmp_path / "link").n_features_in_ == 23


def test_files__a_pipe_is_not_waited_for(store: Path) -> None:
    (store / "word_topics/c/0/0").unlink()
    os.mkfifo(store / "word_topics/c/0/0")
    refused(store, "it is not a file")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shape", [23, 10**9]),
        ("shape", [10**12, 2]),
        ("shape", [23]),
        ("data_type", "float64"),
        ("codecs", [{"name": "numcodecs.pickle", "configuration": {}}]),
        ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [1, 1]}}),
        ("fill_value", 7),
    ],
)
def test_metadata__only_what_is_written_is_read(store: Path, key: str, value: Any) -> None:
    edit(store / "word_topics/zarr.json", lambda metadata: metadata.update({key: value}))
    refused(store, "damaged at word_topics")


@pytest.mark.parametrize(
    "name", ["word_topics", "weights", "memory_labels", "label_counts", "names/terms/bytes"]
)
def test_metadata__absurd_sizes_take_no_memory(store: Path, name: str) -> None:
    def grow(metadata: dict[str, Any]) -> None:
        shape = [10**11, *metadata["shape"][1:]]
        metadata["shape"] = shape
        rows = 2**27 // int(np.prod(shape[1:]))
        metadata["chunk_grid"]["configuration"]["chunk_shape"] = [rows, *shape[1:]]

    edit(store / name / "zarr.json", grow)
    tracemalloc.start()
    refused(store, f"damaged at {name}")
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_mark__any_change_is_noticed(store: Path) -> None:
    edit(store / "zarr.json", set_to("attributes", "threepass", "head", "temperature", to=1.25))
    refused(store, "checksum of its root's attributes does not match")


@pytest.mark.parametrize(
    "change",
    [
        *(set_to("head", "kind", to=value) for value in ("best", "posterior", None, [])),
        *(set_to("head", "weighting", to=value) for value in ("tf", None, 3)),
        *(
            set_to("head", "temperature", to=value)
            for value in (0, -1, float("nan"), float("inf"), "1", None)
        ),
        *(set_to("head", "smoothing", to=value) for value in (-0.1, 1.1, float("nan"), "0.1", True)),
        *(set_to("head", "topics_weight", to=value) for value in (float("inf"), "a", None)),
        set_to("head", to=7),
        set_to("head", to={}),
        *(set_to("statistics", "n_docs", to=value) for value in (0, -3, 1.5, "300", 10**30)),
        *(set_to("statistics", "pairs", to=value) for value in (0, -1, float("nan"), float("inf"), "1")),
        set_to("statistics", "more", to=1),
        *(set_to("parameters", "n_components", to=value) for value in (0, "2", None)),
        *(set_to("parameters", "tail_weight", to=value) for value in (2, float("nan"), "0")),
        set_to("parameters", "n_jobs", to="x"),
        set_to("parameters", "n_jobs", to=-4),
        set_to("parameters", "__class__", to="x"),
        set_to("n_passes", to="3"),
        set_to("tensor_residual", to=[1]),
        set_to("fit_stats", to=7),
        *(set_to("documents", to=value) for value in (7, {}, {"all": False})),
        set_to("crc32c", to=7),
        set_to("crc32c", "weights", to=1),
        set_to("crc32c", "weights", to=None),
        lambda mark: mark["crc32c"].pop("weights"),
        lambda mark: mark.pop("head"),
    ],
)
def test_mark__a_lie_with_the_right_checksum(store: Path, change: Any) -> None:
    edit_mark(store, change)
    refused(store, "damaged")


def test_mark__without_checksums_as_models_once_were(store: Path, whole: Path) -> None:
    def forget_names(tree: dict[str, Any]) -> None:
        for name in NAMES:
            del tree["attributes"]["threepass"]["crc32c"][name]

    edit(store / "zarr.json", forget_names)
    without_checksums(store)
    ours, theirs = MomentLabeler.load(store), MomentLabeler.load(whole)
    np.testing.assert_array_equal(ours.predict_proba(X), theirs.predict_proba(X))
    assert ours.label_names_ == theirs.label_names_


FINITE = "not all of its numbers are finite"


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        *((name, at(0, np.nan), FINITE) for name in ("whitening", "eigenvalues", "word_topics", "idf")),
        *((name, at(0, np.inf), FINITE) for name in ("weights", "basis", "topic_weights", "label_topics")),
        *((name, at(0, -np.inf), FINITE) for name in ("phases", "memory_values", "calibration_scores")),
        ("word_topics", at((0, 0), -1), "below 0"),
        ("topic_weights", at(0, -1), "below 0"),
        ("eigenvalues", at(1, 0), "not all positive"),
        ("eigenvalues", at(1, 1e-300), "its attributes"),  # of which the guarantee cannot be computed
        ("label_counts", at(0, -1), "below 0"),
        ("calibration_scores", np.flip, "does not increase"),
        (
            "calibration_scores",
            lambda a: np.linspace(-3e38, 3e38, len(a), dtype=np.float32),
            "between 0 and 1",
        ),
        ("calibration_probabilities", at(-1, 2), "between 0 and 1"),
        ("calibration_probabilities", lambda a: a[:-1], "wanted is float32"),
        ("calibration_scores", lambda a: a[:0], "wanted is float32, 0 values"),
        ("memory_indptr", at(3, 2**62), "row starts are not in order"),
        ("memory_indptr", at(0, -1), "row starts are not in order"),
        ("memory_indptr", lambda a: a[:-1], "wanted is int64, 24 values"),
        ("memory_labels", at(0, 2**31 - 1), "columns are not all"),
        ("memory_labels", at(0, -1), "columns are not all"),
        ("memory_labels", np.flip, "not sorted"),
        ("memory_values", lambda a: a[:-1], "wanted is float16 or float32"),
        ("weights", lambda a: a[:, :-1], "wanted is float16 or float32, 7 x"),
        ("whitening", lambda a: a.T, "wanted is float32, 23 x 2"),
        ("idf", lambda a: a.astype(np.float64), "it is float64"),
        ("waves", lambda a: a[:-1], "wanted is float32"),
        ("document_hashes", np.flip, "do not increase"),
        ("document_hashes", at(0, -2), "do not increase"),
        ("document_hashes", lambda a: np.arange(2**15 + 1), "too many"),
        ("document_hashes", lambda a: a.astype(np.float64), "it is float64"),
        ("document_rows", lambda a: a.astype(np.int32), "it is int32"),
        ("names/labels/bytes", at(0, 255), "UTF-8"),
        ("names/terms/offsets", at(2, 0), "begin at 0"),
    ],
)
def test_forged__arrays(store: Path, name: str, change: Callable[..., Any], why: str) -> None:
    forge(store, name, np.ascontiguousarray(change(stored(store, name))))
    refused(store, f"damaged at .*{why}")
