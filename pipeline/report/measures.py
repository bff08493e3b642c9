"""Evaluation for a report: measures on test documents, by frequency of labels, and examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..corpus.store import Corpus
from ..errors import InputError
from ..metrics.scores import LabelCounts, Scores
from ..model.evidence import Explanation
from ..model.predictor import Predictor
from ..progress import Progress, begin
from ..types import Array

BEST = 5
"""Number of labels that are considered for each document."""
_BANDS = ((0, 0), (1, 2), (3, 9), (10, 29), (30, 99), (100, 299), (300, 999), (1000, None))
_EXAMPLES = 6
_FEWEST_WORDS = 8
_MOST_WORDS = 60
_WORD = re.compile(r"\w+")
_LINE_END = re.compile(r"(?<!\n)[ \t]*\n[ \t]*(?!\s*\n)")
"""End of a line within a paragraph."""
_MOST_TEXT = 900


@dataclass(frozen=True, slots=True)
class FrequencyBand:
    """Labels with similar numbers of training documents."""

    name: str
    labels: int
    occurrences: int
    """Number of true labels in the test documents."""
    found: int
    """Number of true labels that are among the five best."""
    predicted: int
    """Number of labels of the band among the five best, true or not."""

    @property
    def recall(self) -> float:
        """Share of true labels that are among the five best."""
        return self.found / self.occurrences if self.occurrences else float("nan")


@dataclass(frozen=True, slots=True)
class Guess:
    """A predicted label."""

    label: str
    score: float
    right: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a document's text; `strength`, -1 to 3, is its evidence for the best label."""

    text: str
    strength: int
    said: str


@dataclass(frozen=True, slots=True)
class Example:
    """A document with its predicted labels and their evidence."""

    number: int
    guesses: list[Guess]
    missed: list[str]
    pieces: list[Piece]
    is_text: bool
    """Whether the pieces are running text; otherwise they are single words, most important first."""
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Measures:
    """Everything that was measured on a test corpus."""

    n_docs: int
    scores: Scores
    """The result of `Predictor.evaluate`."""
    bands: list[FrequencyBand]
    labels: LabelCounts
    """Counts of each label among the five best."""
    examples: list[Example]


def measure(
    model: Predictor,
    corpus: Corpus,
    texts: Mapping[int, str] | None = None,
    progress: Progress | None = None,
) -> Measures:
    """Evaluate the model once, and explain some examples.

    Parameters
    ----------
    texts
        Original texts of documents, by number in the corpus, to show as examples.
    """
    if corpus.n_docs == 0:
        raise InputError("The test corpus is empty. Found no documents. Give one that has some.")
    scores = model.evaluate(corpus, ks=(1, 3, BEST), progress=progress)
    labels = scores.by_label
    assert labels is not None
    begin(progress, "examples")
    examples = [_example(model, corpus, row, texts) for row in _example_rows(corpus)]
    return Measures(corpus.n_docs, scores, _bands(model.label_counts, labels), labels, examples)


def _bands(counts: Array, labels: LabelCounts) -> list[FrequencyBand]:
    bands = []
    for low, high in _BANDS:
        inside = (counts >= low) & (counts <= (counts.max(initial=0) if high is None else high))
        name = f"{low:,}+" if high is None else f"{low}" if low == high else f"{low}–{high}"
        sums = (int(part[inside].sum()) for part in (labels.true, labels.found, labels.predicted))
        bands.append(FrequencyBand(name, int(inside.sum()), *sums))
    used = [i for i, band in enumerate(bands) if band.labels and (band.occurrences or i > 0)]
    return bands[used[0] : used[-1] + 1] if used else []


def _example_rows(corpus: Corpus) -> list[int]:
    """Rows of up to six documents with some words and labels, from all parts of the corpus."""
    step = max(1, corpus.n_docs // _EXAMPLES)
    bounds = np.concatenate([[0], np.cumsum(corpus.block_rows)])
    rows: list[int] = []
    for first in range(0, corpus.n_docs, step):
        number = int(np.searchsorted(bounds, first, side="right")) - 1
        block = corpus.block(number)
        words, labels = np.diff(block.X.indptr), np.diff(block.Y.indptr)
        good = (
            np.flatnonzero((words >= _FEWEST_WORDS) & (words <= _MOST_WORDS) & (labels > 0)) + block.first_row
        )
        good = good[(good >= first) & (good < first + step)]
        if len(good):
            rows.append(int(good[0]))
    return rows[:_EXAMPLES]


def _example(model: Predictor, corpus: Corpus, row: int, texts: Mapping[int, str] | None) -> Example:
    number = int(corpus.doc_ids[row])
    document = Corpus(corpus.root, corpus.info, corpus.doc_ids[row : row + 1])
    true = set(document.to_scipy()[1].indices.tolist())
    (labels,), (scores,) = model.predict_topk(document, BEST)
    kept = labels >= 0
    names = model.label_names
    guesses = [
        Guess(names[i], float(score), i in true)
        for i, score in zip(labels[kept].tolist(), scores[kept].tolist(), strict=True)
    ]
    explanation = model.explain(document, int(labels[0]), n=_MOST_WORDS)
    missed = sorted(names[i] for i in true - set(labels.tolist()))
    text = None if texts is None else texts.get(number)
    pieces = _bag(explanation) if text is None else _running(text, explanation)
    return Example(number, guesses, missed, pieces, text is not None, explanation)


def _strengths(explanation: Explanation) -> dict[str, tuple[int, float]]:
    """Strength of each word (3 to 1 for the label, 0 hardly any, -1 against it), and its gain."""
    most = max((abs(gain) for _, gain in explanation.words), default=0.0)
    classes = {}
    for name, gain in explanation.words:
        share = gain / most if most else 0.0
        strength = 3 if share > 0.5 else 2 if share > 0.2 else 1 if share > 0.1 else -1 if share < -0.2 else 0
        classes[name] = (strength, gain)
    return classes


def _bag(explanation: Explanation) -> list[Piece]:
    return [
        Piece(name, strength, f"{gain:+.4f}") for name, (strength, gain) in _strengths(explanation).items()
    ]


def _running(text: str, explanation: Explanation) -> list[Piece]:
    """Start of the text, cut at the words that matter."""
    classes = _strengths(explanation)
    flowing = _LINE_END.sub(" ", text)
    shown = flowing if len(flowing) <= _MOST_TEXT else f"{flowing[:_MOST_TEXT].rsplit(' ', 1)[0]} …"
    pieces: list[Piece] = []
    end = 0
    for match in _WORD.finditer(shown):
        word = match[0]
        strength, gain = classes.get(word, classes.get(word.lower(), (0, 0.0)))
        if strength:
            pieces.append(Piece(shown[end : match.start()], 0, ""))
            pieces.append(Piece(word, strength, f"{gain:+.4f}"))
            end = match.end()
    pieces.append(Piece(shown[end:], 0, ""))
    return pieces
