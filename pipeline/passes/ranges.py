"""Runs of numbered things, such as labels, to be worked on by a pass as documents of a corpus are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from .segments import Segment


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of numbers in the place of a corpus: a range is a block of documents without words.

    So what is done for each range runs wherever passes run, and is kept and resumed as their sums are.
    """

    ends: tuple[int, ...]
    """The first number of each range, and the end of the last."""

    @classmethod
    def of_work(cls, work: np.ndarray, count: int) -> Ranges:
        """At most `count` ranges with about as much work each; `work` says it for each number."""
        total = np.cumsum(work, dtype=np.float64)
        if not len(total):
            return cls((0, 0))
        cuts = np.searchsorted(total, total[-1] * np.arange(1, count) / count) + 1
        return cls((0, *np.unique(cuts[cuts < len(work)]).tolist(), len(work)))

    @property
    def n_docs(self) -> int:
        return self.ends[-1]

    def segments(self) -> list[Segment]:
        """A segment for each range."""
        return [
            Segment(i, range(i, i + 1), stop - first) for i, (first, stop) in enumerate(pairwise(self.ends))
        ]

    def block(self, number: int, words: SparseRows | None = None) -> Block:
        """The range as a block: its first number is `first_row`, and it has as many rows as numbers."""
        del words
        first, stop = self.ends[number : number + 2]
        rows = SparseRows(np.zeros(stop - first + 1, np.int64), np.zeros(0, np.int32), None, 0)
        return Block(number, first, rows, rows)
