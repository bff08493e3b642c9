"""Bytes and work of a pass, from shapes alone; time is projected and judged by the work."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..corpus.store import Corpus


@dataclass(frozen=True, slots=True)
class Size:
    """Size of what is read."""

    n_docs: int
    x_nnz: int
    y_nnz: int

    @property
    def pairs(self) -> float:
        """sum nnz(x)², as if all documents were of a length."""
        return self.x_nnz**2 / max(1, self.n_docs)

    @property
    def label_words(self) -> float:
        """sum nnz(x) nnz(y), as if neither told of the other."""
        return self.x_nnz * self.y_nnz / max(1, self.n_docs)


def corpus_size(corpus: Corpus) -> Size:
    """Of the documents in view, as if they were as long as the others."""
    blocks = corpus.info.blocks
    share = corpus.n_docs / max(1, sum(block.n_docs for block in blocks))
    x_nnz, y_nnz = sum(block.x_nnz for block in blocks), sum(block.y_nnz for block in blocks)
    return Size(corpus.n_docs, round(share * x_nnz), round(share * y_nnz))


@dataclass(frozen=True, slots=True)
class Cost:
    """Arithmetic that a matrix product would do, and bytes of rows that are reached by number.

    A row that is added to counts twice: it is read and written.
    """

    flops: float = 0.0
    gathered: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.gathered + other.gathered)


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes and work of a pass over a number of documents."""

    sums: int = 0
    """Bytes of the sums of the whole corpus."""
    segment: int = 0
    """Bytes of the sums of these documents alone, in a segment."""
    slab_document: int = 0
    """Bytes that a task makes of each document of a slab."""
    block_document: int = 0
    """Bytes that a task makes of each document of a block, for all of them at a time."""
    cost: Cost = field(default_factory=Cost)

    def __add__(self, other: Needs) -> Needs:
        return Needs(
            self.sums + other.sums,
            self.segment + other.segment,
            self.slab_document + other.slab_document,
            self.block_document + other.block_document,
            self.cost + other.cost,
        )
