"""The word-label cross moment: sums, pruning and the pass that makes them."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_heads as naive
from tests.rows import CLOSE, block_of, cut, dense_rows, sparse_rows, summed, ugly_matrices
from threepass.parts import cross, cross_kernels
from threepass.parts.cross import MOST_ENTRIES, Cross, CrossMoment
from threepass.parts.weighting import Weighting
from threepass.passes.cost import Size
from threepass.types import CSR

L, D = 6, 13


def shuffled_triple(M: np.ndarray, seed: int = 0) -> CSR:
    """The CSR triple of M (L, D), the words of each label in any order."""
    rng = np.random.default_rng(seed)
    words = [rng.permutation(np.flatnonzero(row)) for row in M]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in words])]).astype(np.int64)
    values = [row[order] for row, order in zip(M, words, strict=True)]
    return indptr, np.concatenate(words).astype(np.int32), np.concatenate(values).astype(np.float32)


def dense_triple(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, n_columns: int) -> np.ndarray:
    """(L, D), after a check that no word stands twice with a label."""
    out = np.zeros((len(indptr) - 1, n_columns))
    assert indptr[0] == 0
    assert indptr[-1] == len(indices) == len(values)
    for label, (start, stop) in enumerate(pairwise(indptr)):
        assert len(set(indices[start:stop].tolist())) == stop - start
        out[label, indices[start:stop]] = values[start:stop]
    return out


def dense_moment(moment: CrossMoment) -> np.ndarray:
    moment.settle()
    assert moment.nnz == len(moment.indices)
    assert moment.indptr.dtype == np.int64
    assert moment.indices.dtype == np.int32
    assert moment.values.dtype == np.float32
    return dense_triple(moment.indptr, moment.indices, moment.values, moment.n_terms)


def moment_of(M: np.ndarray, most_entries: int = MOST_ENTRIES) -> CrossMoment:
    return CrossMoment(*shuffled_triple(M), M.shape[1], most_entries)


def weights(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X~ and Y: no two sums of weights are equal, so that there is one way to keep the largest."""
    X, Y = ugly_matrices(n, D, L, seed)
    rng = np.random.default_rng(seed)
    Y[:, 0] = rng.random(n) < 0.8  # a common label among rare ones
    return (X * rng.uniform(0.5, 1, X.shape)).astype(np.float32), Y


def whole_numbers(*shape: int) -> np.ndarray:
    """float32 that add and multiply without rounding, half of them zero."""
    rng = np.random.default_rng(shape)
    return (rng.integers(1, 9, shape) * (rng.random(shape) < 0.5)).astype(np.float32)


def add(moment: CrossMoment, X: np.ndarray, Y: np.ndarray) -> CrossMoment:
    moment.add(sparse_rows(X, np.float32), sparse_rows(Y))
    moment.settle()
    return moment


def merged(one: CrossMoment, other: CrossMoment) -> CrossMoment:
    """The sum of both, which stay as they are."""
    total = copy.deepcopy(one)
    total.merge(copy.deepcopy(other))
    return total


# -- kernels --------------------------------------------------------------------------------------------


def documents_added(M: np.ndarray, X: np.ndarray, Y: np.ndarray, most: int) -> CSR:
    docs = [np.flatnonzero(column) for column in Y.T]
    docs_indptr = np.concatenate([[0], np.cumsum([len(d) for d in docs])])
    x = sparse_rows(X, np.float32)
    docs_of = docs_indptr.astype(np.int64), np.concatenate(docs).astype(np.int32)
    return cross_kernels.add_documents(shuffled_triple(M), x.csr(), docs_of, M.shape[1], most)


