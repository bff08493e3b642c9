"""How passes are cut and run: same sums to the last bit everywhere, three reads, bounded memory."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
import tempfile
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import zarr.storage
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import random_matrices
from tests.passes.conftest import plain_sums
from threepass import Corpus, MomentLabeler, ingest_matrices, ingest_planted
from threepass.ingest.synthetic import Lengths, Planted
from threepass.model.learn import Learned, Settings, learn
from threepass.moments import sample
from threepass.moments.labels import Directions, Labels
from threepass.moments.pairs import Pairs, Sketch
from threepass.moments.triples import Triples
from threepass.moments.words import WordView
from threepass.parts.cross import Cross, CrossMoment
from threepass.parts.features import Features
from threepass.parts.heads import KINDS
from threepass.parts.held_out import Gathered, SetAside
from threepass.parts.learn_head import HeadSettings
from threepass.parts.responsibilities import Responsibilities
from threepass.parts.weighting import Weighting
from threepass.passes import kept_sums as partials
from threepass.passes import segments as segments_module
from threepass.passes import sums as sums_module
from threepass.passes.cluster.remote import _by_path, _Stored, _with_arrays
from threepass.passes.runner import Pass, Runner, Together
from threepass.passes.segments import Segment, segments
from threepass.passes.stream import ReadAhead, Stream
from threepass.passes.sums import Sums, merge_into
from threepass.passes.tall import FREQUENT, TallSum

COUNTS_DROP = WordView(counts=True, drop_self_pairs=True)
MODEL = Planted(1600, 150, 12, 4, words=Lengths(20, 16), labels=Lengths(2, 2), distinct=False, seed=3)


@pytest.fixture(scope="module")
def planted_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "planted.zarr"
    ingest_planted(MODEL, path, block_bytes=18_000)
    return path


@pytest.fixture(scope="module")
def planted(planted_path: Path) -> Corpus:
    corpus = Corpus.open(planted_path)
    assert 12 <= corpus.n_blocks <= 24
    return corpus


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def all_passes(corpus: Corpus) -> list[Pass]:
    """Each pass, rare words weighing far more than common ones: in another order the sums round differently.

    With weights of about one size, double precision adds up single precision without any rounding.
    """
    rng = np.random.default_rng(8)
    lengths = 10 ** np.linspace(-8, 8, corpus.n_terms)[:, None]
    W = (rng.standard_normal((corpus.n_terms, 7)) * lengths).astype(np.float32)
    view, D = COUNTS_DROP, corpus.n_terms
    U = np.linalg.qr(rng.standard_normal((7, 7)))[0]
    sketch = Sketch.of(W, np.arange(D), D)
    return [Pairs(view, D), Pairs(view, D, sketch), Triples(view, W), label_pass(view, W, U, corpus.n_labels)]


def label_pass(view: WordView, W: np.ndarray, U: np.ndarray, n_labels: int) -> Labels:
    return Labels(view, W, Directions.of(W, U, view), n_labels, Directions.of(W, U[:, ::-1], view))


def head_passes(corpus: Corpus) -> list[Pass]:
    """The passes of the heads, weights of many sizes too: arrays at any depth, empty ones among them."""
    rng = np.random.default_rng(9)
    D, L, K = corpus.n_terms, corpus.n_labels, 5
    weighting = Weighting((10 ** np.linspace(-3, 3, D)).astype(np.float32))
    arrays = [
        rng.standard_normal(shape, dtype=np.float32) for shape in ((D, 4), (4, 6), (6,), (D, K), (L, K))
    ]
    B, waves, phases, log_O, log_Q = arrays
    B *= 10 ** np.linspace(-8, 8, D, dtype=np.float32)[:, None]
    log_pi = -rng.random(K)
    return [
        Cross(weighting, B, L, 0.1),
        Cross(dataclasses.replace(weighting, scheme="binary"), B[:, :0], L, 0.0),
        Features(weighting, B, waves, phases, L, 0.1),
        Features(weighting, B, waves[:, :0], phases[:0], L, 0.0),
        Responsibilities(COUNTS_DROP, 5 * log_O, log_pi, L, 0.1),
        Responsibilities(COUNTS_DROP, 5 * log_O, log_pi, L, 0.0, log_Q),
    ]


def assert_identical(one: Any, other: Any, where: str = "") -> None:
    """Equal to the last bit; only times, memory, what was read again and the plan may differ."""
    assert type(one) is type(other), where
    if dataclasses.is_dataclass(one):
        one, other = ({f.name: getattr(x, f.name) for f in dataclasses.fields(x)} for x in (one, other))
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one.keys() - {"seconds", "peak_bytes", "sample_share", "plan"}:
            assert_identical(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for i, pair in enumerate(zip(one, other, strict=True)):
            assert_identical(*pair, f"{where}[{i}]")
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other, err_msg=where, strict=True)
    else:
        assert one == other, where


def test_assert_identical__sees_one_bit() -> None:
    sums = {"a": np.ones(3)}
    with pytest.raises(AssertionError, match="a"):
        assert_identical(sums, {"a": np.array([1, 1, np.nextafter(1, 2)])})
    with pytest.raises(AssertionError, match=r"a\[1\]"):
        assert_identical({"a": [1, np.ones(2)]}, {"a": [1, np.zeros(2)]})


# -- segments -------------------------------------------------------------------------------------------


class Blocks:
    """What `segments` asks of a corpus."""

    def __init__(self, block_rows: list[int]) -> None:
        self.block_rows = np.array(block_rows)
        self.n_blocks = len(block_rows)


@given(
    block_rows=st.lists(st.integers(0, 50), min_size=1, max_size=100),
    accumulator_bytes=st.integers(0, 10**10),
)
def test_segments__cover_every_block_once_in_order(block_rows: list[int], accumulator_bytes: int) -> None:
    cut = segments(Blocks(block_rows), accumulator_bytes)  # type: ignore[arg-type]
    assert [number for segment in cut for number in segment.blocks] == list(range(len(block_rows)))
    assert [segment.number for segment in cut] == list(range(len(cut)))
    assert [segment.n_docs for segment in cut] == [sum(block_rows[b] for b in s.blocks) for s in cut]
    assert all(len(segment.blocks) > 0 for segment in cut)
    assert len(cut) <= min(len(block_rows), segments_module.MAX_SEGMENTS)
    assert len(cut) <= 2 or len(cut) * accumulator_bytes <= segments_module.ACCUMULATORS_BYTES


def duration(cut: list[Segment]) -> int:
    """Of two tasks, in documents."""
    ends = np.cumsum([0, *(segment.n_docs for segment in cut)]).tolist()
    return segments_module._duration(ends, range(len(cut) + 1))


def test_segments__as_many_as_allowed_and_balanced() -> None:
    cut = segments(Blocks([10] * 384), 1)  # type: ignore[arg-type]
    assert [segment.n_docs for segment in cut] == [30] * 128
    cut = segments(Blocks([10] * 320), segments_module.ACCUMULATORS_BYTES // 5)  # type: ignore[arg-type]
    assert len(cut) == 5
    assert duration(cut) == 1600  # of five equal ones, one task would have three
    assert len(segments(Blocks([10] * 320), 10**12)) == 2  # type: ignore[arg-type]
    assert len(segments(Blocks([10] * 7), 1)) == 7  # type: ignore[arg-type]


def naive_duration(lengths: list[int]) -> int:
    """Step by step: two tasks, each with a segment or none, and what is merged so far."""
    working: dict[int, int] = {}  # segment -> steps left
    done: set[int] = set()
    begun = steps = 0
    while len(done) < len(lengths):
        merged = next(i for i in range(len(lengths) + 1) if i not in done)
        while len(working) < 2 and begun < len(lengths) and begun - 2 < merged:
            working[begun] = lengths[begun]
            begun += 1
        for segment in working:
            working[segment] -= 1
        done |= {segment for segment, left in working.items() if left == 0}
        working = {segment: left for segment, left in working.items() if left}
        steps += 1
    return steps


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12))
def test_segments__duration_of_two_tasks(lengths: list[int]) -> None:
    cut = [Segment(i, range(i, i + 1), n_docs) for i, n_docs in enumerate(lengths)]
    assert duration(cut) == naive_duration(lengths)


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=30),
    st.integers(2, 20),
)
def test_segments__moving_their_bounds_never_takes_longer(block_rows: list[int], affordable: int) -> None:
    most = min(affordable, len(block_rows))
    moved = segments(Blocks(block_rows), 1, affordable)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments_module, "_MOVED", 0)
        segments_module._bounds.cache_clear()
        even = segments(Blocks(block_rows), 1, affordable)  # type: ignore[arg-type]
    segments_module._bounds.cache_clear()
    assert len(moved) <= most
    assert duration(moved) <= 1.01 * duration(even)


def test_segments__keep_two_tasks_busy() -> None:
    for n_blocks in (12, 26, 28, 100):
        for affordable in range(4, 20):
            size = segments_module.ACCUMULATORS_BYTES // affordable
            cut = segments(Blocks([10] * n_blocks), size)  # type: ignore[arg-type]
            assert len(cut) > min(affordable, n_blocks) / 2
            assert duration(cut) <= 10 * n_blocks / 2 + 10  # a block, which is not cut


@pytest.mark.parametrize(("together", "count"), [(0, 1), (1, 2), (299, 2), (300, 3), (400, 4), (3200, 32)])
def test_segments__as_many_accumulators_as_may_be_spent_on(together: int, count: int) -> None:
    cut = segments(Blocks([10] * 320), 100, together)  # type: ignore[arg-type]
    assert len(cut) == count
    assert sum(segment.n_docs for segment in cut) == 3200


def test_segments__of_views(planted: Corpus) -> None:
    n = int(planted.block_rows[:2].sum()) + 1
    for view, n_docs in ((planted.head(n), n), (planted.head(0), 0), (planted, planted.n_docs)):
        cut = segments(view, 1)
        assert sum(segment.n_docs for segment in cut) == n_docs
        assert [b for segment in cut for b in segment.blocks] == list(range(planted.n_blocks))


# -- the same sums everywhere ---------------------------------------------------------------------------


def test_runner__threads_do_not_change_a_bit(planted: Corpus) -> None:
    for work in all_passes(planted):
        cut = segments(planted, 1)
        assert len(cut) > 8
        one = Runner(n_threads=1).run(work, planted, cut)
        for n_threads in (2, 4, None):
            assert_identical(Runner(n_threads=n_threads).run(work, planted, cut), one)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """More words than have a row in every segment."""
    D = FREQUENT + 900
    X = scipy.sparse.random_array((300, D), density=0.01, rng=np.random.default_rng(3), format="csr")
    X.data = np.ceil(3 * X.data)
    Y = scipy.sparse.random_array((300, 7), density=0.3, rng=np.random.default_rng(4), format="csr")
    corpus = ingest_matrices(X, Y, tmp_path_factory.mktemp("wide") / "wide.zarr", block_bytes=30_000)
    assert corpus.n_blocks > 6
    return corpus


def wide_passes(corpus: Corpus) -> list[Pass]:
    """Those with a row for each word."""
    heads = head_passes(corpus)
    return [*all_passes(corpus)[1:3], heads[0], heads[-1]]


def test_runner__threads_do_not_change_a_bit_of_rare_words(wide: Corpus) -> None:
    cut = segments(wide, 1)
    for work in wide_passes(wide):
        block = wide.block(0)
        segment = work.zero()
        work.add(segment, block)
        tall = next(value for value in segment.values() if isinstance(value, TallSum))
        assert tall.waiting
        one = Runner(n_threads=1).run(work, wide, cut)
        for n_threads in (2, 4):
            assert_identical(Runner(n_threads=n_threads).run(work, wide, cut), one)


@pytest.mark.slow
def test_runner__a_cluster_does_not_change_a_bit_of_rare_words(wide: Corpus, client: Any) -> None:
    parts = wide_passes(wide)
    for cut in (segments(wide, 1), segments(wide, 10**12)):
        one = Runner(n_threads=2).run_together(parts, wide, cut)
        assert_identical(Runner(client=client).run_together(parts, wide, cut), one)


def test_runner__threads_are_compared_on_sums_that_depend_on_order(planted: Corpus) -> None:
    for work in all_passes(planted)[1:]:  # X'X itself is whole numbers, exact in any order
        one, other = (Runner(1).run(work, planted, segments(planted, size)) for size in (1, 10**12))
        with pytest.raises(AssertionError):
            assert_identical(one, other)


def test_runner__adds_up_all_segments(planted: Corpus) -> None:
    for work in all_passes(planted):
        expected = work.zero()
        for block in planted.blocks():
            work.add(expected, block)
        for accumulator_bytes in (1, 10**12):
            sums = Runner(n_threads=1).run(work, planted, segments(planted, accumulator_bytes))
            sums = plain_sums(sums)
            for name, array in plain_sums(expected).items():
                size = abs(array).max()
                np.testing.assert_allclose(sums[name], array, rtol=1e-6, atol=1e-12 * size, err_msg=name)


def test_runner__threads_do_not_change_a_bit_of_the_heads(planted: Corpus) -> None:
    heads = [SetAside(0.1), *head_passes(planted)]
    cut = segments(planted, 1)
    for work in (*heads, Together((*heads, *all_passes(planted)))):
        one = Runner(n_threads=1).run(work, planted, cut)
        for n_threads in (2, 4):
            assert_identical(Runner(n_threads=n_threads).run(work, planted, cut), one)


def test_runner__heads_are_compared_on_sums_that_depend_on_order(planted: Corpus) -> None:
    for work in head_passes(planted):
        one, other = (Runner(1).run(work, planted, segments(planted, size)) for size in (1, 10**12))
        with pytest.raises(AssertionError):
            assert_identical(one, other)


@pytest.mark.parametrize(("n_docs", "n_threads"), [(0, 1), (100, 3), (1600, 1), (1600, 3)])
def test_run_together__gives_what_each_pass_gives(planted: Corpus, n_docs: int, n_threads: int) -> None:
    corpus = planted.head(n_docs)
    parts = [*head_passes(corpus)[::2], all_passes(corpus)[1]]
    cut = segments(corpus, 1)
    runner = Runner(n_threads)
    together = runner.run_together(parts, corpus, cut)
    assert len(together) == len(parts)
    for work, sums in zip(parts, together, strict=True):
        assert_identical(sums, runner.run(work, corpus, cut))


def test_run_together__the_same_pass_twice_is_summed_twice(planted: Corpus) -> None:
    work = head_passes(planted)[2]
    one, other = Runner(2).run_together([work, work], planted, segments(planted, 1))
    assert_identical(one, other)
    assert not any(np.shares_memory(one[name], other[name]) for name in one)


def test_together__is_a_pass_of_passes(planted: Corpus) -> None:
    cross, _, features, *_ = head_passes(planted)
    inner = Together((features,))
    work = Together((cross, inner))
    assert (work.name, inner.name) == ("cross", "features")
    assert work.accumulator_bytes == cross.accumulator_bytes + features.accumulator_bytes
    sums = Runner(2).run(work, planted, segments(planted, 1))
    assert sums.keys() == {"0", "1"}
    assert_identical(sums["1"]["0"], Runner(2).run(features, planted, segments(planted, 1)))


def test_together__parts_may_be_taken_from_the_last_to_the_first(planted: Corpus) -> None:
    order: list[str] = []
    first, second = (Remember(lambda _, name=name: order.append(name)) for name in "ab")
    both = Together((first, second))
    both.in_turn(1)(both.zero(), planted.block(0))
    assert order == ["b", "a"]
    work = Together((*all_passes(planted)[1:3], *head_passes(planted)[:2]))
    sums = [work.zero(), work.zero()]
    for number, own in enumerate(sums):
        for block in planted.blocks():
            work.in_turn(number)(own, block)
        sums_module.settle(own)
    assert_identical(*sums)


@pytest.mark.parametrize("at_a_time", [1, 2, 5])
def test_runner__tasks_at_a_time_do_not_change_a_bit(planted: Corpus, at_a_time: int) -> None:
    cut = segments(planted, 1)
    for work in (*all_passes(planted), *head_passes(planted)):
        one = Runner(n_threads=1).run(work, planted, cut)
        assert_identical(Runner(n_threads=2, at_a_time=at_a_time).run(work, planted, cut), one)


def test_runner__no_more_tasks_at_a_time_than_allowed(planted: Corpus) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def use(_: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001)
        with lock:
            running -= 1

    work = Remember(use)
    for n_threads, at_a_time, expected in ((4, 1, 1), (4, 2, 2), (1, None, 1), (2, None, 2)):
        most = 0
        Runner(n_threads, at_a_time=at_a_time).run(work, planted, segments(planted, 1))
        assert most <= expected


# -- sums in files --------------------------------------------------------------------------------------


def test_spilled__large_zeros_lie_in_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sums_module, "_SPILL_BYTES", 80)
    gathered = Gathered()
    sums = {
        "large": np.zeros((5, 2)),
        "small": np.zeros(9),
        "deeper": {"large": np.zeros(20, np.float32), "gathered": gathered, "empty": np.zeros((0, 4))},
    }
    made = sums_module.spilled(sums)
    assert isinstance(made["large"], np.memmap)
    assert isinstance(made["deeper"]["large"], np.memmap)
    assert made["small"] is sums["small"]
    assert made["deeper"]["gathered"] is gathered
    assert made["deeper"]["empty"] is sums["deeper"]["empty"]
    for one, other in ((made["large"], sums["large"]), (made["deeper"]["large"], sums["deeper"]["large"])):
        np.testing.assert_array_equal(np.asarray(one), other, strict=True)
        one += 1
        assert (np.asarray(one) == 1).all()
        assert not other.any()
    assert list(tmp_path.iterdir()) == []  # files without a name are gone with their arrays


def test_spilled__leaves_what_is_small(planted: Corpus) -> None:
    for work in (*all_passes(planted), *head_passes(planted)):
        left, zero = (dict(partials._flat(sums)) for sums in (sums_module.spilled(work.zero()), work.zero()))
        assert_identical(left, zero)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_runner__sums_in_files_are_the_same(
    planted: Corpus, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums_module, "_SPILL_BYTES", 1)
    cut = segments(planted, 1)
    for work in (*all_passes(planted), *head_passes(planted)):
        plain = Runner(1).run(work, planted, cut)
        in_files = Runner(n_threads, spill=True).run(work, planted, cut)
        for name, value in plain.items():
            array, mapped = (getattr(of, "rows", of) for of in (value, in_files[name]))
            assert not isinstance(array, np.memmap)
            assert isinstance(mapped, np.memmap) == (isinstance(array, np.ndarray) and array.size > 0)
        plain, in_files = (dict(partials._flat(sums)) for sums in (plain, in_files))
        assert_identical({name: np.asarray(array) for name, array in in_files.items()}, plain)


@pytest.mark.parametrize("whitening", ["exact", "sketch"])
@pytest.mark.parametrize("head", ["posterior", "blend"])
def test_learn__threads_do_not_change_a_bit(planted: Corpus, whitening: Any, head: Any) -> None:
    settings = Settings(4, whitening, view=COUNTS_DROP, head=HeadSettings(head))
    one = learn(planted, settings, Runner(n_threads=1))
    for n_threads in (2, 4):
        assert_identical(learn(planted, settings, Runner(n_threads=n_threads)), one)


@pytest.mark.slow
def test_runner__a_cluster_does_not_change_a_bit(planted: Corpus, client: Any) -> None:
    for work in all_passes(planted):
        for accumulator_bytes in (1, 10**12):
            cut = segments(planted, accumulator_bytes)
            one = Runner(n_threads=2).run(work, planted, cut)
            assert_identical(Runner(client=client).run(work, planted, cut), one)


@pytest.mark.slow
def test_runner__a_cluster_does_not_change_a_bit_of_the_heads(planted: Corpus, client: Any) -> None:
    heads = [SetAside(0.1), *head_passes(planted)]
    cut = segments(planted, 1)
    for work in heads:
        one = Runner(n_threads=2).run(work, planted, cut)
        assert_identical(Runner(client=client).run(work, planted, cut), one)
    for corpus in (planted, planted.head(int(planted.block_rows[0]) - 1)):
        parts = [*heads, *all_passes(corpus)]
        for cut in (segments(corpus, 1), segments(corpus, 10**12)):
            one = Runner(n_threads=2).run_together(parts, corpus, cut)
            assert_identical(Runner(client=client).run_together(parts, corpus, cut), one)


@pytest.mark.slow
@pytest.mark.parametrize("view", [WordView(), COUNTS_DROP], ids=["binary-keep", "counts-drop"])
@pytest.mark.parametrize("whitening", ["exact", "sketch"])
@pytest.mark.parametrize("head", ["posterior", "blend"])
def test_learn__a_cluster_does_not_change_a_bit(
    planted: Corpus, client: Any, whitening: Any, view: WordView, head: Any
) -> None:
    settings = Settings(4, whitening, view=view, head=HeadSettings(head, refine_passes=int(head == "blend")))
    one = learn(planted, settings, Runner(n_threads=2))
    assert isinstance(one, Learned)
    assert_identical(learn(planted, settings, Runner(client=client)), one)


@pytest.mark.slow
def test_runner__a_cluster_takes_one_block_and_a_view(planted: Corpus, client: Any) -> None:
    view = planted.head(int(planted.block_rows[0]) - 1)
    for work in all_passes(view):
        for cut in (segments(view, 1), segments(view, 10**12)):
            one = Runner(n_threads=1).run(work, view, cut)
            assert_identical(Runner(client=client).run(work, view, cut), one)


@pytest.mark.slow
def test_runner__a_second_run_on_a_cluster_is_not_the_first(
    planted: Corpus, client: Any, tmp_path: Path
) -> None:
    X, Y = random_matrices(60, 23, 7)
    other = ingest_matrices(X, Y, tmp_path / "other.zarr", block_bytes=700)
    for corpus in (planted, other):
        sums = Runner(client=client).run(Pairs(WordView(), corpus.n_terms), corpus, segments(corpus, 1))
        assert sums["statistics"][0] == corpus.n_docs


def test_merge__in_place() -> None:
    one, other = ({"a": np.full(2, x), "b": np.full(3, 10 * x)} for x in (1.0, 2.0))
    assert merge_into(one, other) is one
    assert one["a"].tolist() == [3, 3]
    assert one["b"].tolist() == [30, 30, 30]
    assert other["b"].tolist() == [20, 20, 20]


def nested_sums(x: float) -> Sums:
    """Arrays and objects, at the top and deeper."""
    moment = CrossMoment(np.array([0, 0, 1]), np.array([2], np.int32), np.array([x], np.float32), n_terms=4)
    deeper = {"array": np.full(3, 10 * x), "moment": moment, "deepest": {"array": np.full(1, 100 * x)}}
    return {"array": np.full(2, x), "gathered": Gathered([f"blocks of {x}"]), "deeper": deeper}  # type: ignore[list-item]


def test_merge__of_objects_and_of_sums_in_sums() -> None:
    one, other = nested_sums(1), nested_sums(2)
    kept = one["array"], one["deeper"]["array"], one["deeper"]["deepest"]["array"]
    assert merge_into(one, other) is one
    assert one["deeper"]["deepest"]["array"].tolist() == [300]
    assert one["deeper"]["array"].tolist() == [30, 30, 30]
    assert one["deeper"]["moment"].values.tolist() == [3]
    assert one["array"].tolist() == [3, 3]
    assert one["gathered"].blocks == ["blocks of 1", "blocks of 2"]
    assert_identical(other, nested_sums(2))
    # no second accumulator is made
    assert one["array"] is kept[0]
    assert one["deeper"]["array"] is kept[1]
    assert one["deeper"]["deepest"]["array"] is kept[2]


# -- passes by path -------------------------------------------------------------------------------------


def arrays_in(value: Any) -> list[np.ndarray]:
    """The arrays of a pass, at any depth."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, tuple):
        return [array for part in value for array in arrays_in(part)]
    if dataclasses.is_dataclass(value):
        return arrays_in(tuple(getattr(value, field.name) for field in dataclasses.fields(value)))
    return []


