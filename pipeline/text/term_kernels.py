"""Compiled loops from words to the numbers of terms: a hash table that holds their text; no Dask, no files.

Terms are told apart by their bytes, not by their hashes alone, so that no two ever share a number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..types import Array
from .kernels import HASH_PRIME, HASH_START, SPACE, Words


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


@jit
def _carried_on(hashed: np.uint64, text: Array, start: int, length: int) -> np.uint64:
    """The hash of what came before, a blank, and a word."""
    hashed = (hashed ^ np.uint64(SPACE)) * HASH_PRIME
    for i in range(start, start + length):
        hashed = (hashed ^ np.uint64(text[i])) * HASH_PRIME
    return hashed


@jit
def _slot_of(hashed: np.uint64, n_slots: int) -> int:
    # FNV's low bits are poor for short words: mix the high ones in
    mixed = hashed ^ (hashed >> np.uint64(32))
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(20)) & np.uint64(n_slots - 1))


@jit
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
                same = terms.text[first] == SPACE
                for i in range(second_length):
                    if terms.text[first + 1 + i] != text[second + i]:
                        same = False
                        break
            if same:
                return number, slot
        slot = (slot + 1) & (n_slots - 1)


@jit
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
        terms.text[at] = SPACE
        for i in range(second_length):
            terms.text[at + 1 + i] = text[second + i]
        at += 1 + second_length
    terms.ends[n_terms + 1] = at
    terms.counts[n_terms] = 0
    terms.last_rows[n_terms] = -1


@jit
def hash_of(text: Array, start: int, stop: int) -> np.uint64:
    """The hash of some bytes."""
    hashed = HASH_START
    for i in range(start, stop):
        hashed = (hashed ^ np.uint64(text[i])) * HASH_PRIME
    return hashed


@jit
def rebuild_slots(hashes: Array, n_terms: int, slots: Array) -> None:
    """Put all terms in new, empty slots."""
    for number in range(n_terms):
        slot = _slot_of(hashes[number], len(slots))
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = number


@jit
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


@jit
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


@jit
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


@jit
def rename_share(hashes: Array, share: int, n_shares: int, new: Array, numbers: Array) -> None:
    """Give the terms of a share, of which `merge_terms` wrote the numbers, their new ones, in place."""
    for i in range(len(hashes)):
        if np.int64(hashes[i] % np.uint64(n_shares)) == share:
            numbers[i] = new[numbers[i]]
