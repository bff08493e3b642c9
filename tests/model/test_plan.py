from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.passes.conftest import Dense, normal, plain_sums
from threepass import Corpus, InputError, MomentLabeler, ingest_shape
from threepass.model import learn
from threepass.model.plan import BASE_BYTES, Wanted, array_bytes, gigabytes, hollow, make_plan
from threepass.moments.labels import Directions, Labels
from threepass.moments.pairs import Pairs, Sketch
from threepass.moments.triples import Triples
from threepass.moments.words import WordView
from threepass.parts.cross import Cross
from threepass.parts.features import Features
from threepass.parts.responsibilities import Responsibilities
from threepass.parts.weighting import Weighting
from threepass.passes import sums
from threepass.passes.cost import Size
from threepass.passes.machine import available_bytes, measure_rates
from threepass.passes.runner import Pass, Runner
from threepass.passes.segments import segments

D, L, K, P = 700, 11, 3, 5
BLEND = Wanted(20, has_ridge=True, has_refined=True)


@pytest.fixture(scope="module")
def nytimes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with many words and labels: the fit's arrays are large beside the libraries."""
    path = tmp_path_factory.mktemp("plan") / "nytimes.zarr"
    ingest_shape("nytimes", path, scale=0.3, block_bytes=4_000_000)
    return path


@pytest.fixture(scope="module")
def corpus(nytimes: Path) -> Corpus:
    return Corpus.open(nytimes)


def test_hollow__has_a_size_and_no_memory() -> None:
    array = hollow(10**6, 10**6)
    assert array.shape == (10**6, 10**6)
    assert array.dtype == np.float32
    assert array.nbytes == 4 * 10**12


def test_array_bytes__each_array_once() -> None:
    W = np.zeros((7, 3), np.float32)
    directions = Directions(np.zeros((3, 3), np.float32))
    assert array_bytes(Labels(WordView(), W, directions, 5, directions)) == W.nbytes + 36
    assert array_bytes((W, W, (W.copy(),), "text", None)) == 2 * W.nbytes


def sketch_of(basis: np.ndarray) -> Sketch:
    return Sketch.of(basis, np.arange(len(basis)), len(basis))


def every_pass(view: WordView) -> list[Pass]:
    weighting = Weighting(normal(D))
    W = normal(D, K)
    directions = Directions.of(W, np.eye(K), view)
    return [
        Pairs(view, D),
        Pairs(view, D, sketch_of(normal(D, P))),
        Cross(weighting, normal(D, 2), L, 0.1, 0),
        Triples(view, W),
        Triples(view, W, error_bars=False),
        Features(weighting, normal(D, P), normal(P, 4), normal(4), L, 0.1),
        Labels(view, W, directions, L),
        Labels(view, W, directions, L, directions),
        Responsibilities(view, W, np.zeros(K), L, 0.1),
    ]


@pytest.mark.parametrize("view", [WordView(), WordView(drop_self_pairs=True)], ids=["keep", "drop"])
@pytest.mark.parametrize("number", range(9))
def test_accumulator_bytes__are_those_of_the_sums(view: WordView, number: int) -> None:
    work = every_pass(view)[number]
    arrays = sums.sums_bytes({name: value for name, value in work.zero().items() if name != "cross"})
    # what is left out is small: some numbers, and counts of labels
    assert arrays - 8 * (L + 2 * K * K + 20) <= work.accumulator_bytes <= arrays + 8 * (L + 1)


