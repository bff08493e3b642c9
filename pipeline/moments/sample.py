"""A few blocks that are looked at before pass 1, where all pairs of words would be too many to hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..passes import kernels
from ..passes.stream import HeldWords
from ..tasks import map_tasks, n_cpus
from ..types import Array


@dataclass(frozen=True, slots=True)
class Sampling:
    """Limits of the sample."""

    share: float = 0.07
    """Share of the blocks."""
    fewest_docs: int = 20_000
    """Documents below which none of those that were read is left out."""
    most_bytes: int = 500_000_000
    """Bytes of all blocks that are read."""
    most_held: int = 256_000_000
    """Bytes of the blocks that stay in memory until pass 1 has seen them."""


SAMPLING = Sampling()
PANEL = 128
"""Columns of a sketch that a thread multiplies at a time."""


def sampled_blocks(corpus: Corpus, how: Sampling = SAMPLING) -> list[int]:
    """Numbers of the blocks that the sample is taken from: those in which evenly spaced documents lie.

    A view may have empty blocks, or nearly empty ones.
    """
    affordable = max(1, int(how.most_bytes / max(1, corpus.block_bytes.max())))
    count = min(max(1, round(how.share * corpus.n_blocks)), affordable)
    places = (np.arange(count) + 0.5) / count * corpus.n_docs
    blocks_of = np.searchsorted(np.cumsum(corpus.block_rows), places, side="right")
    chosen: list[int] = np.unique(np.minimum(blocks_of, corpus.n_blocks - 1)).tolist()
    return chosen


def read_sample(corpus: Corpus, keep: bool, how: Sampling = SAMPLING) -> tuple[SparseRows, int, HeldWords]:
    """Some documents of a few blocks, how many these are, and their words, as far as they may be kept.

    What is kept for pass 1 is not read again there, so that the sample costs no read.
    """
    blocks = {number: corpus.block_side("X", number) for number in sampled_blocks(corpus, how)}
    # large blocks hold more than is needed: every so many documents of them will do
    wanted = max(how.fewest_docs, how.share * corpus.n_docs)
    step = max(1, int(sum(block.n_rows for block in blocks.values()) / wanted))
    thinned = [
        block.take(np.arange(0, block.n_rows, step)) if step > 1 else block for block in blocks.values()
    ]
    held: HeldWords = {}
    for number, block in blocks.items():
        if keep and block.nbytes + sum(other.nbytes for other in held.values()) <= how.most_held:
            held[number] = block
    return SparseRows.concatenate(thinned), len(blocks), held


def sample_product(
    rows: SparseRows, n_threads: int | None, drop_self_pairs: bool
) -> Callable[[Array], Array]:
    """Omega -> M2 Omega on the sample, up to a factor, made in the place of Omega."""
    totals = np.bincount(rows.indices, rows.values, minlength=rows.n_columns).astype(np.float32)
    slabs = [
        rows.slice(start, min(start + kernels.SLAB, rows.n_rows))
        for start in range(0, rows.n_rows, kernels.SLAB)
    ]

    def multiply(sketch: Array) -> Array:
        def panel(columns: slice) -> None:
            # an array of its own: rows that two threads write to would go from cache to cache
            own = sketch[:, columns]
            product = -totals[:, None] * own if drop_self_pairs else np.zeros(own.shape, np.float32)
            for slab in slabs:
                kernels.add_transposed_times(slab, kernels.times(slab, sketch, columns=columns), product)
            own[...] = product

        width, threads = sketch.shape[1], n_threads or n_cpus()
        # as many panels for each thread
        count = threads * -(-width // (PANEL * threads))
        bounds = np.linspace(0, width, count + 1).astype(int).tolist()
        columns = [slice(first, last) for first, last in pairwise(bounds) if first < last]
        map_tasks(panel, columns, name="warm-start", n_threads=n_threads)
        return sketch

    return multiply
