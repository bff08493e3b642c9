"""Progress reports for the stages of long computations."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

Progress = Callable[[str, float, float], None]
"""Called as `progress(stage, done, total)`, from any thread.

A total of 0 means that the stage has begun but is not counted. It lasts until the next stage begins.
"""


def begin(progress: Progress | None, stage: str) -> None:
    """Report the start of a stage that is not counted."""
    if progress is not None:
        progress(stage, 0, 0)


def counted(progress: Progress | None, stage: str, total: float) -> Callable[[float], None]:
    """Begin a counted stage. Returns a function that adds an amount, from any thread."""
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
