from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from sklearn.exceptions import NotFittedError

from tests.conftest import random_matrices
from tests.model.kinds import (
    FITTED,
    KINDS,
    Matrices,
    assert_same_fit,
    paper_labeler,
)
from threepass import Corpus, InputError, MomentLabeler
from threepass.ingest.synthetic import planted_truth


def errors(model: MomentLabeler, corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L1 distances of the learned words and labels of each topic, and of the weights, from the truth.

    Topics are matched by their words alone.
    """
    truth = planted_truth(corpus)
    cost = abs(model.word_topics_[corpus.term_ids][:, :, None] - truth.O[:, None, :]).sum(axis=0)
    ours, theirs = scipy.optimize.linear_sum_assignment(cost)
    labels = abs(model.label_topics_[:, ours] - truth.Q[:, theirs]).sum(axis=0)
    return cost[ours, theirs], labels, abs(model.topic_weights_[ours] - truth.pi[theirs])


def test_fit__finds_the_planted_topics(planted: Corpus, paper_model: MomentLabeler) -> None:
    words, labels, weights = errors(paper_model, planted)
    assert words.max() < 0.15
    assert labels.max() < 0.2  # matched by words: labels belong to the same topics
    assert weights.max() < 0.02


@pytest.mark.parametrize("settings", [{"tensor": "power"}, {"whitening": "sketch"}], ids=str)
def test_fit__other_methods_find_the_same(
    planted: Corpus, paper_model: MomentLabeler, settings: dict[str, Any]
) -> None:
    other = paper_labeler(4, words="counts", self_pairs="drop", **settings).fit(planted)
    assert other.fit_stats_["whitening"] == settings.get("whitening", "exact")
    for ours, theirs in zip(errors(paper_model, planted), errors(other, planted), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.01)


def test_fit__without_self_pairs_moments_are_unbiased(planted: Corpus, paper_model: MomentLabeler) -> None:
    kept = paper_labeler(4, words="counts").fit(planted)
    assert errors(paper_model, planted)[0].mean() < 0.7 * errors(kept, planted)[0].mean()
    assert paper_model.tensor_residual_ < 0.5 * kept.tensor_residual_


def test_fit__binary_words_ignore_counts(matrices: Matrices) -> None:
    X, Y = matrices[0][:500], matrices[1][:500]
    assert_same_fit(paper_labeler(3).fit(X, Y), paper_labeler(3).fit(X > 0, Y))
    counted = paper_labeler(3, words="counts").fit(X, Y)
    assert abs(counted.word_topics_ - paper_labeler(3).fit(X, Y).word_topics_).max() > 0.01


def test_fit__prior_can_be_uniform(matrices: Matrices) -> None:
    X, Y = matrices[0][:500], matrices[1][:500]
    uniform = paper_labeler(3, prior="uniform").fit(X, Y)
    np.testing.assert_allclose(uniform.topic_weights_, 1 / 3)
    assert abs(paper_labeler(3).fit(X, Y).topic_weights_ - 1 / 3).max() > 0.01


def test_fit__statistics_are_those_of_the_documents(matrices: Matrices, small_model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    n = (X > 0).sum(axis=1)
    assert small_model.statistics_.n_docs == 300
    assert small_model.statistics_.n_labelled == np.count_nonzero(Y.any(axis=1))
    assert small_model.statistics_.pairs == (n**2).sum()
    assert small_model.statistics_.label_pairs == (n**2 * Y.sum(axis=1)).sum()
    np.testing.assert_array_equal(small_model.label_counts_, Y.sum(axis=0))


@pytest.mark.parametrize("kind", KINDS)
def test_fit__any_kind_of_matrix(matrices: Matrices, corpus_head_model: MomentLabeler, kind: str) -> None:
    X, Y = (m[:500] for m in matrices)
    ours = paper_labeler(3, words="counts").fit(KINDS[kind](X), KINDS[kind](Y))
    assert_same_fit(ours, corpus_head_model)


@pytest.mark.parametrize(
    ("x_kind", "y_kind"),
    [("csr", "pydata gcxs"), ("dense", "dask"), ("dask", "csr"), ("pydata coo", "dense"), ("dask", "dense")],
)
def test_fit__kinds_can_be_mixed(x_kind: str, y_kind: str, small_model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    assert_same_fit(paper_labeler(3).fit(KINDS[x_kind](X), KINDS[y_kind](Y)), small_model)


def test_fit__leaves_the_matrices_alone() -> None:
    X, Y = random_matrices(50, 23, 7)
    csr = scipy.sparse.csr_array(X.astype(float))
    csr.data[3] = 0
    before = [csr.data.copy(), csr.indices.copy(), Y.copy()]
    paper_labeler(2).fit(csr, Y)
    for now, then in zip([csr.data, csr.indices, Y], before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_fit__corpus_equals_matrices(planted: Corpus, matrices: Matrices, paper_model: MomentLabeler) -> None:
    assert_same_fit(paper_labeler(4, words="counts", self_pairs="drop").fit(*matrices), paper_model)


@pytest.mark.parametrize("whitening", ["exact", "sketch"])
def test_fit__a_view_equals_its_rows(planted: Corpus, matrices: Matrices, whitening: str) -> None:
    train, _ = planted.split(test=0.3, seed=1)
    ours = paper_labeler(4, words="counts", self_pairs="drop", whitening=whitening).fit(train)
    X, Y = (m[train.doc_ids] for m in matrices)
    theirs = paper_labeler(4, words="counts", self_pairs="drop").fit(X, Y)
    assert_same_fit(ours, theirs, atol=2e-5 if whitening == "exact" else 2e-3)
    assert ours.statistics_.n_docs == train.n_docs == len(X)
    np.testing.assert_array_equal(ours.label_counts_, Y.sum(axis=0))


@pytest.mark.parametrize("whitening", ["exact", "sketch"])
def test_fit__empty_blocks_change_nothing(planted: Corpus, matrices: Matrices, whitening: str) -> None:
    head = planted.head(500)
    assert np.count_nonzero(head.block_rows == 0) >= 2
    ours = paper_labeler(3, words="counts", whitening=whitening).fit(head)
    theirs = paper_labeler(3, words="counts").fit(matrices[0][:500], matrices[1][:500])
    assert_same_fit(ours, theirs, atol=2e-5 if whitening == "exact" else 2e-3)


def test_fit__is_deterministic(planted: Corpus, paper_model: MomentLabeler) -> None:
    again = paper_labeler(4, words="counts", self_pairs="drop", n_jobs=1).fit(planted)
    for name in FITTED:
        np.testing.assert_array_equal(getattr(again, name), getattr(paper_model, name))
    assert again.tensor_residual_ == paper_model.tensor_residual_


def test_fit__another_seed_of_the_sketch(planted: Corpus, paper_model: MomentLabeler) -> None:
    fits = [
        paper_labeler(4, words="counts", self_pairs="drop", whitening="sketch", random_state=seed).fit(
            planted
        )
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(fits[0].word_topics_, fits[1].word_topics_)
    assert not np.array_equal(fits[0].whitening_, fits[2].whitening_)
    assert errors(fits[2], planted)[0].max() < 0.15


def test_fit__reports_progress(planted: Corpus) -> None:
    calls: list[tuple[str, float, float]] = []
    paper_labeler(2).fit(planted, progress=lambda *call: calls.append(call))
    calls = [call for call in calls if call[2]]  # what is counted
    assert list(dict.fromkeys(name for name, _, _ in calls)) == ["pairs", "triples", "labels"]
    for name in ("pairs", "triples", "labels"):
        assert max(done for stage, done, _ in calls if stage == name) == planted.n_docs
    assert {total for _, _, total in calls} == {planted.n_docs}


def test_fit__again_replaces_everything(matrices: Matrices) -> None:
    X, Y = random_matrices(300, 23, 7)
    once = paper_labeler(3).fit(matrices[0][:500], matrices[1][:500]).fit(X, Y)
    fresh = paper_labeler(3).fit(X, Y)
    for name in FITTED:
        np.testing.assert_array_equal(getattr(once, name), getattr(fresh, name))
    assert once.n_features_in_ == 23


def test_fit__refused_leaves_a_model_unfitted() -> None:
    X, Y = random_matrices(60, 23, 7)
    model = paper_labeler(2)
    with pytest.raises(InputError):
        model.fit(X * 0, Y)
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_fit__refused_leaves_the_last_fit_whole() -> None:
    X, Y = random_matrices(60, 23, 7)
    model = paper_labeler(2).fit(X, Y)
    before = model.transform(X)
    with pytest.raises(InputError):
        model.fit(np.zeros((60, 500)), Y)
    np.testing.assert_array_equal(model.transform(X), before)
    with pytest.raises(InputError, match="500 features"):
        model.transform(np.ones((2, 500)))


@pytest.mark.parametrize("head", ["posterior", "blend"])
def test_fit__goes_with_its_last_reference(planted: Corpus, head: str) -> None:
    """Large arrays do not wait for the garbage collector."""
    gc.disable()
    try:
        model = MomentLabeler(4, head=head, head_dim=10).fit(planted.head(1500))
        arrays = [weakref.ref(model.moments_), weakref.ref(model.predictor_.blend)]
        del model
        assert [array() for array in arrays] == [None, None]
    finally:
        gc.enable()
