from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

from tests.conftest import random_matrices
from tests.model.kinds import (
    KINDS,
    Matrices,
    assert_same_fit,
    assert_sensible,
    paper_labeler,
)
from threepass import Corpus, InputError, MomentLabeler, ingest_matrices
from threepass.moments.notes import fit_notes

fewer_topics = pytest.mark.filterwarnings("ignore:Only . topics? instead of")


def test_fit__more_topics_than_rank() -> None:
    X, Y = random_matrices(3, 23, 7, seed=5)
    X[0, :5] = 1
    with pytest.warns(UserWarning, match="Only 3 topics instead of 10:.*rank 3.*n_components=3"):
        model = paper_labeler(10).fit(np.tile(X, (30, 1)), np.tile(Y, (30, 1)))
    assert_sensible(model, 23, 7)
    assert len(model.topic_weights_) == 3


def test_fit__more_topics_than_terms() -> None:
    X, Y = random_matrices(300, 9, 4)
    n_used = np.count_nonzero(X.any(axis=0))
    with pytest.warns(UserWarning, match=f"Only {n_used} topics? instead of 50"):
        model = paper_labeler(50).fit(X, Y)
    assert_sensible(model, 9, 4)


def test_fit__few_documents_are_noted_without_a_warning() -> None:
    X, Y = random_matrices(40, 23, 7)
    notes = paper_labeler(8, prior="uniform").fit(X, Y).fit_stats_["notes"]
    assert len(notes) == 1
    assert re.search(
        r"guarantee of 8 topics .* 64 documents.* There are 40, which support n_components=6", notes[0]
    )
    assert paper_labeler(6, prior="uniform").fit(X, Y).fit_stats_["notes"] == []


def test_fit__fewer_topics_than_the_default_are_noted_without_a_warning() -> None:
    X, Y = random_matrices(30, 60, 7)
    model = MomentLabeler(head="posterior").fit(X, Y)
    K = len(model.topic_weights_)
    assert K < 30
    assert model.fit_stats_["notes"][0].startswith(f"Only {K} topics instead of 100")


def test_fit__half_of_a_few_documents_measures_nothing() -> None:
    model = paper_labeler(1).fit(np.ones((1, 3)), np.ones((1, 2)))
    assert np.isnan(model.error_bars_.words).all()
    assert "No error bars were measured" in model.guarantee().sentence


def test_notes__equal_weights() -> None:
    (note,) = fit_notes(300, np.array([2.0, 0.5, 0.9]), "eigenvalues")
    assert "same weight, for 2 of the 3 tensor eigenvalues are below 1" in note
    assert fit_notes(300, np.array([2.0, 0.5, 0.9]), "uniform") == []  # as it was asked for
    assert fit_notes(300, np.array([2.0, 1.5, 0.9]), "eigenvalues") == []


def test_fit__more_topics_than_documents() -> None:
    """A corpus of n documents has no more than n topics, and the plan knows it."""
    X, Y = random_matrices(30, 60, 7)
    with pytest.warns(UserWarning, match="Only .* topics instead of 1000"):
        model = paper_labeler(1000).fit(X, Y)
    assert len(model.topic_weights_) <= 30
    assert model.fit_stats_["plan"]["peak_bytes"] < 1e9


def test_fit__one_topic() -> None:
    X, Y = random_matrices(60, 23, 7)
    model = paper_labeler(1).fit(X, Y)
    assert_sensible(model, 23, 7)
    assert model.topic_weights_.tolist() == [1]
    assert (model.transform(X) == 1).all()


@pytest.mark.parametrize("settings", [{}, {"self_pairs": "drop"}, {"whitening": "sketch"}], ids=str)
def test_fit__one_topic_is_never_in_doubt(settings: dict[str, str]) -> None:
    # Its weight is 1, whatever its tensor eigenvalue: nothing to warn of.
    for seed in range(5):
        X, Y = random_matrices(40, 12, 3, seed=seed)
        assert paper_labeler(1, **settings).fit(X, Y).topic_weights_.tolist() == [1]


@pytest.mark.parametrize("flat", [False, True])
def test_fit__one_label(flat: bool) -> None:
    X, Y = random_matrices(60, 23, 1)
    model = paper_labeler(2).fit(X, Y[:, 0] if flat else Y)
    assert_sensible(model, 23, 1)
    labels, scores = model.predict_topk(X, k=3)
    assert set(map(tuple, labels.tolist())) == {(0, -1, -1)}
    np.testing.assert_allclose(scores[:, 0], 1, rtol=1e-6)
    assert model.score(X, Y) == Y.mean()


def test_score__one_label_may_be_flat() -> None:
    X, Y = random_matrices(60, 23, 1)
    assert paper_labeler(2).fit(X, Y[:, 0]).score(X, Y[:, 0]) == Y.mean()


