from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows import normal
from threepass import Corpus, InputError, MomentLabeler, ingest_shape
from threepass.model import fitting
from threepass.model.fitting import FitSettings
from threepass.moments.labels import Directions, LabelPairs
from threepass.moments.method import MomentSettings
from threepass.moments.pairs import Pairs, Sketch
from threepass.moments.sample import sampled_blocks
from threepass.moments.triples import Triples
from threepass.moments.words import WordView
from threepass.parts.cross import Cross
from threepass.parts.part import PartSettings
from threepass.parts.refined import Responsibilities
from threepass.parts.ridge import Basis, Features, WordDirections
from threepass.parts.weighting import Weighting
from threepass.passes.cost import Size
from threepass.passes.machine import available_bytes, measure_rates
from threepass.passes.plan import BASE_BYTES, Plan, gigabytes
from threepass.passes.work import Pass, array_bytes, hollow

D, L, K, P = 700, 11, 3, 5
NOTHING = Size(0, 0, 0)


def settings_of(n_components: int, head: str = "posterior", **moments: Any) -> FitSettings:
    return FitSettings(MomentSettings(n_components, **moments), PartSettings(head))


def make_plan(corpus: Corpus, settings: FitSettings, limit: int | None, n_threads: int | None) -> Plan:
    return replace(settings, memory_bytes=limit).plan(corpus, n_threads)


@pytest.fixture(scope="module")
def nytimes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with many words and labels: the fit's arrays are large beside the libraries."""
    path = tmp_path_factory.mktemp("plan") / "nytimes.zarr"
    ingest_shape("nytimes", path, scale=0.08, block_bytes=1_500_000)
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
    assert array_bytes(LabelPairs(WordView(), W, directions, 5, directions)) == W.nbytes + 36
    assert array_bytes((W, W, (W.copy(),), "text", None)) == 2 * W.nbytes


def sketch_of(basis: np.ndarray) -> Sketch:
    return Sketch.of(basis, np.arange(len(basis)), len(basis))


def every_pass(view: WordView) -> list[Pass[Any]]:
    weighting = Weighting(normal(D))
    W = normal(D, K)
    directions = Directions.of(W, np.eye(K), view)
    basis = Basis(normal(D, P), normal(P, 4), normal(4))
    return [
        Pairs(view, D),
        Pairs(view, D, sketch_of(normal(D, P))),
        WordDirections(weighting, normal(D, 2)),
        Triples(view, W),
        Triples(view, W, error_bars=False),
        Features(weighting, basis, L),
        LabelPairs(view, W, directions, L),
        LabelPairs(view, W, directions, L, directions),
        Responsibilities(view, W, np.zeros(K), L),
    ]


@pytest.mark.parametrize("view", [WordView(), WordView(drop_self_pairs=True)], ids=["keep", "drop"])
@pytest.mark.parametrize("number", range(9))
def test_needs__are_those_of_the_sums(view: WordView, number: int) -> None:
    work = every_pass(view)[number]
    nbytes = work.zero().nbytes
    # what is left out is small: some numbers, and counts of labels
    assert nbytes - 8 * (L + 2 * K * K + 20) <= work.needs(NOTHING).sums <= nbytes + 8 * (L + 1)


def test_needs__of_the_cross_moment_bound_what_it_grows_to(corpus: Corpus) -> None:
    work = Cross(Weighting(np.ones(corpus.n_terms, np.float32)), corpus.n_labels, 10**6, 50_000)
    total = work.zero()
    for number in range(corpus.n_blocks):
        work.add(total, corpus.block(number))
    total.settle()
    assert total.nnz > 50_000
    assert total.nbytes <= work.needs(Size(corpus.n_docs, 0, 0)).sums


@pytest.mark.parametrize(
    "settings",
    [settings_of(20), settings_of(20, "blend"), settings_of(20, error_bars=False)],
    ids=["paper", "blend", "bare"],
)
@pytest.mark.parametrize("limit", [0.5e9, 0.55e9, 0.6e9, 0.8e9, 1.5e9, 8e9])
def test_plan__what_changes_the_model_does_not_depend_on_threads(
    corpus: Corpus, settings: FitSettings, limit: float
) -> None:
    try:
        plans = [make_plan(corpus, settings, int(limit), n_threads) for n_threads in (1, 2, 3, 8)]
    except InputError:
        assert limit < 1.5e9
        return
    assert all(plan.peak <= limit for plan in plans)
    assert len({replace(plan.layout, at_a_time=1) for plan in plans}) == 1
    assert len({str(plan.details) for plan in plans}) == 1
    tasks = [plan.layout.at_a_time for plan in plans]
    assert tasks == sorted(tasks)
    assert all(1 <= found <= n for found, n in zip(tasks, (1, 2, 3, 8), strict=True))


@given(limit=st.integers(0, 3 * 10**9), n_components=st.integers(1, 200), ridge=st.booleans())
def test_plan__fits_or_is_refused_with_the_numbers(
    corpus: Corpus, limit: int, n_components: int, ridge: bool
) -> None:
    settings = settings_of(n_components, "blend" if ridge else "posterior")
    try:
        plan = make_plan(corpus, settings, limit, 2)
    except InputError as error:
        text = str(error)
        assert f"memory_limit={gigabytes(limit)}" in text
        assert "Raise memory_limit to" in text
        enough = int(1.02 * 1e9 * float(text.split("Raise memory_limit to ")[1].split("GB")[0])) + 10**7
        assert make_plan(corpus, settings, enough, 2).peak <= enough
    else:
        assert plan.peak <= limit
        assert plan.peak == BASE_BYTES + max(price.nbytes for price in plan.prices) > BASE_BYTES