@pytest.mark.parametrize(
    "wanted", [Wanted(20), BLEND, Wanted(20, error_bars=False)], ids=["paper", "blend", "bare"]
)
@pytest.mark.parametrize("limit", [0.5e9, 0.55e9, 0.6e9, 0.8e9, 1.5e9, 8e9])
def test_plan__what_changes_the_model_does_not_depend_on_threads(
    corpus: Corpus, wanted: Wanted, limit: float
) -> None:
    try:
        plans = [make_plan(corpus, wanted, int(limit), n_threads) for n_threads in (1, 2, 3, 8)]
    except InputError:
        assert limit < 1.5e9
        return
    assert all(plan.peak <= limit for plan in plans)
    assert len({(plan.oversampling, plan.accumulators_bytes, plan.sizes, plan.spill) for plan in plans}) == 1
    assert [plan.at_a_time for plan in plans] == sorted(plan.at_a_time for plan in plans)
    assert all(1 <= plan.at_a_time <= n for plan, n in zip(plans, (1, 2, 3, 8), strict=True))


@given(limit=st.integers(0, 3 * 10**9), n_components=st.integers(1, 200), ridge=st.booleans())
def test_plan__fits_or_is_refused_with_the_numbers(
    corpus: Corpus, limit: int, n_components: int, ridge: bool
) -> None:
    wanted = Wanted(n_components, has_ridge=ridge, has_refined=ridge)
    try:
        plan = make_plan(corpus, wanted, limit, 2)
    except InputError as error:
        text = str(error)
        assert f"memory_limit={gigabytes(limit)}" in text
        assert "Raise memory_limit to" in text
        enough = int(1.02 * 1e9 * float(text.split("Raise memory_limit to ")[1].split("GB")[0])) + 10**7
        assert make_plan(corpus, wanted, enough, 2).peak <= enough
    else:
        assert plan.peak <= limit
        assert plan.peak == max(stage.total for stage in plan.stages) > BASE_BYTES