def test_by_path__every_array_comes_back_as_a_memory_map(planted: Corpus, tmp_path: Path) -> None:
    work = Together((*head_passes(planted), *all_passes(planted), Together(tuple(head_passes(planted)))))
    sent = _by_path(work, tmp_path)
    assert arrays_in(sent) == []
    before, after = arrays_in(work), arrays_in(_with_arrays(pickle.loads(pickle.dumps(sent))))
    assert len(list(tmp_path.iterdir())) == len(before) == len(after) > 20
    assert any(array.size == 0 for array in before)
    for one, other in zip(before, after, strict=True):
        assert isinstance(other, np.memmap)
        assert not other.flags.writeable
        np.testing.assert_array_equal(one, other, strict=True)


def test_by_path__a_pass_is_small_to_send(planted: Corpus, tmp_path: Path) -> None:
    work = Together(tuple(head_passes(planted)))
    assert sum(array.nbytes for array in arrays_in(work)) > 10_000
    assert len(pickle.dumps(_by_path(work, tmp_path))) < 5000


def test_by_path__leaves_the_rest_and_the_pass_alone(planted: Corpus, tmp_path: Path) -> None:
    work = head_passes(planted)[4]
    assert isinstance(work, Responsibilities)
    sent = _by_path(work, tmp_path)
    assert isinstance(work.log_O, np.ndarray)
    assert isinstance(sent.log_O, _Stored)
    assert (sent.view, sent.log_Q, sent.held_out_share, sent.name) == (COUNTS_DROP, None, 0.1, "refine")
    assert arrays_in(work)[0] is work.log_O


