"""Compiled loops from the bytes of texts to words and their numbers; no Dask, no files.

A *segment* is one text of one document. Words lie folded in one long buffer; a word is where it starts there,
how long it is, and its hash: FNV-1a of its bytes, which can be carried on over the next word of a pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from pipeline.corpus.rows import Array
from pipeline.text.tables import APOSTROPHE, WORD, CharacterTables

_jit = numba.njit(nogil=True, cache=True)

BROKEN, UNSETTLED, FILLED = 1, 2, 4
"""Flags of a segment: it is not UTF-8; it may not be in form NFC; there is more in it than blanks."""
MARK_START, MARK_END = 2, 3
"""Bytes put around the words that a pattern found; control characters that texts are rid of before."""
_SPACE, _QUOTE = 32, 39
_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


class Words(NamedTuple):
    """The words of some segments, in order."""

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


class Terms(NamedTuple):
    """A hash table of terms with their text: open addressing, linear probing, at most half full."""

    slots: Array
    """(power of 2,) int32: a term's number, -1 where there is none."""
    hashes: Array
    """(capacity,) uint64."""
    ends: Array
    """(capacity + 1,) int64: the text of term i lies between `ends[i]` and `ends[i + 1]`."""
    text: Array
    """uint8."""
    counts: Array
    """(capacity,) int64: documents with the term."""
    last_rows: Array
    """(capacity,) int64: the last row with the term, -1 for none."""
    places: Array
    """(capacity,) int64: where the term's entry in that row is."""


@_jit
def _code_point(data: Array, at: int, end: int) -> tuple[int, int]:
    """The character at a byte and its length; -1 and 1 where there is no UTF-8."""
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


@_jit
def look_at(data: Array, offsets: Array, unsettled: Array, flags: Array) -> None:
    """Set the flags of each segment. Cost: one look at each byte, most of them at once."""
    for segment in range(len(offsets) - 1):
        at, end = offsets[segment], offsets[segment + 1]
        found = 0
        while at < end:
            if data[at] < 128:
                if data[at] > _SPACE:
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


@_jit
def fold(data: Array, offsets: Array, tables: CharacterTables, out: Array, out_offsets: Array) -> None:
    """Put each character's folded bytes in its place; what is no UTF-8, and our marks, become blanks."""
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
                out[w] = _SPACE
                w += 1
                continue
            for i in range(tables.offsets[point], tables.offsets[point + 1]):
                out[w] = tables.folded[i]
                w += 1
            if tables.offsets[point] == tables.offsets[point + 1] and tables.kinds[point] != WORD:
                for i in range(at - n, at):  # beyond the tables: as it is
                    out[w] = data[i]
                    w += 1
    out_offsets[len(offsets) - 1] = w


@_jit
def find_words(
    data: Array,
    offsets: Array,
    tables: CharacterTables,
    least: int,
    most: int,
    words: Words,
) -> int:
    """Words by the built-in rule: runs of letters, digits and marks, with single apostrophes inside.

    Parameters
    ----------
    least, most
        Characters that a word may have.

    Returns
    -------
    How many words there are; they are in `words`, which has room for them.

    Cost: one look at each byte, about 200 MB/s a core.
    """
    n_words = w = 0
    for segment in range(len(offsets) - 1):
        at, end = offsets[segment], offsets[segment + 1]
        start, n_characters, hashed = w, 0, _OFFSET
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
                    hashed = (hashed ^ np.uint64(_QUOTE)) * _PRIME
                    pending = False
                inside = True
                for i in range(tables.offsets[point], tables.offsets[point + 1]):
                    byte = tables.folded[i]
                    words.text[w] = byte
                    w += 1
                    n_characters += byte & 0xC0 != 0x80
                    hashed = (hashed ^ np.uint64(byte)) * _PRIME
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
                start, n_characters, hashed = w, 0, _OFFSET
                inside = pending = False
        words.ends[segment] = n_words
    return n_words


