"""Words and labels of the training documents, gathered in read 3 within a budget of bytes.

Neighbours and contrast learn from single documents, not from sums. A weight takes two bytes, a word four.
Where not all documents fit, those with rare labels stay, and others are sampled by a hash of their words and
labels; reads 1 and 2 then count how rare labels are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.split import hash_uniform
from ..corpus.store import Block
from ..passes.cost import Cost, Needs, Size, corpus_size
from ..passes.document_hashes import document_hashes
from ..passes.stages import Gatherer
from ..passes.sums import Sums
from ..passes.work import Pass, hollow
from ..types import Array
from .held_out import Gathered
from .part import Context
from .weighting import Weighting

MOST_WORDS = 32_000_000
"""Words of documents that are gathered: 192 MB."""
MOST_PRODUCTS = 400_000_000
"""Words of documents, each as often as contrast has a pair of that document and a label."""
FEWEST_ALIKE = 10
"""Look-alikes of a document, at least."""
UNIT = 65_535
"""A weight of 1 as it is stored; rows have unit length, so that none is larger."""
_WORD_BYTES = 6
_SEED = 2**32 + 7
_BINS_EACH, _BINS = 8, 8 * 48
"""Bins of label counts for each power of 2, and in all."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which documents are kept: all that have a label of at most `rare` documents, and a share of others."""

    label_counts: Array
    """(L,): documents of each label."""
    rare: float = np.inf
    """A document whose rarest label has c documents is kept with probability rare / c."""

    @classmethod
    def of(cls, label_counts: Array, rarest: Array, words: Array, most_words: float) -> Sampling:
        """The sampling that keeps about `most_words`.

        Parameters
        ----------
        rarest
            (k,): documents of the rarest label of some documents.
        words
            (k,): how many words these have.
        """
        if words.sum() <= most_words:
            return cls(label_counts)
        order = np.argsort(rarest, kind="stable")
        counts, words = rarest[order].astype(np.float64), words[order].astype(np.float64)
        whole = np.concatenate([[0.0], np.cumsum(words)])[:-1]
        others = np.cumsum((words / counts)[::-1])[::-1]
        first = int(np.argmax(whole + counts * others > most_words))
        return cls(label_counts, float(max(0.0, most_words - whole[first]) / others[first]))

    def rarest(self, Y: SparseRows) -> tuple[Array, Array]:
        """Numbers of the documents that have labels, and how many documents the rarest of these has."""
        labelled = np.flatnonzero(np.diff(Y.indptr))
        if not len(labelled):
            return labelled, labelled
        return labelled, np.minimum.reduceat(self.label_counts[Y.indices], Y.indptr[labelled])

    def rows(self, X: SparseRows, Y: SparseRows) -> Array:
        """Numbers of the documents to keep, those without labels never."""
        if np.isinf(self.rare):
            return np.flatnonzero(np.diff(Y.indptr))
        labelled, rarest = self.rarest(Y)
        draw = hash_uniform(document_hashes(X, Y), _SEED)
        return labelled[draw[labelled] * rarest < self.rare]


EVERY = Sampling(np.zeros(0, np.int64))
"""All documents that have labels."""


@dataclass
class LabelCountSums(Sums):
    """Documents of each label."""

    counts: Array
    """(L,) int64."""


@dataclass(frozen=True)
class LabelCounts(Pass[LabelCountSums]):
    """Read 1: documents of each label, where documents are to be sampled."""

    n_labels: int
    name = "label counts"

    def needs(self, size: Size) -> Needs:
        return Needs(8 * self.n_labels, 8 * self.n_labels, cost=Cost(gathered=16 * size.y_nnz))

    def zero(self) -> LabelCountSums:
        return LabelCountSums(np.zeros(self.n_labels, np.int64))

    def add(self, sums: LabelCountSums, block: Block) -> None:
        sums.counts += np.bincount(block.Y.indices, minlength=self.n_labels)


@dataclass
class RarestLabelSums(Sums):
    """Words of documents by their rarest label."""

    words: Array
    """(_BINS,) float64: bin b is of labels with 2^(b / 8) documents or more."""


@dataclass(frozen=True)
class RarestLabels(Pass[RarestLabelSums]):
    """Read 2: how many words there are by how rare labels are, for the sampling."""

    sampling: Sampling
    name = "rarest labels"

    def needs(self, size: Size) -> Needs:
        return Needs(8 * _BINS, 8 * _BINS, cost=Cost(gathered=8 * size.y_nnz))

    def zero(self) -> RarestLabelSums:
        return RarestLabelSums(np.zeros(_BINS))

    def add(self, sums: RarestLabelSums, block: Block) -> None:
        labelled, rarest = self.sampling.rarest(block.Y)
        bins = (_BINS_EACH * np.log2(np.maximum(rarest, 1))).astype(np.int64)
        sums.words += np.bincount(bins, np.diff(block.X.indptr)[labelled], minlength=_BINS)


