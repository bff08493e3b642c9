"""What commands print in a terminal: results arrive byte for byte, whatever stderr shows meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

from tests.command import THREEPASS, threepass
from tests.terminal import terminal
from threepass.cli import startup
from threepass.cli.app import main

SECONDS = re.compile(rb"\d+\.\d+ s")
POSTS = '{"title": "rain and wind", "tags": ["weather"]}\n{"title": "goal and match", "tags": ["sport"]}\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, a model of it, and texts with a model of theirs."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "posts.jsonl").write_text(POSTS * 20)
    runs = [
        threepass("synth", "bibtex", folder / "c.zarr", "--scale", "0.05", "--block-size", "20kB"),
        threepass("fit", folder / "c.zarr", folder / "m.zarr", "-k", "2", "--head", "posterior"),
        threepass("ingest", folder / "posts.jsonl", folder / "posts.zarr"),
        threepass(
            "fit", folder / "posts.zarr", folder / "posts-model.zarr", "-k", "2", "--head", "posterior"
        ),
    ]
    assert [run.returncode for run in runs] == [0] * 4, runs
    return folder


COMMANDS = {
    "predict a corpus": "predict m.zarr c.zarr",
    "predict texts": "predict posts-model.zarr posts.jsonl -",
    "predict to a file": "predict m.zarr c.zarr best.zarr --overwrite",
    "predict texts to a file": "predict posts-model.zarr posts.jsonl best.jsonl --overwrite",
    "evaluate": "evaluate m.zarr c.zarr",
    "evaluate as JSON": "evaluate m.zarr c.zarr --json -",
    "info of a corpus": "info c.zarr",
    "info of a model": "info m.zarr",
    "info as JSON": "info c.zarr --json -",
    "check a corpus": "check c.zarr",
    "check a model": "check m.zarr",
    "fit": "fit c.zarr n.zarr -k 2 --head posterior --overwrite",
    "ingest": "ingest posts.jsonl p.zarr --overwrite",
    "synth": "synth bibtex s.zarr --scale 0.05 --overwrite",
    "data list": "data list",
    "report": "report m.zarr r.html --overwrite",
}


def run_in_terminal(
    words: list[str], stdout: str, folder: Path, patch: pytest.MonkeyPatch
) -> tuple[bytes, bytes]:
    """What arrives at a stdout that is a file, a pipe or the terminal; and what the terminal shows.

    In this process, which spares the seconds that imports take, but through real files, pipes and terminals.
    """
    patch.setattr(sys, "argv", ["threepass", *words])
    patch.setenv("TERM", "xterm-256color")
    arrived: list[bytes] = []
    with terminal() as shown:
        if stdout == "pipe":
            reading, writing = os.pipe()
            reader = threading.Thread(target=lambda: arrived.append(os.fdopen(reading, "rb").read()))
            reader.start()
        elif stdout == "file":
            writing = os.open(folder / "stdout", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        else:
            writing = os.dup(shown.fd)
        with os.fdopen(writing, "w") as out, os.fdopen(os.dup(shown.fd), "w", buffering=1) as err:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as end:
                main()
            patch.undo()
    assert not end.value.code
    if stdout == "pipe":
        reader.join()
    elif stdout == "file":
        arrived.append((folder / "stdout").read_bytes())
    else:
        arrived.append(shown.screen)
    return arrived[0], shown.screen


@pytest.mark.parametrize("stdout", ["file", "pipe", "terminal"])
@pytest.mark.parametrize("name", COMMANDS)
def test_results__arrive_byte_for_byte_in_a_terminal(
    name: str, stdout: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = COMMANDS[name].split()
    expected = threepass(*words).stdout.encode()
    assert expected.endswith(b"\n")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        arrived, screen = run_in_terminal(words, stdout, folder, patch)
    arrived, expected = SECONDS.sub(b"N s", arrived), SECONDS.sub(b"N s", expected)
    if stdout == "terminal":
        assert expected in arrived  # lines whole and together, whatever bars there were before them
    else:
        assert arrived == expected
    if name.startswith("predict") and (stdout != "terminal" or "file" in name):
        assert b"predict" in screen  # there was a bar


@pytest.mark.parametrize("quiet", [False, True])
def test_loading__says_so_and_takes_it_back(quiet: bool) -> None:
    line = b"threepass: loading ..."
    with (
        terminal() as made,
        os.fdopen(os.dup(made.fd), "w") as stream,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "stderr", stream)
        with suppress(ImportError), startup.loading(quiet):
            assert startup.is_loading()
            raise ImportError
        assert not startup.is_loading()
    assert made.screen == (b"" if quiet else line + b"\r" + b" " * len(line) + b"\r")


def test_begin__ctrl_c_is_quiet_from_the_first_import_on() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        startup.begin()
        assert signal.getsignal(signal.SIGINT) is startup.quit_at_once
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a script
        startup.begin()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_results__of_a_process_of_its_own(folder: Path) -> None:
    """As typed in a terminal: threepass predict m.zarr c.zarr > best.jsonl"""
    expected = threepass("predict", folder / "m.zarr", folder / "c.zarr").stdout
    command = [*THREEPASS, "predict", str(folder / "m.zarr"), str(folder / "c.zarr")]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with terminal() as shown, (folder / "best.jsonl").open("w") as file:
        run = subprocess.run(
            command, stdin=shown.fd, stdout=file, stderr=shown.fd, env=environment, check=False
        )
    assert run.returncode == 0, shown.screen
    assert (folder / "best.jsonl").read_text() == expected
    assert b"predict" in shown.screen
