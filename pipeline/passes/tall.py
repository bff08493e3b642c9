"""Sums with a row for each word: in full for the frequent words, and for the rare ones as late as possible.

Words are ranked by how many documents they are in. The first few hundred take part in so many additions that
single precision would lose what is small beside their sums: theirs are in double. The first few thousand are
in most blocks, and few enough for every segment to have rows for them that stay in cache. All others together
are the memory, and a block has each of them in a few documents, if at all. So a segment only remembers what
there is to be added to these, which grows with its documents and not with the words, until it is merged: only
the sums of the whole corpus have a row for every word.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..corpus.rows import SparseRows
from ..types import Array
from . import kernels
from .sums import SPILL_BYTES, Sums, zeros


@dataclass(frozen=True, slots=True)
class Ranks:
    """Limits of rank by which words are summed."""

    hot: int = 512
    """Words whose sums are made in double precision."""
    frequent: int = 8192
    """Words that have a row in the sums of every segment."""
    waiting: float = 0.5
    """Share of the memory of all rows that may wait to be added before a segment has all rows, too."""


RANKS = Ranks()


def tall_bytes(n_terms: int, width: int) -> int:
    """Bytes of the sums of all words."""
    return 4 * n_terms * width + 8 * min(RANKS.hot, n_terms) * width


def segment_tall_bytes(n_terms: int, width: int, n_docs: int, nnz: int) -> int:
    """Bytes of the sums of a segment with so many documents and words, and of what waits to be added."""
    if n_terms <= RANKS.frequent:
        return tall_bytes(n_terms, width)
    most = RANKS.waiting * n_terms
    share = min(1, most / max(1, n_docs))
    rows = tall_bytes(RANKS.frequent if n_docs <= most else n_terms, width)
    return rows + int(share * (4 * width * n_docs + 16 * nnz))


@dataclass
class TallSum(Sums):
    """The sum of X'Z over documents, for X (n, D) and Z (n, width): a row for each word."""

    n_terms: int
    rows: Array
    """(m, width) float32: of the frequent words, or of all; in those of hot words there is the last slab."""
    hot: Array
    """(min(hot, D), width) float64."""
    waiting: list[tuple[SparseRows, Array]] = field(default_factory=list)
    """The rare words of documents, numbered from m on, and their Z."""
    ranks: Ranks = RANKS
    least_mapped: int | None = None
    """Bytes from which rows for all words lie in a mapped file."""

    @classmethod
    def zero(cls, n_terms: int, width: int, ranks: Ranks = RANKS) -> TallSum:
        rows = np.zeros((min(ranks.frequent, n_terms), width), np.float32)
        return cls(n_terms, rows, np.zeros((min(ranks.hot, n_terms), width)), ranks=ranks)

    @property
    def nbytes(self) -> int:
        waiting = sum(X.nbytes + Z.nbytes for X, Z in self.waiting)
        return int(self.rows.nbytes + self.hot.nbytes + waiting)

    def add(self, X: SparseRows, Z: Array) -> None:
        """Add X'Z of some documents; Z (n, width) float32 is kept, and must not change."""
        waiting = sum(len(Z) for _, Z in self.waiting) + len(Z)
        if waiting > self.ranks.waiting * self.n_terms:
            self._make_whole()
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            self.rows[: len(self.hot)] = 0
            kernels.add_transposed_times(X.slice(start, stop), Z[start:stop], self.rows)
            self.hot += self.rows[: len(self.hot)]
        if len(self.rows) < self.n_terms:
            self.waiting.append((kernels.later_columns(X, len(self.rows)), Z))

    def merge(self, other: TallSum) -> None:
        """Add the sums of another segment; from now on there is a row for every word."""
        self._make_whole()
        own = slice(len(self.hot), len(other.rows))
        self.rows[own] += other.rows[own]
        self.hot += other.hot
        self._settle(other.waiting, len(other.rows))

    def settle(self) -> None:
        """Rare words wait until they are merged."""

    def finished(self) -> Array:
        """(D, width) float32: the sum so far, in its own memory."""
        self._make_whole()
        self.rows[: len(self.hot)] = self.hot
        return self.rows

    def spill(self, empty: bool = True, least: int = SPILL_BYTES) -> None:
        """Let rows for all words lie in a mapped file."""
        self.least_mapped = least
        if len(self.rows) == self.n_terms:
            rows = zeros(self.rows.shape, np.float32, least)
            if not empty:
                rows[...] = self.rows
            self.rows = rows

    def to_arrays(self) -> dict[str, Array]:
        """Rows of words, and what waits to be added."""
        arrays = {"rows": self.rows, "hot": self.hot}
        if self.waiting:
            X = SparseRows.concatenate([X for X, _ in self.waiting])
            Z = np.concatenate([Z for _, Z in self.waiting])
            arrays |= {"indptr": X.indptr, "indices": X.indices, "Z": Z}
            if X.values is not None:
                arrays["values"] = X.values
        return arrays

    def restore(self, arrays: dict[str, Array]) -> None:
        rows, hot, width = arrays["rows"], arrays["hot"], self.rows.shape[1]
        whole = rows.shape == (self.n_terms, width)
        if not (whole or rows.shape == self.rows.shape) or hot.shape != self.hot.shape:
            raise ValueError(f"sums of shape {rows.shape} and {hot.shape}")
        self.rows, self.hot = rows, hot
        if "Z" in arrays:
            triple = arrays["indptr"], arrays["indices"], arrays.get("values")
            X, Z = SparseRows(*triple, self.n_terms - len(rows)), arrays["Z"]
            values_fit = X.values is None or X.values.shape == X.indices.shape
            if X.flaw() is not None or not values_fit or Z.shape != (X.n_rows, width):
                raise ValueError("rare words that are out of place")
            self.waiting = [(X, Z)]

    def _make_whole(self) -> None:
        """Give every word a row."""
        first = len(self.rows)
        if first < self.n_terms:
            rows = zeros((self.n_terms, self.rows.shape[1]), np.float32, self.least_mapped)
            rows[:first] = self.rows
            self.rows, waiting, self.waiting = rows, self.waiting, []
            self._settle(waiting, first)

    def _settle(self, waiting: list[tuple[SparseRows, Array]], first: int) -> None:
        """Add what has waited, of words from `first` on."""
        if waiting:
            kernels.add_word_sums(waiting, self.rows[first:])
