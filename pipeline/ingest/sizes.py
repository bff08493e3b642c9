"""Sizes of what is read at a time, and of the longest line and row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Limits of reading, in bytes where nothing else is said."""

    part_bytes: int = 64_000_000
    """Sparse text that one task reads."""
    table_part_bytes: int = 8_000_000
    """Part of a table that one task reads: words take longer than numbers."""
    piece_bytes: int = 8_000_000
    """Text or rows that a task holds at a time."""
    line_bytes: int = 2**30
    """Longest line; a file with a longer one is refused."""
    row_bytes: int = 16_000_000
    """Longest row of a table; longer ones are left out."""
    run_terms: int = 2_000_000
    """Terms that a task counts before it saves them to disk; about 150 MB."""


SIZES = Sizes()