@pytest.mark.parametrize("most", [D, 100])
@pytest.mark.parametrize("before", ["nothing", "something"])
@pytest.mark.parametrize("n", [0, 1, 40])
def test_add_documents__equal_the_dense_product(n: int, before: str, most: int) -> None:
    X, Y = whole_numbers(n, D), ugly_matrices(40, D, L)[1][:n]
    M = whole_numbers(L, D) * (before == "something")
    M[1] = 0
    indptr, indices, values = documents_added(M, X, Y, most)
    assert (indptr.dtype, indices.dtype, values.dtype) == (np.int64, np.int32, np.float32)
    np.testing.assert_array_equal(dense_triple(indptr, indices, values, D), M + naive.cross_moment(X, Y))


@pytest.mark.parametrize("most", [1, 2, 5, D - 1])
@pytest.mark.parametrize("before", ["nothing", "something"])
@pytest.mark.parametrize("n", [0, 1, 40])
def test_add_documents__only_the_largest_entries_of_the_sum(n: int, before: str, most: int) -> None:
    X, Y = (side[:n] for side in weights(40))
    M = naive.cross_moment(*weights(30, seed=7)) * (before == "something")
    kept = dense_triple(*documents_added(M, X, Y, most), D)
    total = M.astype(np.float32) + naive.cross_moment(X, Y)
    assert n < 40 or most > 5 or (np.count_nonzero(total, axis=1) > most).sum() > 1
    np.testing.assert_allclose(kept, naive.largest(total, most), **CLOSE)


def test_add_documents__the_first_of_equal_ones() -> None:
    """First those that were there, in their order, then words as they turn up."""
    x = sparse_rows(np.array([[0, 0, 1, 2], [1, 0, 0, 1]]), np.float32)
    M = np.array([0, 2]), np.array([3, 1], np.int32), np.array([2, 1], np.float32)
    docs_of = np.array([0, 2]), np.array([0, 1], np.int32)
    for most, expected in {1: [3], 2: [3, 1], 3: [3, 1, 2], 4: [3, 1, 2, 0]}.items():
        kept = cross_kernels.add_documents(M, x.csr(), docs_of, 4, most)
        assert kept[0].tolist() == [0, most]
        assert kept[1].tolist() == expected
        assert kept[2].tolist() == [5, 1, 1, 1][:most]


def test_add_documents__a_word_of_no_weight_is_no_entry() -> None:
    x = sparse_rows(np.array([[1, 1, 0], [1, 0, 1]]), np.float32)
    assert x.values is not None
    x.values[:] = [0, 3, 0, 4]
    X, Y = dense_rows(x), np.array([[1, 1], [1, 0]])
    moment = CrossMoment.zero(2, 3)
    for _ in range(2):
        moment.add(x, sparse_rows(Y))
    assert moment.nnz == 3
    np.testing.assert_array_equal(dense_moment(moment), 2 * naive.cross_moment(X, Y))


@pytest.mark.parametrize("most", [1, 2, 5, D - 1, D, 100])
def test_largest_entries__equal_sorting(most: int) -> None:
    M = np.random.default_rng(1).permutation(L * D).reshape(L, D) + 1.0
    M[0] = 0
    M[1, 3:] = 0
    triple = cross_kernels.largest_entries(shuffled_triple(M), most)
    np.testing.assert_array_equal(dense_triple(*triple, D), naive.largest(M, most))


def test_largest_entries__the_first_of_equal_ones() -> None:
    indptr = np.array([0, 5, 7, 7])
    indices = np.array([9, 2, 5, 0, 4, 3, 1], np.int32)
    values = np.array([1, 3, 1, 2, 1, 6, 6], np.float32)
    kept = cross_kernels.largest_entries((indptr, indices, values), 3)
    assert [part.tolist() for part in kept] == [[0, 3, 5, 5], [9, 2, 0, 3, 1], [1, 3, 2, 6, 6]]
    kept = cross_kernels.largest_entries((indptr, indices, values), 1)
    assert [part.tolist() for part in kept] == [[0, 1, 2, 2], [2, 3], [3, 6]]


