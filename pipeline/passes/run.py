"""A pass over the corpus as a map-reduce: segments in, one dictionary of sums out.

A task streams one segment, a run of blocks, into one accumulator; segments are merged in their order, as they
are done. Both depend on the corpus and the plan alone, so the result is bitwise the same for one worker or
fifty, threads or processes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import threadpoolctl

from pipeline.corpus.rows import SparseRows
from pipeline.corpus.store import Block, Corpus
from pipeline.passes.cost import Cost, Size
from pipeline.passes.segments import Segment
from pipeline.tasks import give_back_memory, keep_memory, n_cpus, ordered_reduce

Sums = dict[str, Any]
"""An accumulator: every entry is a sum over documents, so two of them merge by adding.

Entries are arrays, or objects that know how to add themselves up, or sums again.
"""
HeldWords = dict[int, SparseRows]
"""Words of blocks, by their number."""
Progress = Callable[[str, float, float], None]
_SPILL_BYTES = 16_000_000
"""Smaller arrays are not worth a file."""


class Pass(Protocol):
    """What a pass adds up, as a dataclass; knows nothing of segments, tasks or disks."""

    @property
    def name(self) -> str:
        """The first word of its task keys."""

    @property
    def accumulator_bytes(self) -> int:
        """About what its sums take."""

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

    def cost(self, size: Size) -> Cost:
        return sum((part.cost(size) for part in self.parts), Cost())

    def zero(self) -> Sums:
        return {str(i): part.zero() for i, part in enumerate(self.parts)}

    def add(self, sums: Sums, block: Block) -> None:
        for i, part in enumerate(self.parts):
            part.add(sums[str(i)], block)


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

    def run_together(
        self, parts: Sequence[Pass], corpus: Corpus, segments: list[Segment], held: HeldWords | None = None
    ) -> list[Sums]:
        """Read every block of the corpus once, for all of the passes; and return the merged sums of each."""
        sums = self.run(Together(tuple(parts)), corpus, segments, held)
        return [sums[str(i)] for i in range(len(parts))]

    def run(self, work: Pass, corpus: Corpus, segments: list[Segment], held: HeldWords | None = None) -> Sums:
        """Read every block of the corpus once and return the merged sums.

        Parameters
        ----------
        held
            Words of some blocks that are in memory already: local threads need not read them again.
        """
        done = 0

        def advance(segment: Segment) -> None:
            nonlocal done
            done += segment.n_docs
            if self.progress is not None:
                self.progress(work.name, done, corpus.n_docs)

        if self.client is None:
            # One BLAS thread in each task: the task is the unit of parallelism, and the sums stay the same.
            tasks = self.at_a_time or self.n_threads or n_cpus()
            with threadpoolctl.threadpool_limits(1), ReadAhead(corpus, held or {}, segments, tasks) as reads:
                return ordered_reduce(
                    _Stream(work, reads, self.spill),
                    merge_into,
                    segments,
                    name=work.name,
                    at_a_time=tasks,
                    on_done=advance,
                )
        with tempfile.TemporaryDirectory(prefix="threepass-") as folder:
            remote = _RemoteStream(_by_path(work, Path(folder)), corpus)
            return ordered_reduce(
                remote, merged, segments, name=work.name, client=self.client, on_done=advance
            )


@dataclass(frozen=True, slots=True)
class _Stream:
    """The task of a segment: stream its blocks into one accumulator."""

    work: Pass
    reads: ReadAhead
    spill: bool = False

    def __call__(self, segment: Segment) -> Sums:
        sums = spilled(self.work.zero()) if self.spill else self.work.zero()
        for block in self.reads.blocks(segment):
            self.work.add(sums, block)
        give_back_memory()
        return sums


class ReadAhead:
    """Blocks of segments, each read while a task works on the one before.

    Where `n_tasks` take turns, the first block of a task's next segment is read ahead too.
    """

    def __init__(self, corpus: Corpus, held: HeldWords, segments: Sequence[Segment], n_tasks: int) -> None:
        self._corpus = corpus
        self._held = held
        self._first = {segment.number: segment.blocks.start for segment in segments if segment.blocks}
        self._n_tasks = n_tasks
        self._readers = ThreadPoolExecutor(n_tasks)
        self._upcoming: dict[int, Future[Block]] = {}

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self._readers.shutdown(cancel_futures=True)
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
        return self._corpus.block(number, self._held.get(number))


@dataclass(frozen=True, slots=True)
class _RemoteStream:
    """The same in another process: small to send, for the corpus goes by path and arrays as memory maps."""

    work: Any
    corpus: Corpus

    def __call__(self, segment: Segment) -> Sums:
        threadpoolctl.threadpool_limits(1)
        keep_memory()
        with ReadAhead(self.corpus, {}, [segment], 1) as reads:
            return _Stream(_with_arrays(self.work), reads)(segment)


@dataclass(frozen=True, slots=True)
class _Stored:
    """Stands for an array that lies on disk."""

    path: Path


def _by_path(value: Any, folder: Path) -> Any:
    """A pass, or anything in it, with every array put on disk."""
    if isinstance(value, np.ndarray):
        path = folder / f"{len(list(folder.iterdir()))}.npy"
        np.save(path, value)
        return _Stored(path)
    return _mapped(lambda part: _by_path(part, folder), value)


def _with_arrays(value: Any) -> Any:
    """The same with the arrays again, as memory maps."""
    if isinstance(value, _Stored):
        return np.load(value.path, mmap_mode="r")
    return _mapped(_with_arrays, value)


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """`function` of the parts that a tuple or a dataclass is made of."""
    if isinstance(value, tuple):
        return tuple(map(function, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: function(getattr(value, field.name)) for field in fields(value)})
    return value


def spilled(sums: Sums) -> Sums:
    """The same zeros, large arrays of them in files without a name that lie in the temporary folder."""

    def mapped(value: Any) -> Any:
        if isinstance(value, dict):
            return spilled(value)
        if not isinstance(value, np.ndarray) or value.nbytes < _SPILL_BYTES:
            return value
        with tempfile.TemporaryFile(prefix="threepass-") as file:
            return np.memmap(file, value.dtype, "w+", shape=value.shape)

    return {name: mapped(value) for name, value in sums.items()}


def merge_into(one: Sums, other: Sums) -> Sums:
    """Add `other` to `one`, in place."""
    for name, value in other.items():
        if isinstance(value, dict):
            merge_into(one[name], value)
        else:
            one[name] += value
    return one


def merged(one: Sums, other: Sums) -> Sums:
    """The same without touching either: on a cluster a result may be read-only, or needed again."""
    return {
        name: merged(value, other[name]) if isinstance(value, dict) else value + other[name]
        for name, value in one.items()
    }
