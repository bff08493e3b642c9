"""The task of a segment: every block once, in order, read while the one before is worked on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.passes.conftest import assert_identical, every_pass
from tests.rows import block_of, ugly_matrices
from threepass.corpus.store import Block
from threepass.passes.cost import Needs, Size
from threepass.passes.segments import Segment
from threepass.passes.stream import ReadAhead, Stream
from threepass.passes.sums import Sums
from threepass.passes.work import Pass


class Shelf:
    """A corpus of empty blocks that remembers which were read, and has one that cannot be."""

    def __init__(self, unreadable: int | None = None) -> None:
        self.read: list[int] = []
        self.held: list[Any] = []
        self.error = OSError("block cannot be read")
        self.unreadable = unreadable
        self.begun = {number: threading.Event() for number in range(10)}

    def block(self, number: int, held: Any = None) -> Block:
        self.read.append(number)
        self.held.append(held)
        self.begun[number].set()
        if number == self.unreadable:
            raise self.error
        return block_of(np.zeros((0, 2)), np.zeros((0, 2)), number=number)


@dataclass
class Numbers(Sums):
    numbers: list[int] = field(default_factory=list)

    def settle(self) -> None:
        """Nothing waits."""


@dataclass(frozen=True)
class Remember(Pass[Numbers]):
    """A pass that sums up block numbers in their order, and does something with each."""

    use: Callable[[int], None] = lambda number: None
    name = "remember"

    def needs(self, size: Size) -> Needs:
        return Needs()

    def zero(self) -> Numbers:
        return Numbers()

    def add(self, sums: Numbers, block: Block) -> None:
        self.use(block.number)
        sums.numbers.append(block.number)


def streamed(shelf: Shelf, blocks: range, held: Any = None, **options: Any) -> list[int]:
    segment = Segment(0, blocks, 0)
    with ReadAhead(shelf, held or {}, [segment], 1) as reads:  # type: ignore[arg-type]
        return Stream(Remember(**options), reads)(segment).numbers


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("blocks", [range(1), range(7), range(3, 8), range(4, 5)], ids=str)
def test_stream__every_block_once_and_in_order(blocks: range) -> None:
    shelf = Shelf()
    assert streamed(shelf, blocks) == list(blocks)
    assert shelf.read == list(blocks)


def test_stream__the_next_block_is_read_while_one_is_worked_on_and_no_other() -> None:
    shelf = Shelf()

    def use(number: int) -> None:
        if number < 5:
            assert shelf.begun[number + 1].wait(timeout=20)
        time.sleep(0.005)
        assert max(shelf.read) <= number + 1

    assert streamed(shelf, range(6), use=use) == list(range(6))


def test_stream__words_that_are_held_are_handed_on() -> None:
    shelf = Shelf()
    streamed(shelf, range(5), held={1: "one", 4: "four", 7: "seven"})
    assert shelf.held == [None, "one", None, None, "four"]


@pytest.mark.parametrize("unreadable", [0, 1, 3, 5])
def test_stream__a_block_that_cannot_be_read_is_told_once(unreadable: int) -> None:
    shelf, used = Shelf(unreadable), []
    with pytest.raises(OSError, match=r"^block cannot be read$") as caught:
        streamed(shelf, range(6), use=used.append)
    # the very error, with nothing said of another one before it
    assert caught.value is shelf.error
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert not hasattr(caught.value, "__notes__")
    assert used == list(range(unreadable))
    assert shelf.read == list(range(unreadable + 1))


@pytest.mark.parametrize("unreadable", [None, 4])
def test_stream__an_error_in_the_work_leaves_no_thread(unreadable: int | None) -> None:
    """Not even when the block after it cannot be read, either."""
    shelf = Shelf(unreadable)

    def use(number: int) -> None:
        if number == 3:
            raise ZeroDivisionError("block 3")

    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError, match="block 3") as caught:
        streamed(shelf, range(8), use=use)
    assert set(threading.enumerate()) <= before  # while the error, and all that it refers to, is still there
    assert caught.value.__context__ is None
    assert max(shelf.read) <= 4


def test_stream__sums_are_those_of_blocks_read_one_by_one() -> None:
    """Taken from the last pass to the first in every other segment; documents are counted on the way."""
    X, Y = ugly_matrices(40, 7, 3)
    blocks = [block_of(X[i : i + 10], Y[i : i + 10], i, i // 10) for i in range(0, 40, 10)]
    shelf: Any = type("Blocks", (), {"block": lambda _, number, held: blocks[number]})()
    for work in (given.work for given in every_pass(7, 3).values()):
        expected = work.zero()
        for block in blocks[1:]:
            work.add(expected, block)
        expected.settle()
        segment = Segment(1, range(1, 4), 30)
        done: list[int] = []
        with ReadAhead(shelf, {}, [segment], 1) as reads:
            stream = Stream(work, reads, advance=lambda _, n, done=done: done.append(n))
            assert_identical(stream(segment), expected)
        assert done == [10, 20, 30]


@pytest.mark.parametrize("n_tasks", [1, 2, 3])
def test_read_ahead__the_first_block_of_a_task_s_next_segment_too(n_tasks: int) -> None:
    shelf = Shelf()
    cut = [Segment(i, range(i, i + 1), 1) for i in range(6)]
    with ReadAhead(shelf, {}, cut, n_tasks) as reads:  # type: ignore[arg-type]
        for segment in cut:
            for _ in reads.blocks(segment):
                if segment.number + n_tasks < len(cut):
                    assert shelf.begun[segment.number + n_tasks].wait(timeout=20)
    assert sorted(shelf.read) == list(range(6))  # each of them once
