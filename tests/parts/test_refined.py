"""Topics after EM: what a step sums, what is made of it, and how it is tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests import naive_heads as naive
from tests import naive_scoring
from tests.parts.learned import Learned, context_of, labelled_by_words, learned, words_of
from tests.parts.test_posterior import distributions, exp, prior
from tests.rows import assert_close, block_of, cut, sparse_rows, summed, ugly_matrices
from threepass.moments.words import WordView
from threepass.parts.part import PartSettings
from threepass.parts.refined import (
    SMOOTHINGS,
    TEMPERATURES,
    Refined,
    RefinedPart,
    Responsibilities,
    ResponsibilitySums,
    TopicTrial,
)
from threepass.parts.selection import Shortlists
from threepass.passes.cost import Size

D, L, K = 17, 5, 3
with_labels = pytest.mark.parametrize("labels", [False, True], ids=["words", "words and labels"])


def em_pass(labels: bool = False, view: WordView | None = None) -> Responsibilities:
    log_Q = distributions(L, K, seed=6) if labels else None
    return Responsibilities(view or WordView(), distributions(D, K), prior(K), L, log_Q)


def arrays_of(sums: ResponsibilitySums) -> dict[str, np.ndarray]:
    return {"words": sums.words.finished(), "labels": sums.labels, "topics": sums.topics}


def naive_sums(work: Responsibilities, X: np.ndarray, Y: np.ndarray) -> dict[str, np.ndarray]:
    R = naive.responsibilities(X, exp(work.log_O), exp(work.log_pi), Y, exp(work.log_Q))
    return naive.em_sums(X, Y, R, work.view.counts)


# -- the pass -------------------------------------------------------------------------------------------


@with_labels
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("n", [0, 1, 34])
def test_pass__equals_the_plain_sums(n: int, counts: bool, labels: bool) -> None:
    X, Y = ugly_matrices(n, D, L)
    work = em_pass(labels, WordView(counts=counts))
    sums = summed(work, *cut(X, Y, n // 3, n // 3, n // 2))
    assert_close(arrays_of(sums), naive_sums(work, X, Y))
    assert sums.topics.sum() == pytest.approx(n)


def test_pass__one_em_step_makes_the_words_likelier() -> None:
    X, Y = ugly_matrices(34, D, L)
    work = em_pass()
    before = naive.log_likelihood(X, exp(work.log_O), exp(work.log_pi))
    for _ in range(3):
        sums = arrays_of(summed(work, block_of(X, Y)))
        O = np.maximum(sums["words"] / sums["words"].sum(axis=0), 1e-30)
        pi = sums["topics"] / len(X)
        after = naive.log_likelihood(X, O, pi)
        assert after > before + 1e-3
        before = after
        work = replace(work, log_O=np.log(O).astype(np.float32), log_pi=np.log(pi))


def test_pass__needs_words_and_labels() -> None:
    work = em_pass()
    zero = work.zero()
    assert zero.labels.dtype == zero.topics.dtype == np.float64
    # all words are among the first few hundred: their sums are double, and once more single
    assert work.needs(Size(0, 0, 0)).sums == (4 + 8) * D * K + 8 * L * K == zero.nbytes - zero.topics.nbytes


# -- the part -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def documents() -> tuple[np.ndarray, np.ndarray]:
    return labelled_by_words(200)


def refined(X: np.ndarray, Y: np.ndarray, **settings: Any) -> tuple[Learned, Refined]:
    one = learned(RefinedPart(context_of(X, Y, **settings)), X, Y)
    scorer = one.finished()
    assert isinstance(scorer, Refined)
    return one, scorer


def m_step(X: np.ndarray, Y: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    O, Q = (X > 0).T @ R, Y.T @ R + 0.01
    return O / O.sum(axis=0), Q / Q.sum(axis=0), R.mean(axis=0)


def test_finish__is_one_em_step_from_the_papers_topics(documents: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = documents
    one, scorer = refined(X, Y)
    moments: Any = one.context.moments
    R = naive_scoring.posterior(X, naive_scoring.smoothed(moments.O, 0.1), moments.pi)
    for ours, ref in zip((scorer.model.O, scorer.model.Q, scorer.model.pi), m_step(X, Y, R), strict=True):
        np.testing.assert_allclose(ours, ref, rtol=1e-3, atol=1e-6)
    assert (scorer.weight, scorer.largest) == (0.2, 0.2)
    assert one.part.passes(3) == ()


@pytest.mark.parametrize("refine_passes", [1, 2])
def test_refine_passes__labels_speak_for_topics(
    documents: tuple[np.ndarray, np.ndarray], refine_passes: int
) -> None:
    X, Y = documents
    one, scorer = refined(X, Y, refine_passes=refine_passes)
    assert [one.part.prepares(read) for read in range(1, 6 + refine_passes)] == [
        None,
        None,
        *["topic words"] * (1 + refine_passes),
        *[None] * 2,
    ]
    moments: Any = one.context.moments
    R = naive_scoring.posterior(X, naive_scoring.smoothed(moments.O, 0.1), moments.pi)
    for _ in range(refine_passes):
        O, Q, pi = m_step(X, Y, R)
        R = naive_scoring.posterior(X, naive_scoring.smoothed(O, 0.1), pi) * np.exp(Y @ np.log(Q))
        R /= R.sum(axis=1, keepdims=True)
    ref = m_step(X, Y, R)
    np.testing.assert_allclose(scorer.model.O, ref[0], rtol=5e-3, atol=1e-5)
    np.testing.assert_allclose(scorer.model.Q, ref[1], rtol=5e-3, atol=1e-5)
    once = refined(X, Y)[1]
    assert abs(scorer.model.O - once.model.O).sum(axis=0).max() > 0.05


def test_alone__it_is_the_share_and_not_its_root(documents: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = documents
    one, scorer = refined(X, Y, is_alone=True)
    assert one.part.options() == {}
    assert scorer.numbers() == {"weight": 0.0, "smoothing": 0.1, "temperature": 1.0}
    P = scorer.see(words_of(one.context, X[:20]))[0] @ scorer.model.Q.T
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    assert scorer.largest == 1


@pytest.mark.parametrize("smoothing", [None, 0.2])
def test_trial__all_smoothings_and_temperatures(
    documents: tuple[np.ndarray, np.ndarray], smoothing: float | None
) -> None:
    """Over the words of the documents alone, bitwise as over all words."""
    X, Y = documents
    Z, own = labelled_by_words(30, seed=1)
    Z[:, 40:60] = 0
    one = learned(RefinedPart(context_of(X, Y, smoothing=smoothing)), X, Y)
    part = one.part
    assert isinstance(part, RefinedPart)
    assert one.context.settings == PartSettings(smoothing=smoothing)
    trial = part.trial(words_of(one.context, Z))
    assert isinstance(trial, TopicTrial)
    assert len(trial.O) < len(trial.model.O)
    lists = Shortlists.of(sparse_rows(own), lambda rows: [trial.dense(rows)], seed=0)
    at = trial.at(lists)
    smoothings = SMOOTHINGS if smoothing is None else (smoothing,)
    assert part.own_options() == {"smoothing": smoothings, "temperature": TEMPERATURES}
    for choice in ({"smoothing": s, "temperature": t} for s in smoothings for t in TEMPERATURES):
        model = replace(part.model(), **choice)
        P = model.posterior(sparse_rows(Z, np.float32))
        np.testing.assert_array_equal(trial.posterior(**choice), P)
        found = part.pair_scores(at, {**choice, "weight": 0.5})
        np.testing.assert_allclose(found.reshape(30, 30), 0.5 * np.sqrt(P @ model.Q.T), rtol=1e-4)


def test_evidence__topics_that_speak_for_a_label(documents: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = documents
    one, scorer = refined(X, Y)
    told = scorer.evidence(words_of(one.context, X[5:6]), 2).topics
    P = scorer.model.posterior(sparse_rows(X[5:6], np.float32))[0].astype(float)
    shares = P * scorer.model.Q[2] / sum(P * scorer.model.Q[2])
    order = np.argsort(-shares)
    assert [k for k, _, _ in told] == [k for k in order if shares[k] >= 0.005]
    for k, probability, share in told:
        assert probability == pytest.approx(P[k])
        assert share == pytest.approx(shares[k])


def test_model__topics_that_no_document_has() -> None:
    """Words and labels are then equally likely, and nothing is divided by zero."""
    X, Y = np.zeros((3, 9), int), np.zeros((3, 4), int)
    _, scorer = refined(X, Y)
    np.testing.assert_allclose(scorer.model.O, 1 / 9, rtol=1e-6)
    np.testing.assert_allclose(scorer.model.Q, 1 / 4, rtol=1e-6)
    assert scorer.model.pi.sum() == pytest.approx(1)
