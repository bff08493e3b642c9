"""Shortlists of labels on which choices are made, and what they are made by.

Not every label of every held-out document is scored for every choice: a shortlist has a document's own
labels, the best ones by each part of the blend, and some at random that stand for all the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..corpus.rows import SparseRows
from ..tasks import map_tasks
from ..types import Array
from .scoring_kernels import keep_best
from .selection_kernels import document_measures, knot_products, make_shortlist, pair_products

_BEST, _DRAWN = 15, 30
"""Labels of a shortlist that are best by a part, and that are drawn at random."""
SCORE_BYTES = 8_000_000
"""Scores of all labels that a task holds at a time."""
_ALL_LABELS = 100
"""Up to so many labels, all of them are on every shortlist."""


@dataclass(frozen=True)
class Shortlists:
    """Pairs of a held-out document and a label, document after document."""

    indptr: Array
    labels: Array
    hits: Array
    weights: Array
    n_threads: int | None = None
    score_bytes: int = SCORE_BYTES

    @classmethod
    def of(
        cls,
        Y: SparseRows,
        parts: Callable[[slice], Sequence[Array]],
        seed: int,
        n_threads: int | None = None,
        score_bytes: int = SCORE_BYTES,
    ) -> Shortlists:
        """Make them from the dense scores of each part of a blend, for some documents at a time.

        Parameters
        ----------
        Y
            (n, L): the documents' own labels.
        parts
            Some rows -> (s, L) scores by each part.
        """
        n, L = Y.shape
        if L <= _ALL_LABELS:
            best = np.tile(np.arange(L, dtype=np.int32), (n, 1))
            none = np.zeros((n, 0), np.int64)
            indptr, labels, hits, weights = make_shortlist(best, Y.indptr, Y.indices, none, L)
            return cls(indptr, labels, hits, weights, n_threads, score_bytes)

        def best_of(rows: slice) -> Array:
            scores = parts(rows)
            top = np.full((len(scores), rows.stop - rows.start, _BEST), -1, np.int32)
            for labels, dense in zip(top, scores, strict=True):
                keep_best(dense, 0, labels, np.full(labels.shape, -np.inf, np.float32))
            return np.concatenate(list(top), axis=1)

        tops = _for_some_rows(best_of, n, L, n_threads, score_bytes)
        drawn = np.random.default_rng(seed).integers(L, size=(n, _DRAWN))
        indptr, labels, hits, weights = make_shortlist(np.concatenate(tops), Y.indptr, Y.indices, drawn, L)
        return cls(indptr, labels, hits, weights, n_threads, score_bytes)

    @classmethod
    def joined(cls, lists: Sequence[Shortlists]) -> Shortlists:
        """Shortlists of several sets of documents, one after the other."""
        lengths = np.concatenate([np.diff(some.indptr) for some in lists])
        return cls(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([some.labels for some in lists]),
            np.concatenate([some.hits for some in lists]),
            np.concatenate([some.weights for some in lists]),
            lists[0].n_threads,
        )

    @property
    def n_docs(self) -> int:
        return len(self.indptr) - 1

    def pairs_of(self, rows: slice) -> slice:
        """The pairs of some documents."""
        return slice(int(self.indptr[rows.start]), int(self.indptr[rows.stop]))

    def products(self, F: Array, A: Array) -> Array:
        """(pairs,) float32: F A' at the pairs."""

        def some(rows: slice) -> Array:
            pairs = self.pairs_of(rows)
            out = np.empty(pairs.stop - pairs.start, np.float32)
            indptr = self.indptr[rows.start : rows.stop + 1] - pairs.start
            pair_products(indptr, self.labels[pairs], F[rows], A, out)
            return out

        return np.concatenate(self.for_some_rows(some, len(A)))

    def knot_products(self, F: Array, A: Array, knots: Knots) -> Array:
        """(knots, pairs) float32: F A' at the pairs, what each column gives being shared out among knots."""

        def some(rows: slice) -> Array:
            pairs = self.pairs_of(rows)
            out = np.empty((knots.count, pairs.stop - pairs.start), np.float32)
            own = self.indptr[rows.start : rows.stop + 1] - pairs.start, self.labels[pairs]
            knot_products(own, F[rows], A, knots.starts, knots.shares, out)
            return out

        return np.concatenate(self.for_some_rows(some, len(A)), axis=1)

    def for_some_rows(self, function: Callable[[slice], Array], n_labels: int) -> list[Array]:
        """`function` of some documents at a time: few enough to score so many labels of each."""
        n = len(self.indptr) - 1
        return _for_some_rows(function, n, n_labels, self.n_threads, self.score_bytes)

    def by_document(self, scores: Array, rows: slice | None = None) -> Array:
        """(n, 4): AUC, P@1, P@3 and P@5 of each of some documents; NaN where there is nothing to measure.

        Parameters
        ----------
        scores
            Of the pairs of these documents.
        """
        rows = slice(0, self.n_docs) if rows is None else rows
        pairs, out = self.pairs_of(rows), np.empty((rows.stop - rows.start, 4))
        indptr = self.indptr[rows.start : rows.stop + 1] - pairs.start
        document_measures(indptr, self.hits[pairs], self.weights[pairs], scores, out)
        return out

    def measures(self, scores: Array) -> dict[str, float]:
        """AUC and P@k of scores of the pairs, over the documents with labels."""
        return dict(zip(("auc", "p@1", "p@3", "p@5"), means(self.by_document(scores)), strict=True))


