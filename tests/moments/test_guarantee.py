"""Theorem 1 recomputed from its text, and error bars that are about as large as the errors."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize

from tests import naive_moments as naive
from tests.conftest import random_matrices
from tests.moments.conftest import learn
from tests.passes.conftest import run
from threepass import InputError, ingest_matrices, ingest_planted
from threepass.ingest.synthetic import Lengths, Planted, planted_truth
from threepass.moments.error_bars import ErrorBars, half_directions, word_error_bars
from threepass.moments.guarantee import Guarantee, guarantee
from threepass.moments.pairs import Pairs, Statistics
from threepass.moments.tensor import decompose
from threepass.moments.triples import Triples, WhitenedMoments
from threepass.moments.words import WordView

SIGMA = np.array([0.03, 0.02, 0.005])
PI = np.array([0.5, 0.3, 0.2])
BARS = ErrorBars(np.array([0.1, 0.3, 0.2]), np.array([0.2, np.nan, 0.6]))


def statistics(X: np.ndarray, Y: np.ndarray, counts: bool = False, drop: bool = False) -> Statistics:
    return Statistics(**naive.statistics(X, Y, counts, drop))


def evaluated(stats: Statistics, drop: bool = False, delta: float = 0.05) -> Guarantee:
    return guarantee(stats, drop, SIGMA, PI, BARS, delta)


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("counts", [False, True])
def test_guarantee__equals_the_theorem(counts: bool, drop: bool, delta: float) -> None:
    X, Y = random_matrices(40, 15, 6)
    lengths = [len(naive.tokens(row, counts)) for row in X]
    expected = naive.theorem_1(lengths, Y.sum(axis=1), SIGMA, PI, delta)
    found = evaluated(statistics(X, Y, counts, drop), drop, delta)
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-12), name
    assert (found.n_docs, found.n_components, found.delta) == (40, 3, delta)
    assert (found.sigma_1, found.sigma_k) == (0.03, 0.005)


def test_guarantee__averages_of_a_corpus_are_the_same_with_and_without_self_pairs(tmp_path: Path) -> None:
    X, Y = random_matrices(60, 23, 7)
    corpus = ingest_matrices(X, Y, tmp_path / "c.zarr", block_bytes=700)
    for counts in (False, True):
        averages = []
        for drop in (False, True):
            found = evaluated(run(Pairs(WordView(counts, drop), 23), corpus).statistics, drop)
            averages.append((found.d2s, found.d3s, found.dls))
        assert averages[0] == pytest.approx(averages[1], rel=1e-12)
    n = (X > 0).sum(axis=1)
    found = evaluated(statistics(X, Y))
    assert found.d2s == pytest.approx(np.mean(n**2.0))


def test_guarantee__bounds_fall_with_the_documents_and_with_delta() -> None:
    X, Y = random_matrices(40, 15, 6)
    small = statistics(X, Y)
    large = statistics(np.tile(X, (4, 1)), np.tile(Y, (4, 1)))
    for name in ("bound_words", "bound_labels", "bound_weights"):
        assert getattr(evaluated(large), name) == pytest.approx(getattr(evaluated(small), name) / 2)
        assert getattr(evaluated(small, delta=0.5), name) < getattr(evaluated(small, delta=0.01), name)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_guarantee__delta_is_a_probability(delta: float) -> None:
    with pytest.raises(InputError, match=r"delta is a probability. Found .*between 0 and 1"):
        evaluated(statistics(*random_matrices(20, 9, 3)), delta=delta)


def test_sentence__says_nothing_at_n() -> None:
    found = evaluated(statistics(*random_matrices(40, 15, 6)))
    assert not found.says_something
    assert "says nothing at N = 40:" in found.sentence
    needed = float(found.sentence.split("need about ")[1].split(" documents")[0])
    at_that = replace_docs(found, needed)
    assert min(at_that[0] / math.sqrt(2), at_that[1] / math.sqrt(2), at_that[2]) == pytest.approx(1, rel=0.05)


def replace_docs(found: Guarantee, n_docs: float) -> tuple[float, float, float]:
    """The three bounds at another number of documents like these."""
    shrink = math.sqrt(found.n_docs / n_docs)
    return found.bound_words * shrink, found.bound_labels * shrink, found.bound_weights * shrink


def test_sentence__says_something_for_very_many_documents() -> None:
    few = statistics(*random_matrices(40, 15, 6))
    scale = 10**22
    many = Statistics(**{name: int(value) * scale for name, value in asdict(few).items()})
    found = evaluated(many)
    assert found.n_docs == 40 * scale
    assert found.says_something
    assert found.bound_words < math.sqrt(2)
    assert "holds with probability 0.95" in found.sentence
    assert f"{found.bound_words:.3g} (words)" in found.sentence
    for name, limit in (("bound_words", 1.4), ("bound_labels", 1.4), ("bound_weights", 0.9)):
        nothing = {"bound_words": 2.0, "bound_labels": math.inf, "bound_weights": 1.0}
        assert not replace(found, **nothing).says_something
        assert replace(found, **{**nothing, name: limit}).says_something


def test_guarantee__measured_bars_are_medians_of_what_is_known() -> None:
    found = evaluated(statistics(*random_matrices(40, 15, 6)))
    assert found.measured_words == pytest.approx(0.2)
    assert found.measured_labels == pytest.approx(0.4)
    assert "0.2 in its words and 0.4 in its labels" in found.sentence
    unknown = guarantee(statistics(*random_matrices(40, 15, 6)), False, SIGMA, PI, ErrorBars.unknown(3), 0.05)
    assert math.isnan(unknown.measured_words)
    assert "No error bars" in unknown.sentence


def test_guarantee__one_topic_no_labels() -> None:
    X, Y = random_matrices(40, 15, 6)
    found = guarantee(statistics(X, 0 * Y), False, SIGMA[:1], np.ones(1), ErrorBars.unknown(1), 0.05)
    assert found.n_1 == 0
    assert found.bound_labels == math.inf
    assert math.isfinite(found.bound_words)
    assert "N = 40" in found.sentence


def test_as_dict__is_json() -> None:
    found = evaluated(statistics(*random_matrices(40, 15, 6)))
    content = json.loads(json.dumps(found.as_dict()))
    assert content["sentence"] == found.sentence
    assert content["says_something"] is False
    assert content["bound_words"] == found.bound_words


# -- measured -------------------------------------------------------------------------------------------

COUNTS_DROP = WordView(counts=True, drop_self_pairs=True)


def fitted(path: Path, n_docs: int, **settings: Any) -> Any:
    """Four topics that share a tenth of their words."""
    model = Planted(
        n_docs, 200, 12, 4, Lengths(25, 22), Lengths(1, 1), distinct=False, topic_share=0.9, seed=5
    )
    return learn(ingest_planted(model, path), 4, view=COUNTS_DROP, **settings)


def true_errors(fit: Any) -> tuple[np.ndarray, np.ndarray]:
    """L1 distance of each learned topic's words and labels from the true topic it resembles most."""
    truth, topics = planted_truth(fit.corpus), fit.moments
    O = topics.O[fit.corpus.term_ids]
    distance = abs(O[:, :, None] - truth.O[:, None, :]).sum(axis=0)
    _, match = scipy.optimize.linear_sum_assignment(distance)
    return abs(O - truth.O[:, match]).sum(axis=0), abs(topics.Q - truth.Q[:, match]).sum(axis=0)


