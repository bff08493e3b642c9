"""A pass over the corpus as a map-reduce: segments in, one dictionary of sums out.

A task streams one segment, a run of blocks, into one accumulator; segments are merged in their order, as they
are done. Both depend on the corpus and the plan alone, so the result is bitwise the same for one worker or
fifty, threads or processes, and after a fit was killed and started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, Protocol

from ..corpus.store import Block, Corpus
from ..progress import Progress
from ..tasks import n_cpus, one_blas_thread, ordered_reduce
from .checkpoints import ReadFiles, RunDirectory
from .cluster.remote import run_remotely
from .cost import Cost, Size
from .segments import Segment
from .stream import Advance, HeldWords, ReadAhead, Stream, arrays_of
from .sums import Sums, merge_into, spilled


class Pass(Protocol):
    """What a pass adds up, as a dataclass; knows nothing of segments, tasks or disks."""

    @property
    def name(self) -> str:
        """The first word of its task keys."""

    @property
    def accumulator_bytes(self) -> int:
        """About what its sums take."""

    def segment_bytes(self, n_docs: int, nnz: int) -> int:
        """About what the sums of a segment with so many documents and words take."""

    def cost(self, size: Size) -> Cost:
        """What reading so much takes at the least."""

    def zero(self) -> Sums:
        """An accumulator for no documents at all."""

    def add(self, sums: Sums, block: Block) -> None:
        """Add the documents of one block, in place."""


@dataclass(frozen=True, slots=True)
class Together:
    """Several passes in one read: the sums of part i are under the key `i`."""

    parts: tuple[Pass, ...]

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def accumulator_bytes(self) -> int:
        return sum(part.accumulator_bytes for part in self.parts)

    def segment_bytes(self, n_docs: int, nnz: int) -> int:
        return sum(part.segment_bytes(n_docs, nnz) for part in self.parts)

    def cost(self, size: Size) -> Cost:
        return sum((part.cost(size) for part in self.parts), Cost())

    def zero(self) -> Sums:
        return {str(i): part.zero() for i, part in enumerate(self.parts)}

    def add(self, sums: Sums, block: Block) -> None:
        for i, part in enumerate(self.parts):
            part.add(sums[str(i)], block)

    def in_turn(self, number: int) -> Callable[[Sums, Block], None]:
        """`add` for a segment of this number: every other one takes the parts from the last to the first.

        So two tasks are rarely at the same part, both reaching for memory at once and then both computing.
        The sums are the same, for no part knows of another.
        """

        def add_backwards(sums: Sums, block: Block) -> None:
            for i in reversed(range(len(self.parts))):
                self.parts[i].add(sums[str(i)], block)

        return add_backwards if number % 2 else self.add


class Total(NamedTuple):
    """The sums of the first so many segments."""

    sums: Sums | None
    done: int

    def grown(self, part: Sums, files: ReadFiles) -> Total:
        """With those of the next segment, in place; and kept, where there is time for it."""
        sums = part if self.sums is None else merge_into(self.sums, part)
        files.keep(sums, self.done + 1)
        return Total(sums, self.done + 1)


@dataclass(frozen=True, slots=True)
class _Read:
    """One read of the corpus, as far as it is still to be done."""

    work: Pass
    corpus: Corpus
    left: Sequence[Segment]
    held: HeldWords
    files: ReadFiles
    start: Total
    advance: Advance


@dataclass(frozen=True, slots=True)
class Runner:
    """Where passes run: local threads, or a `distributed.Client` when there is one."""

    n_threads: int | None = None
    client: Any = None
    progress: Progress | None = None
    at_a_time: int | None = None
    """Tasks at a time on local threads; as many as threads when None."""
    spill: bool = False
    """Large sums lie in mapped files, which the system may take out of memory."""
    files: RunDirectory = field(default_factory=RunDirectory.none)
    """Where sums are kept, for a fit that is killed to go on from."""

    def run_together(
        self, parts: Sequence[Pass], corpus: Corpus, segments: list[Segment], held: HeldWords | None = None
    ) -> list[Sums]:
        """Read every block of the corpus once, for all of the passes; and return the merged sums of each."""
        sums = self.run(Together(tuple(parts)), corpus, segments, held)
        return [sums[str(i)] for i in range(len(parts))]

    def run(self, work: Pass, corpus: Corpus, segments: list[Segment], held: HeldWords | None = None) -> Sums:
        """Read every block of the corpus once and return the merged sums; of segments that are not kept.

        Parameters
        ----------
        held
            Words of some blocks that are in memory already: local threads need not read them again.
        """
        files = self.files.read(work.name, arrays_of(work), segments)
        kept, done = files.resume(work.zero())
        total = Total(spilled(kept, empty=False) if self.spill and kept is not None else kept, done)
        progress = _Progress(self.progress, work.name, corpus.n_docs, segments[:done])
        if done < len(segments):
            read = _Read(work, corpus, segments[done:], held or {}, files, total, progress.advance)
            total = self._on_threads(read) if self.client is None else self._on_cluster(read)
        assert total.sums is not None
        return total.sums

    def _on_threads(self, read: _Read) -> Total:
        tasks = self.at_a_time or self.n_threads or n_cpus()
        ahead = ReadAhead(read.corpus, read.held, read.left, tasks)
        with one_blas_thread(), ahead as reads:  # the sums stay the same on any machine
            stream = Stream(read.work, reads, self.spill, read.advance)

            def timed(segment: Segment) -> Sums:
                started = time.monotonic()
                sums = stream(segment)
                read.files.log_segment(segment, time.monotonic() - started, "thread")
                return sums

            def merge(total: Total, part: Sums) -> Total:
                return total.grown(part, read.files)

            result: Total = ordered_reduce(
                timed, merge, read.left, name=read.work.name, at_a_time=tasks, start=read.start
            )
        return result

    def _on_cluster(self, read: _Read) -> Total:
        total = read.start
        for part in run_remotely(self.client, read.work, read.corpus, read.left, read.files, read.advance):
            total = total.grown(part, read.files)
        return total


class _Progress:
    """Documents that were seen, segment by segment; a segment that is begun again counts anew."""

    def __init__(
        self, tell: Progress | None, name: str, n_docs: int, finished: Sequence[Segment] = ()
    ) -> None:
        self._tell, self._name, self._n_docs = tell, name, n_docs
        self._lock = Lock()
        self._done = {segment.number: segment.n_docs for segment in finished}
        self._say()

    def advance(self, segment: Segment, n_docs: int) -> None:
        """So many documents of a segment are done."""
        with self._lock:
            self._done[segment.number] = n_docs
            self._say()

    def _say(self) -> None:
        if self._tell is not None:
            self._tell(self._name, sum(self._done.values()), self._n_docs)
