"""Run directories: a killed fit goes on where it was, and from nothing but its own sums."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.passes.conftest import assert_identical
from tests.passes.test_kept_sums import small_disk
from threepass import Corpus, InputError, MomentLabeler, StoreError, ingest_planted
from threepass.ingest.synthetic import Lengths, Planted
from threepass.moments.pairs import Pairs
from threepass.moments.triples import Triples
from threepass.moments.words import WordView
from threepass.passes.checkpoints import INPUTS, RunDirectory
from threepass.passes.executors import Threads
from threepass.passes.runner import Runner
from threepass.passes.segments import segments
from threepass.passes.work import arrays_of

PLANTED = Planted(2000, 300, 12, 4, words=Lengths(20, 16), labels=Lengths(2, 2), distinct=False, seed=3)
ALWAYS = 1e9
"""Tests are over before there is time for a checkpoint: the share of it that files may take."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "c.zarr"


@pytest.fixture(scope="module")
def corpus(root: Path) -> Corpus:
    return ingest_planted(PLANTED, root, block_bytes=50_000)


@pytest.fixture(scope="module")
def undisturbed(corpus: Corpus) -> MomentLabeler:
    return labeler().fit(corpus)


@pytest.fixture(scope="module")
def triples(corpus: Corpus) -> Triples:
    W = np.random.default_rng(0).standard_normal((corpus.n_terms, 4), dtype=np.float32)
    return Triples(WordView(), W)


def labeler(head: str = "blend", **parameters: Any) -> MomentLabeler:
    return MomentLabeler(4, **{"head": head, "head_dim": 20, "whitening": "sketch", **parameters})


def assert_same(one: MomentLabeler, other: MomentLabeler) -> None:
    """All arrays of two models."""
    for part in ("moments", "blend"):
        arrays, others = (arrays_of(getattr(model.predictor_, part)) for model in (one, other))
        assert len(arrays) == len(others) > 3
        for array, expected in zip(arrays, others, strict=True):
            np.testing.assert_array_equal(array, expected, strict=True)


class Stop(Exception):
    """Stands for a kill, between two blocks."""


def stop_at(name: str, share: float) -> Callable[[str, float, float], None]:
    def progress(stage: str, done: float, total: float) -> None:
        if stage == name and done >= share * total:
            raise Stop

    return progress


def run(work: Any, corpus: Corpus, folder: Path, what: dict[str, Any], share: float = ALWAYS) -> RunDirectory:
    """Sum the corpus, keeping what is affordable; what became of that."""
    with RunDirectory.at(folder, what, share) as files:
        sums = Runner(Threads(2), files=files).run(work, corpus, segments(corpus, 1))
    assert_identical(sums, Runner(Threads(1)).run(work, corpus, segments(corpus, 1)))
    return files


def test_run_directory__of_other_arrays_documents_or_fits_is_not_used(
    corpus: Corpus, triples: Triples, tmp_path: Path
) -> None:
    folder, cut = tmp_path / "run", segments(corpus, 1)
    assert run(triples, corpus, folder, {"K": 4}).computed == len(cut) > 3
    assert run(triples, corpus, folder, {"K": 4}).reused == len(cut)
    # as on a machine whose linear algebra rounds otherwise
    other = triples.W.copy()
    other[-1, -1] = np.nextafter(other[-1, -1], np.float32(9))
    assert run(replace(triples, W=other), corpus, folder, {"K": 4}).reused == 0
    assert run(triples, corpus, folder, {"K": 4}).reused == 0
    assert run(triples, corpus.head(1500), folder, {"K": 4}).reused == 0
    assert run(triples, corpus, folder, {"K": 4}).reused == 0
    assert run(triples, corpus, folder, {"K": 5}).reused == 0
    description = json.loads((folder / "run.json").read_text())
    description["code"] -= 1
    (folder / "run.json").write_text(json.dumps(description))
    assert run(triples, corpus, folder, {"K": 5}).reused == 0
    (folder / "run.json").write_text("[" * 100_000)
    assert run(triples, corpus, folder, {"K": 5}).reused == 0


def test_run_directory__sums_of_segments_that_were_made_beside_are_not_totals(
    corpus: Corpus, triples: Triples, tmp_path: Path
) -> None:
    run(triples, corpus, tmp_path / "run", {})
    (kept,) = (tmp_path / "run").rglob("total-*")
    kept.rename(kept.with_name("total-00001"))  # which it is not
    (kept.with_name("total-nonsense")).touch()
    assert run(triples, corpus, tmp_path / "run", {}).reused == 0


