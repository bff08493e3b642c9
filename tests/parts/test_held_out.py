from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from dask.sizeof import sizeof
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import naive_heads as naive
from tests.passes.conftest import PARTS, Cut, Dense, block_of, chosen, cuts, dense_rows, run, ugly_matrices
from threepass.corpus.split import in_test
from threepass.corpus.store import Block
from threepass.parts.cross import CrossMoment
from threepass.parts.held_out import HELD_OUT_SEED, Gathered, SetAside, held_out, others
from threepass.parts.weighting import Weighting

SHARES = [0.0, 0.2, 0.7, 1.0]


def documents(block: Block) -> list[tuple[list[float], list[float]]]:
    """Words and labels of each document."""
    X, Y = dense_rows(block.X).tolist(), dense_rows(block.Y).tolist()
    return list(zip(X, Y, strict=True))


def numbered(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents that tell their own number, by words and by labels; the first is empty and unlabelled."""
    bits = np.arange(n)[:, None] >> np.arange(10) & 1
    return bits * 3, bits


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("first_row", [0, 1, 1000])
@pytest.mark.parametrize("n", [0, 1, 60])
def test_held_out__the_documents_of_a_small_hash(n: int, first_row: int, share: float) -> None:
    X, Y = numbered(n)
    block = block_of(X, Y, first_row, number=4)
    mask = naive.held_out(first_row + n, share)[first_row:]
    for side, rows in ((held_out(block, share), mask), (others(block, share), ~mask)):
        assert (side.number, side.first_row) == (4, first_row)
        np.testing.assert_array_equal(dense_rows(side.X), X[rows])
        np.testing.assert_array_equal(dense_rows(side.Y), Y[rows])


def test_held_out__about_the_share() -> None:
    n = 20_000
    for share in SHARES:
        assert naive.held_out(n, share).mean() == pytest.approx(share, abs=0.01)


def test_held_out__not_along_the_hash_of_a_split() -> None:
    numbers = np.arange(20_000)
    mask = in_test(numbers, 0.1, HELD_OUT_SEED)
    np.testing.assert_array_equal(mask, naive.held_out(20_000, 0.1))
    for seed in range(10):
        assert mask[in_test(numbers, 0.2, seed)].mean() == pytest.approx(0.1, abs=0.02)


def test_others__the_block_itself_when_nothing_is_held_out() -> None:
    block = block_of(*numbered(5))
    assert others(block, 0) is block


@given(
    cuts=st.lists(st.integers(0, 60), max_size=8),
    share=st.sampled_from(SHARES),
    order=st.randoms(use_true_random=False),
)
def test_held_out__does_not_depend_on_blocks(cuts: list[int], share: float, order: Random) -> None:
    X, Y = ugly_matrices(60, 10, 4)
    bounds = [0, *sorted(cuts), 60]
    blocks = [block_of(X[a:b], Y[a:b], a) for a, b in pairwise(bounds)]
    order.shuffle(blocks)
    whole = block_of(X, Y)
    for side in (held_out, others):
        gathered = sum((Gathered([side(block, share)]) for block in blocks), Gathered())
        joined = gathered.joined(10, 4)
        assert (joined.number, joined.first_row) == (0, 0)
        assert documents(joined) == documents(side(whole, share))


@given(cut=cuts)
@settings(max_examples=12)
def test_set_aside__does_not_depend_on_how_the_corpus_is_cut(cut: Cut) -> None:
    one, other = (
        run(SetAside(cut.share), corpus, cut.accumulator_bytes)["documents"].joined(11, 3)
        for corpus in cut.corpora(11, 3)
    )
    assert documents(one) == documents(other)


@pytest.mark.parametrize("part", PARTS)
def test_set_aside__goes_by_the_rows_of_a_view(many_blocks: Dense, part: str) -> None:
    corpus, X, Y = chosen(many_blocks, part)
    mask = naive.held_out(len(X), 0.5)
    assert 0 < mask.sum() < len(X) or len(X) < 2
    sums = run(SetAside(0.5), corpus)
    block = sums["documents"].joined(corpus.n_terms, corpus.n_labels)
    np.testing.assert_array_equal(dense_rows(block.X), X[mask])
    np.testing.assert_array_equal(dense_rows(block.Y), Y[mask])


def test_gathered__adding_leaves_both_as_they_were() -> None:
    X, Y = numbered(6)
    one, other = Gathered([block_of(X[:4], Y[:4])]), Gathered([block_of(X[4:], Y[4:], 4)])
    both = one + other
    assert [len(part.blocks) for part in (one, other, both)] == [1, 1, 2]
    assert documents((other + one).joined(10, 10)) == documents(both.joined(10, 10))
    assert documents(both.joined(10, 10)) == documents(block_of(X, Y))


@pytest.mark.parametrize("n_blocks", [0, 1, 3])
def test_gathered__no_documents(n_blocks: int) -> None:
    empty = block_of(np.zeros((0, 6)), np.zeros((0, 2)))
    block = Gathered([empty] * n_blocks).joined(6, 2)
    assert block.X.shape == (0, 6)
    assert block.Y.shape == (0, 2)
    assert block.X.nnz == block.Y.nnz == 0
    assert documents(others(block, 0.5)) == []


def test_gathered__two_sums_do_not_share_their_blocks() -> None:
    one, other = Gathered(), Gathered()
    one.blocks.append(block_of(*numbered(1)))
    assert other.blocks == []


def test_sizes__are_what_dask_sees(many_blocks: Dense) -> None:
    corpus = many_blocks[0]
    gathered = run(SetAside(0.5), corpus)["documents"]
    moment = CrossMoment.zero(corpus.n_labels, corpus.n_terms)
    for block in corpus.blocks():
        moment.add(Weighting.of_counts(*corpus.stored_term_counts).of(block.X), block.Y)
    joined = gathered.joined(corpus.n_terms, corpus.n_labels)
    assert sizeof(gathered) >= joined.X.indices.nbytes + joined.Y.indices.nbytes
    assert sizeof(moment) >= 8 * moment.nnz
