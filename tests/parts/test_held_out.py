"""Documents that are set aside by hash, gathered as sums, and folds of small corpora."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_heads as naive
from tests.rows import block_of, cut, dense_rows, summed, ugly_matrices
from threepass.corpus.split import in_test
from threepass.corpus.store import Block
from threepass.parts.cross import Cross
from threepass.parts.held_out import (
    HELD_OUT_SEED,
    Gathered,
    HoldOut,
    SetAside,
    WithoutHeldOut,
    rows_of,
    side_of,
)
from threepass.parts.weighting import Weighting
from threepass.passes.cost import Size

SHARES = [0.0, 0.2, 0.7, 1.0]


def documents(block: Block) -> list[tuple[list[float], list[float]]]:
    """Words and labels of each document."""
    X, Y = dense_rows(block.X).tolist(), dense_rows(block.Y).tolist()
    return list(zip(X, Y, strict=True))


def numbered(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents that tell their own number, by words and by labels; the first is empty and unlabelled."""
    bits = np.arange(n)[:, None] >> np.arange(10) & 1
    return bits * 3, bits


# -- by hash --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("first_row", [0, 1000])
@pytest.mark.parametrize("n", [0, 1, 60])
def test_side_of__the_documents_of_a_small_hash(n: int, first_row: int, share: float) -> None:
    X, Y = numbered(n)
    block = block_of(X, Y, first_row, number=4)
    mask = naive.held_out(first_row + n, share)[first_row:]
    for held_out in (True, False):
        side, rows = side_of(block, share, held_out), mask == held_out
        assert (side.number, side.first_row) == (4, first_row)
        np.testing.assert_array_equal(dense_rows(side.X), X[rows])
        np.testing.assert_array_equal(dense_rows(side.Y), Y[rows])


def test_side_of__not_along_the_hash_of_a_split() -> None:
    numbers = np.arange(20_000)
    mask = in_test(numbers, 0.1, HELD_OUT_SEED)
    np.testing.assert_array_equal(mask[:2000], naive.held_out(2000, 0.1))
    for seed in range(10):
        assert mask[in_test(numbers, 0.2, seed)].mean() == pytest.approx(0.1, abs=0.02)


def test_rows_of__some_documents_in_order() -> None:
    X, Y = numbered(9)
    some = rows_of(block_of(X, Y, 20), np.array([7, 0, 3]))
    np.testing.assert_array_equal(dense_rows(some.X), X[[7, 0, 3]])
    np.testing.assert_array_equal(dense_rows(some.Y), Y[[7, 0, 3]])


# -- passes ---------------------------------------------------------------------------------------------


@given(
    places=st.lists(st.integers(0, 60), max_size=8),
    share=st.sampled_from(SHARES),
    order=st.randoms(use_true_random=False),
)
def test_set_aside__whatever_the_blocks_and_their_order(
    places: list[int], share: float, order: Random
) -> None:
    X, Y = ugly_matrices(60, 10, 4)
    mask = naive.held_out(60, share)
    blocks = cut(X, Y, *sorted(places))
    order.shuffle(blocks)
    half = len(blocks) // 2
    gathered, other = (summed(SetAside(share), *some) for some in (blocks[:half], blocks[half:]))
    gathered.merge(other)
    joined = gathered.joined(10, 4)
    assert (joined.number, joined.first_row) == (0, 0)
    assert documents(joined) == documents(block_of(X[mask], Y[mask]))


@pytest.mark.parametrize("share", SHARES)
def test_without_held_out__sums_the_others(share: float) -> None:
    X, Y = ugly_matrices(60, 10, 4)
    mask = naive.held_out(60, share)
    work = Cross(Weighting(np.ones(10, np.float32)), 4)
    left_out = WithoutHeldOut(work, share)
    assert left_out.name == work.name
    assert left_out.needs(Size(9, 9, 9)) == work.needs(Size(9, 9, 9))
    assert any(array is work.weighting.idf for array in left_out.inputs())
    comp = summed(left_out, *cut(X, Y, 7, 30)).by_word()
    ref = summed(work, block_of(X[~mask], Y[~mask])).by_word()
    np.testing.assert_allclose(dense_rows(comp), dense_rows(ref), rtol=1e-5)


@pytest.mark.parametrize("n_blocks", [0, 1, 3])
def test_gathered__no_documents(n_blocks: int) -> None:
    empty = block_of(np.zeros((0, 6)), np.zeros((0, 2)))
    block = Gathered([empty] * n_blocks).joined(6, 2)
    assert (block.X.shape, block.Y.shape) == ((0, 6), (0, 2))
    assert documents(side_of(block, 0.5, held_out=False)) == []


def test_gathered__two_sums_do_not_share_their_blocks() -> None:
    one, other = Gathered(), Gathered()
    one.blocks.append(block_of(*numbered(1)))
    assert other.blocks == []


@pytest.mark.parametrize("plain", [True, False])
def test_gathered__comes_back_from_arrays(plain: bool) -> None:
    X, Y = numbered(30)
    blocks = cut(X, Y, 8, 8, 20)
    if plain:  # words that all count once
        blocks = [Block(b.number, b.first_row, b.Y, b.Y) for b in blocks]
    kept, back = Gathered(blocks), Gathered()
    back.restore(kept.to_arrays())
    assert [(b.number, b.first_row) for b in back.blocks] == [(b.number, b.first_row) for b in blocks]
    for one, other in zip(back.blocks, blocks, strict=True):
        assert documents(one) == documents(other)
        assert (one.X.values is None) == plain
    back.restore(Gathered().to_arrays())
    assert kept.nbytes >= sum(b.X.indices.nbytes + b.Y.indices.nbytes for b in blocks)


# -- which, by the size of the corpus -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_docs", "n_labels", "share", "n_folds"),
    [
        (0, 5, 0, 1),
        (1, 5, 0, 1),
        (79, 5, 0, 1),
        (80, 5, 1, 5),
        (999, 5, 1, 5),
        (1000, 5, 0.1, 1),
        (10**6, 5, 0.005, 1),
        (10**6, 10**6, 0.004, 1),
    ],
)
def test_hold_out__by_size(n_docs: int, n_labels: int, share: float, n_folds: int) -> None:
    found = HoldOut.of(n_docs, n_labels)
    assert (found.share, found.n_folds) == (share, n_folds)
    assert found.left_out == (share if n_folds == 1 else 0)


@pytest.mark.parametrize("n_docs", [80, 83, 400])
def test_folds__every_document_is_in_one(n_docs: int) -> None:
    folds = HoldOut.of(n_docs, 5).folds(n_docs)
    assert sorted(np.concatenate([own for own, _ in folds]).tolist()) == list(range(n_docs))
    for own, others in folds:
        assert sorted([*own.tolist(), *others.tolist()]) == list(range(n_docs))
        assert abs(len(own) - n_docs / 5) < 1
        assert all(a < b for side in (own, others) for a, b in pairwise(side.tolist()))
