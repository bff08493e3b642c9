"""Files of a fit that runs, from which a killed fit goes on where it was.

A run directory belongs to one fit: of this corpus, these settings and this version of the code. After every
segment that is merged, the sums so far are written there, unless that would take more than a small share of
the time; there is one such file for each read of the corpus, which the next one replaces. On a cluster
workers put the sums of their segments there, too: it is how these reach the one who merges them.

Nothing in a run directory is believed: its description must match to the letter, each file its checksum, and
the sums of a read the arrays that the read was made with.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ..errors import StoreError
from ..storage.arrays import crc32c
from ..storage.destination import LOCK, empty, take_lock
from ..types import Array
from ..warn import warn
from .kept_sums import VERSION, DamagedError, read_partial, write_partial
from .segments import Segment
from .sums import Sums
from .work import S

CODE = 4
"""Raise it when the same corpus and settings come to give other sums: old ones are then left alone."""
SHARE = 0.05
"""Share of the time since the fit began that may go into files."""
_BYTES_PER_SECOND = 1e9
"""Assumed speed of the disk, until files were written."""
_SUMMED = 32_768
"""Bytes of an input that are added up for a checksum."""
INPUTS = "inputs-"
"""Prefix of folders with the arrays of a pass, for workers."""
_DESCRIPTION = "run.json"
RUN_LOG = "run.jsonl"


@dataclass(slots=True)
class RunDirectory:
    """The files of one fit. `at` opens one, `none` keeps nothing."""

    folder: Path | None
    share: float = SHARE
    """Share of the time that files may take."""
    started: float = field(default_factory=time.monotonic)
    written_bytes: int = 0
    write_seconds: float = 0.0
    reused: int = 0
    """Segments whose sums an earlier run has left."""
    computed: int = 0
    lock: Lock = field(default_factory=Lock)
    _reads: int = 0

    @classmethod
    @contextmanager
    def at(cls, folder: Path, what: dict[str, Any], share: float = SHARE) -> Iterator[RunDirectory]:
        """Open the directory for this fit; it stays when the block ends.

        Parameters
        ----------
        what
            What is learned from what. A directory of anything else is emptied before it is used.

        Raises
        ------
        StoreError
            Another process uses it, it is not a run directory, or the disk refuses.
        """
        what = json.loads(json.dumps({"threepass-run": VERSION, "code": CODE, **what}))
        with ExitStack() as stack:
            try:
                stack.callback(os.close, _locked(folder))
                _prepare(folder, what)
            except OSError as error:
                raise StoreError(
                    f"The run directory {folder} could not be made: {error.strerror}. "
                    "Check the path, its permissions and its disk, or choose another with run_dir."
                ) from error
            yield cls(folder, share)

    @classmethod
    def none(cls) -> RunDirectory:
        """A run directory that keeps nothing."""
        return cls(None)

    def read(self, name: str, inputs: Sequence[Array], segments: Sequence[Segment]) -> ReadFiles:
        """The files of the next read of the corpus."""
        self._reads += 1
        if self.folder is None:
            return ReadFiles(self, None, {}, name)
        folder = self.folder / f"{self._reads}-{name}"
        folder.mkdir(mode=0o700, exist_ok=True)
        bounds = [[segment.blocks.start, segment.blocks.stop] for segment in segments]
        return ReadFiles(self, folder, {"read": name, "inputs": _digest(inputs), "segments": bounds}, name)

    def log(self, **line: Any) -> None:
        """Add a line to the run log: counts, names and seconds, nothing that is in documents."""
        if self.folder is not None:
            stamped = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **line}
            flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
            with (
                suppress(OSError),  # a log is not worth a fit
                os.fdopen(os.open(self.folder / RUN_LOG, flags, 0o600), "a") as file,
            ):
                file.write(json.dumps(stamped) + "\n")

    def stats(self) -> dict[str, Any]:
        """Segments that were reused or computed, and what files took."""
        return {
            "segments_reused": self.reused,
            "segments_computed": self.computed,
            "checkpoint_bytes": self.written_bytes,
            "checkpoint_seconds": self.write_seconds,
        }

    def affordable(self, nbytes: int) -> bool:
        """Whether so many bytes can be written without taking too much of the time."""
        rate = self.written_bytes / self.write_seconds if self.written_bytes > 10**6 else _BYTES_PER_SECOND
        return self.write_seconds + nbytes / rate <= self.share * (time.monotonic() - self.started)


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """The files of one read of the corpus."""

    run: RunDirectory
    folder: Path | None
    stamp: dict[str, Any]
    name: str

    def resume(self, zero: Callable[[], S]) -> tuple[S | None, int]:
        """The sums of the first so many segments that an earlier run has left, if any."""
        if self.folder is None:
            return None, 0
        for path in sorted(self.folder.glob("total-*"), reverse=True):
            with suppress(ValueError):
                done = int(path.name.removeprefix("total-"))
                found = self._believed(path, zero, {**self.stamp, "done": done})
                if found is not None:
                    self.run.reused += done
                    return found, done
            path.unlink(missing_ok=True)
        return None, 0

    def keep(self, sums: Sums, done: int) -> None:
        """Keep the sums of the first `done` segments, where there is time for it."""
        if self.folder is None or not self.run.affordable(sums.nbytes):
            return
        started = time.monotonic()
        path = self.folder / f"total-{done:05d}"
        try:
            self.run.written_bytes += write_partial(path, sums, {**self.stamp, "done": done})
        except OSError as error:  # the fit can do without; what was kept before is still there
            warn(
                f"The fit goes on, but could not keep what it has so far: {error.strerror}. "
                f"Free some space in {self.folder.parent}."
            )
            return
        finally:
            self.run.write_seconds += time.monotonic() - started
        for older in self.folder.iterdir():
            covered = older.name.startswith("total-") and older != path
            if covered or any(older == self.segment_path(number) for number in range(done)):
                older.unlink(missing_ok=True)

    def segment_path(self, number: int) -> Path:
        """File for the sums of a segment, which a worker writes."""
        assert self.folder is not None
        return segment_path(self.folder, number)

    def segment(self, number: int, zero: Callable[[], S]) -> S | None:
        """The sums that a worker has put there; None where they are not to be believed."""
        path = self.segment_path(number)
        return self._believed(path, zero, segment_stamp(self.stamp, number)) if path.exists() else None

    def log_segment(self, segment: Segment, seconds: float, where: str) -> None:
        """One line for a segment that was worked on."""
        with self.run.lock:
            self.run.computed += 1
            self.run.log(
                **{"pass": self.name},
                segment=segment.number,
                blocks=[segment.blocks.start, segment.blocks.stop],
                documents=segment.n_docs,
                seconds=round(seconds, 3),
                where=where,
            )

    def _believed(self, path: Path, zero: Callable[[], S], stamp: dict[str, Any]) -> S | None:
        try:
            return read_partial(path, zero, stamp)
        except DamagedError as error:
            self.run.log(ignored=str(error))
            path.unlink(missing_ok=True)
            return None


def segment_path(folder: Path, number: int) -> Path:
    """File for the sums of a segment."""
    return folder / f"segment-{number:05d}"


def segment_stamp(stamp: dict[str, Any], number: int) -> dict[str, Any]:
    """Stamp of a segment's file."""
    return {**stamp, "segment": number}


