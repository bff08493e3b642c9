from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import sparse
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from tests import naive_metrics
from tests import naive_scoring as naive
from tests.conftest import random_matrices
from threepass import Corpus, InputError, MomentLabeler, Planted, ingest_matrices, ingest_planted
from threepass.ingest.synthetic import Lengths, planted_truth
from threepass.model import inputs
from threepass.moments.notes import fit_notes

Matrices = tuple[np.ndarray, np.ndarray]

fewer_topics = pytest.mark.filterwarnings("ignore:Only . topics? instead of")

FITTED = ("word_topics_", "label_topics_", "topic_weights_", "whitening_", "eigenvalues_")


def paper_labeler(*args: Any, **parameters: Any) -> MomentLabeler:
    """The estimator with the paper's own head; `test_heads.py` has the others."""
    return MomentLabeler(*args, **{"head": "posterior", **parameters})


def single_numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """An evaluation without its table, and without what it says of the documents."""
    return {name: value for name, value in metrics.items() if isinstance(value, float)}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    model = Planted(
        4_000, 400, 20, 4, words=Lengths(30, 30), labels=Lengths(1, 1), distinct=False, topic_share=0.8
    )
    return ingest_planted(model, tmp_path_factory.mktemp("planted") / "planted.zarr", block_bytes=100_000)


@pytest.fixture(scope="module")
def matrices(planted: Corpus) -> Matrices:
    """Dense X and Y of the planted corpus, terms in source order."""
    X, Y = planted.to_scipy()
    return X.toarray()[:, np.argsort(planted.term_ids)], Y.toarray().astype(int)


@pytest.fixture(scope="module")
def model(planted: Corpus) -> MomentLabeler:
    return paper_labeler(4, words="counts", self_pairs="drop").fit(planted)


@pytest.fixture(scope="module")
def corpus_head_model(planted: Corpus) -> MomentLabeler:
    return paper_labeler(3, words="counts").fit(planted.head(500))


@pytest.fixture(scope="module")
def small_model() -> MomentLabeler:
    """Fitted on 300 documents of 23 terms and 7 labels, some of each empty or never used."""
    return paper_labeler(3).fit(*random_matrices(300, 23, 7))


def dask_rows(dense: np.ndarray, chunks: Any, convert: Callable[[Any], Any] | None = None) -> da.Array:
    array = da.from_array(dense, chunks=chunks)
    if convert is None:
        return array
    return array.map_blocks(convert, dtype=dense.dtype, meta=convert(np.zeros((0, 0), dense.dtype)))


