"""Number of features of the ridge regression: as many as pay, and as memory and time allow."""

from __future__ import annotations

from dataclasses import dataclass

from ..passes.plan import PARTS_BYTES

_MOST = 1500
_WORDS = 300
_WAVES = 1000
_WORK = 4e11
"""Multiply-adds that F'F may take, N p²: some seconds."""


@dataclass(frozen=True, slots=True)
class FeatureCounts:
    """Numbers of features, by what they are."""

    labels: int
    """Directions from the word-label cross moment."""
    words: int
    """Directions of the words themselves, once every label has its own."""
    waves: int
    """Random waves of all these directions."""
    reason: str
    """The limit that set their number."""

    @property
    def total(self) -> int:
        return self.labels + self.words + self.waves


def feature_counts(
    n_docs: int, n_terms: int, n_labels: int, wanted: int | None = None, memory_bytes: int = PARTS_BYTES
) -> FeatureCounts:
    """Numbers of features: as many as asked for, or as pay; fewer where memory does not suffice.

    A direction takes 8 D bytes (in the basis, and once more when its words are put in the source's order) and
    40 L for the accumulators of running tasks and for what is solved; F'F itself 40 p² in the same way.
    """
    each, square = 8 * n_terms + 40 * n_labels, 40
    affordable = int((-each + (each**2 + 4 * square * memory_bytes) ** 0.5) / (2 * square))
    directions = min(n_labels, n_terms) + min(_WORDS, n_terms - min(n_labels, n_terms))
    limits = (
        {"as asked for": wanted, "no more than words": n_terms}
        if wanted is not None
        else {
            "no more are of use": directions + _WAVES,
            "no more than documents": n_docs,
            "more seldom pay": _MOST,
            f"work: N p² <= {_WORK:.0e}": int((_WORK / max(1, n_docs)) ** 0.5),
        }
    )
    limits[f"memory: {affordable} features take {memory_bytes / 1e9:.2g} GB"] = affordable
    reason, most = min(limits.items(), key=lambda limit: limit[1])  # the first of equal ones
    most = max(1, most)
    labels = min(n_labels, n_terms, most)
    words = min(_WORDS if wanted is None else most, n_terms - labels, most - labels)
    waves = min(_WAVES, most - labels - words) if wanted is None else 0
    return FeatureCounts(labels, words, waves, reason)