def test_plan__gives_up_tasks_before_the_model(corpus: Corpus) -> None:
    settings = settings_of(100)  # a head would take a share of the limit, and be smaller
    free = make_plan(corpus, settings, None, 8)
    one = make_plan(corpus, settings, None, 1)
    assert free.layout.at_a_time == 8
    assert one.peak < free.peak
    between = make_plan(corpus, settings, (one.peak + free.peak) // 2, 8)
    assert 1 <= between.layout.at_a_time < 8
    assert between.layout.oversampling == free.layout.oversampling
    assert not between.layout.spill


def test_plan__no_limit_is_the_same_everywhere(corpus: Corpus) -> None:
    plan = make_plan(corpus, settings_of(20, "blend"), None, 2)
    assert plan.layout.oversampling == 100
    assert not plan.layout.spill
    assert plan.layout.memory_limit is None
    told = json.loads(json.dumps(plan.as_dict()))
    assert told["peak_bytes"] == plan.peak
    assert told["head_dim"] == plan.details["head_dim"]
    assert [stage["stage"] for stage in told["stages"]] == [price.name for price in plan.prices]


def test_plan__no_more_topics_than_documents(corpus: Corpus) -> None:
    few = corpus.head(40)
    prices = {n: MomentLabeler(n, head_dim=20).plan(few).prices for n in (40, 1000)}
    assert prices[1000] == prices[40]


def test_plan__further_reads_hold_the_sums_of_the_last(corpus: Corpus) -> None:
    few, many = (
        {price.name: price for price in MomentLabeler(50, refine_passes=n).plan(corpus).prices}
        for n in (0, 3)
    )
    assert set(many) - set(few) == {"refine 1", "refine 2", "refine 3"}
    for number in (1, 2, 3):
        stage = many[f"refine {number}"]
        assert stage.held >= few["labels"].held
        assert stage.cost.gathered > 0


def test_plan__counts_what_passes_are_made_with_once(corpus: Corpus) -> None:
    prices = {price.name: price for price in make_plan(corpus, settings_of(100), None, 2).prices}
    W = 4 * corpus.n_terms * 100
    assert W <= prices["triples"].held < 1.1 * W
    assert 2 * W <= prices["labels"].held < 2.1 * W  # W and O
    sketch, sample = (
        2 * corpus.n_terms * 200,
        8 * sum(corpus.info.blocks[i].x_nnz for i in sampled_blocks(corpus)),
    )
    assert sketch + sample <= prices["pairs"].held < 1.1 * (sketch + sample)


@pytest.mark.parametrize("head", ["posterior", "blend"])
def test_plan__takes_no_memory(corpus: Corpus, head: str) -> None:
    labeler = MomentLabeler(100, head=head)  # type: ignore[arg-type]
    labeler.plan(corpus)
    tracemalloc.start()
    labeler.plan(corpus)
    assert tracemalloc.get_traced_memory()[1] < 4_000_000  # a tall matrix is 10 MB
    tracemalloc.stop()


def test_plan__counts_the_topics_that_the_papers_head_holds(corpus: Corpus) -> None:
    prices = {price.name: price for price in make_plan(corpus, settings_of(50), None, 1).prices}
    tall = 4 * corpus.n_terms * 50
    assert prices["model"].held >= 3 * tall  # W, and O in the order of the corpus and in that of the source


FIT = """
import json, sys, threading, warnings
warnings.simplefilter("ignore")
from dataclasses import replace
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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 100, "memory_limit": "800MB"},
        {"n_components": 100, "memory_limit": "590MB", "head": "posterior"},
        *(
            pytest.param(parameters, marks=pytest.mark.exhaustive)
            for parameters in (
                {"n_components": 60},
                {"n_components": 100},
                {"n_components": 100, "head": "posterior"},
                {"n_components": 150, "head": "refined", "self_pairs": "drop"},
                {"n_components": 100, "n_jobs": 1},
                {"n_components": 60, "memory_limit": "600MB"},
            )
        ),
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
    assert found["peak"] <= found["projected"]
    assert found["peak"] >= 0.5 * found["projected"]  # a projection of anything would be no use


def test_rates__are_positive_and_cost_is_divided_by_them() -> None:
    rates = measure_rates(np.arange(1000, 0, -1), 16, n_threads=1)
    assert rates.flops > 1e8
    assert rates.gathered > 1e7
    cost = Pairs(WordView(), 10, sketch_of(normal(10, 4))).needs(Size(10, 100, 5)).cost
    assert rates.seconds(cost) == pytest.approx(10 * 100 * 4 / rates.gathered)


def test_fit__warns_when_more_is_needed_than_is_free(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "available_bytes", lambda: 10**6)
    with pytest.warns(UserWarning, match=r"0\.\d\dGB at its worst, and 0.00GB are free. Pass a memory_limit"):
        MomentLabeler(3, head="posterior").fit(corpus.head(50))


def test_available_bytes__is_known_on_linux() -> None:
    found = available_bytes()
    assert (found is None) == (not Path("/proc/meminfo").exists())
    assert found is None or found > 10**7