@pytest.mark.parametrize("n_threads", [1, 3])
def test_progress__counts_documents_up_to_all(planted: Corpus, n_threads: int) -> None:
    for corpus in (planted, planted.head(100)):
        seen: list[tuple[str, float, float]] = []
        runner = Runner(n_threads, progress=lambda *step, seen=seen: seen.append(step))
        cut = segments(corpus, 1)
        runner.run(Pairs(WordView(), corpus.n_terms), corpus, cut)
        assert len(seen) == 1 + corpus.n_blocks
        assert [step[1] for step in seen] == sorted(step[1] for step in seen)
        assert seen[-1] == ("pairs", corpus.n_docs, corpus.n_docs)


@dataclasses.dataclass(frozen=True)
class Broken:
    """A pass that fails on one block."""

    name: str = "broken"

    def zero(self) -> Sums:
        return {"n": np.zeros(1)}

    def add(self, sums: Sums, block: Any) -> None:
        if block.number == 3:
            raise ZeroDivisionError("block 3")


def test_runner__an_error_in_a_task_is_raised(planted: Corpus) -> None:
    with pytest.raises(ZeroDivisionError, match="block 3"):
        Runner(n_threads=2).run(Broken(), planted, segments(planted, 1))


# -- reading ahead --------------------------------------------------------------------------------------


