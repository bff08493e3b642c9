"""The word-label cross moment: sums, pruning and the pass that makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import Corpus
from pipeline.passes import cross, cross_kernels, kernels
from pipeline.passes.cross import MOST_ENTRIES, Cross, CrossMoment
from pipeline.passes.held_out import SetAside
from pipeline.passes.run import Sums, merge_into, merged
from pipeline.passes.weighting import Weighting
from tests import naive_heads as naive
from tests.passes.conftest import (
    CLOSE,
    PARTS,
    Cut,
    Dense,
    assert_close,
    chosen,
    cuts,
    dense_rows,
    normal,
    run,
    sparse_rows,
    ugly_matrices,
)

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]
L, D = 6, 13


def shuffled_triple(M: np.ndarray, seed: int = 0) -> Triple:
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
    return moment


# -- kernels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["nothing", "something"])
@pytest.mark.parametrize("n", [0, 1, 40])
def test_add_documents__equal_the_dense_product(n: int, before: str) -> None:
    X, Y = whole_numbers(n, D), ugly_matrices(40, D, L)[1][:n]
    M = whole_numbers(L, D) * (before == "something")
    M[1] = 0
    docs = [np.flatnonzero(column) for column in Y.T]
    docs_indptr = np.concatenate([[0], np.cumsum([len(d) for d in docs])])
    x = sparse_rows(X, np.float32)
    triple = cross_kernels.add_documents(
        *shuffled_triple(M),
        x.indptr,
        x.indices,
        x.values,
        docs_indptr.astype(np.int64),
        np.concatenate(docs).astype(np.int32),
        D,
    )
    np.testing.assert_array_equal(dense_triple(*triple, D), M + naive.cross_moment(X, Y))


@pytest.mark.parametrize("most", [1, 2, 5, D - 1, D, 100])
def test_largest_entries__equal_sorting(most: int) -> None:
    M = np.random.default_rng(1).permutation(L * D).reshape(L, D) + 1.0
    M[0] = 0
    M[1, 3:] = 0
    expected = np.zeros_like(M)
    for label in range(L):
        largest = np.argsort(-M[label])[:most]
        expected[label, largest] = M[label, largest]
    triple = cross_kernels.largest_entries(*shuffled_triple(M), most)
    np.testing.assert_array_equal(dense_triple(*triple, D), expected)


def test_largest_entries__the_first_of_equal_ones() -> None:
    indptr = np.array([0, 5, 7, 7])
    indices = np.array([9, 2, 5, 0, 4, 3, 1], np.int32)
    values = np.array([1, 3, 1, 2, 1, 6, 6], np.float32)
    kept = cross_kernels.largest_entries(indptr, indices, values, 3)
    assert [part.tolist() for part in kept] == [[0, 3, 5, 5], [9, 2, 0, 3, 1], [1, 3, 2, 6, 6]]
    kept = cross_kernels.largest_entries(indptr, indices, values, 1)
    assert [part.tolist() for part in kept] == [[0, 1, 2, 2], [2, 3], [3, 6]]


def test_largest_entries__of_nothing() -> None:
    kept = cross_kernels.largest_entries(*shuffled_triple(np.zeros((L, D))), 2)
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
    cross_kernels.add_directions(*shuffled_triple(M), label_weights, columns, signs, out)
    np.testing.assert_array_equal(out, before + M.T @ G)


@pytest.mark.parametrize("n", [0, 1, 9])
@pytest.mark.parametrize(("first", "t"), [(0, L), (0, 2), (2, 3), (L - 1, 1), (3, 0)])
def test_add_scores__equal_the_dense_product(n: int, first: int, t: int) -> None:
    X, C = whole_numbers(n, D), whole_numbers(D, L)
    C[4] = 0
    x, c = sparse_rows(X, np.float32), sparse_rows(C, np.float32)
    before = whole_numbers(n, t)
    out = before.copy()
    cross_kernels.add_scores(x.indptr, x.indices, x.values, c.indptr, c.indices, c.values, first, out)
    np.testing.assert_array_equal(out, before + X @ C[:, first : first + t])


# -- the moment -----------------------------------------------------------------------------------------


def test_zero__holds_nothing() -> None:
    moment = CrossMoment.zero(L, D)
    assert moment.most_entries == MOST_ENTRIES
    assert (moment.n_labels, moment.nnz) == (L, 0)
    np.testing.assert_array_equal(dense_moment(moment), np.zeros((L, D)))
    np.testing.assert_array_equal(moment.lengths(), np.zeros(L))
    assert moment.by_word(np.ones(L)).shape == (D, L)
    assert (moment + moment).nnz == 0


@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_add__equals_the_plain_sum(n: int) -> None:
    X, Y = weights(n)
    moment = add(CrossMoment.zero(L, D), X, Y)
    np.testing.assert_allclose(dense_moment(moment), naive.cross_moment(X, Y), **CLOSE)
    add(moment, X[::-1], Y)
    expected = naive.cross_moment(X, Y) + naive.cross_moment(X[::-1], Y)
    np.testing.assert_allclose(dense_moment(moment), expected, **CLOSE)


@pytest.mark.parametrize("products", [1, 7, 50])
def test_add__a_few_products_at_a_time(products: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = weights(40)
    sizes = []
    plain = cross_kernels.add_documents

    def counting(*arguments: Any) -> Triple:
        sizes.append(len(arguments[3]) - 1)
        return plain(*arguments)

    monkeypatch.setattr(cross, "_PRODUCTS", products)
    monkeypatch.setattr(cross_kernels, "add_documents", counting)
    moment = add(CrossMoment.zero(L, D), X, Y)
    np.testing.assert_allclose(dense_moment(moment), naive.cross_moment(X, Y), **CLOSE)
    assert sum(sizes) == 40
    each = (X > 0).sum(axis=1) * Y.sum(axis=1)
    starts = np.cumsum([0, *sizes])
    for start, stop in pairwise(starts):  # as many documents as fit, but at least one
        assert stop - start == 1 or each[start:stop].sum() <= products
        assert stop == 40 or each[start : stop + 1].sum() > products


def test_plus__adds_and_leaves_both_as_they_were() -> None:
    parts = [weights(30, seed) for seed in (1, 2)]
    one, other = (add(CrossMoment.zero(L, D), X, Y) for X, Y in parts)
    before = [dense_moment(moment) for moment in (one, other)]
    both = one + other
    for moment, kept in zip((one, other), before, strict=True):
        np.testing.assert_array_equal(dense_moment(moment), kept)
    expected = sum(naive.cross_moment(X, Y) for X, Y in parts)
    np.testing.assert_allclose(dense_moment(both), expected, **CLOSE)
    add(both, *parts[0])
    np.testing.assert_array_equal(dense_moment(one), before[0])


def test_plus__zero_changes_nothing() -> None:
    moment = add(CrossMoment.zero(L, D, 20), *weights(30))
    for both in (moment + CrossMoment.zero(L, D, 20), CrossMoment.zero(L, D, 20) + moment):
        np.testing.assert_array_equal(dense_moment(both), dense_moment(moment))
        assert both.most_entries == 20


def test_lengths__equal_the_dense_norm() -> None:
    M = whole_numbers(L, D)
    M[3] = 0
    lengths = moment_of(M).lengths()
    assert lengths.dtype == np.float64
    np.testing.assert_allclose(lengths, np.linalg.norm(M.astype(np.float64), axis=1), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_by_word__equals_the_scaled_transpose(dtype: type) -> None:
    M = whole_numbers(L, D)
    M[3] = M[:, 5] = M[:, -1] = 0
    scale = np.array([1, 2, 0.5, 4, 8, 3], dtype)
    rows = moment_of(M).by_word(scale)
    assert rows.values is not None
    assert (rows.indptr.dtype, rows.indices.dtype, rows.values.dtype) == (np.int64, np.int32, np.float32)
    np.testing.assert_array_equal(dense_rows(rows), M.T * scale)
    for start, stop in pairwise(rows.indptr):
        assert (np.diff(rows.indices[start:stop]) > 0).all()


def test_by_word__scores_documents() -> None:
    X, Y = weights(40)
    moment = add(CrossMoment.zero(L, D), X, Y)
    C, x = moment.by_word(np.ones(L)), sparse_rows(X, np.float32)
    out = np.zeros((40, 4), np.float32)
    cross_kernels.add_scores(x.indptr, x.indices, x.values, C.indptr, C.indices, C.values, 1, out)
    np.testing.assert_allclose(out, X @ naive.cross_moment(X, Y).T[:, 1:5], **CLOSE)


# -- pruning --------------------------------------------------------------------------------------------


@given(lengths=st.lists(st.integers(0, 30), min_size=1, max_size=12), most_entries=st.integers(0, 200))
def test_entries_each__as_many_as_fit(lengths: list[int], most_entries: int) -> None:
    each = cross._entries_each(np.array(lengths), most_entries)
    if sum(lengths) <= most_entries:
        assert each is None
    else:
        assert each == naive.entries_each(lengths, most_entries)


@pytest.mark.parametrize("most_entries", [L, 11, 20, 30, 38, 1000])
def test_pruning__equals_the_plain_one(most_entries: int) -> None:
    X, Y = weights(40)
    M = naive.cross_moment(X, Y)
    assert 38 < np.count_nonzero(M) < 1000
    moment = add(CrossMoment.zero(L, D, most_entries), X, Y)
    np.testing.assert_allclose(dense_moment(moment), naive.pruned(M, most_entries), **CLOSE)


@pytest.mark.parametrize("most_entries", [L, 25, 40])
def test_pruning__after_every_addition(most_entries: int) -> None:
    moment, M = CrossMoment.zero(L, D, most_entries), np.zeros((L, D))
    for seed in range(4):
        X, Y = weights(12, seed)
        add(moment, X, Y)
        M = naive.pruned(M + naive.cross_moment(X, Y), most_entries)
        np.testing.assert_allclose(dense_moment(moment), M, **CLOSE)
    other = add(CrossMoment.zero(L, D, most_entries), *weights(12, 9))
    expected = naive.pruned(M + dense_moment(other), most_entries)
    np.testing.assert_allclose(dense_moment(moment + other), expected, **CLOSE)


def test_pruning__rare_labels_stay_whole_and_typical_words_stay() -> None:
    X, Y = weights(60)
    Y[:, 1:3] = 0
    Y[np.flatnonzero((X > 0).sum(axis=1) == 3)[:2], [1, 2]] = 1
    M = naive.cross_moment(X, Y)
    assert np.count_nonzero(M, axis=1)[:3].tolist() == [(X > 0).any(axis=0).sum(), 3, 3]
    kept = dense_moment(add(CrossMoment.zero(L, D, 30), X, Y))
    np.testing.assert_allclose(kept[1:3], M[1:3], rtol=1e-6)
    left_out = (kept == 0) & (M > 0)
    assert left_out[0].any()
    for label in np.flatnonzero(left_out.any(axis=1)):
        assert kept[label][kept[label] > 0].min() > M[label][left_out[label]].max()


def test_pruning__every_label_keeps_its_best_word_when_labels_outnumber_entries() -> None:
    X, Y = weights(40)
    M = naive.cross_moment(X, Y)
    kept = dense_moment(add(CrossMoment.zero(L, D, 2), X, Y))
    np.testing.assert_array_equal(np.count_nonzero(kept, axis=1), M.any(axis=1))
    np.testing.assert_allclose(kept.max(axis=1), M.max(axis=1), rtol=1e-6)


@given(
    most_entries=st.integers(L, 50),
    cut=st.lists(st.integers(0, 50), max_size=5),
    values=st.sampled_from(["distinct", "ties"]),
    seed=st.integers(0, 50),
)
def test_most_entries__never_exceeded(most_entries: int, cut: list[int], values: str, seed: int) -> None:
    X, Y = weights(50, seed)
    if values == "ties":
        X = (X > 0) * np.float32(1)
    bounds = [0, *sorted(cut), 50]
    moments = []
    for start, stop in pairwise(bounds):
        moment = CrossMoment.zero(L, D, most_entries)
        for rows in (slice(start, stop), slice(stop, stop + 5)):
            add(moment, X[rows], Y[rows])
            assert moment.nnz <= most_entries
        moments.append(moment)
    total = moments[0]
    for moment in moments[1:]:
        nnz = np.count_nonzero(dense_moment(total) + dense_moment(moment))
        total = total + moment
        assert total.most_entries == most_entries
        if nnz <= most_entries:
            assert total.nnz == nnz
        else:  # another entry for each label would not fit
            assert most_entries - L < total.nnz <= most_entries


@pytest.mark.parametrize("merge", [merge_into, merged])
def test_most_entries__never_exceeded_by_merging(merge: Any) -> None:
    one, other = ({"a": {"cross": add(CrossMoment.zero(L, D, 30), *weights(40, seed))}} for seed in (1, 2))
    M = dense_moment(one["a"]["cross"]) + dense_moment(other["a"]["cross"])
    both = merge(one, other)["a"]["cross"]
    assert np.count_nonzero(M) > 30 >= both.nnz > 20
    np.testing.assert_allclose(dense_moment(both), naive.pruned(M, 30), **CLOSE)


# -- the pass -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrunedCross(Cross):
    """With a moment that is too small for all entries."""

    most_entries: int = 25

    def zero(self) -> Sums:
        D = len(self.weighting.idf)
        return {**super().zero(), "cross": CrossMoment.zero(self.n_labels, D, self.most_entries)}


def cross_pass(corpus: Corpus, share: float = 0.0, m: int = 3, kind: type[Cross] = Cross) -> Cross:
    weighting = Weighting.of_counts(*corpus.stored_term_counts)
    return kind(weighting, normal(corpus.n_terms, m), corpus.n_labels, share)


def dense_sums(sums: Sums) -> dict[str, np.ndarray]:
    return {"cross": dense_moment(sums["cross"]), "words": sums["words"]}


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("part", PARTS)
def test_cross__equals_the_plain_sums(many_blocks: Dense, part: str, share: float) -> None:
    corpus, X, Y = chosen(many_blocks, part)
    work = cross_pass(corpus, share)
    held = naive.held_out(len(X), share)
    assert len(X) < 2 or held.mean() == pytest.approx(share, abs=0.2)
    x = naive.weighted(X[~held], work.weighting.idf)
    expected = {
        "cross": naive.cross_moment(x, Y[~held]),
        "words": naive.word_directions(x, work.omega),
    }
    assert_close(dense_sums(run(work, corpus)), expected)


@pytest.mark.parametrize("scheme", ["counts", "binary"])
def test_cross__by_its_weighting(many_blocks: Dense, scheme: Any) -> None:
    corpus, X, Y = many_blocks
    work = cross_pass(corpus)
    work = replace(work, weighting=replace(work.weighting, scheme=scheme))
    x = naive.weighted(X, work.weighting.idf, scheme)
    np.testing.assert_allclose(dense_moment(run(work, corpus)["cross"]), naive.cross_moment(x, Y), **CLOSE)


def test_cross__without_room_for_words(many_blocks: Dense) -> None:
    corpus = many_blocks[0]
    one, other = (run(cross_pass(corpus, 0.3, m), corpus) for m in (0, 3))
    assert one["words"].shape == (corpus.n_terms, 0)
    np.testing.assert_array_equal(dense_moment(one["cross"]), dense_moment(other["cross"]))


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_cross__held_out_documents_come_back(many_blocks: Dense, share: float) -> None:
    corpus = many_blocks[0]
    work, everything = cross_pass(corpus, share), cross_pass(corpus)
    sums, expected = run(work, corpus), dense_sums(run(everything, corpus))
    before = dense_moment(sums["cross"])
    aside = run(SetAside(share), corpus)["documents"]
    everything.add(sums, aside.joined(corpus.n_terms, corpus.n_labels))
    assert (dense_moment(sums["cross"]).sum(axis=1) > before.sum(axis=1)).any()
    assert_close(dense_sums(sums), expected)


@pytest.mark.parametrize("slab", [1, 3])
def test_cross__does_not_depend_on_slabs(
    many_blocks: Dense, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = many_blocks[0]
    work = cross_pass(corpus, 0.3)
    expected = dense_sums(run(work, corpus))
    monkeypatch.setattr(kernels, "SLAB", slab)
    assert_close(dense_sums(run(work, corpus)), expected)


@pytest.mark.parametrize("accumulator_bytes", [1, 10**12])
def test_cross__pruned_in_every_segment(many_blocks: Dense, accumulator_bytes: int) -> None:
    corpus, X, Y = many_blocks
    work = cross_pass(corpus, kind=PrunedCross)
    M = naive.cross_moment(naive.weighted(X, work.weighting.idf), Y)
    moment = run(work, corpus, accumulator_bytes)["cross"]
    assert np.count_nonzero(M) > 25 >= moment.nnz > 20
    kept = dense_moment(moment)
    assert (kept <= M * (1 + 1e-5)).all()  # what was pruned on the way is missing from the sums
    np.testing.assert_array_equal(kept.any(axis=1), M.any(axis=1))


def test_cross__accumulator_bytes_of_a_full_moment() -> None:
    work = Cross(Weighting(np.ones(10, np.float32)), normal(10, 3), 4, 0.1)
    zero = work.zero()
    entry = zero["cross"].indices.itemsize + zero["cross"].values.itemsize
    assert work.accumulator_bytes == entry * zero["cross"].most_entries + zero["words"].nbytes


@given(cut=cuts)
@settings(max_examples=12)
def test_cross__does_not_depend_on_how_the_corpus_is_cut(cut: Cut) -> None:
    whole, parts = cut.corpora(11, 3)
    work = cross_pass(whole, cut.share)
    assert_close(dense_sums(run(work, parts, cut.accumulator_bytes)), dense_sums(run(work, whole)))