def _digest(inputs: Sequence[Array]) -> int:
    """A checksum of every array that a pass was made with, by sums of a few thousand bytes each.

    It need not withstand malice, but a W that another machine's linear algebra rounds otherwise is another W.
    """

    def parts(array: Array) -> Iterator[Array]:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        whole = len(raw) // _SUMMED * _SUMMED
        yield raw[:whole].view(np.uint64).reshape(-1, _SUMMED // 8).sum(axis=1, dtype=np.uint64)
        yield raw[whole:]

    return crc32c(*(part for array in inputs for part in parts(array)))


def _locked(folder: Path) -> int:
    """Make the directory, readable for nobody else, and lock it."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise StoreError(f"{folder} is no directory. A run directory is wanted. Choose another with run_dir.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / LOCK).exists():
        raise StoreError(
            f"{folder} has files in it that are not of a fit. Choose an empty directory, or one that is new."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = take_lock(folder)
    if lock is None:
        raise StoreError(
            f"Another process is fitting the same model: it holds {folder}. "
            "Wait for it to end, or choose another name."
        )
    return lock


def _prepare(folder: Path, what: dict[str, Any]) -> None:
    """Throw away what is of another fit, and what a killed one of this has left unfinished."""
    if description_of(folder) != what:
        empty(folder)
        _write_text(folder / _DESCRIPTION, json.dumps(what, indent=2))
    for torn in [*folder.rglob("*.tmp"), *folder.glob(f"*/{INPUTS}*/*")]:
        torn.unlink(missing_ok=True)
    for left in folder.glob(f"*/{INPUTS}*"):
        left.rmdir()


def description_of(folder: Path) -> Any:
    """What a run directory says that it is of; None where it says nothing."""
    try:
        return json.loads((folder / _DESCRIPTION).read_text())
    except (OSError, ValueError, RecursionError):
        return None


def _write_text(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(text)
    Path(file.name).replace(path)
