"""Single texts by the clock: what is asked of a process, what it answers, and how it is shown."""

from __future__ import annotations

import io
import json
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks import latency, one_text
from tests.conftest import random_matrices
from tests.model.test_texts import write_posts
from threepass import Corpus, MomentLabeler, ingest_text


@pytest.fixture(scope="module")
def texts_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("latency")
    corpus = ingest_text(write_posts(folder / "posts.jsonl"), folder / "c.zarr")
    MomentLabeler(n_components=3).fit(corpus).save(folder / "model.zarr")
    return folder / "model.zarr"


def test_drawn__texts_or_rows_that_the_model_knows(texts_model: Path) -> None:
    model = MomentLabeler.load(texts_model)
    documents = one_text.drawn(model, 5)
    assert documents == one_text.drawn(model, 5)
    assert all(set(text.split()) <= set(model.term_names_) for (text,) in documents)
    X, Y = random_matrices(60, 23, 7)
    rows = one_text.drawn(MomentLabeler(n_components=2).fit(X, Y), 5)
    assert [row.shape for row in rows] == [(1, 23)] * 5
    assert all(row.nnz for row in rows)


def test_main__answers_each_request(
    texts_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = [{"model": str(texts_model), "texts": 7}, {"clients": 1}, {"clients": 3}]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(json.dumps, requests))))
    one_text.main()
    ready, *answers = map(json.loads, capsys.readouterr().out.splitlines())
    assert ready == {}
    assert [answer["clients"] for answer in answers] == [1, 3]
    for answer in answers:
        assert len(answer["ms"]) == 7
        assert 0 < max(answer["ms"]) <= 1000 * answer["seconds"]


def test_measure__versions_take_turns_with_and_without_a_busy_process(tmp_path: Path, small: object) -> None:
    assert isinstance(small, tuple)
    corpus = small[0]
    assert isinstance(corpus, Corpus)
    arguments = Namespace(models=[], texts=3, clients="1", rounds=1, beside=True, before=None)
    rows = latency.measure(arguments, str(tmp_path / "small.zarr"))
    assert [(row["what"], row["beside"], row["version"]) for row in rows] == [
        (latency.FIT, False, "now"),
        (latency.FIT, True, "now"),
    ]
    assert all(0 < row["median_s"] <= row["worst_s"] for row in rows)


def test_table__versions_side_by_side() -> None:
    answers = [{"seconds": 0.4, "ms": [1.0, 2.0, 30.0, 4.0]}, {"seconds": 0.2, "ms": [2.0, 2.0, 2.0, 2.0]}]
    own = latency.summary(answers)
    assert own == {"median_ms": 2.0, "ninety_percent_ms": 11.8, "ms_a_text": 75.0}
    fit = latency.summary([{"seconds": 3.0}, {"seconds": 1.0}, {"seconds": 2.0}])
    rows = [
        {"what": what, "beside": beside, "version": version, **numbers}
        for what, beside, numbers in (("m", False, own | {"clients": 4}), ("fit", True, fit))
        for version in ("now", "before")
    ]
    text = "2.00 ms (90 %: 11.80; each: 75.00)"
    fitted = "2.0 s (worst 3.0)"
    assert latency.table(rows).splitlines() == [
        "|  | now | before |",
        "|---|---:|---:|",
        f"| m, 4 at a time | {text} | {text} |",
        f"| fit, beside a busy process | {fitted} | {fitted} |",
    ]