@dataclass(frozen=True)
class GatherWords(Pass[Gathered]):
    """Read 3: weighted words of documents, and their labels."""

    weighting: Weighting
    sampling: Sampling
    most_words: int
    """Words that are expected at the most."""
    whole: Size
    """Of the corpus."""
    name = "gather words"

    def needs(self, size: Size) -> Needs:
        words = self.share * size.x_nnz
        return Needs(self._bytes(self.whole), self._bytes(size), cost=Cost(gathered=_WORD_BYTES * words))

    @property
    def share(self) -> float:
        """Share of all words that are gathered, about."""
        return min(1.0, self.most_words / max(1, self.whole.x_nnz))

    def _bytes(self, size: Size) -> int:
        return round(self.share * (_WORD_BYTES * size.x_nnz + 4 * size.y_nnz + 16 * size.n_docs))

    def zero(self) -> Gathered:
        return Gathered()

    def add(self, sums: Gathered, block: Block) -> None:
        rows = self.sampling.rows(block.X, block.Y)
        every = len(rows) == block.X.n_rows
        X, Y = (block.X, block.Y) if every else (block.X.take(rows), block.Y.take(rows))
        sums.blocks.append(replace(block, X=stored_weights(self.weighting.of(X)), Y=Y))


def stored_weights(X: SparseRows) -> SparseRows:
    """Weights in (0, 1] as whole numbers of two bytes; none becomes 0."""
    values = np.maximum(np.rint(X.values_as(np.float32) * np.float32(UNIT)), 1)
    return SparseRows(X.indptr, X.indices, np.minimum(values, UNIT).astype(np.uint16), X.n_columns)


class TrainingWords(Gatherer):
    """The documents that were gathered, for all parts that learn from them."""

    def __init__(self, context: Context) -> None:
        corpus, layout = context.corpus, context.layout
        size = corpus_size(corpus)
        labels_each = size.y_nnz / max(1, size.n_docs)
        most = min(MOST_WORDS, round(MOST_PRODUCTS / (FEWEST_ALIKE + labels_each)))
        if layout.memory_limit is not None:
            most = min(most, layout.parts_bytes // (2 * _WORD_BYTES))
        self._shape = corpus.n_terms, corpus.n_labels
        self.work = GatherWords(context.weighting, EVERY, min(most, size.x_nnz), size)
        self._counts: Array | None = None
        self.sums: Gathered | None = None
        self._hollow: Array | None = None
        """As large as the sums, once gathering them was pretended."""
        self.documents: Block | None = None
        """All of them, once they are joined."""

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        if read == 3:
            return [self.work]
        if self.share == 1:
            return ()
        if read == 1:
            return [LabelCounts(self._shape[1])]
        return [RarestLabels(Sampling(self._counts))] if read == 2 and self._counts is not None else ()

    def take(self, read: int, sums: Sequence[Any]) -> None:
        (own,) = sums
        if isinstance(own, Gathered):
            self.sums = own
        elif isinstance(own, LabelCountSums):
            self._counts = own.counts
        elif isinstance(own, RarestLabelSums):
            assert self._counts is not None
            edges = 2.0 ** (np.arange(_BINS) / _BINS_EACH)
            sampling = Sampling.of(self._counts, edges, own.words, self.work.most_words)
            self.work = replace(self.work, sampling=sampling)
        elif read == 1:  # pretended
            self._counts = hollow(self._shape[1], dtype=np.int64)
        elif read == 3:  # they stay in memory even where sums lie in files
            self._hollow = hollow(self.work.needs(self.work.whole).sums, dtype=np.uint8)

    def give_back(self, held_out: Block) -> None:
        """Put the held-out documents after all others; none of them is left out."""
        assert self.sums is not None
        self.documents = None
        every = replace(self.work, sampling=EVERY)
        every.add(self.sums, replace(held_out, first_row=np.iinfo(np.int64).max))

    def let_go(self) -> None:
        """Hold nothing any more."""
        self.sums = self.documents = self._hollow = None

    def held(self) -> Sequence[Any]:
        return [self.sums, self._hollow]

    def joined(self) -> Block:
        """All documents in one block, in the corpus' order."""
        assert self.sums is not None
        if self.documents is None:
            blocks = sorted(self.sums.blocks, key=lambda block: block.first_row)
            self.sums.blocks = []
            self.documents = _joined(blocks, *self._shape)
            self.sums.blocks = [self.documents]
        return self.documents

    @property
    def share(self) -> float:
        """Share of all words that are gathered, about."""
        return self.work.share

    @property
    def n_words(self) -> int:
        """Words that are gathered, about."""
        return self.work.most_words


def _joined(blocks: list[Block], n_terms: int, n_labels: int) -> Block:
    """All documents in one block; each block is let go once it was copied."""
    lengths = [np.diff(block.X.indptr) for block in blocks]
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))])
    labels = [block.Y for block in blocks] or [
        SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int32), None, n_labels)
    ]
    Y = SparseRows.concatenate(labels)
    indices, weights, at = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.uint16), 0
    while blocks:
        X = blocks.pop(0).X
        indices[at : at + X.nnz], weights[at : at + X.nnz] = X.indices, X.values_as(np.uint16)
        at += X.nnz
    return Block(0, 0, SparseRows(indptr.astype(np.int64), indices, weights, n_terms), Y)