def test_error_bars__small_for_many_documents_and_larger_for_few(tmp_path: Path) -> None:
    bars = [fitted(tmp_path / str(n), n).moments.error_bars for n in (20_000, 1000)]
    for bar in bars:
        assert bar.words.shape == bar.labels.shape == (4,)
        assert np.isfinite(bar.words).all()
        assert np.isfinite(bar.labels).all()
    many, few = bars
    assert many.words.max() < 0.1
    assert many.labels.max() < 0.1
    # 20 times the documents: errors fall by a factor of about sqrt(20) = 4.5
    assert 2 < np.median(few.words) / np.median(many.words) < 9


@pytest.mark.parametrize("whitening", ["exact", "sketch"])
def test_error_bars__are_about_as_large_as_the_errors(tmp_path: Path, whitening: str) -> None:
    fit = fitted(tmp_path / "c", 6000, whitening=whitening)
    words, labels = true_errors(fit)
    bars = fit.moments.error_bars
    assert words.max() < 0.3
    assert 0.5 < np.median(bars.words) / np.median(words) < 2
    assert 0.3 < np.median(bars.labels) / np.median(labels) < 3


def test_half_directions__follow_the_order_of_the_whole_fit() -> None:
    """A half with the same topics at other weights: sorted by its own, they would come in another order."""
    rng = np.random.default_rng(0)
    topics = np.linalg.qr(rng.standard_normal((4, 4)))[0] / np.sqrt([0.4, 0.3, 0.2, 0.1])  # W'mu

    def moments(pi: list[float]) -> WhitenedMoments:
        M2 = np.einsum("k,ik,jk->ij", pi, topics, topics)
        return WhitenedMoments(M2, np.einsum("k,ak,bk,ck->abc", pi, topics, topics, topics))

    np.testing.assert_allclose(moments([0.4, 0.3, 0.2, 0.1]).M2, np.eye(4), atol=1e-12)
    whole = decompose(moments([0.4, 0.3, 0.2, 0.1]).M3)
    half = moments([0.1, 0.2, 0.3, 0.4])
    V = half_directions(half, whole, np.array([0.5, 0.4, 0.3, 0.2]), "orthogonal", 0)
    assert V is not None
    np.testing.assert_allclose(V.T @ half.M2 @ V, np.eye(4), atol=1e-7)
    back = half.M2 @ V  # its topics again, up to length
    cosines = np.sum(back * whole.eigenvectors, axis=0) / np.linalg.norm(back, axis=0)
    np.testing.assert_allclose(abs(cosines), 1, atol=1e-6)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("D", [23, 9000])