class Shelf:
    """A corpus that hands out numbers for blocks, remembers which, and has one that cannot be read."""

    def __init__(self, unreadable: int | None = None) -> None:
        self.read: list[int] = []
        self.held: list[Any] = []
        self.error = OSError("block cannot be read")
        self.unreadable = unreadable
        self.begun = {number: threading.Event() for number in range(10)}

    def block(self, number: int, held: Any = None) -> int:
        self.read.append(number)
        self.held.append(held)
        self.begun[number].set()
        if number == self.unreadable:
            raise self.error
        return number


@dataclasses.dataclass(frozen=True)
class Remember:
    """A pass that sums up block numbers in their order, and does something with each."""

    use: Callable[[int], None] = lambda number: None
    name: str = "remember"

    def zero(self) -> Sums:
        return {"numbers": []}

    def add(self, sums: Sums, block: Any) -> None:
        self.use(block)
        sums["numbers"].append(block)


def streamed(shelf: Shelf, blocks: range, held: Any = None, **options: Any) -> list[int]:
    segment = Segment(0, blocks, 0)
    with ReadAhead(shelf, held or {}, [segment], 1) as reads:  # type: ignore[arg-type]
        numbers: list[int] = Stream(Remember(**options), reads)(segment)["numbers"]
    return numbers


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


