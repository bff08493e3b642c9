"""Every stage of long work shows itself: in a terminal as a bar, elsewhere as a line."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest

from tests.terminal import Terminal, terminal
from threepass import Corpus, MomentLabeler, Predictor, check, ingest_shape, write_report
from threepass.cli.display import LineTimes, ProgressDisplay
from threepass.ingest.docstrings import documented_objects
from threepass.model.inputs import BatchSizes
from threepass.progress import counted

Calls = list[tuple[str, float, float]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("progress")


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    return ingest_shape("bibtex", folder / "c.zarr", scale=0.1)


@pytest.fixture(scope="module")
def fitted(corpus: Corpus, folder: Path) -> tuple[Path, Calls]:
    """A saved model, and what was reported while it was made."""
    path, calls = folder / "m.zarr", recorded()
    model = MomentLabeler(3, head_dim=10, whitening="sketch", refine_passes=1, n_jobs=1)
    model.fit_to(corpus, path, progress=calls)
    return path, calls.calls


class recorded:  # noqa: N801
    """A callback that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: Calls = []

    def __call__(self, stage: str, done: float, total: float) -> None:
        self.calls.append((stage, done, total))


def stages(calls: Calls) -> list[str]:
    """Their names, in the order in which they began."""
    return list(dict.fromkeys(stage for stage, _, _ in calls))


# -- what is reported -----------------------------------------------------------------------------------


def test_fit__every_stage_is_reported(fitted: tuple[Path, Calls], corpus: Corpus) -> None:
    _, calls = fitted
    wanted = (
        "warm start, pairs, whitening, features, triples, tensor, error bars, topic words, labels, "
        "label topics, refine 1, head, look-alikes, contrast, model, save"
    )
    assert ", ".join(stages(calls)) == wanted
    totals = {stage: total for stage, _, total in calls}
    read = {stage for stage, total in totals.items() if total}
    assert read == {"pairs", "triples", "labels", "refine 1", "look-alikes", "contrast"}
    assert {totals[stage] for stage in read - {"look-alikes", "contrast"}} == {corpus.n_docs}
    assert 0.9 * corpus.n_docs < totals["look-alikes"] <= corpus.n_docs  # those that have labels
    assert totals["contrast"] == corpus.n_labels


def test_fit__the_clock_of_the_fit_and_its_progress_agree(fitted: tuple[Path, Calls]) -> None:
    """No stage that is timed goes unreported."""
    path, calls = fitted
    timed = MomentLabeler.load(path).fit_stats_["seconds"]
    assert set(timed) <= set(stages(calls))


def test_evaluate__is_reported_within_a_block(fitted: tuple[Path, Calls], corpus: Corpus) -> None:
    assert corpus.n_blocks == 1
    model, calls = replace(Predictor.load(fitted[0]), sizes=BatchSizes(task_docs=100)), recorded()
    with pytest.warns(UserWarning, match="trained on"):
        model.evaluate(corpus, progress=calls)
    n = corpus.n_docs
    assert {(stage, total) for stage, _, total in calls.calls} == {("evaluate", n)}
    done = [done for _, done, _ in calls.calls]
    assert sorted(np.diff(done)) == [88, 100, 100, 100, 100]  # in whatever order threads are done
    assert (done[0], done[-1]) == (0, n)
    calls = recorded()
    list(model.stream_topk(corpus, 3, calls))
    assert calls.calls == [("predict", float(done), n) for done in (0, 100, 200, 300, 400, n)]


def test_report_and_check__every_phase_is_reported(
    fitted: tuple[Path, Calls], corpus: Corpus, tmp_path: Path
) -> None:
    path, calls = fitted[0], recorded()
    with pytest.warns(UserWarning, match="trained on"):
        write_report(MomentLabeler.load(path), tmp_path / "r.html", corpus, progress=calls)
    assert {"evaluate", "examples", "page"} <= set(stages(calls.calls))
    calls = recorded()
    assert check(path, progress=calls).is_whole
    assert stages(calls.calls) == ["check", "use"]
    calls = recorded()
    assert check(path.with_name("c.zarr"), progress=calls).is_whole
    assert stages(calls.calls) == ["check", "fingerprint"]


def test_demo__says_so_before_the_first_package_is_read() -> None:
    calls = recorded()
    documented_objects(["rich"], calls)
    assert calls.calls == [("read", 0, 1), ("read", 1, 1)]


def test_counted__never_more_than_there_is() -> None:
    calls = recorded()
    advance = counted(calls, "read", 10)
    for amount in (4, 4, 4):
        advance(amount)
    assert calls.calls == [("read", 0, 10), ("read", 4, 10), ("read", 8, 10), ("read", 10, 10)]


# -- how it is shown ------------------------------------------------------------------------------------


SOON = LineTimes(first=0.2, between=1.0)


def wait_for(text: str, stream: io.StringIO) -> None:
    deadline = time.monotonic() + 30
    while text not in stream.getvalue():
        assert time.monotonic() < deadline, stream.getvalue()
        time.sleep(0.01)


def test_lines__while_a_stage_lasts_and_at_its_end() -> None:
    lines = io.StringIO()  # no terminal
    with redirect_stderr(lines), ProgressDisplay(times=SOON) as display:
        display("short", 0, 0)
        display("whitening", 0, 0)
        wait_for("so far", lines)
        display("read", 0, 200)
        display("read", 50, 200)
        wait_for("left", lines)
        display("read", 200, 200)
        display("read", 200, 200)
    patterns = [
        r"whitening: \d\.\d s so far",
        r"whitening: \d\.\d s",
        r"read: 25% of 200 in \d\.\d s \S+/s, \d s left",
        r"read: 100% of 200 in \d\.\d s \S+/s",
    ]
    found = lines.getvalue().splitlines()
    assert len(found) == len(patterns), found
    for pattern, line in zip(patterns, found, strict=True):
        assert re.fullmatch(pattern, line)


def test_lines__nothing_when_quiet() -> None:
    lines = io.StringIO()
    with redirect_stderr(lines), ProgressDisplay(quiet=True, times=SOON) as display:
        display("whitening", 0, 0)
        time.sleep(0.4)
    assert lines.getvalue() == ""


def test_lines__compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    @numba.njit
    def kernel(n: int) -> float:
        total = 0.0
        for i in range(n):
            total += i**0.5
        return total

    lines = io.StringIO()
    with redirect_stderr(lines), ProgressDisplay(times=SOON) as display:
        display("first", 0, 0)
        display.compiling(True)
        wait_for("compiling: ", lines)
        display.compiling(False)
    seen: list[bool] = []
    monkeypatch.setattr(ProgressDisplay, "compiling", lambda _, active: seen.append(active))
    with ProgressDisplay():
        kernel(3)
    assert seen[0]
    assert not seen[-1]


def shown(made: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Show some stages there."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    with os.fdopen(os.dup(made.fd), "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with ProgressDisplay() as display:
            display("load", 0, 0)
            time.sleep(0.3)
            display("read", 50, 200)
            display.compiling(True)
            time.sleep(0.3)
            display.compiling(False)
            display("read", 200, 200)
            display("head", 0, 0)
        monkeypatch.undo()


def test_terminal__a_bar_for_each_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as made:
        shown(made, monkeypatch)
    screen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", made.screen.decode())
    for name in ("load", "read", "compiling", "head"):
        assert name in screen
    assert " 25%" in screen
    last = screen[screen.rindex("load") :]
    assert "100%" in last
    assert "compiling" not in last
    assert "\x1b[?25h" in made.screen.decode()  # the cursor is back
