"""Unicode properties of each character, as tables for compiled loops."""

from __future__ import annotations

import unicodedata
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from ..types import Array

OTHER, WORD, APOSTROPHE = range(3)
N_CODE_POINTS = 0x110000
_ASSIGNED = (range(0x40000), range(0xE0000, 0xE0200))
"""Ranges of all letters, digits and marks, in any version of Unicode."""
_APOSTROPHES = "'’"


class CharacterTables(NamedTuple):
    """Kind of each code point, and the UTF-8 that replaces it."""

    kinds: Array
    """(N,) uint8: OTHER, WORD or APOSTROPHE."""
    unsettled: Array
    """(N,) bool: True if a text with the character may not be in form NFC."""
    offsets: Array
    """(N + 1,) int32: where each character's folded bytes begin."""
    folded: Array
    """uint8."""


@lru_cache(maxsize=4)
def character_tables(lower: bool, accents: bool) -> CharacterTables:
    """Tables for one way to fold characters. Cost: a tenth of a second, once; 12 MB."""
    points = np.concatenate([np.arange(points.start, points.stop) for points in _ASSIGNED])
    points = points[(points < 0xD800) | (points >= 0xE000)]  # surrogates are no characters
    characters = list(map(chr, points.tolist()))
    categories = np.frombuffer("".join(map(unicodedata.category, characters)).encode(), "S2")
    kinds, unsettled = np.zeros(N_CODE_POINTS, np.uint8), np.zeros(N_CODE_POINTS, bool)
    kinds[points[np.isin(categories.view("S1")[::2], [b"L", b"N", b"M"])]] = WORD
    kinds[[ord(character) for character in _APOSTROPHES]] = APOSTROPHE
    is_normal = map(partial(unicodedata.is_normalized, "NFC"), characters)
    unsettled[points] = ~np.fromiter(is_normal, bool, len(points))
    unsettled[points[categories.view("S1")[::2] == b"M"]] = True
    unsettled[0x1161:0x11C3] = True  # the later parts of Korean syllables
    lengths = np.zeros(N_CODE_POINTS, np.int32)
    lengths[points] = 1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    # most characters stand for themselves: those of no category, and letters without case
    changing = (categories != b"Cn") & ((categories != b"Lo") | (not accents))
    for i in np.flatnonzero(changing).tolist():
        folded = fold_character(characters[i], lower, accents)
        if folded != characters[i]:
            characters[i] = folded
            lengths[points[i]] = len(folded.encode())
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return CharacterTables(kinds, unsettled, offsets, np.frombuffer("".join(characters).encode(), np.uint8))


def fold_character(character: str, lower: bool, accents: bool) -> str:
    """Fold a character. An accent that is not kept becomes empty."""
    if lower:
        character = character.lower()
    if not accents:
        apart = unicodedata.normalize("NFD", character)
        kept = "".join(c for c in apart if unicodedata.category(c) != "Mn")
        character = unicodedata.normalize("NFC", kept)
    return "'" if character == "’" else character
