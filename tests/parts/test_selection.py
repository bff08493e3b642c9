"""Shortlists of labels, the measures made on them, and the best threshold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_selection as naive
from tests.naive_scoring import top_labels
from threepass.corpus.convert import as_rows
from threepass.corpus.rows import SparseRows
from threepass.metrics.measures import document_auc, ranking_sums
from threepass.parts import selection
from threepass.parts.selection import Knots, Shortlists, best_threshold, goodness, means
from threepass.parts.selection_kernels import make_shortlist

Scores = Callable[[slice], Sequence[np.ndarray]]


def random_labels(n: int, n_labels: int, mean: float = 3.0, seed: int = 0) -> np.ndarray:
    """(n, L) bool; the first document has no label, the second one all, where there are such documents."""
    rng = np.random.default_rng([n, n_labels, seed])
    Y = rng.random((n, n_labels)) < min(0.5, mean / max(1, n_labels))
    Y[:1], Y[1:2] = False, True
    return Y


def label_rows(Y: np.ndarray) -> SparseRows:
    return as_rows(Y * 1, "Y", indicator=True)


def by_rows(*dense: np.ndarray) -> Scores:
    """The scores of each part, of some documents."""
    return lambda rows: [part[rows] for part in dense]


def documents_of(lists: Shortlists) -> np.ndarray:
    """The document of each pair."""
    return np.repeat(np.arange(len(lists.indptr) - 1), np.diff(lists.indptr))


def per_document(lists: Shortlists) -> list[slice]:
    return [slice(start, stop) for start, stop in pairwise(lists.indptr.tolist())]


def at_pairs(lists: Shortlists, dense: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(dense[documents_of(lists), lists.labels])


def exact_measures(dense: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    """Over all labels of the documents that have some."""
    labelled = Y.any(axis=1)
    rows = label_rows(Y[labelled])
    auc = document_auc(dense[labelled], rows)
    best = top_labels(dense[labelled], 5)[0]
    found = ranking_sums(best, rows, (1, 3, 5), auc=auc).finish()
    return {name: found[name] for name in ("auc", "p@1", "p@3", "p@5")}


def assert_same_measures(found: dict[str, float], expected: dict[str, float]) -> None:
    assert list(found) == ["auc", "p@1", "p@3", "p@5"]
    assert found == pytest.approx(expected, rel=1e-9)


# -- shortlists of all labels -------------------------------------------------------------------------------


def never(rows: slice) -> Sequence[np.ndarray]:
    raise AssertionError("no scores are needed for this")


@pytest.mark.parametrize(("n", "n_labels"), [(0, 4), (1, 1), (5, 1), (9, 3), (30, 5), (40, 100)])
def test_shortlists__all_labels_when_they_are_few(n: int, n_labels: int) -> None:
    Y = random_labels(n, n_labels)
    lists = Shortlists.of(label_rows(Y), never, seed=0)
    np.testing.assert_array_equal(lists.indptr, n_labels * np.arange(n + 1))
    np.testing.assert_array_equal(lists.labels.reshape(n, n_labels), np.tile(np.arange(n_labels), (n, 1)))
    np.testing.assert_array_equal(lists.hits.reshape(n, n_labels), Y)
    np.testing.assert_array_equal(lists.weights, 1)
    np.testing.assert_array_equal(documents_of(lists), np.repeat(np.arange(n), n_labels))
    assert (lists.labels.dtype, lists.hits.dtype, lists.weights.dtype) == (np.int32, bool, np.float32)


@pytest.mark.parametrize("decimals", [0, 1, 6])
@pytest.mark.parametrize(("n", "n_labels"), [(2, 1), (9, 3), (30, 5), (60, 40), (10, 100)])
def test_measures__are_exact_with_all_labels(n: int, n_labels: int, decimals: int) -> None:
    Y = random_labels(n, n_labels)
    rng = np.random.default_rng(n)
    dense = (rng.standard_normal((n, n_labels)) + Y).round(decimals).astype(np.float32)
    lists = Shortlists.of(label_rows(Y), never, seed=0)
    found = lists.measures(at_pairs(lists, dense))
    expected = exact_measures(dense, Y)
    if n_labels == 1:  # a pair of labels is needed
        assert np.isnan(expected["auc"])
        expected["auc"] = 0.0
    assert_same_measures(found, expected)


# -- shortlists of some labels ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_parts", [1, 2, 3])
@pytest.mark.parametrize("n_labels", [257, 600])
def test_shortlists__own_labels_best_ones_and_some_drawn(n_labels: int, n_parts: int) -> None:
    n, best = 25, selection._BEST
    Y = random_labels(n, n_labels, 4)
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((n, n_labels)).astype(np.float32) for _ in range(n_parts)]
    lists = Shortlists.of(label_rows(Y), by_rows(*parts), seed=3)
    n_drawn, all_drawn = [], []
    for d, pairs in enumerate(per_document(lists)):
        labels, weights = lists.labels[pairs], lists.weights[pairs]
        assert (np.diff(labels) > 0).all()
        np.testing.assert_array_equal(lists.hits[pairs], Y[d, labels])
        listed = set(np.flatnonzero(Y[d])).union(*(np.argsort(-part[d])[:best] for part in parts))
        assert listed <= set(labels)
        drawn = ~np.isin(labels, list(listed))
        np.testing.assert_array_equal(weights[~drawn], 1)
        assert weights[drawn].sum() == pytest.approx(n_labels - len(listed), rel=1e-5)
        assert len(set(weights[drawn])) <= 1
        n_drawn.append(drawn.sum())
        all_drawn += labels[drawn].tolist()
        assert (drawn.sum() == 0) == (len(listed) == n_labels)
    assert n_drawn[1] == 0
    # some draws repeat themselves or what is listed; every label is as likely to be drawn
    assert 0.3 * selection._DRAWN < np.mean(n_drawn) <= selection._DRAWN
    thirds = np.histogram(all_drawn, 3, (0, n_labels))[0] / len(all_drawn)
    np.testing.assert_allclose(thirds, 1 / 3, atol=0.05)


def test_shortlists__do_not_depend_on_how_scores_come() -> None:
    Y = random_labels(20, 300)
    part = np.random.default_rng(1).standard_normal((20, 300)).astype(np.float32)
    whole = Shortlists.of(label_rows(Y), by_rows(part), seed=3)
    for step in (1, 3, 20):
        lists = Shortlists.of(label_rows(Y), by_rows(part), seed=3, score_bytes=step * 4 * 300)
        np.testing.assert_array_equal(lists.labels, whole.labels)
        np.testing.assert_array_equal(lists.weights, whole.weights)
    other = Shortlists.of(label_rows(Y), by_rows(part), seed=4)
    assert set(zip(documents_of(other), other.labels, strict=True)) != set(
        zip(documents_of(whole), whole.labels, strict=True)
    )


@pytest.mark.parametrize("signal", [0.0, 1.0, 2.5])
def test_measures__estimate_the_exact_ones(signal: float) -> None:
    Y = random_labels(150, 1500, 6, seed=2)
    Y[1] = random_labels(3, 1500, 6)[2]
    rng = np.random.default_rng(5)
    dense = (rng.standard_normal(Y.shape) + signal * Y).astype(np.float32)
    other = rng.standard_normal(Y.shape).astype(np.float32)
    expected = exact_measures(dense, Y)
    lists = Shortlists.of(label_rows(Y), by_rows(dense, other), seed=0)
    assert len(lists.labels) < 0.15 * Y.size
    found = lists.measures(at_pairs(lists, dense))
    assert found.pop("auc") == pytest.approx(expected.pop("auc"), abs=0.01)
    assert found == pytest.approx(expected)  # the best five are on the list
    # scores that had no part in making the lists: P@k may only look better, for rivals are missing
    unseen = (rng.standard_normal(Y.shape) + signal * Y).astype(np.float32)
    found, expected = lists.measures(at_pairs(lists, unseen)), exact_measures(unseen, Y)
    assert found["auc"] == pytest.approx(expected["auc"], abs=0.01)
    assert all(found[name] >= expected[name] for name in ("p@1", "p@3", "p@5"))


@given(
    n=st.integers(0, 5),
    n_labels=st.integers(1, 12),
    n_best=st.integers(0, 6),
    n_drawn=st.integers(0, 8),
    seed=st.integers(0, 2**32 - 1),
)
def test_make_shortlist__equals_the_plain_one(
    n: int, n_labels: int, n_best: int, n_drawn: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    Y = rng.random((n, n_labels)) < 0.3
    best = rng.integers(-1, n_labels, (n, n_best)).astype(np.int32)
    drawn = rng.integers(n_labels, size=(n, n_drawn))
    rows = label_rows(Y)
    indptr, labels, hits, weights = make_shortlist(best, rows.indptr, rows.indices, drawn, n_labels)
    assert indptr[0] == 0
    assert indptr[-1] == len(labels) == len(hits) == len(weights)
    for d in range(n):
        pairs = slice(indptr[d], indptr[d + 1])
        ref = naive.shortlist(best[d], np.flatnonzero(Y[d]), drawn[d], n_labels)
        assert labels[pairs].tolist() == [label for label, _, _ in ref]
        assert hits[pairs].tolist() == [hit for _, hit, _ in ref]
        np.testing.assert_allclose(weights[pairs], [weight for _, _, weight in ref], rtol=1e-6)


# -- products -----------------------------------------------------------------------------------------------


def some_lists(n: int = 12, n_labels: int = 40, seed: int = 0) -> Shortlists:
    """A few of the labels of each document, one document with none of them."""
    rng = np.random.default_rng(seed)
    Y = random_labels(n, n_labels)
    Y[1] = False
    rows = label_rows(Y)
    best = rng.integers(n_labels, size=(n, 6)).astype(np.int32)
    best[0] = -1
    drawn = rng.integers(n_labels, size=(n, 0))
    return Shortlists(*make_shortlist(best, rows.indptr, rows.indices, drawn, n_labels))


@pytest.mark.parametrize("p", [0, 1, 30])
def test_products__equal_dense_ones(p: int) -> None:
    lists, rng = some_lists(), np.random.default_rng(p)
    F, A = (rng.standard_normal((size, p)).astype(np.float32) for size in (12, 40))
    found = lists.products(F, A)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, at_pairs(lists, F @ A.T), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_knots", [2, 3, 9])
@pytest.mark.parametrize("p", [0, 1, 30])
def test_knot_products__give_any_function_that_is_straight_between_knots(p: int, n_knots: int) -> None:
    lists, rng = some_lists(), np.random.default_rng([p, n_knots])
    F, A = (rng.standard_normal((size, p)).astype(np.float32) for size in (12, 40))
    knots = np.sort(rng.uniform(-1, 1, n_knots))
    columns = np.sort(rng.uniform(-1.5, 1.5, p))  # some of them beyond the ends
    found = lists.knot_products(F, A, Knots.of(columns, knots))
    assert found.shape == (n_knots, len(lists.labels))
    for _ in range(3):
        heights = rng.standard_normal(n_knots)
        ref = F * np.interp(columns, knots, heights).astype(np.float32) @ A.T
        np.testing.assert_allclose(heights @ found, at_pairs(lists, ref), rtol=1e-3, atol=1e-4)


# -- measures -----------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 12), max_size=6),
    levels=st.sampled_from([1, 3, 1000]),
    rate=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_shortlist_measures__equal_the_plain_ones(
    sizes: list[int], levels: int, rate: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n = indptr[-1]
    scores = (rng.integers(levels, size=n) - levels // 2).astype(np.float32)
    hits = rng.random(n) < rate
    weights = rng.uniform(1, 9, n).astype(np.float32)
    documents = [(scores[a:b], hits[a:b], weights[a:b]) for a, b in pairwise(indptr)]
    lists = Shortlists(indptr, np.arange(n, dtype=np.int32), hits, weights)
    assert lists.measures(scores) == pytest.approx(naive.measures(documents), abs=1e-6)
    found = lists.by_document(scores)
    for d, document in enumerate(documents):
        ref = naive.measures([document]).values()
        assert np.isnan(found[d]).all() == (not document[1].any())
        np.testing.assert_allclose(np.nan_to_num(found[d]), list(ref), atol=1e-6)
        some = slice(d, len(documents))
        np.testing.assert_array_equal(lists.by_document(scores[lists.pairs_of(some)], some), found[some])


def test_shortlist_measures__by_hand() -> None:
    # one hit above a label that stands for three, below a label that stands for itself; a document without
    # hits; one without others
    indptr = np.array([0, 3, 5, 6])
    hits = np.array([False, True, False, False, False, True])
    weights = np.array([1, 1, 3, 1, 1, 1], np.float32)
    lists = Shortlists(indptr, np.arange(6, dtype=np.int32), hits, weights)
    measured = lists.by_document(np.array([9, 5, 2, 1, 0, -7], np.float32))
    assert means(measured) == pytest.approx([3 / 4, 1 / 2, (1 / 3 + 1 / 3) / 2, (1 / 5 + 1 / 5) / 2])


def test_goodness__by_hand() -> None:
    measured = np.array([[0.75, 0.9, 0.6, 0.3], [np.nan, 1, 1 / 3, 1 / 5], [np.nan] * 4])
    np.testing.assert_allclose(goodness(measured), [1.35, 1 + (1 + 1 / 3 + 1 / 5) / 3, np.nan])


# -- thresholds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decimals", [0, 1, 6])
@pytest.mark.parametrize("n", [1, 2, 9, 200])
def test_best_threshold__equals_the_plain_one(n: int, decimals: int) -> None:
    rng = np.random.default_rng([n, decimals])
    scores = rng.random(n).round(decimals).astype(np.float32)
    hits = rng.random(n) < scores
    hits[0] = True
    weights = rng.integers(1, 5, n).astype(np.float32)
    threshold, f1 = best_threshold(scores, hits, weights)
    expected, lowest = naive.best_f1(scores.tolist(), hits, weights.astype(float))
    assert f1 == pytest.approx(expected, rel=1e-12)
    assert threshold <= lowest
    np.testing.assert_array_equal(scores >= threshold, scores >= lowest)


def test_best_threshold__by_hand() -> None:
    scores = np.array([0.2, 0.9, 0.5, 0.5], np.float32)
    threshold, f1 = best_threshold(scores, np.array([0, 1, 1, 0], bool), np.ones(4, np.float32))
    assert f1 == pytest.approx(2 * 2 / (3 + 2))
    assert threshold == pytest.approx(0.35)
