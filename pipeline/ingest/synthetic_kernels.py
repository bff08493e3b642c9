"""Compiled sampling of documents from a planted model; each document has its own random stream."""

from __future__ import annotations

import numpy as np

from ..jit import jit
from ..types import Array

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


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
def _draw_set(
    state: Array,
    n: int,
    topic: int,
    mixture: tuple[float, Array, Array, Array, Array, Array],
    distinct: bool,
    seen: Array,
    stamp: int,
    out: Array,
) -> int:
    """Fill `out` with n draws from one topic, without repeats if `distinct`. Returns the number drawn."""
    share, ids, keep, other, common_keep, common_other = mixture
    count = 0
    for _ in range(30 * n + 100):
        if count == n:
            break
        if _uniform(state) < share:
            item = ids[topic, _draw(state, keep[topic], other[topic])]
        else:
            item = _draw(state, common_keep, common_other)
        if distinct:
            if seen[item] == stamp:
                continue
            seen[item] = stamp
        out[count] = item
        count += 1
    return count


@jit
def draw_documents(
    first: int,
    seed: int,
    topic_cdf: Array,
    words: tuple[float, Array, Array, Array, Array, Array],
    labels: tuple[float, Array, Array, Array, Array, Array],
    n_words: Array,
    n_labels: Array,
    distinct: bool,
    x_indptr: Array,
    x_indices: Array,
    y_indptr: Array,
    y_indices: Array,
) -> bool:
    """Draw documents `first`, `first + 1`, ... into preallocated rows; False if these are too short.

    `words` and `labels` are mixtures (share, ids, keep, other, common keep, common other): with probability
    `share` an item comes from the topic's own table, else from the common one. `n_words` and `n_labels` are
    quantile tables of the row lengths.

    Cost: about 50 ns a draw.
    """
    state = np.zeros(1, np.uint64)
    words_seen, labels_seen = np.full(len(words[4]), -1, np.int32), np.full(len(labels[4]), -1, np.int32)
    for row in range(len(x_indptr) - 1):
        state[0] = _mix(np.uint64(first + row) * _GOLDEN + np.uint64(seed) * _MIX_1)
        topic = min(np.searchsorted(topic_cdf, _uniform(state), side="right"), len(topic_cdf) - 1)
        want_words = n_words[int(_uniform(state) * len(n_words))]
        want_labels = n_labels[int(_uniform(state) * len(n_labels))]
        x, y = x_indptr[row], y_indptr[row]
        if x + want_words > len(x_indices) or y + want_labels > len(y_indices):
            return False
        count = _draw_set(state, want_words, topic, words, distinct, words_seen, row, x_indices[x:])
        x_indptr[row + 1] = x + count
        count = _draw_set(state, want_labels, topic, labels, True, labels_seen, row, y_indices[y:])
        y_indices[y : y + count].sort()
        y_indptr[row + 1] = y + count
    return True