leaves_no_thread = pytest.mark.usefixtures("no_thread_is_left")


@leaves_no_thread
@pytest.mark.parametrize("blocks", [range(1), range(2), range(7), range(3, 8), range(4, 5)], ids=str)
def test_stream__every_block_once_and_in_order(blocks: range) -> None:
    shelf = Shelf()
    assert streamed(shelf, blocks) == list(blocks)
    assert shelf.read == list(blocks)


@leaves_no_thread
def test_stream__the_next_block_is_read_while_one_is_worked_on() -> None:
    shelf = Shelf()

    def use(number: int) -> None:
        if number < 5:
            assert shelf.begun[number + 1].wait(timeout=20)

    assert streamed(shelf, range(6), use=use) == list(range(6))


@leaves_no_thread
def test_stream__no_more_than_one_block_is_read_ahead() -> None:
    shelf = Shelf()

    def use(number: int) -> None:
        shelf.begun[min(number + 1, 5)].wait(timeout=20)
        time.sleep(0.005)
        assert max(shelf.read) <= number + 1

    assert streamed(shelf, range(6), use=use) == list(range(6))


@leaves_no_thread
def test_stream__words_that_are_held_are_handed_on() -> None:
    shelf = Shelf()
    streamed(shelf, range(5), held={1: "one", 4: "four", 7: "seven"})
    assert shelf.held == [None, "one", None, None, "four"]


