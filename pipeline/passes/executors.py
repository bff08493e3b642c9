"""Executors of a read: local threads here, workers of a cluster in `cluster`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from ..tasks import n_cpus, one_blas_thread, ordered_reduce
from .checkpoints import ReadFiles
from .segments import Segment
from .stream import Advance, HeldWords, ReadAhead, Source, Stream
from .work import Pass, S


@dataclass(frozen=True, slots=True)
class Total(Generic[S]):
    """The sums of the first so many segments."""

    sums: S | None
    done: int

    def grown(self, part: S, files: ReadFiles) -> Total[S]:
        """With those of the next segment, in place; and kept, where there is time for it."""
        sums = part
        if self.sums is not None:
            sums = self.sums
            sums.merge(part)
        files.keep(sums, self.done + 1)
        return Total(sums, self.done + 1)


@dataclass(frozen=True, slots=True)
class Read(Generic[S]):
    """One read of the corpus, as far as it is still to be done."""

    work: Pass[S]
    corpus: Source
    left: Sequence[Segment]
    held: HeldWords
    files: ReadFiles
    start: Total[S]
    advance: Advance


class Executor(Protocol):
    """Protocol of whatever runs the tasks of a read."""

    @property
    def n_threads(self) -> int | None:
        """Local threads, for what is done between the reads."""

    @property
    def shares_memory(self) -> bool:
        """Whether tasks see what this process holds, such as words of blocks."""

    def reduce(self, read: Read[S], at_a_time: int | None, spill: bool) -> Total[S]:
        """Merge the sums of all segments that are left, in their order.

        Parameters
        ----------
        at_a_time
            Tasks at a time that this process' memory allows; None for as many as pay.
        spill
            Large sums lie in mapped files.
        """


@dataclass(frozen=True, slots=True)
class Threads:
    """Tasks on threads of this process."""

    n_threads: int | None = None
    """As many as there are processors when None."""
    shares_memory = True

    def reduce(self, read: Read[S], at_a_time: int | None, spill: bool) -> Total[S]:
        tasks = at_a_time or self.n_threads or n_cpus()
        ahead = ReadAhead(read.corpus, read.held, read.left, tasks)
        with one_blas_thread(), ahead as reads:  # the sums stay the same on any machine
            stream = Stream(read.work, reads, spill, read.advance)

            def timed(segment: Segment) -> S:
                started = time.monotonic()
                sums = stream(segment)
                read.files.log_segment(segment, time.monotonic() - started, "thread")
                return sums

            def merge(total: Total[S], part: S) -> Total[S]:
                return total.grown(part, read.files)

            result: Total[S] = ordered_reduce(
                timed, merge, read.left, name=read.work.name, at_a_time=tasks, start=read.start
            )
        return result
