"""Every head: learned from all documents, chosen on held-out ones, the same for any kind of input."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse

from tests import naive_heads, naive_metrics
from tests import naive_scoring as naive
from tests.conftest import random_matrices
from threepass import Corpus, InputError, MomentLabeler, ingest_matrices
from threepass.corpus.convert import as_rows
from threepass.model.plan import BASE_BYTES
from threepass.parts.choose_head import _OwnTopics
from threepass.parts.cross import Cross, CrossMoment
from threepass.parts.heads import KINDS as ALL_KINDS
from threepass.parts.heads import log_word_topics
from threepass.parts.learn_head import _half
from threepass.parts.selection import Choice

KINDS = list(ALL_KINDS)
RIDGES = ["ridge", "blend"]
Matrices = tuple[np.ndarray, np.ndarray]

fewer_topics = pytest.mark.filterwarnings("ignore:Only . topics? instead of")


def labelled_by_words(n: int, seed: int = 0) -> Matrices:
    """Documents whose labels follow from single words, which topics alone cannot tell apart.

    There are 30 labels, each with a word of its own that comes with it nine times out of ten; the first are
    frequent and the last are rare. The other words come from one of three topics.
    """
    rng = np.random.default_rng(seed)
    rates = 0.5 / np.arange(1, 31)
    Y = (rng.random((n, 30)) < rates) * 1
    signs = Y * (rng.random(Y.shape) < 0.9)
    topics = np.random.default_rng(9).dirichlet(np.full(60, 0.3), 3)  # the same for every seed
    words = np.array([rng.multinomial(12, topics[i]) for i in rng.integers(3, size=n)])
    X = np.hstack([words, signs])
    X[::50] = 0
    return X, Y


@pytest.fixture(scope="module")
def train() -> Matrices:
    return labelled_by_words(1500)


@pytest.fixture(scope="module")
def unseen() -> Matrices:
    return labelled_by_words(800, seed=1)


@pytest.fixture(scope="module")
def corpus(train: Matrices, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    path = tmp_path_factory.mktemp("heads") / "train.zarr"
    corpus = ingest_matrices(*train, path, block_bytes=25_000)
    assert corpus.n_blocks > 5
    return corpus


@pytest.fixture(scope="module")
def models(corpus: Corpus) -> dict[str, MomentLabeler]:
    return {kind: MomentLabeler(3, head=kind).fit(corpus) for kind in KINDS}


# -- what is learned ------------------------------------------------------------------------------------


def naive_features(model: MomentLabeler, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted words and features of dense documents, from the fitted basis."""
    head = model.head_
    assert head.weighting is not None
    assert head.ridge is not None
    weighted = naive_heads.weighted(X, head.weighting.idf, head.weighting.scheme)
    Z = weighted @ head.ridge.B
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    angles = Z / np.where(lengths > 0, lengths, 1) @ head.ridge.waves + head.ridge.phases
    waves = np.cos(angles) * np.sqrt(2 / max(1, len(head.ridge.phases)))
    return weighted, np.hstack([Z, waves, np.ones((len(X), 1))])


@pytest.mark.parametrize("kind", RIDGES)
def test_ridge__is_solved_for_all_documents(
    models: dict[str, MomentLabeler], kind: str, train: Matrices
) -> None:
    """Held-out documents too: they were added back."""
    X, Y = train
    model = models[kind]
    assert model.fit_stats_["held_out_docs"] > 100
    _, F = naive_features(model, X)
    strength = model.fit_stats_["choice"]["strength"]
    A = np.linalg.solve(F.T @ F + strength * np.eye(F.shape[1]), F.T @ Y).T
    ours = model.head_.ridge.A
    assert abs(ours - A).max() < 2e-3 * abs(A).max()  # kept in half precision
    # without the held-out documents it would be another
    kept = np.random.default_rng(0).random(len(X)) > 0.1
    less = np.linalg.solve(F[kept].T @ F[kept] + strength * np.eye(F.shape[1]), F[kept].T @ Y[kept]).T
    assert abs(ours - less).max() > 1e-2 * abs(A).max()


