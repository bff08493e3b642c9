"""Slow, obvious shortlists, blends and calibration, pair by pair: oracles of `parts`."""

from __future__ import annotations

import math

import numpy as np


def shortlist(best, labels, drawn, n_labels):
    """[(label, is it carried, how many it stands for)] of one document, labels increasing."""
    listed = {int(label) for label in best if label >= 0} | {int(label) for label in labels}
    others = {int(label) for label in drawn} - listed
    each = (n_labels - len(listed)) / len(others) if others else math.nan
    return [(label, label in labels, 1.0 if label in listed else each) for label in sorted(listed | others)]


def measures(documents):
    """AUC and P@k from (scores, hits, weights) of each document; documents without hits do not count."""
    areas, precisions = [], {1: [], 3: [], 5: []}
    for scores, hits, weights in documents:
        if not any(hits):
            continue
        ranking = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        for k, values in precisions.items():
            values.append(sum(hits[i] for i in ranking[:k]) / k)
        won = lost = 0.0
        for i in np.flatnonzero(hits):
            for j in np.flatnonzero(~np.asarray(hits)):
                share = 1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0
                won += share * weights[j]
                lost += (1 - share) * weights[j]
        if won + lost:
            areas.append(won / (won + lost))
    return {
        "auc": sum(areas) / max(1, len(areas)),
        **{f"p@{k}": sum(values) / max(1, len(values)) for k, values in precisions.items()},
    }


def blend(choice, ridge, products, lengths, shares):
    """(pairs,): ridge + a x·c / (|c| + damping) + b sqrt(shares); a label never seen is not remembered."""
    scores = []
    for i in range(len(products)):
        below = lengths[i] + choice["memory.damping"]
        remembered = choice["memory.weight"] * products[i] / below if below > 0 else 0.0
        scores.append(ridge[i] + remembered + choice["refined.weight"] * math.sqrt(shares[i]))
    return np.array(scores)


def pooled(rates, weights):
    """Isotonic regression: groups of neighbours [rate, weight, size], joined until rates increase."""
    groups = []
    for rate, weight in zip(rates, weights, strict=True):
        groups.append([rate, weight, 1])
        while len(groups) > 1 and groups[-2][0] >= groups[-1][0]:
            (a, v, m), (b, w, n) = groups.pop(-2), groups.pop()
            groups.append([(a * v + b * w) / (v + w), v + w, m + n])
    return groups


def calibration(scores, hits, weights, most_bins, hits_per_bin):
    """Knots of scores and probabilities, or None; no two scores may be equal."""
    n_hits = sum(bool(hit) for hit in hits)
    n_bins = min(most_bins, n_hits // hits_per_bin)
    if n_bins < 2:
        return None
    bins = [[] for _ in range(n_bins)]
    seen = 0
    for score, hit, weight in sorted(zip(scores, hits, weights, strict=True), key=lambda pair: pair[0]):
        bins[seen * n_bins // n_hits if seen < n_hits else -1].append((score, hit, weight))
        seen += bool(hit)
    totals = [sum(weight for _, _, weight in pairs) for pairs in bins]
    means = [sum(s * w for s, _, w in pairs) / total for pairs, total in zip(bins, totals, strict=True)]
    rates = [
        sum(h * w for _, h, w in pairs) / (total + 0.5) for pairs, total in zip(bins, totals, strict=True)
    ]
    xs, ys, start = [], [], 0
    for rate, weight, size in pooled(rates, totals):
        xs.append(sum(means[i] * totals[i] for i in range(start, start + size)) / weight)
        ys.append(rate)
        start += size
    bottom, top = float(min(scores)), float(max(scores))
    resolution = 1e-4 * (1 + max(abs(bottom), abs(top)))
    bottom, top = min(bottom, xs[0] - resolution), max(top, xs[-1] + resolution)
    first_rise, last_rise = ((ys[1] - ys[0]) / 2, (ys[-1] - ys[-2]) / 2) if len(ys) > 1 else (0.0, 0.0)
    low = ys[0] - min(max(first_rise, 1e-3 * ys[0]), ys[0] / 2)
    high = ys[-1] + min(max(last_rise, 1e-3 * (1 - ys[-1])), (1 - ys[-1]) / 2)
    xs = [bottom - (top - bottom), bottom, *xs, top, top + (top - bottom)]
    return np.array(xs), np.array([0, low, *ys, high, 1])


def best_f1(scores, hits, weights):
    """The best micro-F1 that any threshold on these scores gives, and the scores from which on it does."""
    best = (0.0, None)
    for threshold in sorted(set(scores), reverse=True):
        above = [i for i in range(len(scores)) if scores[i] >= threshold]
        found = sum(weights[i] for i in above if hits[i])
        wanted = sum(weights[i] for i in range(len(scores)) if hits[i])
        f1 = 2 * found / (sum(weights[i] for i in above) + wanted)
        if f1 > best[0]:
            best = (f1, threshold)
    return best
