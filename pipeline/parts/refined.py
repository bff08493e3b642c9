"""Topics after one EM step, or several: good at the order of all the other labels.

Read 3 sums how likely each topic is for each document, R, and words and labels by that: X'R and Y'R. Further
reads do so again, with labels speaking for topics too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..moments.posterior import TopicModel, log_prior, log_word_topics, posterior
from ..moments.topics import MomentTopics
from ..moments.words import WordView
from ..passes import kernels
from ..passes.cost import Cost, Needs, Size
from ..passes.label_rows import label_bytes, zero_labels
from ..passes.sums import Sums
from ..passes.tall import TallSum, segment_tall_bytes, tall_bytes
from ..passes.work import Pass, hollow
from ..tasks import map_tasks
from ..types import Array
from .part import Choice, Context, Evidence, Making, Part, Scale, Scorer, Stored, Trial, Words
from .selection import Shortlists
from .terms import Dense, Side, Term

WEIGHTS = Scale((0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0))
SMOOTHINGS = (0.01, 0.1, 0.3)
TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
SMOOTHING = 0.1
"""Of topics' words, where nothing is chosen."""
_E_STEP_SMOOTHING = 0.1
_LABEL_SMOOTHING = 0.01
_LEAST_SHARE = 0.005
"""Topics that say less than this of what all say for a label are not worth telling."""


@dataclass
class ResponsibilitySums(Sums):
    """Words, labels and documents by topic."""

    words: TallSum
    """X'R (D, K)."""
    labels: Array
    """(L, K): Y'R."""
    topics: Array
    """(K,) float64: sum R."""


@dataclass(frozen=True)
class Responsibilities(Pass[ResponsibilitySums]):
    """X'R, Y'R and R summed, where R ~ pi exp(X log O), rows of R adding up to 1.

    With `log_Q` also the document's labels speak: R ~ pi exp(X log O + Y log Q).
    """

    view: WordView
    log_O: Array
    """(D, K) float32."""
    log_pi: Array
    """(K,) float64."""
    n_labels: int
    log_Q: Array | None = None
    """(L, K) float32."""
    name = "responsibilities"

    def needs(self, size: Size) -> Needs:
        D, K = self.log_O.shape
        labels = label_bytes(self.n_labels, K)
        gathered = 12 * size.x_nnz * K + (8 if self.log_Q is None else 12) * size.y_nnz * K
        return Needs(
            tall_bytes(D, K) + labels,
            segment_tall_bytes(D, K, size.n_docs, size.x_nnz) + labels,
            slab_document=16 * K,
            block_document=4 * K,
            cost=Cost(gathered=gathered),
        )

    def zero(self) -> ResponsibilitySums:
        D, K = self.log_O.shape
        return ResponsibilitySums(TallSum.zero(D, K), zero_labels(self.n_labels, K), np.zeros(K))

    def add(self, sums: ResponsibilitySums, block: Block) -> None:
        X = self.view.words(block)
        R = np.empty((X.n_rows, len(self.log_pi)), np.float32)
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            words, labels = X.slice(start, stop), block.Y.slice(start, stop)
            R[start:stop] = posterior(words, self.log_O, self.log_pi, labels, self.log_Q)
            kernels.add_label_moments(labels, R[start:stop], sums.labels)
            sums.topics += R[start:stop].sum(axis=0, dtype=np.float64)
        sums.words.add(X, R)


@dataclass(frozen=True)
class TopicScorer(Scorer):
    """Labels by the topics of a document: P Q', or its square root as an addend."""

    model: TopicModel
    weight: float = 0.0
    """Of the square root; 0 for P Q' itself."""

    @property
    def terms(self) -> Sequence[Term]:
        return [Dense(self.model.Q, self.weight, is_nonnegative=True)]

    def see(self, words: Words) -> Sequence[Side]:
        return [self.model.posterior(words.X)]

    @property
    def largest(self) -> float:
        return self.weight or 1.0

    def numbers(self) -> dict[str, float]:
        model = self.model
        return {"weight": self.weight, "smoothing": model.smoothing, "temperature": model.temperature}

    def evidence(self, words: Words, label: int) -> Evidence:
        shown = self.model.posterior(words.X)[0].astype(np.float64)
        shares = shown * self.model.Q[label]
        shares /= max(shares.sum(), 1e-300)
        order = np.argsort(-shares, kind="stable")
        told = [(int(k), float(shown[k]), float(shares[k])) for k in order if shares[k] >= _LEAST_SHARE]
        return Evidence(told)


