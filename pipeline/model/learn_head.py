"""What a head gathers in the same three reads, and how it is put together afterwards."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pipeline.corpus.rows import Array, SparseRows
from pipeline.corpus.store import Block, Corpus
from pipeline.decompose.ridge import RidgePath, ridge_weights
from pipeline.decompose.subspace import label_directions, orthonormal, random_waves
from pipeline.decompose.tall import gaussian
from pipeline.model.calibration import Calibration
from pipeline.model.heads import Head, Kind, Ridge, Topics, log_prior, log_word_topics
from pipeline.model.selection import (
    SMOOTHINGS,
    STRENGTHS,
    TEMPERATURES,
    Choice,
    Parts,
    Shortlists,
    choose_blend,
    objective,
)
from pipeline.passes import cross_kernels, kernels
from pipeline.passes.cost import corpus_size
from pipeline.passes.cross import Cross, CrossMoment
from pipeline.passes.features import Features
from pipeline.passes.head_sizes import HeadSizes
from pipeline.passes.held_out import Gathered, SetAside
from pipeline.passes.responsibilities import Responsibilities, posterior
from pipeline.passes.run import Pass
from pipeline.passes.sums import Sums
from pipeline.passes.tall import TallSum
from pipeline.passes.weighting import Scheme, Weighting
from pipeline.passes.words import WordView
from pipeline.tasks import map_tasks

HELD_OUT_SHARE = 0.1
HELD_OUT_DOCS = 20_000
_HELD_OUT_SCORES = 100_000_000
"""Held-out documents times labels: no more documents than keep the choice a matter of seconds."""
_FEWEST_HELD_OUT = 50
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
    weighting: Weighting = field(init=False)
    held_out: Block = field(init=False)
    _share: float = field(init=False)
    _works: dict[str, Any] = field(default_factory=dict)
    _sums: dict[str, Sums] = field(default_factory=dict)
    _latest: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        corpus = self.corpus
        self._share = 0.0
        self.stats["head"] = self.settings.kind
        if self.settings.kind == "posterior":
            return
        most = min(HELD_OUT_DOCS, max(1000, _HELD_OUT_SCORES // max(1, corpus.n_labels)))
        share = min(HELD_OUT_SHARE, most / max(1, corpus.n_docs))
        self._share = share if share * corpus.n_docs >= _FEWEST_HELD_OUT else 0.0
        if self.settings.has_ridge:
            self.weighting = Weighting.of_counts(*corpus.stored_term_counts, self.settings.scheme)
            self._tell_sizes()

    @property
    def sizes(self) -> HeadSizes:
        assert self.planned is not None
        return self.planned

    def _tell_sizes(self) -> None:
        sizes, wanted = self.sizes, self.settings.dim
        self.stats["head_dim"] = sizes.total
        self.stats["head_dim_reason"] = sizes.reason
        log.info("The head has %d features (%s).", sizes.total, sizes.reason)
        if wanted is not None and sizes.reason.startswith("memory"):
            warnings.warn(
                f"head_dim is reduced from {wanted} to {sizes.total} ({sizes.reason}). "
                "Raise memory_limit for more.",
                stacklevel=6,
            )

    # -- pass 1 -------------------------------------------------------------------------------------------

    def beside_pairs(self) -> list[Pass]:
        works: list[Pass] = []
        if self._share:
            works.append(SetAside(self._share))
        if self.settings.has_ridge:
            omega = gaussian(self.corpus.n_terms, self.sizes.words, self.seed, self.n_threads)
            entries = round(corpus_size(self.corpus).label_words), self.sizes.memory_entries
            works.append(Cross(self.weighting, omega, self.corpus.n_labels, self._share, *entries))
        return self._remember(works)

    def after_pairs(self, sums: Sequence[Sums]) -> None:
        self._take(sums)
        if self.settings.has_ridge:
            self._sums["cross"]["cross"] = self._sums["cross"]["cross"].cut()
        gathered = self._sums["set aside"]["documents"] if self._share else Gathered()
        self.held_out = gathered.joined(self.corpus.n_terms, self.corpus.n_labels)
        self.stats["held_out_docs"] = self.held_out.X.n_rows

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
        return self._remember([Features(self.weighting, B, waves, phases, self.corpus.n_labels, self._share)])

    def after_triples(self, sums: Sequence[Sums]) -> None:
        self._take(sums)

    # -- pass 3, and those of `refine_passes` ---------------------------------------------------------------

    def beside_labels(self, O: Array, pi: Array, Q: Array | None = None) -> list[Pass]:
        """With `Q`, also the labels of a document speak for its topics. O is overwritten where it is used."""
        if not self.settings.has_refined:
            return self._remember([])
        log_O = log_word_topics(O, _E_STEP_SMOOTHING, overwrite=True)
        log_Q = None if Q is None else np.log(Q).astype(np.float32)
        L = self.corpus.n_labels
        return self._remember([Responsibilities(self.view, log_O, log_prior(pi), L, self._share, log_Q)])

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
        if self.settings.kind == "posterior":
            return Head("posterior", replace(paper, smoothing=smoothing))
        choice, calibration = Choice(smoothing=smoothing), None
        self.stats["chosen_on"] = "nothing: defaults"
        if np.count_nonzero(np.diff(self.held_out.Y.indptr)) >= _FEWEST_HELD_OUT // 2:
            choice, calibration = self._choose(self._topics(paper, smoothing))
            self.stats["chosen_on"] = "held-out training documents"
        self.stats["choice"] = choice.as_dict()
        self._give_back()
        topics = self._topics(paper, choice.smoothing, choice.temperature)
        if not self.settings.has_ridge:
            return Head("refined", topics)
        return self._ridge_head(topics, choice, calibration)

    def _topics(self, paper: Topics, smoothing: float, temperature: float = 1.0) -> Topics:
        topics = self.refined_topics() if self.settings.has_refined else paper
        return replace(topics, smoothing=smoothing, temperature=temperature)

    def _ridge_head(self, topics: Topics, choice: Choice, calibration: Calibration | None) -> Head:
        work, moments = self._works["features"], self._sums["features"]
        A = _half(ridge_weights(moments["gram"], moments["labels"], choice.strength))
        cross: CrossMoment = self._sums["cross"]["cross"].cut()
        memory = None
        if choice.memory:
            memory = _scaled(cross.by_word(self.n_threads), _damped(cross.lengths(), choice))
            _half(memory.values_as(np.float32))
        topics_weight = choice.topics if self.settings.has_refined else 0.0
        return Head(
            self.settings.kind,
            topics,
            self.weighting,
            Ridge(work.B, work.waves, work.phases, A),
            memory,
            topics_weight,
            calibration or Calibration.uncalibrated(1 + choice.memory + topics_weight),
        )

    def _give_back(self) -> None:
        """Add the held-out documents to every sum: sums are additive, so nothing is lost."""
        if self.held_out.X.n_rows:
            for name, work in self._works.items():
                if name != "set aside":
                    replace(work, held_out_share=0.0).add(self._sums[name], self.held_out)
        self._works.pop("refine", None)  # its D x K is done with

    def _choose(self, topics: Topics) -> tuple[Choice, Calibration | None]:
        """The choice, and what makes its scores probabilities."""
        X, Y = self.held_out.X, self.held_out.Y
        own = _OwnTopics.of(topics, X) if self.settings.has_refined else None
        if not self.settings.has_ridge:
            assert own is not None
            lists = Shortlists.of(
                Y, _dense([(own.posterior(topics.smoothing), topics.Q)]), self.seed, self.n_threads
            )
            choice, _ = self._choose_topics(own, lists)
            return choice, None
        work, moments = self._works["features"], self._sums["features"]
        cross: CrossMoment = self._sums["cross"]["cross"]
        path = RidgePath.of(moments["gram"], moments["labels"])
        weighted = self.weighting.of(X)
        F = Ridge(work.B, work.waves, work.phases, path.labels).features(weighted) @ path.vectors
        products = [(F * path.filters([Choice().strength]), path.labels)]
        if own is not None:
            products.append((own.posterior(topics.smoothing), topics.Q))
        memory = cross.by_word(self.n_threads)
        lengths = cross.lengths()
        damped = _scaled(memory, _damped(lengths, Choice()))
        lists = Shortlists.of(Y, _dense(products, weighted, damped), self.seed, self.n_threads)
        choice, shares = Choice(smoothing=topics.smoothing), None
        if own is not None:
            choice, shares = self._choose_topics(own, lists)
        parts = Parts(
            STRENGTHS,
            lists.products(F, path.labels, path.filters(STRENGTHS)),
            _memory_at(lists, weighted, memory),
            lengths.astype(np.float32)[lists.labels],
            None if shares is None else np.sqrt(shares),
        )
        choice = choose_blend(lists, parts, choice)
        scores = parts.blend(choice)
        self.stats["held_out"] = lists.measures(scores)
        calibration = Calibration.fitted(scores, lists.hits, lists.weights)
        return choice, calibration

    def _choose_topics(self, own: _OwnTopics, lists: Shortlists) -> tuple[Choice, Array]:
        """Smoothing and temperature that are best for the topics alone; and their scores at the pairs."""
        smoothings = SMOOTHINGS if self.settings.smoothing is None else (self.settings.smoothing,)
        choices = [
            Choice(smoothing=smoothing, temperature=temperature)
            for smoothing in smoothings
            for temperature in TEMPERATURES
        ]
        posteriors = map_tasks(
            lambda choice: own.posterior(choice.smoothing, choice.temperature),
            choices,
            name="choose",
            n_threads=self.n_threads,
        )
        shares = [lists.products(P, own.topics.Q)[0] for P in posteriors]
        found = lists.measures_of([partial(np.asarray, scores) for scores in shares])
        best = max(range(len(choices)), key=lambda i: objective(found[i]))
        self.stats["held_out_topics"] = found[best]
        return choices[best], shares[best]

    def _remember(self, works: list[Pass]) -> list[Pass]:
        self._works |= {work.name: work for work in works}
        self._latest = [work.name for work in works]
        return works

    def _take(self, sums: Sequence[Sums]) -> None:
        self._sums |= dict(zip(self._latest, sums, strict=True))


@dataclass(frozen=True, slots=True)
class _OwnTopics:
    """The topics of some documents, over the words of these alone: they are few beside all words."""

    topics: Topics
    X: SparseRows
    O: Array
    """(words of these documents, K)."""

    @classmethod
    def of(cls, topics: Topics, X: SparseRows) -> _OwnTopics:
        own, words = X.compact()
        return cls(topics, own, topics.O[words])

    def posterior(self, smoothing: float, temperature: float = 1.0) -> Array:
        """(n, K) float32: P[topic | document]."""
        log_O = log_word_topics(self.O, smoothing, len(self.topics.O))
        return posterior(self.X, log_O, self.topics.log_pi, temperature=temperature)


def _half(matrix: Array) -> Array:
    """Round to what half precision holds, in which models are saved, in place; what is too large stays."""
    largest = max(matrix.max(initial=0), -matrix.min(initial=0))
    if largest <= np.finfo(np.float16).max:
        kernels.round_to_half(matrix.reshape(-1))
    return matrix


def _damped(lengths: Array, choice: Choice) -> Array:
    total = lengths + choice.damping
    return np.asarray(choice.memory / np.where(total > 0, total, 1))


def _scaled(C: SparseRows, scale: Array) -> SparseRows:
    """Each column times its scale."""
    return replace(C, values=C.values_as(np.float32) * scale.astype(np.float32)[C.indices])


def _memory_scores(X: SparseRows, C: SparseRows) -> Array:
    """(n, L) float32: X~ C."""
    out = np.zeros((X.n_rows, C.n_columns), np.float32)
    cross_kernels.add_scores(X.indptr, X.indices, X.values, C.indptr, C.indices, C.values, 0, out)
    return out


def _memory_at(lists: Shortlists, X: SparseRows, C: SparseRows) -> Array:
    """(pairs,) float32: X~ C at the pairs of the shortlists."""

    def some(rows: slice) -> Array:
        indptr = lists.indptr[rows.start : rows.stop + 1]
        documents = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        scores = _memory_scores(X.slice(rows.start, rows.stop), C)
        return np.asarray(scores[documents, lists.labels[indptr[0] : indptr[-1]]])

    return np.concatenate(lists.for_some_rows(some, C.n_columns))


def _dense(
    products: Sequence[tuple[Array, Array]], words: SparseRows | None = None, memory: SparseRows | None = None
) -> Callable[[slice], list[Array]]:
    """Some rows -> their scores of all labels, by each of the products and by the memory."""

    def scores(rows: slice) -> list[Array]:
        parts = [F[rows] @ A.T for F, A in products]
        if words is not None and memory is not None:
            parts.append(_memory_scores(words.slice(rows.start, rows.stop), memory))
        return parts

    return scores