@pytest.mark.parametrize(
    "other", [{"random_state": 1}, {"head": "posterior"}, {"error_bars": False}], ids=str
)
def test_fit__other_settings_begin_anew(corpus: Corpus, tmp_path: Path, other: dict[str, Any]) -> None:
    first = labeler(n_jobs=1).fit(corpus, run_dir=tmp_path / "run")
    again = labeler(n_jobs=2).fit(corpus, run_dir=tmp_path / "run")  # threads are no setting
    assert again.fit_stats_["run"]["segments_reused"] > 0
    assert_same(first, again)
    model = labeler(**other).fit(corpus, run_dir=tmp_path / "run")
    assert model.fit_stats_["run"]["segments_reused"] == 0


def test_run_directory__is_ours_alone(corpus: Corpus, triples: Triples, tmp_path: Path) -> None:
    run(triples, corpus, tmp_path / "run", {})
    paths = [tmp_path / "run", *(tmp_path / "run").rglob("*")]
    assert len(paths) > 4
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_run_directory__nobody_else_s_files_are_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter-1").write_text("dear to me")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path / "thesis", tmp_path / "thesis" / "chapter-1", tmp_path / "link"):
        with pytest.raises(StoreError, match="Choose an"), RunDirectory.at(path, {}):
            pass
    assert (tmp_path / "thesis" / "chapter-1").read_text() == "dear to me"


def test_run_directory__is_held_by_one_fit(tmp_path: Path) -> None:
    with (
        RunDirectory.at(tmp_path / "run", {}),
        pytest.raises(StoreError, match="Another process is fitting"),
        RunDirectory.at(tmp_path / "run", {}),
    ):
        pass
    with RunDirectory.at(tmp_path / "run", {}):
        pass


def test_run_directory__files_take_a_small_share_of_the_time(
    corpus: Corpus, triples: Triples, tmp_path: Path
) -> None:
    files = run(triples, corpus, tmp_path / "run", {}, share=0.0)
    assert files.stats()["checkpoint_bytes"] == 0
    assert not list((tmp_path / "run").rglob("total-*"))
    files = RunDirectory(tmp_path, share=0.5)
    files.started -= 10
    assert files.affordable(int(4.9e9))  # at a gigabyte a second, until something is known
    assert not files.affordable(int(5.1e9))
    files.write_seconds, files.written_bytes = 4.0, 4 * 10**8  # a tenth as fast
    assert files.affordable(10**7)
    assert not files.affordable(2 * 10**8)


def test_run_directory__the_log_has_a_line_for_each_segment(corpus: Corpus, tmp_path: Path) -> None:
    model = labeler().fit(corpus, run_dir=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "run.jsonl").read_text().splitlines()]
    assert len(lines) == model.fit_stats_["run"]["segments_computed"]
    for name in ("pairs", "triples", "labels"):
        of_pass = [line for line in lines if line["pass"] == name]
        assert sum(line["documents"] for line in of_pass) == corpus.n_docs
        assert sorted(line["segment"] for line in of_pass) == list(range(len(of_pass)))
    names = {"time", "pass", "segment", "blocks", "documents", "seconds", "where"}
    assert all(line.keys() == names for line in lines)


def test_keep__a_full_disk_does_not_end_the_fit(tmp_path: Path, corpus: Corpus) -> None:
    work = Pairs(WordView(), corpus.n_terms)
    with (
        small_disk(100_000),
        pytest.warns(UserWarning, match="could not keep what it has so far: File too large"),
    ):
        files = run(work, corpus, tmp_path / "run", {})
    assert files.computed == len(segments(corpus, 1))


def test_run_directory__what_a_killed_fit_left_unfinished_is_removed(tmp_path: Path) -> None:
    with RunDirectory.at(tmp_path / "run", {}):
        (tmp_path / "run" / "1-pairs" / f"{INPUTS}x").mkdir(parents=True)
        (tmp_path / "run" / "1-pairs" / f"{INPUTS}x" / "0.npy").touch()
        (tmp_path / "run" / "1-pairs" / "total-00001.abc.tmp").touch()
        (tmp_path / "run" / "1-pairs" / "total-00001").touch()
    with RunDirectory.at(tmp_path / "run", {}):
        assert [path.name for path in (tmp_path / "run" / "1-pairs").iterdir()] == ["total-00001"]


def test_run_directory__a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    with (
        small_disk(10),
        pytest.raises(StoreError, match="could not be made: File too large"),
        RunDirectory.at(tmp_path / "run", {"long": "x" * 10_000}),
    ):
        pass


