"""Algorithm 1 of the paper: three passes over a corpus, and what is decomposed between them.

What a head other than the paper's needs is gathered beside it, from the same reads (`HeadLearning`).
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..display import how_many
from ..errors import InputError
from ..moments.error_bars import ErrorBars, half_directions, word_error_bars
from ..moments.labels import Directions, Labels
from ..moments.pairs import Pairs, Sketch, Statistics, exact_m2, sketched_m2
from ..moments.recover import Prior, label_topics, topic_weights, word_topics
from ..moments.sample import read_sample, sample_product
from ..moments.tensor import TensorDecomposition, decompose
from ..moments.triples import EVEN, ODD, Triples, WhitenedMoments
from ..moments.whitening import Whitening, exact_whitening, rotated, rotation, sketched_whitening, warm_start
from ..moments.words import WordView
from ..parts.heads import Head, Topics
from ..parts.learn_head import HeadLearning, HeadSettings
from ..passes.document_hashes import DocumentHashes
from ..passes.machine import available_bytes, peak_bytes
from ..passes.runner import Pass, Runner
from ..passes.segments import segments
from ..passes.stream import HeldWords
from ..passes.sums import Sums
from ..progress import Progress, begin
from ..tasks import give_back_memory
from ..types import Array
from .plan import BASE_BYTES, Plan, Wanted, gigabytes, make_plan

DEFAULT_TOPICS = 100
_FEWEST_FOR_BARS = 20
"""Documents of which one half says something of what the other half would have given."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides the result of learning, besides the corpus."""

    n_components: int = DEFAULT_TOPICS
    whitening: Literal["auto", "exact", "sketch"] = "auto"
    tensor: Literal["orthogonal", "power"] = "orthogonal"
    prior: Prior = "eigenvalues"
    view: WordView = field(default_factory=WordView)
    error_bars: bool = True
    seed: int = 0
    head: HeadSettings = field(default_factory=HeadSettings)
    memory_bytes: int | None = None
    """What the whole process may take; None for no limit."""

    @property
    def wanted(self) -> Wanted:
        """As far as it decides what learning takes."""
        head = self.head
        what = int(self.n_components), self.whitening, self.view, self.error_bars
        return Wanted(*what, head.has_ridge, head.has_refined, head.refine_passes, head.dim)

    def plan(self, corpus: Corpus, n_threads: int | None) -> Plan:
        """What learning from the corpus will take, and how it will be run."""
        return make_plan(corpus, self.wanted, self.memory_bytes, n_threads)


@dataclass(slots=True)
class Learned:
    """What three passes tell; columns of words as in the corpus."""

    head: Head
    label_counts: Array
    """(L,) int64: on how many documents each label is."""
    whitening: Whitening
    tensor: TensorDecomposition
    statistics: Statistics
    error_bars: ErrorBars
    n_reads: int
    """Full reads of the corpus."""
    hashes: Array
    """(at most MOST_HASHES,) int64: the smallest of the documents."""
    stats: dict[str, Any] = field(default_factory=dict)
    """Seconds, reads and choices made."""