sizes = st.one_of(
    st.floats(2.0**-149, 2.0**127, width=32),  # of any size, below the normal ones too
    st.floats(1, 1.125, width=32),  # alike in their upper bits
    st.sampled_from([0.5, 1.0, float(np.nextafter(np.float32(1), np.float32(2))), 1.125]),  # equal ones
)


@given(values=st.lists(sizes, min_size=1, max_size=40), most=st.integers(1, 41))
def test_largest_entries__of_numbers_of_any_size(values: list[float], most: int) -> None:
    row = np.array(values, np.float32)
    places = np.arange(len(row), dtype=np.int32)[::-1].copy()
    indptr, indices, kept = cross_kernels.largest_entries((np.array([0, len(row)]), places, row), most)
    # a sort that leaves equal ones in their order, cut, and put back in the order of the row
    expected = sorted(sorted(range(len(row)), key=lambda i: -row[i])[:most])
    assert indptr.tolist() == [0, len(expected)]
    np.testing.assert_array_equal(kept, row[expected])
    np.testing.assert_array_equal(indices, places[expected])


def test_largest_entries__of_nothing() -> None:
    kept = cross_kernels.largest_entries(shuffled_triple(np.zeros((L, D))), 2)
    assert [len(part) for part in kept] == [L + 1, 0, 0]


@pytest.mark.parametrize("s", [0, 1, 3])
def test_add_directions__equal_the_dense_product(s: int) -> None:
    rng = np.random.default_rng(s)
    M = whole_numbers(L, D)
    M[2] = 0
    label_weights = rng.integers(1, 5, L).astype(np.float32)
    columns = rng.integers(0, 4, (L, s)).astype(np.int32)  # a column may come up twice
    signs = rng.choice([-1, 1], (L, s)).astype(np.float32)
    G = np.zeros((L, 4))
    for label in range(L):
        for column, sign in zip(columns[label], signs[label], strict=True):
            G[label, column] += label_weights[label] * sign
    before = whole_numbers(D, 4)
    out = before.copy()
    mixture = cross_kernels.LabelMixture(columns, signs, label_weights)
    cross_kernels.add_directions(shuffled_triple(M), mixture, 0, len(out), out)
    np.testing.assert_array_equal(out, before + M.T @ G)


@pytest.mark.parametrize("n", [0, 1, 9])
@pytest.mark.parametrize(("first", "t"), [(0, L), (0, 2), (2, 3), (L - 1, 1), (3, 0)])
def test_add_scores__equal_the_dense_product(n: int, first: int, t: int) -> None:
    X, C = whole_numbers(n, D), whole_numbers(D, L)
    C[4] = 0
    x, c = sparse_rows(X, np.float32), sparse_rows(C, np.float32)
    before = whole_numbers(n, t)
    out = before.copy()
    cross_kernels.add_scores(x.csr(), c.csr(), first, out)
    np.testing.assert_array_equal(out, before + X @ C[:, first : first + t])


# -- the moment -----------------------------------------------------------------------------------------


def test_zero__holds_nothing() -> None:
    moment = CrossMoment.zero(L, D)
    assert moment.most_entries == MOST_ENTRIES
    assert (moment.n_labels, moment.nnz) == (L, 0)
    np.testing.assert_array_equal(dense_moment(moment), np.zeros((L, D)))
    np.testing.assert_array_equal(moment.lengths(), np.zeros(L))
    assert moment.by_word().shape == (D, L)
    assert moment.cut() is moment
    assert merged(moment, moment).nnz == 0


@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_add__equals_the_plain_sum(n: int) -> None:
    X, Y = weights(n)
    moment = add(CrossMoment.zero(L, D), X, Y)
    np.testing.assert_allclose(dense_moment(moment), naive.cross_moment(X, Y), **CLOSE)
    add(moment, X[::-1], Y)
    expected = naive.cross_moment(X, Y) + naive.cross_moment(X[::-1], Y)
    np.testing.assert_allclose(dense_moment(moment), expected, **CLOSE)


