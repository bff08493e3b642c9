"""What a plan says will be done is what is done, stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.parts.learned import labelled_by_words
from threepass import Corpus, MomentLabeler, ingest_matrices
from threepass.model import fitting
from threepass.parts.heads import HEADS
from threepass.passes.plan import BASE_BYTES


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Corpus]:
    """One of which a tenth is held out, one that is judged in folds, and one of defaults."""
    folder = tmp_path_factory.mktemp("stages")
    sizes = {"large": 1100, "folds": 150, "tiny": 40}
    return {
        name: ingest_matrices(*labelled_by_words(n), folder / name, block_bytes=10_000)
        for name, n in sizes.items()
    }


READS = ["pairs", "triples", "labels"]
Case = tuple[str, str, dict[str, Any]]
CASES: list[Case] = [
    *((size, head, {}) for size in ("large", "folds") for head in HEADS),
    *(("tiny", head, {}) for head in ("blend", "sharp")),
    *(("large", head, {"refine_passes": 2}) for head in ("refined", "blend")),
    ("folds", "blend", {"refine_passes": 2}),
    *(("large", head, {"whitening": "sketch", "error_bars": False}) for head in ("posterior", "blend")),
    ("folds", "blend", {"whitening": "sketch", "refine_passes": 1}),
    ("large", "posterior", {"error_bars": False, "self_pairs": "drop"}),
    ("large", "blend", {"head_dim": 5, "prior": "uniform", "tensor": "power"}),
    ("large", "blend", {"memory_limit": BASE_BYTES + 4_000_000}),
]
MORE: list[Case] = [
    (size, head, {"whitening": whitening, "error_bars": bars, "memory_limit": limit, "refine_passes": passes})
    for size in ("large", "folds", "tiny")
    for head in HEADS
    for whitening in ("exact", "sketch")
    for bars in (True, False)
    for limit in (None, BASE_BYTES + 1_500_000, BASE_BYTES + 10**9)
    for passes in ((0, 2) if HEADS[head].refines else (0,))
]


@pytest.mark.filterwarnings("ignore:head_dim is reduced")  # by a limit of memory
@pytest.mark.parametrize(
    ("size", "head", "settings"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in MORE)],
    ids=str,
)
def test_stages__planned_and_done_agree(
    corpora: dict[str, Corpus],
    size: str,
    head: str,
    settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    mark = fitting.Clock.mark
    monkeypatch.setattr(fitting.Clock, "mark", lambda self, stage: done.append(stage) or mark(self, stage))
    model = MomentLabeler(3, head=head, **{"head_dim": 20, **settings})
    plan = model.plan(corpora[size])
    model.fit_to(corpora[size], tmp_path / "model.zarr")
    planned = [price.name for price in plan.prices]
    assert planned == done
    refined = [f"refine {i + 1}" for i in range(settings.get("refine_passes", 0))]
    assert [name for name in planned if name in (*READS, *refined)] == READS + refined
    contrast = ["look-alikes", "contrast"] if HEADS[head].has_contrast else []
    assert planned[-3 - len(contrast) :] == ["head", *contrast, "model", "save"]
    assert ("warm start" in planned) == (settings.get("whitening") == "sketch")
    assert ("error bars" in planned) == settings.get("error_bars", True)
    assert ("features" in planned) == (head in ("ridge", "blend", "sharp"))
    assert planned.count("topic words") == (1 + len(refined)) * (head in ("refined", "blend", "sharp"))
    assert model.fit_stats_["plan"]["stages"] == plan.as_dict()["stages"]
    assert model.n_passes_ == len(READS + refined)


@pytest.mark.parametrize("head", ["blend", "sharp"])
def test_stages__plans_tell_a_held_byte_for_every_stage(corpora: dict[str, Corpus], head: str) -> None:
    """What a stage leaves is held by the next one, until it is let go."""
    prices = MomentLabeler(3, head=head, head_dim=20).plan(corpora["large"]).prices
    assert all(price.held > 0 for price in prices)
    assert all(price.nbytes >= price.held for price in prices)