def learn(corpus: Corpus, settings: Settings, runner: Runner) -> Learned:
    """Read the corpus three times.

    When M2 is too large to hold, a sample is read before; pass 1 takes it from memory, but on a cluster, or
    where it is large, reads it once more.

    Cost: pass 1 sum nnz(x)² or 2 nnz p, pass 2 nnz K + N K³/6, pass 3 (nnz(X) + nnz(Y)) K multiply-adds;
    memory does not grow with the documents, but for the sample; `Settings.plan` tells what it is.
    """
    stats: dict[str, Any] = {"corpus": _described(corpus), "notes": []}
    clock = Clock(stats, runner.progress)
    view = settings.view
    plan = settings.plan(corpus, runner.n_threads)
    stats["plan"] = plan.as_dict()
    _check_free(plan)
    give_back_memory()  # what was done before may have left some
    reader = _Reader(corpus, replace(runner, at_a_time=plan.at_a_time, spill=plan.spill), plan)
    head = HeadLearning(settings.head, corpus, view, settings.seed, plan.at_a_time, plan.sizes, stats)
    head.tell_sizes()
    whitening, statistics, hashes = _whiten(reader, settings, clock, head)

    K = len(whitening.eigenvalues)
    triples = Triples(view, _float32(whitening.W), settings.error_bars)
    clock.begin("head subspace")
    works = head.beside_triples()
    if works:
        clock.mark("head subspace")
    triple_sums, *beside = reader.read(triples, *works)
    head.after_triples(beside)
    clock.mark("triples")
    clock.begin("tensor")
    moments = triples.moments(triple_sums, EVEN, ODD)
    stats["whitening_error"] = float(abs(moments.M2 - np.eye(K)).max())
    stats["further_eigenvalues"] = whitening.further.tolist()
    R, eigenvalues = rotation(whitening.eigenvalues, moments.M2)
    _tell_fewer_topics(len(eigenvalues), settings, stats)
    tensor = decompose(_carried(moments, R).M3, settings.tensor, seed=settings.seed)
    clock.mark("tensor")

    O = word_topics(whitening.W, R @ (eigenvalues[:, None] * tensor.eigenvectors))
    pi = topic_weights(tensor.eigenvalues, settings.prior)

    half = None
    bars = ErrorBars.unknown(len(pi))
    if settings.error_bars and statistics.n_docs >= max(_FEWEST_FOR_BARS, 2 * len(pi)):
        clock.begin("error bars")
        moments = _carried(triples.moments(triple_sums, EVEN), R)
        half = half_directions(moments, tensor, eigenvalues, settings.tensor, settings.seed)
    if half is not None:
        bars = replace(bars, words=word_error_bars(O, triples, triple_sums, R @ half))
        clock.mark("error bars")
    del triples, triple_sums, moments

    whitening = rotated(whitening, R, eigenvalues, runner.n_threads)
    W = _float32(whitening.W)
    directions = Directions.of(W, tensor.eigenvectors, view)
    even = None if half is None else Directions.of(W, half, view)
    labels = Labels(view, W, directions, corpus.n_labels, even)
    works = head.beside_labels(O, pi)
    if settings.head.has_refined:
        O = O[:0].copy()  # overwritten: the head takes its words from the EM step
    label_sums, *beside = reader.read(labels, *works)
    clock.begin("label topics")
    head.after_labels(beside)
    Q = label_topics(labels.moments(label_sums))
    if half is not None:
        gap = label_topics(labels.even_moments(label_sums))
        gap -= Q
        bars = replace(bars, labels=np.abs(gap, out=gap).sum(axis=0, dtype=np.float64))
        del gap
    label_counts = label_sums["label_counts"]
    del labels, label_sums, directions, even, works, beside
    clock.mark("labels")
    for number in range(settings.head.refine_passes):
        clock.begin(f"refine {number + 1}")
        refined = head.refined_topics()
        (work,) = head.beside_labels(refined.O, refined.pi, refined.Q)
        head.after_labels(reader.read(work))
        clock.mark(f"refine {number + 1}")
    clock.begin("head")
    fitted = head.finish(Topics(O, _float32(Q), pi))
    clock.mark("head")
    stats["model_bytes"] = fitted.nbytes
    stats["run"] = runner.files.stats()
    n_reads = 3 + settings.head.refine_passes
    return Learned(fitted, label_counts, whitening, tensor, statistics, bars, n_reads, hashes, stats)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the corpus, the way it was planned."""

    corpus: Corpus
    runner: Runner
    plan: Plan

    def read(self, *works: Pass, held: HeldWords | None = None) -> list[Sums]:
        """Read the corpus once, for a pass of the paper and for what the head needs beside it."""
        segment_bytes = sum(work.segment_bytes(0, 0) for work in works)
        cut = segments(self.corpus, segment_bytes, self.plan.accumulators_bytes)
        return self.runner.run_together(works, self.corpus, cut, held)


def _float32(matrix: Array) -> Array:
    return np.ascontiguousarray(matrix, dtype=np.float32)


def _carried(moments: WhitenedMoments, R: Array) -> WhitenedMoments:
    """The same moments in the coordinates of W R."""
    M3 = moments.M3
    for _ in range(3):  # each turn contracts the first index and puts the new one last
        M3 = np.tensordot(M3, R, axes=(0, 0))
    return WhitenedMoments(R.T @ moments.M2 @ R, M3)


def _whiten(
    reader: _Reader, settings: Settings, clock: Clock, head: HeadLearning
) -> tuple[Whitening, Statistics, Array]:
    """Pass 1 and the whitening made from it; and hashes of the documents."""
    corpus, runner = reader.corpus, reader.runner
    known = DocumentHashes(corpus.term_ids)
    view, K, D = settings.view, settings.n_components, corpus.n_terms
    exact = settings.wanted.is_exact(D)
    clock.stats["whitening"] = "exact" if exact else "sketch"
    clock.stats["sample_share"] = 0.0
    if exact:
        sums, hashes, *beside = reader.read(Pairs(view, D), known, *head.beside_pairs())
        clock.mark("pairs")
        _check_enough(sums)
        clock.begin("whitening")
        whitening = exact_whitening(exact_m2(sums, view), K, settings.seed)
    else:
        clock.begin("warm start")
        sample, n_blocks, held = read_sample(corpus, keep=runner.client is None)
        clock.stats["sample_share"] = (n_blocks - len(held)) / corpus.n_blocks
        sketch = _sketch(view.words_of(sample), reader, settings)
        del sample
        clock.mark("warm start")
        works: list[Pass] = [Pairs(view, D, sketch), known, *head.beside_pairs()]
        sums, hashes, *beside = reader.read(*works, held=held)
        del held, works
        clock.mark("pairs")
        _check_enough(sums)
        clock.begin("whitening")
        product = sketched_m2(sums, view, sketch)
        whitening = sketched_whitening(
            product, sketch, K, semidefinite=not view.drop_self_pairs, n_threads=runner.n_threads
        )
        del product, sketch
    head.after_pairs(beside)
    clock.mark("whitening")
    return whitening, Statistics.of(sums), hashes["smallest"].hashes


def _sketch(sample: SparseRows, reader: _Reader, settings: Settings) -> Sketch:
    """(D, p), orthonormal but for rounding: where the pairs of words of a sample are."""
    n_threads, drop = reader.runner.n_threads, settings.view.drop_self_pairs
    K = settings.wanted.topic_count(sample.n_columns, reader.corpus.n_docs)
    width = K + reader.plan.oversampling
    rows, words = sample.compact()
    if len(words) < 4 * width:  # so few do not fill the sketch: it has to start from all words
        rows, words = sample, np.arange(sample.n_columns)
    multiply = sample_product(rows, n_threads, drop)
    own = warm_start(multiply, len(words), width, settings.seed, n_threads=n_threads)
    return Sketch.of(own, words, sample.n_columns, n_threads)


def _tell_fewer_topics(K: int, settings: Settings, stats: dict[str, Any]) -> None:
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
        warnings.warn(message, stacklevel=4)


def _check_free(plan: Plan) -> None:
    free = available_bytes()
    if free is not None and plan.peak - BASE_BYTES > free:
        warnings.warn(
            f"The fit may need more memory than there is: {gigabytes(plan.peak)} at its worst, and "
            f"{gigabytes(free)} are free. Pass a memory_limit, or fewer topics (n_components).",
            stacklevel=4,
        )


def _check_enough(sums: Sums) -> None:
    if not Statistics.of(sums).pairs > 0:
        raise InputError(
            "No document has two words, so there is nothing to learn from. "
            "Found no pairs of words. Check that the documents are not empty."
        )
    if Statistics.of(sums).n_labelled == 0:
        warnings.warn(
            "No document has a label, so all labels will be equally likely. "
            "Check that labels were read at all.",
            stacklevel=6,
        )


def _described(corpus: Corpus) -> dict[str, Any]:
    """What it was learned from."""
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

    def begin(self, stage: str) -> None:
        """Report a stage that is not counted."""
        begin(self.progress, stage)

    def mark(self, stage: str) -> None:
        now = time.perf_counter()
        seconds = self.stats.setdefault("seconds", {})
        seconds[stage] = seconds.get(stage, 0.0) + now - self.last
        self.last = now
        if (peak := peak_bytes()) is not None:
            self.stats.setdefault("peak_bytes", {})[stage] = peak
        give_back_memory()
