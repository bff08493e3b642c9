from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_scoring as naive
from tests.conftest import random_matrices
from threepass.corpus.rows import SparseRows
from threepass.corpus.convert import as_rows
from threepass.parts import responsibilities, scoring
from threepass.parts.heads import Head, Seen, Topics, log_word_topics


def random_topics(n: int, n_topics: int, seed: int = 0) -> np.ndarray:
    """(n, n_topics) float32, columns adding up to 1, with exact zeros."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n, 0.3), n_topics).T
    topics[rng.random(topics.shape) < 0.2] = 0
    return (topics / topics.sum(axis=0)).astype(np.float32)


def posterior(X: np.ndarray, topics: np.ndarray, pi: np.ndarray, smoothing: float) -> np.ndarray:
    return responsibilities.posterior(as_rows(X, "X"), log_word_topics(topics, smoothing), np.log(pi))


@pytest.mark.parametrize("smoothing", [0.001, 0.1, 0.9])
def test_posterior__equals_plain_products(smoothing: float) -> None:
    X, _ = random_matrices(40, 25, 3)
    topics, pi = random_topics(25, 4), np.array([0.5, 0.3, 0.15, 0.05])
    ref = naive.posterior_by_products(X, naive.smoothed(topics, smoothing), pi)
    comp = posterior(X, topics, pi, smoothing)
    assert comp.dtype == np.float32
    np.testing.assert_allclose(comp, ref, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(ref, naive.posterior(X, naive.smoothed(topics, smoothing), pi), rtol=1e-10)


def test_posterior__counts_do_not_matter() -> None:
    X, _ = random_matrices(20, 25, 3)
    topics, pi = random_topics(25, 4), np.full(4, 0.25)
    np.testing.assert_array_equal(posterior(X, topics, pi, 0.1), posterior((X > 0) * 7.5, topics, pi, 0.1))


def test_posterior__empty_document_gets_the_prior() -> None:
    topics, pi = random_topics(10, 3), np.array([0.7, 0.2, 0.1])
    X = np.zeros((3, 10))
    X[1, 4] = 1
    P = posterior(X, topics, pi, 0.1)
    np.testing.assert_allclose(P[[0, 2]], [pi, pi], rtol=1e-6)
    assert abs(P[1] - pi).max() > 0.01


def test_posterior__long_documents_do_not_underflow() -> None:
    rng = np.random.default_rng(1)
    topics = rng.dirichlet(np.ones(20_000), 5).T.astype(np.float32)
    X = np.zeros((3, 20_000))
    X[0, rng.choice(20_000, 5_000, replace=False)] = 1
    X[1, np.argsort(-topics[:, 3])[:5_000]] = 1
    X[2] = 1
    P = posterior(X, topics, np.full(5, 0.2), 0.1)
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    ref = naive.posterior(X, naive.smoothed(topics, 0.1), np.full(5, 0.2))
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
        posterior(X, topics, pi, 0.1), naive.posterior(X, naive.smoothed(topics, 0.1), pi), atol=1e-3
    )


def test_posterior__no_rows() -> None:
    assert posterior(np.zeros((0, 10)), random_topics(10, 3), np.full(3, 1 / 3), 0.1).shape == (0, 3)


def random_scores(n: int, n_labels: int, n_topics: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """P and Q in quarters: their products are exact, and ties are everywhere."""
    rng = np.random.default_rng([n, n_labels, n_topics])
    P = rng.integers(0, 5, (n, n_topics)).astype(np.float32) / 4
    return P, rng.integers(0, 5, (n_labels, n_topics)).astype(np.float32) / 4


def topics_head(Q: np.ndarray) -> Head:
    """The paper's head with these label distributions; its words are of no matter here."""
    K = Q.shape[1]
    return Head("posterior", Topics(np.zeros((0, K), np.float32), Q, np.full(K, 1 / K)))


