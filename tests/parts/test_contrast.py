"""Contrast: look-alikes, classifiers solved exactly, margins, and passes over ranges of numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_contrast as naive
from tests import naive_neighbours
from tests.parts.learned import context_of, labelled_by_words, words_of
from tests.parts.test_protocol import Stored
from tests.rows import dense_rows, sparse_rows
from threepass.corpus.rows import SparseRows
from threepass.parts import contrast as parts
from threepass.parts import contrast_kernels as kernels
from threepass.parts.contrast import (
    STOPPING,
    Classifiers,
    Contrast,
    LookAlikes,
    Pieces,
    bonus_of,
    word_labels,
)
from threepass.parts.contrast_kernels import Problem, Stopping
from threepass.parts.contrast_learning import Judged, _ContrastTrial
from threepass.parts.neighbours import COUNT, KnownDocuments
from threepass.parts.selection import Shortlists
from threepass.parts.training_words import UNIT, stored_weights
from threepass.passes.executors import Threads
from threepass.passes.kept_sums import read_partial, write_partial
from threepass.passes.ranges import Ranges
from threepass.passes.runner import Runner

EXACT = Stopping(epochs=1000, gradient=1e-4, least=1e-9)
"""Nearly."""
SEED = 5
CHOSEN = {"weight": 1.0, "width": 4.0, "cost": 3.0}


def quarters(*shape: int, seed: int, density: float = 0.5) -> np.ndarray:
    """Numbers that are added without rounding, with ties everywhere."""
    rng = np.random.default_rng([*shape, seed])
    return rng.integers(1, 5, shape) / 4 * (rng.random(shape) < density)


# -- look-alikes ------------------------------------------------------------------------------------------


@given(
    n=st.integers(0, 8),
    D=st.integers(1, 6),
    L=st.integers(1, 12),
    m=st.integers(1, 14),
    seed=st.integers(0, 9),
)
def test_look_alikes__are_the_best_by_votes_and_words(n: int, D: int, L: int, m: int, seed: int) -> None:
    votes, X, C = quarters(n, L, seed=seed), quarters(n, D, seed=seed), quarters(D, L, seed=seed, density=0.3)
    out = np.full((n, m), 99, np.int32)
    triples = [sparse_rows(M, np.float32).csr() for M in (votes, X, C)]
    kernels.look_alikes(*triples, L, out)
    np.testing.assert_array_equal(out, naive.look_alikes(votes, X, C, m))


def test_look_alikes__of_weights_too_small_for_single_precision() -> None:
    """A label that was seen is not listed twice."""
    X, C = np.full((1, 40), 1e-30), np.full((40, 2), 1e-30)
    out = np.empty((1, 3), np.int32)
    nothing = sparse_rows(np.zeros((1, 2)), np.float32).csr()
    kernels.look_alikes.py_func(
        nothing, sparse_rows(X, np.float32).csr(), sparse_rows(C, np.float32).csr(), 2, out
    )
    assert out.tolist() == [[0, 1, -1]]


# -- pairs ------------------------------------------------------------------------------------------------


@given(n=st.integers(0, 9), L=st.integers(1, 7), m=st.integers(0, 7), seed=st.integers(0, 9))
def test_pairs__are_those_that_carry_a_label_or_look_like_it(n: int, L: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists = np.array([rng.permutation(L)[: min(m, L)] for _ in range(n)], np.int32).reshape(n, min(m, L))
    lists[rng.random(lists.shape) < 0.3] = -1
    Y, skip = (rng.random((n, L)) < 0.3) * 1, rng.random(n) < 0.3
    rows = sparse_rows(Y)
    indptr, docs = kernels.pairs_by_label(lists, (rows.indptr, rows.indices), skip, L)
    assert (indptr.dtype, docs.dtype) == (np.int64, np.int32)
    found = [docs[start:stop].tolist() for start, stop in pairwise(indptr)]
    assert found == naive.pairs_by_label(lists, Y, skip)


# -- classifiers ------------------------------------------------------------------------------------------


def problem(
    n: int = 120, D: int = 30, L: int = 9, cost: float = 1.0
) -> tuple[Problem, np.ndarray, list[Any]]:
    """Unit rows, one without words; label 3 has no documents, and no other document looks like label 5."""
    rng = np.random.default_rng(n)
    X = rng.random((n, D)) * (rng.random((n, D)) < 0.2)
    X[4] = 0
    Y = rng.random((n, L)) < 0.15
    Y[:, :4] |= X[:, :4] > 0.5
    Y[:, 3] = False
    lists = np.array([rng.permutation(L)[:4] for _ in range(n)], np.int32)
    lists[lists == 5] = -1
    length = np.linalg.norm(X, axis=1)[:, None]
    stored = stored_weights(sparse_rows(X / np.where(length > 0, length, 1), np.float32))
    rows = sparse_rows(Y * 1)
    indptr, docs = kernels.pairs_by_label(lists, (rows.indptr, rows.indices), np.zeros(n, bool), L)
    assert stored.values is not None
    made = Problem((stored.indptr, stored.indices, stored.values), float(UNIT), indptr, docs, cost, SEED)
    return made, dense_rows(stored) / UNIT, [docs[start:stop] for start, stop in pairwise(indptr)]


def solved(given: Problem, stopping: Stopping, labels: tuple[int, int], D: int = 30) -> tuple[Any, ...]:
    indptr, words, weights, biases = kernels.solve_labels(given, stopping, labels, D)
    W = SparseRows(indptr, words, weights, D)
    assert W.flaw() is None
    assert [array.dtype for array in (indptr, words, weights, biases)] == [
        np.int64,
        np.int32,
        np.float32,
        np.float32,
    ]
    return W, biases


@pytest.mark.parametrize("cost", [0.3, 1.0, 3.0])
def test_solve__is_the_minimum(cost: float) -> None:
    given, X, docs = problem(cost=cost)
    W, biases = solved(given, EXACT, (0, 9))
    found = dense_rows(W)
    for label, own in enumerate(docs):
        if not (own > 0).any():
            assert label == 3
            continue
        w, b = naive.classifier(X[abs(own) - 1], np.sign(own).astype(float), cost)
        np.testing.assert_allclose(found[label], w, atol=2e-3)
        assert biases[label] == pytest.approx(b, abs=2e-3)
        assert abs(w).max() > 0.05


def test_solve__as_it_is_stopped_is_close_to_the_minimum() -> None:
    """In the margins, which is all that anybody sees."""
    given, X, docs = problem()
    W, biases = solved(given, STOPPING, (0, 9))
    assert 0 < abs(W.values_as(np.float32)).min() >= STOPPING.least
    found = dense_rows(W)
    for label in (0, 1, 2):
        own = docs[label]
        w, b = naive.classifier(X[abs(own) - 1], np.sign(own).astype(float), 1.0)
        errors = (X @ found[label] + biases[label]) - (X @ w + b)
        assert np.sqrt((errors**2).mean()) < 0.15 * np.std(X @ w)


@pytest.mark.parametrize("stopping", [EXACT, STOPPING])
def test_solve__labels_without_documents_of_their_own(stopping: Stopping) -> None:
    given, _, docs = problem()
    assert len(docs[3]) > 5
    W, biases = solved(given, stopping, (0, 9))
    assert W.indptr[3] == W.indptr[4]
    assert biases[3] == -1
    nobody = Problem(given.words, given.unit, np.zeros(4, np.int64), np.zeros(0, np.int32), 1.0, SEED)
    W, biases = solved(nobody, stopping, (0, 3))
    assert W.nnz == 0
    assert biases.tolist() == [-1, -1, -1]


def test_solve__a_label_that_no_other_document_looks_like() -> None:
    """Nothing says what would tell it apart."""
    given, _, docs = problem()
    assert (docs[5] > 0).all()
    W, biases = solved(given, EXACT, (5, 6))
    assert biases[0] > 0.5
    assert (W.values_as(np.float32) > 0).all()


@given(ends=st.lists(st.integers(0, 9), max_size=5))
def test_solve__does_not_depend_on_ranges(ends: list[int]) -> None:
    given, _, _ = problem()
    W, biases = solved(given, STOPPING, (0, 9))
    for first, stop in pairwise([0, *sorted(ends), 9]):
        some, own = solved(given, STOPPING, (first, stop))
        whole = W.slice(first, stop)
        np.testing.assert_array_equal(some.indptr, whole.indptr)
        np.testing.assert_array_equal(some.indices, whole.indices)
        np.testing.assert_array_equal(some.values, whole.values)
        np.testing.assert_array_equal(own, biases[first:stop])


def test_solve__small_weights_are_dropped_and_nothing_else() -> None:
    given, _, _ = problem()
    W, biases = solved(given, EXACT, (0, 9))
    some, own = solved(given, EXACT._replace(least=0.2), (0, 9))
    ref = dense_rows(W)
    ref[abs(ref) < 0.2] = 0
    assert 0 < some.nnz < W.nnz
    np.testing.assert_array_equal(dense_rows(some), ref)
    np.testing.assert_array_equal(own, biases)


def test_solve__more_words_than_there_is_room_for_at_first() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((40, 3000)) + 0.1
    stored = stored_weights(sparse_rows(X / np.linalg.norm(X, axis=1)[:, None], np.float32))
    docs = np.where(np.arange(40) % 2 > 0, 1, -1) * (np.arange(40) + 1)
    assert stored.values is not None
    given = Problem(
        (stored.indptr, stored.indices, stored.values),
        float(UNIT),
        np.array([0, 40, 40, 80]),
        np.tile(docs, 2).astype(np.int32),
        1.0,
        SEED,
    )
    W, _ = solved(given, EXACT, (0, 3), 3000)
    assert W.nnz > 4096
    np.testing.assert_allclose(dense_rows(W)[0], dense_rows(W)[2], atol=1e-3)


# -- margins ----------------------------------------------------------------------------------------------


def random_classifiers(D: int, L: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([D, L, seed])
    W = rng.standard_normal((L, D)) * (rng.random((L, D)) < 0.3)
    W[L // 2] = 0
    return W.astype(np.float32), rng.standard_normal(L).astype(np.float32)


@given(n=st.integers(0, 8), D=st.integers(1, 9), L=st.integers(1, 7), seed=st.integers(0, 5))
def test_margins__of_pairs(n: int, D: int, L: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, (W, b) = quarters(n, D, seed=seed), random_classifiers(D, L, seed)
    lengths = rng.integers(0, 5, n)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    labels = rng.integers(-1, L, indptr[-1]).astype(np.int32)
    out = np.full(indptr[-1], 99, np.float32)
    classifiers = (*sparse_rows(W, np.float32).csr(), b)
    kernels.margins(sparse_rows(X, np.float32).csr(), classifiers, (indptr, labels), D, out)
    pairs = list(zip(np.repeat(np.arange(n), lengths), labels, strict=True))
    np.testing.assert_allclose(out, naive.margins(X, W, b, pairs), rtol=1e-5, atol=1e-5)


def test_margins__of_classifiers_of_many_words_are_looked_up() -> None:
    """And are the same to the last bit, for words are added in the same order."""
    D, L = 400, 5
    X, (W, b) = quarters(30, D, seed=1, density=0.02), random_classifiers(D, L)
    W[1, 20:] = 0  # of few words
    x = sparse_rows(X, np.float32).csr()
    pairs = np.arange(31, dtype=np.int64) * L, np.tile(np.arange(L, dtype=np.int32), 30)
    found, ref = np.empty(30 * L, np.float32), np.zeros(30 * L, np.float32)
    kernels.margins(x, (*sparse_rows(W, np.float32).csr(), b), pairs, D, found)
    for pair, (d, label) in enumerate((d, label) for d in range(30) for label in range(L)):
        ref[pair] = b[label]
        for word in np.flatnonzero(W[label]):
            ref[pair] += np.float32(X[d, word]) * W[label, word]
    np.testing.assert_array_equal(found, ref)


def test_places__are_by_score_and_then_by_order() -> None:
    rng = np.random.default_rng(0)
    indptr = np.array([0, 0, 7, 8, 20])
    scores = rng.integers(0, 4, 20).astype(np.float32)
    places = kernels.places_by_score(indptr, scores)
    for start, stop in pairwise(indptr):
        assert places[start:stop].tolist() == naive.places(scores[start:stop])
    assert len(kernels.places_by_score(np.zeros(1, np.int64), scores[:0])) == 0


def test_bonus__is_between_nothing_and_twice_the_weight() -> None:
    margins = np.array([-np.inf, -3, -1, -0.5, 0, 1, 7], np.float32)
    bonus = bonus_of(margins, 0.3)
    assert bonus.dtype == np.float32
    np.testing.assert_allclose(bonus, 0.3 * np.array([0, 0, 0, 0.5, 1, 2, 2]), rtol=1e-6)


# -- the scorer -------------------------------------------------------------------------------------------


def scorer_of(D: int = 90, L: int = 30, width: int = 4) -> tuple[Contrast, np.ndarray, np.ndarray]:
    W, b = random_classifiers(D, L)
    return Contrast(sparse_rows(W, np.float32), b, 0.3, width), W, b


def test_scorer__bonus_of_some_labels() -> None:
    scorer, W, b = scorer_of()
    X = quarters(12, 90, seed=1, density=0.1)
    labels = np.random.default_rng(0).integers(-1, 30, (12, 5))
    found = scorer.bonus(sparse_rows(X, np.float32), labels)
    ref = [0.3 * (1 + np.clip(naive.margins(X, W, b, [(d, i) for i in labels[d]]), -1, 1)) for d in range(12)]
    np.testing.assert_allclose(found, ref, atol=1e-5)
    assert not found[labels < 0].any()
    assert 0 <= found.min() < found.max() <= scorer.largest
    assert scorer.rescored == 4
    assert scorer.terms == scorer.see(words_of(context_of(*labelled_by_words(50)), X)) == ()


def test_scorer__bonus_of_no_documents_or_no_labels() -> None:
    scorer, _, _ = scorer_of()
    for n, m in ((0, 3), (3, 0)):
        assert scorer.bonus(sparse_rows(np.ones((n, 90)), np.float32), np.zeros((n, m), int)).shape == (n, m)


def test_scorer__evidence_adds_up_to_the_margin() -> None:
    scorer, W, b = scorer_of()
    X, Y = labelled_by_words(50)
    context, longest = context_of(X, Y), X[[np.argmax((X > 0).sum(axis=1))]]
    for label in (0, 4, 15):  # the last one has no weights
        words = words_of(context, longest)
        told = scorer.evidence(words, label).words
        x = dense_rows(words.weighted)[0]
        assert dict(told) == pytest.approx(
            {word: x[word] * W[label, word] for word in np.flatnonzero(x * W[label])}, rel=1e-5
        )
        assert (len(told) > 0) == (label != 15)
        sizes = [abs(value) for _, value in told]
        assert sizes == sorted(sizes, reverse=True)
        (margin,) = naive.margins(x[None, :], W, b, [(0, label)])
        assert sum(value for _, value in told) + b[label] == pytest.approx(margin, abs=1e-5)


def test_scorer__comes_back_bitwise_and_in_another_order() -> None:
    scorer, _, _ = scorer_of()
    context = context_of(*labelled_by_words(50))
    moments: Any = context.moments
    for values in (scorer.W.values, scorer.biases):
        assert values is not None
        values[:] = values.astype(np.float16)
    kept = Stored(scorer)
    back = Contrast.load(kept, moments)
    assert kept.asked == {*kept.arrays, *kept.numbers}
    assert {name for name, array in kept.arrays.items() if array.dtype == np.float16} == set(scorer.halved)
    for name, array in scorer.arrays().items():
        np.testing.assert_array_equal(back.arrays()[name], array, err_msg=name)
    assert back.numbers() == scorer.numbers() == {"weight": 0.3, "width": 4}
    order = np.random.default_rng(0).permutation(90)
    dense = dense_rows(scorer.W)
    reordered = back.reordered(order, moments)
    assert reordered.W.flaw() is None
    np.testing.assert_array_equal(dense_rows(reordered.W), dense[:, order])


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("indptr", lambda a: a[::-1], "words: its row starts"),
        ("words", lambda a: a * 0 + 90, "words: its columns"),
        ("words", lambda a: a[::-1], "words: the columns"),
    ],
)
def test_load__refuses_what_cannot_be_right(name: str, change: Any, error: str) -> None:
    scorer, _, _ = scorer_of()
    damaged = Stored(scorer)
    damaged.arrays[name] = change(damaged.arrays[name])
    moments: Any = context_of(*labelled_by_words(50)).moments
    with pytest.raises(ValueError, match=error):
        Contrast.load(damaged, moments)


# -- choices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [{"weight": 0.3, "width": 2.0, "cost": 1.0}, CHOSEN])
def test_trial__is_what_the_scorer_would_add(choice: dict[str, float]) -> None:
    """To the best labels of each document, as many as the width says."""
    rng = np.random.default_rng(0)
    lengths = np.array([0, 5, 1, 9, 2])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    n = int(indptr[-1])
    ones = np.ones(n, np.float32)
    lists = Shortlists(indptr, rng.integers(30, size=n).astype(np.int32), ones > 0, ones)
    scores = rng.integers(0, 4, n).astype(np.float32)
    margins = {cost: 2 * rng.standard_normal(n, dtype=np.float32) for cost in (1.0, 3.0)}
    judged = Judged(lists, scores, sparse_rows(np.ones((5, 2)), np.float32), np.array([0, 5]), np.zeros(5))
    places = kernels.places_by_score(indptr, scores)
    ref = scores.astype(float)
    for start, stop in pairwise(indptr):
        for pair, place in zip(range(start, stop), naive.places(scores[start:stop]), strict=True):
            if place < choice["width"]:
                ref[pair] += choice["weight"] * (1 + np.clip(margins[choice["cost"]][pair], -1, 1))
    kept = scores.copy()
    np.testing.assert_allclose(_ContrastTrial(judged, margins, places).scores(choice), ref, rtol=1e-5)
    np.testing.assert_array_equal(judged.scores, kept)


# -- passes over ranges -----------------------------------------------------------------------------------


@given(
    work=st.lists(st.integers(0, 9), max_size=40), count=st.integers(1, 50), large=st.sampled_from([0, 300])
)
def test_ranges__cover_all_numbers_once(work: list[int], count: int, large: int) -> None:
    amounts = np.array([*work[:20], large, *work[20:]] if large else work, int)
    ranges = Ranges.of_work(amounts, count)
    segments = ranges.segments()
    assert ranges.n_docs == len(amounts)
    assert 1 <= len(segments) <= max(1, count)
    seen = [number for segment in segments for number in segment.blocks]
    assert seen == list(range(len(segments)))
    blocks = [ranges.block(number) for number in seen]
    rows = [row for block in blocks for row in range(block.first_row, block.first_row + block.X.n_rows)]
    assert rows == list(range(len(amounts)))
    assert [segment.n_docs for segment in segments] == [block.X.n_rows for block in blocks]
    assert not work or all(segment.n_docs for segment in segments)
    share = amounts.sum() / count
    for start, stop in pairwise(ranges.ends):  # but for one number that has more than its share
        assert amounts[start:stop].sum() <= share + amounts[start:stop].max(initial=0)


def test_ranges__are_balanced() -> None:
    work = np.random.default_rng(0).integers(1, 10, 10_000)
    ends = Ranges.of_work(work, 64).ends
    assert len(ends) == 65
    totals = np.add.reduceat(work, ends[:-1])
    assert totals.max() < 1.05 * totals.min()


@pytest.fixture(scope="module")
def look_alikes() -> LookAlikes:
    X, Y = labelled_by_words(150)
    weighted = context_of(X, Y).weighting.of(sparse_rows(X, np.float32))
    known = KnownDocuments(stored_weights(weighted), sparse_rows(Y))
    C = sparse_rows(quarters(90, 30, seed=0, density=0.1), np.float32)
    return LookAlikes(known.X, np.arange(150, dtype=np.int32), known, known.index, C, 6)


def lists_of(work: LookAlikes, ranges: Ranges, n_threads: int = 1) -> np.ndarray:
    return Runner(Threads(n_threads)).run(work, ranges, ranges.segments()).joined("lists")


def test_look_alikes_pass__is_the_same_for_any_ranges(
    look_alikes: LookAlikes, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = look_alikes.X.n_rows
    whole = lists_of(look_alikes, Ranges((0, n)))
    assert whole.shape == (n, 6)
    assert (whole >= 0).mean() > 0.9
    for ends in ((0, 1, n), (0, 40, 40, 41, n), tuple(range(n + 1))):
        np.testing.assert_array_equal(lists_of(look_alikes, Ranges(ends), 2), whole)
    monkeypatch.setattr(parts, "_SLAB", 7)
    np.testing.assert_array_equal(lists_of(look_alikes, Ranges((0, 50, n))), whole)
    assert lists_of(look_alikes, Ranges((0, 0))).shape == (0, 6)


@pytest.mark.parametrize("are_known", [True, False])
def test_look_alikes_pass__is_by_votes_and_words(look_alikes: LookAlikes, are_known: bool) -> None:
    """Of 60 documents, so that all others are looked at; itself only where it is not known."""
    known = KnownDocuments(look_alikes.X.slice(0, 60), look_alikes.known.Y.slice(0, 60))
    own = np.arange(60, dtype=np.int32) if are_known else np.full(60, -1, np.int32)
    work = LookAlikes(known.X, own, known, known.index, look_alikes.postings, 6)
    X, Y = dense_rows(known.X) / UNIT, dense_rows(known.Y)
    docs, similarities = naive_neighbours.neighbours(X, X, COUNT, 0 if are_known else -1)
    votes = naive_neighbours.votes(docs, similarities, Y, 4.0, 0.5)
    ref = naive.look_alikes(votes, X, dense_rows(look_alikes.postings), 6)
    found = lists_of(work, Ranges((0, 25, 60)))
    differ = (found != ref).any(axis=1)  # where rounding decides between neighbours, or between labels
    assert differ.mean() < 0.1
    own = np.full(60, -1, np.int32) if are_known else np.arange(60, dtype=np.int32)
    other = LookAlikes(known.X, own, known, known.index, look_alikes.postings, 6)
    assert (lists_of(other, Ranges((0, 60))) != ref).any(axis=1).mean() > 0.3


def test_word_labels__are_a_memory_of_these_documents(look_alikes: LookAlikes) -> None:
    X, Y = dense_rows(look_alikes.known.X) / UNIT, dense_rows(look_alikes.known.Y)
    sums = X.T @ Y
    found = word_labels(look_alikes.known)
    np.testing.assert_allclose(
        dense_rows(found), 0.5 * sums / (np.linalg.norm(sums, axis=0) + 1), rtol=1e-4, atol=1e-6
    )


def test_classifiers_pass__is_the_same_for_any_ranges() -> None:
    given, _, _ = problem()
    X = SparseRows(*given.words, 30)
    work = Classifiers(X, given.indptr, given.docs, given.cost, SEED, 10**6)
    W, biases = solved(given, STOPPING, (0, 9))
    for ends in ((0, 9), (0, 4, 4, 9), tuple(range(10))):
        ranges = Ranges(ends)
        found = Runner(Threads(2)).run(work, ranges, ranges.segments())
        np.testing.assert_array_equal(found.joined("lengths"), np.diff(W.indptr))
        np.testing.assert_array_equal(found.joined("words"), W.indices)
        np.testing.assert_array_equal(found.joined("weights"), W.values)
        np.testing.assert_array_equal(found.joined("biases"), biases)
    empty = Ranges((0, 0))
    found = Runner(Threads(1)).run(work, empty, empty.segments())
    assert [len(array) for array in found.to_arrays().values()] == [0, 0, 0, 0]


# -- pieces -----------------------------------------------------------------------------------------------


def pieces_of(*ranges: range) -> Pieces:
    sums = Pieces({"lists": [np.zeros((0, 2), np.int32)], "b": [np.zeros(0, np.float32)]})
    for some in ranges:
        numbers = np.array(some)
        sums.append(lists=np.column_stack([numbers, -numbers]).astype(np.int32), b=numbers.astype(np.float32))
    return sums


def test_classifiers_pass__keeps_the_largest_weights_of_a_range() -> None:
    given, _, _ = problem()
    X = SparseRows(*given.words, 30)
    found = [
        Runner().run(
            Classifiers(X, given.indptr, given.docs, given.cost, SEED, most), ranges, ranges.segments()
        )
        for ranges in [Ranges((0, 4, 9))]
        for most in (10**6, 25)
    ]
    every, few = (sums.joined("weights") for sums in found)
    lengths = [sums.joined("lengths") for sums in found]
    assert lengths[1].sum() == len(few) <= 2 * 25 < len(every)
    ends = np.cumsum([0, *lengths[0]])
    for first, last in ((0, 4), (4, 9)):
        own = abs(every[ends[first] : ends[last]])
        np.testing.assert_allclose(np.sort(own)[-25:].sum(), abs(few[:25] if first == 0 else few[25:]).sum())
    assert ((lengths[0] == 0) <= (lengths[1] == 0)).all()


@given(ends=st.lists(st.integers(0, 9), max_size=6), where=st.integers(0, 7))
def test_pieces__merge_in_order(ends: list[int], where: int) -> None:
    cuts = [range(*pair) for pair in pairwise([0, *sorted(ends), 9])]
    one, other = pieces_of(*cuts[:where]), pieces_of(*cuts[where:])
    theirs = other.nbytes
    one.merge(other)
    ref = pieces_of(range(9))
    assert one.nbytes == ref.nbytes
    one.settle()
    one.spill(empty=False, least=1)
    for name in ("lists", "b"):
        np.testing.assert_array_equal(one.joined(name), ref.joined(name), strict=True)
    assert other.nbytes == theirs
    assert one.__sizeof__() == one.nbytes


@pytest.mark.parametrize("ranges", [(), (range(3),), (range(3), range(3, 3), range(3, 8))])
def test_pieces__in_a_file_and_back(tmp_path: Any, ranges: tuple[range, ...]) -> None:
    sums = pieces_of(*ranges)
    write_partial(tmp_path / "sums", sums, {"read": "some"})
    back = read_partial(tmp_path / "sums", pieces_of, {"read": "some"})
    assert back.to_arrays().keys() == sums.to_arrays().keys()
    back.merge(pieces_of(range(8, 9)))
    sums.merge(pieces_of(range(8, 9)))
    for name, array in sums.to_arrays().items():
        np.testing.assert_array_equal(back.joined(name), array, strict=True)
