"""All parts of a score together, while they learn; and the documents that are held out for their choices."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..passes.cost import Cost, corpus_size
from ..passes.runner import Runner
from ..passes.stages import Gatherer, Layout, Price, Stage
from ..passes.sums import Sums
from ..passes.work import Pass, array_bytes
from ..types import Array
from .blend import Blend
from .calibration import Calibration
from .choosing import Chosen, Tried, choose, defaults, own
from .contrast_learning import ContrastLearning, FindLookAlikes, Judged, SolveContrast
from .heads import HEADS, Head
from .held_out import Gathered, HoldOut, SetAside, WithoutHeldOut, rows_of
from .part import Context, Part, Scorer, Words
from .training_words import EVERY

_FEWEST_LABELLED = 25
"""Held-out documents with labels that a choice takes."""
_CHOICE_BYTES = 100_000_000
"""At the most, scores that one thread holds while choices are made, or the shortlists they are made on."""


class PartsLearning(Gatherer):
    """The parts of a head, what they share, and the held-out documents, from the first read to the blend."""

    def __init__(self, head: Head, context: Context, hold_out: HoldOut, parts: Sequence[Part]) -> None:
        self.head, self.context, self.hold_out, self.parts = head, context, hold_out, parts
        self.documents: Block | None = None
        """The held-out documents, until they are given back."""
        self.blend: Blend | None = None
        """The blend that was learned, until somebody takes it."""
        self.contrast = ContrastLearning(context) if head.has_contrast else None
        self._chosen_parts: tuple[list[Scorer], Chosen] | None = None
        """What contrast goes on from."""
        self.remains: Sequence[Array] | None = None
        """Hollow arrays of a blend, once making it was pretended."""

    @classmethod
    def of(cls, context: Context) -> PartsLearning:
        """For a fit of the context's corpus."""
        corpus, head = context.corpus, HEADS[context.settings.head]
        hold_out = HoldOut.of(corpus.n_docs, corpus.n_labels)
        context = replace(
            context, is_alone=len(head.parts) == 1, keeps_documents=hold_out.n_folds > 1, shared={}
        )
        return cls(head, context, hold_out, [kind(context) for kind in head.parts])

    def tell(self) -> None:
        """Note what is going to be learned."""
        self.context.stats.update(head=self.context.settings.head, **self.details())
        for part in self.parts:
            part.tell()
        if self.contrast is not None:
            self.contrast.tell()

    @property
    def gatherers(self) -> list[Gatherer]:
        """Gatherers that parts share, then the parts."""
        return [*self.context.shared.values(), *self.parts]

    def held(self) -> Sequence[Any]:
        if self.remains is not None:
            return [*self.remains, *(() if self.contrast is None else self.contrast.held())]
        return [array for gatherer in self.gatherers for array in gatherer.held()]

    # -- reads ----------------------------------------------------------------------------------------------

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        left_out = self.hold_out.left_out
        works = [work for gatherer in self.gatherers for work in gatherer.passes(read)]
        beside: list[Pass[Any]] = [SetAside(self.hold_out.share)] if read == 1 and self.hold_out.share else []
        return beside + [WithoutHeldOut(work, left_out) if left_out else work for work in works]

    def take(self, read: int, sums: Sequence[Any]) -> None:
        rest = list(sums)
        if read == 1 and self.hold_out.share:
            self._set_aside(rest.pop(0))
        for gatherer in self.gatherers:
            works = gatherer.passes(read)
            mine, rest = rest[: len(works)], rest[len(works) :]
            if works:
                gatherer.take(read, mine)

    def _set_aside(self, gathered: Any) -> None:
        if isinstance(gathered, Gathered):
            self.documents = gathered.joined(self.context.corpus.n_terms, self.context.corpus.n_labels)

    # -- afterwards -----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Choose on the held-out documents, give them back to the sums, and put the parts together."""
        started = time.perf_counter()
        chosen, judged = self._chosen()
        self.context.stats["choice_seconds"] = time.perf_counter() - started
        self._give_back()
        if judged is not None:
            judged = replace(judged, groups=self._groups(judged.groups))
        finished = [part.finish(own(chosen.choice, part)) for part in self.parts]
        scorers = [scorer for scorer in finished if scorer is not None]
        self.context.shared.clear()
        if self.contrast is None:
            self._put_together(scorers, chosen)
        else:
            self.contrast.judged = judged
            self._chosen_parts = scorers, chosen

    def finish_contrast(self, runner: Runner) -> None:
        """Learn contrast, which goes on from all other parts, and put it to them."""
        assert self.contrast is not None
        assert self._chosen_parts is not None
        (scorers, chosen), self._chosen_parts = self._chosen_parts, None
        contrast, chosen = self.contrast.finish(runner, chosen)
        self.contrast = None
        self._put_together(scorers if contrast is None else [*scorers, contrast], chosen)

    def _put_together(self, scorers: Sequence[Scorer], chosen: Chosen) -> None:
        stats = self.context.stats
        stats["choice"] = dict(chosen.choice)
        stats |= chosen.stats
        self.blend = self._blend(scorers, chosen)

    def _groups(self, group_of: Array) -> Array:
        """(gathered documents,): group that judges each one; -1 for those that are in no group.

        Parameters
        ----------
        group_of
            (held-out documents that were gathered,): they come last.
        """
        assert self.contrast is not None
        n_docs = self.contrast.training.joined().X.n_rows
        groups = np.full(n_docs, -1)
        groups[n_docs - len(group_of) :] = group_of
        return groups

    def pretend_finish(self) -> None:
        """Leave behind what `finish` would, without memory."""
        self.remains = [array for part in self.parts for array in part.remains()]

    @property
    def stages(self) -> list[Stage]:
        """The stages after the last read."""
        contrast: list[Stage] = []
        if self.contrast is not None:
            contrast = [FindLookAlikes(self.contrast), SolveContrast(self.contrast, self.finish_contrast)]
        return [Choose(self), *contrast]

    def take_blend(self) -> Blend:
        """Hand over what was learned."""
        blend, self.blend = self.blend, None
        assert blend is not None
        return blend

    def _blend(self, scorers: Sequence[Scorer], chosen: Chosen) -> Blend:
        calibration = chosen.calibration
        if self.head.is_calibrated and calibration is None:
            calibration = Calibration.uncalibrated(sum(scorer.largest for scorer in scorers))
        context = self.context
        return Blend(
            context.settings.head,
            tuple(scorers),
            context.weighting,
            context.corpus.n_labels,
            calibration,
            chosen.threshold,
        )

    def _chosen(self) -> tuple[Chosen, Judged | None]:
        """The choice, and what contrast needs to make its own on the same documents."""
        stats, documents, seed = self.context.stats, self.documents, self.context.settings.seed
        stats["chosen_on"], stats["held_out_docs"] = "nothing: defaults", 0
        if documents is None:
            return Chosen(defaults(self.parts)), None
        knows = any(part.knows_held_out for part in self.parts)
        stats["held_out_docs"] = 0 if knows else documents.X.n_rows
        if np.count_nonzero(np.diff(documents.Y.indptr)) < _FEWEST_LABELLED:
            return Chosen(defaults(self.parts)), None
        trials, own_words = [], []
        for judge in [self] if knows else self._judges(documents):
            trials.append(judge.tried(seed))
            assert judge.documents is not None
            own_words.append(judge.documents.X)
        tried = Tried.joined(trials)
        stats["chosen_on"] = self._chosen_on(knows)
        chosen = choose(self.parts, tried, self.head.is_calibrated)
        if knows:  # how good it is on these documents says nothing
            chosen = replace(chosen, stats={k: v for k, v in chosen.stats.items() if k == "threshold"})
        if self.contrast is None or not self.head.is_calibrated:
            return chosen, None
        X = self.context.weighting.of(SparseRows.concatenate(own_words))
        ends = np.cumsum([0, *(words.n_rows for words in own_words)])
        group_of = np.zeros(documents.X.n_rows, np.int64)
        if self.hold_out.n_folds > 1:
            for group, (fold, _) in enumerate(self.hold_out.folds(documents.X.n_rows)):
                group_of[fold] = group
        scores = tried.scores(self.parts, chosen.choice)
        return chosen, Judged(tried.lists, scores, X, ends, group_of[self._gathered(documents)])

    def _gathered(self, documents: Block) -> Array:
        """Rows of the held-out documents whose words are gathered: sampled where they are folds of all."""
        assert self.contrast is not None
        sampling = self.contrast.training.work.sampling
        if self.hold_out.n_folds == 1:  # they are given back, and none of them is sampled away
            sampling = EVERY
        return sampling.rows(documents.X, documents.Y)

    def tried(self, seed: int) -> Tried:
        """Score the held-out documents by every part and option."""
        assert self.documents is not None
        words = Words(self.documents.X, self.context.weighting)
        return Tried.of(self.parts, words, self.documents.Y, seed, self.context.n_threads)

    @property
    def reordering(self) -> int:
        """Bytes that putting words in another order takes."""
        contrast = 0 if self.contrast is None else self.contrast.reordering
        return contrast + sum(part.reordering for part in self.parts)

    def details(self) -> dict[str, Any]:
        """Numbers that plans and statistics tell of the parts."""
        own = {name: value for part in self.parts for name, value in part.details().items()}
        return own | ({} if self.contrast is None else self.contrast.details())

    def _chosen_on(self, knows: bool) -> str:
        if knows:
            return "training documents"
        n_folds = self.hold_out.n_folds
        return "held-out training documents" if n_folds == 1 else f"{n_folds} folds of the training documents"

    def _judges(self, documents: Block) -> Iterator[PartsLearning]:
        """Learners that score the held-out documents: this one, or one of the others for each fold."""
        if self.hold_out.n_folds == 1:
            yield self
            return
        for fold, others in self.hold_out.folds(documents.X.n_rows):
            yield self._fold(rows_of(documents, fold), rows_of(documents, others))

    def _fold(self, documents: Block, others: Block) -> PartsLearning:
        """Parts that have learned from the others, with these documents to judge."""
        context = replace(self.context, stats={}, shared={}, keeps_documents=False)
        parts = [part.fold(context) for part in self.parts]
        fold = PartsLearning(self.head, context, HoldOut(0.0), parts)
        fold.documents = documents
        for read in range(1, 4 + context.settings.refine_passes):
            for part in parts:
                if part.prepares(read):
                    part.prepare(read)
            works = fold.passes(read)
            fold.take(read, [_summed(work, others) for work in works])
        return fold

    def _give_back(self) -> None:
        """Add the held-out documents to all sums: sums are additive, so nothing is lost."""
        if self.hold_out.left_out and self.documents is not None:
            for gatherer in self.gatherers:
                gatherer.give_back(self.documents)
        self.documents = None