@fewer_topics
@pytest.mark.parametrize("self_pairs", ["keep", "drop"])
def test_fit__one_document(self_pairs: str) -> None:
    model = paper_labeler(2, self_pairs=self_pairs).fit([[1, 0, 1, 1]], [[0, 1, 1]])
    assert_sensible(model, 4, 3)
    np.testing.assert_allclose(model.word_topics_[:, 0], [1 / 3, 0, 1 / 3, 1 / 3], atol=1e-5)
    np.testing.assert_allclose(model.label_topics_[:, 0], [0, 0.5, 0.5], atol=1e-6)


@fewer_topics
@pytest.mark.parametrize("whitening", ["exact", "sketch"])
def test_fit__identical_documents(whitening: str) -> None:
    X, Y = np.tile([1, 0, 2, 1], (30, 1)), np.tile([0, 1, 1], (30, 1))
    model = paper_labeler(3, whitening=whitening).fit(X, Y)
    assert_sensible(model, 4, 3)
    np.testing.assert_allclose(model.word_topics_[:, 0], [1 / 3, 0, 1 / 3, 1 / 3], atol=1e-4)
    assert model.score(X, Y) == 1


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
def test_fit__unlabelled_documents_count_for_words_only() -> None:
    X, Y = random_matrices(300, 23, 7)
    Y[::2] = 0
    model, labelled = paper_labeler(3).fit(X, Y), Y.any(axis=1)
    assert_sensible(model, 23, 7)
    assert model.statistics_.n_docs == 300
    assert model.statistics_.n_labelled == labelled.sum()
    np.testing.assert_allclose(model.word_topics_, paper_labeler(3).fit(X, Y + 1).word_topics_, atol=1e-6)
    assert model.evaluate(X, Y)["n_unlabelled"] == (~labelled).sum()


def test_fit__labels_never_seen_have_no_chance() -> None:
    X, Y = random_matrices(300, 23, 7)
    Y[:, [2, 5]] = 0
    model = paper_labeler(3).fit(X, Y)
    assert_sensible(model, 23, 7)
    assert (model.label_topics_[[2, 5]] == 0).all()
    assert (model.predict_proba(X)[:, [2, 5]] == 0).all()


def test_fit__words_never_seen() -> None:
    X, Y = random_matrices(300, 23, 7)
    X[:, [0, 22]] = 0
    model = paper_labeler(3).fit(X, Y)
    assert_sensible(model, 23, 7)
    assert model.word_topics_[[0, 22]].max() < 1e-6
    assert np.isfinite(model.transform(np.eye(23))).all()


@pytest.mark.parametrize("whitening", ["exact", "sketch"])
def test_fit__empty_documents_do_not_matter(matrices: Matrices, whitening: str) -> None:
    X, Y = (m[:400] for m in matrices)
    padded, labels = np.zeros((4000, 400), int), np.ones((4000, 20), int)
    padded[::10], labels[::10] = X, Y
    ours = paper_labeler(3, whitening=whitening).fit(padded, labels)
    assert_same_fit(ours, paper_labeler(3, whitening=whitening).fit(X, Y), atol=1e-4)
    assert ours.statistics_.n_docs == 4000


def test_fit__explicit_zeros_are_zeros(matrices: Matrices) -> None:
    X, Y = (scipy.sparse.csr_array(m[:500].astype(float)) for m in matrices)
    X.data[::4] = 0
    Y.data[::5] = 0
    ours = paper_labeler(3, words="counts").fit(X, Y)
    assert_same_fit(ours, paper_labeler(3, words="counts").fit(X.toarray(), Y.toarray()))
    np.testing.assert_allclose(ours.transform(X), ours.transform(X.toarray()), rtol=1e-6)


def test_fit__fractions(matrices: Matrices) -> None:
    X, Y = (m[:500] for m in matrices)
    for words in ("binary", "counts"):
        model = paper_labeler(3, words=words)
        ours = model.fit(X * 0.3, Y).word_topics_
        np.testing.assert_allclose(ours, model.fit(X, Y).word_topics_, rtol=2e-3, atol=2e-5)
    with pytest.raises(InputError, match=r"whole-number counts.*words='binary'.*self_pairs='keep'"):
        paper_labeler(3, words="counts", self_pairs="drop").fit(X * 0.3, Y)
    assert_sensible(paper_labeler(3, words="counts", self_pairs="drop").fit(X * 2.0, Y), 400, 20)


@pytest.mark.parametrize("kind", ["dense", "csr", "coo", "pydata gcxs", "dask"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1.0])
def test_values__not_finite_or_negative_are_refused(
    kind: str, value: float, small_model: MomentLabeler
) -> None:
    X, Y = (m.astype(float) for m in random_matrices(300, 23, 7))
    x, y = X.copy(), Y.copy()
    x[3, 4] = y[3, 4] = value
    make = KINDS[kind]
    what = "(?i)NaN|infinit|negative"
    with pytest.raises(InputError, match=what):
        paper_labeler(3).fit(make(x), make(Y))
    with pytest.raises(InputError, match=what):
        paper_labeler(3).fit(make(X), make(y))
    with pytest.raises(InputError, match=what):
        small_model.transform(make(x))


