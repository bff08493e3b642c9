"""The stages of long work: one list that a planner prices and a fit walks.

A stage works on objects that outlive it and hand on what they hold. `run` does it; `pretend` leaves behind
what `run` would, as arrays that have a shape and no memory. So the same list, walked with `pretend`, tells
what is held at any moment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..corpus.store import Block, Corpus
from . import kernels
from .cost import Cost, Size, corpus_size
from .segments import segments
from .stream import HeldWords
from .work import JointPass, Pass, array_bytes, hollow

if TYPE_CHECKING:
    from .runner import Runner


@dataclass(frozen=True, slots=True)
class Layout:
    """Way of running a fit, which a planner varies to stay below a limit."""

    at_a_time: int
    """Tasks at a time; this alone depends on the machine."""
    oversampling: int
    """Columns of a sketch beyond K."""
    parts_bytes: int
    """Bytes that the parts of the score may take."""
    accumulators_bytes: int
    """Bytes that the sums of all segments may take together; decides the number of segments."""
    spill: bool = False
    """Whether sums lie in mapped files."""
    memory_limit: int | None = None

    def in_memory(self, sums_bytes: int) -> int:
        """Bytes of sums that count: none where they lie in files."""
        return 0 if self.spill else sums_bytes


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a stage: bytes at its worst moment, and the least work that it has to do."""

    name: str
    held: int
    """Inputs, results of earlier stages, and what is made of them."""
    sums: int = 0
    """Sums of all segments that are merged."""
    segments: int = 0
    """Sums of those that are worked on at a time."""
    working: int = 0
    """Blocks and slabs of the tasks that run at a time."""
    cost: Cost = field(default_factory=Cost)

    @property
    def nbytes(self) -> int:
        """All of it, without what any process takes."""
        return self.held + self.sums + self.segments + self.working

    def as_dict(self) -> dict[str, Any]:
        return {
            "stage": self.name,
            "held_bytes": self.held,
            "accumulator_bytes": self.sums,
            "segments_bytes": self.segments,
            "working_bytes": self.working,
            "flops": self.cost.flops,
            "gathered_bytes": self.cost.gathered,
        }


class Stage(ABC):
    """One step of a fit."""

    name: str

    @abstractmethod
    def run(self, runner: Runner) -> None:
        """Do it."""

    @abstractmethod
    def pretend(self, layout: Layout) -> None:
        """Leave behind what `run` would, without memory."""

    @abstractmethod
    def price(self, layout: Layout, held: int) -> Price:
        """Price the stage, from shapes alone.

        Parameters
        ----------
        held
            Bytes of all that earlier stages have left.
        """


class Gatherer(ABC):
    """Base of everything that sums while the corpus is read, and works between the reads."""

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        """Passes of the read of this number, from 1 on; none in most reads."""
        del read
        return ()

    def take(self, read: int, sums: Sequence[Any]) -> None:
        """Keep the sums that its passes have made; hollow arrays of their size when pretending."""

    def give_back(self, held_out: Block) -> None:
        """Add documents that were held out to the sums that it keeps."""

    @abstractmethod
    def held(self) -> Sequence[Any]:
        """Everything with arrays that it holds: arrays, and dataclasses of them."""


class Read(Stage):
    """One read of the corpus, for all that gather from it."""

    def __init__(self, number: int, name: str, corpus: Corpus, gatherers: Sequence[Gatherer]) -> None:
        self.number, self.name = number, name
        self._corpus, self._gatherers = corpus, gatherers
        self.held: HeldWords = {}
        """Words of blocks that are in memory already; they are let go as they are read."""
        self.held_bytes = 0
        """Bytes of these, for the plan."""

    def run(self, runner: Runner) -> None:
        works = self._works()
        held, self.held = self.held, {}  # a read that goes on from an earlier run does not need all of them
        sums = runner.read([work for _, own in works for work in own], self._corpus, held, self.name)
        self._hand_out(works, sums)

    def pretend(self, layout: Layout) -> None:
        works = self._works()
        sizes = [work.needs(_NOTHING).sums for _, own in works for work in own]
        self._hand_out(works, [hollow(layout.in_memory(nbytes), dtype=np.uint8) for nbytes in sizes])

    def price(self, layout: Layout, held: int) -> Price:
        corpus, work = self._corpus, JointPass(tuple(work for _, own in self._works() for work in own))
        cut = segments(corpus, work.needs(_NOTHING).segment, layout.accumulators_bytes)
        running = min(layout.at_a_time, len(cut))
        blocks = corpus.info.blocks
        value = {"ones": 0, "uint8": 1, "uint16": 2}.get(corpus.info.values, 4)
        # one block is read while another is worked on; documents that are not held out, and their weights
        block = max((3 * (4 + value) + 8) * b.x_nnz + 40 * b.n_docs + 8 * b.y_nnz for b in blocks)
        most_docs = max(b.n_docs for b in blocks)
        most_words = max(sum(blocks[i].x_nnz for i in segment.blocks) for segment in cut)
        largest = work.needs(Size(max(segment.n_docs for segment in cut), most_words, 0))
        made = kernels.SLAB * largest.slab_document + most_docs * largest.block_document
        # a single segment's sums are those of the whole, but for what waits to be added to them
        in_work = running * largest.segment if len(cut) > 1 else max(0, largest.segment - largest.sums)
        return Price(
            self.name,
            held + self._more_than_held(work) + self.held_bytes,
            layout.in_memory(largest.sums),
            in_work,
            running * (block + made),
            work.needs(corpus_size(corpus)).cost,
        )

    def _more_than_held(self, work: Pass[Any]) -> int:
        """Bytes of what the passes were made with, beyond what gatherers hold: most of it they do."""
        holdings = [part for gatherer in self._gatherers for part in gatherer.held()]
        return array_bytes([*holdings, work]) - array_bytes(holdings)

    def _works(self) -> list[tuple[Gatherer, Sequence[Pass[Any]]]]:
        return [(gatherer, gatherer.passes(self.number)) for gatherer in self._gatherers]

    def _hand_out(self, works: list[tuple[Gatherer, Sequence[Pass[Any]]]], sums: Sequence[Any]) -> None:
        rest = iter(sums)
        for gatherer, own in works:
            if own:
                gatherer.take(self.number, [next(rest) for _ in own])


_NOTHING = Size(0, 0, 0)
