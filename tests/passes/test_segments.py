"""How a corpus is cut into segments: completely, as its sums allow, and to keep any number of tasks busy."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threepass.passes import segments as module
from threepass.passes.segments import ACCUMULATORS_BYTES, MAX_SEGMENTS, TASK_COUNTS, Segment, segments


class Blocks:
    """What `segments` asks of a corpus."""

    def __init__(self, block_rows: list[int]) -> None:
        self.block_rows = np.array(block_rows)
        self.n_blocks = len(block_rows)


def cut_into(block_rows: list[int], affordable: int) -> list[Segment]:
    return segments(Blocks(block_rows), 1, affordable)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=100), st.integers(0, 10**10))
def test_segments__cover_every_block_once_in_order(block_rows: list[int], segment_bytes: int) -> None:
    cut = segments(Blocks(block_rows), segment_bytes)  # type: ignore[arg-type]
    assert [number for segment in cut for number in segment.blocks] == list(range(len(block_rows)))
    assert [segment.number for segment in cut] == list(range(len(cut)))
    assert [segment.n_docs for segment in cut] == [sum(block_rows[b] for b in s.blocks) for s in cut]
    assert all(len(segment.blocks) > 0 for segment in cut)
    assert len(cut) <= min(len(block_rows), MAX_SEGMENTS)
    assert len(cut) <= 2 or len(cut) * segment_bytes <= ACCUMULATORS_BYTES


@pytest.mark.parametrize(
    ("n_blocks", "affordable", "count"),
    [(384, 128, 128), (320, 0, 1), (320, 1, 2), (320, 5, 4), (320, 32, 32), (7, 10**9, 7)],
)
def test_segments__as_many_as_may_be_spent_on_and_keep_tasks_busy(
    n_blocks: int, affordable: int, count: int
) -> None:
    cut = cut_into([10] * n_blocks, affordable)
    assert [segment.n_docs for segment in cut] == [10 * n_blocks // count] * count


# -- how long tasks take --------------------------------------------------------------------------------


def naive_duration(lengths: list[int], n_tasks: int) -> int:
    """Step by step: tasks with a segment or none each, and what is merged so far."""
    working: dict[int, int] = {}  # segment -> steps left
    done: set[int] = set()
    begun = steps = 0
    while len(done) < len(lengths):
        merged = next(i for i in range(len(lengths) + 1) if i not in done)
        while len(working) < n_tasks and begun < len(lengths) and begun - n_tasks < merged:
            working[begun] = lengths[begun]
            begun += 1
        for segment in working:
            working[segment] -= 1
        done |= {segment for segment, left in working.items() if left == 0}
        working = {segment: left for segment, left in working.items() if left}
        steps += 1
    return steps


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(st.lists(st.integers(1, 6), min_size=n, max_size=n), min_size=1, max_size=3)
    ),
    st.sampled_from([1, 2, 3, 4, 8, 16]),
)
def test_durations__equal_a_simulation(lengths: list[list[int]], n_tasks: int) -> None:
    expected = [naive_duration(row, n_tasks) for row in lengths]
    assert module._durations(np.array(lengths), n_tasks).tolist() == expected


def ratios(cut: list[Segment], largest: int, affordable: int) -> list[float]:
    """How many times as long as they had to the segments take, for each number of tasks."""
    lengths = np.array([[segment.n_docs for segment in cut]])
    counts = [count for count in TASK_COUNTS if count <= affordable]
    total = lengths.sum()
    return [int(module._durations(lengths, n)[0]) / max(total / n, largest) for n in counts]


@given(st.lists(st.integers(1, 9), min_size=2, max_size=30), st.integers(2, 20))
def test_segments__are_no_worse_than_even_ones(block_rows: list[int], affordable: int) -> None:
    most = min(affordable, len(block_rows))
    ends = np.cumsum([0, *block_rows])
    counts = [count for count in TASK_COUNTS if count <= most]
    found = np.array([0, *(segment.blocks.stop for segment in cut_into(block_rows, affordable))])
    cuts = [found, *(module._even(ends, count) for count in range(most, most // 2, -1))]
    costs = module._costs(module._lengths(ends, cuts), ends, counts)
    assert costs[0] <= module._AS_GOOD * costs.min()


@pytest.mark.parametrize("n_blocks", [12, 26, 28, 100, 128, 500])
def test_segments__keep_tasks_busy(n_blocks: int) -> None:
    for affordable in (2, 3, 4, 5, 7, 8, 12, 16, 20, 40, 64, 128):
        most = min(affordable, n_blocks)
        cut = cut_into([10] * n_blocks, affordable)
        assert most / 2 < len(cut) <= most
        found = ratios(cut, 10, most)
        assert found[0] <= 1 + 2 / n_blocks + 0.02  # two tasks: a block, which is not cut
        whole = [np.ceil(n_blocks / n) / (n_blocks / n) for n in TASK_COUNTS if n <= most]
        assert max(found) <= 1.3 * max(whole)


def test_segments__of_a_view_without_documents() -> None:
    cut = cut_into([0] * 9, 8)
    assert [segment.n_docs for segment in cut] == [0] * len(cut)
    assert cut[-1].blocks.stop == 9


@pytest.mark.parametrize("affordable", [64, 128])
def test_segments__are_found_quickly(affordable: int) -> None:
    rng = np.random.default_rng(0)
    seconds = []
    for _ in range(5):
        block_rows = rng.integers(600, 1400, 1000).tolist()
        started = time.thread_time()
        cut_into(block_rows, affordable)
        seconds.append(time.thread_time() - started)
    assert min(seconds) < 0.05
