"""Neighbours: found by comparing all documents with all, and votes counted one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_neighbours as naive
from tests.parts.learned import Learned, context_of, labelled_by_words, learned, words_of
from tests.parts.test_protocol import Stored
from tests.rows import dense_rows, sparse_rows
from threepass.corpus.rows import SparseRows
from threepass.parts import neighbour_kernels as kernels
from threepass.parts import neighbours
from threepass.parts.neighbours import (
    COUNT,
    POWERS,
    SEARCH,
    KnownDocuments,
    Neighbours,
    NeighboursPart,
    renumbered,
)
from threepass.parts.part import Scorer, Words
from threepass.parts.selection import Shortlists
from threepass.parts.training_words import UNIT
from threepass.parts.weighting import Weighting
from threepass.passes.stages import Layout

Matrices = tuple[np.ndarray, np.ndarray]


def stored(X: np.ndarray) -> SparseRows:
    return sparse_rows(X, np.uint16)


def triple(X: SparseRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert X.values is not None
    return X.indptr, X.indices, X.values


def known_of(X: np.ndarray, Y: np.ndarray | None = None) -> KnownDocuments:
    return KnownDocuments(stored(X), sparse_rows(np.zeros((len(X), 3)) if Y is None else Y))


def whole(n: int, D: int, seed: int, most: int = 5) -> np.ndarray:
    """Few and small whole numbers, so that products are exact and ties are everywhere; and empty rows."""
    rng = np.random.default_rng([n, D, seed])
    X = rng.integers(0, most, (n, D)) * (rng.random((n, D)) < 0.4)
    X[::7] = 0
    return X


# -- postings ---------------------------------------------------------------------------------------------


@given(n=st.integers(0, 25), D=st.integers(1, 6), most=st.integers(1, 30), seed=st.integers(0, 5))
def test_postings__are_the_heaviest_documents_of_each_word(n: int, D: int, most: int, seed: int) -> None:
    X = whole(n, D, seed)
    indptr, docs, values = kernels.postings(triple(stored(X)), D, most)
    assert (docs.dtype, values.dtype) == (np.int32, np.uint16)
    ref = naive.postings(X, most)
    assert len(indptr) == D + 1
    assert len(docs) == len(values) == indptr[-1]
    for word, own in enumerate(ref):
        entries = slice(indptr[word], indptr[word + 1])
        assert list(zip(docs[entries].tolist(), values[entries].tolist(), strict=True)) == own


@pytest.mark.parametrize("most", [1, 3, 4, 5])
def test_postings__of_equal_weights_are_the_first(most: int) -> None:
    X = np.array([[2], [1], [2], [2], [3], [2]])
    _, docs, _ = kernels.postings(triple(stored(X)), 1, most)
    assert docs.tolist() == {1: [4], 3: [0, 2, 4], 4: [0, 2, 3, 4], 5: [0, 2, 3, 4, 5]}[most]


# -- nearest ----------------------------------------------------------------------------------------------


@given(n=st.integers(1, 60), m=st.integers(0, 8), D=st.integers(1, 12), seed=st.integers(0, 5))
def test_nearest__are_those_of_all_products(n: int, m: int, D: int, seed: int) -> None:
    """Of fewer documents than there are candidates: nothing is left out, ties go by number."""
    X, Z = whole(n, D, seed), whole(m, D, seed + 100)
    docs, similarities = known_of(X).nearest(sparse_rows(Z, np.float32))
    ref_docs, products = naive.neighbours(Z, X, COUNT)
    assert docs.shape == similarities.shape == (m, COUNT)
    np.testing.assert_array_equal(docs, ref_docs)
    np.testing.assert_array_equal(similarities, (products / UNIT).astype(np.float32))


@given(n=st.integers(1, 60), first=st.integers(0, 59), D=st.integers(1, 12), seed=st.integers(0, 5))
def test_nearest__of_a_known_document_is_never_itself(n: int, first: int, D: int, seed: int) -> None:
    X = whole(n, D, seed)
    Z = X[min(first, n) : first + 9]
    own = (first + np.arange(len(Z))).astype(np.int32)
    docs, _ = known_of(X).nearest(sparse_rows(Z, np.float32), own)
    assert not (docs == first + np.arange(len(Z))[:, None]).any()
    np.testing.assert_array_equal(docs, naive.neighbours(Z, X, COUNT, first)[0])


def test_nearest__are_by_the_cosine() -> None:
    """Weights as they are stored are off by less than 1e-5."""
    rng = np.random.default_rng(3)
    X, Z = (rng.random((n, 30)) * (rng.random((n, 30)) < 0.3) for n in (60, 10))
    X, Z = (M / np.linalg.norm(M, axis=1)[:, None] for M in (X, Z))
    docs, similarities = known_of(np.rint(X * UNIT)).nearest(sparse_rows(Z, np.float32))
    products = Z @ X.T
    np.testing.assert_allclose(similarities, -np.sort(-products, axis=1)[:, :COUNT], atol=3e-5)
    np.testing.assert_allclose(np.take_along_axis(products, docs, 1), similarities, atol=3e-5)


def test_nearest__among_many_finds_the_close_ones() -> None:
    """Copies with a word more, of documents that share frequent words with thousands of others."""
    rng = np.random.default_rng(4)
    X = np.zeros((3000, 400), int)
    X[:, :5] = rng.integers(1, 3, (3000, 5))
    X[np.arange(3000)[:, None], 5 + rng.integers(395, size=(3000, 6))] = 40
    originals = rng.choice(3000, 50, replace=False)
    Z = X[originals].copy()
    Z[:, 0] += 1
    docs, similarities = known_of(X).nearest(sparse_rows(Z, np.float32))
    np.testing.assert_array_equal(docs[:, 0], originals)
    products = (Z @ X.T)[np.arange(50)[:, None], docs] * (docs >= 0)
    np.testing.assert_allclose(similarities, products / UNIT, rtol=1e-6)  # by all words, not by postings
    assert (np.diff(similarities) <= 0).all()


def test_nearest__words_of_no_weight_lead_nowhere() -> None:
    """Not beyond the end of an array either, which Python would say."""
    known, rows = known_of(np.ones((2, 6))), sparse_rows(np.ones((2, 6)), np.float32)
    assert rows.values is not None
    rows.values[:6], rows.values[7:] = 0, 1e-45
    found = np.empty((2, 3), np.int32), np.empty((2, 3), np.float32)
    search = SEARCH, np.full(2, -1)
    kernels.nearest.py_func(triple(rows), triple(known.X), known.index, float(UNIT), search, found)
    assert found[0].tolist() == [[-1, -1, -1], [0, 1, -1]]


def test_nearest__of_a_document_with_counts_of_all_sizes() -> None:
    """Some weights are then 0."""
    X, Z = np.ones((2, 6)), np.array([[3e38, 1e-30, 1e-30, 1e-30, 1e-30, 1e-30]])
    weighted = Weighting(np.ones(6, np.float32), "counts").of(sparse_rows(Z, np.float32))
    assert weighted.values is not None
    assert (weighted.values == 0).sum() == 5
    assert known_of(X).nearest(weighted)[0][0, :3].tolist() == [0, 1, -1]


# -- votes ------------------------------------------------------------------------------------------------


def random_votes(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbours of documents, fewer than there is room for and none of one; and the labels of each."""
    rng = np.random.default_rng(seed)
    docs = np.array([rng.permutation(30)[:8] for _ in range(12)], np.int32)
    similarities = -np.sort(-rng.random((12, 8)).astype(np.float32), axis=1)
    for d, count in enumerate(rng.integers(0, 9, 12)):
        docs[d, count:], similarities[d, count:] = -1, 0
    docs[3], similarities[3] = -1, 0
    Y = rng.random((30, 7)) < 0.3
    Y[::5] = False
    return docs, similarities, Y * 1


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_votes__are_shares_of_powers(power: float, weight: float) -> None:
    for seed in range(3):
        docs, similarities, Y = random_votes(seed)
        votes = known_of(np.zeros((30, 2)), Y).votes((docs, similarities), power, weight)
        assert votes.flaw() is None
        assert votes.shape == (12, 7)
        assert votes.values is not None
        assert votes.values.dtype == np.float32
        assert (votes.values > 0).all()
        ref = naive.votes(docs, similarities, Y, power, weight)
        np.testing.assert_allclose(dense_rows(votes), ref, rtol=1e-5, atol=1e-9)
        assert not dense_rows(votes)[3].any()


