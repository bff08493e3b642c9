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
from zarr.core.buffer.cpu import Buffer
from zarr.storage import MemoryStore

from benchmarks.mutators import forge
from tests.conftest import random_matrices
from tests.damage import at, edit, edit_mark, set_to, stored
from threepass import MomentLabeler, StoreError, ingest_matrices
from threepass.model.files import load_predictor

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
    names = [part.name for part in model.predictor_.blend.parts]
    assert names == ["ridge", "memory", "refined"], "the case that is tested"
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
def test_files__damage_to_any_array_is_named(whole: Path, damage: str) -> None:
    """In memory: every array is damaged in turn, which files would take long for."""
    files = {p.relative_to(whole).as_posix(): p.read_bytes() for p in whole.rglob("*") if p.is_file()}
    names = sorted({name.partition("/c/")[0] for name in files if "/c/" in name})
    assert set(NAMES) < set(names)
    assert len(names) > 20
    for name in names:
        chunk = next(file for file in files if file.startswith(f"{name}/c/"))
        damaged, content = dict(files), bytearray(files[chunk])
        if damage == "flip":
            content[-3] ^= 1
        damaged[chunk] = {"truncate": bytes(content[:-1]), "append": bytes(content) + b"\0"}.get(
            damage, bytes(content)
        )
        gone = {"remove chunk": chunk, "remove": f"{name}/"}.get(damage, "nothing")
        held = {file: Buffer.from_bytes(b) for file, b in damaged.items() if not file.startswith(gone)}
        with pytest.raises(StoreError, match=f"model at .* is damaged at {name}.*Fit it again"):
            load_predictor(MemoryStore(held))


@pytest.mark.parametrize(
    "name", ["zarr.json", "moments/whitening/c/0/0", "parts/ridge/weights", "parts", "names"]
)
def test_links__out_of_the_store_are_refused(store: Path, tmp_path: Path, name: str) -> None:
    shutil.move(store / name, tmp_path / "outside")
    (store / name).symlink_to(tmp_path / "outside")
    refused(store, "a link that leads out of the store")


def test_links__to_the_store_are_fine(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store)
    assert MomentLabeler.load(tmp_path / "link").n_features_in_ == 23


def test_files__a_pipe_is_not_waited_for(store: Path) -> None:
    (store / "moments/whitening/c/0/0").unlink()
    os.mkfifo(store / "moments/whitening/c/0/0")
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
    edit(store / "moments/whitening/zarr.json", lambda metadata: metadata.update({key: value}))
    refused(store, "damaged at moments/whitening")


