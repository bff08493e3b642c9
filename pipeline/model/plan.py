"""What a fit will take, in bytes, before anything is read; and what is given up when that is too much.

Every stage is described by the passes it runs, made of arrays that have a shape and no memory: so each pass
itself says what its sums and inputs take. To stay below a limit, fewer tasks run at a time, which leaves the
model as it is; then sketch and features get narrower; at last sums lie in mapped files, which is slow. What
changes the model depends on the corpus and the limit alone, never on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..corpus.store import Corpus
from ..errors import InputError
from ..moments.labels import Directions, Labels, label_bytes
from ..moments.pairs import Pairs, Sketch
from ..moments.sample import PANEL, SHARE, sampled_blocks
from ..moments.triples import Triples
from ..moments.words import WordView
from ..parts.cross import MOST_ENTRIES, Cross
from ..parts.features import Features
from ..parts.held_out import HoldOut
from ..parts.responsibilities import Responsibilities
from ..parts.sizes import HEAD_BYTES, HeadSizes, head_sizes
from ..parts.weighting import Weighting
from ..passes import kernels
from ..passes.cost import Cost, Size, corpus_size
from ..passes.runner import Pass, Together
from ..passes.segments import ACCUMULATORS_BYTES, segments
from ..passes.stream import arrays_of
from ..storage.guard import CHUNK
from ..tasks import n_cpus
from ..types import Array

EXACT_TERMS = 4096
"""Widest corpus whose word pairs are held whole: 134 MB of M2 in double precision."""
OVERSAMPLING = 100
BASE_BYTES = 470_000_000
"""Interpreter, libraries and kernels, the first time with their compiler."""
_CHOICE_BYTES = 100_000_000
"""At the most, scores that one thread holds while choices are made, or the shortlists they are made on."""
SLOWER_THAN_LIMIT = 1.5
"""How many times as long stages take as their cost at the machine's own rates, by experience."""
_ENTRY_BYTES = 50
"""Of the cross moment, with all copies of it that are ever held."""
_NAME_BYTES = 80
"""A short text in a list."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be learned, as far as it decides what that takes."""

    n_components: int = 100
    whitening: Literal["auto", "exact", "sketch"] = "auto"
    view: WordView = field(default_factory=WordView)
    error_bars: bool = True
    has_ridge: bool = False
    has_refined: bool = False
    refine_passes: int = 0
    head_dim: int | None = None

    def topic_count(self, n_terms: int, n_docs: int) -> int:
        """Topics that there can be at most: as many as the rank of the word pairs."""
        return min(self.n_components, n_terms, n_docs)

    def is_exact(self, n_terms: int) -> bool:
        return self.whitening == "exact" or (self.whitening == "auto" and n_terms <= EXACT_TERMS)


@dataclass(frozen=True, slots=True)
class Stage:
    """Bytes of a stage at its worst moment, and the least that it has to do."""

    name: str
    held: int
    """Inputs, results of earlier stages, and what is made of them."""
    accumulator: int = 0
    """Sums of all segments that are merged."""
    segments: int = 0
    """Sums of those that are worked on at a time."""
    working: int = 0
    """Blocks and slabs of the tasks that run at a time."""
    cost: Cost = field(default_factory=Cost)

    @property
    def total(self) -> int:
        """With what any process takes."""
        return BASE_BYTES + self.held + self.accumulator + self.segments + self.working


@dataclass(frozen=True, slots=True)
class Plan:
    """How a fit will be run, and what it will take."""

    stages: tuple[Stage, ...]
    at_a_time: int
    """Tasks at a time; this alone depends on the machine."""
    oversampling: int
    accumulators_bytes: int
    """What decides the number of segments."""
    sizes: HeadSizes | None
    spill: bool
    """Sums lie in mapped files."""
    memory_limit: int | None

    @property
    def peak(self) -> int:
        """Bytes of a process that does nothing else, at the worst moment."""
        return max(stage.total for stage in self.stages)

    def as_dict(self) -> dict[str, Any]:
        rows = [
            {
                "stage": stage.name,
                "bytes": stage.total,
                "held_bytes": stage.held,
                "accumulator_bytes": stage.accumulator,
                "segments_bytes": stage.segments,
                "working_bytes": stage.working,
                "flops": stage.cost.flops,
                "gathered_bytes": stage.cost.gathered,
            }
            for stage in self.stages
        ]
        return {
            "peak_bytes": self.peak,
            "memory_limit": self.memory_limit,
            "tasks_at_a_time": self.at_a_time,
            "oversampling": self.oversampling,
            "head_dim": None if self.sizes is None else self.sizes.total,
            "spill": self.spill,
            "stages": rows,
        }


