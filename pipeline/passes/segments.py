"""Segments of a corpus for a pass: they depend on its blocks and the size of sums alone, not on workers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from ..corpus.store import Corpus
from ..types import Array

MAX_SEGMENTS = 128
ACCUMULATORS_BYTES = 1_200_000_000
"""Bytes that the sums of all segments may take together, if there were no documents in them."""
TASK_COUNTS = (2, 4, 8, 16, 32, 64)
"""Tasks at a time that segments are made for. One task takes equally long whatever the segments."""
_AS_GOOD = 1.1
"""Ratio of two costs that makes no difference: about 1 % of the time."""
_MOVED = 64
"""Segments whose bounds are moved; with more, one block makes little difference."""
_MOVED_CUTS = 3
"""Cuts, the best before, whose bounds are moved."""
_MOVES = 12
"""Times that one bound is moved."""


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

    Large sums make few segments, for these have to be merged: two at the least, but one where nothing may be
    spent on them; never more than there are blocks. Blocks are not cut, so some ways of cutting leave a task
    with more to do than another, or with nothing while it waits for another's sums to be merged: half as many
    segments may be the faster way.

    Parameters
    ----------
    segment_bytes
        Bytes of the sums of a segment, even of one without documents.
    """
    affordable = max(2, accumulators_bytes // max(1, segment_bytes)) if accumulators_bytes else 1
    most = min(corpus.n_blocks, MAX_SEGMENTS, affordable)
    ends = (0, *np.cumsum(corpus.block_rows).tolist())
    bounds = _bounds(ends, most)
    return [Segment(i, range(a, b), ends[b] - ends[a]) for i, (a, b) in enumerate(pairwise(bounds))]


@lru_cache
def _bounds(ends: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Bounds, in blocks, of half to all of `most` segments: those that keep any number of tasks busy.

    Parameters
    ----------
    ends
        Documents before each block, and in all.
    """
    cuts = [cut(ends, count) for count in range(most, most // 2, -1) for cut in (_even, _descending)]
    counts = [count for count in TASK_COUNTS if count <= most]
    docs = np.asarray(ends)
    costs = _costs(_lengths(docs, cuts), docs, counts)
    for i in np.argsort(costs, kind="stable")[:_MOVED_CUTS].tolist() if most <= _MOVED else ():
        cuts[i], costs[i] = _moved(docs, cuts[i], counts)
    # more segments are less to hold, and to do again: as many as do not take much longer
    good = [cut for cut, cost in zip(cuts, costs, strict=True) if cost <= _AS_GOOD * costs.min()]
    return tuple(max(good, key=len).tolist())


def _even(ends: Sequence[int], count: int) -> Array:
    """Bounds of so many segments, or of fewer where blocks are too large for that."""
    n_blocks = len(ends) - 1
    if count == n_blocks:
        return np.arange(n_blocks + 1)
    cuts = np.searchsorted(ends[1:], ends[-1] * np.arange(1, count) / count, side="left") + 1
    return np.unique([0, *np.minimum(cuts, n_blocks), n_blocks])


def _descending(ends: Sequence[int], count: int) -> Array:
    """The same, each segment at least its share of what is left: so the larger ones come first."""
    n_blocks, bounds = len(ends) - 1, [0]
    for left in range(count, 1, -1):
        share = (ends[-1] - ends[bounds[-1]]) / left
        bounds.append(bisect_left(ends, ends[bounds[-1]] + share, bounds[-1] + 1, n_blocks))
        if bounds[-1] == n_blocks:
            return np.array(bounds)
    return np.array([*bounds, n_blocks])


def _moved(ends: Array, bounds: Array, counts: Sequence[int]) -> tuple[Array, float]:
    """Move one bound by a block, as long as that lowers the cost; return the bounds and their cost."""
    (cost,) = _costs(_lengths(ends, [bounds]), ends, counts)
    inner = np.tile(np.arange(1, len(bounds) - 1), 2)
    steps = np.repeat([-1, 1], len(bounds) - 2)
    for _ in range(_MOVES):
        places = bounds[inner] + steps
        possible = (bounds[inner - 1] < places) & (places < bounds[inner + 1])
        moved = np.tile(bounds, (int(possible.sum()), 1))
        moved[np.arange(len(moved)), inner[possible]] = places[possible]
        costs = _costs(np.diff(ends[moved], axis=1), ends, counts)
        if costs.min(initial=np.inf) >= cost:
            break
        best = int(np.argmin(costs))
        bounds, cost = moved[best], costs[best]
    return bounds, float(cost)


def _lengths(ends: Array, cuts: Sequence[Array]) -> Array:
    """(n, S): documents of each segment; empty ones at the end where a cut has fewer."""
    longest = max(map(len, cuts))
    return np.diff(ends[[np.pad(cut, (0, longest - len(cut)), "edge") for cut in cuts]], axis=1)


def _costs(lengths: Array, ends: Array, counts: Sequence[int]) -> Array:
    """(n,): how much longer each cut takes than it had to, at the worst of some task counts above all.

    It is the sum of the eighth powers of durations over ideal ones; of the 64th power for two tasks, which
    everybody has. By multiplications alone, so that it is the same on any machine.
    """
    costs, largest = np.zeros(len(lengths)), max(1, np.diff(ends).max())
    for count in counts:
        ratios = _durations(lengths, count) / max(ends[-1] / count, largest)
        for _ in range(6 if count == 2 else 3):
            ratios *= ratios
        costs += ratios
    return costs


def _durations(lengths: Array, n_tasks: int) -> Array:
    """(n,): how long so many tasks at a time take, in documents, for segments of `lengths` (n, S).

    A segment is begun when the segment `n_tasks` before it is merged, which the sums of all segments before
    that have to be: a task is free then.
    """
    n_cuts, n_segments = lengths.shape
    merged = np.zeros((n_segments + n_tasks, n_cuts), lengths.dtype)  # when each is, `n_tasks` rows later
    columns = np.ascontiguousarray(lengths.T)
    for i in range(n_segments):
        np.add(merged[i], columns[i], out=merged[i + n_tasks])
        np.maximum(merged[i + n_tasks], merged[i + n_tasks - 1], out=merged[i + n_tasks])
    return np.asarray(merged[-1])
