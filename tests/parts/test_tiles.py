"""Tiles of labels: no label's score is above its tile's bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.blends import random_case
from threepass.parts.terms import Dense
from threepass.parts.tiles import Tiles


def exact(term: Dense, F: np.ndarray) -> np.ndarray:
    """(n, L) in double precision."""
    product = F.astype(float) @ term.labels.T.astype(float)
    return term.root_weight * np.sqrt(product) if term.root_weight else product


def some_terms(kinds: str, n: int, n_labels: int, seed: int = 0) -> tuple[list[Dense], list[np.ndarray]]:
    """Terms of any sign ("s"), of numbers that are not negative ("n"), and roots of such ("r")."""
    rng = np.random.default_rng([seed, n, n_labels])
    terms, sides = [], []
    for kind, p in zip(kinds, (90, 150, 30), strict=False):
        A, F = (rng.standard_normal((rows, p)).astype("f4") for rows in (n_labels, n))
        if kind == "s":
            terms.append(Dense(A))
            sides.append(F)
        else:
            terms.append(Dense(abs(A), 0.7 if kind == "r" else 0.0, is_nonnegative=True))
            sides.append(abs(F) / 100)
    return terms, sides


@pytest.mark.parametrize("kinds", ["s", "n", "r", "sr", "sn", "ssr"])
def test_bounds__are_safe_in_single_precision(kinds: str) -> None:
    # tiles of one label: the bound is the score itself, and only its widening makes up for rounding
    terms, sides = some_terms(kinds, 40, 200)
    index = Tiles.of(terms, 200, 1)
    total = sum(exact(term, F) for term, F in zip(terms, sides, strict=True))
    bounds = index.bounds(sides, 40)
    assert (bounds >= total[:, index.order].astype("f4")).all()
    np.testing.assert_allclose(bounds, total[:, index.order], atol=0.05, rtol=1e-3)


@given(
    kinds=st.sampled_from(["", "s", "r", "nsr"]),
    n=st.integers(0, 3),
    n_labels=st.integers(1, 40),
    width=st.integers(1, 50),
    seed=st.integers(0, 100),
)
def test_bounds__are_above_every_label_of_a_tile(
    kinds: str, n: int, n_labels: int, width: int, seed: int
) -> None:
    terms, sides = some_terms(kinds, n, n_labels, seed)
    index = Tiles.of(terms, n_labels, width)
    assert sorted(index.order.tolist()) == list(range(n_labels))
    bounds = index.bounds(sides, n)
    assert bounds.shape == (n, index.count)
    total = sum((exact(term, F) for term, F in zip(terms, sides, strict=True)), np.zeros((n, n_labels)))
    for tile in range(index.count):
        own = index.order[tile * width : (tile + 1) * width]
        assert (bounds[:, [tile]] >= total[:, own].astype("f4")).all()


def test_bounds__of_weights_that_are_all_zero() -> None:
    index = Tiles.of([Dense(np.zeros((9, 3), "f4"))], 9, 128)
    np.testing.assert_allclose(index.bounds([np.ones((2, 3), "f4")], 2), np.zeros((2, 1)), atol=1e-30)


def test_maxima__of_each_tile() -> None:
    terms, _ = some_terms("s", 1, 30)
    index = Tiles.of(terms, 30, 7)
    values = np.random.default_rng(0).random(30)
    ref = [max(values[index.order[start : start + 7]]) for start in range(0, 30, 7)]
    np.testing.assert_array_equal(index.maxima(values), ref)


def test_tiles__bytes_of_what_they_hold() -> None:
    terms, _ = some_terms("sr", 1, 300)
    index = Tiles.of(terms, 300, 128)
    assert index.nbytes == 4 * 300 + 4 * 3 * (2 * 90 + 150)


def test_tiles__are_those_of_the_plain_blend() -> None:
    blend, _, _ = random_case("ridge + roots")
    assert blend.emphasised(np.ones(blend.n_labels)).tiles is blend.tiles
    assert replace(blend, emphasis=np.ones(blend.n_labels, "f4")).tiles is not blend.tiles
