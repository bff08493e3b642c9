"""Tasks on the workers of a Dask cluster; they survive the loss of any worker.

Dask repeats a task whose worker is lost, and gives up after a few losses. This module goes further: it
submits the task again even then, restarts the worker of a task that has long been silent, requests new
workers where none are left, and raises an error where none come.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from ...errors import ThreepassError

Item = TypeVar("Item")

_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits on waiting for workers, in seconds where nothing else is said."""

    silent_task: float = 120.0
    """Without news of a running task, before its worker is restarted. The first tasks compile for long."""
    silent_worker: float = 30.0
    """Without a heartbeat of a worker, before the scheduler gives it up. Dask takes 5 at the least."""
    restart: float = 30.0
    """For a worker to restart."""
    revival: float = 8.0
    """Without any worker, before replacements are requested. Dask restarts lost workers sooner if it can."""
    no_workers: float = 120.0
    """Without any worker, before the run ends with an error."""
    losses: int = 12
    """Attempts at one task after the first, each of which lost as many workers as Dask allows."""


_run_numbers = count()


def news_to(topic: str) -> tuple[Callable[[int, int], None], str]:
    """Within a task: a function that tells the client how much of an item is done; the worker's address."""
    from distributed import get_worker

    worker = get_worker()
    return lambda number, done: worker.log_event(topic, (number, done)), str(worker.address)


def cluster_results(
    client: Any,
    function: Callable[[Item, str], Any],
    items: Mapping[int, Item],
    *,
    name: str,
    on_news: Callable[[int, int], None],
    patience: Patience = Patience(),
) -> Iterator[tuple[Item, Any]]:
    """Yield every item with its `function(item, topic)`, in the order in which they finish.

    Parameters
    ----------
    client
        A `distributed.Client`.
    function
        May run several times for an item, even at once. It should report progress, see `news_to`.
    name
        Start of the task keys, which a dashboard shows.
    items
        By the numbers by which `function` reports.
    on_news
        Called with such a number and how much of the item is done.
    patience
        Limits on waiting for workers.

    Raises
    ------
    ThreepassError
        A task has lost its workers too often, or no workers are left.
    """
    tasks = _Tasks(client, function, name, on_news, dict(items), patience)
    try:
        yield from tasks.results()
    finally:
        tasks.close()


class _Tasks:
    def __init__(
        self,
        client: Any,
        function: Callable[[Item, str], Any],
        name: str,
        on_news: Callable[[int, int], None],
        items: dict[int, Item],
        patience: Patience,
    ) -> None:
        # keys differ from run to run: a cluster must not mistake the result of another corpus for this one's
        self._run = f"{name}-{os.getpid()}-{next(_run_numbers)}"
        self._topic = f"threepass-{self._run}"
        self._client, self._function, self._items = client, function, items
        self._on_news, self._patience = on_news, patience
        self._numbers: dict[Any, int] = {}  # by future
        self._attempts: Counter[int] = Counter()
        self._heard: dict[int, float] = {}
        self._had_workers = self._revived = time.monotonic()
        client.subscribe_topic(self._topic, self._hear)
        for number in items:
            self._submit(number)

    def close(self) -> None:
        self._client.unsubscribe_topic(self._topic)
        if self._numbers:
            self._client.cancel(list(self._numbers), force=True)
        self._numbers.clear()

    def results(self) -> Iterator[tuple[Any, Any]]:
        from distributed import CancelledError, wait

        while self._numbers:
            # `wait` asks the current client, which by default is the latest one
            with suppress(TimeoutError, CancelledError), self._client.as_current():
                wait(list(self._numbers), timeout=_POLL_SECONDS, return_when="FIRST_COMPLETED")
            for future in [future for future in self._numbers if future.status != "pending"]:
                number = self._numbers.pop(future, None)
                if number is None:
                    continue  # a duplicate was faster
                if future.status == "finished":
                    try:
                        result = future.result(timeout=_POLL_SECONDS)
                    except (TimeoutError, CancelledError):  # its worker was lost at this moment
                        self._numbers[future] = number
                        continue
                    self._forget(number)
                    yield self._items[number], result
                else:
                    self._try_again(number, future)
            self._look_after()

    def _submit(self, number: int) -> None:
        self._attempts[number] += 1
        future = self._client.submit(
            self._function,
            self._items[number],
            self._topic,
            key=f"{self._run}-{number}-{self._attempts[number]}",
            pure=False,
        )
        self._numbers[future] = number

    def _forget(self, number: int) -> None:
        """Cancel duplicate tasks of a finished item."""
        self._heard.pop(number, None)
        duplicates = [future for future, of in self._numbers.items() if of == number]
        for duplicate in duplicates:
            del self._numbers[duplicate]
        if duplicates:
            self._client.cancel(duplicates, force=True)

    def _try_again(self, number: int, future: Any) -> None:
        from distributed import KilledWorker

        error = future.exception() if future.status == "error" else None
        if error is not None and not isinstance(error, KilledWorker):
            future.result()  # raises the error, with the worker's traceback
        if self._attempts[number] > self._patience.losses:
            raise ThreepassError(
                f"Segment {number} of '{self._run.split('-')[0]}' has lost its worker again and again "
                f"({self._attempts[number]} attempts). Workers that die mostly have too little memory. "
                "Give them more (--worker-memory), fewer threads each, or a memory_limit."
            ) from error
        self._heard.pop(number, None)
        self._submit(number)

    def _hear(self, event: tuple[float, tuple[int, int]]) -> None:
        number, done = event[1]
        self._heard[number] = time.monotonic()
        self._on_news(number, done)

    def _look_after(self) -> None:
        """Restart workers that hang; replace workers where none are left, or give up."""
        now = time.monotonic()
        patience = self._patience
        if self._client.nthreads():
            self._had_workers = self._revived = now
        elif now - self._had_workers > patience.no_workers:
            raise ThreepassError(
                f"The cluster has been without workers for {patience.no_workers:g} s. "
                "Start some, and run the same command again: it resumes where it stopped."
            )
        elif now - self._revived > patience.revival and self._client.cluster is not None:
            self._revive()
            self._revived = time.monotonic()
        silent = [number for number, when in list(self._heard.items()) if now - when > patience.silent_task]
        for number in silent:
            self._heard.pop(number, None)
            self._restart_workers_of(number)

    def _revive(self) -> None:
        """Let a cluster of this process start its workers anew."""
        cluster = self._client.cluster

        async def start_anew() -> None:
            wanted = len(cluster.worker_spec)
            for number in (0, wanted):
                cluster.scale(number)
                await cluster  # else both at once, which changes nothing where workers keep their names

        with suppress(Exception):  # there will be another attempt, or an error
            cluster.sync(start_anew, callback_timeout=self._patience.restart)

    def _restart_workers_of(self, number: int) -> None:
        keys = {future.key for future, of in self._numbers.items() if of == number}
        workers = [
            address for address, processing in self._client.processing().items() if keys & set(processing)
        ]
        try:
            self._client.restart_workers(workers, timeout=self._patience.restart, raise_for_error=False)
        except (ValueError, TimeoutError):  # it cannot be restarted: another worker does its work
            self._submit(number)
