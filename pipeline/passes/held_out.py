"""Training documents that are set aside while the corpus streams by, for choices to be made on.

They are chosen by hash of their row, left out of a head's sums, and added to them once the choice is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pipeline.corpus.rows import SparseRows
from pipeline.corpus.split import in_test
from pipeline.corpus.store import Block
from pipeline.passes.cost import Cost, Size
from pipeline.passes.run import Sums

HELD_OUT_SEED = 2**32 + 3
"""Not a seed that users split by: a split's training side is not to be cut along the same hash again."""


def others(block: Block, share: float) -> Block:
    """The documents of a block that are not held out."""
    return block if share == 0 else _kept(block, share, held_out=False)


def held_out(block: Block, share: float) -> Block:
    """The documents of a block that are held out: about `share` of them, whatever the blocks."""
    return _kept(block, share, held_out=True)


def _kept(block: Block, share: float, held_out: bool) -> Block:
    numbers = block.first_row + np.arange(block.X.n_rows)
    rows = np.flatnonzero(in_test(numbers, share, HELD_OUT_SEED) == held_out)
    return replace(block, X=block.X.take(rows), Y=block.Y.take(rows))


@dataclass(slots=True)
class Gathered:
    """Blocks of documents as a sum: adding puts them side by side."""

    blocks: list[Block] = field(default_factory=list)

    def __sizeof__(self) -> int:
        """Bytes of the documents: Dask asks for them, to know when to spill."""
        return sum(block.X.nbytes + block.Y.nbytes for block in self.blocks)

    def __add__(self, other: Gathered) -> Gathered:
        return Gathered(self.blocks + other.blocks)

    def joined(self, n_terms: int, n_labels: int) -> Block:
        """All of the documents, in the corpus's order."""
        blocks = sorted(self.blocks, key=lambda block: block.first_row)
        if not blocks:
            none = np.zeros(1, np.int64), np.zeros(0, np.int32), None
            return Block(0, 0, SparseRows(*none, n_terms), SparseRows(*none, n_labels))
        X = SparseRows.concatenate([block.X for block in blocks])
        return Block(0, 0, X, SparseRows.concatenate([block.Y for block in blocks]))


@dataclass(frozen=True, slots=True)
class SetAside:
    """Gathers the documents that are held out."""

    held_out_share: float
    name: str = "set aside"

    @property
    def accumulator_bytes(self) -> int:
        return 0  # few documents, and each is held once

    def cost(self, size: Size) -> Cost:
        return Cost()

    def zero(self) -> Sums:
        return {"documents": Gathered()}

    def add(self, sums: Sums, block: Block) -> None:
        sums["documents"] += Gathered([held_out(block, self.held_out_share)])
