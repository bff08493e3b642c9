"""How the corpus is cut for a pass: by its blocks and the accumulators' size alone, never by the workers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeline.corpus.store import Corpus

MAX_SEGMENTS = 32
ACCUMULATORS_BYTES = 2_500_000_000
"""What one accumulator for each segment may take together."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of blocks that one task streams into one accumulator."""

    number: int
    blocks: range
    n_docs: int


def segments(
    corpus: Corpus, accumulator_bytes: int, accumulators_bytes: int = ACCUMULATORS_BYTES
) -> list[Segment]:
    """Cut the corpus into segments of about as many documents each.

    Few when accumulators are large, for each segment makes one, which has to be merged: two at the least, but
    one where nothing may be spent on them; never more than there are blocks. Blocks are not cut, so some
    numbers of segments leave one task with more to do than another, or with nothing while it waits for the
    other's sums to be merged: half as many may be the faster way.
    """
    affordable = max(2, accumulators_bytes // max(1, accumulator_bytes)) if accumulators_bytes else 1
    most = min(corpus.n_blocks, MAX_SEGMENTS, affordable)
    cuts = (_cut(corpus, count) for count in range(most, most // 2, -1))
    return min(cuts, key=_duration)  # the first of equal ones, which has the most segments


def _cut(corpus: Corpus, count: int) -> list[Segment]:
    """So many segments, or fewer where blocks are too large for that."""
    ends = np.cumsum(corpus.block_rows)
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, count) / count, side="left") + 1
    bounds = np.unique([0, *np.minimum(cuts, corpus.n_blocks), corpus.n_blocks])
    starts = np.concatenate([[0], ends])
    return [
        Segment(i, range(a, b), int(starts[b] - starts[a]))
        for i, (a, b) in enumerate(pairwise(bounds.tolist()))
    ]


def _duration(cut: list[Segment]) -> int:
    """How long two tasks at a time take, in documents.

    A segment is begun when a task is free and the segment before the last is merged, which the sums of all
    segments before that have to be.
    """
    free, merged = [0, 0], [0, 0]  # when each task is free; when the last two segments are merged
    for segment in cut:
        start = max(min(free), merged[0])
        free = [max(free), start + segment.n_docs]
        merged = [merged[1], max(merged[1], start + segment.n_docs)]
    return max(free)
