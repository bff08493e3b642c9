"""A comparison from end to end on a tiny data set, and how its results are shown."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import compare as compare_module
from benchmarks.compare import Contest, chosen_methods, compare, propensity_of
from benchmarks.datasets import prepare_split
from benchmarks.figures import draw_all
from benchmarks.methods import METHODS, peer
from benchmarks.paper import STATED
from benchmarks.tables import comparison
from threepass import SHAPES, InputError

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 300 documents in which a word stands for each label."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for split, n in (("train", 250), ("test", 50)):
        lines = [f"{n} 40 8"]
        for _ in range(n):
            labels = np.unique(rng.integers(8, size=2))
            words = np.unique([*labels, *(8 + rng.integers(32, size=6))])
            lines.append(",".join(map(str, labels)) + " " + " ".join(f"{word}:1" for word in words))
        path = folder / "tiny" / f"{split}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize(
    ("methods", "ks"),
    [
        (["threepass", "leml"], [5]),
        pytest.param(["threepass", "threepass-paper", "leml"], [3, 5], marks=pytest.mark.exhaustive),
    ],
    ids=len,
)
def test_compare__from_end_to_end(methods: list[str], ks: list[int], data: Path, tmp_path: Path) -> None:
    contest = Contest(prepare_split("tiny", data, tmp_path), tmp_path, threads=2)
    result = compare(contest, "tiny", methods, ks, tmp_path / "out")
    rows = {(row["method"], row["k"]): row for row in result["rows"]}
    assert len(rows) == len(ks) * len(methods)
    assert all(row["status"] == "done" for row in rows.values()), rows
    assert rows["threepass", 5]["p@1"] > 0.8
    assert rows["leml", 5]["p@1"] > 0.5
    for row in rows.values():
        assert 0 < row["train_seconds"] < row["process_seconds"]
        assert 1e7 < row["train_peak_bytes"] < 2e9
        assert row["model_bytes"] > 0
    assert rows["leml", ks[0]]["chosen"] == rows["leml", 5]["chosen"]
    curve = rows["leml", 5]["curve"]
    chosen = rows["leml", 5]["chosen"]["n_outer"]
    assert curve[chosen - 1]["p@1"] == pytest.approx(rows["leml", 5]["p@1"])
    assert curve[chosen - 1]["seconds"] == rows["leml", 5]["train_seconds"]
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == json.loads(json.dumps(result))
    assert "LEML" in (tmp_path / "out" / "table.md").read_text()
    for name in ["auc_by_k", "memory_by_k"] * (len(ks) > 1) + ["quality_by_seconds"]:
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("method", ["ova", pytest.param("wsabie", marks=pytest.mark.exhaustive)])
def test_compare__other_methods(method: str, data: Path, tmp_path: Path) -> None:
    contest = Contest(prepare_split("tiny", data, tmp_path, test_docs=20), tmp_path, threads=1)
    assert contest.test.n_docs == 20
    row = contest.run(method, 5)
    assert row["status"] == "done", row
    assert row["p@1"] > 0.3


def test_compare__methods_that_do_not_run(data: Path, tmp_path: Path) -> None:
    contest = Contest(prepare_split("tiny", data, tmp_path, test_docs=20), tmp_path, threads=1)
    contest.timeout = 60
    refused = contest.run("leml", 0)
    assert refused["status"] == "refused"
    assert refused["reason"].startswith("LEML needs a rank")
    contest.timeout = 0.5
    assert contest.run("leml", 5)["status"] == "timeout"
    contest.timeout = 60
    contest.split = prepare_split("tiny", data, tmp_path, test_docs=20)
    Path(contest.split.train, "zarr.json").unlink()
    failed = contest.run("leml", 5)
    assert failed["status"] == "failed"
    assert "zarr" in failed["reason"]


def test_compare__absent_peers_are_listed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "pecos", replace(METHODS["pecos"], package="not_there_at_all"))
    contest = Contest(prepare_split("tiny", data, tmp_path), tmp_path, threads=1)
    row = contest.run("pecos", 5)
    reason = "not_there_at_all is not installed"
    assert row == {"method": "pecos", "k": None, "status": "absent", "reason": reason}


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.module == "peer"])
def test_compare__peers_where_they_are_installed(method: str, data: Path, tmp_path: Path) -> None:
    contest = Contest(prepare_split("tiny", data, tmp_path), tmp_path, threads=1)
    row = contest.run(method, 5)
    if row["status"] == "absent":
        pytest.skip(row["reason"])
    assert row["status"] == "done", row
    assert row["p@1"] > 0.3
    assert row["model_bytes"] > 0


def test_peers__rows_of_pairs_are_filled() -> None:
    labels, scores = peer.filled([[(3, 0.5)], [], [(i, 1.0 - i / 10) for i in range(9)]])
    assert labels.tolist() == [[3, -1, -1, -1, -1], [-1] * 5, [0, 1, 2, 3, 4]]
    assert scores[0, 1] == -np.inf
    assert scores[2, 1] == np.float32(0.9)


def test_peers__need_nothing_of_threepass() -> None:
    code = "import sys, benchmarks.methods.peer; assert 'threepass' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("wrong", ["nothing", "threepass,lmel"])
def test_compare__unknown_method(wrong: str) -> None:
    with pytest.raises(InputError, match="There is no method"):
        chosen_methods(wrong)
    assert chosen_methods("all") == list(METHODS)


@pytest.mark.parametrize("wrong", ["amazoncat:", "amazoncat:2", "amazoncat:x", "nowhere:0.5"])
def test_prepare_split__planted_corpus_that_is_none(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="SHAPE:SCALE"):
        prepare_split(wrong, None, tmp_path)


def test_prepare_split__planted(tmp_path: Path) -> None:
    train, test = prepare_split("bibtex:0.5", None, tmp_path, test_docs=10).open()
    assert 2440 * 0.95 < train.n_docs < 2440
    assert test.n_docs == 10


def test_tables__rows_that_were_not_measured() -> None:
    measured: dict[str, Any] = dict.fromkeys(("p@1", "p@3", "p@5", "ndcg@5", "psp@1", "psp@5"), 0.5)
    measured |= {"train_seconds": 1234.5, "predict_seconds": 0.01234, "train_peak_bytes": 10**9}
    measured |= {"model_bytes": 10**6, "status": "done"}
    result: dict[str, Any] = {
        "dataset": "tiny",
        "facts": {"train_documents": 1000, "test_documents": 10, "terms": 5, "labels": 4},
        "machine": {"cpu": "some", "threads": 2, "memory_gb": 8.0, "python": "3.11"},
        "rows": [
            {"method": "threepass", "k": 90, "auc": 0.987654, **measured},
            {"method": "threepass", "k": 120, "auc": 0.5, **measured},
            {"method": "ova", "k": None, **measured},
            {"method": "leml", "k": 90, "status": "failed", "reason": "no | memory"},
            {"method": "pecos", "k": None, "status": "absent", "reason": "pecos is not installed"},
        ],
    }
    text = comparison(result)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[2].startswith("| threepass | .9877 | 50.0 |")
    assert "1,234 s" in lines[2]
    assert "0.0123 s" in lines[2]
    assert any("failed: no / memory" in line for line in lines)
    assert any("absent: pecos is not installed" in line for line in lines)
    assert all(line.count("|") == lines[0].count("|") for line in lines[:6])
    assert "| threepass | .9877 | .5000 |" in text


def test_figures__nothing_was_measured(tmp_path: Path) -> None:
    result = {"dataset": "tiny", "rows": [{"method": "leml", "k": 5, "status": "failed", "reason": ""}]}
    (path,) = draw_all(result, tmp_path)
    assert path.read_bytes().startswith(PNG)


def test_paper__its_data_sets_have_manifests_and_shapes() -> None:
    for stated in STATED:
        counts, planted = stated.manifest.counts, SHAPES[stated.shape]
        assert (counts.train_documents, counts.features, counts.labels) == (
            planted.n_docs,
            planted.n_terms,
            planted.n_labels,
        )
        assert stated.seconds[0] / stated.seconds[1] == pytest.approx(stated.speed_up, rel=0.05)


def test_propensity__of_the_manifest_reaches_the_measures(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert propensity_of("wikilshtc-325k") == (0.5, 0.4)
    assert propensity_of("tiny") == (0.55, 1.5)
    seen = []
    monkeypatch.setattr(compare_module, "propensity_of", lambda dataset: (0.3, len(dataset)))
    monkeypatch.setattr(
        compare_module, "compare", lambda contest, *_: seen.append(contest.propensity) or {"rows": []}
    )
    (tmp_path / "table.md").write_text("")
    monkeypatch.setattr(sys, "argv", ["compare", "tiny", "--data", str(data), "--out", str(tmp_path)])
    compare_module.main()
    assert seen == [(0.3, 4)]
    contest = Contest(prepare_split("tiny", data, tmp_path), tmp_path, threads=1)
    labels = np.tile(np.arange(5, dtype=np.int32), (contest.test.n_docs, 1))
    usual = contest.quality(labels)
    contest.propensity = (0.1, 9.0)
    other = contest.quality(labels)
    assert other["psp@5"] != usual["psp@5"]
    assert other["p@5"] == usual["p@5"]
