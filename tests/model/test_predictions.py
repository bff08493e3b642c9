from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import zarr

from threepass import Corpus, MomentLabeler, Planted, StoreError, ingest_planted
from threepass.ingest.synthetic import Lengths
from threepass.model.predictions import predict_to_file

Fitted = tuple[MomentLabeler, Corpus]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    planted = Planted(1500, 200, 12, 3, words=Lengths(20, 18), labels=Lengths(1, 1))
    corpus = ingest_planted(planted, tmp_path_factory.mktemp("predict") / "c.zarr", block_bytes=40_000)
    assert corpus.n_blocks > 5
    return MomentLabeler(3, n_jobs=2).fit(corpus), corpus


def test_predict__zarr_holds_what_predict_topk_says(fitted: Fitted, tmp_path: Path) -> None:
    model, corpus = fitted
    view = corpus.split(test=0.5, seed=1)[1]
    predict_to_file(model, view, tmp_path / "p.zarr", k=4)
    labels, scores = model.predict_topk(view, 4)
    root = zarr.open_group(tmp_path / "p.zarr", mode="r")
    np.testing.assert_array_equal(root["labels"][:], labels)
    np.testing.assert_array_equal(root["scores"][:], scores)
    np.testing.assert_array_equal(root["documents"][:], view.doc_ids)


def test_predict__parquet_holds_the_same_with_names(fitted: Fitted, tmp_path: Path) -> None:
    model, corpus = fitted
    predict_to_file(model, corpus, tmp_path / "p.parquet", k=20)  # more than there are labels
    labels, scores = model.predict_topk(corpus, 12)
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    assert table["document"].to_pylist() == list(range(corpus.n_docs))
    assert table["labels"].to_pylist() == labels.tolist()
    np.testing.assert_array_equal(np.array(table["scores"].to_pylist(), np.float32), scores)
    assert table["names"][0].as_py() == [corpus.labels[i] for i in labels[0]]


@pytest.mark.parametrize("name", ["p.zarr", "p.parquet"])
def test_predict__existing_files_are_safe(fitted: Fitted, tmp_path: Path, name: str) -> None:
    model, corpus = fitted
    predict_to_file(model, corpus.head(10), tmp_path / name)
    with pytest.raises(StoreError, match="exists already"):
        predict_to_file(model, corpus, tmp_path / name)
    predict_to_file(model, corpus.head(20), tmp_path / name, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if name == "p.parquet":
        assert pyarrow.parquet.read_table(tmp_path / name).num_rows == 20


@pytest.mark.parametrize("name", ["p.zarr", "p.parquet"])
def test_predict__nothing_is_left_when_it_fails(fitted: Fitted, tmp_path: Path, name: str) -> None:
    model, corpus = fitted

    def stop(stage: str, done: float, total: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_to_file(model, corpus, tmp_path / name, progress=stop)
    assert not list(tmp_path.iterdir())
    with pytest.raises(StoreError, match="no directory"):
        predict_to_file(model, corpus, tmp_path / "nowhere" / name)


def test_predict__progress_counts_documents(fitted: Fitted, tmp_path: Path) -> None:
    model, corpus = fitted
    steps: list[tuple[str, float, float]] = []
    predict_to_file(model, corpus, tmp_path / "p.zarr", progress=lambda *step: steps.append(step))
    assert steps[-1] == ("predict", 1500, 1500)
    assert steps[0] == ("predict", 0, 1500)
    assert len(steps) == 1 + corpus.n_blocks
