from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests import naive_heads as naive
from tests.passes.conftest import (
    CLOSE,
    PARTS,
    Cut,
    Dense,
    assert_close,
    chosen,
    cuts,
    plain_sums,
    run,
    sparse_rows,
    ugly_matrices,
)
from threepass import Corpus
from threepass.moments.words import WordView
from threepass.parts.held_out import SetAside
from threepass.parts.responsibilities import Responsibilities, posterior
from threepass.passes import kernels, tall
from threepass.passes.sums import sums_bytes

with_labels = pytest.mark.parametrize("labels", [False, True], ids=["words", "words and labels"])


def distributions(n: int, K: int, seed: int = 5) -> np.ndarray:
    """(n, K) float32 logarithms, each column of which is a distribution."""
    columns = np.random.default_rng(seed).dirichlet(np.full(n, 0.5), K).T + 1e-4
    return np.log(columns / columns.sum(axis=0)).astype(np.float32)


def prior(K: int) -> np.ndarray:
    """(K,) float64 logarithms, no two topics equally likely."""
    return np.log(np.arange(1, K + 1) / sum(range(K + 1)))


def em_pass(corpus: Corpus, share: float = 0.0, labels: bool = False, K: int = 3) -> Responsibilities:
    log_Q = distributions(corpus.n_labels, K, seed=6) if labels else None
    log_O = distributions(corpus.n_terms, K)
    return Responsibilities(WordView(), log_O, prior(K), corpus.n_labels, share, log_Q)


def exp(log: np.ndarray | None) -> np.ndarray | None:
    return None if log is None else np.exp(log.astype(np.float64))


def naive_sums(work: Responsibilities, X: np.ndarray, Y: np.ndarray) -> dict[str, np.ndarray]:
    R = naive.responsibilities(X, exp(work.log_O), exp(work.log_pi), Y, exp(work.log_Q))
    return naive.em_sums(X, Y, R, work.view.counts)


def em_sums(work: Responsibilities, corpus: Corpus, accumulator_bytes: int = 1) -> dict[str, np.ndarray]:
    return plain_sums(run(work, corpus, accumulator_bytes))


# -- the posterior --------------------------------------------------------------------------------------


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


# -- the pass -------------------------------------------------------------------------------------------


@with_labels
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("part", PARTS)
def test_pass__equals_the_plain_sums(many_blocks: Dense, part: str, share: float, labels: bool) -> None:
    corpus, X, Y = chosen(many_blocks, part)
    held = naive.held_out(len(X), share)
    work = em_pass(corpus, share, labels)
    sums = em_sums(work, corpus)
    assert_close(sums, naive_sums(work, X[~held], Y[~held]))
    assert sums["topics"].sum() == pytest.approx((~held).sum())


@with_labels
def test_pass__counts_words_by_its_view(many_blocks: Dense, labels: bool) -> None:
    corpus, X, Y = many_blocks
    binary = em_pass(corpus, labels=labels)
    counts = replace(binary, view=WordView(counts=True))
    sums = em_sums(counts, corpus)
    assert_close(sums, naive_sums(counts, X, Y))
    np.testing.assert_array_equal(sums["topics"], em_sums(binary, corpus)["topics"])
    np.testing.assert_allclose(sums["words"].sum(axis=1), X.sum(axis=0), rtol=1e-6)


def test_pass__one_em_step_makes_the_words_likelier(many_blocks: Dense) -> None:
    corpus, X, _ = many_blocks
    work = em_pass(corpus)
    O, pi = exp(work.log_O), exp(work.log_pi)
    before = naive.log_likelihood(X, O, pi)
    for _ in range(3):
        sums = em_sums(work, corpus)
        O = np.maximum(sums["words"] / sums["words"].sum(axis=0), 1e-30)
        pi = sums["topics"] / corpus.n_docs
        after = naive.log_likelihood(X, O, pi)
        assert after > before + 1e-3
        before = after
        work = replace(work, log_O=np.log(O).astype(np.float32), log_pi=np.log(pi))


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_pass__held_out_documents_come_back(many_blocks: Dense, share: float) -> None:
    corpus = many_blocks[0]
    work, everything = em_pass(corpus, share, labels=True), em_pass(corpus, labels=True)
    held = run(SetAside(share), corpus)["documents"].joined(corpus.n_terms, corpus.n_labels)
    assert held.X.n_rows > 0
    sums = run(work, corpus)
    everything.add(sums, held)
    assert_close(plain_sums(sums), em_sums(everything, corpus))


@pytest.mark.parametrize("slab", [1, 3])
def test_pass__does_not_depend_on_slabs(
    many_blocks: Dense, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = many_blocks[0]
    work = em_pass(corpus, 0.3, labels=True)
    expected = em_sums(work, corpus)
    monkeypatch.setattr(kernels, "SLAB", slab)
    assert_close(em_sums(work, corpus), expected)


@pytest.mark.parametrize(("hot", "frequent"), [(0, 0), (0, 5), (3, 3), (3, 100)])
def test_pass__does_not_depend_on_which_words_are_summed_in_double(
    many_blocks: Dense, hot: int, frequent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, X, Y = many_blocks
    work = em_pass(corpus, labels=True)
    monkeypatch.setattr(tall, "HOT", hot)
    monkeypatch.setattr(tall, "FREQUENT", frequent)
    assert_close(em_sums(work, corpus), naive_sums(work, X, Y))


def test_pass__accumulator_bytes_of_words_and_labels(many_blocks: Dense) -> None:
    work = em_pass(many_blocks[0])
    zero = work.zero()
    assert work.accumulator_bytes == sums_bytes(zero) - zero["topics"].nbytes
    assert zero["labels"].dtype == zero["topics"].dtype == np.float64
    # all words are among the first few hundred: their sums are double, and once more single
    D, L, K = many_blocks[0].n_terms, many_blocks[0].n_labels, 3
    assert work.accumulator_bytes == (4 + 8) * D * K + 8 * L * K


@given(cut=cuts)
@settings(max_examples=12)
def test_pass__does_not_depend_on_how_the_corpus_is_cut(cut: Cut) -> None:
    whole, parts = cut.corpora(11, 3)
    work = em_pass(whole, cut.share, labels=True)
    assert_close(em_sums(work, parts, cut.accumulator_bytes), em_sums(work, whole))
