"""What a head gathers in the same three reads, and how it is put together afterwards."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..corpus.store import Block, Corpus
from ..linalg.ridge import ridge_weights
from ..linalg.tall import gaussian
from ..moments.words import WordView
from ..passes import kernels
from ..passes.cost import corpus_size
from ..passes.runner import Pass
from ..passes.sums import Sums, settle
from ..passes.tall import TallSum
from ..types import Array
from .calibration import Calibration
from .choose_head import Candidates, Chosen, RidgeSums, choose, damped, scaled, topic_options
from .cross import Cross, CrossMoment
from .directions import label_directions, orthonormal, random_waves
from .features import Features
from .heads import Head, Kind, Ridge, Topics, log_prior, log_word_topics
from .held_out import Gathered, HoldOut, SetAside
from .responsibilities import Responsibilities
from .selection import Choice
from .sizes import HeadSizes
from .weighting import Scheme, Weighting

_FEWEST_LABELLED = 25
"""Held-out documents with labels that a choice takes."""
_E_STEP_SMOOTHING = 0.1
_LABEL_SMOOTHING = 0.01

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """What decides the head, besides the corpus."""

    kind: Kind = "posterior"
    scheme: Scheme = "log"
    dim: int | None = None
    refine_passes: int = 0
    smoothing: float | None = None
    """None: chosen, or 0.1 where nothing is chosen."""

    @property
    def has_ridge(self) -> bool:
        return self.kind in ("ridge", "blend")

    @property
    def has_refined(self) -> bool:
        """Whether the topics are those after the EM step."""
        return self.kind in ("refined", "blend")


@dataclass
class HeadLearning:
    """The head's share of each pass. `beside_...` tells what to sum, `after_...` takes the sums."""

    settings: HeadSettings
    corpus: Corpus
    view: WordView
    seed: int
    n_threads: int | None
    planned: HeadSizes | None
    stats: dict[str, Any]
    hold_out: HoldOut | None = None
    """Which documents choices are made on; None for what the size of the corpus asks for."""
    weighting: Weighting = field(init=False)
    held_out: Block = field(init=False)
    _hold: HoldOut = field(init=False)
    _works: dict[str, Any] = field(default_factory=dict)
    _sums: dict[str, Sums] = field(default_factory=dict)
    _latest: list[str] = field(default_factory=list)
    _first_step: Responsibilities | None = None

    def __post_init__(self) -> None:
        corpus = self.corpus
        self._hold = self.hold_out or HoldOut.of(corpus.n_docs, corpus.n_labels)
        self.stats["head"] = self.settings.kind
        if self.settings.has_ridge:
            self.weighting = Weighting.of_counts(*corpus.stored_term_counts, self.settings.scheme)

    @property
    def sizes(self) -> HeadSizes:
        assert self.planned is not None
        return self.planned

    def tell_sizes(self) -> None:
        """Note how many features there are, and why; warn where memory leaves fewer than asked for."""
        if not self.settings.has_ridge:
            return
        sizes, wanted = self.sizes, self.settings.dim
        self.stats["head_dim"] = sizes.total
        self.stats["head_dim_reason"] = sizes.reason
        log.info("The head has %d features (%s).", sizes.total, sizes.reason)
        if wanted is not None and sizes.reason.startswith("memory"):
            warnings.warn(
                f"head_dim is reduced from {wanted} to {sizes.total} ({sizes.reason}). "
                "Raise memory_limit for more.",
                stacklevel=4,
            )

    # -- pass 1 -------------------------------------------------------------------------------------------

    def beside_pairs(self) -> list[Pass]:
        works: list[Pass] = []
        if self._hold.share:
            works.append(SetAside(self._hold.share))
        if self.settings.has_ridge:
            omega = gaussian(self.corpus.n_terms, self.sizes.words, self.seed, self.n_threads)
            entries = round(corpus_size(self.corpus).label_words), self.sizes.memory_entries
            works.append(Cross(self.weighting, omega, self.corpus.n_labels, self._hold.left_out, *entries))
        return self._remember(works)

    def after_pairs(self, sums: Sequence[Sums]) -> None:
        self._take(sums)
        if self.settings.has_ridge:
            self._sums["cross"]["cross"] = self._sums["cross"]["cross"].cut()
        if self.hold_out is None:
            self._keep_held_out()

    def _keep_held_out(self) -> None:
        gathered = self._sums["set aside"]["documents"] if self._hold.share else Gathered()
        self.held_out = gathered.joined(self.corpus.n_terms, self.corpus.n_labels)
        judged = 0 if self.settings.kind == "posterior" else self.held_out.X.n_rows
        self.stats["held_out_docs"] = judged

    # -- pass 2 -------------------------------------------------------------------------------------------

    def beside_triples(self) -> list[Pass]:
        if not self.settings.has_ridge:
            return self._remember([])
        cross = self._sums["cross"]
        directions = label_directions(
            cross["cross"], self.sizes.labels, self.seed, self.sizes.words, self.n_threads
        )
        directions[:, self.sizes.labels :] = cross["words"].finished()
        # half precision is what is saved: features are made with exactly that
        B = _half(orthonormal(directions, True, self.n_threads))
        # the words' own directions are done with: what is held out adds to the cross moment alone
        self._works["cross"] = replace(self._works["cross"], omega=np.zeros((len(B), 0), np.float32))
        cross["words"] = TallSum.zero(len(B), 0)
        waves, phases = random_waves(B.shape[1], self.sizes.waves if B.shape[1] else 0, self.seed)
        return self._remember(
            [Features(self.weighting, B, waves, phases, self.corpus.n_labels, self._hold.left_out)]
        )

    def after_triples(self, sums: Sequence[Sums]) -> None:
        self._take(sums)

    # -- pass 3, and those of `refine_passes` ---------------------------------------------------------------

    def beside_labels(self, O: Array, pi: Array, Q: Array | None = None) -> list[Pass]:
        """With `Q`, also the labels of a document speak for its topics. O is overwritten where it is used."""
        if not self.settings.has_refined:
            return self._remember([])
        log_O = log_word_topics(O, _E_STEP_SMOOTHING, overwrite=True)
        log_Q = None if Q is None else np.log(Q).astype(np.float32)
        L, left_out = self.corpus.n_labels, self._hold.left_out
        step = Responsibilities(self.view, log_O, log_prior(pi), L, left_out, log_Q)
        if self._first_step is None and self._hold.n_folds > 1:
            self._first_step = step
        return self._remember([step])

    def after_labels(self, sums: Sequence[Sums]) -> None:
        self._take(sums)

    def refined_topics(self) -> Topics:
        """The M-step: O ~ X'R, Q ~ Y'R and pi ~ sum R."""
        sums = self._sums["refine"]
        Q = sums["labels"] + _LABEL_SMOOTHING
        words = sums["words"].finished()
        totals = words.sum(axis=0, dtype=np.float64)
        O = words * (1 / np.where(totals > 0, totals, 1)).astype(np.float32)
        O[:, totals == 0] = 1 / self.corpus.n_terms
        pi = sums["topics"] / max(sums["topics"].sum(), 1e-300)
        return Topics(O, (Q / Q.sum(axis=0)).astype(np.float32), pi)

    # -- afterwards -----------------------------------------------------------------------------------------

    def finish(self, paper: Topics) -> Head:
        """Choose on the held-out documents, give them back to the sums, and put the head together.

        Parameters
        ----------
        paper
            The paper's own topics, for heads that do not refine them.
        """
        smoothing = 0.1 if self.settings.smoothing is None else self.settings.smoothing
        chosen = Chosen(Choice(smoothing=smoothing))
        self.stats["chosen_on"] = "nothing: defaults"
        if np.count_nonzero(np.diff(self.held_out.Y.indptr)) >= _FEWEST_LABELLED:
            found = Candidates.joined([head._candidates(paper, smoothing) for head in self._judges()])
            chosen = choose(found, chosen.choice)
            self.stats["chosen_on"] = self._chosen_on
        choice = chosen.choice
        self.stats["choice"] = choice.as_dict()
        self.stats |= chosen.stats
        if self.settings.kind == "posterior":  # whose topics have seen these documents
            self.stats.pop("held_out_topics", None)
        self._give_back()
        topics = self._topics(paper, choice.smoothing, choice.temperature)
        if self.settings.has_ridge:
            return self._ridge_head(topics, chosen)
        return Head(self.settings.kind, topics, threshold=chosen.threshold)

    @property
    def _chosen_on(self) -> str:
        if self.settings.kind == "posterior":
            return "training documents"
        n_folds = self._hold.n_folds
        return "held-out training documents" if n_folds == 1 else f"{n_folds} folds of the training documents"

    def _judges(self) -> Iterator[HeadLearning]:
        """What scores the held-out documents: these sums, or for each fold the sums of the other folds."""
        if self._hold.n_folds == 1 or self.settings.kind == "posterior":  # whose topics are of all documents
            yield self
            return
        for own, others in self._hold.folds(self.held_out.X.n_rows):
            yield self._without(own, others)

    def _without(self, own: Array, others: Array) -> HeadLearning:
        """A head of the other documents alone; its held-out documents are the fold's."""
        head = replace(
            self, stats={}, hold_out=HoldOut(0.0), _works={}, _sums={}, _latest=[], _first_step=None
        )
        head.held_out = _rows_of(self.held_out, own)
        rest = _rows_of(self.held_out, others)
        head.after_pairs(_summed(head.beside_pairs(), rest))
        head.after_triples(_summed(head.beside_triples(), rest))
        if self._first_step is not None:
            head.after_labels(_summed(head._remember([self._first_step]), rest))
            for _ in range(self.settings.refine_passes):
                refined = head.refined_topics()
                works = head.beside_labels(refined.O, refined.pi, refined.Q)
                head.after_labels(_summed(works, rest))
        return head

    def _candidates(self, paper: Topics, smoothing: float) -> Candidates:
        """The scores of the held-out documents, for every option."""
        kind, ridge = self.settings.kind, None
        if self.settings.has_ridge:
            moments, cross = self._sums["features"], self._sums["cross"]["cross"]
            ridge = RidgeSums(self.weighting, self._works["features"], moments, cross)
        topics = None if kind == "ridge" else self._topics(paper, smoothing)
        options = topic_options(self.settings.smoothing)
        if kind == "posterior":  # as the paper has it
            options = [Choice(smoothing=smoothing)]
        documents = self.held_out.X, self.held_out.Y
        return Candidates.of(documents, topics, options, ridge, self.seed, self.n_threads)

    def _topics(self, paper: Topics, smoothing: float, temperature: float = 1.0) -> Topics:
        topics = self.refined_topics() if self.settings.has_refined else paper
        return replace(topics, smoothing=smoothing, temperature=temperature)

    def _ridge_head(self, topics: Topics, chosen: Chosen) -> Head:
        work, moments, choice = self._works["features"], self._sums["features"], chosen.choice
        A = _half(ridge_weights(moments["gram"], moments["labels"], choice.strength, self.n_threads))
        cross: CrossMoment = self._sums["cross"]["cross"].cut()
        memory = None
        if choice.memory:
            memory = scaled(cross.by_word(self.n_threads), damped(cross.lengths(), choice))
            _half(memory.values_as(np.float32))
        topics_weight = choice.topics if self.settings.has_refined else 0.0
        return Head(
            self.settings.kind,
            topics,
            self.weighting,
            Ridge(work.B, work.waves, work.phases, A),
            memory,
            topics_weight,
            chosen.calibration or Calibration.uncalibrated(1 + choice.memory + topics_weight),
            chosen.threshold,
        )

    def _give_back(self) -> None:
        """Add the held-out documents to every sum: sums are additive, so nothing is lost."""
        if self._hold.left_out:
            for name, work in self._works.items():
                if name != "set aside":
                    replace(work, held_out_share=0.0).add(self._sums[name], self.held_out)
        self._works.pop("refine", None)  # its D x K is done with
        self._first_step = None

    def _remember(self, works: list[Pass]) -> list[Pass]:
        self._works |= {work.name: work for work in works}
        self._latest = [work.name for work in works]
        return works

    def _take(self, sums: Sequence[Sums]) -> None:
        self._sums |= dict(zip(self._latest, sums, strict=True))


def _rows_of(documents: Block, rows: Array) -> Block:
    return replace(documents, X=documents.X.take(rows), Y=documents.Y.take(rows))


def _summed(works: Sequence[Pass], documents: Block) -> list[Sums]:
    """The sums of documents that are in memory, by each pass."""
    made = [work.zero() for work in works]
    for work, sums in zip(works, made, strict=True):
        work.add(sums, documents)
        settle(sums)
    return made


def _half(matrix: Array) -> Array:
    """Round to what half precision holds, in which models are saved, in place; what is too large stays."""
    largest = max(matrix.max(initial=0), -matrix.min(initial=0))
    if largest <= np.finfo(np.float16).max:
        kernels.round_to_half(matrix.reshape(-1))
    return matrix
