"""The one place where work is handed to Dask's local threads; `cluster_tasks` hands it to workers.

Tasks are the unit of parallelism. Linear algebra inside and between them runs on one BLAS thread: several
would wait for each other at every step, and beside another busy process that takes up to thirty times as long
as the steps.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dask.delayed import Delayed

Item = TypeVar("Item")
Result = TypeVar("Result")

_run_numbers = count()
_trim, _mallopt = (getattr(ctypes.CDLL(None), name, None) for name in ("malloc_trim", "mallopt"))  # glibc
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of its settings
_GRACE_SECONDS = 0.5
"""How long work that is given up waits for its running tasks, so that they write nothing behind its back."""
_here = threading.local()


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


class _BlasLimit:
    """One BLAS thread for as long as anybody asks for it, in whatever thread."""

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._before: dict[str, tuple[Any, int]] = {}

    def take(self) -> None:
        with self._lock:
            # scipy brings one of its own, and may be imported while another task is at it
            for library in _blas_libraries("scipy.linalg" in sys.modules):
                if library.filepath not in self._before:
                    self._before[library.filepath] = library, library.num_threads
                    _set_threads(library, 1)
            self._users += 1

    def give_back(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for library, number in self._before.values():
                    _set_threads(library, number)
                self._before.clear()


_blas_limit = _BlasLimit()


@cache
def _blas_libraries(with_scipy: bool) -> list[Any]:
    """Those that are loaded, once scipy's is or before. To look for them takes as long as to label a text."""
    import numpy as np  # noqa: F401  its BLAS has to be there to be found
    import threadpoolctl

    found = threadpoolctl.ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == "blas"]


def _set_threads(library: Any, number: int) -> None:
    """Set a library's threads, which the whole process shares.

    Newer versions of threadpoolctl let the first thread that asks have its way, and ignore all others until
    it is cleared.
    """
    clear = getattr(library, "clear_controlling_thread", lambda **_: None)
    clear(force=True)
    library.set_num_threads(number)
    clear(force=True)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread inside, for the whole process; may be nested, and used in many threads at a time."""
    _blas_limit.take()
    try:
        yield
    finally:
        _blas_limit.give_back()


def map_tasks(
    function: Callable[[Item], Result], items: Sequence[Item], *, name: str, n_threads: int | None = None
) -> list[Result]:
    """`[function(item) for item in items]`, each call a Dask task named `name`, on local threads.

    The first exception of any task is raised here, and so is KeyboardInterrupt; tasks not yet started are
    dropped, and running ones end where they call `check_wanted`. A single item is no matter for threads.
    """
    if len(items) <= 1:
        return [function(item) for item in items]
    import dask  # for more than one alone: it takes longer to import than a text to label

    run = _Run()
    # partial: Dask looks for its own collections inside arguments, and there are none to find
    calls = [
        dask.delayed(partial(run.call, function, item), pure=False)(dask_key_name=(name, i))
        for i, item in enumerate(items)
    ]
    return run.compute(calls, n_threads)


class GivenUpError(Exception):
    """Ends a task whose result nobody waits for any more."""


def check_wanted() -> None:
    """End the task that this thread is at when its run was given up. Long tasks call it now and then."""
    run = getattr(_here, "run", None)
    if run is not None and run.given_up:
        raise GivenUpError


class _Run:
    """The tasks of one call of `map_tasks` or `ordered_reduce`."""

    def __init__(self) -> None:
        self.given_up = False
        self._n_running = 0
        self._changed = threading.Condition()

    def call(self, function: Callable[[Item], Result], item: Item, *_: None) -> Result:
        """`function(item)`, as a task; after whatever else it is given, which it only waits for."""
        with self._changed:
            if self.given_up:
                raise GivenUpError
            self._n_running += 1
        outer, _here.run = getattr(_here, "run", None), self
        try:
            return function(item)
        finally:
            _here.run = outer
            with self._changed:
                self._n_running -= 1
                self._changed.notify_all()

    def compute(self, tasks: Sequence[Delayed], n_threads: int | None) -> list[Any]:
        try:
            return compute_all(tasks, n_threads)
        except BaseException:
            with self._changed:
                self.given_up = True
                self._changed.wait_for(lambda: self._n_running == 0, _GRACE_SECONDS)
            raise


def compute_all(tasks: Sequence[Delayed], n_threads: int | None = None) -> list[Any]:
    """The results of delayed calls, on local threads, whatever client is the default."""
    import dask
    import dask.threaded

    # the function itself: to look it up by its name, Dask would load all of its distributed scheduler
    return list(dask.compute(*tasks, scheduler=dask.threaded.get, num_workers=n_threads or n_cpus()))


def ordered_reduce(
    function: Callable[[Item], Any],
    merge: Callable[[Any, Any], Any],
    items: Sequence[Item],
    *,
    name: str,
    at_a_time: int | None = None,
    start: Any = None,
) -> Any:
    """Merge `function(item)` of all items, one after the other in their order, as they are done.

    The result does not depend on how many run at a time, for the order of merging does not.

    Parameters
    ----------
    merge
        May add its second argument to its first in place: no result is used twice.
    name
        Task keys start with it.
    at_a_time
        Items in work or waiting to be merged, so that no more than one result more is ever held; as many as
        there are processors when None.
    start
        What the first result is merged into; when None, the first result is where merging starts.
    """
    if len(items) == 1:
        result = function(items[0])
        return result if start is None else merge(start, result)
    import dask

    run, prefix = _Run(), f"{name}-{next(_run_numbers)}"
    at_a_time = at_a_time or n_cpus()
    totals: list[Delayed] = []  # of the first item, the first two, ...
    for i, item in enumerate(items):
        # partial: Dask looks for its own collections inside arguments, and there are none to find
        call = dask.delayed(partial(run.call, function, item), pure=False)
        wait = [totals[i - at_a_time]] if i >= at_a_time else []
        task = call(*(dask.delayed(_nothing, pure=False)(total) for total in wait), dask_key_name=(prefix, i))
        if totals:
            total = dask.delayed(merge, pure=False)(totals[-1], task)
        else:
            total = task if start is None else dask.delayed(partial(merge, start), pure=False)(task)
        totals.append(total)
    (result,) = run.compute(totals[-1:], at_a_time)
    return result


def _nothing(_: Any) -> None:
    """Stands for a result that is waited for but not used."""
