"""Processes that are watched: their phases, their memory, and their end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from benchmarks.measure import run_measured, watch


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_watch__peaks_by_phase_and_the_last_line() -> None:
    code = """
import time
print("phase small", flush=True); time.sleep(0.3)
print("phase large", flush=True); taken = b"x" * 200_000_000; time.sleep(0.3)
print("phase small-again", flush=True); del taken; time.sleep(0.3)
print("something else"); print('{"answer": 42}')
"""
    phases: list[str] = []
    watched = watch(python(code), tell=phases.append)
    assert watched.ended == "done"
    assert watched.result == {"answer": 42}
    assert phases == ["small", "large", "small-again"]
    gained = watched.peaks["large"] - watched.peaks["small"]
    assert 180e6 < gained < 250e6
    assert watched.peaks["small-again"] < watched.peaks["large"]
    assert watched.peak == watched.peaks["large"]


def test_watch__counts_children() -> None:
    code = """
import subprocess, sys
child = "taken = b'x' * 150_000_000; import time; time.sleep(0.4)"
subprocess.run([sys.executable, "-c", child]); print("{}")
"""
    assert watch(python(code)).peak > 150e6


@pytest.mark.parametrize(
    ("code", "said"), [("raise SystemExit('no data')", "no data"), ("print('not JSON')", ""), ("", "")]
)
def test_watch__what_fails_is_reported(code: str, said: str) -> None:
    watched = watch(python(code))
    assert watched.ended == "failed"
    assert said in watched.said
    with pytest.raises(RuntimeError, match=f"failed:\n{said}"):
        run_measured(code)


def test_watch__ends_what_takes_too_long_and_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"""
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({str(note)!r}).write_text(str(child.pid)); child.wait()
"""
    started = time.monotonic()
    watched = watch(python(code), timeout=2)
    assert watched.ended == "timeout"
    assert time.monotonic() - started < 20
    assert is_gone(int(note.read_text()))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_watch__what_it_watches_ends_with_it(tmp_path: Path, how: signal.Signals) -> None:
    note = tmp_path / "pids"
    code = f"""
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
path = pathlib.Path({str(note)!r})
path.with_name("new").write_text(f"{{os.getpid()}} {{child.pid}}")
path.with_name("new").rename(path)
time.sleep(60)
"""
    watching = f"from benchmarks.measure import watch; watch({python(code)!r})"
    parent = subprocess.Popen(python(watching), stderr=subprocess.DEVNULL)
    until(note.exists)
    parent.send_signal(how)
    parent.wait(20)
    until(lambda: all(is_gone(int(pid)) for pid in note.read_text().split()))


def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that takes a moment."""
    ends = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_run_measured__adds_memory_and_seconds() -> None:
    measured = run_measured('import sys; print(\'{"given": "%s"}\' % sys.argv[1])', "this")
    assert measured["given"] == "this"
    assert measured["peak_mb"] >= 0
    assert measured["process_seconds"] > 0
