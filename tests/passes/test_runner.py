"""How passes are run: the same sums to the last bit everywhere, every block read once, bounded memory."""

from __future__ import annotations

import pickle
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import zarr.storage

from tests.passes.conftest import PASSES, assert_identical, every_pass
from threepass import Corpus, ingest_matrices, ingest_planted
from threepass.corpus.store import Block
from threepass.ingest.synthetic import Lengths, Planted
from threepass.model.fitting import Fit, FitSettings, start
from threepass.moments.method import MomentMethod, MomentSettings
from threepass.moments.pairs import Pairs
from threepass.moments.sample import Sampling, read_sample
from threepass.moments.triples import Triples
from threepass.moments.words import WordView
from threepass.parts.part import PartSettings
from threepass.passes.checkpoints import RunDirectory
from threepass.passes.cluster.executor import _by_path, _with_arrays
from threepass.passes.cost import Needs, Size
from threepass.passes.executors import Threads
from threepass.passes.runner import Runner
from threepass.passes.segments import segments
from threepass.passes.stages import Read
from threepass.passes.sums import Sums
from threepass.passes.tall import RANKS
from threepass.passes.work import JointPass, Pass, array_bytes, arrays_of

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
def wide(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """More words than have a row in every segment."""
    D = RANKS.frequent + 900
    X = scipy.sparse.random_array((300, D), density=0.01, rng=np.random.default_rng(3), format="csr")
    X.data = np.ceil(3 * X.data)
    Y = scipy.sparse.random_array((300, 7), density=0.3, rng=np.random.default_rng(4), format="csr")
    corpus = ingest_matrices(X, Y, tmp_path_factory.mktemp("wide") / "wide.zarr", block_bytes=30_000)
    assert corpus.n_blocks > 6
    return corpus


def passes_of(corpus: Corpus) -> list[Pass[Any]]:
    """Rare words weigh far more than common ones: in another order their sums round differently."""
    return [given.work for given in every_pass(corpus.n_terms, corpus.n_labels, sizes=True).values()]


def runner(n_threads: int | None = 1, **options: Any) -> Runner:
    return Runner(Threads(n_threads), **options)


# -- the same sums everywhere ---------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["planted", "wide"])
def test_run__threads_tasks_and_company_do_not_change_a_bit(
    which: str, request: pytest.FixtureRequest
) -> None:
    corpus: Corpus = request.getfixturevalue(which)
    works, cut = passes_of(corpus), segments(request.getfixturevalue(which), 1)
    assert len(cut) > 4
    alone = [runner().run(work, corpus, cut) for work in works]
    if which == "wide":
        waiting = [sums for sums in alone if any(name.endswith("Z") for name in sums.to_arrays())]
        assert not waiting  # merged sums have a row for every word; those of a segment do not
        assert any("Z" in name for name in one_segment(works[0], corpus).to_arrays())
    for options in ({"n_threads": 2}, {"n_threads": None}, {"n_threads": 3, "at_a_time": 5}):
        together = runner(**options).read(works, corpus)
        for one, other in zip(together, alone, strict=True):
            assert_identical(one, other)


def one_segment(work: Pass[Any], corpus: Corpus) -> Sums:
    sums: Sums = work.zero()
    work.add(sums, corpus.block(0))
    return sums


def test_run__is_compared_on_sums_that_depend_on_order(planted: Corpus) -> None:
    rounded = set()
    for name, work in zip(PASSES, passes_of(planted), strict=True):
        one, other = (runner().run(work, planted, segments(planted, size)) for size in (1, 10**12))
        try:
            assert_identical(one, other)
        except AssertionError:
            rounded.add(name)
    assert {"sketched pairs", "triples", "labels", "cross", "features", "responsibilities"} <= rounded


@pytest.mark.parametrize("n_docs", [0, 1, 1600])
def test_run__adds_up_all_segments(planted: Corpus, n_docs: int) -> None:
    view = planted.head(n_docs)
    work = Pairs(COUNTS_DROP, planted.n_terms)
    X = view.to_scipy()[0].toarray().astype(np.float64)
    for segment_bytes in (1, 10**12):
        sums = runner(2).run(work, view, segments(view, segment_bytes))
        assert sums.statistics.n_docs == n_docs
        np.testing.assert_array_equal(sums.pairs, np.triu(X.T @ X))


def test_together__is_a_pass_of_passes(planted: Corpus) -> None:
    first, second = Pairs(COUNTS_DROP, planted.n_terms), Triples(COUNTS_DROP, np.ones((150, 2), np.float32))
    size = Size(10, 100, 20)
    work = JointPass((first, JointPass((second, first))))
    assert work.name == "pairs"
    assert work.needs(size) == first.needs(size) + second.needs(size) + first.needs(size)
    sums = runner(2).run(work, planted, segments(planted, 1))
    one, (_, other) = sums.parts[0], sums.parts[1].parts  # type: ignore[attr-defined]
    assert_identical(one, other)  # the same pass twice is summed twice
    assert not np.shares_memory(one.pairs, other.pairs)


# -- by files, and after a kill -----------------------------------------------------------------------------


def test_by_path__a_pass_is_small_to_send_and_its_arrays_come_back(planted: Corpus, tmp_path: Path) -> None:
    works = passes_of(planted)
    work = JointPass((*works, JointPass(tuple(works[:2]))))
    before = arrays_of(work)
    sent = pickle.dumps(_by_path(work, tmp_path))
    assert len(sent) < 8000 < array_bytes(work)
    after = arrays_of(_with_arrays(pickle.loads(sent)))
    assert len(list(tmp_path.iterdir())) == len(before) == len(after) > 20
    assert all(one is other for one, other in zip(before, arrays_of(work), strict=True))
    for one, other in zip(before, after, strict=True):
        assert isinstance(other, np.memmap)
        assert not other.flags.writeable
        np.testing.assert_array_equal(one, other, strict=True)


class Stop(Exception):
    """Stands for a kill, between two blocks."""


def stop_at(name: str, share: float) -> Callable[[str, float, float], None]:
    def progress(stage: str, done: float, total: float) -> None:
        if stage == name and done >= share * total:
            raise Stop

    return progress


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_run__goes_on_where_it_was_killed(planted: Corpus, tmp_path: Path, share: float) -> None:
    work = JointPass(tuple(passes_of(planted)))
    cut = segments(planted, 1)
    expected = runner().run(work, planted, cut)
    with pytest.raises(Stop), RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
        runner(files=files, progress=stop_at(work.name, share)).run(work, planted, cut)
    with RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
        assert_identical(runner(2, files=files).run(work, planted, cut), expected)
        # one task at a time: no more than the segment that it was at is done again
        assert files.reused == pytest.approx(share * len(cut), abs=1.5)
        assert files.reused + files.computed == len(cut)


def damage(path: Path, how: str) -> None:
    raw = bytearray(path.read_bytes())
    if how == "flip":
        raw[len(raw) // 2] ^= 1
    path.write_bytes({"flip": raw, "cut": raw[:-1], "empty": b""}[how])


@pytest.mark.parametrize("how", ["flip", "cut", "empty"])
def test_run__damaged_files_are_made_again(planted: Corpus, tmp_path: Path, how: str) -> None:
    work, cut = JointPass(tuple(passes_of(planted))), segments(planted, 1)
    computed = []
    for _ in range(2):
        with RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
            sums = runner(2, files=files).run(work, planted, cut)
            computed.append(files.computed)
        (kept,) = (tmp_path / "run").rglob("total-*")  # older ones are gone
        damage(kept, how)
    assert computed == [len(cut)] * 2
    assert_identical(sums, runner().run(work, planted, cut))
    assert "ignored" in (tmp_path / "run" / "run.jsonl").read_text()


# -- whole fits -------------------------------------------------------------------------------------------


def fitted(corpus: Corpus, head: Any, n_threads: int | None, progress: Any = None, **files: Any) -> Fit:
    """A fit by a sketch; with two refinements where the head is refined topics."""
    refine = 2 * (head == "refined")
    settings = FitSettings(
        MomentSettings(4, "sketch", view=COUNTS_DROP), PartSettings(head, refine_passes=refine)
    )
    fit, own = start(corpus, settings, runner(n_threads, progress=progress, **files))
    fit.run(own)
    return fit


def assert_same_fit(one: Fit, other: Fit) -> None:
    for part in ("moments", "blend"):
        arrays, others = arrays_of(getattr(one, part)), arrays_of(getattr(other, part))
        assert len(arrays) == len(others) > 3
        for array, expected in zip(arrays, others, strict=True):
            np.testing.assert_array_equal(array, expected, strict=True)
    assert one.stats.get("choice") == other.stats.get("choice")


@pytest.mark.parametrize(
    "head",
    [
        "posterior",
        "blend",
        *(pytest.param(head, marks=pytest.mark.exhaustive) for head in ("ridge", "refined")),
    ],
)
def test_fit__threads_and_restarts_do_not_change_a_bit(planted: Corpus, tmp_path: Path, head: str) -> None:
    one = fitted(planted, head, 1)
    for n_threads in (2, 3):
        assert_same_fit(fitted(planted, head, n_threads), one)
    for name, share in (("pairs", 0.5), ("labels", 0.4)):
        with pytest.raises(Stop), RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
            fitted(planted, head, 2, stop_at(name, share), files=files)
    with RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
        assert_same_fit(fitted(planted, head, 3, files=files), one)
        assert files.reused > len(segments(planted, 1))  # more than the first read
        assert files.computed > 0
    with RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
        assert_same_fit(fitted(planted, head, 1, files=files), one)
        assert files.computed == 0


# -- tasks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 3])
def test_progress__counts_documents_up_to_all(planted: Corpus, n_threads: int) -> None:
    for corpus in (planted, planted.head(100)):
        seen: list[tuple[str, float, float]] = []
        own = runner(n_threads, progress=lambda *step, seen=seen: seen.append(step))
        own.run(Pairs(WordView(), corpus.n_terms), corpus, segments(corpus, 1))
        assert len(seen) == 1 + corpus.n_blocks
        assert [step[1] for step in seen] == sorted(step[1] for step in seen)
        assert seen[-1] == ("pairs", corpus.n_docs, corpus.n_docs)


@dataclass
class Nothing(Sums):
    n: int = 0


@dataclass(frozen=True)
class Use(Pass[Nothing]):
    """A pass that does something with each block."""

    use: Callable[[Block], None]
    name = "use"

    def needs(self, size: Size) -> Needs:
        return Needs()

    def zero(self) -> Nothing:
        return Nothing()

    def add(self, sums: Nothing, block: Block) -> None:
        self.use(block)


def test_run__an_error_in_a_task_is_raised(planted: Corpus) -> None:
    def fail(block: Block) -> None:
        if block.number == 3:
            raise ZeroDivisionError("block 3")

    with pytest.raises(ZeroDivisionError, match="block 3"):
        runner(2).run(Use(fail), planted, segments(planted, 1))


def test_run__no_more_tasks_at_a_time_than_allowed(planted: Corpus) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def use(_: Block) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001)
        with lock:
            running -= 1

    for n_threads, at_a_time, expected in ((4, 1, 1), (4, 2, 2), (1, None, 1), (2, None, 2)):
        most = 0
        runner(n_threads, at_a_time=at_a_time).run(Use(use), planted, segments(planted, 1))
        assert most <= expected


def test_run__a_block_that_cannot_be_read_is_raised(planted_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.zarr"
    shutil.copytree(planted_path, path)
    for chunk in (path / "X" / "00004" / "indices").rglob("0"):
        chunk.write_bytes(b"nonsense")
    corpus = Corpus.open(path)
    for n_threads in (1, 3):
        with pytest.raises(Exception, match="00004"):
            runner(n_threads).run(Pairs(WordView(), corpus.n_terms), corpus, segments(corpus, 1))


# -- reads ----------------------------------------------------------------------------------------------


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


def test_read__every_block_once_but_for_words_that_are_held(planted_path: Path) -> None:
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    works = passes_of(corpus)
    plain = runner(2).read(works, corpus)
    for side in ("X", "Y"):
        assert store.of(side, corpus.n_blocks) == [1] * corpus.n_blocks
    _, n_blocks, held = read_sample(corpus, True, Sampling(share=0.5))
    _, _, fewer = read_sample(corpus, True, Sampling(share=0.5, most_held=1))
    assert n_blocks == len(held) > 3
    assert not fewer
    store.reads.clear()
    numbers = list(held)
    for one, other in zip(runner(2).read(works, corpus, held), plain, strict=True):
        assert_identical(one, other)
    expected = [int(number not in numbers) for number in range(corpus.n_blocks)]
    assert store.of("X", corpus.n_blocks) == expected
    assert not held  # let go as they were read


def test_read__lets_go_of_held_words_that_an_earlier_run_had_summed(
    planted_path: Path, tmp_path: Path
) -> None:
    corpus = Corpus.open(planted_path)
    stage = Read(1, "pairs", corpus, [MomentMethod(MomentSettings(3), corpus)])
    with RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
        stage.run(runner(2, files=files))
    stage.held = {number: corpus.block(number).X for number in range(corpus.n_blocks)}
    with RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
        stage.run(runner(2, files=files))
    assert files.reused > 0
    assert not stage.held


@pytest.mark.parametrize(
    ("head", "whitening", "refine"),
    [("posterior", "exact", 0), ("blend", "sketch", 0), ("refined", "sketch", 2)],
)
def test_fit__reads_every_block_three_times_and_once_for_each_refinement(
    planted_path: Path, head: Any, whitening: Any, refine: int
) -> None:
    """The sampled blocks of a sketch wait in memory for pass 1."""
    store = CountingStore(planted_path)
    corpus = Corpus.open(store)
    train, _ = corpus.split(test=0.3)
    settings = FitSettings(MomentSettings(4, whitening), PartSettings(head, refine_passes=refine))
    fit, own = start(train, settings, runner(2))
    fit.run(own)
    assert fit.n_reads == 3 + refine
    assert store.of("X", corpus.n_blocks) == [3 + refine] * corpus.n_blocks
    assert max(store.of("Y", corpus.n_blocks)) <= 3 + refine
    assert fit.stats["sample_share"] == 0