def _summed(work: Pass[Any], documents: Block) -> Sums:
    """The sums of documents that are in memory."""
    sums: Sums = work.zero()
    work.add(sums, documents)
    sums.settle()
    return sums


class Prepare(Stage):
    """Stage in which a part makes something for the read that follows."""

    def __init__(self, part: Part, read: int, name: str) -> None:
        self.name, self._part, self._read = name, part, read

    def run(self, runner: Runner) -> None:
        self._part.prepare(self._read)

    def pretend(self, layout: Layout) -> None:
        self._part.pretend(self._read)

    def price(self, layout: Layout, held: int) -> Price:
        making = self._part.preparing(self._read)
        return Price(self.name, held + making.nbytes, cost=making.cost)


class Choose(Stage):
    """The choices on held-out documents, and the blend of what remains."""

    name = "head"

    def __init__(self, learning: PartsLearning) -> None:
        self._learning = learning

    def run(self, runner: Runner) -> None:
        self._learning.finish()

    def pretend(self, layout: Layout) -> None:
        self._learning.pretend_finish()

    def price(self, layout: Layout, held: int) -> Price:
        learning, corpus = self._learning, self._learning.context.corpus
        scores = learning.hold_out.share * corpus_size(corpus).n_docs * corpus.n_labels
        held += (1 + layout.at_a_time) * min(_CHOICE_BYTES, round(12 * scores))
        if learning.hold_out.n_folds > 1:  # a fold's own parts
            held += sum(part.finishing().nbytes for part in learning.parts)
        held += sum(part.finishing().nbytes for part in learning.parts)
        if learning.contrast is not None:  # gathered words are joined, and held-out documents put behind them
            held += array_bytes(learning.contrast.training.held())
        return Price(self.name, held, cost=Cost(6 * scores * 1000))
