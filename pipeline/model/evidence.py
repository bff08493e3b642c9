"""Evidence for people to look at: topics, and why a document got a label."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError
from ..moments.topics import MomentTopics
from ..parts.scoring import foremost
from ..tasks import one_blas_thread
from ..types import Array
from .inputs import documents

if TYPE_CHECKING:
    from .predictor import Predictor

Weighted = list[tuple[str, float]]
"""Names, and a number for each."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic, as a person may read it."""

    number: int
    weight: float
    """P[topic]."""
    words: Weighted
    """The words that tell it from the other topics, with P[word | topic]."""
    labels: Weighted
    """The most likely labels, with P[label | topic]."""
    word_error: float
    """Measured L1 error of its words, 0 to 2; NaN where none was measured."""
    label_error: float
    """The same of its labels."""

    def __str__(self) -> str:
        error = "" if np.isnan(self.word_error) else f", off by about {self.word_error:.2f} in its words"
        words, labels = (", ".join(name for name, _ in side) for side in (self.words, self.labels))
        return f"topic {self.number} ({self.weight:.1%}{error})\n  words:  {words}\n  labels: {labels}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a document has a label, or has it not."""

    label: str
    score: float
    """Final score; `scores_mean_` tells its meaning."""
    words: Weighted
    """Loss of the raw score without each word; the weightiest first, below 0 against the label."""
    parts: list[tuple[str, float]]
    """Share of each part in the raw score."""
    topics: list[tuple[int, float, float]]
    """Topic, its probability for the document, and its share of what all topics say for the label.

    They are the topics that the model scores labels by: those of `topics`, or as EM has refined them.
    """
    unknown: list[str]
    """Words of the text that the model does not know."""
    classifier: Weighted = field(default_factory=list)
    """Words, and what each adds to the margin of the label's own classifier; largest first."""

    def __str__(self) -> str:
        words = [f"  {gain:+.4f}  {name}" for name, gain in self.words]
        parts = [f"  {share:+.4f}  {name} part" for name, share in self.parts]
        topics = [f"  topic {i}: probability {p:.2f}, share {s:.0%}" for i, p, s in self.topics]
        own = [f"  {value:+.4f}  {name} in the label's classifier" for name, value in self.classifier]
        unknown = [f"not known: {', '.join(self.unknown)}"] if self.unknown else []
        return "\n".join([f"{self.label}: {self.score:.4f}", *words, *parts, *topics, *own, *unknown])


@one_blas_thread()
def topic_list(moments: MomentTopics, terms: list[str], labels: list[str], n: int) -> list[Topic]:
    """All topics of the paper, heaviest first, each with its n most telling words and most likely labels.

    Words are ordered by O_vk log(O_vk / P[v]), their share of what the topic's words differ by from those of
    all documents (Kullback-Leibler): words that are everywhere tell nothing.
    """
    _check_number(n)
    O, Q, pi, bars = moments.O, moments.Q, moments.pi, moments.error_bars

    def named(column: Array, order: Array, names: list[str]) -> Weighted:
        return [(names[i], float(column[i])) for i in order]

    overall = O @ pi.astype(np.float32)  # (D,)
    tiny = np.finfo(np.float32).tiny

    def telling(column: Array) -> Array:
        return np.asarray(column * np.log(np.maximum(column, tiny) / np.maximum(overall, tiny)))

    return [
        Topic(
            int(k),
            float(pi[k]),
            named(O[:, k], _largest(telling(O[:, k]), n), terms),
            named(Q[:, k], _largest(Q[:, k], n), labels),
            float(bars.words[k]),
            float(bars.labels[k]),
        )
        for k in np.argsort(-pi, kind="stable")
    ]


