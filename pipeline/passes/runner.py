"""A pass over the corpus as a map-reduce: segments in, sums out.

A task streams one segment, a run of blocks, into sums of its own; segments are merged in their order, as they
are done. Both depend on the corpus and the plan alone, so the result is bitwise the same for one worker or
fifty, threads or processes, and after a fit was killed and started again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from ..corpus.store import Corpus
from ..progress import Progress
from .checkpoints import RunDirectory
from .cost import Size
from .executors import Executor, Read, Threads, Total
from .segments import ACCUMULATORS_BYTES, Segment, segments
from .stream import HeldWords, Source
from .sums import JointSums, Sums
from .work import JointPass, Pass, S


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs passes over a corpus, on an executor."""

    executor: Executor = field(default_factory=Threads)
    progress: Progress | None = None
    files: RunDirectory = field(default_factory=RunDirectory.none)
    """Where sums are kept, for a fit that is killed to go on from."""
    accumulators_bytes: int = ACCUMULATORS_BYTES
    """Bytes that the sums of all segments may take together; decides the number of segments."""
    at_a_time: int | None = None
    """Local tasks at a time; as many as threads when None."""
    spill: bool = False
    """Whether large sums lie in mapped files, which the system may take out of memory."""

    def laid_out(self, at_a_time: int, accumulators_bytes: int, spill: bool) -> Runner:
        """The same, run as it was planned."""
        return replace(self, at_a_time=at_a_time, accumulators_bytes=accumulators_bytes, spill=spill)

    def read(
        self,
        works: Sequence[Pass[Any]],
        corpus: Corpus,
        held: HeldWords | None = None,
        name: str | None = None,
    ) -> list[Sums]:
        """Read every block of the corpus once, for all of the passes; and return the merged sums of each."""
        work = JointPass(tuple(works), name)
        cut = segments(corpus, work.needs(Size(0, 0, 0)).segment, self.accumulators_bytes)
        sums: JointSums = self.run(work, corpus, cut, held)
        return list(sums.parts)

    def run(self, work: Pass[S], corpus: Source, cut: list[Segment], held: HeldWords | None = None) -> S:
        """Read every block of the corpus once and return the merged sums; of segments that are not kept.

        Parameters
        ----------
        held
            Words of some blocks that are in memory already: local threads need not read them again.
        """
        files = self.files.read(work.name, work.inputs(), cut)
        kept, done = files.resume(work.zero)
        if self.spill and kept is not None:
            kept.spill(empty=False)
        progress = _Progress(self.progress, work.name, corpus.n_docs, cut[:done])
        total: Total[S] = Total(kept, done)
        if done < len(cut):
            read = Read(work, corpus, cut[done:], held or {}, files, total, progress.advance)
            total = self.executor.reduce(read, self.at_a_time, self.spill)
        assert total.sums is not None
        return total.sums


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
