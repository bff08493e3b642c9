"""Words and labels of the training documents: which are kept, and in how many bytes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_heads as naive
from tests.parts.learned import context_of, labelled_by_words
from tests.rows import block_of, cut, dense_rows, sparse_rows, summed
from threepass.corpus.store import Block
from threepass.parts import training_words
from threepass.parts.part import Context
from threepass.parts.training_words import (
    UNIT,
    GatherWords,
    RarestLabels,
    Sampling,
    TrainingWords,
    stored_weights,
)
from threepass.parts.weighting import Weighting
from threepass.passes.cost import Size
from threepass.passes.stages import Layout
from threepass.passes.work import array_bytes, hollow

N, LENGTH = 2000, 8


@pytest.fixture(scope="module")
def documents() -> tuple[np.ndarray, np.ndarray]:
    """Documents of as many words each; few labels are frequent, most are rare. Some have none."""
    rng = np.random.default_rng(0)
    X = np.zeros((N, 90), int)
    X[np.arange(N)[:, None], rng.permuted(np.tile(np.arange(90), (N, 1)), axis=1)[:, :LENGTH]] = 1
    Y = rng.random((N, 40)) < 1 / (1 + np.arange(40)) ** 1.5
    Y[::11], Y[:, 20] = False, False
    return X, Y * 1


def chances(sampling: Sampling, Y: np.ndarray) -> np.ndarray:
    """(n,): the probability that each document is kept."""
    rarest = np.where(Y > 0, sampling.label_counts, 2**62).min(axis=1)
    return np.where(Y.any(axis=1), np.minimum(1.0, sampling.rare / rarest), 0.0)


def sampling_of(X: np.ndarray, Y: np.ndarray, most_words: float) -> Sampling:
    """From each document's rarest label and words."""
    every = Sampling(Y.sum(axis=0))
    labelled, rarest = every.rarest(sparse_rows(Y))
    return Sampling.of(every.label_counts, rarest, (X > 0).sum(axis=1)[labelled], most_words)


# -- which are kept ---------------------------------------------------------------------------------------


@given(share=st.floats(0.0001, 2), seed=st.integers(0, 20), n_labels=st.integers(1, 30))
def test_sampling__expects_as_many_words_as_the_budget(share: float, seed: int, n_labels: int) -> None:
    rng = np.random.default_rng(seed)
    Y = (rng.random((60, n_labels)) < rng.random(n_labels) ** 3) * 1
    X = (rng.random((60, 12)) < 0.5) * 1
    words = (X.sum(axis=1) * chances(sampling_of(X, Y, share * X.sum()), Y)).sum()
    assert words == pytest.approx(min(share * X.sum(), X[Y.any(axis=1)].sum()))


@pytest.mark.parametrize("share", [0.001, 0.05, 0.3, 0.9])
def test_sampling__of_documents_with_one_label_uses_the_budget(share: float) -> None:
    Y = np.eye(5, dtype=int)[np.repeat(np.arange(5), [1, 3, 10, 100, 500])]
    sampling = sampling_of(np.ones((len(Y), LENGTH)), Y, share * LENGTH * len(Y))
    assert chances(sampling, Y).sum() == pytest.approx(share * len(Y))


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.8])
def test_sampling__rare_labels_stay_whole(documents: tuple[np.ndarray, np.ndarray], share: float) -> None:
    X, Y = documents
    counts = Y.sum(axis=0)
    sampling = sampling_of(X, Y, share * X.sum())
    assert 0 < sampling.rare < counts.max()
    kept = np.zeros(N, bool)
    kept[sampling.rows(sparse_rows(X, np.float32), sparse_rows(Y))] = True
    rare = (counts <= sampling.rare) & (counts > 0)
    assert kept[Y[:, rare].any(axis=1)].all()
    assert not kept[~Y.any(axis=1)].any()
    chance = chances(sampling, Y)
    assert abs(kept.sum() - chance.sum()) < 4 * np.sqrt((chance * (1 - chance)).sum()) + 1e-9
    assert kept.sum() < Y.any(axis=1).sum()
    assert kept[Y[:, np.argmax(counts)] > 0].any()  # frequent ones are not lost


def test_sampling__a_larger_budget_keeps_the_same_documents_and_more(
    documents: tuple[np.ndarray, np.ndarray],
) -> None:
    """So that a sample can be sampled again."""
    X, Y = documents
    rows = [
        sampling_of(X, Y, share * X.sum()).rows(sparse_rows(X, np.float32), sparse_rows(Y))
        for share in (0.01, 0.1, 0.4, 1.0)
    ]
    assert np.all(np.diff([len(some) for some in rows]) > 0)
    for fewer, more in pairwise(rows):
        assert np.isin(fewer, more).all()


