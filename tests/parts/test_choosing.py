"""Choices on shortlists: the blend that they give, and that no other is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import naive_selection as naive
from tests.parts.test_selection import label_rows, never, random_labels
from threepass.parts import choosing
from threepass.parts.calibration import FEWEST_HITS
from threepass.parts.choosing import Contest, Tried, choose, defaults, own
from threepass.parts.memory import DAMPINGS, MemoryPart
from threepass.parts.memory import WEIGHTS as MEMORY_WEIGHTS
from threepass.parts.part import Context, Part, PartSettings, Scale
from threepass.parts.refined import SMOOTHINGS, TEMPERATURES, RefinedPart
from threepass.parts.refined import WEIGHTS as TOPIC_WEIGHTS
from threepass.parts.ridge import _KNOTS, STRENGTHS, RidgePart
from threepass.parts.selection import Shortlists, goodness
from threepass.parts.weighting import Weighting
from threepass.passes.plan import PARTS_BYTES
from threepass.passes.stages import Layout


def parts_of(*kinds: type[Part], smoothing: float | None = None) -> list[Part]:
    """Parts of a corpus that has no documents: choices are made of what trials say alone."""
    info = SimpleNamespace(blocks=[])
    corpus: Any = SimpleNamespace(n_docs=0, n_terms=5, n_labels=3, info=info)
    context = Context(
        PartSettings(smoothing=smoothing),
        corpus,
        moments=None,  # type: ignore[arg-type]
        layout=Layout(1, 0, PARTS_BYTES, 0),
        weighting=Weighting(np.ones(5, np.float32)),
        n_threads=1,
        is_alone=len(kinds) == 1,
    )
    return [kind(context) for kind in kinds]


BLEND = RidgePart, MemoryPart, RefinedPart
N_TOPICS = len(SMOOTHINGS) * len(TEMPERATURES)


def lists_of(n: int = 60, n_labels: int = 40, seed: int = 0, mean: float = 3.0) -> Shortlists:
    return Shortlists.of(label_rows(random_labels(n, n_labels, mean, seed)), never, seed=0)


def noise(lists: Shortlists, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(len(lists.labels)).astype(np.float32)


def tried_of(
    lists: Shortlists,
    ridge: np.ndarray | None = None,
    products: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    shares: np.ndarray | None = None,
) -> Tried:
    """What three parts say, where some of them may say nothing; one row stands for all options."""

    def rows(values: np.ndarray | None, count: int) -> np.ndarray:
        values = np.zeros(len(lists.labels)) if values is None else values
        return np.tile(values, (count, 1)) if values.ndim == 1 else values

    nothing = np.zeros(len(lists.labels))
    at: Mapping[str, dict[str, np.ndarray]] = {
        "ridge": {
            "products": rows(ridge, len(_KNOTS)) * (np.arange(len(_KNOTS)) == len(_KNOTS) - 1)[:, None]
            if ridge is None or ridge.ndim == 1
            else ridge
        },
        "memory": {
            "products": nothing if products is None else products,
            "lengths": nothing if lengths is None else lengths,
        },
        "refined": {"shares": rows(shares, N_TOPICS)},
    }
    single = {part: {name: some.astype(np.float32) for name, some in own.items()} for part, own in at.items()}
    return Tried(lists, single)


def random_tried(lists: Shortlists, seed: int = 0) -> Tried:
    rng = np.random.default_rng(seed)
    n = len(lists.labels)
    lengths = rng.choice([0, 0.5, 3, 40], n)
    return tried_of(
        lists,
        (rng.standard_normal((len(_KNOTS), n)) * 0.5 + lists.hits) / len(_KNOTS),
        lengths * (rng.random(n) + 0.5 * lists.hits),
        lengths,
        rng.random((N_TOPICS, n)) + 0.3 * lists.hits,
    )


# -- blends ---------------------------------------------------------------------------------------------


def test_defaults__and_each_parts_own() -> None:
    parts = parts_of(*BLEND)
    choice = defaults(parts)
    assert choice == {
        "ridge.strength": 1.0,
        "memory.weight": 0.5,
        "memory.damping": 1.0,
        "refined.weight": 0.2,
        "refined.smoothing": 0.1,
        "refined.temperature": 1.0,
    }
    assert [own(choice, part) for part in parts] == [part.defaults for part in parts]
    assert defaults(parts_of(RefinedPart)) == {"refined.smoothing": 0.1, "refined.temperature": 1.0}
    assert defaults(parts_of(RefinedPart, smoothing=0.2))["refined.smoothing"] == 0.2


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"memory.weight": 0.0},
        {"refined.weight": 0.0},
        {"memory.damping": 0.0},
        {"ridge.strength": 1000.0, "memory.damping": 10.0, "memory.weight": 5.0, "refined.weight": 2.0},
        {"refined.smoothing": 0.3, "refined.temperature": 4.0},
    ],
)
def test_scores__equal_the_plain_formula(changes: dict[str, float]) -> None:
    parts, tried = parts_of(*BLEND), random_tried(lists_of())
    choice = defaults(parts) | changes
    kept = {part: {name: some.copy() for name, some in at.items()} for part, at in tried.at.items()}
    scores = tried.scores(parts, choice)
    assert scores.dtype == np.float32
    row = SMOOTHINGS.index(choice["refined.smoothing"]) * len(TEMPERATURES)
    shares = tried.at["refined"]["shares"][row + TEMPERATURES.index(choice["refined.temperature"])]
    memory = tried.at["memory"]
    filters = [(knot + 1) / (knot + choice["ridge.strength"]) for knot in _KNOTS]
    ridge = sum(one * row for one, row in zip(filters, tried.at["ridge"]["products"], strict=True))
    ref = naive.blend(choice, ridge, memory["products"], memory["lengths"], shares)
    np.testing.assert_allclose(scores, ref, rtol=1e-5, atol=1e-6)
    for part, at in kept.items():
        for name, before in at.items():
            np.testing.assert_array_equal(tried.at[part][name], before)


def test_scores__of_some_pairs_are_those_of_all() -> None:
    parts, tried = parts_of(*BLEND), random_tried(lists_of())
    choice = defaults(parts) | {"ridge.strength": 0.123}  # any strength will do
    some = slice(17, 90)
    whole = tried.scores(parts, choice)[some]
    np.testing.assert_allclose(tried.scores(parts, choice, some), whole, rtol=1e-5, atol=1e-6)


def test_joined__is_one_after_the_other() -> None:
    parts = parts_of(*BLEND)
    folds = [random_tried(lists_of(20, seed=seed), seed) for seed in range(3)]
    whole = Tried.joined(folds)
    np.testing.assert_array_equal(
        whole.scores(parts, defaults(parts)),
        np.concatenate([fold.scores(parts, defaults(parts)) for fold in folds]),
    )
    np.testing.assert_array_equal(whole.lists.hits, np.concatenate([fold.lists.hits for fold in folds]))
    assert Tried.joined(folds[:1]) is folds[0]


# -- choices --------------------------------------------------------------------------------------------


def values(tried: Tried, parts: list[Part], choice: Mapping[str, float]) -> np.ndarray:
    """Of each document that has labels."""
    found = goodness(tried.lists.by_document(tried.scores(parts, choice)))
    return found[~np.isnan(found)]


def value(tried: Tried, parts: list[Part], choice: Mapping[str, float]) -> float:
    return float(values(tried, parts, choice).mean())


@pytest.mark.parametrize("seed", [0, 1])
def test_choose__no_single_change_is_better_for_certain(seed: int) -> None:
    parts, tried = parts_of(*BLEND), random_tried(lists_of(60, 40, seed), seed)
    chosen = choose(parts, tried, is_calibrated=True)
    best = values(tried, parts, chosen.choice)
    assert best.mean() >= value(tried, parts, defaults(parts))
    options = {f"{part.name}.{name}": some for part in parts for name, some in part.options().items()}
    assert list(options) == ["ridge.strength", "memory.weight", "memory.damping", "refined.weight"]
    changed = [{**chosen.choice, name: some} for name, values in options.items() for some in values]
    for choice in changed:
        gains = values(tried, parts, choice) - best
        assert gains.mean() <= 1.001 * gains.std() / np.sqrt(len(gains)), choice
    assert chosen.stats["held_out"] == tried.lists.measures(tried.scores(parts, chosen.choice))
    assert choose(parts, tried, is_calibrated=True).choice == chosen.choice


def test_choose__smoothing_and_temperature_by_the_topics_alone() -> None:
    parts, lists = parts_of(*BLEND), lists_of(100)
    shares = np.random.default_rng(0).random((N_TOPICS, len(lists.labels))) + 0.0
    shares[5] += lists.hits  # the best of them all
    chosen = choose(parts, tried_of(lists, ridge=-10.0 * lists.hits, shares=shares), is_calibrated=True)
    assert chosen.choice["refined.smoothing"] == SMOOTHINGS[5 // len(TEMPERATURES)]
    assert chosen.choice["refined.temperature"] == TEMPERATURES[5 % len(TEMPERATURES)]
    assert chosen.stats["held_out_refined"]["auc"] == pytest.approx(1)
    assert chosen.stats["held_out"]["auc"] < 0.5


def topped(tried: Tried, scores: np.ndarray, k: int = 5) -> Tried:
    """The same pairs, where the k best labels of each document are its own: no other ranking is as good."""
    hits = np.zeros(len(scores), bool)
    for start, stop in pairwise(tried.lists.indptr.tolist()):
        hits[start + np.argsort(-scores[start:stop])[:k]] = True
    return replace(tried, lists=replace(tried.lists, hits=hits))


def assert_finds(tried: Tried, planted: dict[str, float]) -> None:
    parts = parts_of(*BLEND)
    wanted = defaults(parts) | planted
    tried = topped(tried, tried.scores(parts, wanted))
    assert value(tried, parts, wanted) == pytest.approx(2)
    assert wanted == defaults(parts) or value(tried, parts, defaults(parts)) < 1.999
    found = choose(parts, tried, is_calibrated=True).choice
    assert {name: found[name] for name in planted} == planted


@pytest.mark.parametrize("strength", [STRENGTHS[0], 10.0, STRENGTHS[-1]])
def test_choose__finds_the_planted_strength(strength: float) -> None:
    lists = lists_of(150, 30)
    ridge = np.stack([noise(lists, i) for i in range(len(_KNOTS))])  # each strength weighs knots in its way
    assert_finds(tried_of(lists, ridge), {"ridge.strength": strength})


@pytest.mark.parametrize("weight", MEMORY_WEIGHTS[::3])
def test_choose__finds_the_planted_memory(weight: float) -> None:
    lists = lists_of(150, 30)
    long = np.full(len(lists.labels), 1e7)  # damping is nothing beside it
    assert_finds(tried_of(lists, noise(lists, 1), long * noise(lists, 2), long), {"memory.weight": weight})


@pytest.mark.parametrize("weight", TOPIC_WEIGHTS[::3])
def test_choose__finds_the_planted_topics(weight: float) -> None:
    lists = lists_of(150, 30)
    tried = tried_of(lists, noise(lists, 1), shares=4 * noise(lists, 3) ** 2)
    assert_finds(tried, {"refined.weight": weight})


@pytest.mark.parametrize("damping", [DAMPINGS[0], DAMPINGS[-1]])
def test_choose__finds_the_planted_damping(damping: float) -> None:
    lists = lists_of(150, 30)
    lengths = np.random.default_rng(4).choice(np.geomspace(0.1, 30, 9), len(lists.labels))
    # the memory alone: its weight is of no matter, as long as there is one
    assert_finds(
        tried_of(lists, products=lengths * abs(noise(lists, 5)), lengths=lengths), {"memory.damping": damping}
    )


def test_choose__nothing_to_choose_by() -> None:
    parts, lists = parts_of(*BLEND), lists_of()
    lists = replace(lists, hits=np.zeros(len(lists.labels), bool))
    chosen = choose(parts, random_tried(lists), is_calibrated=True)
    first = {"refined.smoothing": SMOOTHINGS[0], "refined.temperature": TEMPERATURES[0]}  # all are as good
    assert chosen.choice == defaults(parts) | first
    assert chosen.calibration is None
    assert chosen.threshold is None


@pytest.mark.parametrize("is_calibrated", [True, False])
def test_choose__calibrates_before_it_takes_a_threshold(is_calibrated: bool) -> None:
    parts, tried = parts_of(*BLEND), random_tried(lists_of())
    chosen = choose(parts, tried, is_calibrated)
    scores = tried.scores(parts, chosen.choice)
    assert (chosen.calibration is not None) == is_calibrated
    if chosen.calibration is not None:
        scores = chosen.calibration.apply(scores)
    best, _ = naive.best_f1(scores.tolist(), tried.lists.hits, tried.lists.weights.astype(float))
    assert chosen.stats["threshold"] == {"value": chosen.threshold, "micro_f1": pytest.approx(best)}


@pytest.mark.parametrize("is_calibrated", [True, False])
def test_choose__few_hits_give_no_threshold(is_calibrated: bool) -> None:
    parts, lists = parts_of(*BLEND), lists_of()
    hits = lists.hits & (np.cumsum(lists.hits) < FEWEST_HITS)
    chosen = choose(parts, random_tried(replace(lists, hits=hits)), is_calibrated)
    assert (chosen.calibration, chosen.threshold) == (None, None)
    assert "held_out" in chosen.stats


# -- contests ---------------------------------------------------------------------------------------------


def contest_of(lists: Shortlists, *terms: np.ndarray) -> Contest:
    """Scores are the terms, each times an option named by its number."""

    def scores(choice: Mapping[str, float], pairs: slice) -> np.ndarray:
        return np.asarray(sum(choice[str(i)] * term[pairs] for i, term in enumerate(terms)), np.float32)

    return Contest(lists, scores)


def test_climb__what_is_better_by_chance_alone_is_left() -> None:
    """Noise moves some documents up, and others down."""
    lists = lists_of(400, 40)
    signal = lists.hits + noise(lists, 0)
    chosen = [
        contest_of(lists, signal, noise(lists, seed)).climb({"0": 1.0, "1": 0.0}, {"1": (0.0, 0.01, 0.02)})
        for seed in range(1, 13)
    ]
    assert sum(choice["1"] == 0 for choice in chosen) >= 8  # five in six, where chances are normal
    better = contest_of(lists, noise(lists, 0), 1.0 * lists.hits).climb(
        {"0": 1.0, "1": 0.0}, {"1": (0.0, 1.0)}
    )
    assert better["1"] == 1


def test_climb__goes_on_beyond_the_end_of_a_scale() -> None:
    lists = lists_of(300, 40)
    contest = contest_of(lists, noise(lists, 0), 0.05 * lists.hits)
    start = {"0": 1.0, "1": 0.0}
    assert contest.climb(start, {"1": (0.0, 1.0, 3.0)})["1"] == 3
    found = contest.climb(start, {"1": Scale((0.0, 1.0, 3.0))})["1"]
    assert found >= 27
    assert np.log(found) / np.log(3) == pytest.approx(round(np.log(found) / np.log(3)))
    harm = contest_of(lists, noise(lists, 0), -1.0 * lists.hits)
    assert harm.climb({"0": 1.0, "1": 1.0}, {"1": Scale((0.3, 1.0))})["1"] < 0.1


def test_scale__values_beyond_its_ends() -> None:
    scale = Scale((0.0, 0.5, 1.0, 4.0))
    assert scale.beyond(4.0) == 16
    assert scale.beyond(0.5) == 0.25
    assert scale.beyond(1.0) is None
    assert scale.beyond(0.0) is None
    assert Scale((1.0, 2.0)).beyond(1.0) == 0.5
    assert Scale(map(float, range(1, 30))).beyond(29.0) is None  # there is an end to it


@pytest.mark.parametrize("first", [20, 100, 10**6])
def test_climb__candidates_that_are_tried_on_some_documents_first(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are far worse are not tried on all; and the choice is the same."""
    monkeypatch.setattr(choosing, "_FIRST", first)
    lists = lists_of(300, 40)
    tried: list[int] = []
    by_document = Shortlists.by_document

    def counted(self: Shortlists, scores: np.ndarray, rows: slice | None = None) -> np.ndarray:
        tried.append(len(scores))
        return by_document(self, scores, rows)

    monkeypatch.setattr(Shortlists, "by_document", counted)
    contest = contest_of(lists, noise(lists, 0), 1.0 * lists.hits)
    found = contest.climb({"0": 1.0, "1": 1.0}, {"1": (-3.0, -1.0, 0.0, 1.0, 5.0)})
    assert found["1"] == 5
    whole = sum(count == len(lists.labels) for count in tried)
    assert whole == (9 if first > 300 else 2)  # the start, four candidates twice; or the start and the best


def test_likeliest__of_choices_that_are_as_good() -> None:
    """A score that tells apart what no ranking within a document does: whether it has labels at all."""
    lists = lists_of(400, 30, mean=2)
    documents = np.repeat(np.arange(400), np.diff(lists.indptr))
    rates = np.bincount(documents, lists.hits) / np.diff(lists.indptr)
    level = rates[documents].astype(np.float32)
    contest = contest_of(lists, lists.hits + noise(lists, 0), level)
    start = {"0": 1.0, "1": 0.0}
    worst = {"0": -1.0, "1": 0.0}
    found = contest.likeliest(start, "1", (0.0, 2.0, 500.0), worst)
    assert found == {"0": 1.0, "1": 2.0}
    assert start["1"] == 0
    worse = contest_of(lists, lists.hits + noise(lists, 0), -1.0 * lists.hits + level)
    assert worse.likeliest(start, "1", (3.0,), worst) == start  # what is worse for certain is not asked
    assert contest.likeliest(start, "1", (2.0,), start) == start  # nor what is not better than without it