class Refined(TopicScorer):
    """Labels by topics after EM."""

    name = "refined"
    described = "the topics after their refinement"

    def arrays(self) -> dict[str, Array]:
        return {"word_topics": self.model.O, "label_topics": self.model.Q, "topic_weights": self.model.pi}

    @classmethod
    def load(cls, stored: Stored, moments: MomentTopics) -> Self:
        pi = stored.read("topic_weights", (None,), np.float64)
        if not len(pi):
            raise stored.damaged("topic_weights", "there are no topics")
        arrays = {
            "word_topics": stored.read("word_topics", (len(moments.W), len(pi)), np.float32),
            "label_topics": stored.read("label_topics", (len(moments.Q), len(pi)), np.float32),
            "topic_weights": pi,
        }
        for name, array in arrays.items():
            if array.min(initial=0) < 0:
                raise stored.damaged(name, "probabilities are below 0")
        return cls(stored_model(stored, *arrays.values()), stored.number("weight", 0, 1e6))

    def reordered(self, words: Array, moments: MomentTopics, n_threads: int | None = None) -> Self:
        return replace(self, model=self.model.reordered(words, n_threads))


def stored_model(stored: Stored, O: Array, Q: Array, pi: Array) -> TopicModel:
    """A topic model with the numbers that were saved."""
    return TopicModel(O, Q, pi, stored.number("smoothing", 0, 1), stored.number("temperature", 1e-6, 1e6))


class TopicPart(Part):
    """Base of parts that score by topics: smoothing and temperature, and how they are tried."""

    @property
    def defaults(self) -> Choice:
        smoothing = self.context.settings.smoothing
        own = {"smoothing": SMOOTHING if smoothing is None else smoothing, "temperature": 1.0}
        return own if self.context.is_alone else {"weight": 0.2, **own}

    @abstractmethod
    def model(self) -> TopicModel:
        """Topics as they are now."""

    def trial(self, documents: Words) -> Trial:
        return TopicTrial.of(self, self.model(), documents.X)

    @property
    def tried(self) -> list[tuple[float, float]]:
        """Smoothing and temperature of each row of a trial's scores."""
        options = {name: (value,) for name, value in self.defaults.items()} | dict(self.own_options())
        return [(s, t) for s in options["smoothing"] for t in options["temperature"]]

    def pair_scores(self, at: Mapping[str, Array], choice: Choice) -> Array:
        shares = at["shares"][self.tried.index((choice["smoothing"], choice["temperature"]))]
        if self.context.is_alone:
            return np.asarray(shares)
        return np.asarray(np.float32(choice["weight"]) * np.sqrt(shares))