@leaves_no_thread
@pytest.mark.parametrize("unreadable", [0, 1, 3, 5])
def test_stream__a_block_that_cannot_be_read_is_told_once(unreadable: int) -> None:
    shelf, used = Shelf(unreadable), []
    with pytest.raises(OSError, match=r"^block cannot be read$") as caught:
        streamed(shelf, range(6), use=used.append)
    # the very error, with nothing said of another one before it
    assert caught.value is shelf.error
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert not hasattr(caught.value, "__notes__")
    assert used == list(range(unreadable))
    assert shelf.read == list(range(unreadable + 1))


@leaves_no_thread
@pytest.mark.parametrize("unreadable", [None, 4])
def test_stream__an_error_in_the_work_leaves_no_thread(unreadable: int | None) -> None:
    """Not even when the block after it cannot be read, either."""
    shelf = Shelf(unreadable)

    def use(number: int) -> None:
        if number == 3:
            raise ZeroDivisionError("block 3")

    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError, match="block 3") as caught:
        streamed(shelf, range(8), use=use)
    assert set(threading.enumerate()) <= before  # while the error, and all that it refers to, is still there
    assert caught.value.__context__ is None
    assert max(shelf.read) <= 4


@leaves_no_thread
def test_stream__sums_are_those_of_blocks_read_one_by_one(planted: Corpus) -> None:
    for work in (*all_passes(planted), *head_passes(planted)):
        expected = work.zero()
        for number in range(2, 9):
            work.add(expected, planted.block(number))
        sums_module.settle(expected)
        segment = Segment(0, range(2, 9), 0)
        with ReadAhead(planted, {}, [segment], 1) as reads:
            assert_identical(Stream(work, reads)(segment), expected)


