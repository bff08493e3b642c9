"""Algorithm 1 of the paper: three passes over a corpus, and what is decomposed between them.

What a head other than the paper's needs is gathered beside it, from the same reads (`HeadLearning`).
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from pipeline.corpus.rows import Array, SparseRows
from pipeline.corpus.store import Corpus
from pipeline.decompose.recover import label_topics, topic_weights, word_topics
from pipeline.decompose.tensor import TensorDecomposition, decompose
from pipeline.decompose.whitening import (
    Whitening,
    exact_whitening,
    rotated,
    sketched_whitening,
    warm_start,
)
from pipeline.errors import InputError
from pipeline.model.error_bars import ErrorBars, half_directions, word_error_bars
from pipeline.model.heads import Head, Topics
from pipeline.model.learn_head import HeadLearning, HeadSettings
from pipeline.passes import kernels
from pipeline.passes.labels import Labels
from pipeline.passes.pairs import Pairs, Statistics, exact_m2, sketched_m2
from pipeline.passes.plan import segments
from pipeline.passes.run import HeldWords, Pass, Runner, Sums
from pipeline.passes.triples import EVEN, ODD, Triples, WhitenedMoments
from pipeline.passes.words import WordView
from pipeline.tasks import map_tasks

EXACT_TERMS = 4096
"""Widest corpus whose word pairs are held whole: 134 MB of M2 in double precision."""
OVERSAMPLING = 100
SAMPLE_SHARE = 0.07
SAMPLE_DOCS = 20_000
SAMPLE_BYTES = 500_000_000
HELD_BYTES = 256_000_000
"""Words of sampled blocks that stay in memory until pass 1 has seen them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides the result of learning, besides the corpus."""

    n_components: int = 100
    whitening: Literal["auto", "exact", "sketch"] = "auto"
    tensor: Literal["orthogonal", "power"] = "orthogonal"
    prior: Literal["eigenvalues", "uniform"] = "eigenvalues"
    view: WordView = field(default_factory=WordView)
    error_bars: bool = True
    seed: int = 0
    head: HeadSettings = field(default_factory=HeadSettings)


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
    stats: dict[str, Any] = field(default_factory=dict)
    """Seconds, reads and choices made."""


def learn(corpus: Corpus, settings: Settings, runner: Runner) -> Learned:
    """Read the corpus three times.

    When M2 is too large to hold, a sample is read before; pass 1 takes it from memory, but on a cluster, or
    where it is large, reads it once more.

    Cost: pass 1 sum nnz(x)² or 2 nnz p, pass 2 nnz K + N K³/3, pass 3 (nnz(X) + nnz(Y)) K multiply-adds;
    memory grows with the documents only up to 32 segments, by the depth of the merge tree.
    """
    stats: dict[str, Any] = {}
    clock = _Clock(stats)
    view = settings.view
    head = HeadLearning(settings.head, corpus, view, settings.seed, runner.n_threads, stats)
    whitening, pair_sums = _whiten(corpus, settings, runner, clock, head)
    statistics = Statistics.of(pair_sums)

    K = len(whitening.eigenvalues)
    triples = Triples(view, _float32(whitening.W), settings.error_bars)
    works = head.beside_triples()
    clock.mark("head subspace")
    triple_sums, *beside = _read(corpus, runner, triples, *works)
    head.after_triples(beside)
    clock.mark("triples")
    moments = triples.moments(triple_sums, EVEN, ODD)
    stats["whitening_error"] = float(abs(moments.M2 - np.eye(K)).max())
    whitening, R = rotated(whitening, moments.M2)
    tensor = decompose(_carried(moments, R).M3, settings.tensor, seed=settings.seed)
    clock.mark("tensor")

    O = _float32(word_topics(whitening.unwhitening, tensor.eigenvectors))
    uniform = np.full(len(tensor.eigenvalues), 1 / len(tensor.eigenvalues))
    pi = topic_weights(tensor.eigenvalues) if settings.prior == "eigenvalues" else uniform

    directions = None
    bars = ErrorBars.unknown(len(pi))
    if settings.error_bars:
        half = _carried(triples.moments(triple_sums, EVEN), R)
        directions = half_directions(half, tensor, whitening.eigenvalues, settings.tensor, settings.seed)
    if directions is not None:
        bars = replace(bars, words=word_error_bars(O, triples, triple_sums, R @ directions))
        clock.mark("error bars")
    del triple_sums

    labels = Labels(
        view,
        _float32(whitening.W @ tensor.eigenvectors.astype(whitening.basis.dtype)),
        corpus.n_labels,
        None if directions is None else _float32(whitening.W @ directions.astype(whitening.basis.dtype)),
    )
    label_sums, *beside = _read(corpus, runner, labels, *head.beside_labels(O, pi))
    head.after_labels(beside)
    Q = label_topics(labels.moments(label_sums))
    if directions is not None:
        bars = replace(bars, labels=abs(Q - label_topics(labels.even_moments(label_sums))).sum(axis=0))
    clock.mark("labels")
    for _ in range(settings.head.refine_passes):
        refined = head.refined_topics()
        (work,) = head.beside_labels(refined.O, refined.pi, refined.Q)
        head.after_labels(_read(corpus, runner, work))
        clock.mark("refine")
    fitted = head.finish(Topics(O, _float32(Q), pi))
    clock.mark("head")
    stats["model_bytes"] = fitted.nbytes
    n_reads = 3 + settings.head.refine_passes
    return Learned(fitted, label_sums["label_counts"], whitening, tensor, statistics, bars, n_reads, stats)


def _read(corpus: Corpus, runner: Runner, *works: Pass, held: HeldWords | None = None) -> list[Sums]:
    """Read the corpus once, for a pass of the paper and for what the head needs beside it."""
    cut = segments(corpus, sum(work.accumulator_bytes for work in works))
    return runner.run_together(works, corpus, cut, held)


def _float32(matrix: Array) -> Array:
    return np.ascontiguousarray(matrix, dtype=np.float32)


def _carried(moments: WhitenedMoments, R: Array) -> WhitenedMoments:
    """The same moments in the coordinates of W R."""
    M3 = moments.M3
    for _ in range(3):  # each turn contracts the first index and puts the new one last
        M3 = np.tensordot(M3, R, axes=(0, 0))
    return WhitenedMoments(R.T @ moments.M2 @ R, M3)


def _whiten(
    corpus: Corpus, settings: Settings, runner: Runner, clock: _Clock, head: HeadLearning
) -> tuple[Whitening, Sums]:
    """Pass 1 and the whitening made from it."""
    view, K, D = settings.view, settings.n_components, corpus.n_terms
    method = settings.whitening
    if method == "auto":
        method = "exact" if D <= EXACT_TERMS else "sketch"
    clock.stats["whitening"] = method
    clock.stats["sample_share"] = 0.0
    if method == "exact":
        sums, *beside = _read(corpus, runner, Pairs(view, D), *head.beside_pairs())
        clock.mark("pairs")
        _check_enough(sums)
        whitening = exact_whitening(exact_m2(sums, view), K, settings.seed)
    else:
        sample, held = _sample(corpus, keep=runner.client is None)
        clock.stats["sample_share"] = (len(sample) - len(held)) / corpus.n_blocks
        width = K + OVERSAMPLING
        sketch = warm_start(_sample_product(sample, view, runner.n_threads), D, width, settings.seed)
        del sample
        clock.mark("warm start")
        works = [Pairs(view, D, sketch), *head.beside_pairs()]
        sums, *beside = _read(corpus, runner, *works, held=held)
        del held
        clock.mark("pairs")
        _check_enough(sums)
        whitening = sketched_whitening(
            sketched_m2(sums, view, sketch), sketch, K, semidefinite=not view.drop_self_pairs
        )
    sums.pop("pairs")
    head.after_pairs(beside)
    clock.mark("whitening")
    return whitening, sums


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
            stacklevel=5,
        )


def _sample(corpus: Corpus, keep: bool) -> tuple[list[SparseRows], HeldWords]:
    """Some documents of a few blocks, in memory; and these blocks' words, as far as they may be kept.

    What is kept for pass 1 is not read again there, so that the sample costs no read.
    """
    decoded = [8 * block.x_nnz + 16 * block.n_docs for block in corpus.info.blocks]
    affordable = max(1, int(SAMPLE_BYTES / max(1, max(decoded))))
    count = min(max(1, round(SAMPLE_SHARE * corpus.n_blocks)), affordable)
    # the blocks in which evenly spaced documents lie; a view may have empty blocks, or nearly empty ones
    places = (np.arange(count) + 0.5) / count * corpus.n_docs
    blocks_of = np.searchsorted(np.cumsum(corpus.block_rows), places, side="right")
    chosen = np.unique(np.minimum(blocks_of, corpus.n_blocks - 1))
    blocks = [corpus.block_side("X", number) for number in chosen.tolist()]
    # large blocks hold more than is needed: every so many documents of them will do
    wanted = max(SAMPLE_DOCS, SAMPLE_SHARE * corpus.n_docs)
    step = max(1, int(sum(block.n_rows for block in blocks) / wanted))
    thinned = [block.take(np.arange(0, block.n_rows, step)) for block in blocks] if step > 1 else blocks
    sizes = np.cumsum([block.nbytes for block in blocks])
    held = {
        number: block
        for number, block, size in zip(chosen.tolist(), blocks, sizes.tolist(), strict=True)
        if keep and size <= HELD_BYTES
    }
    return thinned, held


def _sample_product(sample: list[SparseRows], view: WordView, n_threads: int | None) -> Any:
    """Omega -> M2 Omega on the sample, up to a factor."""
    rows = view.words_of(SparseRows.concatenate(sample))
    # Two parts, whatever the number of threads: the sum must not depend on it, and each has a D x p array.
    middle = rows.n_rows // 2
    parts = [rows.slice(0, middle), rows.slice(middle, rows.n_rows)]
    totals = np.bincount(rows.indices, rows.values, minlength=rows.n_columns).astype(np.float32)

    def part_product(job: tuple[SparseRows, Array]) -> Array:
        part, sketch = job
        out = np.zeros_like(sketch)
        for start in range(0, part.n_rows, kernels.SLAB):
            slab = part.slice(start, min(start + kernels.SLAB, part.n_rows))
            kernels.add_transposed_times(slab, kernels.times(slab, sketch), out)
        return out

    def multiply(sketch: Array) -> Array:
        first, second = map_tasks(
            part_product, [(part, sketch) for part in parts], name="warm-start", n_threads=n_threads
        )
        first += second
        if view.drop_self_pairs:
            first -= totals[:, None] * sketch
        return first

    return multiply


def check_enough_documents(n_docs: int, n_components: int) -> None:
    """The paper asks for N >= Omega(K²)."""
    if n_docs < n_components**2:
        warnings.warn(
            f"{n_docs:,} documents are few for {n_components} topics: the guarantee needs about K² = "
            f"{n_components**2:,}. These support n_components={max(1, int(n_docs**0.5))}.",
            stacklevel=4,
        )


@dataclass(slots=True)
class _Clock:
    """Seconds of each stage, into the fit's statistics."""

    stats: dict[str, Any]
    last: float = field(default_factory=time.perf_counter)

    def mark(self, stage: str) -> None:
        now = time.perf_counter()
        seconds = self.stats.setdefault("seconds", {})
        seconds[stage] = seconds.get(stage, 0.0) + now - self.last
        self.last = now