def gcxs(dense: np.ndarray) -> sparse.GCXS:
    return sparse.GCXS.from_numpy(dense)


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_array,
    "csr_matrix": scipy.sparse.csr_matrix,
    "dense": np.asarray,
    "list": np.ndarray.tolist,
    "pydata coo": sparse.COO.from_numpy,
    "pydata gcxs": gcxs,
    "dask": lambda m: dask_rows(m, (97, max(1, m.shape[1] // 2))),
    "dask of gcxs": lambda m: dask_rows(m, (120, -1), gcxs),
    "dask of csr": lambda m: dask_rows(m, (120, -1), scipy.sparse.csr_array),
}


def assert_same_fit(one: MomentLabeler, other: MomentLabeler, atol: float = 2e-5) -> None:
    """Equal but for rounding; eigenvectors have no sign. A sketch is not exact: give it a larger `atol`."""
    for name in FITTED:
        np.testing.assert_allclose(
            abs(getattr(one, name)), abs(getattr(other, name)), rtol=2e-3, atol=atol, err_msg=name
        )


def assert_sensible(model: MomentLabeler, n_terms: int, n_labels: int) -> None:
    K = len(model.topic_weights_)
    assert model.word_topics_.shape == model.whitening_.shape == (n_terms, K)
    assert model.label_topics_.shape == (n_labels, K)
    for name in FITTED:
        assert np.isfinite(getattr(model, name)).all(), name
    for distributions in (model.word_topics_, model.label_topics_, model.topic_weights_):
        assert (distributions >= 0).all()
        np.testing.assert_allclose(distributions.sum(axis=0), 1, rtol=1e-5)
    assert model.n_features_in_ == n_terms
    assert model.n_passes_ == 3
    assert np.isfinite(model.guarantee().bound_words)


# -- what is learned -----------------------------------------------------------------------------------------


def errors(model: MomentLabeler, corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L1 distances of the learned words and labels of each topic, and of the weights, from the truth.

    Topics are matched by their words alone.
    """
    truth = planted_truth(corpus)
    cost = abs(model.word_topics_[corpus.term_ids][:, :, None] - truth.O[:, None, :]).sum(axis=0)
    ours, theirs = scipy.optimize.linear_sum_assignment(cost)
    labels = abs(model.label_topics_[:, ours] - truth.Q[:, theirs]).sum(axis=0)
    return cost[ours, theirs], labels, abs(model.topic_weights_[ours] - truth.pi[theirs])


def test_fit__finds_the_planted_topics(planted: Corpus, model: MomentLabeler) -> None:
    words, labels, weights = errors(model, planted)
    assert words.max() < 0.15
    assert labels.max() < 0.2  # matched by words: labels belong to the same topics
    assert weights.max() < 0.02


@pytest.mark.parametrize("settings", [{"tensor": "power"}, {"whitening": "sketch"}], ids=str)
def test_fit__other_methods_find_the_same(
    planted: Corpus, model: MomentLabeler, settings: dict[str, Any]
) -> None:
    other = paper_labeler(4, words="counts", self_pairs="drop", **settings).fit(planted)
    assert other.fit_stats_["whitening"] == settings.get("whitening", "exact")
    for ours, theirs in zip(errors(model, planted), errors(other, planted), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.01)


def test_fit__without_self_pairs_moments_are_unbiased(planted: Corpus, model: MomentLabeler) -> None:
    kept = paper_labeler(4, words="counts").fit(planted)
    assert errors(model, planted)[0].mean() < 0.7 * errors(kept, planted)[0].mean()
    assert model.tensor_residual_ < 0.5 * kept.tensor_residual_


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


def test_fit__corpus_equals_matrices(planted: Corpus, matrices: Matrices, model: MomentLabeler) -> None:
    assert_same_fit(paper_labeler(4, words="counts", self_pairs="drop").fit(*matrices), model)


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


def test_fit__is_deterministic(planted: Corpus, model: MomentLabeler) -> None:
    again = paper_labeler(4, words="counts", self_pairs="drop", n_jobs=1).fit(planted)
    for name in FITTED:
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.tensor_residual_ == model.tensor_residual_


def test_fit__another_seed_of_the_sketch(planted: Corpus, model: MomentLabeler) -> None:
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


# -- the edges of fit ----------------------------------------------------------------------------------------


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
        ({"n_jobs": "all"}, "n_jobs.*'all'"),
        ({"random_state": None}, "random_state.*None"),
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


def test_evaluate__a_corpus_has_its_own_labels(planted: Corpus, model: MomentLabeler) -> None:
    with pytest.raises(InputError, match="its own labels"):
        model.evaluate(planted, np.ones((planted.n_docs, 20)))


def test_fit__a_corpus_without_labels_is_refused(tmp_path: Path) -> None:
    corpus = ingest_matrices(random_matrices(60, 23, 7)[0], None, tmp_path / "no.zarr")
    with pytest.raises(InputError, match="23 terms and 0 labels"):
        paper_labeler(2).fit(corpus)


def test_fit__a_corpus_without_documents_is_refused(planted: Corpus) -> None:
    for whitening in ("exact", "sketch"):
        with pytest.raises(InputError, match="nothing to learn"):
            paper_labeler(2, whitening=whitening).fit(planted.head(0))


# -- what is predicted ---------------------------------------------------------------------------------------


def test_predictions__equal_the_oracles(small_model: MomentLabeler) -> None:
    X, _ = random_matrices(50, 23, 7, seed=3)
    m = small_model
    P = naive.posterior(X, naive.smoothed(m.word_topics_, 0.1), m.topic_weights_)
    scores = naive.label_scores(P, m.label_topics_)
    np.testing.assert_allclose(m.transform(X), P, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(m.predict_proba(X), scores, rtol=1e-4, atol=1e-6)
    labels, best = m.predict_topk(X, k=4)
    np.testing.assert_allclose(best, naive.top_labels(scores, 4)[1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(m.predict_proba(X), labels, axis=1), best, rtol=1e-6)
    np.testing.assert_allclose(m.predict_proba(X).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(m.transform(X).sum(axis=1), 1, rtol=1e-5)


def test_transform__smoothing_is_used(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    other = paper_labeler(3, smoothing=0.9).fit(X, Y)
    np.testing.assert_array_equal(other.word_topics_, small_model.word_topics_)
    assert other.transform(X).max(axis=1).mean() < small_model.transform(X).max(axis=1).mean() - 0.05


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
@pytest.mark.parametrize("kind", ["corpus", *KINDS])
def test_predictions__same_for_any_kind(
    planted: Corpus, matrices: Matrices, model: MomentLabeler, kind: str
) -> None:
    X, Y = (m[:500] for m in matrices)
    ours = planted.head(500) if kind == "corpus" else KINDS[kind](X)
    true = None if kind == "corpus" else KINDS[kind](Y)
    for method in (model.transform, model.predict_proba):
        np.testing.assert_allclose(method(ours), method(X), rtol=1e-4, atol=1e-6)
    labels, scores = model.predict_topk(ours, k=5)
    ref_labels, ref_scores = model.predict_topk(X, k=5)
    assert (labels == ref_labels).mean() > 0.999  # sums in another order may swap near ties
    np.testing.assert_allclose(scores, ref_scores, rtol=1e-4)
    assert (model.predict(ours) != model.predict(X)).sum() <= 2
    metrics, ref = (single_numbers(model.evaluate(*docs)) for docs in ((ours, true), (X, Y)))
    assert metrics.keys() == ref.keys()
    for name, value in ref.items():
        assert metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-3), name


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
def test_predictions__many_blocks_keep_their_order(
    monkeypatch: pytest.MonkeyPatch, matrices: Matrices, model: MomentLabeler
) -> None:
    X, Y = (m[:500] for m in matrices)
    whole, metrics = model.predict_proba(X), single_numbers(model.evaluate(X, Y))
    monkeypatch.setattr(inputs, "_ROWS", 77)
    np.testing.assert_array_equal(model.predict_proba(X), whole)
    assert single_numbers(model.evaluate(X, Y)) == pytest.approx(metrics)


def test_predictions__a_corpus_with_other_ranks(
    tmp_path: Path, matrices: Matrices, planted: Corpus, model: MomentLabeler
) -> None:
    X, Y = matrices[0][3000:3200].copy(), matrices[1][3000:3200]
    X[:, 350:] += 1  # rare words are now the commonest
    corpus = ingest_matrices(X, Y, tmp_path / "test.zarr", block_bytes=20_000)
    assert not np.array_equal(corpus.term_ids, planted.term_ids)
    np.testing.assert_allclose(model.predict_proba(corpus), model.predict_proba(X), rtol=1e-4, atol=1e-6)
    ours, ref = (single_numbers(model.evaluate(*docs)) for docs in ((corpus,), (X, Y)))
    assert ours == pytest.approx(ref, rel=1e-4)


def test_predictions__words_unknown_to_the_model_are_ignored(
    tmp_path: Path, matrices: Matrices, model: MomentLabeler
) -> None:
    X, Y = matrices[0][:200], matrices[1][:200]
    wider = np.hstack([X, np.full((200, 9), 3)])
    corpus = ingest_matrices(wider, Y, tmp_path / "wide.zarr")
    np.testing.assert_allclose(model.predict_proba(corpus), model.predict_proba(X), rtol=1e-4, atol=1e-6)
    with pytest.raises(InputError, match=r"409 features.*expecting 400"):
        model.predict_proba(wider)


def test_predictions__a_corpus_with_fewer_words(
    tmp_path: Path, matrices: Matrices, model: MomentLabeler
) -> None:
    X, Y = matrices[0][:200].copy(), matrices[1][:200]
    X[:, 300:] = 0
    corpus = ingest_matrices(X[:, :300], Y, tmp_path / "narrow.zarr")
    np.testing.assert_allclose(model.predict_proba(corpus), model.predict_proba(X), rtol=1e-4, atol=1e-6)


def test_predictions__no_documents(planted: Corpus, model: MomentLabeler) -> None:
    none = planted.head(0)
    assert model.transform(none).shape == (0, 4)
    assert model.predict_proba(none).shape == (0, 20)
    assert [side.shape for side in model.predict_topk(none, k=3)] == [(0, 3), (0, 3)]
    assert model.predict(none).shape == (0, 20)
    assert model.evaluate(none)["n_docs"] == 0


@pytest.mark.parametrize("kind", ["dense", "csr", "pydata gcxs", "dask", "list"])
def test_predictions__another_width_is_refused(kind: str, small_model: MomentLabeler) -> None:
    for width in (22, 24):
        with pytest.raises(InputError, match=f"X has {width} features, but .* is expecting 23 features"):
            small_model.predict(KINDS[kind](np.ones((5, width))))


@pytest.mark.parametrize("make", [np.asarray, sparse.COO.from_numpy, da.from_array])
def test_predictions__a_row_alone_is_refused(make: Any, small_model: MomentLabeler) -> None:
    with pytest.raises(InputError):
        small_model.transform(make(np.ones(23)))


@pytest.mark.parametrize(
    ("k", "threshold"), [(1, None), (3, None), (7, None), (50, None), (None, 0.15), (2, 0.15), (None, 2.0)]
)
def test_predict__k_and_threshold(small_model: MomentLabeler, k: int | None, threshold: float | None) -> None:
    X, _ = random_matrices(80, 23, 7, seed=9)
    ref = naive.indicator(small_model.predict_proba(X), k, threshold)
    ref[X.sum(axis=1) == 0] = 0
    comp = small_model.predict(X, k=k, threshold=threshold)
    assert isinstance(comp, scipy.sparse.csr_array)
    assert comp.shape == (80, 7)
    assert comp.has_canonical_format
    assert set(comp.data.tolist()) <= {1}
    np.testing.assert_array_equal(comp.toarray(), ref)
    for row in range(80):
        assert (np.diff(comp.indices[comp.indptr[row] : comp.indptr[row + 1]]) > 0).all()


def test_predict__threshold_chooses_some() -> None:
    X, Y = random_matrices(300, 23, 7)
    model = paper_labeler(3).fit(X, Y)
    counts = model.predict(X, threshold=0.15).sum(axis=1)
    assert 0 < counts.mean() < 7
    assert (model.predict(X, k=2, threshold=0.15).sum(axis=1) == np.minimum(counts, 2)).all()


@pytest.mark.parametrize("share", [0.02, 0.3, 0.75])
def test_predict__as_many_labels_as_documents_have_without_a_threshold(share: float) -> None:
    X, _ = random_matrices(70, 23, 7)
    Y = (np.random.default_rng(0).random((70, 8)) < share) * 1
    average = max(1, round(Y.sum() / 70))
    model = paper_labeler(3).fit(X, Y)
    assert model.threshold_ is None
    np.testing.assert_array_equal(model.predict(X).sum(axis=1), average * (X.sum(axis=1) > 0))


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_predict__k_is_a_number_of_labels(small_model: MomentLabeler, k: Any) -> None:
    X, _ = random_matrices(5, 23, 7)
    for call in (small_model.predict_topk, small_model.predict):
        with pytest.raises(InputError, match=f"k is a number of labels. Found {k}"):
            call(X, k=k)


# -- how well ------------------------------------------------------------------------------------------------


def test_evaluate__equals_naive_metrics(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(120, 23, 7, seed=4)
    Y[5] = 1  # no AUC
    scores = small_model.predict_proba(X)
    inverse = 1 / naive_metrics.propensities(small_model.label_counts_, 300, 0.4, 2.0)
    areas = [roc_auc_score(y, s) if 0 < y.sum() < 7 else np.nan for y, s in zip(Y, scores, strict=True)]
    best, _ = small_model.predict_topk(X, k=7)
    ref = naive_metrics.metrics(best, Y > 0, (1, 2, 6), inverse, areas)
    comp = small_model.evaluate(X, Y, ks=(1, 2, 6), propensity=(0.4, 2.0))
    others = {"brier", "reliability", "calibrated", "documents_are", "familiar"}
    assert comp.keys() == ref.keys() | others
    assert comp["brier"] == pytest.approx(((scores - (Y > 0)) ** 2).mean(), rel=1e-5)
    for name, value in ref.items():
        assert comp[name] == pytest.approx(value, rel=1e-6), name
    assert comp["n_auc_skipped"] == 1 + np.count_nonzero(~Y.any(axis=1))


def test_evaluate__propensity_changes_its_metrics_only(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(120, 23, 7, seed=4)
    one, other = (small_model.evaluate(X, Y, propensity=p) for p in ((0.55, 1.5), (0.9, 0.1)))
    assert one["psp@1"] != other["psp@1"]
    assert {n: v for n, v in one.items() if "ps" not in n} == {
        n: v for n, v in other.items() if "ps" not in n
    }


def test_evaluate__without_auc(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(120, 23, 7, seed=4)
    metrics = small_model.evaluate(X, Y, ks=(2,), auc=False)
    assert not {"auc", "n_auc_skipped"} & metrics.keys()
    assert {name for name in metrics if "@" in name} == {"p@2", "ndcg@2", "recall@2", "psp@2", "psndcg@2"}
    full = small_model.evaluate(X, Y, ks=(2,))
    assert {name: full[name] for name in metrics} == metrics


def test_score__is_precision_at_one(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(120, 23, 7, seed=4)
    first = small_model.predict_topk(X, k=1)[0][:, 0]
    assert small_model.score(X, Y) == pytest.approx(Y[np.arange(120), first].mean())
    assert small_model.score(X, Y) == small_model.evaluate(X, Y)["p@1"]


def test_evaluate__learned_labels_beat_chance(planted: Corpus) -> None:
    train, test = planted.split(test=0.25)
    metrics = paper_labeler(4, words="counts", self_pairs="drop").fit(train).evaluate(test)
    assert metrics["n_docs"] == test.n_docs
    assert metrics["auc"] > 0.7
    assert metrics["p@1"] > 0.15  # 0.05 by chance


@pytest.mark.parametrize("kind", ["dense", "pydata gcxs", "dask"])
def test_evaluate__wrong_labels_are_refused(kind: str, small_model: MomentLabeler) -> None:
    X, Y = random_matrices(60, 23, 7)
    make = KINDS[kind]
    with pytest.raises(InputError, match=r"Found 14 columns.*the model has 7"):
        small_model.evaluate(make(X), make(np.hstack([Y, Y])))
    with pytest.raises(InputError, match=r"as many rows"):
        small_model.evaluate(make(X), make(Y[:50]))
    with pytest.raises(InputError, match=r"needs the true labels.*Pass Y"):
        small_model.evaluate(make(X))


@pytest.mark.parametrize(("x_kind", "y_kind"), [("dask", "pydata gcxs"), ("dask", "csc"), ("csr", "dask")])
def test_evaluate__kinds_can_be_mixed(x_kind: str, y_kind: str, small_model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7, seed=2)
    mixed = single_numbers(small_model.evaluate(KINDS[x_kind](X), KINDS[y_kind](Y)))
    assert mixed == pytest.approx(single_numbers(small_model.evaluate(X, Y)))


def test_evaluate__a_corpus_of_other_labels_is_refused(tmp_path: Path, small_model: MomentLabeler) -> None:
    corpus = ingest_matrices(random_matrices(60, 23, 7)[0], None, tmp_path / "no.zarr")
    with pytest.raises(InputError, match="Found 0 columns, the model has 7"):
        small_model.evaluate(corpus)


@pytest.mark.parametrize("ks", [(), (0,), (3, -1)])
def test_evaluate__bad_depths_are_refused(small_model: MomentLabeler, ks: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="ks"):
        small_model.evaluate(*random_matrices(60, 23, 7), ks=ks)


@pytest.mark.parametrize("head", ["refined", "blend"])
def test_guarantee__is_about_the_moments_topics_whatever_the_head(head: str, planted: Corpus) -> None:
    paper = paper_labeler(4).fit(planted)
    model = MomentLabeler(4, head=head, head_dim=10).fit(planted)  # type: ignore[arg-type]
    assert not np.allclose(model.topic_weights_, paper.topic_weights_), "the case that is tested"
    ours, theirs = asdict(model.guarantee()), asdict(paper.guarantee())
    assert (ours.pop("refined"), theirs.pop("refined")) == (True, False)
    assert ours == theirs
    assert model.guarantee().sentence.startswith("Of the topics as the moments give them, before the head")
    assert paper.guarantee().sentence.startswith("Theorem 1")
    assert all("before it was refined, off by" in str(topic) for topic in model.topics())
    assert not any("refined" in str(topic) for topic in paper.topics())


def test_guarantee__delta_is_a_probability(small_model: MomentLabeler) -> None:
    with pytest.raises(InputError, match="delta"):
        small_model.guarantee(delta=0)
    assert small_model.guarantee(0.01).bound_words > small_model.guarantee(0.5).bound_words


def test_labels__keep_their_names(tmp_path: Path) -> None:
    X, Y = random_matrices(60, 23, 3)
    corpus = ingest_matrices(X, Y, tmp_path / "named.zarr", label_names=["art", "war", "zoo"])
    assert paper_labeler(2).fit(corpus).label_names_ == ["art", "war", "zoo"]
    assert paper_labeler(2).fit(X, Y).label_names_ == ["0", "1", "2"]
