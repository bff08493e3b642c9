"""The blend: parts added up, and a calibration that makes probabilities of their sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..corpus.rows import SparseRows
from ..moments.topics import MomentTopics
from ..types import Array
from .calibration import Calibration
from .part import Evidence, Scorer, Words
from .terms import Dense, Side, Term, take_side
from .tiles import Tiles
from .weighting import Weighting

_SHARES = "P[label | document] of the topic model: the labels' shares, which add up to 1 over all labels"
_CALIBRATED = "the probability that the document carries the label, calibrated on held-out documents"
_UNCALIBRATED = "a number between 0 and 1, uncalibrated: there were too few training documents for that"


@dataclass(frozen=True, slots=True)
class ScoringSizes:
    """Numbers of documents and labels that are scored together, and when labels are left out."""

    score_bytes: int = 64_000_000
    """Scores held at a time: some documents by all labels, in single precision."""
    docs: int = 1024
    """Documents scored at a time, where only the best labels are kept."""
    labels: int = 8192
    """Labels that each of these is scored for at a time."""
    tile: int = 128
    """Labels in a tile: few enough to be alike, and so many that bounds cost little beside scores."""
    pruned_docs: int = 256
    """Documents whose bounds are held at a time."""
    fewest_labels: int = 16_384
    """Fewer are scored as fast as it is found out which of them to score."""
    labels_per_rank: int = 1000
    """Smallest L / k for which pruning pays."""
    most_scored: float = 1 / 16
    """Share of labels to score before a document is given up: one by one they cost some ten times as much."""


@dataclass(frozen=True, slots=True)
class DocumentFeatures:
    """Features of some documents in every term of a blend, before any label is scored."""

    words: Words
    sides: tuple[Side, ...]
    """The documents as each term sees them."""
    has_words: Array
    """(n,) bool: which of the documents have a word that is known."""

    def take(self, rows: Array) -> DocumentFeatures:
        """Some of the documents."""
        sides = tuple(take_side(side, rows) for side in self.sides)
        return DocumentFeatures(self.words.take(rows), sides, self.has_words[rows])

    @property
    def n_docs(self) -> int:
        return self.words.X.n_rows


@dataclass(frozen=True)
class Blend:
    """Everything that predicting labels takes; words in the order of the matrices it was learned from."""

    head: str
    """Name of the head that it is of."""
    parts: tuple[Scorer, ...]
    weighting: Weighting
    n_labels: int
    calibration: Calibration | None = None
    threshold: float | None = None
    """The probability from which on labels are assigned by default, where one could be chosen."""
    emphasis: Array | None = None
    """(L,) float32: what each label's probability is multiplied by before labels are ranked."""
    plain: Blend | None = None
    """The blend without that emphasis, where it is at hand: they share their tiles."""
    sizes: ScoringSizes = ScoringSizes()

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The terms of all parts."""
        return tuple(term for part in self.parts for term in part.terms)

    @cached_property
    def tiles(self) -> Tiles:
        """The labels in tiles, by which `top_labels` leaves most of them out."""
        if self.plain is not None:
            return self.plain.tiles
        dense = [term for term in self.terms if isinstance(term, Dense)]
        return Tiles.of(dense, self.n_labels, self.sizes.tile)

    def words(self, X: SparseRows) -> Words:
        """Documents as parts see them."""
        return Words(X, self.weighting)

    def see(self, X: SparseRows) -> DocumentFeatures:
        """Features of some documents for all parts."""
        words = self.words(X)
        sides = tuple(side for part in self.parts for side in part.see(words))
        return DocumentFeatures(words, sides, np.diff(X.indptr) > 0)

    @cached_property
    def rescorer(self) -> Scorer | None:
        """The part that scores the best labels by all others anew, if there is one."""
        return next((part for part in self.parts if part.rescored), None)

    def scores(self, seen: DocumentFeatures, rows: slice, labels: slice) -> Array:
        """(s, t) float32: raw scores of some labels for some documents, before the best are scored anew."""
        out: Array | None = None
        for term, side in zip(self.terms, seen.sides, strict=True):
            out = term.add(side, rows, labels, out)
        if out is None:
            out = np.zeros((rows.stop - rows.start, labels.stop - labels.start), np.float32)
        return out

    def share(self, part: Scorer, seen: DocumentFeatures, rows: slice, labels: slice) -> Array:
        """(s, t) float32: what one of the parts adds to the scores of all labels."""
        sides = iter(seen.sides)
        out: Array | None = None
        for other in self.parts:
            for term, side in [(term, next(sides)) for term in other.terms]:
                out = term.add(side, rows, labels, out) if other is part else out
        return (
            np.zeros((rows.stop - rows.start, labels.stop - labels.start), np.float32) if out is None else out
        )

    @property
    def is_calibrated(self) -> bool:
        """Whether scores are probabilities that were calibrated on held-out documents."""
        return self.calibration is not None and self.calibration.is_fitted

    @property
    def meaning(self) -> str:
        """Meaning of the scores, in words."""
        if self.calibration is None:
            return _SHARES
        return _CALIBRATED if self.is_calibrated else _UNCALIBRATED

    def probabilities(self, scores: Array) -> Array:
        """Raw scores as what `meaning` says they are; the order of labels stays."""
        return scores if self.calibration is None else self.calibration.apply(scores)

    def ranking(self, scores: Array, labels: slice) -> Array:
        """Numbers to rank labels by: raw scores, or re-weighted probabilities where that was asked for."""
        return scores if self.emphasis is None else self.probabilities(scores) * self.emphasis[labels]

    def shown(self, ranking: Array) -> Array:
        """The same as users see it: probabilities, or these times the emphasis."""
        return self.probabilities(ranking) if self.emphasis is None else ranking

    def emphasised(self, emphasis: Array) -> Blend:
        """The same that ranks by probability times emphasis (L,)."""
        return replace(self, emphasis=emphasis.astype(np.float32), plain=self)

    def evidence(self, X: SparseRows, label: int) -> list[Evidence]:
        """Evidence of each part for a label of one document."""
        words = self.words(X)
        return [part.evidence(words, label) for part in self.parts]

    def reordered(self, words: Array, moments: MomentTopics, n_threads: int | None = None) -> Blend:
        """The same with words in another order, in place: word `i` is what word `words[i]` was."""
        parts = tuple(part.reordered(words, moments, n_threads) for part in self.parts)
        weighting = replace(self.weighting, idf=self.weighting.idf[words])
        return replace(self, parts=parts, weighting=weighting)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without what is derived."""
        return sum(part.nbytes for part in self.parts)
