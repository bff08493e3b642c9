"""The one place where work is handed to Dask."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

import dask
from dask.callbacks import Callback
from dask.delayed import Delayed

Item = TypeVar("Item")
Result = TypeVar("Result")

_run_numbers = count()


def n_cpus() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_tasks(
    function: Callable[[Item], Result], items: Sequence[Item], *, name: str, n_threads: int | None = None
) -> list[Result]:
    """`[function(item) for item in items]`, each call a Dask task named `name`, on local threads.

    The first exception of any task is raised here; tasks not yet started are dropped.
    """
    return compute_all(_calls(function, items, name), n_threads)


def compute_all(tasks: Sequence[Delayed], n_threads: int | None = None) -> list[Any]:
    """The results of delayed calls, on local threads, whatever client is the default."""
    return list(dask.compute(*tasks, scheduler="threads", num_workers=n_threads or n_cpus()))


def tree_reduce(
    function: Callable[[Item], Result],
    merge: Callable[[Result, Result], Result],
    items: Sequence[Item],
    *,
    name: str,
    n_threads: int | None = None,
    client: Any = None,
    on_done: Callable[[Item], None] | None = None,
) -> Result:
    """Merge `function(item)` of all items in a fixed binary tree, on local threads or on a cluster.

    Parameters
    ----------
    merge
        May add its second argument to its first in place: no result is used twice.
    name
        Task keys start with it, so that a dashboard shows it.
    client
        A `distributed.Client`; local threads when None.
    on_done
        Called with an item once its task is done.
    """
    # Keys differ from run to run: a cluster must not take a result of another corpus for this one's.
    run = f"{name}-{os.getpid()}-{next(_run_numbers)}"
    level = _calls(function, items, run)
    of_key = {task.key: item for task, item in zip(level, items, strict=True)}
    merging = dask.delayed(merge, pure=False)
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [pair[0] if len(pair) == 1 else merging(*pair) for pair in pairs]
    result: Result
    if client is not None:
        result = client.compute(level[0], optimize_graph=False).result()
        if on_done is not None:
            for item in items:
                on_done(item)
        return result

    def posttask(key: Any, *_: Any) -> None:
        if on_done is not None and key in of_key:
            on_done(of_key[key])

    with Callback(posttask=posttask):
        (result,) = compute_all(level, n_threads)
    return result


def _calls(function: Callable[[Item], Any], items: Sequence[Item], name: str) -> list[Delayed]:
    # partial: Dask looks for its own collections inside arguments, and there are none to find
    return [
        dask.delayed(partial(function, item), pure=False)(dask_key_name=(name, i))
        for i, item in enumerate(items)
    ]
