"""Unicode properties of each character, as tables for compiled loops."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
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
    kinds, unsettled = np.zeros(N_CODE_POINTS, np.uint8), np.zeros(N_CODE_POINTS, bool)
    lengths = np.zeros(N_CODE_POINTS, np.int32)
    parts = []
    for points in _ASSIGNED:
        for point in points:
            if 0xD800 <= point < 0xE000:  # surrogates are not characters
                continue
            character = chr(point)
            category = unicodedata.category(character)
            if category[0] in "LNM":
                kinds[point] = WORD
            unsettled[point] = (
                category[0] == "M"
                or 0x1161 <= point <= 0x11C2  # the later parts of Korean syllables
                or (point > 127 and not unicodedata.is_normalized("NFC", character))
            )
            folded = fold_character(character, lower, accents).encode()
            lengths[point] = len(folded)
            parts.append(folded)
    for character in _APOSTROPHES:
        kinds[ord(character)] = APOSTROPHE
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return CharacterTables(kinds, unsettled, offsets, np.frombuffer(b"".join(parts), np.uint8))


def fold_character(character: str, lower: bool, accents: bool) -> str:
    """Fold a character. An accent that is not kept becomes empty."""
    if lower:
        character = character.lower()
    if not accents:
        apart = unicodedata.normalize("NFD", character)
        kept = "".join(c for c in apart if unicodedata.category(c) != "Mn")
        character = unicodedata.normalize("NFC", kept)
    return "'" if character == "’" else character
