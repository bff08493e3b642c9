"""Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_right
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ..corpus.store import Corpus

_COMPILING = "compiling"


@dataclass(frozen=True, slots=True)
class LineTimes:
    """Seconds of a stage at which it prints lines."""

    first: float = 2.0
    """Before the first line."""
    between: float = 10.0
    """Between a line and the next."""


@dataclass(slots=True)
class _Stage:
    name: str
    next_line: float
    """Seconds after which it prints a line."""
    done: float = 0.0
    total: float = 0.0
    """0 for a stage that is not counted."""
    started: float = field(default_factory=time.monotonic)
    is_over: bool = False
    task: TaskID | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class ProgressDisplay:
    """A context manager that is also the callback `progress(stage, done, total)` of long work.

    On a terminal each stage gets a bar; one that is not counted (a total of 0) a moving bar and the time that
    it has taken. Elsewhere a stage prints a line when it has taken two seconds, one every ten seconds from
    then on, and one at its end. Compiling, which the first run does, is a stage of its own beside the others.
    """

    corpus: Corpus | None = None
    """The corpus whose documents are counted, if any: then blocks and bytes are shown too."""

    def __init__(
        self, quiet: bool = False, corpus: Corpus | None = None, times: LineTimes = LineTimes()
    ) -> None:
        self.corpus = corpus
        self._quiet = quiet
        self._times = times
        self._bars = None if quiet or not sys.stderr.isatty() else _bars()
        self._stages: dict[str, _Stage] = {}
        self._current: _Stage | None = None
        self._lock = threading.RLock()
        self._stack = ExitStack()
        self._closed = threading.Event()

    def __enter__(self) -> ProgressDisplay:
        if not self._quiet:
            from ..jit import telling_of_compilation

            self._stack.enter_context(telling_of_compilation(self.compiling))
            if self._bars is not None:
                self._stack.enter_context(self._bars)
            else:
                threading.Thread(target=self._print_lines, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        with self._lock:
            if kind is None and self._current is not None:
                self._end(self._current)
        self._stack.close()

    def __call__(self, stage: str, done: float, total: float) -> None:
        if self._quiet or self._closed.is_set():
            return
        with self._lock:
            found = self._stages.get(stage)
            if found is not None and found.is_over and done >= total > 0:
                return  # late news
            if found is None or found.is_over:
                found = self._begin(stage)
            if found is not self._current:
                if self._current is not None and not self._current.total:
                    self._end(self._current)
                self._current = found
            found.done, found.total = done, total
            self._show(found)
            if done >= total > 0:
                self._end(found)

    def compiling(self, active: bool) -> None:
        """Show that kernels are compiled, or that they are no more."""
        with self._lock:
            stage = self._stages.get(_COMPILING) or self._begin(_COMPILING)
            if not active:
                self._remove_bar(stage)
            elif stage.is_over:
                self._add_bar(stage)
            stage.is_over = not active

    def _begin(self, name: str) -> _Stage:
        before = self._stages.get(name)
        if before is not None:
            self._remove_bar(before)
        stage = self._stages[name] = _Stage(name, self._times.first)
        self._add_bar(stage)
        return stage

    def _add_bar(self, stage: _Stage) -> None:
        if self._bars is not None:
            stage.task = self._bars.add_task(stage.name, total=None, told="")

    def _remove_bar(self, stage: _Stage) -> None:
        if self._bars is not None and stage.task is not None:
            self._bars.remove_task(stage.task)
            stage.task = None

    def _show(self, stage: _Stage) -> None:
        if self._bars is not None and stage.task is not None:
            told, total = self._told(stage), stage.total or None
            self._bars.update(stage.task, completed=stage.done, total=total, told=told)

    def _end(self, stage: _Stage) -> None:
        if stage.is_over:
            return
        stage.is_over = True
        if self._bars is not None and stage.task is not None:
            total = stage.total or 1
            self._bars.update(stage.task, completed=stage.done if stage.total else total, total=total)
        elif stage.seconds > self._times.first:
            self._print(stage)

    def _print_lines(self) -> None:
        while not self._closed.wait(0.1):
            with self._lock:
                for stage in list(self._stages.values()):
                    if not stage.is_over and stage.seconds > stage.next_line:
                        stage.next_line = stage.seconds + self._times.between
                        self._print(stage)

    def _print(self, stage: _Stage) -> None:
        parts = [f"{stage.name}:"]
        if stage.total:
            parts.append(f"{100 * stage.done / stage.total:.0f}% of {_short(stage.total)} in")
        parts.append(f"{stage.seconds:.1f} s" + ("" if stage.is_over or stage.total else " so far"))
        if stage.total:
            parts.append(self._rate(stage))
        left = stage.seconds * (stage.total - stage.done) / stage.done if 0 < stage.done < stage.total else 0
        line = " ".join(parts).rstrip() + (f", {left:.0f} s left" if left else "")
        print(line, file=sys.stderr)

    def _told(self, stage: _Stage) -> str:
        return f"{100 * stage.done / stage.total:>3.0f}% {self._rate(stage)}" if stage.total else ""

    def _rate(self, stage: _Stage) -> str:
        if stage.seconds < 0.1 or not stage.done:
            return ""
        rate = f"{_short(stage.done / stage.seconds)}/s"
        if self.corpus is None:
            return rate
        blocks = bisect_right(list(accumulate(self.corpus.block_rows.tolist())), stage.done)
        speed = float(self.corpus.block_bytes.sum()) * stage.done / stage.total / stage.seconds
        return f"{blocks}/{self.corpus.n_blocks} blocks, {rate}, {_short(speed)}B/s"


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    # stdout is left alone: what is printed there must arrive as it is
    return Progress(
        TextColumn("{task.description:>13}"),
        BarColumn(20),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=False,
    )


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"
