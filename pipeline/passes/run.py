"""A pass over the corpus as a map-reduce: segments in, one dictionary of sums out.

A task streams one segment, a run of blocks, into one accumulator; segments are merged in a fixed tree. Both
depend on the corpus alone, so the result is bitwise the same for one worker or fifty, threads or processes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import threadpoolctl

from pipeline.corpus.rows import SparseRows
from pipeline.corpus.store import Block, Corpus
from pipeline.passes.plan import Segment
from pipeline.tasks import tree_reduce

Sums = dict[str, Any]
"""An accumulator: every entry is a sum over documents, so two of them merge by adding.

Entries are arrays, or objects that know how to add themselves up, or sums again.
"""
HeldWords = dict[int, SparseRows]
"""Words of blocks, by their number."""
Progress = Callable[[str, float, float], None]


class Pass(Protocol):
    """What a pass adds up, as a dataclass; knows nothing of segments, tasks or disks."""

    @property
    def name(self) -> str:
        """The first word of its task keys."""

    @property
    def accumulator_bytes(self) -> int:
        """About what its sums take."""

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
            with threadpoolctl.threadpool_limits(1):
                stream = _Stream(work, corpus, held or {})
                return tree_reduce(
                    stream, merge_into, segments, name=work.name, n_threads=self.n_threads, on_done=advance
                )
        with tempfile.TemporaryDirectory(prefix="threepass-") as folder:
            remote = _RemoteStream(_by_path(work, Path(folder)), corpus)
            return tree_reduce(remote, merged, segments, name=work.name, client=self.client, on_done=advance)


@dataclass(frozen=True, slots=True)
class _Stream:
    """The task of a segment: stream its blocks into one accumulator."""

    work: Pass
    corpus: Corpus
    held: HeldWords

    def __call__(self, segment: Segment) -> Sums:
        sums = self.work.zero()
        for number in segment.blocks:
            self.work.add(sums, self.corpus.block(number, self.held.get(number)))
        return sums


@dataclass(frozen=True, slots=True)
class _RemoteStream:
    """The same in another process: small to send, for the corpus goes by path and arrays as memory maps."""

    work: Any
    corpus: Corpus

    def __call__(self, segment: Segment) -> Sums:
        threadpoolctl.threadpool_limits(1)
        return _Stream(_with_arrays(self.work), self.corpus, {})(segment)


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