def test_add__many_documents_in_single_precision() -> None:
    """As many additions as a common label may see in a block: sums err by a few units in the last place."""
    n = 20_000
    X = np.random.default_rng(0).uniform(0.5, 1, (n, 3)).astype(np.float32)
    moment = add(CrossMoment.zero(1, 3), X, np.ones((n, 1)))
    np.testing.assert_allclose(dense_moment(moment)[0], X.sum(axis=0, dtype=np.float64), rtol=5e-6)


def test_lengths__equal_the_dense_norm() -> None:
    M = whole_numbers(L, D)
    M[3] = 0
    lengths = moment_of(M).lengths()
    assert lengths.dtype == np.float64
    np.testing.assert_allclose(lengths, np.linalg.norm(M.astype(np.float64), axis=1), rtol=1e-12)


def test_by_word__equals_the_transpose() -> None:
    M = whole_numbers(L, D)
    M[3] = M[:, 5] = M[:, -1] = 0
    moment = moment_of(M)
    rows = moment.by_word()
    assert rows.values is not None
    assert (rows.indptr.dtype, rows.indices.dtype, rows.values.dtype) == (np.int64, np.int32, np.float32)
    np.testing.assert_array_equal(dense_rows(rows), M.T)
    for start, stop in pairwise(rows.indptr):
        assert (np.diff(rows.indices[start:stop]) > 0).all()
    rows.values[:] = 7  # of its own
    np.testing.assert_array_equal(dense_moment(moment), M)


def test_by_word__scores_documents() -> None:
    X, Y = weights(40)
    moment = add(CrossMoment.zero(L, D), X, Y)
    C, x = moment.by_word(), sparse_rows(X, np.float32)
    out = np.zeros((40, 4), np.float32)
    cross_kernels.add_scores(x.csr(), C.csr(), 1, out)
    np.testing.assert_allclose(out, X @ naive.cross_moment(X, Y).T[:, 1:5], **CLOSE)


# -- pruning --------------------------------------------------------------------------------------------


@given(lengths=st.lists(st.integers(0, 30), min_size=1, max_size=12), most_entries=st.integers(0, 200))
def test_entries_each__as_many_as_fit(lengths: list[int], most_entries: int) -> None:
    each = cross._entries_each(np.array(lengths), most_entries)
    if sum(lengths) <= most_entries:
        assert each is None
    else:
        assert each == naive.entries_each(lengths, most_entries)


def room(most_entries: int) -> int:
    """Entries that may be kept while sums are made."""
    return most_entries * 5 // 4


@pytest.mark.parametrize("most_entries", [L, 11, 20, 30, 38, 1000])
def test_cut__equals_the_plain_pruning(most_entries: int) -> None:
    M = naive.cross_moment(*weights(40))
    assert 38 < np.count_nonzero(M) < 1000
    moment = moment_of(M, most_entries)
    before = dense_moment(moment)
    short = moment.cut()
    np.testing.assert_allclose(dense_moment(short), naive.pruned(M, most_entries), **CLOSE)
    assert (short.n_terms, short.most_entries) == (D, most_entries)
    assert short.nnz <= most_entries
    np.testing.assert_array_equal(dense_moment(moment), before)
    assert short.cut() is short
    assert (short is moment) == (most_entries == 1000)


@pytest.mark.parametrize("most_entries", [20, 30, 38])
def test_cut__after_sums_that_were_not_pruned(most_entries: int) -> None:
    """With enough room for all entries that there may be, the end alone decides what is left."""
    X, Y = weights(40)
    moment = add(CrossMoment.zero(L, D), X, Y)
    short = replace(moment, most_entries=most_entries).cut()
    np.testing.assert_allclose(
        dense_moment(short), naive.pruned(naive.cross_moment(X, Y), most_entries), **CLOSE
    )