def make_plan(
    corpus: Corpus, wanted: Wanted, memory_limit: int | None = None, n_threads: int | None = None
) -> Plan:
    """The most that fits into the limit; with no limit, what is best for corpora of any size.

    Raises
    ------
    InputError
        Nothing fits: says what the least would take.
    """
    most = n_threads or n_cpus()
    smallest: Plan | None = None
    for oversampling, head_bytes, accumulators_bytes, spill in _levels(memory_limit):
        sizes = None
        if wanted.has_ridge:
            shape = corpus.n_docs, corpus.n_terms, corpus.n_labels
            sizes = head_sizes(*shape, wanted.head_dim, head_bytes)
            if memory_limit is not None:
                sizes = replace(sizes, memory_entries=min(MOST_ENTRIES, 1 + head_bytes // _ENTRY_BYTES))

        def plan(
            at_a_time: int,
            level: tuple[int, int, HeadSizes | None, bool] = (oversampling, accumulators_bytes, sizes, spill),
        ) -> Plan:
            stages = _Stages(corpus, wanted, at_a_time, *level)
            return Plan(tuple(stages.all()), at_a_time, *level, memory_limit)

        # whether a level fits is asked for one task, so that the answer does not depend on the threads
        smallest = plan(1)
        if memory_limit is None or smallest.peak <= memory_limit:
            plans = (plan(at_a_time) for at_a_time in range(1 if spill else most, 0, -1))
            return next(found for found in plans if memory_limit is None or found.peak <= memory_limit)
    assert smallest is not None
    assert memory_limit is not None
    worst = max(smallest.stages, key=lambda stage: stage.total)
    raise InputError(
        f"The fit does not fit into memory_limit={gigabytes(memory_limit)}. Found that even with one task "
        f"at a time, a sketch of {wanted.n_components + smallest.oversampling} columns, the fewest features "
        f"and sums on disk the stage '{worst.name}' takes {gigabytes(worst.total)}, "
        f"{gigabytes(BASE_BYTES)} of it before anything is read. "
        f"Raise memory_limit to {gigabytes(1.04 * smallest.peak)}, ask for fewer topics (n_components), "
        "or leave out rare words when the corpus is ingested."
    )


def _levels(memory_limit: int | None) -> Iterator[tuple[int, int, int, bool]]:
    """Oversampling, bytes for the head, bytes for all segments' accumulators, and whether sums are mapped."""
    if memory_limit is None:
        yield OVERSAMPLING, HEAD_BYTES, ACCUMULATORS_BYTES, False
        return
    for spill in (False, True):
        for oversampling, share in ((100, 2), (100, 4), (50, 4), (50, 8), (20, 16), (20, 64)):
            # a single segment needs no second accumulator to be merged into
            for accumulators_bytes in (0,) if spill else (ACCUMULATORS_BYTES, 0):
                yield oversampling, max(0, memory_limit - BASE_BYTES) // share, accumulators_bytes, spill


@dataclass(frozen=True, slots=True)
class _Stages:
    """The stages of a fit, one way of running it."""

    corpus: Corpus
    wanted: Wanted
    at_a_time: int
    oversampling: int
    accumulators_bytes: int
    sizes: HeadSizes | None
    spill: bool

    def all(self) -> Iterator[Stage]:
        """In their order. What one leaves behind is held by those after it."""
        held = 0
        if self._cross is not None:  # the cross moment as it is kept, and by word
            held += 2 * 8 * min(self._cross.most_entries, self._cross.expected_entries)
        yield from self._whitening(held)
        if self._ridge is not None:
            p, D = self._ridge.B.shape[1], self.corpus.n_terms
            extra = self._tall + array_bytes(self._ridge) + 24 * p * p
            yield Stage("head subspace", held + extra, cost=Cost(3 * D * p * p))
        yield from self._topics(held)
        if self._ridge is not None:
            held += array_bytes(self._ridge) + self._ridge.accumulator_bytes
        yield from self._labels(held)

    def _whitening(self, held: int) -> Iterator[Stage]:
        """Pass 1, and what leads to it and from it to W."""
        view, D, width = self.wanted.view, self.corpus.n_terms, self._width
        beside = [] if self._cross is None else [self._cross]
        if self.wanted.is_exact(D):
            yield self._pass(Pairs(view, D), *beside)
            yield Stage("whitening", 8 * D * D + 4 * self._tall + 20 * 8 * D + held)
            return
        sketch = Sketch(hollow(D, width, dtype=np.int16), hollow(width))
        sample = sum(self.corpus.info.blocks[i].x_nnz for i in sampled_blocks(self.corpus))
        own_terms = min(D, sample)
        own = 4 * own_terms * width
        turns = Cost(5 * 3 * own_terms * width**2, 4 * 12 * SHARE * self._size.x_nnz * width)
        # a panel of the product for each thread; the sample as read, thinned, and with columns numbered anew
        panels = min(own, self.at_a_time * 4 * own_terms * PANEL)
        made = max(panels, array_bytes(sketch))
        yield Stage("warm start", own + made + 3 * 8 * sample + 20 * D, cost=turns)
        yield self._pass(Pairs(view, D, sketch), *beside, held=8 * sample)
        made = self._spilled(4 * D * width) + self._tall
        yield Stage("whitening", array_bytes(sketch) + made + held, cost=Cost(5 * D * width**2))

    def _topics(self, held: int) -> Iterator[Stage]:
        """Pass 2, the decomposition, and O with its error bars."""
        D, K = self.corpus.n_terms, self._topic_count
        triples = Triples(self.wanted.view, hollow(D, K), self.wanted.error_bars)
        beside = [] if self._ridge is None else [self._ridge]
        yield self._pass(triples, *beside, held=held)
        held += sum(array_bytes(work) + work.accumulator_bytes for work in beside)
        products = self._spilled(triples.accumulator_bytes - 16 * K**3)
        made = 3 * self._tall + products + 10 * 8 * K**3  # W, O, and a product
        yield Stage("tensor", held + made, cost=Cost(20 * K**4 + 10 * D * K * K))

    def _labels(self, held: int) -> Iterator[Stage]:
        """Pass 3, the choice of the head, and the model."""
        wanted, tall = self.wanted, self._tall
        D, L, K = self.corpus.n_terms, self.corpus.n_labels, self._topic_count
        directions = Directions(hollow(K, K), hollow(D, K) if wanted.view.drop_self_pairs else None)
        works: list[Pass] = [
            Labels(wanted.view, hollow(D, K), directions, L, directions if wanted.error_bars else None)
        ]
        O = tall
        if wanted.has_refined:
            works.append(Responsibilities(wanted.view, hollow(D, K), hollow(K), L, 0.0))
            O = 0  # only its logarithm is needed
        yield self._pass(*works, held=held + O)
        # W and O; sums of Q, and Q; of the EM step the sums, the logarithm of O, and a new O
        held += tall + O + 3 * label_bytes(L, K)
        if wanted.has_refined:
            refined = self._spilled(tall) + label_bytes(L, K)
            for number in range(1, wanted.refine_passes + 1):
                stage = self._pass(works[-1], held=held + refined)
                yield replace(stage, name=f"refine {number}")
            held += refined + 2 * tall
        weights, memory, choice = 4 * L * K, 0, Cost()
        if self.sizes is not None:
            p = self.sizes.total + 1
            weights += 4 * L * p
            memory = 8 * min(self.sizes.memory_entries, round(self._size.label_words)) + 8 * D
            hold = HoldOut.of(self._size.n_docs, L)
            scores = hold.share * self._size.n_docs * L
            if hold.n_folds > 1 and self._ridge is not None:  # a fold's own head
                held += array_bytes(self._ridge) + self._ridge.accumulator_bytes
            held += (1 + self.at_a_time) * min(_CHOICE_BYTES, round(12 * scores))
            held += 2 * 4 * L * p + 24 * p * p + 2 * memory
            choice = Cost(6 * scores * (p + K))
        yield Stage("head", held, cost=choice)
        model = 2 * tall + (0 if self._ridge is None else array_bytes(self._ridge) + 2 * memory)
        # the memory of labels once more, with words in the order of the source; and their names
        model += weights + _NAME_BYTES * (D + L)
        yield Stage("model", model)
        # one copy of the memory is gone; a chunk of the largest array, as it is written and packed
        basis = 0 if self._ridge is None else array_bytes(self._ridge) // 2
        yield Stage("save", model - memory + 2 * min(4 * CHUNK, max(tall, basis)))

    @property
    def _size(self) -> Size:
        return corpus_size(self.corpus)

    @property
    def _topic_count(self) -> int:
        return self.wanted.topic_count(self.corpus.n_terms, self.corpus.n_docs)

    @property
    def _width(self) -> int:
        return min(self.corpus.n_terms, self._topic_count + self.oversampling)

    @property
    def _tall(self) -> int:
        """Bytes of a D x K matrix."""
        return 4 * self.corpus.n_terms * self._topic_count

    @property
    def _weighting(self) -> Weighting:
        return Weighting(hollow(self.corpus.n_terms))

    @property
    def _cross(self) -> Cross | None:
        if self.sizes is None:
            return None
        omega = hollow(self.corpus.n_terms, self.sizes.words)
        entries = round(self._size.label_words), self.sizes.memory_entries
        return Cross(self._weighting, omega, self.corpus.n_labels, 0.0, *entries)

    @property
    def _ridge(self) -> Features | None:
        if self.sizes is None:
            return None
        linear, waves = self.sizes.labels + self.sizes.words, self.sizes.waves
        arrays = hollow(self.corpus.n_terms, linear), hollow(linear, waves), hollow(waves)
        return Features(self._weighting, *arrays, self.corpus.n_labels, 0.0)

    def _spilled(self, nbytes: int) -> int:
        return 0 if self.spill else nbytes

    def _pass(self, *works: Pass, held: int = 0) -> Stage:
        """A read of the corpus."""
        work = Together(works)
        cut = segments(self.corpus, work.segment_bytes(0, 0), self.accumulators_bytes)
        running = min(self.at_a_time, len(cut))
        blocks = self.corpus.info.blocks
        value = {"ones": 0, "uint8": 1, "uint16": 2}.get(self.corpus.info.values, 4)
        # one block is read while another is worked on; documents that are not held out, and their weights
        block = max((3 * (4 + value) + 8) * b.x_nnz + 40 * b.n_docs + 8 * b.y_nnz for b in blocks)
        most_docs = max(b.n_docs for b in blocks)
        slab = sum(kernels.SLAB * _slab_width(part) + most_docs * _block_width(part) for part in works)
        # a single segment's sums are those of the whole, but for what waits to be added to them
        largest = max(sum(blocks[i].x_nnz for i in segment.blocks) for segment in cut)
        segment = work.segment_bytes(max(segment.n_docs for segment in cut), largest)
        in_work = running * segment if len(cut) > 1 else max(0, segment - work.accumulator_bytes)
        return Stage(
            work.name,
            held + array_bytes(work),
            self._spilled(work.accumulator_bytes),
            in_work,
            running * (block + slab),
            work.cost(self._size),
        )


def _slab_width(work: Pass) -> int:
    """Bytes that a task makes of one document, for a slab of them at a time."""
    if isinstance(work, Features):
        return int(12 * work.width)
    if isinstance(work, Triples):
        return int((4 + 4 * kernels.TRIPLE_BLOCK) * work.W.shape[1])
    if isinstance(work, Labels | Responsibilities):
        return int(16 * work.n_topics)
    return 0


def _block_width(work: Pass) -> int:
    """Bytes that a task makes of one document, for all documents of a block at a time."""
    if isinstance(work, Pairs):
        return 0 if work.sketch is None else 4 * work.sketch.shape[1]
    if isinstance(work, Triples):
        return int(2 * work.W.shape[1])  # half of the documents at a time
    if isinstance(work, Cross):
        return int(4 * work.omega.shape[1])
    return int(4 * work.n_topics) if isinstance(work, Responsibilities) else 0


def hollow(*shape: int, dtype: npt.DTypeLike = np.float32) -> Array:
    """An array of zeros that takes no memory; `nbytes` tells what a real one would."""
    return np.broadcast_to(np.dtype(dtype).type(0), shape)


def array_bytes(value: Any) -> int:
    """Bytes of all arrays in a dataclass of dataclasses, tuples and arrays; each counts once."""
    return sum({id(array): int(array.nbytes) for array in arrays_of(value)}.values())


def gigabytes(nbytes: float) -> str:
    return f"{nbytes / 1e9:.2f}GB"
