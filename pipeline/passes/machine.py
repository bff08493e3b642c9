"""Memory of this machine, and its speed at what passes consist of: matrix products and gathering rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..tasks import map_tasks, n_cpus, one_blas_thread
from ..types import Array
from . import kernels
from .cost import Cost

_SIZE = 768
_IDS = 400_000


def available_bytes() -> int | None:
    """Bytes that the system can still give to this process; None where it does not tell."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def peak_bytes() -> int | None:
    """The most that this process ever held, or None where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


@dataclass(frozen=True, slots=True)
class Rates:
    """By all threads together."""

    flops: float
    """Of a product of single precision matrices, per second."""
    gathered: float
    """Bytes of rows that are reached by number, in the order in which words come, per second."""

    def seconds(self, cost: Cost) -> float:
        return cost.flops / self.flops + cost.gathered / self.gathered


def measure_rates(
    term_counts: Array, width: int, n_threads: int | None = None, most_bytes: int = 64_000_000
) -> Rates:
    """Measure for about half a second.

    Parameters
    ----------
    term_counts
        (D,): how often each word occurs, most frequent first; words are drawn accordingly.
    width
        Columns of the matrix whose rows are reached.
    most_bytes
        What that matrix may take; words beyond it are left out.
    """
    threads = n_threads or n_cpus()
    n_rows = max(1, min(len(term_counts), most_bytes // (4 * width)))
    rng = np.random.default_rng(0)
    cumulative = np.cumsum(term_counts[:n_rows] + 1e-9)
    ids = np.searchsorted(cumulative, rng.random(_IDS) * cumulative[-1]).astype(np.int32)
    W = np.ones((n_rows, width), np.float32)
    A = np.ones((_SIZE, _SIZE), np.float32)
    with one_blas_thread():
        flops = threads * 2 * _SIZE**3 / _best(lambda: A @ A, threads)
        kernels.add_rows(ids[:1], W, np.zeros(width, np.float32))  # compiles
        seconds = _best(lambda: kernels.add_rows(ids, W, np.zeros(width, np.float32)), threads)
    return Rates(flops, threads * 4.0 * width * _IDS / seconds)


def _best(work: Callable[[], object], threads: int) -> float:
    """Seconds that as many threads take to do the same thing each, once they have warmed up."""
    times = []
    for _ in range(4):
        started = time.perf_counter()
        map_tasks(lambda _: work(), range(threads), name="rate", n_threads=threads)
        times.append(time.perf_counter() - started)
    return min(times)
