"""A model without its estimator: what it imports, and that it does everything but learn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import threepass
from tests.conftest import random_matrices
from threepass import MomentLabeler, Predictor, StoreError, ingest_matrices
from threepass.model.predictor import predictor_of

X, Y = random_matrices(300, 23, 7)
NEVER = ["sklearn", "pandas", "scipy.stats", "threepass.model.labeler", "threepass.model.fitting"]
NEVER += ["threepass.moments.method", "threepass.passes.runner", "threepass.passes.checkpoints"]
WITH_TEXT = ["pyarrow", "dask.distributed", "distributed"]


@pytest.fixture(scope="module")
def model() -> MomentLabeler:
    return MomentLabeler(3, head_dim=8).fit(X, Y)


@pytest.fixture(scope="module")
def saved(model: MomentLabeler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predictor") / "m.zarr"
    model.save(path)
    return path


# -- imports -------------------------------------------------------------------------------------------------


def loaded_by(program: str, *arguments: Any) -> set[str]:
    """Modules that a program has loaded."""
    program += "\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(json.loads(output.splitlines()[-1]))


def test_import__loads_nothing_that_learns() -> None:
    found = loaded_by("from threepass.model.predictor import Predictor")
    assert not found & set(NEVER)


def test_import__loads_neither_pyarrow_nor_the_cluster() -> None:
    assert not loaded_by("from threepass import Predictor; Predictor") & set(WITH_TEXT)


def test_predicting__loads_nothing_that_learns(saved: Path) -> None:
    program = """
import sys, numpy as np
from threepass import Predictor
model = Predictor.load(sys.argv[1])
X, Y = np.eye(3, 23), np.eye(3, 7)
model.predict_topk(X), model.predict(X), model.transform(X), model.predict_proba(X)
model.evaluate(X, Y), model.explain(X[0], 1), model.topics(), model.guarantee()
"""
    found = loaded_by(program, saved)
    assert not found & set(NEVER)


# -- what it does --------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
def test_load__does_what_the_estimator_does(model: MomentLabeler, saved: Path) -> None:
    predictor = Predictor.load(saved, n_threads=1)
    assert predictor.n_threads == 1
    for ours, theirs in zip(predictor.predict_topk(X, 3), model.predict_topk(X, 3), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for name in ("transform", "predict_proba"):
        np.testing.assert_array_equal(getattr(predictor, name)(X), getattr(model, name)(X))
    np.testing.assert_array_equal(predictor.predict(X).toarray(), model.predict(X).toarray())
    assert predictor.evaluate(X, Y) == model.evaluate(X, Y)
    assert str(predictor.explain(X[4], 2)) == str(model.explain(X[4], 2))
    assert predictor.topics(4) == model.topics(4)
    assert predictor.guarantee() == model.guarantee()
    assert predictor.threshold == model.threshold_
    assert predictor.scores_mean == model.scores_mean_
    assert "topics" in predictor._repr_html_()
    assert repr(predictor) == "<Predictor: 23 terms, 7 labels, head sharp>"
    assert predictor == predictor
    assert len({predictor, model.predictor_}) == 2  # told apart by what they are, not by their arrays
    assert predictor_of(predictor) is predictor
    assert predictor_of(model) is model.predictor_


def test_call__names_and_scores_of_texts() -> None:
    texts = ["ship and sea", "bread and soup", "ship on a stormy sea", "warm bread"]
    model = MomentLabeler(2).fit(texts, [["sea"], ["food"], ["sea"], ["food"]])
    predictor = model.predictor_
    (best, score), (other, _) = predictor("a ship")
    assert (best, other) == ("sea", "food")
    assert score == pytest.approx(predictor.predict_topk("a ship")[1][0, 0])
    one, none = predictor(["a ship", "zzz"], k=1)
    assert [name for name, _ in one] == ["sea"]
    assert none == []  # without a known word there is nothing to say


def test_estimator__leaves_a_predictor_that_others_hold_as_it_is(saved: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    predictor = Predictor.load(saved, n_threads=2)
    estimator = MomentLabeler.of(predictor).set_params(n_jobs=1)
    np.testing.assert_array_equal(estimator.predict_proba(X), predictor.predict_proba(X))
    assert (predictor.n_threads, estimator.predictor_.n_threads) == (2, 1)
    frame = pandas.DataFrame(X, columns=[f"word {i}" for i in range(23)])
    estimator = MomentLabeler(3, head="posterior").fit(frame, Y)
    mine = estimator.predictor_
    estimator.save(tmp_path / "m.zarr")
    assert mine.feature_names is None


def test_with_tail_weight__ranks_otherwise(model: MomentLabeler) -> None:
    plain = model.predictor_
    assert plain.with_tail_weight(0.0) is plain
    other = plain.with_tail_weight(1.0)
    assert other.tail_weight == 1
    assert plain.tail_weight == 0
    assert not np.array_equal(other.predict_topk(X, 2)[0], plain.predict_topk(X, 2)[0])
    assert other.ranking_blend.tiles is plain.blend.tiles


def test_stream_topk__tells_how_far_it_is(model: MomentLabeler, tmp_path: Path) -> None:
    corpus = ingest_matrices(X, Y, tmp_path / "c.zarr", block_bytes=4_000)
    told: list[tuple[str, float, float]] = []
    parts = list(model.predictor_.stream_topk(corpus, 2, lambda *step: told.append(step)))
    assert len(parts) == corpus.n_blocks > 1
    assert told[-1] == ("predict", 300, 300)
    np.testing.assert_array_equal(np.concatenate([own for own, _ in parts]), model.predict_topk(X, 2)[0])


# -- older models --------------------------------------------------------------------------------------------


def test_load__an_older_format_says_how_to_go_on(tmp_path: Path) -> None:
    root = zarr.create_group(tmp_path / "old.zarr", zarr_format=3)
    root.attrs["threepass"] = {"format": "threepass-model", "version": 1, "head": {"kind": "blend"}}
    for load in (Predictor.load, MomentLabeler.load, threepass.check):
        with pytest.raises(StoreError) as refused:
            load(tmp_path / "old.zarr")
        message = str(refused.value)
        assert "has model format version 1; this threepass reads version 2." in message
        assert message.endswith("An older model has to be fitted again: threepass fit CORPUS MODEL")
        assert "\n" not in message
