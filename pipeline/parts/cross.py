"""Beside pass 1: the word-label cross moment X~'Y, and the words' own directions."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..passes import kernels
from ..passes.cost import Cost, Size
from ..passes.sums import Sums
from ..passes.tall import TallSum, segment_tall_bytes, tall_bytes
from ..tasks import map_tasks, n_cpus
from ..types import Array
from . import cross_kernels
from .held_out import others
from .weighting import Weighting

MOST_ENTRIES = 16_000_000
"""Entries of a cross moment that are kept: 128 MB."""
_SLACK = 1.25
"""While sums are made, so many times as many are kept: what is small now may grow."""
_TOGETHER = 5_000_000
"""Words of documents that are added at once."""
_RANGES = 4
"""Ranges of words for each thread, where threads share them out."""


@dataclass(slots=True)
class CrossMoment:
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
        return len(self.settle().indices)

    def __sizeof__(self) -> int:
        """Bytes of its arrays: Dask asks for them, to know when to spill."""
        waiting = sum(X.nbytes + Y.nbytes for X, Y in self.waiting)
        return int(self.indptr.nbytes + self.indices.nbytes + self.values.nbytes + waiting)

    def to_arrays(self) -> dict[str, Array]:
        """What it is made of, to be kept in a file."""
        self.settle()
        return {"indptr": self.indptr, "indices": self.indices, "values": self.values}

    def from_arrays(self, arrays: dict[str, Array]) -> CrossMoment:
        """One of the same kind, from what `to_arrays` gave."""
        triple = arrays["indptr"], arrays["indices"], arrays["values"]
        return CrossMoment(*triple, self.n_terms, self.most_entries)

    def add(self, X: SparseRows, Y: SparseRows) -> None:
        """Add Y'X~ of some documents, X~ being float32; they may wait for others, or for `settle`."""
        self.waiting.append((X, Y))
        if sum(words.nnz for words, _ in self.waiting) >= _TOGETHER:
            self.settle()

    def settle(self) -> CrossMoment:
        """This, with all documents that wait added to its arrays."""
        if self.waiting:
            X, Y = (SparseRows.concatenate(side) for side in zip(*self.waiting, strict=True))
            self.waiting = []
            self._add_documents(X, Y)
        return self

    def _add_documents(self, X: SparseRows, Y: SparseRows) -> None:
        words = np.repeat(np.diff(X.indptr), np.diff(Y.indptr))  # for each label of each document
        products = np.bincount(Y.indices, words, minlength=self.n_labels).astype(np.int64)
        self._add(X, *_documents_of_labels(Y), products)

    def __add__(self, other: CrossMoment) -> CrossMoment:
        self.settle()
        other.settle()
        result = CrossMoment(self.indptr, self.indices, self.values, self.n_terms, self.most_entries)
        # the other's rows, as documents that carry one label each
        rows = SparseRows(other.indptr, other.indices, other.values, other.n_terms)
        labels = np.arange(other.n_labels, dtype=np.int32)
        result._add(rows, np.arange(other.n_labels + 1), labels, np.diff(other.indptr))
        return result

    def _add(self, X: SparseRows, docs_indptr: Array, docs: Array, products: Array) -> None:
        """`products` (L,): how many entries there are to add to each label's."""
        most = _entries_each(np.diff(self.indptr) + products, int(_SLACK * self.most_entries))
        self.indptr, self.indices, self.values = cross_kernels.add_documents(
            self.indptr,
            self.indices,
            self.values,
            X.indptr,
            X.indices,
            X.values_as(np.float32),
            docs_indptr,
            docs,
            self.n_terms,
            self.n_terms if most is None else most,
        )

    def cut(self) -> CrossMoment:
        """The same with no more than `most_entries`."""
        self.settle()
        most = _entries_each(np.diff(self.indptr), self.most_entries)
        if most is None:
            return self
        indptr, indices, values = cross_kernels.largest_entries(self.indptr, self.indices, self.values, most)
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
            triple = self.indptr, self.indices, self.values
            cross_kernels.transpose_columns(*triple, *words, indptr, labels, values)

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
class Cross:
    """Sums Y'X~, and X~'(X~ Omega) where the head has room for the words' own directions.

    Documents that are held out are in no sum.
    """

    weighting: Weighting
    omega: Array
    """(D, m) float32; m may be 0."""
    n_labels: int
    held_out_share: float
    expected_entries: int = MOST_ENTRIES
    """How large the cross moment may become, as far as that can be told before."""
    most_entries: int = MOST_ENTRIES
    """How many of them are kept."""
    name: str = "cross"

    @property
    def accumulator_bytes(self) -> int:
        return self._cross_bytes + tall_bytes(*self.omega.shape)

    def segment_bytes(self, n_docs: int, nnz: int) -> int:
        D, m = self.omega.shape
        copies = 2 if n_docs else 1  # one more while documents are added
        return copies * self._cross_bytes + segment_tall_bytes(D, m, n_docs, nnz)

    @property
    def _cross_bytes(self) -> int:
        entries = int(_SLACK * min(self.most_entries, self.expected_entries))
        return 8 * (entries + self.n_labels + 1)

    def cost(self, size: Size) -> Cost:
        # a word and its weight are read for each label, and a sum is read and written
        return Cost(gathered=16 * size.label_words + 12 * size.x_nnz * self.omega.shape[1])

    def zero(self) -> Sums:
        cross = CrossMoment.zero(self.n_labels, len(self.weighting.idf), self.most_entries)
        return {"cross": cross, "words": TallSum.zero(*self.omega.shape)}

    def add(self, sums: Sums, block: Block) -> None:
        block = others(block, self.held_out_share)
        X = self.weighting.of(block.X)
        sums["cross"].add(X, block.Y)
        if self.omega.shape[1]:
            sums["words"].add(X, kernels.times(X, self.omega))
