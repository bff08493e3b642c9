"""Work on threads and clusters: one order of merging, few results alive, errors that are not lost."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st

from threepass.tasks import check_wanted, map_tasks, n_cpus, one_blas_thread, ordered_reduce

AT_A_TIME = [1, 2, 3, 50, None]


def in_brackets(one: str, other: str) -> str:
    """Tells of every merge that it is made of, and in which order."""
    return f"({one}+{other})"


def all_in_order(n: int) -> str:
    """((0+1)+2)+..."""
    return reduce(in_brackets, map(str, range(n)))


def wide_range(seed: int) -> np.ndarray:
    """Numbers of many sizes, whose sum depends on the order of adding."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(100) * 10.0 ** rng.integers(-8, 9, 100)


def sum_up(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return one + other


def add_to(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    one += other
    return one


# -- the order ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", ["first", "last", "none"])
@pytest.mark.parametrize("n", [1, 2, 3, 9])
@pytest.mark.parametrize("at_a_time", AT_A_TIME)
def test_ordered_reduce__merges_in_the_order_of_items(at_a_time: int | None, n: int, slow: str) -> None:
    slowest = {"first": 0, "last": n - 1, "none": -1}[slow]

    def work(item: int) -> str:
        if item == slowest:
            time.sleep(0.02)
        return str(item)

    result = ordered_reduce(work, in_brackets, range(n), name="order", at_a_time=at_a_time)
    assert result == all_in_order(n)


@given(
    n=st.integers(1, 12),
    at_a_time=st.one_of(st.none(), st.integers(1, 14)),
    delays=st.lists(st.sampled_from([0.0, 0.003]), min_size=12, max_size=12),
)
@settings(max_examples=25)
def test_ordered_reduce__order_does_not_depend_on_who_is_first(
    n: int, at_a_time: int | None, delays: list[float]
) -> None:
    def work(item: int) -> str:
        time.sleep(delays[item])
        return str(item)

    result = ordered_reduce(work, in_brackets, range(n), name="order", at_a_time=at_a_time)
    assert result == all_in_order(n)


@pytest.mark.parametrize("merge", [sum_up, add_to])
def test_ordered_reduce__not_a_bit_depends_on_how_many_run(merge: Any) -> None:
    expected = reduce(sum_up, map(wide_range, range(20)))
    assert (reduce(sum_up, map(wide_range, reversed(range(20)))) != expected).any()
    for at_a_time in AT_A_TIME:
        total = ordered_reduce(wide_range, merge, range(20), name="sum", at_a_time=at_a_time)
        np.testing.assert_array_equal(total, expected)


def test_ordered_reduce__one_item_is_not_merged() -> None:
    def merge(*_: Any) -> Any:
        raise AssertionError("nothing to merge")

    for at_a_time in AT_A_TIME:
        result = object()
        found = ordered_reduce(
            lambda _, result=result: result, merge, ["one"], name="one", at_a_time=at_a_time
        )
        assert found is result


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_ordered_reduce__merges_into_what_there_is(at_a_time: int | None, n: int) -> None:
    start = ["start"]
    found = ordered_reduce(
        lambda item: [item], lambda a, b: a + b, range(n), name="start", at_a_time=at_a_time, start=start
    )
    assert found == ["start", *range(n)]


def test_ordered_reduce__items_may_look_like_tasks_and_be_alike() -> None:
    items: list[Any] = [(sum, [1, 2]), "a-1", ["x", {"a": 1}], None, None]
    found = ordered_reduce(lambda item: [item], lambda a, b: a + b, items, name="odd", at_a_time=2)
    assert found == items


# -- how many -------------------------------------------------------------------------------------------


class Census:
    """Counts results that are alive, and how many there were at most."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.alive = self.most = 0

    def born(self, result: Any) -> None:
        with self.lock:
            self.alive += 1
            self.most = max(self.most, self.alive)
        weakref.finalize(result, self.died)

    def died(self) -> None:
        with self.lock:
            self.alive -= 1


class Counted:
    """A result that is seen by the census from its first moment to its last."""

    def __init__(self, census: Census, value: int) -> None:
        self.value = value
        census.born(self)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("slowest", [0, 1, 5, None])
@pytest.mark.parametrize("at_a_time", [1, 2, 4])
def test_ordered_reduce__few_results_are_alive(at_a_time: int, slowest: int | None, in_place: bool) -> None:
    """Whichever is slow: as many as run at a time, and the sum; where a merge makes a new one, that too."""
    # of three runs: a thread that has just handed over its result may hold on to it for a moment
    most = min(most_alive(at_a_time, slowest, in_place) for _ in range(3))
    assert most <= at_a_time + (1 if in_place else 2)


def most_alive(at_a_time: int, slowest: int | None, in_place: bool) -> int:
    """Results of twenty items that are there at once."""
    census = Census()

    def work(item: int) -> Counted:
        result = Counted(census, item)  # an accumulator is there as soon as work begins
        time.sleep(0.05 if item == slowest else 0.001)
        return result

    def merge(one: Counted, other: Counted) -> Counted:
        if not in_place:
            return Counted(census, one.value + other.value)
        one.value += other.value
        return one

    total = ordered_reduce(work, merge, range(20), name="census", at_a_time=at_a_time)
    assert total.value == sum(range(20))
    return census.most


def test_census__sees_results_that_pile_up() -> None:
    census = Census()
    results = [Counted(census, item) for item in range(5)]
    assert census.most == census.alive == 5
    del results
    assert (census.most, census.alive) == (5, 0)


@pytest.mark.parametrize("at_a_time", [1, 2, 4])
def test_ordered_reduce__no_more_than_so_many_are_in_work_or_waiting(at_a_time: int) -> None:
    merged = 0
    begun: list[int] = []
    lock = threading.Lock()

    def work(item: int) -> int:
        with lock:
            begun.append(item)
            # the first is merged as it is done; with it all that are begun, but for the sum itself
            assert len(begun) - merged <= at_a_time + 1
        time.sleep(0.02 if item == 0 else 0.001)
        return item

    def merge(one: int, other: int) -> int:
        nonlocal merged
        with lock:
            merged += 1
        return one + other

    assert ordered_reduce(work, merge, range(15), name="window", at_a_time=at_a_time) == sum(range(15))
    assert sorted(begun) == list(range(15))
    assert merged == 14


@pytest.mark.parametrize("at_a_time", [2, 3, None])
def test_ordered_reduce__as_many_run_at_a_time_as_are_allowed(at_a_time: int | None) -> None:
    count = n_cpus() if at_a_time is None else at_a_time
    together = threading.Barrier(count)

    def work(item: int) -> int:
        if item < count:
            together.wait(timeout=20)  # breaks unless all of them are here
        return item

    items = range(2 * count)
    assert ordered_reduce(work, int.__add__, items, name="barrier", at_a_time=at_a_time) == sum(items)


def test_ordered_reduce__one_at_a_time_is_one_after_the_other() -> None:
    running: list[int] = []
    steps: list[str] = []

    def work(item: int) -> int:
        running.append(item)
        assert running == [item]
        steps.append(f"work {item}")
        time.sleep(0.001)
        running.remove(item)
        return item

    def merge(one: int, other: int) -> int:
        steps.append(f"merge {other}")
        return one + other

    ordered_reduce(work, merge, range(4), name="single", at_a_time=1)
    assert steps == ["work 0", "work 1", "merge 1", "work 2", "merge 2", "work 3", "merge 3"]


# -- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, 3, 7])
@pytest.mark.parametrize("at_a_time", [1, 2, 50])
def test_ordered_reduce__an_error_of_a_task_is_raised(at_a_time: int, bad: int) -> None:
    def work(item: int) -> int:
        if item == bad:
            raise ZeroDivisionError(f"item {item}")
        return item

    with pytest.raises(ZeroDivisionError, match=f"^item {bad}$"):
        ordered_reduce(work, int.__add__, range(8), name="bad", at_a_time=at_a_time)


@pytest.mark.parametrize("at_a_time", [1, 2, 50])
def test_ordered_reduce__an_error_of_a_merge_is_raised(at_a_time: int) -> None:
    def merge(one: int, other: int) -> int:
        if other == 3:
            raise KeyError("merging 3")
        return one + other

    with pytest.raises(KeyError, match="merging 3"):
        ordered_reduce(int, merge, range(8), name="bad", at_a_time=at_a_time)


def test_ordered_reduce__after_an_error_no_later_item_is_begun() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 2:
            raise ZeroDivisionError
        return item

    with pytest.raises(ZeroDivisionError):
        ordered_reduce(work, int.__add__, range(50), name="bad", at_a_time=1)
    assert begun == [0, 1, 2]


def test_ordered_reduce__runs_within_another() -> None:
    def work(item: int) -> int:
        total: int = ordered_reduce(lambda i: i * item, int.__add__, range(4), name="inner", at_a_time=2)
        return total

    assert ordered_reduce(work, int.__add__, range(3), name="inner", at_a_time=2) == 6 * 3


def divide(item: int) -> float:
    return 1 / item


# -- map ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2, None])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_map_tasks__results_in_the_order_of_items(n: int, n_threads: int | None) -> None:
    def work(item: int) -> int:
        time.sleep(0.01 if item == 0 else 0)
        return item * item

    assert map_tasks(work, range(n), name="map", n_threads=n_threads) == [i * i for i in range(n)]


def test_map_tasks__an_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        map_tasks(divide, [2, 1, 0, 4], name="bad", n_threads=2)


# -- one BLAS thread ----------------------------------------------------------------------------------------


def blas_threads() -> set[int]:
    return {info["num_threads"] for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture
def _two_blas_threads() -> Iterator[None]:
    """Of which the main thread is in control, as after many a library's import."""
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("_two_blas_threads")
@pytest.mark.parametrize("where", ["main thread", "another"])
def test_one_blas_thread__in_any_thread(where: str) -> None:
    @one_blas_thread()
    def nested() -> set[int]:
        return blas_threads()

    def work() -> list[set[int]]:
        with one_blas_thread():
            return [blas_threads(), nested(), blas_threads()]

    if where == "main thread":
        assert work() == [{1}] * 3
    else:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(work).result() == [{1}] * 3
    assert blas_threads() == {2}


@pytest.mark.usefixtures("_two_blas_threads")
def test_one_blas_thread__until_the_last_is_done() -> None:
    first, second = one_blas_thread(), one_blas_thread()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(first.__enter__).result()
        second.__enter__()
        pool.submit(first.__exit__, None, None, None).result()
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
    assert blas_threads() == {2}
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        _ = 1 / 0
    assert blas_threads() == {2}


@pytest.mark.usefixtures("_two_blas_threads")
def test_one_blas_thread__many_threads_at_once() -> None:
    def work(_: int) -> set[int]:
        with one_blas_thread():
            return blas_threads()

    with ThreadPoolExecutor(8) as pool:
        assert all(found == {1} for found in pool.map(work, range(200)))
    assert blas_threads() == {2}


# -- a single item ------------------------------------------------------------------------------------------


def test_tasks__a_single_item_needs_no_other_thread() -> None:
    here = threading.get_ident()
    assert map_tasks(lambda _: threading.get_ident(), ["one"], name="one") == [here]
    assert map_tasks(lambda _: threading.get_ident(), [], name="none") == []
    found = ordered_reduce(
        lambda _: [threading.get_ident()], lambda a, b: a + b, ["one"], name="one", start=[0]
    )
    assert found == [0, here]


# -- what is given up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["map_tasks", "ordered_reduce"])
def test_interrupt__drops_tasks_and_ends_running_ones(how: str) -> None:
    started, ended = [], []

    def work(item: int) -> int:
        started.append(item)
        if len(started) == 1:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            for _ in range(1000):
                check_wanted()
                time.sleep(0.01)
        finally:
            ended.append(item)
        return item

    run: Any = partial(map_tasks, work, n_threads=2)
    if how == "ordered_reduce":
        run = partial(ordered_reduce, work, lambda a, b: a + b, at_a_time=2)
    with pytest.raises(KeyboardInterrupt):
        run(range(50), name="interrupted")
    assert len(started) <= 2
    assert sorted(ended) == sorted(started)  # before the exception is raised: nothing is done behind its back
    assert map_tasks(lambda item: item, range(3), name="again", n_threads=2) == [0, 1, 2]


def test_interrupt__a_task_that_does_not_look_is_not_waited_for() -> None:
    release = threading.Event()

    def work(_: int) -> None:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        release.wait(60)

    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            map_tasks(work, range(1), name="deaf", n_threads=1)
        assert time.monotonic() - begun < 30
    finally:
        release.set()


def test_error__ends_the_other_tasks() -> None:
    ended = threading.Event()

    def work(item: int) -> None:
        if item == 0:
            raise ValueError("the first")
        try:
            while True:
                check_wanted()
                time.sleep(0.01)
        finally:
            ended.set()

    with pytest.raises(ValueError, match="the first"):
        map_tasks(work, range(2), name="failing", n_threads=2)
    assert ended.wait(10)