@one_blas_thread()
def explanation(model: Predictor, document: Any, label: int | str, n: int) -> Explanation:
    """Score the document whole and without each of its words."""
    _check_number(n)
    number = _label_number(model.label_names, label)
    words, unknown, names = _one_row(model, document)
    blend = model.blend
    # row 0 is the document, row i + 1 the document without its i-th word
    ids = words.indices
    rows = [ids, *(np.delete(ids, i) for i in range(len(ids)))]
    counts = words.values_as(np.float64)
    values = [counts, *(np.delete(counts, i) for i in range(len(ids)))]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    variants = SparseRows(indptr, np.concatenate(rows), np.concatenate(values), words.n_columns)
    seen, own = blend.see(variants), slice(number, number + 1)
    scores = blend.scores(seen, slice(0, len(rows)), own)[:, 0]
    parts = [(part.name, float(blend.share(part, seen, slice(0, 1), own)[0, 0])) for part in blend.parts]
    if (rescorer := blend.rescorer) is not None and number in foremost(blend, seen.take(np.zeros(1, int))):
        bonus = rescorer.bonus(seen.words.weighted, np.full((len(rows), 1), number))[:, 0]
        scores = scores + bonus
        parts = [(name, float(bonus[0]) if name == rescorer.name else value) for name, value in parts]
    told = blend.evidence(words, number)
    gains = scores[0].astype(np.float64) - scores[1:]
    order = np.argsort(-abs(gains), kind="stable")[:n]
    return Explanation(
        model.label_names[number],
        float(blend.probabilities(scores[:1])[0]),
        [(names.get(int(ids[i]), model.term_names[ids[i]]), float(gains[i])) for i in order],
        parts,
        [topic for one in told for topic in one.topics][:n],
        unknown,
        [(names.get(i, model.term_names[i]), weight) for one in told for i, weight in one.words][:n],
    )


def _check_number(n: int) -> None:
    if n < 1:
        raise InputError(f"n is a number of words and labels. Found {n}. Pass 1 or more.")


def _largest(values: Array, n: int) -> Array:
    """The places of the n largest values, in order; the first of equal ones."""
    return np.argsort(-values, kind="stable")[:n]


def _label_number(names: list[str], label: int | str) -> int:
    if isinstance(label, str):
        if label in names:
            return names.index(label)
        close = get_close_matches(label, names, 3)
        hint = f"Did you mean: {', '.join(close)}?" if close else "See label_names_ for those there are."
        raise InputError(f"There is no label of that name. Found {label!r}. {hint}")
    if not (isinstance(label, int | np.integer) and 0 <= label < len(names)):
        raise InputError(
            f"There is no label of that number. Found {label!r}. Pass 0 to {len(names) - 1}, or a name."
        )
    return int(label)


def _one_row(model: Predictor, document: Any) -> tuple[SparseRows, list[str], dict[int, str]]:
    """The words of one document in the model's columns, those of a text that it does not know, and names.

    Names are by column, where the model has none: its words are hashed.
    """
    if isinstance(document, str):
        if model.text is not None:
            return model.encoder.one(document)
        return *_text_row(document, model.term_names), {}
    if not isinstance(document, Corpus) and np.ndim(document) == 1:
        is_sparse = hasattr(document, "tocsr")
        document = document.reshape(1, -1) if is_sparse else np.asarray(document)[None, :]
    docs = documents(document, None, model.n_terms)
    rows = SparseRows.concatenate([docs.read(i)[0] for i in range(docs.n_blocks)])
    if rows.n_rows != 1:
        raise InputError(
            f"One document at a time can be explained. Found {rows.n_rows}. Pass one row, as in X[:1]."
        )
    return rows, [], {}


def _text_row(text: str, terms: list[str]) -> tuple[SparseRows, list[str]]:
    """Words of a text that are names of columns, as written or in lower case; and those that are not."""
    from ..text.info import Tokenizer
    from ..text.words import WordFinder, as_texts, strings_of

    number_of = {name: i for i, name in enumerate(terms)}
    finder = WordFinder(Tokenizer(lower=False, min_length=1))
    (words,) = strings_of(finder.find([as_texts([text])]), False)
    counts: dict[int, int] = {}
    unknown: dict[str, None] = {}
    for word in words:
        number = number_of.get(word, number_of.get(word.lower()))
        if number is None:
            unknown[word] = None
        else:
            counts[number] = counts.get(number, 0) + 1
    ids = sorted(counts)
    values = np.array([counts[i] for i in ids], np.float32)
    row = SparseRows(np.array([0, len(ids)], np.int64), np.array(ids, np.int32), values, len(terms))
    return row, list(unknown)