def test_word_error_bars__compare_with_m2_of_the_even_documents(tmp_path: Path, D: int, drop: bool) -> None:
    """Some thousand words at a time, of any rank."""
    X, Y = random_matrices(40, 23, 7)
    words = np.linspace(0, D - 1, 23).astype(int)
    wide = np.zeros((40, D))
    wide[:, words] = X
    corpus = ingest_matrices(wide, Y, tmp_path / "c.zarr", block_bytes=700)
    x = (wide[:, corpus.term_ids] > 0) * 1.0
    rng = np.random.default_rng(3)
    K = 11
    O = rng.dirichlet(np.ones(D), K).T
    directions = rng.standard_normal((K, K))
    work = Triples(WordView(drop_self_pairs=drop), rng.standard_normal((D, K), dtype=np.float32))
    kept = O.copy()
    errors = word_error_bars(O, work, run(work, corpus).even, directions)
    V, even = work.W.astype(np.float64) @ directions, x[::2]
    mu = even.T @ (even @ V) - drop * even.sum(axis=0)[:, None] * V
    expected = [abs(naive.on_simplex(mu[:, k]) - O[:, k]).sum() for k in range(K)]
    np.testing.assert_allclose(errors, expected, rtol=1e-4)
    np.testing.assert_array_equal(O, kept)


def test_error_bars__unwanted_are_unknown_and_change_nothing_else(tmp_path: Path) -> None:
    with_bars = fitted(tmp_path / "a", 1000).moments
    without = fitted(tmp_path / "b", 1000, error_bars=False).moments
    assert np.isfinite(with_bars.error_bars.words).all()
    assert np.isnan(without.error_bars.words).all()
    assert np.isnan(without.error_bars.labels).all()
    assert "No error bars" in without.guarantee().sentence
    np.testing.assert_array_equal(with_bars.O, without.O)
    np.testing.assert_array_equal(with_bars.Q, without.Q)


def test_error_bars__even_documents_too_few_to_fit(tmp_path: Path) -> None:
    X = np.zeros((20, 8))
    X[1::4, :4] = 1
    X[3::4, 4:] = 1  # all even documents are empty
    corpus = ingest_matrices(X, np.ones((20, 2)), tmp_path / "odd.zarr")
    moments = learn(corpus, 2).moments
    assert moments.O.shape == (8, 2)
    assert np.isnan(moments.error_bars.words).all()
    assert "No error bars" in moments.guarantee().sentence


def test_sentence__small_bounds_without_the_documents_they_need() -> None:
    N = n = 1000
    statistics = Statistics(N, N, N * n, N * n**2, N * n**3, N * n**2, N * n)
    sigma = pi = np.full(100, 0.01)
    found = guarantee(statistics, False, sigma, pi, ErrorBars.unknown(100), 0.05)
    assert found.bound_words < np.sqrt(2)
    assert found.n_3 > N
    assert not found.says_something
    assert "says nothing at N = 1,000: it asks for" in found.sentence
