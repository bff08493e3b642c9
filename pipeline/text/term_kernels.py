"""Compiled loops from words to term numbers, by a hash table that holds the terms' text; no Dask, no files.

Terms are compared by their bytes, not only by their hashes, so no two terms share a number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..types import CSR, Array
from .kernels import HASH_PRIME, HASH_START, SPACE, Words


class Terms(NamedTuple):
    """A hash table of terms with their text: open addressing, linear probing, at most half full."""

    slots: Array
    """(power of 2,) int32: number of a term, -1 for an empty slot."""
    hashes: Array
    """(capacity,) uint64."""
    ends: Array
    """(capacity + 1,) int64: the text of term i lies between `ends[i]` and `ends[i + 1]`."""
    text: Array
    """uint8."""
    counts: Array
    """(capacity,) int64: documents with the term."""
    last_rows: Array
    """(capacity,) int64: last row with the term, -1 for none."""
    places: Array
    """(capacity,) int64: place of the term's entry in that row."""


class Counting(NamedTuple):
    """How the terms of documents are counted."""

    per_document: int
    """Segments per document."""
    bigrams: bool
    """Count pairs of words too."""
    learn: bool
    """Add new terms. Otherwise they are left out."""
    first_row: int
    """Row number of document 0 in the table, so that a row is never counted twice."""


class _Term(NamedTuple):
    """One word of a text, or two with a blank between."""

    hashed: np.uint64
    start: int
    length: int
    second: int
    """Where the second word starts; -1 for none."""
    second_length: int


@jit
def _carried_on(hashed: np.uint64, text: Array, start: int, length: int) -> np.uint64:
    """Continue a hash over a blank and a word."""
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
def _find(terms: Terms, text: Array, term: _Term) -> tuple[int, int]:
    """Number and slot of a term of `text`; -1 and the free slot for it if it is not in the table."""
    hashed, start, length, second, second_length = term
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
def _insert(terms: Terms, n_terms: int, slot: int, hashed: np.uint64, end: int) -> None:
    """Put a new term into its slot; its text is there already, up to `end`."""
    terms.slots[slot] = n_terms
    terms.hashes[n_terms] = hashed
    terms.ends[n_terms + 1] = end
    terms.counts[n_terms] = 0
    terms.last_rows[n_terms] = -1


@jit
def _append(out: Array, at: int, text: Array, start: int, length: int) -> int:
    """Write a word from place `at` on; returns where it ends."""
    for i in range(length):
        out[at + i] = text[start + i]
    return at + length


@jit
def hash_of(text: Array, start: int, stop: int) -> np.uint64:
    """Hash of some bytes."""
    hashed = HASH_START
    for i in range(start, stop):
        hashed = (hashed ^ np.uint64(text[i])) * HASH_PRIME
    return hashed


@jit
def rebuild_slots(hashes: Array, n_terms: int, slots: Array) -> None:
    """Put all terms into new, empty slots."""
    for number in range(n_terms):
        slot = _slot_of(hashes[number], len(slots))
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = number


@jit
def drop_words(words: Words, stop: Terms) -> int:
    """Remove the words that are in `stop`, in place. Returns how many remain."""
    kept = first = 0
    for segment in range(len(words.ends)):
        for i in range(first, words.ends[segment]):
            term = _Term(words.hashes[i], words.starts[i], words.lengths[i], -1, 0)
            number, _ = _find(stop, words.text, term)
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
    words: Words, how: Counting, terms: Terms, n_terms: int, first: int, rows: CSR
) -> tuple[int, int]:
    """Count the terms of each document. The terms of a row are in order of appearance.

    Parameters
    ----------
    first
        Document to begin with. The rows before it are already written.
    rows
        Written: a row for each document.

    Returns
    -------
    The first document that `terms` has no room for, or the number of documents; and the number of terms.

    Cost: a look in the table for each word and each pair, about 30 ns if it is in cache.
    """
    per_document, bigrams, learn, first_row = how
    indptr, indices, values = rows
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
                    term = _Term(hashed, start, length, second, second_length)
                    number, slot = _find(terms, words.text, term)
                    if number < 0:
                        if not learn:
                            continue
                        number = n_terms
                        end = _append(terms.text, terms.ends[n_terms], words.text, start, length)
                        if pair:
                            terms.text[end] = SPACE
                            end = _append(terms.text, end + 1, words.text, second, second_length)
                        _insert(terms, n_terms, slot, hashed, end)
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
def merge_terms(terms: Terms, n_terms: int, other: Terms, share: int, n_shares: int, numbers: Array) -> int:
    """Add the terms of another table whose hashes fall in a share, and add up their counts.

    Parameters
    ----------
    numbers
        int32, one for each term of `other`, written for those of the share: their numbers in `terms`, which
        must have room.

    Returns
    -------
    The number of terms.
    """
    for i in range(len(numbers)):
        hashed = other.hashes[i]
        if np.int64(hashed % np.uint64(n_shares)) != share:
            continue
        start = other.ends[i]
        length = other.ends[i + 1] - start
        term = _Term(hashed, start, length, -1, 0)
        number, slot = _find(terms, other.text, term)
        if number < 0:
            number = n_terms
            end = _append(terms.text, terms.ends[n_terms], other.text, start, length)
            _insert(terms, n_terms, slot, hashed, end)
            n_terms += 1
        terms.counts[number] += other.counts[i]
        numbers[i] = number
    return n_terms


@jit
def rename_share(hashes: Array, share: int, n_shares: int, new: Array, numbers: Array) -> None:
    """Replace the numbers that `merge_terms` wrote for a share by new ones, in place."""
    for i in range(len(hashes)):
        if np.int64(hashes[i] % np.uint64(n_shares)) == share:
            numbers[i] = new[numbers[i]]
