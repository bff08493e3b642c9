"""The word-label cross moment X~'Y, summed in read 1: the memory is made of it, and features are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..passes.cost import Cost, Needs, Size, corpus_size
from ..passes.stages import Gatherer
from ..passes.sums import SPILL_BYTES, Sums
from ..passes.work import Pass
from ..tasks import map_tasks, n_cpus
from ..types import CSR, Array
from . import cross_kernels
from .part import Context
from .weighting import Weighting

MOST_ENTRIES = 16_000_000
"""Entries of a cross moment that are kept: 128 MB."""
_SLACK = 1.25
"""While sums are made, so many times as many are kept: what is small now may grow."""
_RANGES = 4
"""Ranges of words for each thread, where threads share them out."""


@dataclass
class CrossMoment(Sums):
    """Y'X~: for each label the sum of its documents, sparse, and no more than `most_entries` of it.

    Where it might become larger, each label keeps its largest entries, as many as fit for all labels alike,
    and one at least: words that are typical of a label stay, and rare labels stay whole. While it is being
    summed a quarter more is kept; `cut` makes an end of that.
    """

    indptr: Array
    """(L + 1,) int64."""
    indices: Array
    """(nnz,) int32 words, in any order within a label."""
    values: Array
    """(nnz,) float32."""
    n_terms: int
    most_entries: int = MOST_ENTRIES
    most_waiting: int = 5_000_000
    """Words of documents that are added at once."""
    waiting: list[tuple[SparseRows, SparseRows]] = field(default_factory=list)
    """Documents that are still to be added: many at once, for all entries are written anew."""

    @classmethod
    def zero(cls, n_labels: int, n_terms: int, most_entries: int = MOST_ENTRIES) -> CrossMoment:
        triple = np.zeros(n_labels + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
        return cls(*triple, n_terms, most_entries)

    @property
    def n_labels(self) -> int:
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        self.settle()
        return len(self.indices)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        waiting = sum(X.nbytes + Y.nbytes for X, Y in self.waiting)
        return int(self.indptr.nbytes + self.indices.nbytes + self.values.nbytes + waiting)

    def csr(self) -> CSR:
        """The three arrays."""
        return self.indptr, self.indices, self.values

    def to_arrays(self) -> dict[str, Array]:
        self.settle()
        return {"indptr": self.indptr, "indices": self.indices, "values": self.values}

    def restore(self, arrays: dict[str, Array]) -> None:
        indptr, indices, values = arrays["indptr"], arrays["indices"], arrays["values"]
        if indptr.shape != self.indptr.shape or not len(indices) == len(values) == indptr[-1]:
            raise ValueError(f"a moment of shapes {indptr.shape}, {indices.shape} and {values.shape}")
        self.indptr, self.indices, self.values = indptr, indices, values

    def spill(self, empty: bool = True, least: int = SPILL_BYTES) -> None:
        """Stay in memory: its arrays are written anew whenever documents are added."""

    def add(self, X: SparseRows, Y: SparseRows) -> None:
        """Add Y'X~ of some documents, X~ being float32; they may wait for others, or for `settle`."""
        self.waiting.append((X, Y))
        if sum(words.nnz for words, _ in self.waiting) >= self.most_waiting:
            self.settle()

    def settle(self) -> None:
        """Add the documents that wait to the arrays."""
        if self.waiting:
            X, Y = (SparseRows.concatenate(side) for side in zip(*self.waiting, strict=True))
            self.waiting = []
            self._add_documents(X, Y)

    def _add_documents(self, X: SparseRows, Y: SparseRows) -> None:
        words = np.repeat(np.diff(X.indptr), np.diff(Y.indptr))  # for each label of each document
        products = np.bincount(Y.indices, words, minlength=self.n_labels).astype(np.int64)
        self._add(X, _documents_of_labels(Y), products)

    def merge(self, other: CrossMoment) -> None:
        self.settle()
        other.settle()
        # the other's rows, as documents that carry one label each
        rows = SparseRows(other.indptr, other.indices, other.values, other.n_terms)
        docs_of = np.arange(other.n_labels + 1), np.arange(other.n_labels, dtype=np.int32)
        self._add(rows, docs_of, np.diff(other.indptr))

    def _add(self, X: SparseRows, docs_of: tuple[Array, Array], products: Array) -> None:
        """`products` (L,): how many entries there are to add to each label's."""
        most = _entries_each(np.diff(self.indptr) + products, int(_SLACK * self.most_entries))
        self.indptr, self.indices, self.values = cross_kernels.add_documents(
            self.csr(), X.csr(), docs_of, self.n_terms, self.n_terms if most is None else most
        )

    def cut(self) -> CrossMoment:
        """The same with no more than `most_entries`."""
        self.settle()
        most = _entries_each(np.diff(self.indptr), self.most_entries)
        if most is None:
            return self
        indptr, indices, values = cross_kernels.largest_entries(self.csr(), most)
        return CrossMoment(indptr, indices, values, self.n_terms, self.most_entries)

    def lengths(self) -> Array:
        """(L,) float64: the Euclidean length of each label's row."""
        lengths = np.zeros(self.n_labels)
        cross_kernels.row_lengths(self.indptr, self.values, lengths)
        return lengths

    def by_word(self, n_threads: int | None = None) -> SparseRows:
        """(D, L): the transpose; labels sorted in each row."""
        indptr = self._entries_before()
        labels, values = np.empty(self.nnz, np.int32), np.empty(self.nnz, np.float32)

        def part(words: tuple[int, int]) -> None:
            cross_kernels.transpose_columns(self.csr(), *words, (indptr, labels, values))

        map_tasks(part, self.word_ranges(n_threads), name="by-word", n_threads=n_threads)
        return SparseRows(indptr, labels, values, self.n_labels)

    def word_ranges(self, n_threads: int | None = None) -> list[tuple[int, int]]:
        """A few for each thread, with about as many entries each; those of rare words take longer."""
        count = _RANGES * (n_threads or n_cpus())
        cuts = np.searchsorted(self._entries_before()[1:], self.nnz * np.arange(1, count) / count)
        return list(pairwise([0, *cuts.tolist(), self.n_terms]))

    def _entries_before(self) -> Array:
        """(D + 1,) int64: entries of all words before each, and in all."""
        counts = np.zeros(self.n_terms + 1, np.int64)
        cross_kernels.count_columns(self.indices, counts[1:])
        return np.cumsum(counts, out=counts)


