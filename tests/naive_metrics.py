"""Slow, obvious ranking metrics over dense labels: the oracles of `test_metrics.py`."""

from __future__ import annotations

import math

import numpy as np


def document_auc(scores, Y):
    """(n,) AUCs from (n, L) scores and (n, L) bool labels, pair by pair."""
    aucs = []
    for s, y in zip(scores, Y, strict=True):
        pairs = [
            1.0 if positive > negative else 0.5 if positive == negative else 0.0
            for positive in s[y]
            for negative in s[~y]
        ]
        aucs.append(sum(pairs) / len(pairs) if pairs else math.nan)
    return np.array(aucs)


def propensities(label_counts, n_docs, A=0.55, B=1.5):
    """(L,) propensities, label by label."""
    C = (math.log(n_docs) - 1) * (B + 1) ** A
    return np.array([1 / (1 + C * (count + B) ** (-A)) for count in label_counts])


def mean(values):
    """Mean of a list, NaN when it is empty."""
    return sum(values) / len(values) if values else math.nan


def ratio(above, below):
    """Ratio of the sums of two lists, NaN when the lower one is zero."""
    return sum(above) / sum(below) if sum(below) else math.nan


def dcg(gains):
    """Discounted gain of a list of gains, best rank first."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def metrics(topk, Y, ks, inverse_propensity=None, auc=None):
    """What `RankingSums.finish` gives, from (n, L) bool labels, document by document."""
    labels = [set(np.flatnonzero(y).tolist()) for y in Y]
    rankings = [[int(label) for label in row] for row in topk]
    labelled = [(ranking, true) for ranking, true in zip(rankings, labels, strict=True) if true]
    result = {"n_docs": len(labels), "n_unlabelled": len(labels) - len(labelled)}
    if auc is not None:
        defined = [float(value) for value in auc if not math.isnan(value)]
        result["auc"] = mean(defined)
        result["n_auc_skipped"] = len(auc) - len(defined)
    for k in ks:
        result[f"p@{k}"] = mean(
            [
                sum(label in true for label in ranking[:k]) / k
                for ranking, true in zip(rankings, labels, strict=True)
            ]
        )
        recalls, ndcgs, gains, best_gains, dcgs, best_dcgs = [], [], [], [], [], []
        for ranking, true in labelled:
            hits = [float(label in true) for label in ranking[:k]]
            ideal = dcg([1.0] * min(k, len(true)))
            recalls.append(sum(hits) / len(true))
            ndcgs.append(dcg(hits) / ideal)
            if inverse_propensity is not None:
                reached = [inverse_propensity[label] if label in true else 0.0 for label in ranking[:k]]
                best = sorted((inverse_propensity[label] for label in true), reverse=True)[:k]
                gains.append(sum(reached))
                best_gains.append(sum(best))
                dcgs.append(dcg(reached) / ideal)
                best_dcgs.append(dcg(best) / ideal)
        result[f"recall@{k}"] = mean(recalls)
        result[f"ndcg@{k}"] = mean(ndcgs)
        if inverse_propensity is not None:
            result[f"psp@{k}"] = ratio(gains, best_gains)
            result[f"psndcg@{k}"] = ratio(dcgs, best_dcgs)
    return result


def reliability(probabilities, Y, edges):
    """What `ReliabilitySums.finish` gives, pair by pair; an edge belongs to the bin above, 1 to the last."""
    squares, bins = [], [[] for _ in edges[1:]]
    for row, truths in zip(probabilities.tolist(), Y.tolist(), strict=True):
        for p, true in zip(row, truths, strict=True):
            squares.append((p - true) ** 2)
            place = max(i for i, low in enumerate(edges[:-1]) if p >= low)
            bins[place].append((p, true))
    rows = [
        {
            "from": edges[i],
            "to": edges[i + 1],
            "pairs": len(pairs),
            "predicted": mean([p for p, _ in pairs]),
            "observed": mean([true for _, true in pairs]),
        }
        for i, pairs in enumerate(bins)
        if pairs
    ]
    return {"brier": mean(squares), "reliability": rows}
