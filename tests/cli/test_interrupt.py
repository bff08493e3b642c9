"""Ctrl-C: the prompt is back at once, nothing unfinished is left, and a second Ctrl-C changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command import threepass

ROOT = Path(__file__).parent.parent.parent
SECONDS = 10.0
"""More than an interrupted command takes on a busy machine, far less than what it was at would."""
NOTHING = "threepass: Interrupted. Nothing was left behind.\n"
# in the child: a function takes a minute in compiled code, without Python's lock, as kernels do
SLOW = """
import hashlib, pathlib, sys
import {module} as module
def slow(*_, **__):
    pathlib.Path("begun").touch()
    while True:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000_000)
{holder}.{name} = slow
from threepass.cli.app import main
sys.argv[0] = "threepass"
main()
"""
SEE = SLOW.format(module="threepass.parts.blend", holder="module.Blend", name="see")
DECOMPOSE = SLOW.format(module="threepass.moments.method", holder="module", name="decompose")
COMPOSE = SLOW.format(module="threepass.ingest.compose", holder="module", name="_load")

# in the child: the main thread is in a callback from compiled code, where Python ignores exceptions
CALLBACK = """
import ctypes, pathlib, sys, time
import threepass.moments.method as module
def wait():
    pathlib.Path("begun").touch()
    time.sleep(60)
module.decompose = lambda *_, **__: ctypes.CFUNCTYPE(None)(wait)()
from threepass.cli import main
sys.argv[0] = "threepass"
main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert threepass("synth", "bibtex", tmp_path / "c.zarr", "--scale", "0.05", "-q").returncode == 0
    return tmp_path


@pytest.fixture
def with_model(folder: Path) -> Path:
    words = ["fit", folder / "c.zarr", folder / "m.zarr", "-k", "2", "--head", "posterior", "-q"]
    assert threepass(*words).returncode == 0
    return folder


def interrupted(code: str, words: str, folder: Path, signals: int = 2) -> tuple[int, str, str]:
    """Run a command until it is at the slow function, press Ctrl-C, and return exit code, stdout, stderr."""
    (folder / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not (folder / "begun").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        started = time.monotonic()
        for _ in range(signals):
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            time.sleep(0.2)
        stdout, stderr = process.communicate(timeout=60)
        assert time.monotonic() - started < SECONDS
    finally:
        process.kill()
        process.wait()
    (folder / "begun").unlink()
    (folder / "tmp").rmdir()  # where nothing was left either
    return process.returncode, stdout, stderr


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("words", ["evaluate m.zarr c.zarr", "predict m.zarr c.zarr best.parquet"])
def test_interrupt__while_threads_compute(words: str, with_model: Path) -> None:
    code, stdout, stderr = interrupted(SEE, words, with_model)
    assert (code, stdout, stderr) == (130, "", NOTHING)
    assert names(with_model) == ["c.zarr", "m.zarr"]


@pytest.mark.parametrize("at", [DECOMPOSE, CALLBACK])
def test_interrupt__while_the_main_thread_computes(at: str, folder: Path) -> None:
    code, stdout, stderr = interrupted(at, "fit c.zarr m.zarr -k 2 --head posterior", folder)
    kept = "The same command goes on where it was; what it needs for that is in m.zarr.run."
    assert (code, stdout, stderr) == (130, "", f"threepass: Interrupted. {kept}\n")
    assert names(folder) == ["c.zarr", "m.zarr.run"]
    words = ["fit", folder / "c.zarr", folder / "m.zarr", "-k", "2", "--head", "posterior"]
    assert threepass(*words).returncode == 0
    assert names(folder) == ["c.zarr", "m.zarr"]


def test_interrupt__of_an_ingest_leaves_no_store(folder: Path) -> None:
    code, stdout, stderr = interrupted(COMPOSE, "synth bibtex d.zarr --scale 0.05", folder)
    assert (code, stdout, stderr) == (130, "", NOTHING)
    assert names(folder) == ["c.zarr"]


def test_interrupt__after_the_last_step_says_what_is_there(folder: Path) -> None:
    describe = SLOW.format(module="threepass.corpus.describe", holder="module", name="describe")
    code, _, stderr = interrupted(describe, "synth bibtex d.zarr --scale 0.05", folder)
    assert (code, stderr) == (130, "threepass: Interrupted. d.zarr is whole; nothing else was left behind.\n")
    assert threepass("check", folder / "d.zarr").returncode == 0


def test_interrupt__while_libraries_load(tmp_path: Path) -> None:
    script = tmp_path / "threepass"
    script.write_text(
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'numba':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from threepass.cli.app import main\n"
        "main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, script, "info", "c.zarr"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_interrupt__of_workers(folder: Path) -> None:
    words = "fit c.zarr m.zarr -k 2 --head posterior --workers 2 -q --dashboard-address 127.0.0.1:0"
    code, stdout, stderr = interrupted(DECOMPOSE, words, folder)
    assert (code, stdout) == (130, "")
    assert stderr.startswith("threepass: Interrupted. The same command goes on where it was")
    assert stderr.count("\n") == 1
    assert names(folder) == ["c.zarr", "m.zarr.run"]
