"""Ctrl-C on the command line: the prompt is back within two seconds, and nothing unfinished is left behind.

Tasks that run cannot be interrupted, for they are deep in compiled code, and Python would wait for their
threads before it ends. So the process ends without them. The main thread gets a moment to leave what it is at
and to clean up, as any Python code does on KeyboardInterrupt; where it is deep in compiled code itself, a
thread that waits for the signal ends the process in its place.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from ..storage.destination import last_finished, remove_unfinished
from .startup import INTERRUPTED, is_loading, quit_at_once

_SECONDS_TO_LEAVE = 1.2
_SHOW_CURSOR = "\x1b[?25h"
_ending = threading.Lock()


def _what_is_left() -> str:
    whole = last_finished()
    return "Nothing was left behind." if whole is None else f"{whole} is whole; nothing else was left behind."


_tell: Callable[[], str] = _what_is_left


def leaves(what: Callable[[], str | None]) -> None:
    """Say this of what the running command leaves behind when it is interrupted; None for the usual."""
    global _tell
    _tell = lambda: what() or _what_is_left()  # noqa: E731


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, the first Ctrl-C ends the process; further ones are ignored."""
    before = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or before not in (signal.default_int_handler, quit_at_once):
        yield  # somebody else handles it, or it is ignored, as in the background of a script
        return
    leaves(lambda: None)
    listener, signals = socket.socketpair()
    signals.setblocking(False)
    threading.Thread(target=_watch, args=(listener,), daemon=True).start()
    signal.signal(signal.SIGINT, _interrupt)
    wakeup = signal.set_wakeup_fd(signals.fileno(), warn_on_full_buffer=False)
    hook, sys.unraisablehook = sys.unraisablehook, _end_if_lost
    try:
        yield
    except KeyboardInterrupt:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        end()
    finally:
        sys.unraisablehook = hook
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, before)
        signals.close()


def end() -> NoReturn:
    """End the process at once: clean up, say what is left, and wait for nobody."""
    if is_loading():
        quit_at_once()
    if not _ending.acquire(blocking=False):
        time.sleep(60)  # another thread is at it
    import multiprocessing

    for child in multiprocessing.active_children():
        child.kill()
    remove_unfinished()
    line = f"threepass: Interrupted. {_tell()}\n"
    cursor = _SHOW_CURSOR if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{cursor}{line}".encode())
    os._exit(INTERRUPTED)


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if is_loading():
        quit_at_once()
    raise KeyboardInterrupt


def _end_if_lost(unraisable: Any) -> None:
    """End the process where Python would print the interrupt and go on, as in a callback of the compiler."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        end()
    sys.__unraisablehook__(unraisable)


def _watch(listener: socket.socket) -> None:
    """End the process when a signal has come and the main thread does not."""
    with listener:
        while signal.SIGINT not in (received := listener.recv(1)):
            if not received:
                return  # the command is done
        deadline = time.monotonic() + _SECONDS_TO_LEAVE
        with suppress(TimeoutError):
            while (left := deadline - time.monotonic()) > 0:
                listener.settimeout(left)
                if not listener.recv(1):
                    return  # the command has ended after all; other bytes are further signals
        end()
