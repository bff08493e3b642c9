"""A fit: its stages from the first read to the model, one list that the planner prices and the fit walks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..corpus.store import Corpus
from ..moments.method import Decompose, Direct, FinishLabels, MomentMethod, MomentSettings, WarmStart, Whiten
from ..moments.notes import fit_notes
from ..moments.topics import MomentTopics
from ..parts.blend import Blend
from ..parts.learning import PartsLearning, Prepare
from ..parts.part import Context, PartSettings
from ..parts.weighting import Weighting
from ..passes.document_hashes import DocumentHashes, SmallestHashes
from ..passes.machine import available_bytes, peak_bytes
from ..passes.plan import BASE_BYTES, Plan, Planned, gigabytes, make_plan
from ..passes.runner import Runner
from ..passes.stages import Gatherer, Layout, Price, Read, Stage
from ..passes.work import Pass, arrays_of
from ..progress import Progress, begin
from ..storage.guard import CHUNK
from ..tasks import give_back_memory
from ..warn import warn

_NAME_BYTES = 80
"""A short text in a list."""


@dataclass(frozen=True, slots=True)
class FitSettings:
    """Settings that decide the result of a fit, besides the corpus."""

    moments: MomentSettings = field(default_factory=MomentSettings)
    parts: PartSettings = field(default_factory=PartSettings)
    memory_bytes: int | None = None
    """Bytes that the whole process may take; None for no limit."""

    def plan(self, corpus: Corpus, n_threads: int | None) -> Plan:
        """Plan fitting and saving."""
        planned = partial(_planned, corpus, self, n_threads)
        return make_plan(planned, self.memory_bytes, n_threads)


class Fit(Gatherer):
    """A fit under way: its stages, and what they hand on to each other.

    It gathers hashes of the documents itself, by which evaluations know them.
    """

    def __init__(
        self, corpus: Corpus, settings: FitSettings, layout: Layout, n_threads: int | None = None
    ) -> None:
        self.corpus, self.settings, self.layout, self.n_threads = corpus, settings, layout, n_threads
        self.stats: dict[str, Any] = {"corpus": _described(corpus), "notes": []}
        self.method = MomentMethod(settings.moments, corpus, n_threads, self.stats)
        weighting = Weighting.of_counts(*corpus.stored_term_counts, settings.parts.scheme)
        context = Context(
            settings.parts, corpus, self.method, layout, weighting, n_threads, False, stats=self.stats
        )
        self.parts = PartsLearning.of(context)
        self.hashes: SmallestHashes | None = None
        self.moments: MomentTopics | None = None
        self.blend: Blend | None = None
        self.stages = self._stages()
        self.n_reads = sum(isinstance(stage, Read) for stage in self.stages)
        """Full reads of the corpus."""

    @property
    def holders(self) -> Sequence[Gatherer]:
        return [self.method, self.parts, self]

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        return [DocumentHashes(self.corpus.term_ids)] if read == 1 else ()

    def take(self, read: int, sums: Sequence[Any]) -> None:
        (self.hashes,) = sums

    def held(self) -> Sequence[Any]:
        return ()

    def _stages(self) -> list[Stage]:
        method, refine = self.method, self.settings.parts.refine_passes
        after: dict[int, list[Stage]] = {
            1: [Whiten(method)],
            2: [Decompose(method), Direct(method)],
            3: [FinishLabels(method)],
        }
        names = ["pairs", "triples", "labels", *(f"refine {i + 1}" for i in range(refine))]
        stages: list[Stage] = []
        for number, name in enumerate(names, 1):
            read = Read(number, name, self.corpus, self.holders)
            if number == 1 and not method.settings.is_exact(self.corpus.n_terms):
                stages.append(WarmStart(method, self.layout, read))
            for part in self.parts.parts:
                if (made := part.prepares(number)) is not None:
                    stages.append(Prepare(part, number, made))
            stages += [read, *after.get(number, [])]
        return [*stages, *self.parts.stages, PutInOrder(self)]

    def run(self, runner: Runner) -> None:
        """Walk the stages, and let go of each: they refer to the fit, which would keep its arrays alive."""
        self.parts.tell()
        clock = Clock(self.stats, runner.progress)
        while self.stages:
            with_clock(clock, self.stages.pop(0), runner)
        self.stats["run"] = runner.files.stats()


def with_clock(clock: Clock, stage: Stage, runner: Runner) -> None:
    """Run a stage, and note what it took."""
    if not isinstance(stage, Read):  # which is counted in documents
        begin(clock.progress, stage.name)
    stage.run(runner)
    clock.mark(stage.name)


class PutInOrder(Stage):
    """The model, its words in the order of the source."""

    name = "model"

    def __init__(self, fit: Fit) -> None:
        self._fit = fit

    def run(self, runner: Runner) -> None:
        fit = self._fit
        blend = fit.parts.take_blend()
        in_source = np.argsort(fit.corpus.term_ids)
        fit.moments = fit.method.topics().reordered(in_source, fit.n_threads)
        fit.blend = blend.reordered(in_source, fit.moments, fit.n_threads)
        fit.stats["model_bytes"] = fit.blend.nbytes + fit.moments.nbytes
        fit.stats["part_bytes"] = {part.name: part.nbytes for part in fit.blend.parts}
        settings = fit.settings.moments
        notes = fit_notes(fit.corpus.n_docs, fit.moments.tensor_eigenvalues, settings.prior)
        fit.stats["notes"] = [*fit.stats["notes"], *notes]

    def pretend(self, layout: Layout) -> None:
        """Everything stays where it is, but for its order."""

    def price(self, layout: Layout, held: int) -> Price:
        corpus = self._fit.corpus
        names = _NAME_BYTES * (corpus.n_terms + corpus.n_labels)
        return Price(self.name, held + names + self._fit.parts.reordering)


class Save(Stage):
    """The model's arrays on disk."""

    name = "save"

    def __init__(self, fit: Fit, write: Any = None) -> None:
        self._fit, self._write = fit, write

    def run(self, runner: Runner) -> None:
        self._write()

    def pretend(self, layout: Layout) -> None:
        """Nothing is left in memory."""

    def price(self, layout: Layout, held: int) -> Price:
        corpus = self._fit.corpus
        names = _NAME_BYTES * (corpus.n_terms + corpus.n_labels)
        arrays = [array.nbytes for holder in self._fit.holders for array in arrays_of(list(holder.held()))]
        # a chunk of the largest array, as it is written and packed
        return Price(self.name, held + names + 2 * min(4 * CHUNK, max(arrays, default=0)))


