"""A pass over the corpus as a map-reduce: segments in, one dictionary of sums out.

A task streams one segment, a run of blocks, into one accumulator; segments are merged in a fixed tree. Both
depend on the corpus alone, so the result is bitwise the same for one worker or fifty, threads or processes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import threadpoolctl

from pipeline.corpus.rows import Array
from pipeline.corpus.store import Block, Corpus
from pipeline.passes.plan import Segment
from pipeline.tasks import tree_reduce

Sums = dict[str, Array]
"""An accumulator: every entry is a sum over documents, so two of them merge by adding."""
Progress = Callable[[str, float, float], None]


class Pass(Protocol):
    """What a pass adds up, as a dataclass; knows nothing of segments, tasks or disks."""

    @property
    def name(self) -> str:
        """The first word of its task keys."""

    def zero(self) -> Sums:
        """An accumulator for no documents at all."""

    def add(self, sums: Sums, block: Block) -> None:
        """Add the documents of one block, in place."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Where passes run: local threads, or a `distributed.Client` when there is one."""

    n_threads: int | None = None
    client: Any = None
    progress: Progress | None = None

    def run(self, work: Pass, corpus: Corpus, segments: list[Segment]) -> Sums:
        """Read every block of the corpus once and return the merged sums."""
        done = 0

        def advance(segment: Segment) -> None:
            nonlocal done
            done += segment.n_docs
            if self.progress is not None:
                self.progress(work.name, done, corpus.n_docs)

        if self.client is None:
            # One BLAS thread in each task: the task is the unit of parallelism, and the sums stay the same.
            with threadpoolctl.threadpool_limits(1):
                stream = _Stream(work, corpus)
                return tree_reduce(
                    stream, merge_into, segments, name=work.name, n_threads=self.n_threads, on_done=advance
                )
        with tempfile.TemporaryDirectory(prefix="threepass-") as folder:
            remote = _RemoteStream(*_by_path(work, Path(folder)), corpus)
            return tree_reduce(remote, merged, segments, name=work.name, client=self.client, on_done=advance)


@dataclass(frozen=True, slots=True)
class _Stream:
    """The task of a segment: stream its blocks into one accumulator."""

    work: Pass
    corpus: Corpus

    def __call__(self, segment: Segment) -> Sums:
        sums = self.work.zero()
        for number in segment.blocks:
            self.work.add(sums, self.corpus.block(number))
        return sums


@dataclass(frozen=True, slots=True)
class _RemoteStream:
    """The same in another process: small to send, for the corpus goes by path and arrays as memory maps."""

    work: Any
    array_paths: dict[str, Path]
    corpus: Corpus

    def __call__(self, segment: Segment) -> Sums:
        threadpoolctl.threadpool_limits(1)
        arrays = {name: np.load(path, mmap_mode="r") for name, path in self.array_paths.items()}
        return _Stream(replace(self.work, **arrays), self.corpus)(segment)


def _by_path(work: Any, folder: Path) -> tuple[Any, dict[str, Path]]:
    """The pass without its arrays, and where these were put."""
    paths = {}
    for field in fields(work):
        array = getattr(work, field.name)
        if isinstance(array, np.ndarray):
            paths[field.name] = folder / f"{field.name}.npy"
            np.save(paths[field.name], array)
    return replace(work, **dict.fromkeys(paths, np.zeros(0))), paths


def merge_into(one: Sums, other: Sums) -> Sums:
    """Add `other` to `one`, in place."""
    for name, array in other.items():
        one[name] += array
    return one


def merged(one: Sums, other: Sums) -> Sums:
    """The same without touching either: on a cluster a result may be read-only, or needed again."""
    return {name: array + other[name] for name, array in one.items()}
