"""The seconds in which the command loads its libraries: a terminal says so, and Ctrl-C ends them quietly."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""
_LOADING = "threepass: loading ..."
_shown: list[str] = []


def quit_at_once(*_: object) -> None:
    """Handle Ctrl-C where nothing has begun that would have to be cleaned up."""
    if _shown:
        os.write(2, b"\n")
    os._exit(INTERRUPTED)


def _is_command() -> bool:
    """Whether this process is the command: not a program that imports the library, nor one of its workers."""
    return Path("".join(sys.argv[:1])).name == "threepass" and "multiprocessing.spawn" not in sys.modules


def begin() -> None:
    """Called before anything else is imported."""
    if not _is_command():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, quit_at_once)
    if _shows():
        print(_LOADING, end="", file=sys.stderr, flush=True)
        _shown.append(_LOADING)


def loaded() -> None:
    """Take the line away."""
    while _shown:
        print("\r" + " " * len(_shown.pop()), end="\r", file=sys.stderr, flush=True)


def _shows() -> bool:
    """Not where no progress is wanted, nor where a shell only asks for completions."""
    wanted = not {"-q", "--quiet"} & set(sys.argv) and "_THREEPASS_COMPLETE" not in os.environ
    return wanted and sys.stderr is not None and sys.stderr.isatty()
