"""How documents become label scores: by topics, by ridge regression with a memory, or by all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from ..corpus.rows import SparseRows
from ..linalg.tall import reorder_rows
from ..types import Array
from . import cross_kernels
from .calibration import Calibration
from .features import features
from .responsibilities import posterior
from .tiles import Tiles
from .weighting import Weighting

Kind = Literal["posterior", "refined", "ridge", "blend"]
_SHARES = "P[label | document] of the topic model: the labels' shares, which add up to 1 over all labels"
_CALIBRATED = "the probability that the document carries the label, calibrated on held-out documents"
_UNCALIBRATED = "a number between 0 and 1, uncalibrated: there were too few training documents for that"
KINDS = get_args(Kind)


@dataclass(frozen=True)
class Topics:
    """The topic model: P[label | document] = sum_k Q_lk P[topic k | document] (the paper's equation 14)."""

    O: Array
    """(D, K) float32: P[word | topic]."""
    Q: Array
    """(L, K) float32: P[label | topic]."""
    pi: Array
    """(K,) float64: P[topic]."""
    smoothing: float = 0.1
    """Share of uniform mass mixed into each topic's words: no single word may rule a topic out."""
    temperature: float = 1.0
    """Above 1, topics are less sure of themselves: words are not as independent as the model says."""

    @cached_property
    def log_O(self) -> Array:
        return log_word_topics(self.O, self.smoothing)

    @property
    def log_pi(self) -> Array:
        return log_prior(self.pi)

    def posterior(self, X: SparseRows) -> Array:
        """(n, K) float32: P[topic | document]."""
        return posterior(X, self.log_O, self.log_pi, temperature=self.temperature)


def log_prior(pi: Array) -> Array:
    """(K,) float64: log of the topics' weights, finite."""
    return np.log(np.maximum(pi, 1e-300))


def log_word_topics(O: Array, smoothing: float, n_terms: int | None = None, overwrite: bool = False) -> Array:
    """(D, K) float32: log of O mixed with a uniform distribution; of `n_terms` words, if O has but some."""
    mixed = np.multiply(O, np.float32(1 - smoothing), out=O if overwrite else None)
    mixed += smoothing / max(1, len(O) if n_terms is None else n_terms)
    return np.log(mixed, out=mixed)


@dataclass(frozen=True)
class Ridge:
    """Linear regression of labels on features of the weighted words."""

    B: Array
    """(D, p_linear) float32."""
    waves: Array
    """(p_linear, m) float32."""
    phases: Array
    """(m,) float32."""
    A: Array
    """(L, p) float32: what each feature says of each label."""

    def features(self, X: SparseRows) -> Array:
        return features(X, self.B, self.waves, self.phases)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a head has made of some documents, before it looks at any label."""

    n_docs: int
    P: Array | None = None
    """(n, K) float32: P[topic | document]."""
    F: Array | None = None
    """(n, p) float32: features."""
    X: SparseRows | None = None
    """(n, D) float32: weighted words."""
    has_words: Array | None = None
    """(n,) bool: which of the documents have a word that is known."""

    def take(self, rows: Array) -> Seen:
        """Some of the documents."""
        return Seen(
            len(rows),
            None if self.P is None else self.P[rows],
            None if self.F is None else self.F[rows],
            None if self.X is None else self.X.take(rows),
            None if self.has_words is None else self.has_words[rows],
        )


@dataclass(frozen=True)
class Head:
    """Everything that predicting labels takes; words in the order of the matrices it was learned from.

    For `posterior` and `refined`, scores are the topic model's. For `ridge` and `blend` they are
    F A' + X~ C + b sqrt(P Q'), ridge regression, the memory of rare labels and, for `blend`, the topics; and
    a calibration makes them probabilities.
    """

    kind: Kind
    topics: Topics
    weighting: Weighting | None = None
    ridge: Ridge | None = None
    memory: SparseRows | None = None
    """(D, L): C, the labels' centroids X~'Y, damped and weighted."""
    topics_weight: float = 0.0
    calibration: Calibration | None = None
    threshold: float | None = None
    """The probability from which on labels are assigned by default, where one could be chosen."""
    emphasis: Array | None = None
    """(L,) float32: what each label's probability is multiplied by before labels are ranked."""
    plain: Head | None = None
    """The head without that emphasis, where it is at hand: they share their tiles."""

    @property
    def n_labels(self) -> int:
        return len(self.topics.Q)

    @property
    def is_refined(self) -> bool:
        """Whether the topics are those after EM, and not those that the moments gave."""
        return self.kind in ("refined", "blend")

    @cached_property
    def tiles(self) -> Tiles:
        """The labels in tiles, by which `top_labels` leaves most of them out."""
        if self.plain is not None:
            return self.plain.tiles
        A = None if self.ridge is None else self.ridge.A
        return Tiles.of(self.topics.Q, A, self.topics_weight)

    def see(self, X: SparseRows) -> Seen:
        """Topics and features of some documents."""
        has_words = np.diff(X.indptr) > 0
        if self.ridge is None:
            return Seen(X.n_rows, P=self.topics.posterior(X), has_words=has_words)
        assert self.weighting is not None
        weighted = self.weighting.of(X)
        P = self.topics.posterior(X) if self.topics_weight else None
        return Seen(X.n_rows, P, self.ridge.features(weighted), weighted, has_words)

    def scores(self, seen: Seen, rows: slice, labels: slice) -> Array:
        """(s, t) float32: raw scores of some labels for some documents.

        Cost: 2 s t (p + K) flops, and for each word of each document the labels that it is a memory of.
        """
        if self.ridge is None:
            assert seen.P is not None
            return np.asarray(seen.P[rows] @ self.topics.Q[labels].T)
        assert seen.F is not None
        assert seen.X is not None
        S = seen.F[rows] @ self.ridge.A[labels].T
        if self.memory is not None:
            X = seen.X.slice(rows.start, rows.stop)
            C = self.memory
            words = X.indptr, X.indices, X.values
            cross_kernels.add_scores(*words, C.indptr, C.indices, C.values, labels.start, S)
        if seen.P is not None:
            shares = seen.P[rows] @ self.topics.Q[labels].T
            np.sqrt(shares, out=shares)
            shares *= np.float32(self.topics_weight)
            S += shares
        return np.asarray(S)

    @property
    def is_calibrated(self) -> bool:
        """Whether scores are probabilities that were calibrated on held-out documents."""
        return self.calibration is not None and self.calibration.is_fitted

    @property
    def meaning(self) -> str:
        """What scores mean, in words."""
        if self.calibration is None:
            return _SHARES
        return _CALIBRATED if self.is_calibrated else _UNCALIBRATED

    def probabilities(self, scores: Array) -> Array:
        """Raw scores as what `meaning` says they are; the order of labels stays."""
        return scores if self.calibration is None else self.calibration.apply(scores)

    def ranking(self, scores: Array, labels: slice) -> Array:
        """What labels are ranked by: raw scores, or re-weighted probabilities where that was asked for."""
        return scores if self.emphasis is None else self.probabilities(scores) * self.emphasis[labels]

    def shown(self, ranking: Array) -> Array:
        """The same as users see it: probabilities, or these times the emphasis."""
        return self.probabilities(ranking) if self.emphasis is None else ranking

    def reordered(self, words: Array, n_threads: int | None = None) -> Head:
        """The head with words in another order, in place: word `i` is what word `words[i]` was."""
        ridge, weighting, memory = self.ridge, self.weighting, self.memory
        return replace(
            self,
            topics=replace(self.topics, O=reorder_rows(self.topics.O, words, n_threads)),
            ridge=None if ridge is None else replace(ridge, B=reorder_rows(ridge.B, words, n_threads)),
            weighting=None if weighting is None else replace(weighting, idf=weighting.idf[words]),
            memory=None if memory is None else memory.take(words),
        )

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without what is derived."""
        arrays = [self.topics.O, self.topics.Q, self.topics.pi]
        if self.ridge is not None:
            arrays += [self.ridge.B, self.ridge.waves, self.ridge.phases, self.ridge.A]
        return sum(array.nbytes for array in arrays) + (0 if self.memory is None else self.memory.nbytes)