@dataclass(frozen=True, slots=True)
class Knots:
    """Values between which a function of each column of a product is interpolated."""

    count: int
    starts: Array
    """(count,) int64: columns from `starts[k]` to `starts[k + 1]` lie between the knots k and k + 1."""
    shares: Array
    """(columns,) float32: what a column gives to the knot above it."""

    @classmethod
    def of(cls, columns: Array, knots: Array) -> Knots:
        """For columns by their values, which increase, as knots do; beyond the ends the last knot counts."""
        places = np.interp(columns, knots, np.arange(len(knots)))
        below = np.minimum(places.astype(np.int64), len(knots) - 2)
        starts = np.searchsorted(below, np.arange(len(knots)))
        return cls(len(knots), starts, (places - below).astype(np.float32))


def means(measured: Array) -> list[float]:
    """AUC, P@1, P@3 and P@5, over the documents that have each; 0 where none has."""
    counted = ~np.isnan(measured)
    totals = np.where(counted, measured, 0).sum(axis=0)
    return [float(total / max(1, count)) for total, count in zip(totals, counted.sum(axis=0), strict=True)]


def _for_some_rows(
    function: Callable[[slice], Array], n: int, n_labels: int, n_threads: int | None, score_bytes: int
) -> list[Array]:
    step = max(1, min(-(-n // 8), score_bytes // (4 * max(1, n_labels))))
    rows = [slice(start, min(start + step, n)) for start in range(0, max(1, n), step)]
    return map_tasks(function, rows, name="choose", n_threads=n_threads)


def goodness(measured: Array) -> Array:
    """(n,): how good a choice is for each document: AUC plus the mean of P@1, P@3 and P@5; NaN for no labels.

    An AUC that does not exist counts as 1.
    """
    auc = np.where(np.isnan(measured[:, 0]), 1.0, measured[:, 0])
    return np.asarray(auc + measured[:, 1:].mean(axis=1))


def best_threshold(scores: Array, hits: Array, weights: Array) -> tuple[float, float]:
    """The threshold with the best micro-F1, and that F1: 2 hits above it / (pairs above it + all hits).

    Parameters
    ----------
    scores, hits, weights
        Of (document, label) pairs, at least one of them a hit; `weights` says how many pairs each stands for.

    Notes
    -----
    The threshold lies halfway between the last score above it and the next one below. Of equally good ones
    the highest is taken.
    """
    order = np.argsort(-scores, kind="stable")
    scores, hits, weights = scores[order].astype(np.float64), hits[order], weights[order].astype(np.float64)
    above = np.cumsum(weights)
    found = np.cumsum(weights * hits)
    last = np.append(scores[1:] < scores[:-1], True)  # of equal scores; all of them are above, or none
    f1 = np.where(last, 2 * found / (above + found[-1]), 0)
    best = int(np.argmax(f1))
    below = scores[best + 1] if best + 1 < len(scores) else scores[best]
    return float((scores[best] + below) / 2), float(f1[best])
