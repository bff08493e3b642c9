"""Ranking metrics against sklearn, against naive oracles, and over any cutting into blocks."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score, roc_auc_score

from tests import naive_metrics as naive
from threepass.corpus.rows import SparseRows
from threepass.errors import InputError
from threepass.metrics.measures import (
    RELIABILITY_EDGES,
    RankingSums,
    ReliabilitySums,
    document_auc,
    propensities,
    ranking_sums,
    reliability_sums,
)

SHAPES = [(0, 5), (3, 0), (0, 0), (4, 1), (1, 2), (6, 7), (40, 30)]


def as_rows(Y):
    """`SparseRows` of (n, L) bool labels."""
    indptr = np.concatenate([[0], np.cumsum(Y.sum(axis=1))]).astype(np.int64)
    return SparseRows(indptr, np.nonzero(Y)[1].astype(np.int32), None, Y.shape[1])


def random_labels(rng, n, L):
    """(n, L) bool labels; the first row has none and the second has all, where there are such rows."""
    Y = rng.random((n, L)) < rng.random((n, 1))
    Y[:1] = False
    Y[1:2] = True
    return Y


def random_topk(rng, n, L, k_max):
    """(n, k_max) distinct random labels, with -1 after the last one and at some ranks before."""
    topk = np.full((n, k_max), -1)
    width = min(L, k_max)
    topk[:, :width] = np.argsort(rng.random((n, L)), axis=1)[:, :width]
    topk[rng.random((n, k_max)) < 0.1] = -1
    return topk


def assert_same_metrics(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decimals", [0, 1, 9])
@pytest.mark.parametrize(("n", "L"), SHAPES)
def test_document_auc__naive(n, L, decimals, dtype):
    rng = np.random.default_rng(n + L)
    scores = rng.standard_normal((n, L)).round(decimals).astype(dtype)
    Y = random_labels(rng, n, L)
    auc = document_auc(scores, as_rows(Y))
    assert auc.dtype == np.float64
    np.testing.assert_allclose(auc, naive.document_auc(scores, Y), rtol=1e-14)


@pytest.mark.parametrize("levels", [2, 10, 10**9])
def test_document_auc__sklearn(levels):
    rng = np.random.default_rng(levels)
    n, L = 30, 500
    scores = rng.integers(levels, size=(n, L)).astype(np.float64)
    Y = rng.random((n, L)) < 0.1
    expected = [roc_auc_score(y, s) for y, s in zip(Y, scores, strict=True)]
    np.testing.assert_allclose(document_auc(scores, as_rows(Y)), expected, rtol=1e-12)


def test_document_auc__undefined_without_both_kinds():
    Y = np.array([[False, False], [True, True], [True, False]])
    scores = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    np.testing.assert_array_equal(document_auc(scores, as_rows(Y)), [math.nan, math.nan, 0.0])


def test_document_auc__infinite_scores_tie():
    Y = np.array([[True, False, False, True]])
    scores = np.array([[-np.inf, -np.inf, np.inf, np.inf]])
    np.testing.assert_array_equal(document_auc(scores, as_rows(Y)), [(0.5 + 0.0 + 1.0 + 0.5) / 4])


def test_document_auc__any_memory_layout():
    rng = np.random.default_rng(0)
    scores, Y = rng.random((12, 9)), random_labels(rng, 12, 9)
    expected = document_auc(scores, as_rows(Y))
    read_only = scores.copy()
    read_only.flags.writeable = False
    for same in (np.asfortranarray(scores), np.repeat(scores, 2, axis=1)[:, ::2], read_only):
        np.testing.assert_array_equal(document_auc(same, as_rows(Y)), expected)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_document_auc__refuses_nan(label):
    Y = np.array([[True, False, False], [False, True, False]])
    scores = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    scores[1, label] = math.nan
    with pytest.raises(InputError, match="row 1"):
        document_auc(scores, as_rows(Y))


def test_document_auc__refuses_other_shape():
    with pytest.raises(InputError, match=r"\(2, 4\)"):
        document_auc(np.zeros((2, 4)), as_rows(np.zeros((2, 3), bool)))


@pytest.mark.parametrize("constants", [{}, {"A": 0.5, "B": 0.4}])
def test_propensities__naive(constants):
    counts = np.array([0, 1, 2, 50, 1000])
    expected = naive.propensities(counts, 1000, **constants)
    np.testing.assert_allclose(propensities(counts, 1000, **constants), expected, rtol=1e-14)


@pytest.mark.parametrize("n_docs", [0, 1, 2])
def test_propensities__tiny_corpus(n_docs):
    np.testing.assert_array_equal(propensities(np.array([0, n_docs]), n_docs), [1.0, 1.0])


def test_propensities__no_labels():
    assert propensities(np.array([], np.int64), 100).shape == (0,)


@pytest.mark.parametrize("k_max", [0, 2, 5, 12])
@pytest.mark.parametrize(("n", "L"), SHAPES)
def test_ranking_sums__naive(n, L, k_max):
    rng = np.random.default_rng(n + L + k_max)
    Y = random_labels(rng, n, L)
    topk = random_topk(rng, n, L, k_max)
    weights = 1.0 + rng.exponential(size=L)
    auc = naive.document_auc(rng.random((n, L)), Y)
    for ks in [(1, 3, 5), (4,), (10, 2)]:
        found = ranking_sums(topk, as_rows(Y), ks, weights, auc).finish()
        assert_same_metrics(found, naive.metrics(topk, Y, ks, weights, auc))


def test_ranking_sums__by_hand():
    Y = np.array([[True, True, False, False], [False, False, True, False], [False, False, False, False]])
    topk = np.array([[1, 3], [0, 2], [0, 1]])
    weights = np.array([4.0, 2.0, 3.0, 1.0])
    found = ranking_sums(topk, as_rows(Y), (1, 2), weights, np.array([0.5, 1.0, math.nan])).finish()
    half = 1 / math.log2(3)  # discount of the second rank
    expected = {
        "n_docs": 3,
        "n_unlabelled": 1,
        "auc": 0.75,
        "n_auc_skipped": 1,
        "p@1": 1 / 3,
        "p@2": (1 / 2 + 1 / 2) / 3,
        "recall@1": (1 / 2 + 0) / 2,
        "recall@2": (1 / 2 + 1) / 2,
        "ndcg@1": (1 + 0) / 2,
        "ndcg@2": (1 / (1 + half) + half) / 2,
        "psp@1": (2 + 0) / (4 + 3),
        "psp@2": (2 + 3) / (4 + 2 + 3),
        "psndcg@1": (2 + 0) / (4 + 3),
        "psndcg@2": (2 / (1 + half) + 3 * half) / ((4 + 2 * half) / (1 + half) + 3),
    }
    assert_same_metrics(found, expected)


def test_ranking_sums__sklearn():
    rng = np.random.default_rng(3)
    scores = rng.random((50, 20))
    Y = random_labels(rng, 50, 20)
    topk = np.argsort(-scores, axis=1)[:, :5]
    found = ranking_sums(topk, as_rows(Y)).finish()
    labelled = Y.any(axis=1)
    for k in (1, 3, 5):
        hits = np.take_along_axis(Y, topk[:, :k], axis=1)
        assert found[f"p@{k}"] == pytest.approx(hits.mean(), rel=1e-12)
        expected = ndcg_score(Y[labelled], scores[labelled], k=k)
        assert found[f"ndcg@{k}"] == pytest.approx(expected, rel=1e-12)


def test_ranking_sums__best_ranking_scores_one():
    rng = np.random.default_rng(4)
    Y = random_labels(rng, 30, 15)
    weights = 1.0 + rng.exponential(size=15)
    topk = np.argsort(-np.where(Y, weights, 0.0), axis=1)[:, :5]
    found = ranking_sums(topk, as_rows(Y), inverse_propensity=weights).finish()
    for k in (1, 3, 5):
        for name in ("ndcg", "psp", "psndcg"):
            assert found[f"{name}@{k}"] == pytest.approx(1.0, rel=1e-12)


def test_ranking_sums__label_values_do_not_count():
    rng = np.random.default_rng(5)
    Y = as_rows(random_labels(rng, 10, 6))
    weighted = SparseRows(Y.indptr, Y.indices, rng.random(Y.nnz) + 2.0, Y.n_columns)
    topk = random_topk(rng, 10, 6, 5)
    assert_same_metrics(ranking_sums(topk, weighted).finish(), ranking_sums(topk, Y).finish())


def test_ranking_sums__memory_does_not_grow_with_labels():
    n, L = 100, 10**9
    Y = SparseRows(np.arange(n + 1), np.full(n, L - 1, np.int32), None, L)
    topk = np.full((n, 5), L - 1)
    ranking_sums(topk[:1], Y.slice(0, 1))  # compile before measuring
    tracemalloc.start()
    ranking_sums(topk, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"topk": np.zeros((3, 5), np.int64)}, "topk needs an entry for each document. Found 3 for 2"),
        (
            {"inverse_propensity": np.ones(5)},
            "inverse_propensity needs an entry for each label. Found 5 for 4",
        ),
        ({"auc": np.ones(1)}, "auc needs an entry for each document. Found 1 for 2"),
        ({"ks": (1, 0)}, r"Found \(1, 0\)"),
    ],
)
def test_ranking_sums__refuses_what_does_not_fit(arguments, message):
    fitting = {"topk": np.zeros((2, 5), np.int64), "Y": as_rows(np.zeros((2, 4), bool))}
    with pytest.raises(InputError, match=message):
        ranking_sums(**fitting | arguments)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 12),
    L=st.integers(0, 8),
    cuts=st.lists(st.integers(0, 12), max_size=6),
    data=st.data(),
)
def test_merge__any_cutting_and_grouping(seed, n, L, cuts, data):
    rng = np.random.default_rng(seed)
    Y = random_labels(rng, n, L)
    rows = as_rows(Y)
    topk = random_topk(rng, n, L, 5)
    weights = 1.0 + rng.exponential(size=L)
    auc = document_auc(rng.random((n, L)), rows)
    edges = sorted([0, n, *(min(cut, n) for cut in cuts)])
    blocks = [RankingSums.zero()]
    for start, stop in itertools.pairwise(edges):
        block = slice(start, stop)
        blocks.append(ranking_sums(topk[block], rows.slice(start, stop), (1, 3, 5), weights, auc[block]))
    while len(blocks) > 1:
        place = data.draw(st.integers(0, len(blocks) - 2))
        blocks[place : place + 2] = [blocks[place].merge(blocks[place + 1])]
    assert_same_metrics(blocks[0].finish(), naive.metrics(topk, Y, (1, 3, 5), weights, auc))


def test_merge__leaves_operands_alone():
    Y = as_rows(np.array([[True, False]]))
    sums = ranking_sums(np.array([[0, 1]]), Y, (1, 2), np.ones(2), np.ones(1))
    before = sums.finish()
    sums.merge(sums)
    assert sums.finish() == before


def test_merge__refuses_other_ks():
    with pytest.raises(InputError, match=r"\(1, 3\) and \(1, 5\)"):
        RankingSums.zero((1, 3)).merge(RankingSums.zero((1, 5)))


@pytest.mark.parametrize("given_once", [{"auc": np.ones(1)}, {"inverse_propensity": np.ones(2)}])
def test_merge__refuses_metrics_of_some_documents(given_once):
    topk, Y = np.array([[0, 1]]), as_rows(np.array([[True, False]]))
    whole, lacking = ranking_sums(topk, Y, **given_once), ranking_sums(topk, Y)
    for first, second in [(whole, lacking), (lacking, whole)]:
        with pytest.raises(InputError, match=r"some documents only\. Found 1 without"):
            first.merge(second)


def test_finish__no_documents():
    found = RankingSums.zero((1, 2)).finish()
    assert found.pop("n_docs") == found.pop("n_unlabelled") == 0
    assert sorted(found) == ["ndcg@1", "ndcg@2", "p@1", "p@2", "recall@1", "recall@2"]
    assert all(math.isnan(value) for value in found.values())


def test_finish__no_documents_but_all_metrics():
    nothing = SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int32), None, 3)
    found = ranking_sums(np.zeros((0, 5), np.int64), nothing, (1,), np.ones(3), np.ones(0)).finish()
    assert found.pop("n_docs") == found.pop("n_unlabelled") == found.pop("n_auc_skipped") == 0
    assert sorted(found) == ["auc", "ndcg@1", "p@1", "psndcg@1", "psp@1", "recall@1"]
    assert all(math.isnan(value) for value in found.values())


def test_zero__refuses_bad_cutoffs():
    with pytest.raises(InputError, match=r"Found \(0,\)"):
        RankingSums.zero((0,))


def random_probabilities(rng, n, L, dtype=np.float64):
    """(n, L) in [0, 1], most of them small, with exact zeros, ones and edges of bins."""
    probabilities = rng.random((n, L)) ** 4
    special = rng.random((n, L)) < 0.3
    probabilities[special] = rng.choice(RELIABILITY_EDGES, special.sum())
    return probabilities.astype(dtype)


def assert_same_reliability(found, expected, rtol=1e-12):
    assert found.keys() == expected.keys() == {"brier", "reliability"}
    np.testing.assert_allclose(found["brier"], expected["brier"], rtol=rtol)
    assert len(found["reliability"]) == len(expected["reliability"])
    for row, ref in zip(found["reliability"], expected["reliability"], strict=True):
        assert row == pytest.approx(ref, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "L"), SHAPES)
def test_reliability_sums__naive(n, L, dtype):
    rng = np.random.default_rng(n + L)
    probabilities, Y = random_probabilities(rng, n, L, dtype), random_labels(rng, n, L)
    found = reliability_sums(probabilities, as_rows(Y)).finish()
    rtol = 1e-12 if dtype == np.float64 else 1e-6  # single precision is squared in single precision
    assert_same_reliability(found, naive.reliability(probabilities, Y, RELIABILITY_EDGES), rtol)
    assert sum(row["pairs"] for row in found["reliability"]) == n * L


def test_reliability_sums__by_hand():
    probabilities = np.array([[0.0, 1.0, 0.25], [0.22, 0.0, 0.75]])
    Y = np.array([[False, True, True], [False, True, False]])
    found = reliability_sums(probabilities, as_rows(Y)).finish()
    assert found["brier"] == pytest.approx((0.75**2 + 0.22**2 + 1 + 0.75**2) / 6)
    assert found["reliability"] == [
        {"from": 0.0, "to": 0.001, "pairs": 2, "predicted": 0.0, "observed": 0.5},
        {"from": 0.2, "to": 0.3, "pairs": 2, "predicted": pytest.approx(0.235), "observed": 0.5},
        {"from": 0.7, "to": 0.8, "pairs": 1, "predicted": 0.75, "observed": 0.0},
        {"from": 0.9, "to": 1.0, "pairs": 1, "predicted": 1.0, "observed": 1.0},
    ]


@pytest.mark.parametrize("place", range(len(RELIABILITY_EDGES)))
def test_reliability_sums__an_edge_belongs_to_the_bin_above(place):
    edge = RELIABILITY_EDGES[place]
    last = len(RELIABILITY_EDGES) - 2
    for probability, expected in [(edge, min(place, last)), (math.nextafter(edge, -1), place - 1)]:
        if 0 <= probability <= 1:
            sums = reliability_sums(np.array([[probability]]), as_rows(np.array([[True]])))
            assert np.flatnonzero(sums.bins[0]).tolist() == [expected]
            (row,) = sums.finish()["reliability"]
            assert (row["from"], row["to"]) == (RELIABILITY_EDGES[expected], RELIABILITY_EDGES[expected + 1])


def test_reliability_sums__honest_probabilities_are_observed():
    rng = np.random.default_rng(0)
    probabilities = rng.random((500, 200))
    found = reliability_sums(probabilities, as_rows(rng.random((500, 200)) < probabilities)).finish()
    for row in found["reliability"]:
        assert row["from"] <= row["predicted"] <= row["to"]
        assert row["observed"] == pytest.approx(row["predicted"], abs=4 / math.sqrt(row["pairs"]) / 2)
    assert found["brier"] == pytest.approx(1 / 6, abs=0.005)  # the mean of p (1 - p)


@pytest.mark.parametrize(("probability", "brier"), [(0.0, 0.25), (1.0, 0.75), (0.25, 0.1875)])
def test_reliability_sums__constant(probability, brier):
    Y = np.arange(40).reshape(10, 4) % 4 == 0
    found = reliability_sums(np.full((10, 4), probability), as_rows(Y)).finish()
    assert found["brier"] == pytest.approx(brier)
    (row,) = found["reliability"]
    assert (row["pairs"], row["predicted"], row["observed"]) == (40, probability, 0.25)


def test_reliability_sums__any_memory_layout_and_label_values():
    rng = np.random.default_rng(5)
    probabilities, Y = random_probabilities(rng, 12, 9), as_rows(random_labels(rng, 12, 9))
    expected = reliability_sums(probabilities, Y).finish()
    read_only = probabilities.copy()
    read_only.flags.writeable = False
    for same in (np.asfortranarray(probabilities), np.repeat(probabilities, 2, axis=1)[:, ::2], read_only):
        assert reliability_sums(same, Y).finish() == expected
    weighted = SparseRows(Y.indptr, Y.indices, rng.random(Y.nnz) + 2.0, Y.n_columns)
    assert reliability_sums(probabilities, weighted).finish() == expected


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 12),
    L=st.integers(0, 8),
    cuts=st.lists(st.integers(0, 12), max_size=6),
    data=st.data(),
)
def test_reliability_merge__any_cutting_and_grouping(seed, n, L, cuts, data):
    rng = np.random.default_rng(seed)
    probabilities, Y = random_probabilities(rng, n, L), random_labels(rng, n, L)
    rows = as_rows(Y)
    edges = sorted([0, n, *(min(cut, n) for cut in cuts)])
    blocks = [ReliabilitySums.zero()]
    blocks += [reliability_sums(probabilities[a:b], rows.slice(a, b)) for a, b in itertools.pairwise(edges)]
    while len(blocks) > 1:
        place = data.draw(st.integers(0, len(blocks) - 2))
        blocks[place : place + 2] = [blocks[place].merge(blocks[place + 1])]
    assert_same_reliability(blocks[0].finish(), naive.reliability(probabilities, Y, RELIABILITY_EDGES))


def test_reliability_merge__leaves_operands_alone():
    sums, zero = (
        reliability_sums(np.array([[0.3, 0.6]]), as_rows(np.array([[True, False]]))),
        ReliabilitySums.zero(),
    )
    before = sums.finish()
    twice = sums.merge(zero).merge(sums)
    assert sums.finish() == before
    assert zero.bins.sum() == zero.squares == 0
    assert twice.finish()["brier"] == pytest.approx(before["brier"])
    assert [row["pairs"] for row in twice.finish()["reliability"]] == [2, 2]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_reliability_finish__no_documents(shape):
    for sums in (ReliabilitySums.zero(), reliability_sums(np.zeros(shape), as_rows(np.zeros(shape, bool)))):
        found = sums.finish()
        assert math.isnan(found["brier"])
        assert found["reliability"] == []
