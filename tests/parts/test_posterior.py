"""P[topic | document]: equal to plain products, for documents of any length; and the paper's own part."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests import naive_heads as naive
from tests import naive_scoring
from tests.rows import CLOSE, sparse_rows, ugly_matrices
from threepass.moments.posterior import TopicModel, log_prior, log_word_topics, posterior

with_labels = pytest.mark.parametrize("labels", [False, True], ids=["words", "words and labels"])


def distributions(n: int, K: int, seed: int = 5) -> np.ndarray:
    """(n, K) float32 logarithms, each column of which is a distribution."""
    columns = np.random.default_rng(seed).dirichlet(np.full(n, 0.5), K).T + 1e-4
    return np.log(columns / columns.sum(axis=0)).astype(np.float32)


def prior(K: int) -> np.ndarray:
    """(K,) float64 logarithms, no two topics equally likely."""
    return np.log(np.arange(1, K + 1) / sum(range(K + 1)))


def exp(log: np.ndarray | None) -> np.ndarray | None:
    return None if log is None else np.exp(log.astype(np.float64))


@with_labels
@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("K", [1, 4])
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_posterior__equals_the_plain_products(n: int, K: int, temperature: float, labels: bool) -> None:
    X, Y = (side[:n] for side in ugly_matrices(40, 23, 6, seed=3))
    log_O, log_pi = distributions(23, K), prior(K)
    log_Q = distributions(6, K, seed=6) if labels else None
    P = posterior(sparse_rows(X, np.float32), log_O, log_pi, sparse_rows(Y), log_Q, temperature)
    assert P.dtype == np.float32
    assert P.shape == (n, K)
    expected = naive.responsibilities(X, exp(log_O), exp(log_pi), Y, exp(log_Q), temperature)
    np.testing.assert_allclose(P, expected, **CLOSE)


def test_posterior__by_hand() -> None:
    log_O = np.log(np.array([[0.5, 0.25], [0.5, 0.75]], np.float32))
    log_Q = np.log(np.array([[0.1, 0.9]], np.float32))
    X, Y = sparse_rows(np.array([[7, 0], [1, 1]]), np.float32), sparse_rows(np.array([[0], [1]]))
    log_pi = np.log([0.25, 0.75])
    # pi · O, then times Q for the second document; the 7 is one word like any other
    likelihoods = np.array([[0.125, 0.1875], [0.0625 * 0.1, 0.140625 * 0.9]])
    P = posterior(X, log_O, log_pi, Y, log_Q)
    np.testing.assert_allclose(P, likelihoods / likelihoods.sum(axis=1, keepdims=True), rtol=1e-6)
    cool = np.sqrt(likelihoods)
    P = posterior(X, log_O, log_pi, Y, log_Q, temperature=2)
    np.testing.assert_allclose(P, cool / cool.sum(axis=1, keepdims=True), rtol=1e-6)


@with_labels
def test_posterior__no_words_and_no_labels_give_the_prior(labels: bool) -> None:
    log_pi = prior(4)
    log_Q = distributions(6, 4) if labels else None
    nothing = sparse_rows(np.zeros((3, 23))), sparse_rows(np.zeros((3, 6)))
    P = posterior(nothing[0], distributions(23, 4), log_pi, nothing[1], log_Q)
    np.testing.assert_allclose(P, [np.exp(log_pi)] * 3, rtol=1e-6)


def test_posterior__labels_speak_only_through_their_topics() -> None:
    X, Y = (sparse_rows(side) for side in ugly_matrices(40, 23, 6))
    log_O, log_pi, log_Q = distributions(23, 4), prior(4), distributions(6, 4)
    plain = posterior(X, log_O, log_pi)
    np.testing.assert_array_equal(posterior(X, log_O, log_pi, Y), plain)
    np.testing.assert_array_equal(posterior(X, log_O, log_pi, log_Q=log_Q), plain)
    assert abs(posterior(X, log_O, log_pi, Y, log_Q) - plain).max() > 0.1


def test_posterior__long_documents_keep_small_differences() -> None:
    n_words = 5000
    rng = np.random.default_rng(0)
    log_O = (-9 - rng.random((n_words, 1)) + 0.01 * rng.standard_normal((n_words, 3))).astype(np.float32)
    logs = [math.fsum(column) for column in log_O.astype(np.float64).T]
    expected = np.exp(np.array(logs) - max(logs))
    P = posterior(sparse_rows(np.ones((1, n_words))), log_O, np.zeros(3))
    np.testing.assert_allclose(P[0], expected / expected.sum(), rtol=1e-5)
    assert P.max() < 0.9


def test_posterior__sure_of_a_topic_without_overflow() -> None:
    log_O = np.full((100, 2), -100, np.float32)
    log_O[:, 1] = -1
    X = sparse_rows(np.ones((1, 100)))
    np.testing.assert_array_equal(posterior(X, log_O, np.zeros(2)), [[0, 1]])
    np.testing.assert_array_equal(posterior(X, -log_O, np.zeros(2)), [[1, 0]])
    half = posterior(X, log_O, np.zeros(2), temperature=1e6)
    np.testing.assert_allclose(half, [[0.5, 0.5]], atol=0.01)


def smooth_posterior(X: np.ndarray, topics: np.ndarray, pi: np.ndarray) -> np.ndarray:
    return posterior(sparse_rows(X), log_word_topics(topics, 0.1), np.log(pi))


def test_posterior__long_documents_do_not_underflow() -> None:
    rng = np.random.default_rng(1)
    topics = rng.dirichlet(np.ones(20_000), 5).T.astype(np.float32)
    X = np.zeros((3, 20_000))
    X[0, rng.choice(20_000, 5_000, replace=False)] = 1
    X[1, np.argsort(-topics[:, 3])[:5_000]] = 1
    X[2] = 1
    P = smooth_posterior(X, topics, np.full(5, 0.2))
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    ref = naive_scoring.posterior(X, naive_scoring.smoothed(topics, 0.1), np.full(5, 0.2))
    assert P.argmax(axis=1).tolist() == ref.argmax(axis=1).tolist()
    assert P[1, 3] > 0.999


def test_posterior__long_documents_keep_their_precision() -> None:
    # Topics that hardly differ: the logarithms are large, and the little between them is what counts.
    rng = np.random.default_rng(0)
    common = rng.dirichlet(np.ones(20_000))
    topics = (0.98 * common[:, None] + 0.02 * rng.dirichlet(np.ones(20_000), 10).T).astype(np.float32)
    X = np.zeros((4, 20_000))
    for row in X:
        row[rng.choice(20_000, 5_000, replace=False)] = 1
    pi = np.full(10, 0.1)
    np.testing.assert_allclose(
        smooth_posterior(X, topics, pi),
        naive_scoring.posterior(X, naive_scoring.smoothed(topics, 0.1), pi),
        atol=1e-3,
    )


# -- its logarithms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.1, 0.5, 1.0])
def test_log_word_topics__of_all_words_or_of_some(smoothing: float) -> None:
    O = np.random.default_rng(0).dirichlet(np.full(40, 0.1), 3).T.astype(np.float32)
    kept, some = O.copy(), np.array([3, 7, 30])
    logs = log_word_topics(O, smoothing)
    assert logs.dtype == np.float32
    # products in single precision: a logarithm errs by no more than a few units in the last place of 1
    np.testing.assert_allclose(
        logs, np.log(naive_scoring.smoothed(O.astype(float), smoothing)), rtol=3e-7, atol=3e-7
    )
    np.testing.assert_array_equal(log_word_topics(O[some], smoothing, 40), logs[some])
    assert abs(log_word_topics(O[some], smoothing) - logs[some]).max() > 1
    np.testing.assert_array_equal(O, kept)


def test_log_word_topics__overwrites_where_it_may() -> None:
    O = np.random.default_rng(0).dirichlet(np.full(40, 0.1), 3).T.astype(np.float32)
    expected = log_word_topics(O, 0.1)
    assert log_word_topics(O, 0.1, overwrite=True) is O
    np.testing.assert_array_equal(O, expected)


def test_log_word_topics__no_word_rules_a_topic_out() -> None:
    topics = np.zeros((4, 2), np.float32)
    topics[0, 0] = topics[3, 1] = 1
    logs = log_word_topics(topics, 0.2)
    assert logs.dtype == np.float32
    # only differences between topics matter
    np.testing.assert_allclose(logs[:, 0] - logs[:, 1], [np.log(17), 0, 0, -np.log(17)], atol=1e-6)


def test_log_prior__is_finite() -> None:
    np.testing.assert_allclose(log_prior(np.array([0.5, 0.0, 0.5])), np.log([0.5, 1e-300, 0.5]))


# -- the model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_model__mixes_smoothing_in(temperature: float) -> None:
    X, _ = ugly_matrices(30, 23, 3)
    O = np.random.default_rng(0).dirichlet(np.full(23, 0.1), 4).T.astype(np.float32)
    model = TopicModel(O, np.ones((3, 4), np.float32), np.array([0.4, 0.3, 0.2, 0.1]), 0.3, temperature)
    ref = naive.responsibilities(X, naive_scoring.smoothed(O, 0.3), model.pi, temperature=temperature)
    np.testing.assert_allclose(model.posterior(sparse_rows(X, np.float32)), ref, **CLOSE)


def test_model__in_another_order_says_the_same() -> None:
    X, _ = ugly_matrices(30, 23, 3)
    O = np.random.default_rng(0).dirichlet(np.full(23, 0.1), 4).T.astype(np.float32)
    order = np.random.default_rng(1).permutation(23)
    model = TopicModel(O.copy(), np.ones((3, 4), np.float32), np.full(4, 0.25))
    other = TopicModel(O.copy(), model.Q, model.pi).reordered(order)
    np.testing.assert_array_equal(other.O, O[order])
    one, two = model.posterior(sparse_rows(X)), other.posterior(sparse_rows(X[:, order]))
    np.testing.assert_allclose(one, two, rtol=1e-6)
