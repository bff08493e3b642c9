"""The seconds in which a command loads its libraries: a terminal says so, and Ctrl-C ends them quietly."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""
_LINE = "threepass: loading ..."
_is_loading = _is_shown = False


def begin() -> None:
    """Let Ctrl-C end the process quietly; called before anything else is imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, quit_at_once)


@contextmanager
def loading(quiet: bool = False) -> Iterator[None]:
    """Show a line in a terminal while the libraries of a command are imported."""
    global _is_loading, _is_shown
    _is_loading = True
    gc.disable()  # modules make many objects and no garbage
    try:
        if not quiet and sys.stderr is not None and sys.stderr.isatty():
            print(_LINE, end="", file=sys.stderr, flush=True)
            _is_shown = True
        yield
    finally:
        gc.enable()
        if _is_shown:
            print("\r" + " " * len(_LINE), end="\r", file=sys.stderr, flush=True)
        _is_loading = _is_shown = False


def is_loading() -> bool:
    """Whether a command is at its imports still, and has begun nothing that would have to be cleaned up."""
    return _is_loading


def quit_at_once(*_: object) -> NoReturn:
    """Handle Ctrl-C where nothing has begun that would have to be cleaned up."""
    if _is_shown:
        os.write(2, b"\n")
    os._exit(INTERRUPTED)