# -- fit and save ---------------------------------------------------------------------------------------


def test_fit_to__leaves_the_model_and_nothing_else(corpus: Corpus, tmp_path: Path) -> None:
    model = labeler().fit_to(corpus, tmp_path / "m.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["m.zarr"]
    assert_same(MomentLabeler.load(tmp_path / "m.zarr"), model)


def test_fit_to__an_error_leaves_what_was_there(corpus: Corpus, tmp_path: Path) -> None:
    old = labeler("posterior").fit_to(corpus, tmp_path / "m.zarr")
    with pytest.raises(Stop):
        labeler().fit_to(corpus, tmp_path / "m.zarr", overwrite=True, progress=stop_at("labels", 0.5))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.zarr", "m.zarr.run"]
    assert_same(MomentLabeler.load(tmp_path / "m.zarr"), old)
    with pytest.raises(StoreError, match="exists already"):
        labeler().fit_to(corpus, tmp_path / "m.zarr")
    model = labeler().fit_to(corpus, tmp_path / "m.zarr", overwrite=True)
    assert model.fit_stats_["run"]["segments_reused"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["m.zarr"]


def test_fit_to__goes_on_with_the_seed_that_was_drawn(corpus: Corpus, tmp_path: Path) -> None:
    unseeded, path, description = labeler(random_state=None), tmp_path / "m.zarr", "m.zarr.run/run.json"
    with pytest.raises(Stop):
        unseeded.fit_to(corpus, path, progress=stop_at("labels", 0.5))
    seed = json.loads((tmp_path / description).read_text())["settings"]["moments"]["seed"]
    model = labeler(random_state=None).fit_to(corpus, path)
    assert model.fit_stats_["run"]["segments_reused"] > 0
    assert_same(model, labeler(random_state=seed).fit(corpus))
    other = unseeded.fit(corpus, run_dir=tmp_path / "run")
    assert not np.array_equal(other.word_topics_, model.word_topics_)  # nothing was left to go on from


@pytest.mark.parametrize("said", ["", "[3]", '{"settings": {"moments": {"seed": -1}}}'], ids=str)
def test_fit__a_seed_that_cannot_be_read_is_drawn_again(corpus: Corpus, tmp_path: Path, said: str) -> None:
    labeler().fit(corpus, run_dir=tmp_path)
    (tmp_path / "run.json").write_text(said)
    model = labeler(random_state=None).fit(corpus, run_dir=tmp_path)
    assert model.fit_stats_["run"]["segments_reused"] == 0


def test_fit_to__one_at_a_time_into_a_path(corpus: Corpus, tmp_path: Path) -> None:
    refused = []

    def progress(*_: Any) -> None:
        if not refused:
            with pytest.raises(StoreError, match="being written by another process") as caught:
                labeler().fit_to(corpus, tmp_path / "m.zarr")
            refused.append(caught.value)

    labeler().fit_to(corpus, tmp_path / "m.zarr", progress=progress)
    assert len(refused) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["m.zarr"]


def test_fit_to__refuses_before_it_reads(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        MomentLabeler(0).fit_to(corpus, tmp_path / "m.zarr")
    assert list(tmp_path.iterdir()) == []


FIT = """
import sys, warnings
warnings.simplefilter("ignore")
from threepass import Corpus, MomentLabeler
def progress(stage, done, total):
    print(stage, done, flush=True)
corpus, path = Corpus.open(sys.argv[1]), sys.argv[2]
MomentLabeler(4, head="blend", head_dim=20, whitening="sketch").fit_to(corpus, path, progress=progress)
"""


@pytest.mark.parametrize(
    "stages",
    [("labels",), pytest.param(("pairs", "triples", "labels"), marks=pytest.mark.exhaustive)],
    ids=str,
)
def test_fit_to__killed_and_started_again(
    root: Path, undisturbed: MomentLabeler, corpus: Corpus, tmp_path: Path, stages: tuple[str, ...]
) -> None:
    """`kill -9` at several moments, one after the other; the last run is left alone."""
    for stage in stages:
        command = [sys.executable, "-c", FIT, str(root), str(tmp_path / "m.zarr")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            name, done = line.rsplit(maxsplit=1)
            if name == stage and float(done) > 700:
                break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert not (tmp_path / "m.zarr").exists()
    model = labeler().fit_to(corpus, tmp_path / "m.zarr")
    assert model.fit_stats_["run"]["segments_reused"] > 0
    assert_same(model, undisturbed)
    assert [path.name for path in tmp_path.iterdir()] == ["m.zarr"]
