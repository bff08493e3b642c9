"""The one place where work is handed to Dask."""

from __future__ import annotations

import ctypes
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
_trim, _mallopt = (getattr(ctypes.CDLL(None), name, None) for name in ("malloc_trim", "mallopt"))  # glibc
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of its settings


def n_cpus() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def give_back_memory() -> None:
    """Hand freed memory back to the system, where the C library would keep it for threads that are gone."""
    if _trim is not None:
        _trim(0)


def keep_memory() -> None:
    """Let the C library keep freed memory until `give_back_memory`, in a worker of Dask's.

    Workers are started with a setting that makes it map every larger array anew, page by page, which takes
    longer than what is computed in a slab.
    """
    if _mallopt is not None:
        _mallopt(_MMAP_THRESHOLD, 1 << 25)
        _mallopt(_TRIM_THRESHOLD, 1 << 28)


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


def ordered_reduce(
    function: Callable[[Item], Result],
    merge: Callable[[Result, Result], Result],
    items: Sequence[Item],
    *,
    name: str,
    at_a_time: int | None = None,
    client: Any = None,
    on_done: Callable[[Item], None] | None = None,
) -> Result:
    """Merge `function(item)` of all items, one after the other in their order, as they are done.

    The result does not depend on how many run at a time, for the order of merging does not.

    Parameters
    ----------
    merge
        May add its second argument to its first in place: no result is used twice.
    name
        Task keys start with it, so that a dashboard shows it.
    at_a_time
        Items in work or waiting to be merged, so that no more than one result more is ever held. On local
        threads as many as there are processors when None; on a cluster no limit.
    client
        A `distributed.Client`; local threads when None.
    on_done
        Called with an item once its task is done.
    """
    # Keys differ from run to run: a cluster must not take a result of another corpus for this one's.
    run = f"{name}-{os.getpid()}-{next(_run_numbers)}"
    if client is None and at_a_time is None:
        at_a_time = n_cpus()
    of_key: dict[Any, Item] = {}
    totals: list[Delayed] = []  # of the first item, the first two, ...
    for i, item in enumerate(items):
        # partial: Dask looks for its own collections inside arguments, and there are none to find
        call = dask.delayed(partial(_after, function, item), pure=False)
        wait = [totals[i - at_a_time]] if at_a_time is not None and i >= at_a_time else []
        task = call(*(dask.delayed(_nothing, pure=False)(total) for total in wait), dask_key_name=(run, i))
        of_key[task.key] = item
        totals.append(task if not totals else dask.delayed(merge, pure=False)(totals[-1], task))
    result: Result
    if client is not None:
        result = client.compute(totals[-1], optimize_graph=False).result()
        if on_done is not None:
            for item in items:
                on_done(item)
        return result

    def posttask(key: Any, *_: Any) -> None:
        if on_done is not None and key in of_key:
            on_done(of_key[key])

    with Callback(posttask=posttask):
        (result,) = compute_all(totals[-1:], at_a_time)
    return result


def _after(function: Callable[[Item], Result], item: Item, *_: None) -> Result:
    """`function(item)`, once what it has to wait for is done."""
    return function(item)


def _nothing(_: Any) -> None:
    """Stands for a result that is waited for but not used."""


def _calls(function: Callable[[Item], Any], items: Sequence[Item], name: str) -> list[Delayed]:
    # partial: Dask looks for its own collections inside arguments, and there are none to find
    return [
        dask.delayed(partial(function, item), pure=False)(dask_key_name=(name, i))
        for i, item in enumerate(items)
    ]
