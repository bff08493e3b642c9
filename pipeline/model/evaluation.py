"""Measures of a model's rankings and probabilities, summed over documents.

The best labels of every document give most of them. What needs the score of every label (AUC, Brier,
reliability) is measured on a sample of the documents where all of them would take long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.split import in_test
from ..corpus.store import Corpus
from ..errors import InputError
from ..metrics.measures import (
    RankingSums,
    ReliabilitySums,
    Spread,
    document_auc,
    propensities,
    ranking_sums,
    reliability_sums,
)
from ..metrics.scores import LabelCounts, Scores
from ..parts.scoring import all_scores, top_labels
from ..parts.scoring_kernels import keep_best
from ..progress import Progress, counted
from ..tasks import check_wanted, map_tasks, n_cpus, one_blas_thread
from ..types import Array
from .inputs import SIZES, BatchSizes, Documents, as_documents, number_of
from .texts import check_like
from .training_documents import relation

if TYPE_CHECKING:
    from .predictor import Predictor

_SAMPLE_SEED = 2**32 + 5
"""Not a seed that users split by: a split's test side is not to be cut along the same hash again."""


@dataclass(frozen=True, slots=True)
class DocumentSlice:
    """Some of the documents."""

    first_row: int
    words: SparseRows
    labels: SparseRows


@dataclass(frozen=True, slots=True)
class Measured:
    """Sums over documents, and the labels that are counted."""

    ranking: RankingSums
    areas: RankingSums
    """The AUC alone, of the documents that have every label scored."""
    area_spread: Spread
    reliability: ReliabilitySums
    familiar: Array
    """(2,) as from `TrainingDocuments.familiar`."""
    labels: tuple[Array, ...] = ()
    """The true labels of all documents; those that are among the best; and all best labels."""

    def merge(self, other: Measured) -> Measured:
        """The sums over the documents of both; labels are counted one part at a time."""
        return Measured(
            self.ranking.merge(other.ranking),
            self.areas.merge(other.areas),
            self.area_spread + other.area_spread,
            self.reliability.merge(other.reliability),
            self.familiar + other.familiar,
        )


