"""Metrics of multi-label predictions, computed from sums that merge over blocks of documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..corpus.rows import SparseRows
from ..errors import InputError
from ..types import Array
from . import kernels as metrics_kernels


def document_auc(scores: Array, Y: SparseRows) -> Array:
    """The AUC of each document over all labels.

    It is the share of (positive, negative) pairs of labels in which the positive one scores higher. A tie
    counts one half.

    Parameters
    ----------
    scores
        (n, L) float32 or float64, without NaN.
    Y
        (n, L) labels; their values are ignored.

    Returns
    -------
    auc
        (n,) float64, NaN for documents with no labels or all of them.

    Notes
    -----
    Cost: O(L log P) time for a document with P labels; O(n + P) bytes.
    """
    if scores.shape != Y.shape:
        raise InputError(
            f"scores need a row for each document and a column for each label. Found {scores.shape}, "
            f"labels of shape {Y.shape}. Pass the scores of these documents."
        )
    auc = np.empty(Y.n_rows)
    bad_row = metrics_kernels.document_auc(scores, Y.indptr, Y.indices, auc)
    if bad_row >= 0:
        raise InputError(
            f"scores cannot be ranked. Found NaN in row {bad_row}. Check the model that made them."
        )
    return auc


def propensities(label_counts: Array, n_docs: int, A: float = 0.55, B: float = 1.5) -> Array:
    """Probability that each label is assigned where it applies: p = 1 / (1 + C (N_l + B)^-A).

    N_l is the number of documents with the label, N the number of documents, and C = (log N - 1) (B + 1)^A.
    For N < e, C would be negative and p above 1, so C is 0.

    Parameters
    ----------
    label_counts
        (L,) training documents with each label, N_l.
    n_docs
        Training documents, N.
    A, B
        Constants of the model; the defaults are the paper's for data without fitted ones.

    Returns
    -------
    p
        (L,) float64 in (0, 1].

    References
    ----------
    Jain, Prabhu, Varma, "Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking & Other
    Missing Label Applications", KDD 2016.
    """
    C = max(math.log(max(n_docs, 1)) - 1.0, 0.0) * (B + 1.0) ** A
    p: Array = 1.0 / (1.0 + C * (label_counts + B) ** -A)  # (L,)
    return p


@dataclass(frozen=True, slots=True, eq=False)
class RankingSums:
    """Sums over documents that determine every ranking metric.

    `ranking_sums` makes them for one block of documents, `merge` adds them up in any grouping, and `finish`
    turns them into metrics.

    Parameters
    ----------
    ks
        Cut-offs, each at least 1.
    n_docs
        Number of documents.
    n_unlabelled
        Number of them without labels.
    hits, ndcg, recall
        (n_ks,) sums of the hits in the top k, of nDCG@k and of recall@k.
    propensity_scored
        (4, n_ks) sums of: propensity-scored hits in the top k, their largest possible value,
        propensity-scored nDCG@k, its largest possible value; None if no propensities were given.
    auc
        (2,) sum and number of the defined AUCs; None if none were given.
    """

    ks: tuple[int, ...]
    n_docs: int
    n_unlabelled: int
    hits: Array
    ndcg: Array
    recall: Array
    propensity_scored: Array | None
    auc: Array | None

    @classmethod
    def zero(cls, ks: Sequence[int] = (1, 3, 5)) -> RankingSums:
        """Sums over no documents. Merging them changes nothing."""
        _check_cutoffs(ks)
        zeros = np.zeros(len(ks))
        return cls(tuple(ks), 0, 0, zeros, zeros, zeros, None, None)

    def merge(self, other: RankingSums) -> RankingSums:
        """Sums over the documents of both. Neither operand changes."""
        if self.ks != other.ks:
            raise InputError(f"Only sums of equal ks merge. Found {self.ks} and {other.ks}. Use the same ks.")
        return RankingSums(
            self.ks,
            self.n_docs + other.n_docs,
            self.n_unlabelled + other.n_unlabelled,
            self.hits + other.hits,
            self.ndcg + other.ndcg,
            self.recall + other.recall,
            self._merge_optional("propensity_scored", other),
            self._merge_optional("auc", other),
        )

    def _merge_optional(self, name: str, other: RankingSums) -> Array | None:
        mine: Array | None = getattr(self, name)
        theirs: Array | None = getattr(other, name)
        if mine is not None and theirs is not None:
            return mine + theirs
        # Merged with documents that lack it, the metric would cover only some of the documents.
        lacking = self if mine is None else other
        if (mine is not None or theirs is not None) and lacking.n_docs > 0:
            raise InputError(
                f"{name} is known for some documents only. Found {lacking.n_docs} without. "
                "Give it for every block or for none."
            )
        return theirs if mine is None else mine

    def finish(self) -> dict[str, float]:
        """Metrics over all documents; NaN where no document counts.

        Returns
        -------
        metrics
            - `p@k`: hits in the top k over k, averaged over all documents.
            - `ndcg@k`: gain 1 for a hit, discount 1 / log2(rank + 1), over the gain of min(k, P) hits in the
              first places for a document with P labels; averaged over the documents with labels.
            - `recall@k`: hits in the top k over P, averaged over the documents with labels.
            - `psp@k`, `psndcg@k`: like `p@k` and `ndcg@k`, with gain 1 / p for a hit of propensity p. The sum
              over the documents is divided by the same sum for the best ranking, which has the true labels
              of largest 1 / p first. The Extreme Classification Repository defines this ratio of sums. As
              there, both sums of `psndcg@k` keep each document's own divisor, the gain of min(k, P) hits of
              weight 1. Present if propensities were given.
            - `auc`: averaged over the documents where it is defined; `n_auc_skipped`: number of the others.
              Present if AUCs were given.
            - `n_docs`, `n_unlabelled`: number of documents, and of those without labels.
        """
        n_labelled = self.n_docs - self.n_unlabelled
        metrics: dict[str, float] = {"n_docs": self.n_docs, "n_unlabelled": self.n_unlabelled}
        if self.auc is not None:
            metrics["auc"] = _ratio(self.auc[0], self.auc[1])
            metrics["n_auc_skipped"] = self.n_docs - int(self.auc[1])
        for i, k in enumerate(self.ks):
            metrics[f"p@{k}"] = _ratio(self.hits[i], k * self.n_docs)
            metrics[f"ndcg@{k}"] = _ratio(self.ndcg[i], n_labelled)
            metrics[f"recall@{k}"] = _ratio(self.recall[i], n_labelled)
            if self.propensity_scored is not None:
                hits, best_hits, ndcg, best_ndcg = self.propensity_scored[:, i]
                metrics[f"psp@{k}"] = _ratio(hits, best_hits)
                metrics[f"psndcg@{k}"] = _ratio(ndcg, best_ndcg)
        return metrics


def ranking_sums(
    topk: Array,
    Y: SparseRows,
    ks: Sequence[int] = (1, 3, 5),
    inverse_propensity: Array | None = None,
    auc: Array | None = None,
) -> RankingSums:
    """Sums over one block of documents. `RankingSums.finish` defines each metric.

    Parameters
    ----------
    topk
        (n, k_max) integer label ids, best first and without repeats, -1 for no label. Ranks beyond
        k_max are misses.
    Y
        (n, L) true labels; their values are ignored.
    ks
        Cut-offs, each at least 1.
    inverse_propensity
        (L,) 1 / p of each label, for the propensity-scored metrics.
    auc
        (n,) from `document_auc`, NaN where undefined.

    Notes
    -----
    Cost: O(n K log P + nnz log P) time and O(n K) bytes, K the largest cut-off, P the labels of a document.
    """
    _check_cutoffs(ks)
    _check_length("topk", len(topk), Y.n_rows, "document")
    n, K = Y.n_rows, max(ks, default=0)
    hits = np.zeros((n, K), np.bool_)
    metrics_kernels.mark_hits(topk[:, :K], Y.indptr, Y.indices, hits)

    n_labels = np.diff(Y.indptr)  # (n,)
    labels_or_one = np.maximum(n_labels, 1)  # (n,) unlabelled documents have no hits: any divisor will do
    discounts = 1.0 / np.log2(np.arange(K) + 2.0)  # (K,)
    ideal_dcg = np.cumsum(discounts)  # (K,)

    def summed_gains(gains: Array) -> Array:  # (n, K) -> (n_ks,)
        return np.array([gains[:, :k].sum() for k in ks], np.float64)

    def summed_ndcg(gains: Array) -> Array:  # (n, K) -> (n_ks,)
        return np.array(
            [(gains[:, :k] @ discounts[:k] / ideal_dcg[np.minimum(labels_or_one, k) - 1]).sum() for k in ks],
            np.float64,
        )

    propensity_scored = None
    if inverse_propensity is not None:
        _check_length("inverse_propensity", len(inverse_propensity), Y.n_columns, "label")
        gains = np.zeros((n, K))
        rows, ranks = np.nonzero(hits)
        gains[rows, ranks] = inverse_propensity[topk[rows, ranks]]
        best = np.zeros((n, K))
        metrics_kernels.largest_weights(Y.indptr, Y.indices, inverse_propensity, best)
        propensity_scored = np.stack(
            [summed_gains(gains), summed_gains(best), summed_ndcg(gains), summed_ndcg(best)]
        )
    auc_sums = None
    if auc is not None:
        _check_length("auc", len(auc), Y.n_rows, "document")
        auc_sums = np.array([np.nansum(auc), np.count_nonzero(~np.isnan(auc))], np.float64)
    return RankingSums(
        tuple(ks),
        n,
        int(np.count_nonzero(n_labels == 0)),
        summed_gains(hits),
        summed_ndcg(hits),
        summed_gains(hits / labels_or_one[:, np.newaxis]),
        propensity_scored,
        auc_sums,
    )


RELIABILITY_EDGES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Edges of the bins of probabilities. Most pairs of a document and a label are in the first bins."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Sums over documents that give the standard error of a mean."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: Array) -> Spread:
        """Sums of one value for each document. Undefined values are NaN and do not count."""
        known = values[~np.isnan(values)].astype(np.float64)
        return cls(len(known), float(known.sum()), float((known**2).sum()))

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.n + other.n, self.total + other.total, self.squares + other.squares)

    def standard_error(self, n_docs: int) -> float:
        """Standard error of the mean, for documents drawn at random from `n_docs`; NaN for fewer than two."""
        if self.n < 2:
            return math.nan
        variance = max(0.0, self.squares - self.total**2 / self.n) / (self.n - 1)
        return math.sqrt(variance / self.n * max(0.0, 1 - self.n / n_docs))


@dataclass(frozen=True, slots=True, eq=False)
class ReliabilitySums:
    """Sums over pairs of a document and a label that show how well probabilities are calibrated.

    Parameters
    ----------
    bins
        (3, n_bins): number of pairs in each bin, sum of their probabilities, and number of true pairs.
    squares
        Sum of (probability - truth)².
    spread
        Spread of each document's mean of (probability - truth)².
    """

    bins: Array
    squares: float
    spread: Spread = Spread()

    @classmethod
    def zero(cls) -> ReliabilitySums:
        """Sums over no pairs."""
        return cls(np.zeros((3, len(RELIABILITY_EDGES) - 1)), 0.0)

    def merge(self, other: ReliabilitySums) -> ReliabilitySums:
        """Sums over the pairs of both. Neither operand changes."""
        bins, squares = self.bins + other.bins, self.squares + other.squares
        return ReliabilitySums(bins, squares, self.spread + other.spread)

    def finish(self) -> dict[str, Any]:
        """`brier`, the mean of (probability - truth)², and `reliability`, a row for each bin that has pairs.

        A row has the bin's bounds `from` and `to`, the number of `pairs`, the mean `predicted` probability
        and the `observed` share of true pairs. For calibrated probabilities the last two agree.
        """
        rows = [
            {"from": low, "to": high, "pairs": int(n), "predicted": p / n, "observed": true / n}
            for low, high, (n, p, true) in zip(
                RELIABILITY_EDGES[:-1], RELIABILITY_EDGES[1:], self.bins.T.tolist(), strict=True
            )
            if n
        ]
        return {"brier": _ratio(self.squares, self.bins[0].sum()), "reliability": rows}


def reliability_sums(probabilities: Array, Y: SparseRows) -> ReliabilitySums:
    """Sums over all labels of some documents.

    Parameters
    ----------
    probabilities
        (n, L) in [0, 1].
    Y
        (n, L) true labels; their values are ignored.

    Notes
    -----
    Cost: O(n L) time, and L bytes.
    """
    if probabilities.shape != Y.shape:
        raise InputError(
            f"probabilities need a row for each document and a column for each label. Found "
            f"{probabilities.shape}, labels of shape {Y.shape}. Pass those of these documents."
        )
    sums = ReliabilitySums.zero()
    edges = np.array(RELIABILITY_EDGES[1:-1])
    own = np.empty(Y.n_rows)  # (n,)
    squares = metrics_kernels.reliability(probabilities, Y.indptr, Y.indices, edges, sums.bins, own)
    return ReliabilitySums(sums.bins, float(squares), Spread.of(own / max(1, Y.n_columns)))


def _ratio(total: float, count: float) -> float:
    return float(total / count) if count else math.nan


def _check_cutoffs(ks: Sequence[int]) -> None:
    if any(k < 1 for k in ks):
        raise InputError(f"ks are cut-offs of a ranking. Found {tuple(ks)}. Pass numbers of 1 or more.")


def _check_length(name: str, found: int, expected: int, unit: str) -> None:
    if found != expected:
        raise InputError(
            f"{name} needs an entry for each {unit}. Found {found} for {expected}. Pass them all."
        )