def test_votes__of_neighbours_with_a_label_each_add_up_to_the_weight() -> None:
    docs, similarities, _ = random_votes(1)
    Y = np.eye(7)[np.arange(30) % 7]
    sums = dense_rows(known_of(np.zeros((30, 2)), Y).votes((docs, similarities), 4.0, 2.0)).sum(axis=1)
    np.testing.assert_allclose(sums, 2.0 * (docs[:, 0] >= 0), rtol=1e-5)
    assert (sums == 0).any()


def test_votes__without_documents() -> None:
    nobody = np.zeros((0, COUNT), np.int32), np.zeros((0, COUNT), np.float32)
    assert known_of(np.zeros((4, 2))).votes(nobody, 1.0).shape == (0, 3)


# -- the scorer -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def documents() -> Matrices:
    X, Y = labelled_by_words(200)
    Y[:, 7] = 0  # a label that is never seen
    return X, Y


def learned_from(X: np.ndarray, Y: np.ndarray) -> Learned:
    return learned(NeighboursPart(context_of(X, Y)), X, Y)


def scores(scorer: Scorer, words: Words) -> np.ndarray:
    ((term,), (side,)) = scorer.terms, scorer.see(words)
    L = scorer.arrays()["labels/indices"].max(initial=0) + 1
    out = term.add(side, slice(0, words.X.n_rows), slice(0, max(30, L)), None)
    assert isinstance(out, np.ndarray)
    return out


