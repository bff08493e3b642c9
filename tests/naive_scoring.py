"""Slow, obvious predictions from a fitted model, document by document: oracles of `parts`."""

from __future__ import annotations

import math

import numpy as np


def smoothed(topics, smoothing):
    """(D, K): each topic's words mixed with a uniform distribution."""
    return (1 - smoothing) * np.asarray(topics, np.float64) + smoothing / len(topics)


def posterior(X, topics, pi):
    """(n, K) P[topic | document] from the dense X, by sums of logarithms: documents of any length."""
    P = np.zeros((len(X), len(pi)))
    for d, x in enumerate(X):
        logs = [math.log(weight) + math.fsum(np.log(topics[x > 0, h])) for h, weight in enumerate(pi)]
        P[d] = [math.exp(log - max(logs)) for log in logs]
        P[d] /= P[d].sum()
    return P


def label_scores(F, A):
    """(n, L): the sum over columns of F_d A_l, from dense matrices in double precision."""
    out = np.zeros((len(F), len(A)))
    for d, f in enumerate(F):
        for label, a in enumerate(A):
            out[d, label] = math.fsum(float(x) * float(y) for x, y in zip(f, a, strict=True))
    return out


def top_labels(scores, k):
    """(n, k) labels and scores by sorting everything, ties by label id; -1 and NaN where there is none."""
    labels, best = np.full((len(scores), k), -1), np.full((len(scores), k), np.nan)
    for d, row in enumerate(scores):
        for rank, label in enumerate(sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]):
            labels[d, rank], best[d, rank] = label, row[label]
    return labels, best


def indicator(scores, k, threshold):
    """(n, L) 0/1: the k best labels of each row, as far as they reach the threshold; None is no limit."""
    chosen = np.zeros(scores.shape, int)
    labels, best = top_labels(scores, scores.shape[1] if k is None else min(k, scores.shape[1]))
    for d, (row, values) in enumerate(zip(labels, best, strict=True)):
        for label, value in zip(row, values, strict=True):
            chosen[d, label] = threshold is None or value >= threshold
    return chosen