@pytest.mark.parametrize("most_entries", [L, 25, 40, 60])
def test_pruning__after_every_addition(most_entries: int) -> None:
    moment, M = CrossMoment.zero(L, D, most_entries), np.zeros((L, D))
    for seed in range(4):
        X, Y = weights(12, seed)
        add(moment, X, Y)
        M = naive.pruned_sum(M, X, Y, most_entries)
        np.testing.assert_allclose(dense_moment(moment), M, **CLOSE)
        assert moment.nnz <= room(most_entries)
    other = add(CrossMoment.zero(L, D, most_entries), *weights(12, 9))
    # the rows of the other, as documents with one label each
    expected = naive.pruned_sum(M, dense_moment(other), np.eye(L), most_entries)
    both = merged(moment, other)
    np.testing.assert_allclose(dense_moment(both), expected, **CLOSE)
    assert both.nnz <= room(most_entries)
    np.testing.assert_allclose(dense_moment(both.cut()), naive.pruned(expected, most_entries), **CLOSE)


def test_pruning__what_is_small_at_first_may_grow() -> None:
    """One label and room for four words, and for a fifth while sums are made."""
    first, second = np.array([[9, 8, 7, 6, 1]]), np.array([[0, 0, 0, 0, 9]])
    moment = add(CrossMoment.zero(1, 5, most_entries=4), first, np.ones((1, 1)))
    assert moment.nnz == 5
    np.testing.assert_array_equal(dense_moment(moment.cut()), [[9, 8, 7, 6, 0]])
    add(moment, second, np.ones((1, 1)))
    np.testing.assert_array_equal(dense_moment(moment.cut()), [[9, 8, 7, 0, 10]])


def test_pruning__rare_labels_stay_whole_and_typical_words_stay() -> None:
    X, Y = weights(60)
    Y[:, 1:3] = 0
    Y[np.flatnonzero((X > 0).sum(axis=1) == 3)[:2], [1, 2]] = 1
    M = naive.cross_moment(X, Y)
    assert np.count_nonzero(M, axis=1)[:3].tolist() == [(X > 0).any(axis=0).sum(), 3, 3]
    whole = add(CrossMoment.zero(L, D, 30), X, Y)
    assert whole.nnz > 30
    for moment in (whole, whole.cut(), merged(whole, CrossMoment.zero(L, D, 30)).cut()):
        kept = dense_moment(moment)
        np.testing.assert_allclose(kept[1:3], M[1:3], rtol=1e-6)
        left_out = (kept == 0) & (M > 0)
        assert left_out[0].any()
        for label in np.flatnonzero(left_out.any(axis=1)):
            assert kept[label][kept[label] > 0].min() > M[label][left_out[label]].max()


def test_pruning__every_label_keeps_its_best_word_when_labels_outnumber_entries() -> None:
    X, Y = weights(40)
    M = naive.cross_moment(X, Y)
    whole = add(CrossMoment.zero(L, D, 2), X, Y)
    for moment in (whole, whole.cut()):
        kept = dense_moment(moment)
        np.testing.assert_array_equal(np.count_nonzero(kept, axis=1), M.any(axis=1))
        np.testing.assert_allclose(kept.max(axis=1), M.max(axis=1), rtol=1e-6)


