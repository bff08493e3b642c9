"""Run directories: a killed fit goes on where it was, to the last bit, and from nothing but its own sums."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from threepass import Corpus, InputError, MomentLabeler, StoreError, ingest_planted
from threepass.ingest.synthetic import Lengths, Planted
from threepass.moments.pairs import Pairs
from threepass.moments.words import WordView
from threepass.passes import checkpoints
from threepass.passes import sums as sums_module
from threepass.passes.checkpoints import RunDirectory
from threepass.passes.runner import Runner
from threepass.passes.segments import segments

PLANTED = Planted(2000, 300, 12, 4, words=Lengths(20, 16), labels=Lengths(2, 2), distinct=False, seed=3)
HEADS = ["posterior", "blend"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "c.zarr"


@pytest.fixture(scope="module")
def corpus(root: Path) -> Corpus:
    return ingest_planted(PLANTED, root, block_bytes=50_000)


@pytest.fixture(scope="module")
def undisturbed(corpus: Corpus) -> dict[str, MomentLabeler]:
    return {head: labeler(head).fit(corpus) for head in HEADS}


@pytest.fixture(autouse=True)
def keep_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests are over before there is time for a checkpoint."""
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)


def labeler(head: str = "blend", **parameters: Any) -> MomentLabeler:
    return MomentLabeler(4, **{"head": head, "head_dim": 20, "whitening": "sketch", **parameters})


def assert_same(one: MomentLabeler, other: MomentLabeler) -> None:
    names = ["word_topics_", "label_topics_", "topic_weights_", "whitening_", "eigenvalues_", "label_counts_"]
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name, strict=True)
    assert (one.head_.ridge is None) == (other.head_.ridge is None)
    if one.head_.ridge is not None and other.head_.ridge is not None:
        np.testing.assert_array_equal(one.head_.ridge.A, other.head_.ridge.A, strict=True)
    np.testing.assert_array_equal(one.error_bars_.words, other.error_bars_.words, strict=True)


class Stop(Exception):
    """Stands for a kill, between two blocks."""


def stop_at(name: str, share: float) -> Callable[[str, float, float], None]:
    def progress(stage: str, done: float, total: float) -> None:
        if stage == name and done >= share * total:
            raise Stop

    return progress


@pytest.mark.parametrize(
    ("head", "name", "share"),
    [
        ("blend", "pairs", 0.01),
        ("blend", "pairs", 1.0),
        ("blend", "triples", 0.5),
        ("blend", "labels", 0.5),
        ("blend", "labels", 1.0),
        ("posterior", "pairs", 0.5),
        ("posterior", "triples", 0.01),
    ],
)
def test_resume__the_same_model_from_any_moment(
    corpus: Corpus,
    undisturbed: dict[str, MomentLabeler],
    tmp_path: Path,
    head: str,
    name: str,
    share: float,
) -> None:
    with pytest.raises(Stop):
        labeler(head, n_jobs=1).fit(corpus, run_dir=tmp_path / "run", progress=stop_at(name, share))
    again = labeler(head).fit(corpus, run_dir=tmp_path / "run")
    assert_same(again, undisturbed[head])
    run = again.fit_stats_["run"]
    all_segments = undisturbed[head].fit_stats_["run"]["segments_computed"]
    assert run["segments_reused"] + run["segments_computed"] == all_segments
    passes = ["pairs", "triples", "labels"].index(name)
    finished = (passes + share) / 3 * all_segments
    # one task at a time: no more than the segment that it was at is done again
    assert run["segments_reused"] == pytest.approx(finished, abs=1.5)


@pytest.mark.parametrize("head", HEADS)
def test_resume__after_all_is_done_nothing_is_read(corpus: Corpus, tmp_path: Path, head: str) -> None:
    first = labeler(head).fit(corpus, run_dir=tmp_path / "run")
    second = labeler(head).fit(corpus, run_dir=tmp_path / "run")
    assert second.fit_stats_["run"]["segments_computed"] == 0
    assert_same(first, second)


