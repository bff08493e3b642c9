"""Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from pipeline.corpus.store import Corpus

_SECONDS_BETWEEN_LINES = 10.0


class ProgressDisplay:
    """A context manager that is also the callback `(stage, done, total)` that long work reports to.

    Each stage gets a bar of its own. When stderr is not a terminal, a stage that takes longer than a second
    prints one line when it is done, and one every ten seconds until then.
    """

    def __init__(self, quiet: bool = False, corpus: Corpus | None = None) -> None:
        """With a corpus, whose documents are what is counted, its blocks and bytes are told too."""
        self._quiet = quiet
        self._corpus = corpus
        self._bytes = 0 if corpus is None else int(corpus.block_bytes.sum())
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}
        self._finished: set[str] = set()
        self._last_line = time.monotonic()
        if not quiet and sys.stderr.isatty():
            columns = (
                TextColumn("{task.description:>8}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
            )
            self._bars = Progress(*columns, console=Console(stderr=True))

    def __enter__(self) -> ProgressDisplay:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, stage: str, done: float, total: float) -> None:
        now = time.monotonic()
        started = self._started.setdefault(stage, now)
        seconds = now - started
        rate = f"{_short(done / seconds)}/s" if seconds > 0.1 else ""
        if self._corpus is not None and rate:
            blocks = np.searchsorted(np.cumsum(self._corpus.block_rows), done, side="right")
            speed = self._bytes * done / max(1, total) / seconds
            rate = f"{blocks}/{self._corpus.n_blocks} blocks, {rate}, {_short(speed)}B/s"
        if self._bars is not None:
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task(stage, total=total, rate="")
            self._bars.update(self._tasks[stage], completed=done, total=total, rate=rate)
        elif not self._quiet and stage not in self._finished:
            due = seconds > 1 and (done >= total or now - self._last_line > _SECONDS_BETWEEN_LINES)
            if done >= total:
                self._finished.add(stage)
            if not due:
                return
            self._last_line = now
            left = f", {seconds * (total - done) / done:.0f} s left" if 0 < done < total else ""
            share = f"{100 * done / total:.0f}%" if total else "100%"
            print(f"{stage}: {share} of {_short(total)} in {seconds:.1f} s {rate}{left}", file=sys.stderr)


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"
