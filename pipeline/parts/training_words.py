"""Words and labels of the training documents, gathered in read 3 within a budget of bytes.

Neighbours and contrast learn from single documents, not from sums. A weight takes two bytes, a word four.
Where not all documents fit, those with rare labels stay, and others are sampled by a hash of their words.
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
from ..passes.work import Pass
from ..types import Array
from .held_out import Gathered
from .part import Context
from .weighting import Weighting

MOST_WORDS = 96_000_000
"""Words of documents that are gathered: 576 MB."""
UNIT = 65_535
"""A weight of 1 as it is stored; rows have unit length, so that none is larger."""
_WORD_BYTES = 6
_SEED = 2**32 + 7


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which documents are kept: all that have a label of at most `rare` documents, and a share of others."""

    label_counts: Array
    """(L,): documents of each label."""
    rare: float = np.inf
    """A document whose rarest label has c documents is kept with probability rare / c."""

    @classmethod
    def of(cls, label_counts: Array, n_words: float, n_docs: int, most_words: float) -> Sampling:
        """The sampling that keeps about `most_words` of `n_words`, and no more.

        A label keeps min(count, rare) documents of its own at the most, and a document has a label at least.
        """
        share = most_words / max(1.0, n_words)
        if share >= 1:
            return cls(label_counts)
        ascending = np.sort(label_counts[label_counts > 0]).astype(np.float64)
        whole = np.concatenate([[0.0], np.cumsum(ascending)])
        left = len(ascending) - np.arange(len(ascending))
        kept = whole[:-1] + ascending * left  # documents, were `rare` the count of each label in turn
        first = int(np.searchsorted(kept, share * n_docs, side="right"))
        if first == len(ascending):
            return cls(label_counts)
        return cls(label_counts, float(max(0.0, share * n_docs - whole[first]) / left[first]))

    def rows(self, X: SparseRows, Y: SparseRows) -> Array:
        """Numbers of the documents to keep, those without labels never."""
        n_labels = np.diff(Y.indptr)
        labelled = np.flatnonzero(n_labels)
        if not len(labelled):
            return labelled
        rarest = np.minimum.reduceat(self.label_counts[Y.indices], Y.indptr[labelled])
        if np.isinf(self.rare):
            return labelled
        draw = hash_uniform(document_hashes(X, Y), _SEED)
        return labelled[draw[labelled] * rarest < self.rare]


@dataclass(frozen=True)
class GatherWords(Pass[Gathered]):
    """Read 3: weighted words of documents, and their labels."""

    weighting: Weighting
    sampling: Sampling
    most_words: int
    """Words that are expected at the most."""
    name = "gather words"

    def needs(self, size: Size) -> Needs:
        kept = min(size.x_nnz, self.most_words)
        share = kept / max(1, size.x_nnz)
        nbytes = _WORD_BYTES * kept + round(share * (4 * size.y_nnz + 16 * size.n_docs))
        return Needs(nbytes, nbytes, cost=Cost(gathered=_WORD_BYTES * kept))

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
        most = MOST_WORDS
        if layout.memory_limit is not None:
            most = min(MOST_WORDS, layout.parts_bytes // (2 * _WORD_BYTES))
        self._shape = corpus.n_terms, corpus.n_labels
        counts = corpus.stored_label_counts
        sampling = Sampling.of(counts, size.x_nnz, size.n_docs, most)
        self.work = GatherWords(context.weighting, sampling, min(most, size.x_nnz))
        self.sums: Gathered | None = None
        self.documents: Block | None = None
        """All of them, once they are joined."""

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        return [self.work] if read == 3 else ()

    def take(self, read: int, sums: Sequence[Any]) -> None:
        (self.sums,) = sums

    def give_back(self, held_out: Block) -> None:
        """Put the held-out documents after all others; none of them is left out."""
        assert self.sums is not None
        self.documents = None
        every = replace(self.work, sampling=Sampling(self.work.sampling.label_counts))
        every.add(self.sums, replace(held_out, first_row=np.iinfo(np.int64).max))

    def held(self) -> Sequence[Any]:
        return [self.sums]

    def joined(self) -> Block:
        """All documents in one block, in the corpus' order."""
        assert self.sums is not None
        if self.documents is None:
            self.documents = self.sums.joined(*self._shape)
            self.sums.blocks = [self.documents]
        return self.documents

    @property
    def n_words(self) -> int:
        """Words that are gathered, about."""
        return self.work.most_words