def _entries_each(lengths: Array, most_entries: int) -> int | None:
    """The largest m for which all labels' first m entries fit; None when everything fits."""
    if lengths.sum() <= most_entries:
        return None
    ascending = np.sort(lengths)
    # labels shorter than m are kept whole, the others take m each
    whole = np.concatenate([[0], np.cumsum(ascending)])
    remaining = len(ascending) - np.arange(len(ascending))
    fits = whole[:-1] + ascending * remaining <= most_entries
    first_cut = int(np.argmin(fits))
    return int(max(1, (most_entries - whole[first_cut]) // remaining[first_cut]))


def _documents_of_labels(Y: SparseRows) -> tuple[Array, Array]:
    """Y' without its ones: the documents of each label, in order."""
    rows = np.repeat(np.arange(Y.n_rows, dtype=np.int32), np.diff(Y.indptr))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(Y.indices, minlength=Y.n_columns))])
    return indptr.astype(np.int64), rows[np.argsort(Y.indices, kind="stable")]


@dataclass(frozen=True)
class Cross(Pass[CrossMoment]):
    """Sums Y'X~."""

    weighting: Weighting
    n_labels: int
    expected_entries: int = MOST_ENTRIES
    """Entries that the cross moment may reach, estimated before the read."""
    most_entries: int = MOST_ENTRIES
    """Entries that are kept."""
    name = "cross"

    def needs(self, size: Size) -> Needs:
        entries = int(_SLACK * min(self.most_entries, self.expected_entries))
        sums = 8 * (entries + self.n_labels + 1)
        copies = 2 if size.n_docs else 1  # one more while documents are added
        # a word and its weight are read for each label, and a sum is read and written
        return Needs(sums, copies * sums, cost=Cost(gathered=16 * size.label_words))

    def zero(self) -> CrossMoment:
        return CrossMoment.zero(self.n_labels, len(self.weighting.idf), self.most_entries)

    def add(self, sums: CrossMoment, block: Block) -> None:
        sums.add(self.weighting.of(block.X), block.Y)


class WordLabels(Gatherer):
    """The cross moment, for all parts that are made of it."""

    def __init__(self, context: Context) -> None:
        layout, corpus = context.layout, context.corpus
        most = MOST_ENTRIES
        if layout.memory_limit is not None:
            most = min(MOST_ENTRIES, 1 + layout.parts_bytes // _ENTRY_BYTES)
        expected = round(corpus_size(corpus).label_words)
        self.work = Cross(context.weighting, corpus.n_labels, expected, most)
        self.moment: CrossMoment | None = None

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        return [self.work] if read == 1 else ()

    def take(self, read: int, sums: Sequence[Any]) -> None:
        (self.moment,) = sums

    def give_back(self, held_out: Block) -> None:
        assert self.moment is not None
        self.work.add(self.moment, held_out)

    def held(self) -> Sequence[Any]:
        return [self.moment]

    def kept(self) -> CrossMoment:
        """The moment, with no more entries than are kept in the end."""
        assert self.moment is not None
        self.moment = self.moment.cut()
        return self.moment

    @property
    def kept_bytes(self) -> int:
        """About what that takes."""
        return 8 * min(self.work.most_entries, self.work.expected_entries)


_ENTRY_BYTES = 50
"""Of the cross moment, with all copies of it that are ever held."""