def naive_scores(one: Learned, Z: np.ndarray, power: float, weight: float) -> np.ndarray:
    """From the documents as they are stored, by all products."""
    block = one.part.training.joined() if isinstance(one.part, NeighboursPart) else None
    assert block is not None
    z = dense_rows(words_of(one.context, Z).weighted)
    docs, products = naive.neighbours(z, dense_rows(block.X) / UNIT, COUNT)
    return naive.votes(docs, products, dense_rows(block.Y), power, weight)


@pytest.mark.parametrize("power", POWERS)
def test_scorer__scores_are_votes_of_the_nearest(power: float) -> None:
    X, Y = labelled_by_words(60)  # fewer than candidates
    one, Z = learned_from(X, Y), labelled_by_words(30, seed=1)[0]
    ref = naive_scores(one, Z, power, 0.7)
    scorer = one.finished(power=power, weight=0.7)
    assert isinstance(scorer, Neighbours)
    assert scorer.numbers() == {"power": power, "weight": 0.7}
    assert scorer.largest == 0.7
    found = scores(scorer, words_of(one.context, Z))
    # where the last neighbours are as like as others, rounding may take one for the other
    differ = (abs(found - ref) > 1e-4).any(axis=1)
    assert differ.mean() < 0.2
    assert abs(ref).max() > 0.1
    assert not found[~(Z > 0).any(axis=1)].any()


@pytest.mark.parametrize("score_bytes", [1, 10**9])
def test_trial__every_choice_as_if_it_were_made(documents: Matrices, score_bytes: int) -> None:
    Z, own = labelled_by_words(40, seed=1)
    one = learned_from(*documents)
    words = words_of(one.context, Z)
    trial = one.part.trial(words)
    lists = Shortlists.of(sparse_rows(own), lambda rows: [trial.dense(rows)], seed=0, score_bytes=score_bytes)
    at = trial.at(lists)
    for power in POWERS:
        for weight in (0.0, 0.5, 2.0):
            choice = {"power": power, "weight": weight}
            found = one.part.pair_scores(at, choice).reshape(40, 30)
            scorer = one.part.finish(choice)
            if scorer is None:
                assert weight == 0
                assert not found.any()
            else:
                np.testing.assert_allclose(found, scores(scorer, words), rtol=1e-5, atol=1e-7)
                assert found.max() > 0.1 * weight


def test_trial__slabs_change_nothing(documents: Matrices, monkeypatch: pytest.MonkeyPatch) -> None:
    one, words = learned_from(*documents), words_of(context_of(*documents), labelled_by_words(40, 1)[0])
    ref = one.part.trial(words).dense(slice(0, 40))
    monkeypatch.setattr(neighbours, "_SLAB", 7)
    np.testing.assert_array_equal(one.part.trial(words).dense(slice(0, 40)), ref)