@dataclass(frozen=True)
class Evaluation:
    """Measures to take of a model; `Predictor.evaluate` explains them."""

    model: Predictor
    ks: Sequence[int]
    propensity: tuple[float, float] = (0.55, 1.5)
    auc: bool | Literal["all"] = True

    @cached_property
    def inverse_propensity(self) -> Array:
        """(L,)."""
        model = self.model
        return 1 / propensities(model.label_counts, model.moments.statistics.n_docs, *self.propensity)

    def scores(self, X: Any, Y: Any, progress: Progress | None = None) -> Scores:
        """The measures of some documents."""
        model, known = self.model, self.model.training_documents
        _check_documents(model, X, Y)
        if not self.ks or min(self.ks) < 1:
            raise InputError(f"ks are depths of the ranking. Found {self.ks!r}. Pass some, as in (1, 3, 5).")
        n_docs = number_of(X)
        share = sample_share(self.auc, n_docs, model.n_labels, model.sizes)
        parts = self.over(as_documents(X, Y, model), n_docs, share, progress)
        scores, familiar = self.finish(parts, share)
        within = known.within(X) if known is not None and isinstance(X, Corpus) else None
        said = relation(known, familiar, scores["n_docs"], within, model.moments.statistics.n_docs)
        scores["documents_are"], scores["familiar"] = said
        return scores

    def over(
        self, docs: Documents, n_docs: int, share: float, progress: Progress | None
    ) -> Iterator[Measured]:
        """The sums over some documents at a time, in order.

        As many blocks as there are threads are read at a time, and worked on in equal parts.

        Parameters
        ----------
        share
            Of the documents, those that have every label scored: 1 for all.
        """
        n_threads, step = self.model.n_threads or n_cpus(), self.model.sizes.task_docs
        tell, first_row = counted(progress, "evaluate", n_docs), 0

        def of(part: DocumentSlice) -> Measured:
            check_wanted()
            measured = self.of(part, share)
            tell(part.words.n_rows)
            return measured

        # one BLAS thread in each task: the task is the unit of parallelism
        with one_blas_thread():
            for first in range(0, docs.n_blocks, n_threads):
                numbers = range(first, min(first + n_threads, docs.n_blocks))
                parts = _read(docs, numbers, first_row, n_threads, step)
                first_row = parts[-1].first_row + parts[-1].words.n_rows
                yield from map_tasks(of, parts, name="evaluate", n_threads=n_threads)
                del parts  # before the next ones are read

    def of(self, part: DocumentSlice, share: float) -> Measured:
        """The sums over some documents."""
        blend, labels = self.model.ranking_blend, part.labels
        if labels.n_columns != blend.n_labels:
            raise InputError(
                f"The labels do not fit the model. Found {labels.n_columns} columns, "
                f"the model has {blend.n_labels}. Use the columns of the training data."
            )
        seen, k = blend.see(part.words), max(self.ks)
        best = np.full((seen.n_docs, k), -1, np.int32)
        if share < 1:
            best, _ = top_labels(blend, seen, k)
            numbers = part.first_row + np.arange(seen.n_docs)
            rows = np.flatnonzero(in_test(numbers, share, _SAMPLE_SEED))
            seen, labels = seen.take(rows), labels.take(rows)
        areas, reliability = np.empty(seen.n_docs), ReliabilitySums.zero()
        known = self.model.training_documents
        for some, scores in all_scores(blend, seen):
            own = labels.slice(some.start, some.stop)
            ranking = blend.ranking(scores, slice(0, blend.n_labels))
            if share == 1:
                keep_best(ranking, 0, best[some], np.full((len(ranking), k), -np.inf, np.float32))
            areas[some] = document_auc(ranking, own)
            reliability = reliability.merge(reliability_sums(blend.probabilities(scores), own))
        return Measured(
            ranking_sums(best, part.labels, tuple(self.ks), self.inverse_propensity),
            ranking_sums(best[: seen.n_docs], labels, (), auc=areas),
            Spread.of(areas),
            reliability,
            np.zeros(2, np.int64) if known is None else known.familiar(part.words, part.labels),
            _counted(best, part.labels),
        )

    def finish(self, parts: Iterable[Measured], share: float) -> tuple[Scores, Array]:
        """All metrics, from the sums of all documents; and what `TrainingDocuments.familiar` says of them."""
        zero = RankingSums.zero(tuple(self.ks)), RankingSums.zero(()), Spread()
        total = Measured(*zero, ReliabilitySums.zero(), np.zeros(2, np.int64))
        counts = np.zeros((3, self.model.n_labels), np.int64)
        for part in parts:
            total = total.merge(part)
            for count, labels in zip(counts, part.labels, strict=True):
                count += np.bincount(labels, minlength=len(count))
        found: dict[str, Any] = {}
        if share > 0:
            found |= total.areas.finish() | total.reliability.finish()
            found["calibrated"] = self.model.blend.is_calibrated
        if 0 < share < 1:
            n_docs = total.ranking.n_docs
            found["n_sampled"] = total.areas.n_docs
            found["auc_se"] = total.area_spread.standard_error(n_docs)
            found["brier_se"] = total.reliability.spread.standard_error(n_docs)
        scores = Scores(found | total.ranking.finish())
        scores.by_label = LabelCounts(*counts)
        return scores, total.familiar


def sample_share(
    auc: bool | Literal["all"], n_docs: float, n_labels: int, sizes: BatchSizes = SIZES
) -> float:
    """Share of the documents that have every label scored; of all where their number is not known."""
    if not auc:
        return 0.0
    most = max(sizes.fewest_sampled, sizes.scores // max(1, n_labels))
    return most / n_docs if auc != "all" and n_docs > most else 1.0


def _check_documents(model: Predictor, X: Any, Y: Any) -> None:
    """Refuse documents without labels, or with labels twice."""
    if isinstance(X, Corpus):
        if Y is not None:
            raise InputError(
                "A corpus holds its own labels. Found a second argument. Call evaluate(corpus) alone."
            )
        check_like(X, model.text, model.term_names, model.label_names)
    elif Y is None:
        raise InputError("Evaluation needs the true labels. Found a matrix alone. Pass Y too, or a corpus.")


def _read(
    docs: Documents, numbers: Sequence[int], first_row: int, n_threads: int, step: int
) -> list[DocumentSlice]:
    """Some blocks in parts; one part of a block that is empty."""
    parts = []
    for words, labels in map_tasks(docs.read, numbers, name="read", n_threads=n_threads):
        assert labels is not None
        for start in range(0, max(1, words.n_rows), step):
            rows = start, min(start + step, words.n_rows)
            parts.append(DocumentSlice(first_row + start, words.slice(*rows), labels.slice(*rows)))
        first_row += words.n_rows
    return parts


def _counted(best: Array, labels: SparseRows) -> tuple[Array, Array, Array]:
    """True labels of documents, those that are among their best (n, k), and these."""
    rows = np.repeat(np.arange(labels.n_rows), np.diff(labels.indptr))
    hit = (best[rows] == labels.indices[:, None]).any(axis=1)
    return labels.indices, labels.indices[hit], best[best >= 0]