def test_sampling__without_a_budget_all_that_have_labels(documents: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = documents
    for sampling in (Sampling(Y.sum(axis=0)), sampling_of(X, Y, X.sum())):
        rows = sampling.rows(sparse_rows(X, np.float32), sparse_rows(Y))
        np.testing.assert_array_equal(rows, np.flatnonzero(Y.any(axis=1)))


def test_sampling__of_nothing() -> None:
    nothing = sampling_of(np.zeros((0, 4)), np.zeros((0, 3), int), 10)
    assert len(nothing.rows(sparse_rows(np.zeros((0, 4)), np.float32), sparse_rows(np.zeros((0, 3))))) == 0
    few = sampling_of(np.ones((5, 4)), np.zeros((5, 3), int), 10)
    assert len(few.rows(sparse_rows(np.ones((5, 4)), np.float32), sparse_rows(np.zeros((5, 3))))) == 0


@given(places=st.lists(st.integers(0, 200), max_size=5), share=st.sampled_from([0.1, 0.5, 1.0]))
def test_gather_words__do_not_depend_on_blocks(places: list[int], share: float) -> None:
    X, Y = labelled_by_words(200)
    work = gather_words(X, Y, share)
    whole, parts = (
        summed(work, *blocks).joined(X.shape[1], Y.shape[1])
        for blocks in ([block_of(X, Y)], cut(X, Y, *sorted(places)))
    )
    assert 0 < whole.X.n_rows < 200
    for name in ("indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(parts.X, name), getattr(whole.X, name), strict=True)
    np.testing.assert_array_equal(parts.Y.indptr, whole.Y.indptr)
    np.testing.assert_array_equal(parts.Y.indices, whole.Y.indices)


def gather_words(X: np.ndarray, Y: np.ndarray, share: float) -> GatherWords:
    most = round(share * np.count_nonzero(X))
    sampling = sampling_of(X, Y, most)
    weighting = Weighting.of_counts((X > 0).sum(axis=0), len(X))
    return GatherWords(weighting, sampling, most, Size(len(X), np.count_nonzero(X), np.count_nonzero(Y)))


# -- their weights ----------------------------------------------------------------------------------------


def test_stored_weights__are_close_and_none_becomes_zero() -> None:
    values = np.concatenate([np.geomspace(1e-30, 1, 500), np.linspace(1e-4, 1, 500), [np.float32(1 + 1e-6)]])
    stored = stored_weights(sparse_rows(values[None, :], np.float32))
    assert stored.values is not None
    assert stored.values.dtype == np.uint16
    assert stored.values.min() >= 1
    assert stored.values.max() == UNIT
    error = abs(stored.values / UNIT - values)
    assert error[values > 1e-5].max() < 1e-5
    assert error.max() <= 1 / UNIT


def test_gather_words__weights_are_those_of_the_weighting() -> None:
    X, Y = labelled_by_words(100)
    work = gather_words(X, Y, 1.0)
    block = summed(work, block_of(X, Y)).joined(X.shape[1], Y.shape[1])
    labelled = Y.any(axis=1)
    ref = naive.weighted(X, naive.idf(X))[labelled]
    np.testing.assert_allclose(dense_rows(block.X) / UNIT, ref, atol=1e-5)
    np.testing.assert_array_equal(dense_rows(block.Y), Y[labelled])


# -- the gatherer -----------------------------------------------------------------------------------------


def limited(context: Context, most_words: int) -> Context:
    """To so many words, by a limit of memory."""
    return replace(context, layout=Layout(1, 0, 12 * most_words, 0, memory_limit=10**9))


def gathered(X: np.ndarray, Y: np.ndarray, most_words: int, *rows: slice) -> TrainingWords:
    training = TrainingWords(limited(context_of(X, Y), most_words))
    for read in (1, 2, 3):
        for work in training.passes(read):
            training.take(read, [summed(work, *(block_of(X[some], Y[some], some.start) for some in rows))])
    return training


def test_training_words__are_gathered_in_the_third_read_and_labels_counted_where_they_are_many() -> None:
    X, Y = labelled_by_words(50)
    for most, before in ((10**6, 0), (100, 1)):
        training = gathered(X, Y, most, slice(0, 50))
        assert [len(training.passes(read)) for read in range(1, 6)] == [before, before, 1, 0, 0]


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_training_words__as_planned(share: float) -> None:
    """Walked without memory, they leave what the walk with memory does; also where sums lie in files."""
    X, Y = labelled_by_words(400)
    context = limited(context_of(X, Y), round(share * np.count_nonzero(X)))
    plan, real = TrainingWords(context), gathered(X, Y, round(share * np.count_nonzero(X)), slice(0, 400))
    for read in (1, 2, 3):
        assert [work.name for work in plan.passes(read)] == [work.name for work in real.passes(read)]
        for _ in plan.passes(read):
            plan.take(read, [hollow(0, dtype=np.uint8)])
    planned, done = array_bytes(plan.held()), real.joined().X.nbytes + real.joined().Y.nbytes
    assert 0.8 * done < planned < 1.4 * done
    for training in (plan, real):
        training.let_go()
        assert array_bytes(training.held()) == 0


def test_rarest_labels__words_by_how_rare_labels_are() -> None:
    X, Y = labelled_by_words(200)
    counts, words = Y.sum(axis=0), (X > 0).sum(axis=1)
    work = RarestLabels(Sampling(counts))
    ref = np.zeros(8 * 48)
    for d in np.flatnonzero(Y.any(axis=1)):
        ref[int(8 * np.log2(counts[Y[d] > 0].min()))] += words[d]
    for blocks in ([block_of(X, Y)], cut(X, Y, 0, 3, 3, 150)):
        np.testing.assert_array_equal(summed(work, *blocks).words, ref)


def test_training_words__obey_a_limit_of_memory() -> None:
    X, Y = labelled_by_words(200)
    n_words = np.count_nonzero(X)
    assert TrainingWords(context_of(X, Y)).n_words == n_words
    few = gathered(X, Y, n_words // 4, slice(0, 200))
    assert few.n_words == n_words // 4
    assert n_words // 8 < few.joined().X.nnz < n_words // 3
    many = gathered(X, Y, 10 * n_words, slice(0, 200))
    assert many.n_words == n_words
    assert many.joined().X.n_rows == Y.any(axis=1).sum()


def test_training_words__most_that_there_ever_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_words, "MOST_WORDS", 300)
    X, Y = labelled_by_words(200)
    assert TrainingWords(context_of(X, Y)).n_words == 300
    assert TrainingWords(limited(context_of(X, Y), 10**6)).n_words == 300


@pytest.mark.parametrize("joined_before", [False, True])
def test_give_back__held_out_documents_come_last_and_all_of_them(joined_before: bool) -> None:
    X, Y = labelled_by_words(200)
    # their number in the corpus is the lowest
    most = np.count_nonzero(X) // 5
    training, twin = (gathered(X, Y, most, slice(100, 200), slice(50, 100)) for _ in range(2))
    before = twin.joined()
    if joined_before:
        training.joined()
    training.give_back(block_of(X[:50], Y[:50]))
    after = training.joined()
    labelled = Y[:50].any(axis=1)
    own = slice(before.X.n_rows, after.X.n_rows)
    assert after.X.n_rows - before.X.n_rows == labelled.sum()
    assert after.X.n_rows < Y.any(axis=1).sum()
    ref = naive.weighted(X, naive.idf(X))
    np.testing.assert_allclose(dense_rows(after.X)[own] / UNIT, ref[:50][labelled], atol=1e-5)
    np.testing.assert_array_equal(dense_rows(after.Y)[own], Y[:50][labelled])
    np.testing.assert_array_equal(dense_rows(after.X)[: own.start], dense_rows(before.X))
    np.testing.assert_array_equal(dense_rows(after.Y)[: own.start], dense_rows(before.Y))


def test_joined__documents_are_in_the_order_of_the_corpus() -> None:
    X, Y = labelled_by_words(90)
    turned = gathered(X, Y, 10**6, slice(60, 90), slice(0, 60)).joined()
    whole = gathered(X, Y, 10**6, slice(0, 90)).joined()
    np.testing.assert_array_equal(dense_rows(turned.X), dense_rows(whole.X))
    np.testing.assert_array_equal(dense_rows(turned.Y), dense_rows(whole.Y))


def test_joined__of_no_documents() -> None:
    X, Y = labelled_by_words(40)
    training = gathered(X, Y * 0, 10**6, slice(0, 40))
    block: Block = training.joined()
    assert block.X.shape == (0, X.shape[1])
    assert block.Y.shape == (0, Y.shape[1])


def test_needs__are_about_what_is_gathered() -> None:
    from threepass.passes.cost import corpus_size

    X, Y = labelled_by_words(400)
    for share in (1.0, 0.3):
        training = gathered(X, Y, round(share * np.count_nonzero(X)), slice(0, 400))
        assert training.sums is not None
        needs = training.work.needs(corpus_size(context_of(X, Y).corpus))
        assert 0.8 * training.sums.nbytes < needs.sums < 1.4 * training.sums.nbytes
