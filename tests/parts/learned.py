"""Parts that learn from dense matrices in memory, read by read, without a corpus or a runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.rows import block_of, sparse_rows, summed
from threepass.moments.method import MomentSettings
from threepass.parts.part import Context, Part, PartSettings, Scorer, Words
from threepass.parts.weighting import Weighting
from threepass.passes.plan import PARTS_BYTES
from threepass.passes.stages import Gatherer, Layout
from threepass.passes.sums import Sums
from threepass.passes.work import Pass

Matrices = tuple[np.ndarray, np.ndarray]


def labelled_by_words(n: int, seed: int = 0) -> Matrices:
    """Documents whose labels follow from single words, which topics alone cannot tell apart.

    There are 30 labels, each with a word of its own that comes with it nine times out of ten; the first are
    frequent and the last are rare. The other words come from one of three topics.
    """
    rng = np.random.default_rng(seed)
    rates = 0.5 / np.arange(1, 31)
    Y = (rng.random((n, 30)) < rates) * 1
    signs = Y * (rng.random(Y.shape) < 0.9)
    topics = np.random.default_rng(9).dirichlet(np.full(60, 0.3), 3)  # the same for every seed
    words = np.array([rng.multinomial(12, topics[i]) for i in rng.integers(3, size=n)]).reshape(n, 60)
    X = np.hstack([words, signs])
    X[::50] = 0
    return X, Y


@dataclass
class PlantedTopics:
    """Topics in the place of those that the moments give, as far as parts ask for them."""

    O: np.ndarray
    Q: np.ndarray
    pi: np.ndarray
    n_terms: int
    settings: MomentSettings = field(default_factory=MomentSettings)

    @classmethod
    def random(cls, n_terms: int, n_labels: int, K: int = 3) -> PlantedTopics:
        rng = np.random.default_rng(8)
        O, Q = (rng.dirichlet(np.full(n, 0.5), K).T.astype(np.float32) for n in (n_terms, n_labels))
        return cls(O, Q, np.arange(1, K + 1) / sum(range(K + 1)), n_terms)

    @property
    def W(self) -> np.ndarray:
        return self.O

    @property
    def n_topics(self) -> int:
        return len(self.pi)

    @property
    def tall_bytes(self) -> int:
        return 4 * self.n_terms * self.n_topics

    def take_word_topics(self) -> np.ndarray:
        return self.O.copy()

    def topics(self) -> PlantedTopics:
        return self


def context_of(X: np.ndarray, Y: np.ndarray, is_alone: bool = False, **settings: Any) -> Context:
    """For parts of a corpus with these documents."""
    info = SimpleNamespace(blocks=[SimpleNamespace(n_docs=len(X), x_nnz=(X > 0).sum(), y_nnz=Y.sum())])
    corpus: Any = SimpleNamespace(n_docs=len(X), n_terms=X.shape[1], n_labels=Y.shape[1], info=info)
    moments: Any = PlantedTopics.random(X.shape[1], Y.shape[1])
    return Context(
        PartSettings(**settings),
        corpus,
        moments,
        Layout(1, 0, PARTS_BYTES, 0),
        Weighting.of_counts((X > 0).sum(axis=0), len(X), settings.get("scheme", "log")),
        n_threads=1,
        is_alone=is_alone,
    )


@dataclass
class Learned:
    """A part that has learned, and what it and those that it shares have summed."""

    part: Part
    sums: list[tuple[Gatherer, Pass[Any], Sums]] = field(default_factory=list)

    @property
    def context(self) -> Context:
        return self.part.context

    @property
    def gatherers(self) -> list[Gatherer]:
        return [*self.context.shared.values(), self.part]

    def give_back(self, X: np.ndarray, Y: np.ndarray) -> None:
        for gatherer in self.gatherers:
            gatherer.give_back(block_of(X, Y))

    def finished(self, **choice: float) -> Scorer:
        scorer = self.part.finish({**self.part.defaults, **choice})
        assert scorer is not None
        return scorer


def learned(part: Part, X: np.ndarray, Y: np.ndarray, blocks: Sequence[Any] | None = None) -> Learned:
    """The part, after all reads of these documents."""
    result = Learned(part)
    for read in range(1, 4 + part.context.settings.refine_passes):
        if part.prepares(read):
            part.prepare(read)
        for gatherer in result.gatherers:
            works = gatherer.passes(read)
            sums = [summed(work, *(blocks or [block_of(X, Y)])) for work in works]
            if works:
                gatherer.take(read, sums)
            result.sums += [(gatherer, *pair) for pair in zip(works, sums, strict=True)]
    return result


def words_of(context: Context, X: np.ndarray) -> Words:
    return Words(sparse_rows(X, np.float32), context.weighting)
