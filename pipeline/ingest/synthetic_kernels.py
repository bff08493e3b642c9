"""Compiled sampling of documents from a planted model; each document has its own random stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..types import Array

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class ItemTables(NamedTuple):
    """Tables to draw the words or the labels of a document from.

    With probability `share` an item comes from the topic's own table, else from the common one.
    """

    lengths: Array
    """Row lengths, all equally likely."""
    distinct: bool
    """Whether a row has no repeats."""
    share: float
    ids: Array
    """(K, s) int32: each topic's own items."""
    keep: Array
    """(K, s): with `other`, a result of `alias_table` for each topic."""
    other: Array
    common_keep: Array
    """(n,): with `common_other`, a result of `alias_table`."""
    common_other: Array


class Model(NamedTuple):
    """A planted model."""

    seed: int
    topic_cdf: Array
    words: ItemTables
    labels: ItemTables


class Rows(NamedTuple):
    """Preallocated rows, as in `SparseRows`."""

    indptr: Array
    indices: Array


@jit
def _mix(z: int) -> int:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@jit
def _uniform(state: Array) -> float:
    """The next number in [0, 1) of a splitmix64 stream; `state` holds one uint64."""
    state[0] += _GOLDEN
    return np.float64(_mix(state[0]) >> np.uint64(11)) * 2.0**-53


@jit
def alias_table(weights: Array) -> tuple[Array, Array]:
    """Walker's table: draw i uniformly, keep it with probability `keep[i]`, else take `other[i]`."""
    n = len(weights)
    keep, other = np.ones(n, np.float32), np.arange(n).astype(np.int32)
    scaled = weights * (n / weights.sum())
    small, large = np.empty(n, np.int64), np.empty(n, np.int64)
    n_small = n_large = 0
    for i in range(n):
        if scaled[i] < 1:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small and n_large:
        n_small -= 1
        i, j = small[n_small], large[n_large - 1]
        keep[i], other[i] = scaled[i], j
        scaled[j] -= 1 - scaled[i]
        if scaled[j] < 1:
            n_large -= 1
            small[n_small] = j
            n_small += 1
    return keep, other


@jit
def _draw(state: Array, keep: Array, other: Array) -> int:
    place = _uniform(state) * len(keep)
    i = int(place)
    return i if place - i < keep[i] else other[i]


@jit
def _draw_row(state: Array, items: ItemTables, topic: int, row: int, seen: Array, out: Array) -> int:
    """Fill `out` with draws from one topic; returns how many there are: fewer if too few are distinct."""
    count = 0
    for _ in range(30 * len(out) + 100):
        if count == len(out):
            break
        if _uniform(state) < items.share:
            item = items.ids[topic, _draw(state, items.keep[topic], items.other[topic])]
        else:
            item = _draw(state, items.common_keep, items.common_other)
        if items.distinct:
            if seen[item] == row:
                continue
            seen[item] = row
        out[count] = item
        count += 1
    return count


@jit
def draw_documents(model: Model, first: int, x: Rows, y: Rows) -> bool:
    """Draw documents `first`, `first + 1`, ... into preallocated rows; False if these are too short.

    Cost: about 50 ns a draw.
    """
    words, labels = model.words, model.labels
    state = np.zeros(1, np.uint64)
    words_seen = np.full(len(words.common_keep), -1, np.int32)
    labels_seen = np.full(len(labels.common_keep), -1, np.int32)
    for row in range(len(x.indptr) - 1):
        state[0] = _mix(np.uint64(first + row) * _GOLDEN + np.uint64(model.seed) * _MIX_1)
        topic = np.searchsorted(model.topic_cdf, _uniform(state), side="right")
        topic = min(topic, len(model.topic_cdf) - 1)
        n_words = words.lengths[int(_uniform(state) * len(words.lengths))]
        n_labels = labels.lengths[int(_uniform(state) * len(labels.lengths))]
        x_start, y_start = x.indptr[row], y.indptr[row]
        x_stop, y_stop = x_start + n_words, y_start + n_labels
        if x_stop > len(x.indices) or y_stop > len(y.indices):
            return False
        x_row, y_row = x.indices[x_start:x_stop], y.indices[y_start:y_stop]
        x.indptr[row + 1] = x_start + _draw_row(state, words, topic, row, words_seen, x_row)
        y.indptr[row + 1] = y_start + _draw_row(state, labels, topic, row, labels_seen, y_row)
        y.indices[y_start : y.indptr[row + 1]].sort()
    return True