def test_known__as_many_words_as_a_model_may_keep(
    documents: Matrices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rare labels first; what the classifiers learn from stays whole."""
    one = learned_from(*documents)
    assert isinstance(one.part, NeighboursPart)
    every = one.part.known()
    most = every.X.nnz * 2 // 3
    monkeypatch.setattr(neighbours, "MOST_WORDS", most)
    some = one.part.known()
    assert most // 2 < some.X.nnz < every.X.nnz
    counts = np.bincount(every.Y.indices, minlength=30)
    kept = np.bincount(some.Y.indices, minlength=30)
    rare = counts <= 4
    assert (counts[rare] > 1).any()
    np.testing.assert_array_equal(kept[rare], counts[rare])
    assert kept[0] < counts[0]
    assert one.part.training.joined().X.nnz == every.X.nnz


def test_known__of_documents_that_were_sampled_before_uses_its_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = (np.random.default_rng(0).random((900, 60)) < 0.2) * 1
    Y = np.eye(3, dtype=int)[np.arange(900) % 3]
    context = context_of(X, Y)
    layout = Layout(1, 0, 12 * (X.sum() // 3), 0, memory_limit=10**9)
    one = learned(NeighboursPart(replace(context, layout=layout)), X, Y)
    assert isinstance(one.part, NeighboursPart)
    gathered = one.part.training.joined().X
    assert 250 < gathered.n_rows < 350
    monkeypatch.setattr(neighbours, "MOST_WORDS", gathered.nnz // 2)
    assert 0.4 * gathered.n_rows < one.part.known().X.n_rows < 0.6 * gathered.n_rows


def test_renumbered__rows_stay_sorted() -> None:
    X = whole(20, 9, 0)
    order = np.random.default_rng(0).permutation(9)
    rows = renumbered(stored(X), order)
    assert rows.flaw() is None
    np.testing.assert_array_equal(dense_rows(rows), X[:, order])


def test_reordered__votes_are_the_same_bitwise(documents: Matrices) -> None:
    """But where words of a document weigh alike, as each is added to the others in another order."""
    one, Z = learned_from(*documents), labelled_by_words(40, seed=1)[0]
    scorer = one.finished()
    ref = scores(scorer, words_of(one.context, Z))
    order = np.random.default_rng(0).permutation(Z.shape[1])
    moments: Any = one.context.moments
    reordered = scorer.reordered(order, moments)
    weighting = Weighting(one.context.weighting.idf[order])
    found = scores(reordered, Words(sparse_rows(Z[:, order], np.float32), weighting))
    np.testing.assert_allclose(found, ref, rtol=1e-4, atol=1e-6)


def test_load__gives_the_same_votes_bitwise(documents: Matrices) -> None:
    one, Z = learned_from(*documents), labelled_by_words(40, seed=1)[0]
    scorer = one.finished()
    moments: Any = one.context.moments
    back = Neighbours.load(Stored(scorer), moments)
    words = words_of(one.context, Z)
    np.testing.assert_array_equal(scores(back, words), scores(scorer, words))
    np.testing.assert_array_equal(back.known.index[1], scorer.known.index[1])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("words/indptr", lambda a: a[::-1], "words/indices: its row starts"),
        ("words/indptr", lambda a: a + 1, "words/indices: its row starts"),
        ("words/indptr", lambda a: a[:0], "no rows"),
        ("words/indices", lambda a: a * 0 + 90, "words/indices: its columns"),
        ("words/indices", lambda a: a - 1, "words/indices: its columns"),
        ("words/indices", lambda a: a[::-1], "words/indices: the columns"),
        ("words/weights", lambda a: a * (a > 9000), "words/weights: not all are above 0"),
        ("labels/indptr", lambda a: a * 2, "labels/indices: its row starts"),
        ("labels/indices", lambda a: a * 0 + 30, "labels/indices: its columns"),
        ("labels/indices", lambda a: a[:-1], "labels/indices: its row starts"),
    ],
)
def test_load__refuses_what_cannot_be_right(documents: Matrices, name: str, change: Any, error: str) -> None:
    one = learned_from(*documents)
    damaged = Stored(one.finished())
    damaged.arrays[name] = change(damaged.arrays[name])
    if not len(damaged.arrays[name]):
        damaged.arrays["labels/indptr"] = damaged.arrays[name]
    moments: Any = one.context.moments
    with pytest.raises(ValueError, match=error):
        Neighbours.load(damaged, moments)


@pytest.mark.parametrize("name", ["words/weights", "labels/indptr"])
def test_load__refuses_arrays_that_do_not_fit_together(documents: Matrices, name: str) -> None:
    one = learned_from(*documents)
    damaged = Stored(one.finished())
    damaged.arrays[name] = damaged.arrays[name][:-1]
    moments: Any = one.context.moments
    with pytest.raises(AssertionError):  # in the place of a file's own error
        Neighbours.load(damaged, moments)
