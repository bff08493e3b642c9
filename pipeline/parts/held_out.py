"""Training documents that are set aside while the corpus streams by, for choices to be made on.

They are chosen by hash of their row, left out of a head's sums, and added to them once the choice is made. Of
a small corpus all documents are set aside: each fold of them is judged by sums of the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.split import in_test
from ..corpus.store import Block
from ..passes.cost import Needs, Size
from ..passes.sums import SPILL_BYTES, Sums
from ..passes.work import Pass, S
from ..types import Array

HELD_OUT_SEED = 2**32 + 3
"""Not a seed that users split by: a split's training side is not to be cut along the same hash again."""

_SHARE = 0.1
_MOST = 5000
_FEW = 4000
_SCORES = 400_000_000
"""Held-out documents times labels: above `_FEW` documents no more of them than keep the choice short."""
_FEWEST = 100
"""A tenth that is smaller says too little; every document is judged in turn."""
_LEAST = 80
"""Of fewer documents nothing is learned: of 60, calibrated scores were no better than raw ones."""
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class HoldOut:
    """Share of the documents that choices are made on, and in how many folds."""

    share: float
    """Of all documents, those that are set aside."""
    n_folds: int = 1
    """Above 1, all documents are set aside and stay in the sums; sums of a fold's others judge the fold."""

    @classmethod
    def of(cls, n_docs: int, n_labels: int) -> HoldOut:
        """A tenth, and fewer where scores are many; all of a small corpus in folds; nothing of a tiny one."""
        share = min(_SHARE, max(_FEW, min(_MOST, _SCORES // max(1, n_labels))) / max(1, n_docs))
        if n_docs < _LEAST:
            return cls(0.0)
        return cls(1.0, _FOLDS) if share * n_docs < _FEWEST else cls(share)

    @property
    def left_out(self) -> float:
        """Share of the documents that sums leave out until the choice is made."""
        return 0.0 if self.n_folds > 1 else self.share

    def folds(self, n_docs: int) -> list[tuple[Array, Array]]:
        """Rows of each fold and of its others, each in order; folds differ by one document at most."""
        fold = np.random.default_rng(HELD_OUT_SEED).permutation(n_docs) % self.n_folds
        return [(np.flatnonzero(fold == i), np.flatnonzero(fold != i)) for i in range(self.n_folds)]


def side_of(block: Block, share: float, held_out: bool) -> Block:
    """Documents of a block that are held out, about `share` of them whatever the blocks; or the others."""
    numbers = block.first_row + np.arange(block.X.n_rows)
    return rows_of(block, np.flatnonzero(in_test(numbers, share, HELD_OUT_SEED) == held_out))


def rows_of(block: Block, rows: Array) -> Block:
    """Some documents of a block."""
    return replace(block, X=block.X.take(rows), Y=block.Y.take(rows))


@dataclass(frozen=True, slots=True)
class WithoutHeldOut(Pass[S]):
    """A pass over the documents that are not held out; one that does not ask for their rows' numbers."""

    work: Pass[S]
    share: float

    @property
    def name(self) -> str:
        return self.work.name

    def needs(self, size: Size) -> Needs:
        return self.work.needs(size)

    def zero(self) -> S:
        return self.work.zero()

    def add(self, sums: S, block: Block) -> None:
        self.work.add(sums, side_of(block, self.share, held_out=False))


@dataclass
class Gathered(Sums):
    """Blocks of documents as a sum: adding puts them side by side."""

    blocks: list[Block] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes of the documents."""
        return sum(block.X.nbytes + block.Y.nbytes for block in self.blocks)

    def merge(self, other: Gathered) -> None:
        self.blocks += other.blocks

    def settle(self) -> None:
        """Nothing waits."""

    def spill(self, empty: bool = True, least: int = SPILL_BYTES) -> None:
        """Stay in memory: documents are few."""

    def to_arrays(self) -> dict[str, Array]:
        """All rows together, and which are of which block."""
        if not self.blocks:
            return {}
        places = [[block.number, block.first_row, block.X.n_rows] for block in self.blocks]
        arrays = {"places": np.array(places, np.int64)}
        for side in ("X", "Y"):
            rows = SparseRows.concatenate([getattr(block, side) for block in self.blocks])
            arrays |= {f"{side} indptr": rows.indptr, f"{side} indices": rows.indices}
            arrays[f"{side} columns"] = np.array([rows.n_columns])
            if rows.values is not None:
                arrays[f"{side} values"] = rows.values
        return arrays

    def restore(self, arrays: dict[str, Array]) -> None:
        if not arrays:
            return
        if arrays["places"].shape[1:] != (3,):
            raise ValueError(f"places of shape {arrays['places'].shape}")
        ends = np.cumsum(arrays["places"][:, 2]).tolist()

        def rows_of(side: str, start: int, stop: int) -> SparseRows:
            triple = arrays[f"{side} indptr"], arrays[f"{side} indices"], arrays.get(f"{side} values")
            return SparseRows(*triple, int(arrays[f"{side} columns"][0])).slice(start, stop)

        blocks = []
        for (number, first_row, _), (start, stop) in zip(
            arrays["places"].tolist(), pairwise([0, *ends]), strict=True
        ):
            X, Y = (rows_of(side, start, stop) for side in ("X", "Y"))
            blocks.append(Block(number, first_row, X, Y))
        self.blocks = blocks

    def joined(self, n_terms: int, n_labels: int) -> Block:
        """All of the documents, in the corpus's order."""
        blocks = sorted(self.blocks, key=lambda block: block.first_row)
        if not blocks:
            none = np.zeros(1, np.int64), np.zeros(0, np.int32), None
            return Block(0, 0, SparseRows(*none, n_terms), SparseRows(*none, n_labels))
        X = SparseRows.concatenate([block.X for block in blocks])
        return Block(0, 0, X, SparseRows.concatenate([block.Y for block in blocks]))


@dataclass(frozen=True, slots=True)
class SetAside(Pass[Gathered]):
    """Gathers the documents that are held out."""

    share: float
    name = "set aside"

    def needs(self, size: Size) -> Needs:
        return Needs()  # few documents, and each is held once

    def zero(self) -> Gathered:
        return Gathered()

    def add(self, sums: Gathered, block: Block) -> None:
        sums.blocks.append(side_of(block, self.share, held_out=True))