@leaves_no_thread
@pytest.mark.parametrize("n_tasks", [1, 2, 3])
def test_read_ahead__the_first_block_of_a_task_s_next_segment_too(n_tasks: int) -> None:
    shelf = Shelf()
    cut = [Segment(i, range(i, i + 1), 1) for i in range(6)]
    with ReadAhead(shelf, {}, cut, n_tasks) as reads:  # type: ignore[arg-type]
        for segment in cut:
            for _ in reads.blocks(segment):
                if segment.number + n_tasks < len(cut):
                    assert shelf.begun[segment.number + n_tasks].wait(timeout=20)
    assert sorted(shelf.read) == list(range(6))  # each of them once


def test_runner__a_block_that_cannot_be_read_is_raised(planted_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.zarr"
    shutil.copytree(planted_path, path)
    for chunk in (path / "X" / "00004" / "indices").rglob("0"):
        chunk.write_bytes(b"nonsense")
    corpus = Corpus.open(path)
    for n_threads in (1, 3):
        with pytest.raises(Exception, match="00004"):
            Runner(n_threads).run(Pairs(WordView(), corpus.n_terms), corpus, segments(corpus, 1))


# -- three reads ----------------------------------------------------------------------------------------


class CountingStore(zarr.storage.LocalStore):
    """Counts how often each chunk is read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, read_only=True)
        self.reads: Counter[str] = Counter()

    async def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
        self.reads[key] += 1
        return await super().get(key, *args, **kwargs)

    def of(self, side: str, n_blocks: int) -> list[int]:
        """Reads of the column ids of each block."""
        return [self.reads[f"{side}/{number:05d}/indices/c/0"] for number in range(n_blocks)]


def test_counting_store__counts(planted_path: Path) -> None:
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    corpus.block(1)
    corpus.block_side("X", 1)
    assert store.of("X", 3) == [0, 2, 0]
    assert store.of("Y", 3) == [0, 1, 0]


@pytest.mark.parametrize("n_threads", [1, 4])
@pytest.mark.parametrize("error_bars", [True, False])
@pytest.mark.parametrize("head", KINDS)
def test_learn__reads_every_block_three_times(
    planted_path: Path, n_threads: int, error_bars: bool, head: Any
) -> None:
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    settings = Settings(4, "exact", view=COUNTS_DROP, error_bars=error_bars, head=HeadSettings(head))
    learned = learn(corpus, settings, Runner(n_threads=n_threads))
    assert learned.n_reads == 3
    assert store.of("X", corpus.n_blocks) == [3] * corpus.n_blocks
    assert max(store.of("Y", corpus.n_blocks)) <= 3
    assert learned.stats["sample_share"] == 0


@pytest.mark.parametrize("head", ["refined", "blend"])
def test_learn__refining_reads_every_block_as_often_as_it_says(planted_path: Path, head: Any) -> None:
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    learned = learn(corpus, Settings(4, "exact", head=HeadSettings(head, refine_passes=2)), Runner(2))
    assert learned.n_reads == 5
    for side in ("X", "Y"):
        assert store.of(side, corpus.n_blocks) == [5] * corpus.n_blocks


def test_run_together__reads_every_block_once(planted_path: Path) -> None:
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    parts = [*head_passes(corpus), *all_passes(corpus)]
    Runner(n_threads=2).run_together(parts, corpus, segments(corpus, 1))
    for side in ("X", "Y"):
        assert store.of(side, corpus.n_blocks) == [1] * corpus.n_blocks


def test_learn__a_sketch_reads_every_block_three_times(planted_path: Path) -> None:
    """The sampled blocks wait in memory for pass 1."""
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    learned = learn(corpus, Settings(4, "sketch"), Runner(n_threads=2))
    assert store.of("X", corpus.n_blocks) == [3] * corpus.n_blocks
    assert learned.stats["sample_share"] == 0
    assert max(store.of("Y", corpus.n_blocks)) <= 3


def test_learn__sampled_blocks_that_cannot_wait_are_read_once_more(
    planted_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "_HELD_BYTES", 1)
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    learned = learn(corpus, Settings(4, "sketch"), Runner(n_threads=2))
    reads = store.of("X", corpus.n_blocks)
    assert set(reads) == {3, 4}
    assert learned.stats["sample_share"] == pytest.approx(reads.count(4) / corpus.n_blocks)
    monkeypatch.undo()
    whole = learn(corpus, Settings(4, "sketch"), Runner(n_threads=2))
    np.testing.assert_array_equal(whole.head.topics.O, learned.head.topics.O)


def test_fit__reads_every_block_of_a_view_three_times(planted_path: Path) -> None:
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    train, _ = corpus.split(test=0.3)
    model = MomentLabeler(4, whitening="exact").fit(train)
    assert store.of("X", corpus.n_blocks) == [3] * corpus.n_blocks
    np.testing.assert_array_equal(model.label_counts_, train.label_counts)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_learn__a_sketch_of_a_view_counts_its_reads_honestly(planted_path: Path, share: float) -> None:
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    head = corpus.head(round(share * corpus.n_docs))
    learned = learn(head, Settings(3, "sketch"), Runner(n_threads=2))
    reads = sum(store.of("X", corpus.n_blocks))
    assert reads / corpus.n_blocks == pytest.approx(3 + learned.stats["sample_share"])


# -- memory ---------------------------------------------------------------------------------------------


def repeated(path: Path, n_blocks: int, n_terms: int, rows: int) -> Corpus:
    """A corpus of about as many equal blocks."""
    one = scipy.sparse.random_array((rows, n_terms), density=20 / n_terms, rng=1, format="csr")
    labels = scipy.sparse.random_array((rows, 9), density=0.2, rng=2, format="csr")
    size = 8 * (one.nnz + labels.nnz) + 16 * rows
    X, Y = (scipy.sparse.vstack([part] * n_blocks, format="csr") for part in (one, labels))
    corpus = ingest_matrices(X, Y, path, binary=True, block_bytes=size)
    assert n_blocks <= corpus.n_blocks <= 1.25 * n_blocks
    return corpus


def peak(work: Pass, corpus: Corpus, accumulator_bytes: int = 1, n_threads: int = 1) -> int:
    """Bytes held at most during one pass."""
    runner, cut = Runner(n_threads=n_threads), segments(corpus, accumulator_bytes)
    runner.run(work, corpus, cut)  # compiled and warm
    tracemalloc.start()
    try:
        runner.run(work, corpus, cut)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory__of_a_pass_does_not_grow_with_the_blocks(tmp_path: Path) -> None:
    # blocks of 1 MB: beside them the tasks themselves, which are as many as segments, are nothing
    few, many = (repeated(tmp_path / str(n), n, 40, rows=5_000) for n in (8, 32))
    W = np.random.default_rng(0).standard_normal((40, 5), dtype=np.float32)
    view = WordView()
    sketch = Sketch.of(W, np.arange(40), 40)
    for work in (
        Pairs(view, 40),
        Pairs(view, 40, sketch),
        Triples(view, W),
        label_pass(view, W, np.eye(5), 9),
    ):
        # of three runs: by chance, a block is read just when the one before it takes most
        reference = max(peak(work, few, 10**12) for _ in range(3))
        for accumulator_bytes in (1, 10**12):
            least = min(peak(work, many, accumulator_bytes) for _ in range(3))
            assert least <= 1.3 * reference, work.name


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_memory__large_accumulators_are_merged_as_they_come(tmp_path: Path, n_threads: int) -> None:
    """Those of the tasks that run, and the sum of all that are done, however many segments there are."""
    D = 1000
    accumulator = Pairs(WordView(), D).accumulator_bytes
    assert accumulator >= 8 * D * D
    block = 200 * 20 * 8
    working = 15 * block * n_threads + 500_000  # and the tasks themselves
    assert working < accumulator / 3  # or one accumulator more would not be seen

    def least_peak(*arguments: Any) -> int:
        """Of three runs: what other tests left running in this process may only add to a peak."""
        return min(peak(*arguments, n_threads=n_threads) for _ in range(3))

    half = segments_module.ACCUMULATORS_BYTES // 2
    for n_blocks in (8, 33):
        corpus = repeated(tmp_path / str(n_blocks), n_blocks, D, rows=200)
        assert len(segments(corpus, 1)) >= 8
        assert least_peak(Pairs(WordView(), D), corpus, 1) <= (n_threads + 1) * accumulator + working
        assert len(segments(corpus, half)) == 2
        assert least_peak(Pairs(WordView(), D), corpus, half) <= 2 * accumulator + working