@pytest.mark.parametrize(
    "name",
    ["moments/whitening", "parts/ridge/weights", "parts/memory/labels", "label_counts", "names/terms/bytes"],
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
    edit(store / "zarr.json", set_to("attributes", "threepass", "head", "threshold", to=0.125))
    refused(store, "checksum of its root's attributes does not match")


@pytest.mark.parametrize(
    "change",
    [
        *(set_to("head", "name", to=value) for value in ("best", "posterior", None, [])),
        *(set_to("head", "weighting", to=value) for value in ("tf", None, 3)),
        *(set_to("head", "threshold", to=value) for value in (-0.1, 2, float("nan"), "0.1", True)),
        *(set_to("head", "is_calibrated", to=value) for value in (False, None, 0)),
        *(set_to("head", "parts", to=value) for value in (7, {}, None, {"posterior": {}})),
        *(set_to("head", "parts", "memory", to=value) for value in (7, {}, None)),
        *(set_to("head", "parts", "memory", "weight", to=value) for value in (-1, float("inf"), "a", None)),
        *(
            set_to("head", "parts", "refined", "temperature", to=value)
            for value in (0, -1, float("nan"), float("inf"), "1", None)
        ),
        *(
            set_to("head", "parts", "refined", "smoothing", to=value)
            for value in (-0.1, 1.1, float("nan"), "0.1", True)
        ),
        *(set_to("head", "parts", "refined", "weight", to=value) for value in (float("inf"), "a", None)),
        set_to("head", to=7),
        set_to("head", to={}),
        *(set_to("statistics", "n_docs", to=value) for value in (0, -3, 1.5, "300", 10**30)),
        *(set_to("statistics", "pairs", to=value) for value in (0, -1, float("nan"), float("inf"), "1")),
        set_to("statistics", "more", to=1),
        *(set_to("parameters", "n_components", to=value) for value in (0, "2", None)),
        *(set_to("parameters", "tail_weight", to=value) for value in (2, float("nan"), "0")),
        set_to("parameters", "n_jobs", to="x"),
        set_to("parameters", "n_jobs", to=0),
        set_to("parameters", "__class__", to="x"),
        set_to("n_passes", to="3"),
        set_to("moments", "tensor_residual", to=[1]),
        set_to("moments", "prior", to="flat"),
        set_to("moments", to=None),
        set_to("has_feature_names", to=True),
        lambda mark: mark["parameters"].pop("words"),
        set_to("fit_stats", to=7),
        *(set_to("documents", to=value) for value in (7, {}, {"all": False})),
        set_to("crc32c", to=7),
        set_to("crc32c", "idf", to=1),
        set_to("crc32c", "idf", to=None),
        lambda mark: mark["crc32c"].pop("idf"),
        lambda mark: mark.pop("head"),
    ],
)
def test_mark__a_lie_with_the_right_checksum(store: Path, change: Any) -> None:
    edit_mark(store, change)
    refused(store, "damaged")


FINITE = "not all of its numbers are finite"


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        *(
            (f"moments/{name}", at(0, np.nan), FINITE)
            for name in ("whitening", "eigenvalues", "label_topics")
        ),
        *((f"parts/ridge/{name}", at(0, np.inf), FINITE) for name in ("weights", "basis", "phases")),
        *((f"parts/refined/{name}", at(0, -np.inf), FINITE) for name in ("word_topics", "topic_weights")),
        *((name, at(0, np.nan), FINITE) for name in ("idf", "parts/memory/values", "calibration/scores")),
        ("moments/label_topics", at((0, 0), -1), "below 0"),
        ("moments/eigenvalues", at(1, 0), "not all positive"),
        ("moments/eigenvalues", at(1, 1e-300), "its attributes"),  # the guarantee cannot be computed
        ("moments/eigenvalues", lambda a: a[:0], "wanted|not all positive"),
        ("moments/tensor_eigenvectors", lambda a: a[:-1], "wanted is float64, 2 x 2"),
        ("moments/whitening", lambda a: a[:0], "there are no words"),
        ("parts/refined/word_topics", at((0, 0), -1), "below 0"),
        ("parts/refined/topic_weights", at(0, -1), "below 0"),
        ("parts/refined/topic_weights", lambda a: a[:0], "there are no topics"),
        ("label_counts", at(0, -1), "below 0"),
        ("calibration/scores", np.flip, "does not increase"),
        (
            "calibration/scores",
            lambda a: np.linspace(-3e38, 3e38, len(a), dtype=np.float32),
            "between 0 and 1",
        ),
        ("calibration/probabilities", at(-1, 2), "between 0 and 1"),
        ("calibration/probabilities", lambda a: a[:-1], "wanted is float32"),
        ("calibration/scores", lambda a: a[:0], "wanted is float32, 0 values"),
        ("parts/memory/indptr", at(3, 2**62), "row starts are not in order"),
        ("parts/memory/indptr", at(0, -1), "row starts are not in order"),
        ("parts/memory/indptr", lambda a: a[:-1], "wanted is int64, 24 values"),
        ("parts/memory/labels", at(0, 2**31 - 1), "columns are not all"),
        ("parts/memory/labels", at(0, -1), "columns are not all"),
        ("parts/memory/labels", np.flip, "not sorted"),
        ("parts/memory/values", lambda a: a[:-1], "wanted is float16 or float32"),
        ("parts/ridge/weights", lambda a: a[:, :-1], "wanted is float16 or float32, 7 x"),
        ("moments/whitening", lambda a: a.T, "wanted is float32, any x 2"),
        ("idf", lambda a: a.astype(np.float64), "it is float64"),
        ("parts/ridge/waves", lambda a: a[:, :-1], "wanted is float32"),
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
