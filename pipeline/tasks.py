"""The one place where work is handed to Dask."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import dask
from dask.delayed import Delayed

Item = TypeVar("Item")
Result = TypeVar("Result")


def n_cpus() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_tasks(
    function: Callable[[Item], Result], items: Sequence[Item], *, name: str, n_threads: int | None = None
) -> list[Result]:
    """`[function(item) for item in items]`, each call a Dask task named `name`, on local threads.

    The first exception of any task is raised here; tasks not yet started are dropped.
    """
    # partial: Dask looks for its own collections inside arguments, and there are none to find
    tasks = [
        dask.delayed(partial(function, item), pure=False)(dask_key_name=(name, i))
        for i, item in enumerate(items)
    ]
    return compute_all(tasks, n_threads)


def compute_all(tasks: Sequence[Delayed], n_threads: int | None = None) -> list[Any]:
    """The results of delayed calls, on local threads, whatever client is the default."""
    return list(dask.compute(*tasks, scheduler="threads", num_workers=n_threads or n_cpus()))