def test_values__refused_ones_are_located() -> None:
    X, Y = random_matrices(60, 23, 7)
    X[17, 4] = -1
    with pytest.raises(InputError, match=r"X.*row 17"):
        paper_labeler(3).fit(X, Y)


@pytest.mark.parametrize("kind", ["dense", "csr", "pydata gcxs", "dask"])
def test_fit__nothing_to_learn_from_is_refused(kind: str) -> None:
    X, Y = random_matrices(60, 23, 7)
    make = KINDS[kind]
    for whitening in ("exact", "sketch"):
        with pytest.raises(InputError, match=r"nothing to learn.*not empty"):
            paper_labeler(2, whitening=whitening).fit(make(X * 0), make(Y))
    with pytest.raises(InputError, match=r"(?i)call fit\(X, Y\)"):
        paper_labeler(2).fit(make(X))
    with pytest.raises(InputError, match=r"0 labels|0 feature"):
        paper_labeler(2).fit(make(X), make(Y[:, :0]))
    with pytest.raises(InputError, match=r"0 terms|0 feature"):
        paper_labeler(2).fit(make(X[:, :0]), make(Y))
    with pytest.raises(InputError, match=r"no rows|0 sample"):
        paper_labeler(2).fit(make(X[:0]), make(Y[:0]))
    with pytest.raises(InputError, match=r"as many rows|numbers of samples"):
        paper_labeler(2).fit(make(X), make(Y[:50]))


def test_fit__documents_of_one_word_have_no_pairs() -> None:
    X, Y = np.eye(5)[[0, 1, 2, 3, 4, 0]], np.eye(2)[[0, 1, 0, 1, 0, 0]]
    assert_sensible(paper_labeler(2).fit(X, Y), 5, 2)
    with pytest.raises(InputError, match="No document has two words"):
        paper_labeler(2, self_pairs="drop").fit(X, Y)


def test_fit__labels_of_no_document_leave_all_equal_with_a_warning() -> None:
    X, Y = random_matrices(60, 23, 7)
    with pytest.warns(UserWarning, match="No document has a label"):
        model = paper_labeler(2).fit(X, Y * 0)
    np.testing.assert_allclose(model.predict_proba(X), 1 / 7, rtol=1e-6)


@pytest.mark.parametrize("labels", [np.full((60, 1), "sport"), np.full(60, "sport", dtype=object)])
def test_fit__words_are_no_labels(labels: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"(?i)label|numbers"):
        paper_labeler(2).fit(random_matrices(60, 23, 7)[0], labels)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"whitening": "none"}, "whitening.*'none'.*auto, exact, sketch"),
        ({"tensor": "cp"}, "tensor.*'cp'.*orthogonal, power"),
        ({"self_pairs": True}, "self_pairs.*True.*keep, drop"),
        ({"words": None}, "words.*None.*binary, counts"),
        ({"prior": "flat"}, "prior.*'flat'.*eigenvalues, uniform"),
        ({"smoothing": 0}, "smoothing.*between 0 and 1.*Found 0"),
        ({"smoothing": 1.0}, "smoothing.*between 0 and 1"),
        ({"smoothing": float("nan")}, "smoothing.*between 0 and 1"),
        ({"smoothing": "much"}, "smoothing.*'much'"),
        ({"n_components": 0}, "n_components.*Found 0.*1 or more"),
        ({"n_components": 2.5}, "n_components.*2.5"),
        ({"n_components": "2"}, "n_components.*'2'"),
        ({"n_jobs": 0}, "n_jobs.*0"),
        ({"n_jobs": True}, "n_jobs.*True"),
        ({"n_jobs": "all"}, "n_jobs.*'all'"),
        ({"random_state": 0.5}, "random_state.*0.5"),
        ({"random_state": -1}, "random_state.*-1"),
    ],
    ids=str,
)
def test_fit__bad_parameters_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        paper_labeler(**{"n_components": 2, **settings}).fit(*random_matrices(60, 23, 7))


def test_fit__a_corpus_has_its_own_labels(planted: Corpus, matrices: Matrices) -> None:
    with pytest.raises(InputError, match=r"its own labels.*fit\(corpus\)"):
        paper_labeler(2).fit(planted, matrices[1])


def test_evaluate__a_corpus_has_its_own_labels(planted: Corpus, paper_model: MomentLabeler) -> None:
    with pytest.raises(InputError, match="its own labels"):
        paper_model.evaluate(planted, np.ones((planted.n_docs, 20)))


def test_fit__a_corpus_without_labels_is_refused(tmp_path: Path) -> None:
    corpus = ingest_matrices(random_matrices(60, 23, 7)[0], None, tmp_path / "no.zarr")
    with pytest.raises(InputError, match="23 terms and 0 labels"):
        paper_labeler(2).fit(corpus)


def test_fit__a_corpus_without_documents_is_refused(planted: Corpus) -> None:
    for whitening in ("exact", "sketch"):
        with pytest.raises(InputError, match="nothing to learn"):
            paper_labeler(2, whitening=whitening).fit(planted.head(0))
