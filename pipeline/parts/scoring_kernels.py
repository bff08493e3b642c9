"""Compiled selection of the best labels."""

from __future__ import annotations

import numpy as np

from ..jit import jit
from ..types import Array


@jit
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


@jit
def interpolate(values: Array, xs: Array, ys: Array, out: Array) -> None:
    """`np.interp(values, xs, ys)` for few, increasing `xs`, in single precision and many times as fast.

    The range of `xs` is cut into cells, each of which knows the first knot to look at.
    """
    last = len(xs) - 1
    cells = np.zeros(1025, np.int64)
    width = (xs[last] - xs[0]) / 1024
    scale = np.float32(1 / width) if width > 1e-30 else np.float32(0)
    knot = 0
    for cell in range(1025):
        # a cell's first knot, less one: rounding may put a value into the cell beside its own
        while knot < last - 1 and xs[knot + 1] <= xs[0] + (cell - 1) * width:
            knot += 1
        cells[cell] = knot
    for i in range(len(values)):
        value = values[i]
        if not value > xs[0]:  # nor if it is NaN, which has no cell
            out[i] = ys[0]
        elif value >= xs[last]:
            out[i] = ys[last]
        else:
            low = cells[int((value - xs[0]) * scale)]
            while xs[low + 1] <= value:
                low += 1
            out[i] = _on_line(value, xs, ys, low)


@jit
def interpolated(value: float, xs: Array, ys: Array) -> np.float32:
    """`interpolate` of one value, to the last bit."""
    if not value > xs[0]:
        return np.float32(ys[0])
    if value >= xs[-1]:
        return np.float32(ys[-1])
    return np.float32(_on_line(value, xs, ys, np.searchsorted(xs, value, side="right") - 1))


@jit
def _on_line(value: float, xs: Array, ys: Array, low: int) -> np.float32:
    share = (value - xs[low]) / (xs[low + 1] - xs[low])
    return np.float32(ys[low] + share * (ys[low + 1] - ys[low]))
