"""Tasks on the workers of a Dask cluster, through the loss of any of them.

Dask itself runs a task again when its worker is gone, and gives up after a few times. Here it is handed in
again even then; a task that nothing is heard of for long gets its worker restarted; and a cluster that stays
without workers is told of instead of waited for without end.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from ...errors import ThreepassError

Item = TypeVar("Item")

STUCK_SECONDS = 120.0
"""A task that has begun and is silent for so long hangs. The very first ones compile, which takes a while."""
NO_WORKER_SECONDS = 120.0
REVIVE_SECONDS = 8.0
"""Who restarts a worker gives up when it is killed while it starts: after so long, new ones are asked for."""
MOST_LOSSES = 12
"""Workers that a single task may lose beyond what Dask allows, before it is taken to be its fault."""
_POLL_SECONDS = 1.0

_run_numbers = count()


def news_to(topic: str) -> tuple[Callable[[int, int], None], str]:
    """For use in a task: tells the client that so much of an item is done; and this worker's address."""
    from distributed import get_worker

    worker = get_worker()
    return lambda number, done: worker.log_event(topic, (number, done)), str(worker.address)


def cluster_results(
    client: Any,
    function: Callable[[Item, str], Any],
    items: Sequence[Item],
    *,
    name: str,
    number_of: Callable[[Item], int],
    on_news: Callable[[int, int], None],
) -> Iterator[tuple[Item, Any]]:
    """Every item and `function(item, topic)` of it, as they are done, in any order.

    Parameters
    ----------
    client
        A `distributed.Client`.
    function
        May run several times for an item, even at once. It should tell news of it, see `news_to`.
    name
        Task keys start with it, so that a dashboard shows it.
    number_of
        The number by which news tell of an item.
    on_news
        Told this number, and how much of the item is done.
    """
    tasks = _Tasks(client, function, name, on_news, {number_of(item): item for item in items})
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
    ) -> None:
        # Keys differ from run to run: a cluster must not take a result of another corpus for this one's.
        self._run = f"{name}-{os.getpid()}-{next(_run_numbers)}"
        self._topic = f"threepass-{self._run}"
        self._client, self._function, self._items, self._on_news = client, function, items, on_news
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
            # as current: there may be other clients, and `wait` would ask the latest
            with suppress(TimeoutError, CancelledError), self._client.as_current():
                wait(list(self._numbers), timeout=_POLL_SECONDS, return_when="FIRST_COMPLETED")
            for future in [future for future in self._numbers if future.status != "pending"]:
                number = self._numbers.pop(future, None)
                if number is None:
                    continue  # a twin was faster
                if future.status == "finished":
                    try:
                        result = future.result(timeout=_POLL_SECONDS)
                    except (TimeoutError, CancelledError):  # it was lost with its worker, just now
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
        """An item is done: so is whatever else was to do it."""
        self._heard.pop(number, None)
        twins = [future for future, of in self._numbers.items() if of == number]
        for twin in twins:
            del self._numbers[twin]
        if twins:
            self._client.cancel(twins, force=True)

    def _try_again(self, number: int, future: Any) -> None:
        from distributed import KilledWorker

        error = future.exception() if future.status == "error" else None
        if error is not None and not isinstance(error, KilledWorker):
            future.result()  # raises, with what happened on the worker
        if self._attempts[number] > MOST_LOSSES:
            raise ThreepassError(
                f"Segment {number} of '{self._run.split('-')[0]}' has lost its worker again and again "
                f"({self._attempts[number]} attempts). A worker that ends by itself mostly has too little "
                "memory. Give workers more of it (--worker-memory), fewer threads each, or a memory_limit."
            ) from error
        self._heard.pop(number, None)
        self._submit(number)

    def _hear(self, event: tuple[float, tuple[int, int]]) -> None:
        number, done = event[1]
        self._heard[number] = time.monotonic()
        self._on_news(number, done)

    def _look_after(self) -> None:
        """Restart workers that hang; and do not wait for ever where there are none."""
        now = time.monotonic()
        if self._client.nthreads():
            self._had_workers = self._revived = now
        elif now - self._revived > REVIVE_SECONDS and self._client.cluster is not None:
            self._revived = now
            self._revive()
        elif now - self._had_workers > NO_WORKER_SECONDS:
            raise ThreepassError(
                f"The cluster has been without workers for {NO_WORKER_SECONDS:.0f} s. "
                "Start some, and run the same command again: it goes on where it was."
            )
        silent = [number for number, when in list(self._heard.items()) if now - when > STUCK_SECONDS]
        for number in silent:
            self._heard.pop(number, None)
            self._restart_workers_of(number)

    def _revive(self) -> None:
        """Have a cluster of our own start its workers anew."""
        cluster = self._client.cluster
        wanted = len(cluster.worker_spec)
        with suppress(Exception):  # it is tried again, or told of
            cluster.scale(0)
            cluster.scale(wanted)

    def _restart_workers_of(self, number: int) -> None:
        keys = {future.key for future, of in self._numbers.items() if of == number}
        workers = [
            address for address, processing in self._client.processing().items() if keys & set(processing)
        ]
        try:
            self._client.restart_workers(workers, timeout=30, raise_for_error=False)
        except (ValueError, TimeoutError):  # nobody is there to restart it: let another one do its work
            self._submit(number)
