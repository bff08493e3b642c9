"""Stages of long work, and how they are reported while it runs."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

Progress = Callable[[str, float, float], None]
"""Called as `progress(stage, done, total)`, from any thread.

A total of 0 says that the stage has begun and is not counted; it lasts until the next one begins.
"""


def begin(progress: Progress | None, stage: str) -> None:
    """Report that a stage has begun that is not counted."""
    if progress is not None:
        progress(stage, 0, 0)


def counted(progress: Progress | None, stage: str, total: float) -> Callable[[float], None]:
    """Begin a stage that is counted, and return what is told of each further amount, from any thread."""
    lock, done = Lock(), 0.0

    def advance(amount: float) -> None:
        nonlocal done
        if progress is None:
            return
        with lock:
            done += amount
            progress(stage, min(done, total), total)

    advance(0)
    return advance
