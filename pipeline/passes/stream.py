"""The task of a segment: its blocks, read ahead, streamed into one accumulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..tasks import check_wanted, give_back_memory
from .segments import Segment
from .work import Pass, S


class Source(Protocol):
    """Protocol of whatever is read block by block: a corpus, or `ranges.Ranges`."""

    @property
    def n_docs(self) -> int:
        """Documents in all blocks."""

    def block(self, number: int, words: SparseRows | None = None) -> Block:
        """A block by its number; with these words where they are in memory already."""


HeldWords = dict[int, SparseRows]
"""Words of blocks, by their number."""
Advance = Callable[[Segment, int], None]
"""Told how many documents of a segment are done."""


@dataclass(frozen=True, slots=True)
class Stream(Generic[S]):
    """The task of a segment: stream its blocks into one accumulator."""

    work: Pass[S]
    reads: ReadAhead
    spill: bool = False
    advance: Advance | None = None

    def __call__(self, segment: Segment) -> S:
        sums = self.work.zero()
        if self.spill:
            sums.spill()
        add, done = self.work.adder(segment.number), 0
        for block in self.reads.blocks(segment):
            check_wanted()
            add(sums, block)
            if self.advance is not None:
                done += block.X.n_rows
                self.advance(segment, done)
        sums.settle()
        give_back_memory()
        return sums


class ReadAhead:
    """Blocks of segments, each read while a task works on the one before.

    Where `n_tasks` take turns, the first block of a task's next segment is read ahead too.
    """

    def __init__(self, corpus: Source, held: HeldWords, segments: Sequence[Segment], n_tasks: int) -> None:
        self._corpus = corpus
        self._held = held
        self._first = {segment.number: segment.blocks.start for segment in segments if segment.blocks}
        self._n_tasks = n_tasks
        self._readers = ThreadPoolExecutor(n_tasks)
        self._upcoming: dict[int, Future[Block]] = {}

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        interrupted = error is not None and not issubclass(
            error, Exception
        )  # who presses Ctrl-C does not wait
        self._readers.shutdown(wait=not interrupted, cancel_futures=True)
        self._upcoming.clear()

    def blocks(self, segment: Segment) -> Iterator[Block]:
        """Every block of the segment, in order."""
        for number in segment.blocks:
            upcoming = self._upcoming.pop(number, None)
            block = self._read(number) if upcoming is None else upcoming.result()
            in_segment = number + 1 in segment.blocks
            following = number + 1 if in_segment else self._first.get(segment.number + self._n_tasks)
            if following is not None:
                self._upcoming[following] = self._readers.submit(self._read, following)
            del upcoming  # it holds the block
            yield block

    def _read(self, number: int) -> Block:
        return self._corpus.block(number, self._held.pop(number, None))  # it is not needed again
