"""What a head chooses, from documents that its sums do not know: options, calibration and threshold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..corpus.rows import SparseRows
from ..linalg.ridge import RidgePath
from ..passes.sums import Sums
from ..tasks import map_tasks
from ..types import Array
from . import cross_kernels
from .calibration import FEWEST_HITS, Calibration
from .cross import CrossMoment
from .features import Features
from .heads import Ridge, Topics, log_word_topics
from .responsibilities import posterior
from .selection import (
    SMOOTHINGS,
    STRENGTHS,
    TEMPERATURES,
    Choice,
    Parts,
    Shortlists,
    best_threshold,
    choose_blend,
    objective,
)
from .weighting import Weighting


@dataclass(frozen=True, slots=True)
class RidgeSums:
    """Features of the words, their moments F'F and Y'F, and the memory X~'Y: all that ridge scores take."""

    weighting: Weighting
    features: Features
    moments: Sums
    cross: CrossMoment


def topic_options(smoothing: float | None, temperatures: Sequence[float] = TEMPERATURES) -> list[Choice]:
    """Every smoothing, or the given one, with every temperature."""
    smoothings = SMOOTHINGS if smoothing is None else (smoothing,)
    return [Choice(smoothing=s, temperature=t) for s in smoothings for t in temperatures]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Scores of held-out documents at their shortlists, by every part of a head and for every option."""

    lists: Shortlists
    options: Sequence[Choice] = ()
    """Smoothing and temperature of each row of `shares`."""
    shares: Array | None = None
    """(options, pairs) float32: P Q'."""
    ridge: Array | None = None
    """(strengths, pairs) float32."""
    memory: Array | None = None
    """(pairs,) float32: X~ c_l."""
    lengths: Array | None = None
    """(pairs,) float32: |c_l|."""

    @classmethod
    def of(
        cls,
        documents: tuple[SparseRows, SparseRows],
        topics: Topics | None,
        options: Sequence[Choice],
        ridge: RidgeSums | None,
        seed: int,
        n_threads: int | None,
    ) -> Candidates:
        """Score documents with sums that they are not part of.

        Parameters
        ----------
        documents
            Their words (n, D) and labels (n, L).
        topics
            None where the head leaves topics out.
        options
            Choices of smoothing and temperature to score the topics with.
        """
        X, Y = documents
        own = None if topics is None else _OwnTopics.of(topics, X)
        products = [] if own is None else [(own.posterior(own.topics.smoothing), own.topics.Q)]
        if ridge is None:
            lists = Shortlists.of(Y, _dense(products), seed, n_threads)
            return cls(lists, options, _shares(lists, own, options))
        path = RidgePath.of(ridge.moments["gram"], ridge.moments["labels"], n_threads)
        weighted = ridge.weighting.of(X)
        basis = ridge.features
        F = Ridge(basis.B, basis.waves, basis.phases, path.labels).features(weighted) @ path.vectors
        products.insert(0, (F * path.filters([Choice().strength]), path.labels))
        memory, lengths = ridge.cross.by_word(n_threads), ridge.cross.lengths()
        doubted = scaled(memory, damped(lengths, Choice()))
        lists = Shortlists.of(Y, _dense(products, weighted, doubted), seed, n_threads)
        return cls(
            lists,
            options,
            _shares(lists, own, options),
            lists.products(F, path.labels, path.filters(STRENGTHS)),
            _memory_at(lists, weighted, memory),
            lengths.astype(np.float32)[lists.labels],
        )

    @classmethod
    def joined(cls, folds: Sequence[Candidates]) -> Candidates:
        """The same of several sets of documents, each scored by sums of its own."""
        if len(folds) == 1:
            return folds[0]
        names = ("shares", "ridge", "memory", "lengths")
        sides = {name: [getattr(fold, name) for fold in folds] for name in names}
        lists = Shortlists.joined([fold.lists for fold in folds])
        whole = {
            name: None if parts[0] is None else np.concatenate(parts, axis=-1)
            for name, parts in sides.items()
        }
        return cls(lists, folds[0].options, **whole)

    def parts(self, shares: Array | None) -> Parts:
        """Of the blend; with the shares of one choice of smoothing and temperature."""
        assert self.ridge is not None
        assert self.memory is not None
        assert self.lengths is not None
        topics = None if shares is None else np.sqrt(shares)
        return Parts(STRENGTHS, self.ridge, self.memory, self.lengths, topics)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen, and how good it is on the documents it was chosen on."""

    choice: Choice
    calibration: Calibration | None = None
    threshold: float | None = None
    """The score from which on labels are assigned, by micro-F1."""
    stats: dict[str, Any] = field(default_factory=dict)


def choose(found: Candidates, start: Choice) -> Chosen:
    """The best options, the map from scores to probabilities, and the threshold of the best micro-F1."""
    lists, choice, shares = found.lists, start, None
    stats: dict[str, Any] = {}
    if found.shares is not None:
        measured = lists.measures_of([partial(np.asarray, scores) for scores in found.shares])
        best = max(range(len(found.options)), key=lambda i: objective(measured[i]))
        choice, shares = found.options[best], found.shares[best]
        stats["held_out_topics"] = measured[best]
    calibration = None
    if found.ridge is None:
        assert shares is not None
        scores = shares
    else:
        parts = found.parts(shares)
        choice = choose_blend(lists, parts, choice)
        scores = parts.blend(choice)
        stats["held_out"] = lists.measures(scores)
        calibration = Calibration.fitted(scores, lists.hits, lists.weights)
        if calibration is None:
            return Chosen(choice, stats=stats)
        scores = calibration.apply(scores)
    if lists.hits.sum() < FEWEST_HITS:
        return Chosen(choice, stats=stats)
    threshold, f1 = best_threshold(scores, lists.hits, lists.weights)
    stats["threshold"] = {"value": threshold, "micro_f1": f1}
    return Chosen(choice, calibration, threshold, stats)


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


def _shares(lists: Shortlists, own: _OwnTopics | None, options: Sequence[Choice]) -> Array | None:
    """(options, pairs) float32: P Q' at the pairs, for each choice of smoothing and temperature."""
    if own is None:
        return None
    posteriors = map_tasks(
        lambda choice: own.posterior(choice.smoothing, choice.temperature),
        options,
        name="choose",
        n_threads=lists.n_threads,
    )
    return np.concatenate([lists.products(P, own.topics.Q) for P in posteriors])


def damped(lengths: Array, choice: Choice) -> Array:
    """(L,): what the memory of each label is multiplied by."""
    total = lengths + choice.damping
    return np.asarray(choice.memory / np.where(total > 0, total, 1))


def scaled(C: SparseRows, scale: Array) -> SparseRows:
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