@pytest.mark.parametrize("kind", RIDGES)
def test_memory__is_of_all_documents(models: dict[str, MomentLabeler], kind: str, train: Matrices) -> None:
    X, Y = train
    model = models[kind]
    choice = Choice(**model.fit_stats_["choice"])
    weighted, _ = naive_features(model, X)
    centroids = weighted.T @ Y
    lengths = np.linalg.norm(centroids, axis=0) + choice.damping
    expected = choice.memory * centroids / np.where(lengths > 0, lengths, 1)
    assert choice.memory > 0
    ours = model.head_.memory.to_scipy().toarray()
    np.testing.assert_allclose(ours, expected, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("kind", ["refined", "blend"])
def test_refined__is_one_em_step_from_the_papers_topics(
    models: dict[str, MomentLabeler], kind: str, train: Matrices
) -> None:
    X, Y = train
    paper, model = models["posterior"], models[kind]
    R = naive.posterior(X, naive.smoothed(paper.word_topics_, 0.1), paper.topic_weights_)
    O, Q = (X > 0).T @ R, Y.T @ R + 0.01
    np.testing.assert_allclose(model.word_topics_, O / O.sum(axis=0), rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(model.label_topics_, Q / Q.sum(axis=0), rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(model.topic_weights_, R.mean(axis=0), rtol=1e-4)


def test_refine_passes__labels_speak_for_topics() -> None:
    X, Y = random_matrices(2400, 23, 7)  # topics that are far from clear, so that labels have a say
    paper, once, twice = (
        MomentLabeler(3, head=kind, refine_passes=n).fit(X, Y)
        for kind, n in (("posterior", 0), ("refined", 0), ("refined", 1))
    )
    kept = ~naive_heads.held_out(len(X), 0.1)
    assert len(X) - kept.sum() == twice.fit_stats_["held_out_docs"]
    # the first step knows nothing of the held-out documents; they are added to the last
    R = naive.posterior(X[kept], naive.smoothed(paper.word_topics_, 0.1), paper.topic_weights_)
    O, Q = (X[kept] > 0).T @ R, Y[kept].T @ R + 0.01
    topics = naive.smoothed(O / O.sum(axis=0), 0.1)
    R = naive.posterior(X, topics, R.mean(axis=0)) * np.exp(Y @ np.log(Q / Q.sum(axis=0)))
    R /= R.sum(axis=1, keepdims=True)
    O = (X > 0).T @ R
    np.testing.assert_allclose(twice.word_topics_, O / O.sum(axis=0), rtol=2e-3, atol=1e-6)
    assert abs(twice.word_topics_ - once.word_topics_).sum(axis=0).max() > 0.05
    assert twice.n_passes_ == 4


@pytest.mark.parametrize("kind", RIDGES)
def test_scores__equal_the_formula(models: dict[str, MomentLabeler], kind: str, unseen: Matrices) -> None:
    """F A' + X~ C + b sqrt(P Q'), for documents that are long, empty or of unknown words."""
    X = unseen[0][:120]
    head = models[kind].head_
    weighted, F = naive_features(models[kind], X)
    expected = F @ head.ridge.A.T.astype(float) + weighted @ head.memory.to_scipy().toarray()
    topics = head.topics
    P = naive.smoothed(topics.O, topics.smoothing)
    logs = np.log(naive.posterior(X, P, topics.pi)) / topics.temperature
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares = (shares / shares.sum(axis=1, keepdims=True)) @ topics.Q.T
    if kind == "blend":
        expected += head.topics_weight * np.sqrt(shares)
    rows = models[kind]._over_documents(X, lambda seen, _: seen, head=head)
    seen = next(rows)
    np.testing.assert_allclose(head.scores(seen, slice(0, 120), slice(0, 30)), expected, atol=2e-5)
    np.testing.assert_allclose(head.scores(seen, slice(7, 9), slice(11, 14)), expected[7:9, 11:14], atol=2e-5)


@pytest.mark.parametrize("smoothing", [0.1, 0.5, 1.0])
def test_log_word_topics__of_all_words_or_of_some(smoothing: float) -> None:
    O = np.random.default_rng(0).dirichlet(np.full(40, 0.1), 3).T.astype(np.float32)
    kept, some = O.copy(), np.array([3, 7, 30])
    logs = log_word_topics(O, smoothing)
    assert logs.dtype == np.float32
    # products in single precision: a logarithm errs by no more than a few units in the last place of 1
    np.testing.assert_allclose(logs, np.log(naive.smoothed(O.astype(float), smoothing)), rtol=3e-7, atol=3e-7)
    np.testing.assert_array_equal(log_word_topics(O[some], smoothing, 40), logs[some])
    assert abs(log_word_topics(O[some], smoothing) - logs[some]).max() > 1
    np.testing.assert_array_equal(O, kept)


def test_log_word_topics__overwrites_where_it_may() -> None:
    O = np.random.default_rng(0).dirichlet(np.full(40, 0.1), 3).T.astype(np.float32)
    expected = log_word_topics(O, 0.1)
    assert log_word_topics(O, 0.1, overwrite=True) is O
    np.testing.assert_array_equal(O, expected)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("smoothing", [0.01, 0.3])
def test_own_topics__are_those_of_all_words(
    models: dict[str, MomentLabeler], unseen: Matrices, smoothing: float, temperature: float
) -> None:
    X = as_rows(unseen[0][:60], "X")
    assert len(X.compact()[1]) < X.n_columns
    topics = replace(models["refined"].head_.topics, smoothing=smoothing, temperature=temperature)
    own = _OwnTopics.of(topics, X)
    assert len(own.O) < len(topics.O)
    np.testing.assert_array_equal(own.posterior(smoothing, temperature), topics.posterior(X))


@pytest.mark.parametrize("shape", [(0,), (5,), (7, 3), (0, 4)])
def test_half__rounds_in_place_to_what_is_saved(shape: tuple[int, ...]) -> None:
    matrix = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 1000
    expected = matrix.astype(np.float16).astype(np.float32)
    assert _half(matrix) is matrix
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize("large", [65504.0, -65504.0, 65505.0, -1e30])
def test_half__what_is_too_large_stays(large: float) -> None:
    matrix = np.array([[1 / 3, large]], np.float32)
    out = _half(matrix)
    assert out[0, 1] == np.float32(large)
    assert out[0, 0] == (np.float16(1 / 3) if abs(large) <= 65504 else np.float32(1 / 3))


@pytest.mark.parametrize("kind", RIDGES)
def test_saved_precision__is_what_predictions_are_made_with(
    models: dict[str, MomentLabeler], kind: str
) -> None:
    head = models[kind].head_
    for array in (head.ridge.A, head.ridge.B, head.memory.values):
        np.testing.assert_array_equal(array.astype(np.float16).astype(np.float32), array)


def test_memory__holds_no_more_entries_than_allowed(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even once the held-out documents were added."""
    most = 400

    def zero(work: Cross) -> Any:
        return {**plain(work), "cross": CrossMoment.zero(work.n_labels, corpus.n_terms, most)}

    plain = Cross.zero
    monkeypatch.setattr(Cross, "zero", zero)
    model = MomentLabeler(3, head="ridge").fit(corpus)
    assert model.fit_stats_["held_out_docs"] > 0
    assert most - 30 < model.head_.memory.nnz <= most


# -- what is chosen -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["refined", *RIDGES])
def test_choice__is_told_and_json(models: dict[str, MomentLabeler], kind: str, corpus: Corpus) -> None:
    stats = models[kind].fit_stats_
    assert stats["head"] == kind
    assert stats["chosen_on"] == "held-out training documents"
    assert 0 < stats["held_out_docs"] <= 0.12 * corpus.n_docs
    assert stats["choice"].keys() == Choice().as_dict().keys()
    measures = stats["held_out"] if kind != "refined" else stats["held_out_topics"]
    assert 0.5 < measures["auc"] <= 1
    assert 0 < measures["p@1"] <= 1
    assert stats["model_bytes"] > 0
    json.dumps(stats)


def test_choice__held_out_scores_foretell_new_documents(
    models: dict[str, MomentLabeler], unseen: Matrices
) -> None:
    labelled = unseen[1].any(axis=1)
    metrics = models["blend"].evaluate(unseen[0][labelled], unseen[1][labelled])
    held_out = models["blend"].fit_stats_["held_out"]
    assert metrics["p@1"] == pytest.approx(held_out["p@1"], abs=0.08)
    assert metrics["auc"] == pytest.approx(held_out["auc"], abs=0.03)


def test_heads__beat_the_papers_where_words_tell_labels(
    models: dict[str, MomentLabeler], unseen: Matrices
) -> None:
    found = {kind: model.evaluate(*unseen) for kind, model in models.items()}
    for kind in RIDGES:
        assert found[kind]["p@3"] > found["posterior"]["p@3"] + 0.1
        assert found[kind]["auc"] > found["posterior"]["auc"] + 0.02


def test_choice__smoothing_that_is_given_is_kept(train: Matrices) -> None:
    model = MomentLabeler(3, head="refined", smoothing=0.2).fit(*train)
    assert model.head_.topics.smoothing == 0.2
    assert model.fit_stats_["choice"]["smoothing"] == 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_few_documents__take_the_defaults(kind: str) -> None:
    X, Y = random_matrices(40, 23, 7)
    model = MomentLabeler(2, head=kind).fit(X, Y)
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    assert ((P >= 0) & (P <= 1)).all()
    assert model.fit_stats_["chosen_on"] == "nothing: defaults"
    assert model.fit_stats_["held_out_docs"] == 0


@fewer_topics
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("X", "Y"),
    [
        ([[1, 0, 1, 1]], [[0, 1, 1]]),
        (np.tile([1, 0, 2, 1], (80, 1)), np.tile([0, 1, 1], (80, 1))),
        (np.tile([[1, 0, 2, 1], [0, 1, 0, 0]], (400, 1)), np.tile([[1], [0]], (400, 1))),
    ],
    ids=["one document", "all alike", "one label"],
)
def test_degenerate__corpora_still_fit(kind: str, X: Any, Y: Any) -> None:
    model = MomentLabeler(1, head=kind).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    labels, _ = model.predict_topk(X, k=1)
    assert np.asarray(Y)[0, labels[0, 0]] == 1


@pytest.mark.filterwarnings("ignore:No document has a label")
@pytest.mark.parametrize("kind", ["auto", *KINDS])
def test_unlabelled__views_still_fit(kind: str, tmp_path: Path) -> None:
    """Labels there are, but on none of the documents in view."""
    X, Y = random_matrices(900, 23, 7)
    Y[:850] = 0
    view = ingest_matrices(X, Y, tmp_path / "c.zarr").head(850)
    model = MomentLabeler(2, head=kind).fit(view)
    assert np.isfinite(model.predict_proba(X)).all()


def test_auto__is_the_blend_unless_there_are_no_labels(train: Matrices) -> None:
    assert MomentLabeler(2).fit(train[0][:300], train[1][:300]).head_.kind == "blend"
    with pytest.warns(UserWarning, match="No document has a label"):
        model = MomentLabeler(2, refine_passes=1).fit(train[0][:300], 0 * train[1][:300])
    assert model.head_.kind == "posterior"
    assert model.n_passes_ == 3


# -- the same everywhere --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_predictions__same_for_any_kind_of_input(
    models: dict[str, MomentLabeler], kind: str, unseen: Matrices, tmp_path: Path
) -> None:
    X, Y = unseen
    model = models[kind]
    wider = np.hstack([X, np.ones((len(X), 3), int)])  # words that the model has never heard of
    others = {
        "csr": scipy.sparse.csr_array(X),
        "dask": da.from_array(X, chunks=(130, -1)),
        "corpus": ingest_matrices(X, Y, tmp_path / "c.zarr", block_bytes=5_000),
        "wider corpus": ingest_matrices(wider, Y, tmp_path / "w.zarr", block_bytes=9_000),
    }
    ref, (ref_labels, ref_scores) = model.predict_proba(X), model.predict_topk(X, k=4)
    for name, other in others.items():
        np.testing.assert_allclose(model.predict_proba(other), ref, atol=2e-4, err_msg=name)
        labels, scores = model.predict_topk(other, k=4)
        assert (labels == ref_labels).mean() > 0.99, name  # near ties may swap
        np.testing.assert_allclose(scores, ref_scores, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_fit__does_not_depend_on_blocks(kind: str, train: Matrices, unseen: Matrices, tmp_path: Path) -> None:
    one, many = (
        MomentLabeler(3, head=kind).fit(ingest_matrices(*train, tmp_path / str(size), block_bytes=size))
        for size in (10**8, 30_000)
    )
    assert one.fit_stats_.get("choice") == many.fit_stats_.get("choice")
    np.testing.assert_allclose(one.predict_proba(unseen[0]), many.predict_proba(unseen[0]), atol=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_save__every_head_comes_back_bitwise(
    models: dict[str, MomentLabeler], kind: str, unseen: Matrices, tmp_path: Path
) -> None:
    model = models[kind]
    model.save(tmp_path / "m.zarr")
    loaded = MomentLabeler.load(tmp_path / "m.zarr")
    np.testing.assert_array_equal(loaded.predict_proba(unseen[0]), model.predict_proba(unseen[0]))
    for ours, theirs in zip(loaded.predict_topk(unseen[0]), model.predict_topk(unseen[0]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.evaluate(*unseen) == model.evaluate(*unseen)
    assert loaded.scores_mean_ == model.scores_mean_
    assert str(loaded.explain(unseen[0][5], 0)) == str(model.explain(unseen[0][5], 0))


@pytest.mark.parametrize("scheme", ["counts", "binary"])
def test_weighting__is_saved_and_used(scheme: Any, train: Matrices, tmp_path: Path) -> None:
    X, Y = train
    model = MomentLabeler(3, head="ridge", weighting=scheme).fit(X[:800], Y[:800])
    model.save(tmp_path / "m.zarr")
    loaded = MomentLabeler.load(tmp_path / "m.zarr")
    assert loaded.head_.weighting.scheme == scheme
    doubled, plain = (loaded.predict_proba(X[:50] * factor) for factor in (2, 1))
    np.testing.assert_allclose(doubled, plain, atol=1e-5)  # rows are of unit length, whatever the scheme
    X = X.copy()
    X[3, 2] = 40
    loud, quiet = loaded.predict_proba(X[3:4]), loaded.predict_proba((X[3:4] > 0) * 1)
    assert np.allclose(loud, quiet) == (scheme == "binary")


# -- probabilities --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities__rank_as_the_top_labels_do(
    models: dict[str, MomentLabeler], kind: str, unseen: Matrices
) -> None:
    P = models[kind].predict_proba(unseen[0])
    labels, scores = models[kind].predict_topk(unseen[0], k=5)
    assert ((P >= 0) & (P <= 1)).all()
    np.testing.assert_allclose(np.take_along_axis(P, labels.astype(int), 1), scores, rtol=1e-5, atol=1e-7)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (P.max(axis=1) == scores[:, 0]).all()
    if kind in ("posterior", "refined"):
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-4)


@pytest.mark.parametrize("kind", RIDGES)
def test_probabilities__can_be_taken_at_their_word(
    models: dict[str, MomentLabeler], kind: str, unseen: Matrices
) -> None:
    found = models[kind].evaluate(*unseen)
    P, true = models[kind].predict_proba(unseen[0]), unseen[1]
    assert found["brier"] == pytest.approx(((P - true) ** 2).mean(), rel=1e-4)
    base = ((true.mean(axis=0) - true) ** 2).mean()
    assert found["brier"] < 0.6 * base
    table = found["reliability"]
    assert sum(row["pairs"] for row in table) == true.size
    off = sum(row["pairs"] * abs(row["predicted"] - row["observed"]) for row in table) / true.size
    assert off < 0.02
    # as many labels as there are
    assert P.sum() == pytest.approx(true.sum(), rel=0.2)  # 150 documents were held out


def test_scores__say_what_they_mean(models: dict[str, MomentLabeler]) -> None:
    assert "add up to 1" in models["posterior"].scores_mean_
    assert "calibrated" in models["blend"].scores_mean_


# -- rare labels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_tail_weight__brings_rarer_labels_up(
    models: dict[str, MomentLabeler], kind: str, unseen: Matrices
) -> None:
    model = models[kind]
    proba = model.predict_proba(unseen[0])
    frequencies = []
    try:
        for tail_weight in (0.0, 0.5, 1.0):
            labels, _ = model.set_params(tail_weight=tail_weight).predict_topk(unseen[0], k=3)
            frequencies.append(model.label_counts_[labels].mean())
            np.testing.assert_array_equal(model.predict_proba(unseen[0]), proba)
    finally:
        model.set_params(tail_weight=0.0)
    assert frequencies[0] >= frequencies[1] >= frequencies[2]
    assert frequencies[0] > frequencies[2] or kind not in RIDGES  # the topics here have one order of labels


def test_tail_weight__ranks_by_probability_over_propensity(
    models: dict[str, MomentLabeler], unseen: Matrices
) -> None:
    model = models["blend"]
    p = naive_metrics.propensities(model.label_counts_, 1500)
    expected = model.predict_proba(unseen[0]) / p**0.5
    try:
        model.set_params(tail_weight=0.5)
        labels, scores = model.predict_topk(unseen[0], k=3)
        indicator = model.predict(unseen[0], threshold=0.4).toarray()
    finally:
        model.set_params(tail_weight=0.0)
    np.testing.assert_allclose(scores, -np.sort(-expected, axis=1)[:, :3], rtol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(expected, labels.astype(int), 1), scores, rtol=1e-4)
    assert (indicator == (expected >= 0.4)).mean() > 0.9999


# -- limits ---------------------------------------------------------------------------------------------


def test_head_dim__is_what_is_asked_for(train: Matrices, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="threepass"):
        model = MomentLabeler(2, head="ridge", head_dim=17).fit(*train)
    assert model.head_.ridge.A.shape == (30, 18)  # and the labels' own level
    assert model.fit_stats_["head_dim"] == 17
    assert "17 features (as asked for)" in caplog.text


def test_memory_limit__reduces_the_head_and_says_so(train: Matrices) -> None:
    tight = BASE_BYTES + 3_000_000
    model = MomentLabeler(2, head="ridge", memory_limit=tight).fit(*train)
    assert 1 <= model.fit_stats_["head_dim"] < 25
    assert "memory" in model.fit_stats_["head_dim_reason"]
    with pytest.warns(UserWarning, match=r"head_dim is reduced from 90 to \d+ \(memory.*Raise memory_limit"):
        MomentLabeler(2, head="ridge", head_dim=90, memory_limit=tight).fit(*train)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"head": "best"}, "head.*'best'.*auto, posterior, refined, ridge, blend"),
        ({"weighting": "tfidf"}, "weighting.*'tfidf'.*log, counts, binary"),
        ({"head_dim": 0}, "head_dim.*Found 0"),
        ({"head_dim": 2.5}, "head_dim.*2.5"),
        ({"refine_passes": -1}, "refine_passes.*-1"),
        ({"refine_passes": 1, "head": "posterior"}, "refine_passes.*'posterior'.*head='blend'"),
        ({"tail_weight": 1.5}, "tail_weight.*between 0 and 1.*1.5"),
        ({"tail_weight": "much"}, "tail_weight.*'much'"),
        ({"memory_limit": "much"}, "memory_limit.*'much'.*4GB"),
        ({"memory_limit": 0}, "memory_limit.*Found 0"),
    ],
    ids=str,
)
def test_parameters__bad_ones_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        MomentLabeler(**{"n_components": 2, **settings}).fit(*random_matrices(60, 23, 7))
