"""Problems in tables of texts: counted while they are read, reported at the end."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..corpus import format as fmt
from ..corpus.store import Corpus
from ..display import how_many
from ..errors import InputError
from ..text.words import DocumentWords
from ..warn import warn

_EXAMPLES = 3
_FEWEST_TO_JUDGE = 20
"""Fewest labels whose distribution is judged."""
_OWN_LABEL = 0.4
"""Labels per labelled document from which on each document seems to have its own label."""
_NO_BLANKS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts without blanks between words: Thai, Lao, Burmese, Khmer, kana, Han."""
_CHARACTERS = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*|"
    r"[\p{Latin}\p{Cyrillic}\p{N}]+"
)
_LONG_RUN = 4
"""Largest mean length of a run of these characters in texts with blanks between words."""


@dataclass
class Tally:
    """Counts of problems; safe to use from many threads."""

    strict: bool
    done_to_bad: str = "left out"
    """Fate of unusable rows, in the words of the warning."""
    bad: int = 0
    broken: int = 0
    empty: int = 0
    documents: int = 0
    examples: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def bad_row(self, where: Callable[[], str], why: str) -> None:
        """Count an unusable row."""
        if self.strict:
            raise InputError(f"{where()}: {why}. Fix the row, or drop --strict to skip it.")
        with self._lock:
            self.bad += 1
            shown = len(self.examples) < _EXAMPLES
        if shown:
            example = f"{where()}: {why}"
            with self._lock:
                self.examples.append(example)

    def add(self, found: DocumentWords, path: Path | str) -> None:
        """Count documents."""
        n_broken = int(found.broken.sum())
        if n_broken and self.strict:
            raise InputError(
                f"{path}: {how_many(n_broken, 'text is', 'texts are')} not UTF-8. Name the file's encoding, "
                "as with --encoding cp1252, or drop --strict to read the broken bytes as blanks."
            )
        with self._lock:
            self.broken += n_broken
            self.empty += int(found.empty.sum())
            self.documents += found.n_documents

    def as_dict(self) -> dict[str, int]:
        return {"rows_left_out": self.bad, "not_utf8": self.broken, "without_text": self.empty}

    def messages(self) -> list[str]:
        """Messages for the user, a sentence or two each."""
        told = []
        if self.bad:
            examples = "; ".join(sorted(self.examples)[:_EXAMPLES])
            told.append(
                f"{how_many(self.bad, 'row was', 'rows were')} {self.done_to_bad}: {examples}"
                f"{'; ...' if self.bad > len(self.examples) else ''}. Fix them, or pass --strict."
            )
        if self.broken:
            texts = how_many(self.broken, "document is", "documents are")
            told.append(
                f"{texts} not UTF-8 throughout; broken bytes were read as blanks. Name the encoding, as "
                "with --encoding cp1252, or fix the file."
            )
        if self.empty:
            told.append(f"{how_many(self.empty, 'document has', 'documents have')} no text, and no words.")
        return told

    def warn(self, corpus: Corpus, unknown: dict[str, int], is_like: bool) -> None:
        """Warn about the problems of a new corpus."""
        told = self.messages()
        if unknown:
            most = sorted(unknown, key=lambda name: (-unknown[name], name))[:3]
            more = ", ..." if len(unknown) > 3 else ""
            told.append(
                f"{how_many(len(unknown), 'label is', 'labels are')} not in the corpus of like. Left out "
                f"{how_many(sum(unknown.values()), 'time')}: {', '.join(most)}{more}."
            )
        if not is_like:
            told += label_doubts(corpus)
        for message in told:
            warn(message)


def label_doubts(corpus: Corpus) -> list[str]:
    """Signs that the labels of a new corpus of texts are from the wrong column."""
    assert corpus.info.text is not None
    column, counts, n_labels = corpus.info.text.columns.labels, corpus.label_counts, corpus.n_labels
    if column is None:
        return []
    if n_labels == 0:
        return [f"No document has a label: the column {column!r} is empty. Name another one with --labels."]
    if n_labels == 1:
        return [f"There is one label only, {corpus.labels[0]!r}. Is it the right column or separator?"]
    if int(counts.min()) == corpus.n_docs:
        return ["Every document has the same labels, so labels cannot tell documents apart."]
    if n_labels < _FEWEST_TO_JUDGE:
        return []
    names = corpus.labels
    phrases = sum(" " in name for name in names)
    words = {word for name in names for word in name.split()}
    shown = ", ".join(repr(name[:40]) for name in names[:2])
    if 2 * phrases >= n_labels and 2 * len(words) <= n_labels:
        doubt = (
            f"Labels look like several in one: {n_labels:,} of them are made of {len(words):,} words, as in "
            f"{shown}. If blanks stand between labels, pass --label-separator ' '."
        )
        return [doubt]
    n_once, n_given = int((counts == 1).sum()), int(counts.sum())
    if n_given > 1.2 * corpus.n_docs or 2 * n_once < n_labels:
        return []
    lengths = [fmt.read_lengths(corpus.root, corpus.info, "Y", i) for i in range(corpus.n_blocks)]
    n_labelled = int((np.concatenate(lengths) > 0).sum())
    if n_given > 1.2 * n_labelled or n_labels < _OWN_LABEL * n_labelled:
        return []
    doubt = (
        f"Nearly every document has a label of its own: {n_labels:,} labels on {n_labelled:,} documents, "
        f"{n_once:,} of them on one only, as in {shown}. Is {column!r} the right column? Name it with "
        "--labels, and what stands between labels with --label-separator."
    )
    return [doubt]


def script_doubts(texts: Iterable[str]) -> list[str]:
    """Signs that these texts have hardly any blanks between words."""
    whole = " ".join(texts)
    runs = re.findall(f"[{_NO_BLANKS}]+", whole)
    n_letters = sum(map(str.isalpha, whole))
    n_inside = sum(map(len, runs))
    if 3 * n_inside < n_letters or n_inside <= _LONG_RUN * len(runs):
        return []
    doubt = (
        "The texts have hardly any blanks between words, as in Chinese, Japanese or Thai, so whole phrases "
        f"would be taken as words. Take characters and pairs of them: --token-pattern '{_CHARACTERS}' "
        "--min-length 1 --bigrams. Or put blanks between the words first."
    )
    return [doubt]