@_jit
def find_marked(data: Array, offsets: Array, least: int, most: int, words: Words) -> int:
    """Words that stand between marks; else as `find_words`, for texts that are folded already."""
    n_words = w = 0
    for segment in range(len(offsets) - 1):
        at, end = offsets[segment], offsets[segment + 1]
        while at < end:
            at += 1
            if data[at - 1] != MARK_START:
                continue
            start, n_characters, hashed = w, 0, _OFFSET
            while data[at] != MARK_END:
                byte = data[at]
                words.text[w] = byte
                w += 1
                n_characters += byte & 0xC0 != 0x80
                hashed = (hashed ^ np.uint64(byte)) * _PRIME
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


@_jit
def _carried_on(hashed: np.uint64, text: Array, start: int, length: int) -> np.uint64:
    """The hash of what came before, a blank, and a word."""
    hashed = (hashed ^ np.uint64(_SPACE)) * _PRIME
    for i in range(start, start + length):
        hashed = (hashed ^ np.uint64(text[i])) * _PRIME
    return hashed


@_jit
def _slot_of(hashed: np.uint64, n_slots: int) -> int:
    # FNV's low bits are poor for short words: mix the high ones in
    mixed = hashed ^ (hashed >> np.uint64(32))
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(20)) & np.uint64(n_slots - 1))


@_jit
def _find(
    terms: Terms, hashed: np.uint64, text: Array, start: int, length: int, second: int, second_length: int
) -> tuple[int, int]:
    """A term's number, or -1, and its slot, or the free one where it would be.

    The term is a word of `text`, or, when `second` is not negative, two with a blank between.
    """
    n_slots = len(terms.slots)
    slot = _slot_of(hashed, n_slots)
    whole = length if second < 0 else length + 1 + second_length
    while True:
        number = terms.slots[slot]
        if number < 0:
            return -1, slot
        first = terms.ends[number]
        if terms.hashes[number] == hashed and terms.ends[number + 1] - first == whole:
            same = True
            for i in range(length):
                if terms.text[first + i] != text[start + i]:
                    same = False
                    break
            if same and second >= 0:
                first += length
                same = terms.text[first] == _SPACE
                for i in range(second_length):
                    if terms.text[first + 1 + i] != text[second + i]:
                        same = False
                        break
            if same:
                return number, slot
        slot = (slot + 1) & (n_slots - 1)


@_jit
def _insert(
    terms: Terms,
    n_terms: int,
    slot: int,
    hashed: np.uint64,
    text: Array,
    start: int,
    length: int,
    second: int,
    second_length: int,
) -> None:
    terms.slots[slot] = n_terms
    terms.hashes[n_terms] = hashed
    at = terms.ends[n_terms]
    for i in range(length):
        terms.text[at + i] = text[start + i]
    at += length
    if second >= 0:
        terms.text[at] = _SPACE
        for i in range(second_length):
            terms.text[at + 1 + i] = text[second + i]
        at += 1 + second_length
    terms.ends[n_terms + 1] = at
    terms.counts[n_terms] = 0
    terms.last_rows[n_terms] = -1


@_jit
def hash_of(text: Array, start: int, stop: int) -> np.uint64:
    """The hash of some bytes."""
    hashed = _OFFSET
    for i in range(start, stop):
        hashed = (hashed ^ np.uint64(text[i])) * _PRIME
    return hashed


@_jit
def rebuild_slots(hashes: Array, n_terms: int, slots: Array) -> None:
    """Put all terms in new, empty slots."""
    for number in range(n_terms):
        slot = _slot_of(hashes[number], len(slots))
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = number


@_jit
def drop_words(words: Words, stop: Terms) -> int:
    """Take the words that are in `stop` out, in place; returns how many remain."""
    kept = first = 0
    for segment in range(len(words.ends)):
        for i in range(first, words.ends[segment]):
            number, _ = _find(stop, words.hashes[i], words.text, words.starts[i], words.lengths[i], -1, 0)
            if number < 0:
                words.starts[kept] = words.starts[i]
                words.lengths[kept] = words.lengths[i]
                words.hashes[kept] = words.hashes[i]
                kept += 1
        first = words.ends[segment]
        words.ends[segment] = kept
    return kept


