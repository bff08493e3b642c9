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
import pyarrow as pa
import pyarrow.compute as pc

from ..types import Array
from . import kernels
from .info import MAX_CHARACTERS, Tokenizer
from .kernels import BROKEN, FILLED, MARK_END, MARK_START, UNSETTLED, Words
from .tables import CharacterTables, character_tables
from .term_kernels import drop_words
from .terms import TermTable

Texts = Any
"""An Arrow array of binary values or strings, without nulls."""


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
        try:
            pc.match_substring_regex(pa.array([b""]), pattern=pattern)
        except pa.ArrowInvalid:  # it names a character that Latin-1 lacks
            return False
        return True

    def find(self, columns: Sequence[Texts]) -> DocumentWords:
        """Find the words of documents whose texts are the rows of some columns."""
        texts = _interleaved(columns)
        data, offsets = _buffers(texts)
        flags = np.zeros(len(offsets) - 1, np.uint8)
        kernels.look_at(data, offsets, self._tables.unsettled, flags)
        if (flags & UNSETTLED).any():
            texts = _normalized(texts, np.flatnonzero(flags & UNSETTLED))
            data, offsets = _buffers(texts)
        words = self._marked(data, offsets) if self.tokenizer.pattern else self._built_in(data, offsets)
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

    def _built_in(self, data: Array, offsets: Array) -> Words:
        words = _room(int(len(data) * self._expansion) + 8, len(data) // 2 + len(offsets), len(offsets) - 1)
        kernels.find_words(data, offsets, self._tables, self.tokenizer.min_length, MAX_CHARACTERS, words)
        return words

    def _marked(self, data: Array, offsets: Array) -> Words:
        """Fold, let RE2 put marks around every match, and read the words between marks."""
        folded = np.empty(int(len(data) * self._expansion) + 8, np.uint8)
        folded_offsets = np.empty(len(offsets), np.int64)
        kernels.fold(data, offsets, self._tables, folded, folded_offsets)
        folded = folded[: folded_offsets[-1]]
        is_latin = self._reads_latin and not (folded >= 0x80).any()
        texts = _array(folded, folded_offsets, pa.large_binary() if is_latin else pa.large_string())
        replacement = f"{chr(MARK_START)}\\0{chr(MARK_END)}"
        marked = pc.replace_substring_regex(texts, pattern=self.tokenizer.pattern, replacement=replacement)
        data, offsets = _buffers(marked)
        words = _room(len(data), len(data) // 2 + len(offsets), len(offsets) - 1)
        kernels.find_marked(data, offsets, self.tokenizer.min_length, MAX_CHARACTERS, words)
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
    """Python strings as an Arrow array. Lone surrogates, which are not characters, become question marks."""
    return pa.array([text.encode("utf-8", "replace") for text in texts], pa.large_binary())


def _room(n_bytes: int, n_words: int, n_segments: int) -> Words:
    return Words(
        np.empty(n_bytes, np.uint8),
        np.empty(n_words, np.int64),
        np.empty(n_words, np.int32),
        np.empty(n_words, np.uint64),
        np.zeros(n_segments, np.int64),
    )


def _interleaved(columns: Sequence[Texts]) -> Texts:
    """Texts of document 0, of document 1, ..., as one large binary array."""
    wide = [column.cast(pa.large_binary()) for column in columns]
    if len(wide) == 1:
        return wide[0]
    n, m = len(wide[0]), len(wide)
    order = np.arange(n * m).reshape(m, n).T.ravel()
    return pa.concat_arrays(wide).take(pa.array(order))


def _buffers(texts: Texts) -> tuple[Array, Array]:
    """Bytes of a large binary array and the bounds of its values, without a copy."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data is None:
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    whole = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    return whole, bounds - bounds[0]


def _array(data: Array, offsets: Array, kind: pa.DataType) -> Texts:
    """Texts in the types that RE2 takes: strings for UTF-8, binary values for Latin-1."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def _normalized(texts: Texts, rows: Array) -> Texts:
    """The same texts, with some rows converted to form NFC."""
    mask = np.zeros(len(texts), bool)
    mask[rows] = True
    new = [
        unicodedata.normalize("NFC", raw.decode("utf-8", "replace")).encode()
        for raw in texts.filter(pa.array(mask)).to_pylist()
    ]
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(new, pa.large_binary()))