def _planned(corpus: Corpus, settings: FitSettings, n_threads: int | None, layout: Layout) -> Planned:
    fit = Fit(corpus, settings, layout, n_threads)
    return Planned([*fit.stages, Save(fit)], fit.holders, fit.parts.details())


def start(corpus: Corpus, settings: FitSettings, runner: Runner) -> tuple[Fit, Runner]:
    """Plan a fit, and set everything up for it."""
    n_threads = runner.executor.n_threads
    plan = settings.plan(corpus, n_threads)
    _check_free(plan)
    give_back_memory()  # what was done before may have left some
    layout = plan.layout
    fit = Fit(corpus, settings, layout, n_threads)
    fit.stats["plan"] = plan.as_dict()
    fit.stats["whitening"] = "exact" if settings.moments.is_exact(corpus.n_terms) else "sketch"
    fit.stats["sample_share"] = 0.0
    return fit, runner.laid_out(layout.at_a_time, layout.accumulators_bytes, layout.spill)


def _check_free(plan: Plan) -> None:
    free = available_bytes()
    if free is not None and plan.peak - BASE_BYTES > free:
        warn(
            f"The fit may need more memory than there is: {gigabytes(plan.peak)} at its worst, and "
            f"{gigabytes(free)} are free. Pass a memory_limit, or fewer topics (n_components)."
        )


def _described(corpus: Corpus) -> dict[str, Any]:
    """Description of the training corpus."""
    return {
        "fingerprint": corpus.fingerprint,
        "documents": corpus.n_docs,
        "terms": corpus.n_terms,
        "labels": corpus.n_labels,
        "blocks": corpus.n_blocks,
        "kind": str(corpus.info.source.get("kind", "unknown")),
    }


@dataclass(slots=True)
class Clock:
    """Seconds of each stage, and the most that the process had held by its end, into the fit's statistics."""

    stats: dict[str, Any]
    progress: Progress | None = None
    last: float = field(default_factory=time.perf_counter)

    def mark(self, stage: str) -> None:
        """Note the time since the last mark as this stage's."""
        now = time.perf_counter()
        seconds = self.stats.setdefault("seconds", {})
        seconds[stage] = seconds.get(stage, 0.0) + now - self.last
        self.last = now
        if (peak := peak_bytes()) is not None:
            self.stats.setdefault("peak_bytes", {})[stage] = peak
        give_back_memory()
