"""The command line, run in the tests' own process."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout

import pytest

from threepass.cli.app import main

THREEPASS = [sys.executable, "-c", "from threepass.cli.app import main; main()"]


def threepass(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, which spares the seconds that its imports take."""
    arguments = ["threepass", *map(str, words)]
    stdout, stderr = io.StringIO(), io.StringIO()
    code = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        warnings.simplefilter("default")
        patch.setattr(sys, "argv", arguments)
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())


def check_one_line_error(run: subprocess.CompletedProcess[str], *parts: str) -> None:
    """The command refused, and said why in one line."""
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.startswith("threepass: ")
    assert run.stderr.count("\n") == 1
    for part in parts:
        assert part in run.stderr
