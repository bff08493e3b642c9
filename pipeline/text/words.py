"""Search for the words of many texts at once."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..types import Array
from . import kernels
from .info import MAX_CHARACTERS, Tokenizer
from .kernels import BROKEN, FILLED, MARK_END, MARK_START, UNSETTLED, Words
from .tables import CharacterTables, character_tables
from .term_kernels import drop_words
from .terms import TermTable


@dataclass(frozen=True, slots=True)
class Texts:
    """Some texts in one piece of memory: text i is `data[offsets[i]:offsets[i + 1]]`, as UTF-8."""

    data: Array
    """uint8."""
    offsets: Array
    """(n + 1,) int64, from 0."""

    def __post_init__(self) -> None:
        for array in (self.data, self.offsets):
            array.flags.writeable = False  # as Arrow's arrays, so that kernels are compiled once for both

    @classmethod
    def of_lengths(cls, data: bytes, lengths: Array) -> Texts:
        """Texts that lie one after the other."""
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(np.frombuffer(data, np.uint8), offsets)

    @classmethod
    def of_arrow(cls, column: Any) -> Texts:
        """An Arrow array of binary values or strings, without nulls; a large one is not copied."""
        wide = column.cast("large_binary")
        _, offsets, data = wide.buffers()
        if data is None:
            return cls(np.zeros(0, np.uint8), np.zeros(len(wide) + 1, np.int64))
        bounds = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
        return cls(np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]], bounds - bounds[0])

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class DocumentWords:
    """Words of some documents."""

    words: Words
    per_document: int
    """Segments, that is texts, per document."""
    broken: Array
    """(documents,) bool: True if some bytes are not UTF-8. Such bytes separate words."""
    empty: Array
    """(documents,) bool: True if there is no text, or only blanks."""

    @property
    def n_documents(self) -> int:
        return len(self.broken)


class WordFinder:
    """Word search for one tokenizer; safe to use from many threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @cached_property
    def _tables(self) -> CharacterTables:
        return character_tables(self.tokenizer.lower, self.tokenizer.accents)

    @cached_property
    def _expansion(self) -> float:
        """Most bytes written per byte read."""
        lengths = np.diff(self._tables.offsets)
        points = np.arange(len(lengths))
        own = 1 + (points >= 0x80).astype(int) + (points >= 0x800) + (points >= 0x10000)
        return float((lengths / own).max())

    @cached_property
    def _stop(self) -> TermTable | None:
        words = self.tokenizer.stop_words
        return TermTable.of_names(words) if words else None

    @cached_property
    def _reads_latin(self) -> bool:
        """Whether the pattern finds the same words in ASCII text when RE2 reads it as Latin-1.

        RE2 compiles the pattern at every call. Classes such as `\\p{L}` are large in UTF-8: compiling them
        takes ten times as long as finding the words of a short text. With `(?i)`, Latin-1 takes longer.
        """
        pattern = self.tokenizer.pattern or ""
        if not pattern.isascii() or re.search(r"\(\?\w*i", pattern):
            return False
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            pc.match_substring_regex(pa.nulls(1, pa.binary()), pattern=pattern)
        except pa.ArrowInvalid:  # it names a character that Latin-1 lacks
            return False
        return True

    def find(self, columns: Sequence[Texts | Any]) -> DocumentWords:
        """Find the words of documents whose texts are the rows of some columns, of Arrow's or `Texts`."""
        texts = _interleaved([c if isinstance(c, Texts) else Texts.of_arrow(c) for c in columns])
        flags = np.zeros(len(texts), np.uint8)
        kernels.look_at(texts.data, texts.offsets, self._tables.unsettled, flags)
        if (flags & UNSETTLED).any():
            texts = _normalized(texts, np.flatnonzero(flags & UNSETTLED))
        words = self._marked(texts) if self.tokenizer.pattern else self._built_in(texts)
        if self._stop is not None:
            drop_words(words, self._stop.terms)
        per_document = len(columns)
        by_document: Array = flags.reshape(-1, per_document)
        return DocumentWords(
            words,
            per_document,
            np.any(by_document & BROKEN, axis=1),
            ~np.any(by_document & FILLED, axis=1),
        )

    def _built_in(self, texts: Texts) -> Words:
        words = _room(int(len(texts.data) * self._expansion) + 8, len(texts.data) // 2, len(texts))
        kernels.find_words(
            texts.data, texts.offsets, self._tables, self.tokenizer.min_length, MAX_CHARACTERS, words
        )
        return words

    def _marked(self, texts: Texts) -> Words:
        """Fold, let RE2 put marks around every match, and read the words between marks."""
        import pyarrow as pa
        import pyarrow.compute as pc

        folded = np.empty(int(len(texts.data) * self._expansion) + 8, np.uint8)
        offsets = np.empty(len(texts) + 1, np.int64)
        kernels.fold(texts.data, texts.offsets, self._tables, folded, offsets)
        folded = folded[: offsets[-1]]
        # RE2 takes strings for UTF-8, binary values for Latin-1
        is_latin = self._reads_latin and not (folded >= 0x80).any()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(folded)]
        kind = pa.large_binary() if is_latin else pa.large_string()
        arrow = pa.Array.from_buffers(kind, len(texts), buffers)
        replacement = f"{chr(MARK_START)}\\0{chr(MARK_END)}"
        marked = Texts.of_arrow(
            pc.replace_substring_regex(arrow, pattern=self.tokenizer.pattern, replacement=replacement)
        )
        words = _room(len(marked.data), len(marked.data) // 2, len(marked))
        kernels.find_marked(marked.data, marked.offsets, self.tokenizer.min_length, MAX_CHARACTERS, words)
        return words


def strings_of(found: DocumentWords, bigrams: bool) -> list[list[str]]:
    """Words of each document, followed by its pairs of words; for a few documents to show."""
    words, first = found.words, 0
    documents: list[list[str]] = [[] for _ in range(found.n_documents)]
    for segment, end in enumerate(words.ends.tolist()):
        names = [
            bytes(words.text[start : start + length]).decode()
            for start, length in zip(
                words.starts[first:end].tolist(), words.lengths[first:end].tolist(), strict=True
            )
        ]
        pairs = [f"{a} {b}" for a, b in itertools.pairwise(names)] if bigrams else []
        documents[segment // found.per_document] += names + pairs
        first = end
    return documents


def as_texts(texts: Sequence[str]) -> Texts:
    """Python strings in one piece. Lone surrogates, which are not characters, become question marks."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    return Texts.of_lengths(b"".join(encoded), np.array([len(text) for text in encoded], np.int64))


def _room(n_bytes: int, n_words: int, n_segments: int) -> Words:
    n_words += n_segments + 1
    return Words(
        np.empty(n_bytes, np.uint8),
        np.empty(n_words, np.int64),
        np.empty(n_words, np.int32),
        np.empty(n_words, np.uint64),
        np.zeros(n_segments, np.int64),
    )


def _interleaved(columns: Sequence[Texts]) -> Texts:
    """Texts of document 0, of document 1, ..., in one piece."""
    if len(columns) == 1:
        return columns[0]
    firsts = np.cumsum([0, *(len(column.data) for column in columns)])
    starts = np.stack([c.offsets[:-1] + first for c, first in zip(columns, firsts, strict=False)], axis=1)
    lengths = np.stack([np.diff(column.offsets) for column in columns], axis=1)
    data = np.concatenate([column.data for column in columns])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    out = np.empty(len(data), np.uint8)
    kernels.gather(data, starts.ravel(), offsets, out)
    return Texts(out, offsets)


def _normalized(texts: Texts, rows: Array) -> Texts:
    """The same texts, with some rows converted to form NFC."""
    data, lengths, at = texts.data.data, np.diff(texts.offsets), 0
    pieces: list[bytes | memoryview] = []
    for row in rows.tolist():
        start, stop = texts.offsets[row : row + 2].tolist()
        raw = bytes(data[start:stop])
        new = unicodedata.normalize("NFC", raw.decode("utf-8", "replace")).encode()
        pieces += [data[at:start], new]
        lengths[row], at = len(new), stop
    return Texts.of_lengths(b"".join([*pieces, data[at:]]), lengths)
