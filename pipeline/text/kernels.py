"""Compiled loops from the bytes of texts to words; no Dask, no files.

A *segment* is one text of one document. Folded words lie in one long buffer. A word has a start in the
buffer, a length, and a hash: FNV-1a of its bytes, which can be continued over the next word of a pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..types import Array
from .tables import APOSTROPHE, WORD, CharacterTables

BROKEN, UNSETTLED, FILLED = 1, 2, 4
"""Flags of a segment: not UTF-8; perhaps not in form NFC; more than blanks."""
MARK_START, MARK_END = 2, 3
"""Bytes around each match of a pattern: control characters, which are removed from texts before."""
SPACE, _QUOTE = 32, 39
HASH_START = np.uint64(0xCBF29CE484222325)
HASH_PRIME = np.uint64(0x100000001B3)


class Words(NamedTuple):
    """Words of some segments, in order."""

    text: Array
    """uint8: folded words."""
    starts: Array
    """(n,) int64."""
    lengths: Array
    """(n,) int32, in bytes."""
    hashes: Array
    """(n,) uint64."""
    ends: Array
    """(segments,) int64: the words of segment s end before `ends[s]`."""


@jit
def gather(data: Array, starts: Array, offsets: Array, out: Array) -> None:
    """Write texts that begin at `starts` one after the other; text i to `out[offsets[i]:offsets[i + 1]]`."""
    for i in range(len(starts)):
        for j in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + j] = data[starts[i] + j]


@jit
def _code_point(data: Array, at: int, end: int) -> tuple[int, int]:
    """Code point at a byte, and its length; -1 and 1 if the bytes are not UTF-8."""
    lead = data[at]
    if lead < 0xC2 or lead > 0xF4:
        return -1, 1
    n = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if at + n > end:
        return -1, 1
    point = np.int64(lead) & (0x7F >> n)
    for i in range(1, n):
        byte = data[at + i]
        if byte & 0xC0 != 0x80:
            return -1, 1
        point = (point << 6) | (byte & 0x3F)
    too_long = (n == 3 and point < 0x800) or (n == 4 and point < 0x10000)
    if too_long or point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        return -1, 1
    return point, n


@jit
def look_at(data: Array, offsets: Array, unsettled: Array, flags: Array) -> None:
    """Set the flags of each segment. Cost: one look at each byte."""
    for segment in range(len(offsets) - 1):
        at, end = offsets[segment], offsets[segment + 1]
        found = 0
        while at < end:
            if data[at] < 128:
                if data[at] > SPACE:
                    found |= FILLED
                at += 1
                continue
            point, n = _code_point(data, at, end)
            at += n
            found |= FILLED
            if point < 0:
                found |= BROKEN
            elif unsettled[point]:
                found |= UNSETTLED
        flags[segment] = found


@jit
def fold(data: Array, offsets: Array, tables: CharacterTables, out: Array, out_offsets: Array) -> None:
    """Replace each character by its folded bytes. Invalid UTF-8 and our marks become blanks."""
    w = 0
    for segment in range(len(offsets) - 1):
        at, end = offsets[segment], offsets[segment + 1]
        out_offsets[segment] = w
        while at < end:
            point, n = np.int64(data[at]), 1
            if point >= 128:
                point, n = _code_point(data, at, end)
            at += n
            if point < 0 or point == MARK_START or point == MARK_END:
                out[w] = SPACE
                w += 1
                continue
            for i in range(tables.offsets[point], tables.offsets[point + 1]):
                out[w] = tables.folded[i]
                w += 1
            if tables.offsets[point] == tables.offsets[point + 1] and tables.kinds[point] != WORD:
                for i in range(at - n, at):  # not in the tables: unchanged
                    out[w] = data[i]
                    w += 1
    out_offsets[len(offsets) - 1] = w


@jit
def find_words(
    data: Array,
    offsets: Array,
    tables: CharacterTables,
    least: int,
    most: int,
    words: Words,
) -> int:
    """Find words by the built-in rule: runs of letters, digits and marks, with single apostrophes inside.

    Parameters
    ----------
    least, most
        Fewest and most characters of a word.

    Returns
    -------
    Number of words. They are written to `words`, which must have room for them.

    Cost: one look at each byte, about 200 MB/s a core.
    """
    n_words = w = 0
    for segment in range(len(offsets) - 1):
        at, end = offsets[segment], offsets[segment + 1]
        start, n_characters, hashed = w, 0, HASH_START
        inside = pending = False
        while at < end:
            point, n = np.int64(data[at]), 1
            if point >= 128:
                point, n = _code_point(data, at, end)
            at += n
            kind = 0 if point < 0 else tables.kinds[point]
            if kind == WORD:
                if pending:
                    words.text[w] = _QUOTE
                    w += 1
                    n_characters += 1
                    hashed = (hashed ^ np.uint64(_QUOTE)) * HASH_PRIME
                    pending = False
                inside = True
                for i in range(tables.offsets[point], tables.offsets[point + 1]):
                    byte = tables.folded[i]
                    words.text[w] = byte
                    w += 1
                    n_characters += byte & 0xC0 != 0x80
                    hashed = (hashed ^ np.uint64(byte)) * HASH_PRIME
                if at < end:
                    continue
            elif kind == APOSTROPHE and inside and not pending and at < end:
                pending = True
                continue
            if inside:
                if least <= n_characters <= most:
                    words.starts[n_words] = start
                    words.lengths[n_words] = w - start
                    words.hashes[n_words] = hashed
                    n_words += 1
                else:
                    w = start
                start, n_characters, hashed = w, 0, HASH_START
                inside = pending = False
        words.ends[segment] = n_words
    return n_words


@jit
def find_marked(data: Array, offsets: Array, least: int, most: int, words: Words) -> int:
    """Find words between marks, in folded texts; otherwise like `find_words`."""
    n_words = w = 0
    for segment in range(len(offsets) - 1):
        at, end = offsets[segment], offsets[segment + 1]
        while at < end:
            at += 1
            if data[at - 1] != MARK_START:
                continue
            start, n_characters, hashed = w, 0, HASH_START
            while data[at] != MARK_END:
                byte = data[at]
                words.text[w] = byte
                w += 1
                n_characters += byte & 0xC0 != 0x80
                hashed = (hashed ^ np.uint64(byte)) * HASH_PRIME
                at += 1
            if least <= n_characters <= most:
                words.starts[n_words] = start
                words.lengths[n_words] = w - start
                words.hashes[n_words] = hashed
                n_words += 1
            else:
                w = start
        words.ends[segment] = n_words
    return n_words
