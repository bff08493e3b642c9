"""What every benchmark needs: the machine, peak memory of a process tree, files out of the page cache."""

from __future__ import annotations

import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

_LOOK_EVERY = 0.02
"""Seconds between two looks at the memory of a process."""
_CHILDREN_EVERY = 10
"""Looks between two at which children it has."""


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": len(psutil.Process().cpu_affinity()),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "python": platform.python_version(),
    }


@dataclass
class Watched:
    """What became of a process, and the memory of it and its children."""

    ended: Literal["done", "failed", "timeout"] = "done"
    seconds: float = 0.0
    peaks: dict[str, int] = field(default_factory=dict)
    """Most bytes in memory at a time, in each phase that the process told of, in their order."""
    result: dict[str, Any] = field(default_factory=dict)
    """The JSON object in its last line."""
    said: str = ""
    """The end of what it wrote to stderr."""

    @property
    def peak(self) -> int:
        return max(self.peaks.values(), default=0)


class _Tree:
    """A process and its children, looked at without taking much of the processors that they need.

    Finding children reads the system's whole list of processes, twenty times as long as it takes to look at
    the memory of one, and on two busy cores that is taken from what is measured: it is done now and then.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._members: list[psutil.Process] = []
        self._looks = 0

    def rss(self) -> int:
        """Bytes in memory, of all that are still there."""
        if self._looks % _CHILDREN_EVERY == 0:
            with suppress(psutil.NoSuchProcess):
                self._members = [self._root, *self._root.children(recursive=True)]
        self._looks += 1
        used = 0
        for member in self._members:
            with suppress(psutil.NoSuchProcess):
                used += member.memory_info().rss
        return used


@contextmanager
def children() -> Iterator[int]:
    """A process group to start children in: all of them end with this context, or with this process.

    A shell leads the group. It ends the group when its input does, and that is when this process ends in
    whatever way, by a signal that cannot be caught too.
    """
    with subprocess.Popen(
        ["sh", "-c", "read _; kill -KILL 0"], stdin=subprocess.PIPE, process_group=0
    ) as leader:
        yield leader.pid


def watch(
    command: Sequence[object], timeout: float = math.inf, tell: Callable[[str], None] | None = None
) -> Watched:
    """Run a command, and look at the memory of its processes every few milliseconds.

    A line `phase NAME` of its output begins a phase; the last line, where it succeeds, is a JSON object.

    Parameters
    ----------
    timeout
        Seconds after which it is ended, with all processes it has started.
    tell
        Called with each phase's name.
    """
    started, watched, lines, phase = time.perf_counter(), Watched(), [""], ["start"]
    with tempfile.TemporaryFile("w+") as errors, children() as group:
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            process_group=group,
        )

        def listen() -> None:
            assert process.stdout is not None
            with process.stdout as output:
                for line in output:
                    if line.startswith("phase "):
                        phase[0] = line.split()[1]
                        if tell is not None:
                            tell(phase[0])
                    else:
                        lines.append(line)

        listener = threading.Thread(target=listen)
        listener.start()
        tree = _Tree(process.pid)
        while process.poll() is None:
            watched.peaks[phase[0]] = max(tree.rss(), watched.peaks.get(phase[0], 0))
            if time.perf_counter() - started > timeout:
                watched.ended = "timeout"
                os.killpg(group, signal.SIGKILL)
                process.wait()
            time.sleep(_LOOK_EVERY)
        listener.join()
        errors.seek(0)
        watched.said = errors.read()[-2000:].strip()
    watched.seconds = time.perf_counter() - started
    if watched.ended == "done":
        try:
            watched.result = json.loads(lines[-1])
        except ValueError:
            watched.ended = "failed"
        if process.returncode:
            watched.ended = "failed"
    return watched


def run_measured(code: str, *arguments: object) -> dict[str, Any]:
    """Run Python code in a process of its own; what it printed last, with `peak_mb` and `process_seconds`."""
    watched = watch([sys.executable, "-c", code, *arguments])
    if watched.ended != "done":
        raise RuntimeError(f"the measured process failed:\n{watched.said}")
    return {
        **watched.result,
        "peak_mb": round(watched.peak / 1e6, 1),
        "process_seconds": watched.seconds,
    }


def forget(paths: Iterable[Path]) -> None:
    """Drop files from the page cache, so that the next read comes from the disk."""
    for path in paths:
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
