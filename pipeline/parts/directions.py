"""Directions of words that tell labels apart, and random waves of them."""

from __future__ import annotations

import numpy as np

from ..tasks import map_tasks
from ..types import Array
from . import cross_kernels
from .cross import CrossMoment

_PER_LABEL = 8
"""Directions that each label takes part in, when there are fewer directions than labels."""


def label_directions(
    cross: CrossMoment, count: int, seed: int, room: int = 0, n_threads: int | None = None
) -> Array:
    """(D, count + room) float32: X~'(Y~ G), Y~ being Y with scaled columns, from the cross moment X~'Y.

    The last `room` columns are left at zero, for other directions to be put there.

    Labels are scaled to |c_l|^1/2: neither the frequent nor the rare ones may fill all directions. With as
    many directions as labels, G is the identity; else every label is added to a few columns with random
    signs, which spans as good a space as a dense Gaussian G.

    Cost: nnz(X~'Y) times `_PER_LABEL` additions.
    """
    L = cross.n_labels
    lengths = cross.lengths()
    weights = np.where(lengths > 0, np.where(lengths > 0, lengths, 1) ** -0.5, 0).astype(np.float32)
    out = np.zeros((cross.n_terms, count + room), np.float32)
    if count >= L:
        columns, signs = np.arange(L)[:, None], np.ones((L, 1), np.float32)
    else:
        rng = np.random.default_rng(seed)
        columns = rng.integers(count, size=(L, min(_PER_LABEL, count)))
        signs = rng.choice(np.array([-1, 1], np.float32), columns.shape)
    G = cross_kernels.LabelMixture(columns, signs, weights)

    def part(words: tuple[int, int]) -> None:
        cross_kernels.add_directions(cross.csr(), G, *words, out)

    map_tasks(part, cross.word_ranges(n_threads), name="directions", n_threads=n_threads)
    return out


def random_waves(width: int, count: int, seed: int) -> tuple[Array, Array]:
    """(width, count) and (count,) float32: frequencies and phases of a Gaussian kernel of width 1."""
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((width, count), np.float32),
        (2 * np.pi * rng.random(count)).astype(np.float32),
    )
