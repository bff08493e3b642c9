"""Measures of a head's rankings and probabilities, summed over documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pipeline.corpus.rows import Array, SparseRows
from pipeline.errors import InputError
from pipeline.metrics import RankingSums, ReliabilitySums, document_auc, ranking_sums, reliability_sums
from pipeline.model.heads import Head, Seen
from pipeline.model.scores import Scores
from pipeline.model.scoring import all_scores, top_labels
from pipeline.model.scoring_kernels import keep_best

Measured = tuple[RankingSums, ReliabilitySums]


@dataclass(frozen=True)
class Evaluation:
    """What is measured, of which head."""

    head: Head
    ks: tuple[int, ...]
    inverse_propensity: Array
    """(L,)."""
    every_label: bool
    """Also what needs the score of every label."""

    def of(self, seen: Seen, labels: SparseRows | None) -> Measured:
        """The sums over some documents."""
        assert labels is not None
        head = self.head
        if labels.n_columns != head.n_labels:
            raise InputError(
                f"The labels do not fit the model. Found {labels.n_columns} columns, "
                f"the model has {head.n_labels}. Use the columns of the training data."
            )
        k, reliability = max(self.ks), ReliabilitySums.zero()
        if not self.every_label:
            best, _ = top_labels(head, seen, k)
            return ranking_sums(best, labels, self.ks, self.inverse_propensity), reliability
        areas, best = np.empty(seen.n_docs), np.full((seen.n_docs, k), -1, np.int32)
        for rows, scores in all_scores(head, seen):
            own = labels.slice(rows.start, rows.stop)
            ranking = head.ranking(scores, slice(0, head.n_labels))
            keep_best(ranking, 0, best[rows], np.full((len(ranking), k), -np.inf, np.float32))
            areas[rows] = document_auc(ranking, own)
            reliability = reliability.merge(reliability_sums(head.probabilities(scores), own))
        return ranking_sums(best, labels, self.ks, self.inverse_propensity, areas), reliability

    def finish(self, parts: Iterable[Measured]) -> Scores:
        """All metrics, from the sums of all documents."""
        ranking, reliability = RankingSums.zero(self.ks), ReliabilitySums.zero()
        for some_ranking, some_reliability in parts:
            ranking, reliability = ranking.merge(some_ranking), reliability.merge(some_reliability)
        return Scores({**ranking.finish(), **(reliability.finish() if self.every_label else {})})