def test_resume__in_the_middle_of_refining(corpus: Corpus, tmp_path: Path) -> None:
    expected = labeler(refine_passes=2).fit(corpus)
    with pytest.raises(Stop):
        labeler(refine_passes=2).fit(corpus, run_dir=tmp_path / "run", progress=stop_at("refine", 0.6))
    again = labeler(refine_passes=2).fit(corpus, run_dir=tmp_path / "run")
    assert again.fit_stats_["run"]["segments_reused"] > again.fit_stats_["run"]["segments_computed"]
    assert_same(again, expected)


def test_resume__sums_in_mapped_files(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums_module, "_SPILL_BYTES", 1)
    work, cut = Pairs(WordView(), corpus.n_terms), segments(corpus, 1)
    expected = Runner(1).run(work, corpus, cut)
    with pytest.raises(Stop), RunDirectory.at(tmp_path / "run", {}) as files:
        Runner(1, progress=stop_at("pairs", 0.5), spill=True, files=files).run(work, corpus, cut)
    with RunDirectory.at(tmp_path / "run", {}) as files:
        found = Runner(1, spill=True, files=files).run(work, corpus, cut)
        assert 0 < files.reused < len(cut)
    assert isinstance(found["pairs"], np.memmap)
    np.testing.assert_array_equal(np.asarray(found["pairs"]), expected["pairs"])


