from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import mutations
from benchmarks.mutators import KINDS


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_mutations__do_no_harm(count: int) -> None:
    result = mutations.run(count=count, seed=17)
    assert result["failures"] == []
    assert set(result["by_kind"]) == set(KINDS)
    assert sum(result["outcomes"].values()) == count
    assert result["outcomes"]["refused"] > count / 2
    assert 0.5 < result["most_memory_over_normal"] < 2


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    mutations.make_stores(folder)
    return folder


@pytest.mark.parametrize("name", mutations.STORES)
def test_outcome__tells_answers_apart(stores: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = mutations.answers(stores / name)
    assert mutations.outcome(stores / name, wanted) == ("harmless", "")
    assert mutations.outcome(stores / name, "other")[0] == "another answer"
    monkeypatch.setattr(mutations, "answers", lambda path: 1 / 0)
    assert mutations.outcome(stores / name, wanted)[0] == "exception"


def test_mutation__is_the_same_again(stores: Path, tmp_path: Path) -> None:
    before = {name: mutations.answers(stores / name) for name in mutations.STORES}
    for number in range(15):
        first = mutations.mutation(stores, tmp_path / f"a{number}", 5, number)
        second = mutations.mutation(stores, tmp_path / f"b{number}", 5, number)
        assert (*first[:2], first[3]) == (*second[:2], second[3])
    assert before == {name: mutations.answers(stores / name) for name in mutations.STORES}


def test_records__a_crash_is_laid_to_the_mutation_that_ran() -> None:
    """A child that does the odd ones, and dies at the others."""
    code = """
import json, os, sys
for number in range(int(sys.argv[1]), 5):
    print(json.dumps({"number": number, "kind": "flip"}), flush=True)
    if number % 2 == 0:
        os.abort()
    print(json.dumps({"number": number, "outcome": "refused", "memory": 1.0}), flush=True)
"""
    found = list(mutations.records(lambda first: [sys.executable, "-c", code, str(first)], 5))
    assert [record["outcome"] for record in found] == ["crash", "refused", "crash", "refused", "crash"]
    assert [record["number"] for record in found] == list(range(5))
    assert found[0]["message"] == "exit code -6"


@pytest.mark.parametrize("code", ["", "raise SystemExit(3)"])
def test_records__a_child_that_does_nothing(code: str) -> None:
    with pytest.raises(RuntimeError, match="before it was done"):
        list(mutations.records(lambda first: [sys.executable, "-c", code], 1))


def test_records__a_child_that_hangs() -> None:
    code = 'import time; print(\'{"number": 0, "kind": "link"}\', flush=True); time.sleep(60)'
    (record,) = mutations.records(lambda first: [sys.executable, "-c", code], 1, patience=0.5)
    assert record["outcome"] == "hung"
