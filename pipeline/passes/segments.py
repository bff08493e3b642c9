"""How the corpus is cut for a pass: by its blocks and the accumulators' size alone, never by the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from ..corpus.store import Corpus

MAX_SEGMENTS = 128
ACCUMULATORS_BYTES = 1_200_000_000
"""What sums of all segments may take together, if there were no documents in them."""
_MOVED = 64
"""Segments whose bounds are moved to let tasks take equally long; with more, one makes no difference."""
_AS_FAST = 1.01


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of blocks that one task streams into one accumulator."""

    number: int
    blocks: range
    n_docs: int


def segments(
    corpus: Corpus, segment_bytes: int, accumulators_bytes: int = ACCUMULATORS_BYTES
) -> list[Segment]:
    """Cut the corpus into segments of about as many documents each.

    Few when their sums are large, for these have to be merged: two at the least, but one where nothing may be
    spent on them; never more than there are blocks. Blocks are not cut, so some ways of cutting leave one
    task with more to do than another, or with nothing while it waits for the other's sums to be merged: half
    as many segments may be the faster way.

    Parameters
    ----------
    segment_bytes
        What the sums of a segment take, even of one without documents.
    """
    affordable = max(2, accumulators_bytes // max(1, segment_bytes)) if accumulators_bytes else 1
    most = min(corpus.n_blocks, MAX_SEGMENTS, affordable)
    ends = (0, *np.cumsum(corpus.block_rows).tolist())
    bounds = _bounds(ends, most)
    return [Segment(i, range(a, b), ends[b] - ends[a]) for i, (a, b) in enumerate(pairwise(bounds))]


@lru_cache
def _bounds(ends: tuple[int, ...], most: int) -> tuple[int, ...]:
    """At which blocks segments begin and end, half to all of `most` of them: where two tasks are done first.

    Parameters
    ----------
    ends
        Documents before each block, and in all.
    """
    cuts = [_even(ends, count) for count in range(most, most // 2, -1)]
    if most <= _MOVED:
        cuts = [_moved(ends, cut) for cut in cuts]
    least = min(_duration(ends, cut) for cut in cuts)
    # more segments are less to hold, and to do again: as many as do not take much longer
    return next(cut for cut in cuts if _duration(ends, cut) <= _AS_FAST * least)


def _even(ends: tuple[int, ...], count: int) -> tuple[int, ...]:
    """So many segments, or fewer where blocks are too large for that."""
    n_blocks = len(ends) - 1
    if count == n_blocks:
        return tuple(range(n_blocks + 1))
    cuts = np.searchsorted(ends[1:], ends[-1] * np.arange(1, count) / count, side="left") + 1
    return tuple(np.unique([0, *np.minimum(cuts, n_blocks), n_blocks]).tolist())


def _moved(ends: tuple[int, ...], bounds: tuple[int, ...]) -> tuple[int, ...]:
    """As many segments, their bounds moved by a block as long as that makes two tasks faster."""
    best, before = _duration(ends, bounds), float("inf")
    while best < before:
        before = best
        for i in range(1, len(bounds) - 1):
            for bound in (bounds[i] - 1, bounds[i] + 1):
                moved = (*bounds[:i], bound, *bounds[i + 1 :])
                if bounds[i - 1] < bound < bounds[i + 1] and _duration(ends, moved) < best:
                    bounds, best = moved, _duration(ends, moved)
                    break
    return bounds


def _duration(ends: Sequence[int], bounds: Sequence[int]) -> int:
    """How long two tasks at a time take, in documents.

    A segment is begun when a task is free and the segment before the last is merged, which the sums of all
    segments before that have to be.
    """
    free, merged = [0, 0], [0, 0]  # when each task is free; when the last two segments are merged
    for first, last in pairwise(bounds):
        start = max(min(free), merged[0])
        done = start + ends[last] - ends[first]
        free = [max(free), done]
        merged = [merged[1], max(merged[1], done)]
    return max(free)