@given(
    most_entries=st.integers(L, 50),
    places=st.lists(st.integers(0, 50), max_size=5),
    values=st.sampled_from(["distinct", "ties"]),
    seed=st.integers(0, 50),
)
def test_most_entries__never_exceeded(most_entries: int, places: list[int], values: str, seed: int) -> None:
    """By no more than a quarter while sums are made, and not at all at the end."""
    X, Y = weights(50, seed)
    if values == "ties":
        X = (X > 0) * np.float32(1)
    bounds = [0, *sorted(places), 50]
    moments = []
    for start, stop in pairwise(bounds):
        moment = CrossMoment.zero(L, D, most_entries)
        for rows in (slice(start, stop), slice(stop, stop + 5)):
            before = np.count_nonzero(dense_moment(moment), axis=1)
            add(moment, X[rows], Y[rows])
            after = np.count_nonzero(dense_moment(moment), axis=1)
            assert moment.nnz <= room(most_entries)
            # what all labels may keep is not taken from any of them
            assert (after >= np.minimum(before, room(most_entries) // L)).all()
        moments.append(moment)
    total = moments[0]
    for moment in moments[1:]:
        nnz = np.count_nonzero(dense_moment(total) + dense_moment(moment))
        upper_bound = total.nnz + moment.nnz
        total = merged(total, moment)
        assert total.most_entries == most_entries
        assert total.nnz <= room(most_entries)
        if upper_bound <= room(most_entries):
            assert total.nnz == nnz
        at_the_end = total.cut()
        if total.nnz <= most_entries:
            assert at_the_end.nnz == total.nnz
        else:  # another entry for each label would not fit
            assert most_entries - L < at_the_end.nnz <= most_entries


# -- the pass -------------------------------------------------------------------------------------------


def cross_pass(X: np.ndarray, **settings: Any) -> Cross:
    return Cross(Weighting.of_counts((X > 0).sum(axis=0), len(X)), L, **settings)


@pytest.mark.parametrize("scheme", ["log", "counts", "binary"])
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_cross__equals_the_plain_sum(n: int, scheme: Any) -> None:
    X, Y = ugly_matrices(n, D, L)
    work = cross_pass(X)
    work = replace(work, weighting=replace(work.weighting, scheme=scheme))
    x = naive.weighted(X, work.weighting.idf, scheme)
    moment = summed(work, *cut(X, Y, n // 3, n // 3, n // 2))
    np.testing.assert_allclose(dense_moment(moment), naive.cross_moment(x, Y), **CLOSE)


@pytest.mark.parametrize("together", [0, 20, 10**9])
def test_cross__does_not_depend_on_how_many_documents_are_added_at_once(together: int) -> None:
    X, Y = ugly_matrices(40, D, L)
    work = cross_pass(X)
    expected = dense_moment(summed(work, block_of(X, Y)))
    sums = replace(work.zero(), most_waiting=together)
    for block in cut(X, Y, 10, 15, 15, 30):
        work.add(sums, block)
    assert (len(sums.waiting) == 5) == (together == 10**9)
    np.testing.assert_allclose(dense_moment(sums), expected, **CLOSE)


def test_cross__keeps_no_more_than_it_is_told_to() -> None:
    X, Y = ugly_matrices(40, D, L)
    work = cross_pass(X, most_entries=16)
    M = naive.cross_moment(naive.weighted(X, work.weighting.idf), Y)
    moment = summed(work, *cut(X, Y, 10, 20))
    assert np.count_nonzero(M) > room(16) >= moment.nnz > 16
    assert 16 >= moment.cut().nnz > 16 - L
    for kept in (dense_moment(moment), dense_moment(moment.cut())):
        assert (kept <= M * (1 + 1e-5)).all()  # what was pruned on the way is missing from the sums
        np.testing.assert_array_equal(kept.any(axis=1), M.any(axis=1))


@pytest.mark.parametrize("expected_entries", [10, 1000, 10**12])
def test_cross__needs_a_full_moment(expected_entries: int) -> None:
    work = Cross(Weighting(np.ones(10, np.float32)), 4, expected_entries)
    moment = work.zero()
    entries = room(min(moment.most_entries, expected_entries))
    each = moment.indices.itemsize + moment.values.itemsize
    assert work.needs(Size(0, 0, 0)).sums == each * entries + moment.indptr.nbytes
    assert work.needs(Size(9, 50, 9)).segment == 2 * work.needs(Size(0, 0, 0)).segment  # a copy, while adding
