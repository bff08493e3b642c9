"""Compiled selection of the best labels."""

from __future__ import annotations

import numba

from pipeline.corpus.rows import Array


@numba.njit(nogil=True, cache=True)
def keep_best(tile: Array, first: int, labels: Array, scores: Array) -> None:
    """Update each row's k best (label, score) pairs, best first, with the scores of labels `first`, ...

    Labels come in increasing order and only a strictly better score moves up, so ties go to the lower id.
    """
    n, width = tile.shape
    k = labels.shape[1]
    if k == 0:
        return
    for row in range(n):
        worst = scores[row, k - 1]
        for column in range(width):
            score = tile[row, column]
            if score > worst:
                place = k - 1
                while place > 0 and score > scores[row, place - 1]:
                    scores[row, place] = scores[row, place - 1]
                    labels[row, place] = labels[row, place - 1]
                    place -= 1
                scores[row, place] = score
                labels[row, place] = first + column
                worst = scores[row, k - 1]


@numba.njit(nogil=True, cache=True)
def interpolate(values: Array, xs: Array, ys: Array, out: Array) -> None:
    """`np.interp(values, xs, ys)` for few, increasing `xs`, in single precision and without its overhead."""
    last = len(xs) - 1
    for i in range(len(values)):
        value = values[i]
        if value <= xs[0]:
            out[i] = ys[0]
        elif value >= xs[last]:
            out[i] = ys[last]
        else:
            low, high = 0, last
            while high - low > 1:
                middle = (low + high) // 2
                if xs[middle] <= value:
                    low = middle
                else:
                    high = middle
            share = (value - xs[low]) / (xs[high] - xs[low])
            out[i] = ys[low] + share * (ys[high] - ys[low])