def test_plan__gives_up_tasks_before_the_model(corpus: Corpus) -> None:
    wanted = Wanted(100)  # a head would take a share of the limit, and be smaller
    free = make_plan(corpus, wanted, None, 8)
    one = make_plan(corpus, wanted, None, 1)
    assert free.at_a_time == 8
    assert one.peak < free.peak
    between = make_plan(corpus, wanted, (one.peak + free.peak) // 2, 8)
    assert 1 <= between.at_a_time < 8
    assert between.oversampling == free.oversampling
    assert not between.spill


def test_plan__no_limit_is_the_same_everywhere(corpus: Corpus) -> None:
    plan = make_plan(corpus, BLEND, None, 2)
    assert plan.oversampling == 100
    assert not plan.spill
    assert plan.memory_limit is None
    assert [stage.name for stage in plan.stages] == [
        "warm start",
        "pairs",
        "whitening",
        "head subspace",
        "triples",
        "tensor",
        "labels",
        "head",
        "model",
        "save",
    ]
    assert json.loads(json.dumps(plan.as_dict()))["peak_bytes"] == plan.peak


@pytest.mark.parametrize(
    ("head", "refine_passes"), [("posterior", 0), ("refined", 1), ("ridge", 0), ("blend", 2)]
)
def test_plan__names_the_stages_that_a_fit_goes_through(
    tmp_path: Path, corpus: Corpus, head: Any, refine_passes: int
) -> None:
    model = MomentLabeler(2, head=head, head_dim=20, refine_passes=refine_passes, error_bars=False)
    planned = [stage.name for stage in model.plan(corpus).stages]
    done = list(model.fit_to(corpus, tmp_path / "model.zarr").fit_stats_["seconds"])
    assert done == planned
    assert list(MomentLabeler.load(tmp_path / "model.zarr").fit_stats_["seconds"]) == done
    reads = [name for name in done if name.split()[0] in ("pairs", "triples", "labels", "refine")]
    assert len(reads) == model.n_passes_


def test_plan__no_more_topics_than_documents(corpus: Corpus) -> None:
    few = corpus.head(40)
    stages = {n: MomentLabeler(n, head_dim=20).plan(few).stages for n in (40, 1000)}
    assert stages[1000] == stages[40]


def test_plan__further_reads_hold_the_sums_of_the_last(corpus: Corpus) -> None:
    few, many = (
        {stage.name: stage for stage in MomentLabeler(50, refine_passes=n).plan(corpus).stages}
        for n in (0, 3)
    )
    assert set(many) - set(few) == {"refine 1", "refine 2", "refine 3"}
    for number in (1, 2, 3):
        stage = many[f"refine {number}"]
        assert stage.held >= few["labels"].held
        assert stage.cost.gathered > 0


def test_spill__sums_are_the_same_and_lie_in_files(
    many_blocks: Dense, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, _, _ = many_blocks
    work = Pairs(WordView(), corpus.n_terms, sketch_of(normal(corpus.n_terms, 4)))
    cut = segments(corpus, 1)
    plain = Runner(1).run(work, corpus, cut)
    monkeypatch.setattr(sums, "_SPILL_BYTES", 100)
    spilled = Runner(1, spill=True).run(work, corpus, cut)
    assert isinstance(spilled["pairs"].rows, np.memmap)
    assert not isinstance(plain["pairs"].rows, np.memmap)
    assert plain.keys() == spilled.keys()
    plain, spilled = plain_sums(plain), plain_sums(spilled)
    for name, value in plain.items():
        np.testing.assert_array_equal(spilled[name], value)


FIT = """
import json, sys, threading, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from threepass import Corpus, MomentLabeler
peak, done = 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.002):
        lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
        # the system may take mapped sums back at any time; libraries are mapped too, but were so before
        mapped = int(lines["RssFile"].split()[0]) - libraries if SPILL else 0
        peak = max(peak, 1024 * (int(lines["VmRSS"].split()[0]) - mapped))
path, parameters = sys.argv[1], json.loads(sys.argv[2])
SPILL = parameters.pop("spill")
status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
libraries = int(status["RssFile"].split()[0])
watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
model = MomentLabeler(**parameters).fit_to(Corpus.open(path), sys.argv[3])
done.set()
watcher.join()
plan = model.fit_stats_["plan"]
print(json.dumps({"peak": peak, "projected": plan["peak_bytes"], "spill": plan["spill"]}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 100},
        {"n_components": 100, "head": "posterior"},
        {"n_components": 150, "head": "refined", "self_pairs": "drop"},
        {"n_components": 100, "n_jobs": 1},
        {"n_components": 100, "memory_limit": "900MB"},
        {"n_components": 100, "memory_limit": "590MB", "head": "posterior"},
    ],
    ids=str,
)
def test_plan__measured_memory_is_within_what_was_projected(
    nytimes: Path, tmp_path: Path, parameters: dict[str, object]
) -> None:
    spill = parameters.get("memory_limit") == "590MB"
    arguments = str(nytimes), json.dumps({**parameters, "spill": spill}), str(tmp_path / "model.zarr")
    command = [sys.executable, "-c", FIT, *arguments]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(output.splitlines()[-1])
    assert found["spill"] == spill
    assert found["peak"] <= 1.15 * found["projected"]
    assert found["peak"] >= 0.5 * found["projected"]  # a projection of anything would be no use


def test_rates__are_positive_and_cost_is_divided_by_them() -> None:
    rates = measure_rates(np.arange(1000, 0, -1), 16, n_threads=1)
    assert rates.flops > 1e8
    assert rates.gathered > 1e7
    cost = Pairs(WordView(), 10, sketch_of(normal(10, 4))).cost(Size(10, 100, 5))
    assert rates.seconds(cost) == pytest.approx(10 * 100 * 4 / rates.gathered)


def test_learn__warns_when_more_is_needed_than_is_free(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learn, "available_bytes", lambda: 10**6)
    with pytest.warns(UserWarning, match=r"0\.\d\dGB at its worst, and 0.00GB are free. Pass a memory_limit"):
        MomentLabeler(3, head="posterior").fit(corpus.head(50))


def test_available_bytes__is_known_on_linux() -> None:
    found = available_bytes()
    assert (found is None) == (not Path("/proc/meminfo").exists())
    assert found is None or found > 10**7
