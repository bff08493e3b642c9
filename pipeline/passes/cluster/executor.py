"""Segments on the workers of a Dask cluster.

What a worker needs and what it makes goes through files: the arrays of a pass as memory maps, the corpus by
its own address, and the sums of a segment into the run directory. So a worker that is lost takes nothing with
it but the segments it was at, and nothing large passes through the scheduler. All of them must see the same
files, at the same paths.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...corpus import dask_compat as _dask_compat  # noqa: F401  (sizes and tokens of sparse blocks)
from ...errors import StoreError, ThreepassError
from ...storage.destination import temporary_folder
from ...tasks import keep_memory, one_blas_thread
from ..checkpoints import INPUTS, ReadFiles, segment_path, segment_stamp
from ..executors import Read, Total
from ..kept_sums import write_partial
from ..segments import Segment
from ..stream import ReadAhead, Source, Stream
from ..work import S
from .tasks import Patience, cluster_results, news_to

_ROUNDS = 3
"""Rounds of damaged sums before the disk is to blame."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Tasks on the workers of a `distributed.Client`."""

    client: Any
    n_threads: int | None = None
    """Local threads, for what is done between the reads."""
    patience: Patience = field(default_factory=Patience)
    shares_memory = False

    def reduce(self, read: Read[S], at_a_time: int | None, spill: bool) -> Total[S]:
        """Merge here what the workers sum; a limit of this process' memory does not bind them."""
        total = read.start
        for part in _segment_sums(self, read):
            total = total.grown(part, read.files)
        return total


def _segment_sums(cluster: Cluster, read: Read[S]) -> Iterator[S]:
    """Yield the sums of each segment, in their order, each as soon as it and those before it are done."""
    work, segments, files, advance = read.work, read.left, read.files, read.advance
    of_number = {segment.number: segment for segment in segments}
    found: set[int] = set()  # what an earlier run has left

    def finished(missing: list[Segment], remote: RemoteStream) -> Iterator[None]:
        """Yield whenever a segment's file may be ready."""
        yield
        for segment, told in cluster_results(
            cluster.client,
            remote,
            {segment.number: segment for segment in missing},
            name=work.name,
            on_news=lambda number, done: advance(of_number[number], done),
            patience=cluster.patience,
        ):
            files.log_segment(segment, *told)
            found.discard(segment.number)
            yield

    with _on_disk(files) as (files, temporary):
        assert files.folder is not None
        waiting = list(segments)
        found |= {number for number in of_number if files.segment_path(number).exists()}
        with temporary_folder(INPUTS, files.folder) as inputs:
            folder = files.folder.absolute()
            remote = RemoteStream(_by_path(work, inputs.absolute()), read.corpus, folder, files.stamp)
            for _ in range(_ROUNDS):
                missing = [segment for segment in waiting if not files.segment_path(segment.number).exists()]
                for _ in finished(missing, remote):
                    while waiting and (sums := files.segment(waiting[0].number, work.zero)) is not None:
                        segment = waiting.pop(0)
                        if segment.number in found:
                            files.run.reused += 1
                            advance(segment, segment.n_docs)
                        yield sums
                        if temporary:
                            files.segment_path(segment.number).unlink()
                if not waiting:
                    return
        raise StoreError(
            f"The sums of segment {waiting[0].number} of '{work.name}' were damaged {_ROUNDS} times between "
            f"worker and here. They lie in {files.folder}. Check that disk, and that all workers share it."
        )


@dataclass(frozen=True, slots=True)
class RemoteStream:
    """The task of a segment in another process: small to send, and so is what it returns."""

    work: Any
    corpus: Source
    folder: Path
    stamp: dict[str, Any]

    def __call__(self, segment: Segment, topic: str) -> tuple[float, str]:
        """Put the sums where they are expected, and tell the seconds it took, and where."""
        tell, where = news_to(topic)
        started = time.monotonic()
        keep_memory()
        tell(segment.number, 0)
        with one_blas_thread(), ReadAhead(self.corpus, {}, [segment], 1) as reads:
            stream = Stream(_with_arrays(self.work), reads, advance=lambda of, done: tell(of.number, done))
            sums = stream(segment)
        path = segment_path(self.folder, segment.number)
        try:
            write_partial(path, sums, segment_stamp(self.stamp, segment.number))
        except OSError as error:
            raise StoreError(
                f"A worker could not write {path}: {error.strerror}. "
                "Give the run directory more space, and let it lie where every worker can write."
            ) from error
        return time.monotonic() - started, where


@contextmanager
def _on_disk(files: ReadFiles) -> Iterator[tuple[ReadFiles, bool]]:
    """The same files; in a temporary directory where nothing is to be kept, and whether that is so."""
    if files.folder is not None:
        yield files, False
        return
    with temporary_folder() as folder:
        yield replace(files, folder=folder), True


@dataclass(frozen=True, slots=True)
class _Stored:
    """Stands for an array that lies on disk."""

    path: Path


def _by_path(value: Any, folder: Path) -> Any:
    """A pass, or anything in it, with every array put on disk."""
    if isinstance(value, np.ndarray):
        path = folder.absolute() / f"{len(list(folder.iterdir()))}.npy"
        np.save(path, value)
        return _Stored(path)
    return _mapped(lambda part: _by_path(part, folder), value)


def _with_arrays(value: Any) -> Any:
    """The same with the arrays again, as memory maps."""
    if isinstance(value, _Stored):
        try:
            return np.load(value.path, mmap_mode="r")
        except FileNotFoundError as error:
            raise ThreepassError(
                f"A worker does not see {value.path}. Workers must share a disk with the process that fits. "
                "Pass run_dir (--run-dir) on storage that all of them have at the same path."
            ) from error
    return _mapped(_with_arrays, value)


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """`function` of the parts that a tuple or a dataclass is made of."""
    if isinstance(value, tuple):
        return tuple(map(function, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: function(getattr(value, field.name)) for field in fields(value)})
    return value