@_jit
def count_terms(
    words: Words,
    per_document: int,
    bigrams: bool,
    learn: bool,
    first: int,
    first_row: int,
    terms: Terms,
    n_terms: int,
    indptr: Array,
    indices: Array,
    values: Array,
) -> tuple[int, int]:
    """The terms of each document and how often each occurs; terms of a row are in order of appearance.

    Parameters
    ----------
    per_document
        Segments that make one document.
    learn
        Add terms that are new; otherwise they are left out.
    first
        The document to begin with; rows before it are there already.
    first_row
        The row that document 0 is for `terms`, so that a row is never counted twice.
    indptr, indices, values
        Written: a row for each document.

    Returns
    -------
    The document that `terms` has no room for, or the number of documents; and how many terms there are.

    Cost: a look in the table for each word and each pair, about 30 ns where it is in cache.
    """
    n_documents = len(words.ends) // per_document
    entry = indptr[first]
    for document in range(first, n_documents):
        segment = document * per_document
        begin = words.ends[segment - 1] if segment else 0
        stop = words.ends[segment + per_document - 1]
        if learn:
            n_new = (stop - begin) * (1 + bigrams)
            n_bytes = np.int64(0)
            for i in range(begin, stop):
                n_bytes += words.lengths[i]
            room = len(terms.text) - terms.ends[n_terms]
            if n_terms + n_new > len(terms.hashes) or n_bytes * (1 + 2 * bigrams) + n_new > room:
                return document, n_terms
        for s in range(segment, segment + per_document):
            begin = words.ends[s - 1] if s else 0
            for i in range(begin, words.ends[s]):
                for pair in range(1 + (bigrams and i > begin)):
                    if pair:
                        start, length = words.starts[i - 1], words.lengths[i - 1]
                        second, second_length = words.starts[i], words.lengths[i]
                        hashed = _carried_on(words.hashes[i - 1], words.text, second, second_length)
                    else:
                        start, length = words.starts[i], words.lengths[i]
                        second, second_length = np.int64(-1), np.int32(0)
                        hashed = words.hashes[i]
                    number, slot = _find(terms, hashed, words.text, start, length, second, second_length)
                    if number < 0:
                        if not learn:
                            continue
                        number = n_terms
                        _insert(
                            terms,
                            n_terms,
                            slot,
                            hashed,
                            words.text,
                            start,
                            length,
                            second,
                            second_length,
                        )
                        n_terms += 1
                    if terms.last_rows[number] == first_row + document:
                        values[terms.places[number]] += 1
                    else:
                        terms.last_rows[number] = first_row + document
                        terms.places[number] = entry
                        terms.counts[number] += 1
                        indices[entry] = number
                        values[entry] = 1
                        entry += 1
        indptr[document + 1] = entry
    return n_documents, n_terms


@_jit
def merge_terms(
    terms: Terms,
    n_terms: int,
    other: Terms,
    n_other: int,
    share: int,
    n_shares: int,
    numbers: Array,
) -> int:
    """Add those terms of another table that fall in a share by their hash; their counts are added up.

    Parameters
    ----------
    numbers
        (n_other,) int32, written for terms of the share: the number that each has in `terms`, which has room.

    Returns
    -------
    How many terms there are.
    """
    for i in range(n_other):
        hashed = other.hashes[i]
        if np.int64(hashed % np.uint64(n_shares)) != share:
            continue
        start = other.ends[i]
        length = other.ends[i + 1] - start
        number, slot = _find(terms, hashed, other.text, start, length, -1, 0)
        if number < 0:
            number = n_terms
            _insert(terms, n_terms, slot, hashed, other.text, start, length, -1, 0)
            n_terms += 1
        terms.counts[number] += other.counts[i]
        numbers[i] = number
    return n_terms


@_jit
def rename_share(hashes: Array, share: int, n_shares: int, new: Array, numbers: Array) -> None:
    """Give the terms of a share, of which `merge_terms` wrote the numbers, their new ones, in place."""
    for i in range(len(hashes)):
        if np.int64(hashes[i] % np.uint64(n_shares)) == share:
            numbers[i] = new[numbers[i]]
