"""Algorithm 1, step by step: what each read sums, and what is made of it before the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from ..corpus.store import Corpus
from ..display import how_many
from ..errors import InputError
from ..passes.cost import Cost, corpus_size
from ..passes.label_rows import label_bytes
from ..passes.runner import Runner
from ..passes.stages import Gatherer, Layout, Price, Read, Stage
from ..passes.work import Pass, hollow
from ..types import Array
from ..warn import warn
from .error_bars import ErrorBars, half_directions, word_error_bars
from .labels import Directions, LabelPairs, LabelSums, even_label_moments, label_moments
from .pairs import Pairs, PairSums, Sketch, Statistics, exact_m2, sketched_m2
from .recover import Prior, label_topics, topic_weights, word_topics
from .sample import PANEL, SAMPLING, read_sample, sample_product, sampled_blocks
from .tensor import TensorDecomposition, decompose
from .topics import MomentTopics
from .triples import Triples, TripleSums
from .whitening import (
    Whitening,
    exact_whitening,
    rotated,
    rotation,
    sketched_whitening,
    warm_start,
)
from .words import WordView

DEFAULT_TOPICS = 100
EXACT_TERMS = 4096
"""Widest corpus whose word pairs are held whole: 134 MB of M2 in double precision."""
_FEWEST_FOR_BARS = 20
"""Documents of which one half says something of what the other half would have given."""


@dataclass(frozen=True, slots=True)
class MomentSettings:
    """Settings that decide the topics, besides the corpus."""

    n_components: int = DEFAULT_TOPICS
    whitening: Literal["auto", "exact", "sketch"] = "auto"
    tensor: Literal["orthogonal", "power"] = "orthogonal"
    prior: Prior = "eigenvalues"
    view: WordView = field(default_factory=WordView)
    error_bars: bool = True
    seed: int = 0

    def topic_count(self, corpus: Corpus) -> int:
        """Topics that there can be at most: as many as the rank of the word pairs."""
        return max(1, min(self.n_components, corpus.n_terms, corpus.n_docs))

    def is_exact(self, n_terms: int) -> bool:
        return self.whitening == "exact" or (self.whitening == "auto" and n_terms <= EXACT_TERMS)


@dataclass(frozen=True, slots=True)
class Turn:
    """Rotation that makes W an exact whitening of the whole corpus."""

    R: Array
    """(K, K'): W R is the exact one."""
    eigenvalues: Array
    """(K',): of M2."""


@dataclass
class MomentMethod(Gatherer):
    """Algorithm 1 under way. What is no longer needed is let go."""

    settings: MomentSettings
    corpus: Corpus
    n_threads: int | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    """Numbers for `fit_stats_`."""
    sketch: Sketch | None = None
    pair_sums: PairSums | None = None
    whitening: Whitening | None = None
    triples: Triples | None = None
    triple_sums: TripleSums | None = None
    tensor: TensorDecomposition | None = None
    turn: Turn | None = None
    O: Array | None = None
    """(D, K): P[word | topic], until somebody takes it."""
    half: Array | None = None
    """(K, K): what the even documents alone would give for U."""
    bars: ErrorBars | None = None
    labels: LabelPairs | None = None
    label_sums: LabelSums | None = None
    label_counts: Array | None = None
    statistics: Statistics | None = None
    Q: Array | None = None

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        if read == 1:
            return [Pairs(self.settings.view, self.corpus.n_terms, self.sketch)]
        work = {2: self.triples, 3: self.labels}.get(read)
        return () if work is None else [work]

    def take(self, read: int, sums: Sequence[Any]) -> None:
        name = {1: "pair_sums", 2: "triple_sums", 3: "label_sums"}[read]
        (own,) = sums
        setattr(self, name, own)

    def held(self) -> Sequence[Any]:
        return [getattr(self, part.name) for part in fields(self)]

    def take_word_topics(self) -> Array:
        """(D, K): O, for the caller to overwrite."""
        O, self.O = self.O, None
        assert O is not None
        return O

    @property
    def pi(self) -> Array:
        """(K,): P[topic]."""
        assert self.tensor is not None
        return topic_weights(self.tensor.eigenvalues, self.settings.prior)

    def topics(self) -> MomentTopics:
        """The finished topics."""
        whitening, tensor, statistics = self.whitening, self.tensor, self.statistics
        assert whitening is not None
        assert tensor is not None
        assert statistics is not None
        assert self.bars is not None
        assert self.Q is not None
        return MomentTopics(
            _float32(whitening.W),
            whitening.eigenvalues,
            tensor.eigenvectors,
            tensor.eigenvalues,
            tensor.residual,
            self.Q,
            statistics,
            self.bars,
            self.settings.prior,
            self.settings.view.drop_self_pairs,
        )

    # -- shapes, for the plan -------------------------------------------------------------------------------

    @property
    def n_topics(self) -> int:
        return self.settings.topic_count(self.corpus)

    def sketch_width(self, layout: Layout) -> int:
        return min(self.corpus.n_terms, self.n_topics + layout.oversampling)

    @property
    def tall_bytes(self) -> int:
        """Bytes of a D x K matrix."""
        return 4 * self.corpus.n_terms * self.n_topics


class _Step(Stage):
    """A step of the method."""

    def __init__(self, method: MomentMethod) -> None:
        self.method = method


class WarmStart(_Step):
    """A sketch that lies near the top eigenvectors already, from a sample of the documents."""

    name = "warm start"

    def __init__(self, method: MomentMethod, layout: Layout, first_read: Read) -> None:
        super().__init__(method)
        self._layout, self._first_read = layout, first_read

    def run(self, runner: Runner) -> None:
        method, settings = self.method, self.method.settings
        sample, n_blocks, held = read_sample(method.corpus, keep=runner.executor.shares_memory)
        method.stats["sample_share"] = (n_blocks - len(held)) / method.corpus.n_blocks
        self._first_read.held = held
        sample = settings.view.words_of(sample)
        width = method.sketch_width(self._layout)
        rows, words = sample.compact()
        if len(words) < 4 * width:  # so few do not fill the sketch: it has to start from all words
            rows, words = sample, np.arange(sample.n_columns)
        multiply = sample_product(rows, method.n_threads, settings.view.drop_self_pairs)
        own = warm_start(multiply, len(words), width, settings.seed, n_threads=method.n_threads)
        method.sketch = Sketch.of(own, words, sample.n_columns, method.n_threads)

    def pretend(self, layout: Layout) -> None:
        D, width = self.method.corpus.n_terms, self.method.sketch_width(layout)
        self.method.sketch = Sketch(hollow(D, width, dtype=np.int16), hollow(width))
        self._first_read.held_bytes = 8 * self._sample_nnz

    @property
    def _sample_nnz(self) -> int:
        blocks = self.method.corpus.info.blocks
        return sum(blocks[i].x_nnz for i in sampled_blocks(self.method.corpus))

    def price(self, layout: Layout, held: int) -> Price:
        corpus, width = self.method.corpus, self.method.sketch_width(layout)
        sample = self._sample_nnz
        terms = min(corpus.n_terms, sample)
        own, sketch = 4 * terms * width, (2 * corpus.n_terms + 4) * width
        # a panel of the product for each thread; the sample as read, thinned, and with columns numbered anew
        panels = min(own, layout.at_a_time * 4 * terms * PANEL)
        made = own + max(panels, sketch) + 3 * 8 * sample + 20 * corpus.n_terms
        turns = Cost(5 * 3 * terms * width**2, 4 * 12 * SAMPLING.share * corpus_size(corpus).x_nnz * width)
        return Price(self.name, held + made, cost=turns)


class Whiten(_Step):
    """Steps 2 and 3: the top eigenpairs of M2, and W."""

    name = "whitening"

    def run(self, runner: Runner) -> None:
        method, settings, sums = self.method, self.method.settings, self.method.pair_sums
        assert sums is not None
        method.statistics = sums.statistics
        _check_enough(sums.statistics)
        K, semidefinite = settings.n_components, not settings.view.drop_self_pairs
        if method.sketch is None:
            whitening = exact_whitening(exact_m2(sums, settings.view), K, settings.seed)
        else:
            product = sketched_m2(sums, settings.view, method.sketch)
            whitening = sketched_whitening(
                product, method.sketch, K, semidefinite=semidefinite, n_threads=method.n_threads
            )
        self._leave(whitening, _float32(whitening.W))

    def _leave(self, whitening: Whitening, W: Array) -> None:
        method = self.method
        method.sketch = method.pair_sums = None
        method.whitening = whitening
        method.triples = Triples(method.settings.view, W, method.settings.error_bars)

    def pretend(self, layout: Layout) -> None:
        D, K = self.method.corpus.n_terms, self.method.n_topics
        W = hollow(D, K)
        self._leave(
            Whitening(W if self.method.sketch is not None else hollow(D, K, dtype=np.float64), hollow(K)), W
        )

    def price(self, layout: Layout, held: int) -> Price:
        method, D = self.method, self.method.corpus.n_terms
        if method.sketch is None:  # in double precision, M2 being among the sums
            return Price(self.name, held + 4 * method.tall_bytes + 20 * 8 * D)
        return Price(self.name, held + method.tall_bytes, cost=Cost(5 * D * method.sketch.shape[1] ** 2))


class Decompose(_Step):
    """Steps 5 to 7: eigenpairs of the whitened tensor; O from them."""

    name = "tensor"

    def run(self, runner: Runner) -> None:
        method, settings = self.method, self.method.settings
        whitening, triples, sums = method.whitening, method.triples, method.triple_sums
        assert whitening is not None
        assert triples is not None
        assert sums is not None
        moments = triples.moments(*sums.halves)
        off = moments.M2 - np.eye(len(moments.M2))
        method.stats["whitening_error"] = float(abs(off).max())
        method.stats["further_eigenvalues"] = whitening.further.tolist()
        R, eigenvalues = rotation(whitening.eigenvalues, moments.M2)
        _tell_fewer_topics(len(eigenvalues), settings, method.stats)
        tensor = decompose(moments.carried(R).M3, settings.tensor, seed=settings.seed)
        method.stats |= {"tensor_iterations": tensor.iterations, "tensor_converged": tensor.converged}
        method.tensor, method.turn = tensor, Turn(R, eigenvalues)
        method.O = word_topics(whitening.W, R @ (eigenvalues[:, None] * tensor.eigenvectors))

    def pretend(self, layout: Layout) -> None:
        method, K = self.method, self.method.n_topics
        method.O = hollow(method.corpus.n_terms, K)
        method.tensor = TensorDecomposition(hollow(K), hollow(K, K), 0.0, 0, True)

    def price(self, layout: Layout, held: int) -> Price:
        method, D, K = self.method, self.method.corpus.n_terms, self.method.n_topics
        made = 2 * method.tall_bytes + 10 * 8 * K**3  # O, and a product
        return Price(self.name, held + made, cost=Cost(20 * K**4 + 10 * D * K * K))


class Direct(_Step):
    """The directions WU of pass 3; before, error bars of words and the directions of the even documents."""

    def __init__(self, method: MomentMethod) -> None:
        super().__init__(method)
        self.name = "error bars" if method.settings.error_bars else "directions"

    def run(self, runner: Runner) -> None:
        method, settings = self.method, self.method.settings
        whitening, tensor, turn, statistics = method.whitening, method.tensor, method.turn, method.statistics
        assert whitening is not None
        assert tensor is not None
        assert turn is not None
        assert statistics is not None
        K = len(turn.eigenvalues)
        method.bars, half = ErrorBars.unknown(K), None
        if settings.error_bars and statistics.n_docs >= max(_FEWEST_FOR_BARS, 2 * K):
            half = self._half(tensor, turn)
        method.triples = method.triple_sums = method.turn = None
        whitening = method.whitening = rotated(whitening, turn.R, turn.eigenvalues, method.n_threads)
        W = _float32(whitening.W)
        even = None if half is None else Directions.of(W, half, settings.view)
        directions = Directions.of(W, tensor.eigenvectors, settings.view)
        method.labels = LabelPairs(settings.view, W, directions, method.corpus.n_labels, even)

    def _half(self, tensor: TensorDecomposition, turn: Turn) -> Array | None:
        """U of the even documents alone; and how far their words are from those of all."""
        method, settings = self.method, self.method.settings
        triples, sums, O = method.triples, method.triple_sums, method.O
        assert triples is not None
        assert sums is not None
        assert O is not None
        moments = triples.moments(sums.even).carried(turn.R)
        half = half_directions(moments, tensor, turn.eigenvalues, settings.tensor, settings.seed)
        if half is not None:
            words = word_error_bars(O, triples, sums.even, turn.R @ half)
            method.bars = ErrorBars(words, np.full(len(words), np.nan))
        return half

    def pretend(self, layout: Layout) -> None:
        method, view = self.method, self.method.settings.view
        D, K = method.corpus.n_terms, method.n_topics
        method.triples = method.triple_sums = None
        W = hollow(D, K)
        method.whitening = Whitening(W, hollow(K))
        directions = Directions(hollow(K, K), hollow(D, K) if view.drop_self_pairs else None)
        even = directions if method.settings.error_bars else None
        method.labels = LabelPairs(view, W, directions, method.corpus.n_labels, even)

    def price(self, layout: Layout, held: int) -> Price:
        method = self.method
        made = method.tall_bytes * (2 if method.settings.view.drop_self_pairs else 1)
        return Price(self.name, held + made + 10 * 8 * method.n_topics**3)


class FinishLabels(_Step):
    """Step 8: Q, and the error bars of labels."""

    name = "label topics"

    def run(self, runner: Runner) -> None:
        method, sums, bars = self.method, self.method.label_sums, self.method.bars
        assert sums is not None
        assert bars is not None
        Q = label_topics(label_moments(sums))
        if sums.even_moments is not None:
            gap = label_topics(even_label_moments(sums))
            gap -= Q
            method.bars = replace(bars, labels=np.abs(gap, out=gap).sum(axis=0, dtype=np.float64))
        method.Q, method.label_counts = _float32(Q), sums.label_counts
        method.O = method.labels = method.label_sums = None

    def pretend(self, layout: Layout) -> None:
        method = self.method
        method.O = method.labels = method.label_sums = None
        method.Q = hollow(method.corpus.n_labels, method.n_topics)

    def price(self, layout: Layout, held: int) -> Price:
        return Price(self.name, held + 3 * label_bytes(self.method.corpus.n_labels, self.method.n_topics))


def _float32(matrix: Array) -> Array:
    return np.ascontiguousarray(matrix, dtype=np.float32)


def _tell_fewer_topics(K: int, settings: MomentSettings, stats: dict[str, Any]) -> None:
    """A note where nobody asked for so many topics, else a warning."""
    if settings.n_components <= K:
        return
    message = (
        f"Only {how_many(K, 'topic')} instead of {settings.n_components}: the pairs of words have numerical "
        f"rank {K}. More topics need more, or longer, documents; n_components={K} asks for no more."
    )
    if settings.n_components == DEFAULT_TOPICS:
        stats["notes"].append(message)
    else:
        warn(message)


def _check_enough(statistics: Statistics) -> None:
    if not statistics.pairs > 0:
        raise InputError(
            "No document has two words, so there is nothing to learn from. "
            "Found no pairs of words. Check that the documents are not empty."
        )
    if statistics.n_labelled == 0:
        warn(
            "No document has a label, so all labels will be equally likely. "
            "Check that labels were read at all."
        )
