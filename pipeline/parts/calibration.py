"""From scores to probabilities: what share of held-out documents with such a score did carry the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import Array
from .scoring_kernels import interpolate

_MOST_KNOTS = 100
_HITS_PER_KNOT = 12
FEWEST_HITS = 2 * _HITS_PER_KNOT
"""Pairs of a document and one of its labels that calibration takes."""


@dataclass(frozen=True)
class Calibration:
    """A piecewise linear, increasing map of scores to probabilities; constant beyond its ends."""

    scores: Array
    """(m,) float32, increasing."""
    probabilities: Array
    """(m,) float32 in [0, 1], increasing."""

    @property
    def is_fitted(self) -> bool:
        """Whether it was learned from held-out documents; else it only divides (two knots)."""
        return len(self.scores) > 2

    def apply(self, scores: Array) -> Array:
        """Probabilities of any array of float32 scores."""
        flat = np.ascontiguousarray(scores, np.float32).ravel()
        out = np.empty_like(flat)
        interpolate(flat, self.scores, self.probabilities, out)
        return out.reshape(scores.shape)

    @classmethod
    def uncalibrated(cls, largest: float) -> Calibration:
        """Scores divided by the largest that there can be: where no held-out documents are to be had."""
        return cls(np.array([0, largest], np.float32), np.array([0, 1], np.float32))

    @classmethod
    def fitted(cls, scores: Array, hits: Array, weights: Array) -> Calibration | None:
        """The map from (document, label) pairs that were not learned from; None when there are too few hits.

        Parameters
        ----------
        scores, hits
            Scores of the pairs, and whether the document does carry the label.
        weights
            How many pairs each one stands for.

        Notes
        -----
        Pairs are cut by score into bins of as many hits each; a bin gives a mean score and a rate of hits,
        hits / (pairs + 1/2), and rates are made increasing by pooling neighbours (isotonic regression).
        Straight lines between bins keep the ranking, which steps would not. They go on to the scores that
        were seen last, by half a bin's rise, and from there to 0 and to 1, as far away as scores are apart.
        """
        from scipy.optimize import isotonic_regression  # not needed to apply the map

        if hits.sum() < FEWEST_HITS:
            return None
        n_bins = min(_MOST_KNOTS, int(hits.sum()) // _HITS_PER_KNOT)
        order = np.argsort(scores, kind="stable")
        scores, hits, weights = (array[order].astype(np.float64) for array in (scores, hits, weights))
        below = np.cumsum(hits) - hits
        bins = np.minimum((below * n_bins / hits.sum()).astype(int), n_bins - 1)
        total = np.bincount(bins, weights, n_bins)
        means = np.bincount(bins, weights * scores, n_bins) / total
        rates = np.bincount(bins, weights * hits, n_bins) / (total + 0.5)
        rates = isotonic_regression(rates, weights=total).x
        # neighbours that were pooled are one bin
        starts = np.flatnonzero(np.concatenate([[True], (np.diff(rates) > 0) & (np.diff(means) > 0)]))
        pooled = np.add.reduceat(total, starts)
        xs = np.add.reduceat(means * total, starts) / pooled
        ys = np.add.reduceat(rates * total, starts) / pooled
        resolution = 1e-4 * (1 + abs(scores).max())  # scores are in single precision
        bottom, top = min(scores[0], xs[0] - resolution), max(scores[-1], xs[-1] + resolution)
        rise = np.diff(ys) / 2 if len(ys) > 1 else np.zeros(1)
        low = ys[0] - np.clip(rise[0], 1e-3 * ys[0], ys[0] / 2)
        high = ys[-1] + np.clip(rise[-1], 1e-3 * (1 - ys[-1]), (1 - ys[-1]) / 2)
        xs = np.concatenate([[2 * bottom - top, bottom], xs, [top, 2 * top - bottom]])
        ys = np.concatenate([[0, low], ys, [high, 1]])
        return cls(xs.astype(np.float32), ys.astype(np.float32))