def damage(path: Path, how: str) -> None:
    raw = bytearray(path.read_bytes())
    if how == "flip":
        raw[len(raw) // 2] ^= 1
    elif how == "cut":
        raw = raw[:-1]
    elif how == "empty":
        raw = bytearray()
    path.write_bytes(raw)


@pytest.mark.parametrize("how", ["flip", "cut", "empty"])
def test_resume__what_is_damaged_is_made_again(corpus: Corpus, tmp_path: Path, how: str) -> None:
    first = labeler().fit(corpus, run_dir=tmp_path / "run")
    kept = sorted((tmp_path / "run").rglob("total-*"))
    assert len(kept) == 3  # one for each read: older ones are gone
    damage(kept[1], how)
    second = labeler().fit(corpus, run_dir=tmp_path / "run")
    run = second.fit_stats_["run"]
    assert 0 < run["segments_computed"] < run["segments_reused"]
    assert_same(first, second)
    assert "ignored" in (tmp_path / "run" / "run.jsonl").read_text()


def test_resume__sums_made_with_other_arrays_are_not_used(corpus: Corpus, tmp_path: Path) -> None:
    """As on a machine whose linear algebra rounds otherwise."""
    first = labeler().fit(corpus, run_dir=tmp_path / "run")
    kept = sorted((tmp_path / "run").rglob("total-*"))[1]
    line, arrays = kept.read_bytes().split(b"\n", 1)
    head = json.loads(line)
    head["stamp"]["inputs"] += 1
    kept.write_bytes(json.dumps(head).encode() + b"\n" + arrays)
    second = labeler().fit(corpus, run_dir=tmp_path / "run")
    assert second.fit_stats_["run"]["segments_computed"] > 0
    assert_same(first, second)


@pytest.mark.parametrize(
    "other",
    [
        {"random_state": 1},
        {"n_components": 3},
        {"head": "posterior"},
        {"error_bars": False},
        {"memory_limit": "900MB"},
    ],
    ids=str,
)
def test_run_directory__of_other_settings_is_not_used(
    corpus: Corpus, tmp_path: Path, other: dict[str, Any]
) -> None:
    labeler().fit(corpus, run_dir=tmp_path / "run")
    model = labeler().set_params(**other).fit(corpus, run_dir=tmp_path / "run")
    assert model.fit_stats_["run"]["segments_reused"] == 0
    assert_same(model, labeler().set_params(**other).fit(corpus))


def test_run_directory__of_another_corpus_or_code_is_not_used(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labeler().fit(corpus, run_dir=tmp_path / "run")
    model = labeler().fit(corpus.head(1500), run_dir=tmp_path / "run")
    assert model.fit_stats_["run"]["segments_reused"] == 0
    monkeypatch.setattr(checkpoints, "CODE", checkpoints.CODE + 1)
    model = labeler().fit(corpus.head(1500), run_dir=tmp_path / "run")
    assert model.fit_stats_["run"]["segments_reused"] == 0


def test_run_directory__threads_do_not_make_another_one(corpus: Corpus, tmp_path: Path) -> None:
    one = labeler(n_jobs=1).fit(corpus, run_dir=tmp_path / "run")
    two = labeler(n_jobs=2).fit(corpus, run_dir=tmp_path / "run")
    assert two.fit_stats_["run"]["segments_computed"] == 0
    assert_same(one, two)


def test_run_directory__is_ours_alone(corpus: Corpus, tmp_path: Path) -> None:
    labeler().fit(corpus, run_dir=tmp_path / "run")
    for path in [tmp_path / "run", *(tmp_path / "run").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_run_directory__nobody_else_s_files_are_touched(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter-1").write_text("dear to me")
    for path in (tmp_path / "thesis", tmp_path / "thesis" / "chapter-1"):
        with pytest.raises(StoreError, match="Choose an"):
            labeler().fit(corpus, run_dir=path)
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
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SHARE", 0.0)
    model = labeler().fit(corpus, run_dir=tmp_path / "run")
    assert model.fit_stats_["run"]["checkpoint_bytes"] == 0
    assert not list((tmp_path / "run").rglob("total-*"))
    monkeypatch.setattr(checkpoints, "SHARE", 0.5)
    run = RunDirectory(tmp_path)
    run.started -= 10
    assert run.affordable(int(4.9 * checkpoints._BYTES_PER_SECOND))
    assert not run.affordable(int(5.1 * checkpoints._BYTES_PER_SECOND))
    run.write_seconds, run.written_bytes = 4.0, 4 * 10**8  # a tenth as fast
    assert run.affordable(10**7)
    assert not run.affordable(2 * 10**8)


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


def test_keep__a_full_disk_does_not_end_the_fit(
    corpus: Corpus, undisturbed: dict[str, MomentLabeler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(checkpoints, "write_partial", full)
    with pytest.warns(UserWarning, match="could not keep what it has so far: No space left"):
        model = labeler().fit(corpus, run_dir=tmp_path / "run")
    assert_same(model, undisturbed["blend"])


def test_run_directory__what_a_killed_fit_left_unfinished_is_removed(tmp_path: Path) -> None:
    with RunDirectory.at(tmp_path / "run", {}):
        (tmp_path / "run" / "1-pairs" / f"{checkpoints.INPUTS}x").mkdir(parents=True)
        (tmp_path / "run" / "1-pairs" / f"{checkpoints.INPUTS}x" / "0.npy").touch()
        (tmp_path / "run" / "1-pairs" / "total-00001.abc.tmp").touch()
        (tmp_path / "run" / "1-pairs" / "total-00001").touch()
    with RunDirectory.at(tmp_path / "run", {}):
        assert [path.name for path in (tmp_path / "run" / "1-pairs").iterdir()] == ["total-00001"]


def test_run_directory__a_disk_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(checkpoints, "_write_text", full)
    with (
        pytest.raises(StoreError, match="could not be made: No space left"),
        RunDirectory.at(tmp_path / "run", {}),
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
from threepass.passes import checkpoints
from threepass.passes import sums as sums_module
checkpoints.SHARE = 1e9
def progress(stage, done, total):
    print(stage, done, flush=True)
corpus, path = Corpus.open(sys.argv[1]), sys.argv[2]
MomentLabeler(4, head_dim=20, whitening="sketch").fit_to(corpus, path, progress=progress)
"""


@pytest.mark.slow
def test_fit_to__killed_and_started_again(
    root: Path, corpus: Corpus, undisturbed: dict[str, MomentLabeler], tmp_path: Path
) -> None:
    """`kill -9` at several moments, one after the other; the last run is left alone."""
    for stage in ("pairs", "triples", "labels"):
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
    assert model.fit_stats_["run"]["segments_reused"] > model.fit_stats_["run"]["segments_computed"]
    assert_same(model, undisturbed["blend"])
    assert [path.name for path in tmp_path.iterdir()] == ["m.zarr"]