def top_labels(P: np.ndarray, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    return scoring.top_labels(topics_head(Q), Seen(len(P), P=P), k)


def check_top_labels(P: np.ndarray, Q: np.ndarray, k: int) -> None:
    ref_labels, ref_scores = naive.top_labels(naive.label_scores(P, Q), k)
    labels, scores = top_labels(P, Q, k)
    assert (labels.dtype, scores.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(labels, ref_labels)
    np.testing.assert_array_equal(scores, ref_scores.astype(np.float32))


@pytest.mark.parametrize("k", [1, 3, 20, 21, 30])
def test_top_labels__equals_sorting(k: int) -> None:
    check_top_labels(*random_scores(50, 20), k)


@pytest.mark.parametrize("n_rows", [0, 1, 5, 16])
@pytest.mark.parametrize("n_labels", [1, 6, 7, 8, 40])
@pytest.mark.parametrize("k", [1, 5, 9])
def test_top_labels__tiles_and_slabs(
    monkeypatch: pytest.MonkeyPatch, n_rows: int, n_labels: int, k: int
) -> None:
    monkeypatch.setattr(scoring, "_TILE", 7)
    monkeypatch.setattr(scoring, "_SLAB", 5)
    check_top_labels(*random_scores(n_rows, n_labels), k)


def test_top_labels__all_tied_goes_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_TILE", 2)
    labels, scores = top_labels(np.ones((2, 1), np.float32), np.full((9, 1), 0.25, np.float32), 4)
    assert labels.tolist() == [[0, 1, 2, 3]] * 2
    assert (scores == 0.25).all()


def test_top_labels__fewer_labels_than_k() -> None:
    labels, scores = top_labels(np.ones((1, 1), np.float32), np.array([[0.25], [0.75]], np.float32), 4)
    assert labels.tolist() == [[1, 0, -1, -1]]
    np.testing.assert_array_equal(scores, [[0.75, 0.25, np.nan, np.nan]])


def test_top_labels__a_score_of_zero_is_a_score() -> None:
    labels, scores = top_labels(np.zeros((2, 2), np.float32), np.zeros((3, 2), np.float32), 3)
    assert labels.tolist() == [[0, 1, 2]] * 2
    assert (scores == 0).all()


@given(n_labels=st.integers(1, 30), k=st.integers(1, 12), tile=st.integers(1, 31), n=st.integers(0, 6))
def test_top_labels__do_not_depend_on_tiles(n_labels: int, k: int, tile: int, n: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "_TILE", tile)
        check_top_labels(*random_scores(n, n_labels), k)


@pytest.mark.parametrize("n", [0, 1, 10, 11])
@pytest.mark.parametrize("rows_at_a_time", [1, 3, 1000])
def test_all_scores__every_row_once(monkeypatch: pytest.MonkeyPatch, n: int, rows_at_a_time: int) -> None:
    P, Q = random_scores(n, 8)
    monkeypatch.setattr(scoring, "SCORE_BYTES", 4 * 8 * rows_at_a_time)
    seen, whole = np.zeros(n, int), np.full((n, 8), np.nan)
    for rows, scores in scoring.all_scores(topics_head(Q), Seen(n, P=P)):
        assert len(scores) <= rows_at_a_time
        seen[rows] += 1
        whole[rows] = scores
    assert (seen == 1).all()
    np.testing.assert_array_equal(whole, naive.label_scores(P, Q).reshape(n, 8))


def test_log_word_topics__no_word_rules_a_topic_out() -> None:
    topics = np.zeros((4, 2), np.float32)
    topics[0, 0] = topics[3, 1] = 1
    logs = log_word_topics(topics, 0.2)
    assert logs.dtype == np.float32
    # only differences between topics matter
    np.testing.assert_allclose(logs[:, 0] - logs[:, 1], [np.log(17), 0, 0, -np.log(17)], atol=1e-6)


def test_posterior__rows_are_documents_wherever_they_lie() -> None:
    X, _ = random_matrices(30, 25, 3)
    topics, pi = random_topics(25, 4), np.array([0.1, 0.2, 0.3, 0.4])
    logs = log_word_topics(topics, 0.1)
    rows: SparseRows = as_rows(X, "X")
    whole = responsibilities.posterior(rows, logs, np.log(pi))
    cuts = [rows.slice(a, b) for a, b in ((0, 7), (7, 7), (7, 30))]
    parts = [responsibilities.posterior(cut, logs, np.log(pi)) for cut in cuts]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