class RefinedPart(TopicPart):
    """Topics under EM."""

    name = "refined"
    scorer = Refined
    refines = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.work: Responsibilities | None = None
        self.first: Responsibilities | None = None
        """The step of read 3, for folds to take again."""
        self.sums: ResponsibilitySums | None = None

    def held(self) -> Sequence[Any]:
        return [self.work, self.first, self.sums]

    @property
    def _reads(self) -> range:
        return range(3, 4 + self.context.settings.refine_passes)

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        return () if self.work is None or read not in self._reads else [self.work]

    def take(self, read: int, sums: Sequence[Any]) -> None:
        (self.sums,) = sums

    def give_back(self, held_out: Block) -> None:
        assert self.work is not None
        assert self.sums is not None
        self.work.add(self.sums, held_out)

    def prepares(self, read: int) -> str | None:
        return "topic words" if read in self._reads else None

    def prepare(self, read: int) -> None:
        view, L = self.context.moments.settings.view, self.context.corpus.n_labels
        if read == 3 and self.first is None:
            log_O = log_word_topics(
                self.context.moments.take_word_topics(), _E_STEP_SMOOTHING, overwrite=True
            )
            self.work = Responsibilities(view, log_O, log_prior(self.context.moments.pi), L)
            self.first = self.work if self.context.keeps_documents else None
        elif read == 3:
            self.work = self.first
        else:
            model = self.model()
            log_O = log_word_topics(model.O, _E_STEP_SMOOTHING, overwrite=True)
            self.work = Responsibilities(view, log_O, log_prior(model.pi), L, np.log(model.Q))

    def pretend(self, read: int) -> None:
        D, L, K = self.context.corpus.n_terms, self.context.corpus.n_labels, self.context.moments.n_topics
        if read == 3:
            self.context.moments.O = None
        log_Q = hollow(L, K) if read > 3 else None
        view = self.context.moments.settings.view
        self.work = Responsibilities(view, hollow(D, K), hollow(K), L, log_Q)

    def preparing(self, read: int) -> Making:
        made = self.context.moments.tall_bytes
        return Making() if read == 3 else Making(2 * made + 2 * self._label_bytes)

    @property
    def _label_bytes(self) -> int:
        return label_bytes(self.context.corpus.n_labels, self.context.moments.n_topics)

    def own_options(self) -> Mapping[str, Sequence[float]]:
        given = self.context.settings.smoothing
        return {"smoothing": SMOOTHINGS if given is None else (given,), "temperature": TEMPERATURES}

    def options(self) -> Mapping[str, Sequence[float]]:
        return {} if self.context.is_alone else {"weight": WEIGHTS}

    def model(self) -> TopicModel:
        """The M-step: O ~ X'R, Q ~ Y'R and pi ~ sum R."""
        sums = self.sums
        assert sums is not None
        Q = sums.labels + _LABEL_SMOOTHING
        words = sums.words.finished()
        totals = words.sum(axis=0, dtype=np.float64)
        O = words * (1 / np.where(totals > 0, totals, 1)).astype(np.float32)
        O[:, totals == 0] = 1 / self.context.corpus.n_terms
        pi = sums.topics / max(sums.topics.sum(), 1e-300)
        return TopicModel(O, (Q / Q.sum(axis=0)).astype(np.float32), pi)

    def finish(self, choice: Choice) -> Scorer | None:
        self.work = self.first = None  # each has a D x K of its own
        model = replace(self.model(), smoothing=choice["smoothing"], temperature=choice["temperature"])
        self.sums = None
        if self.context.is_alone:
            return Refined(model)
        return Refined(model, choice["weight"]) if choice["weight"] else None

    def finishing(self) -> Making:
        return Making(self.context.moments.tall_bytes + 2 * self._label_bytes)

    def remains(self) -> Sequence[Array]:
        D, L, K = self.context.corpus.n_terms, self.context.corpus.n_labels, self.context.moments.n_topics
        return [hollow(D, K), hollow(L, K), hollow(K, dtype=np.float64)]

    def fold(self, context: Context) -> Part:
        part = type(self)(context)
        part.first = self.first
        return part


@dataclass(frozen=True)
class TopicTrial(Trial):
    """Topics' scores of held-out documents, over the words of these alone: they are few beside all words."""

    part: TopicPart
    model: TopicModel
    X: SparseRows
    """(n, words of these documents)."""
    O: Array
    """(words of these documents, K)."""
    P: Array
    """(n, K): by the defaults."""

    @classmethod
    def of(cls, part: TopicPart, model: TopicModel, X: SparseRows) -> TopicTrial:
        own, words = X.compact()
        trial = cls(part, model, own, model.O[words], np.zeros((0, 0), np.float32))
        return replace(trial, P=trial.posterior(part.defaults["smoothing"], part.defaults["temperature"]))

    def posterior(self, smoothing: float, temperature: float) -> Array:
        """(n, K) float32: P[topic | document]."""
        log_O = log_word_topics(self.O, smoothing, len(self.model.O))
        return posterior(self.X, log_O, self.model.log_pi, temperature=temperature)

    def dense(self, rows: slice) -> Array:
        return np.asarray(self.P[rows] @ self.model.Q.T)

    def at(self, lists: Shortlists) -> dict[str, Array]:
        found = map_tasks(
            lambda tried: self.posterior(*tried), self.part.tried, name="choose", n_threads=lists.n_threads
        )
        return {"shares": np.stack([lists.products(P, self.model.Q) for P in found])}
