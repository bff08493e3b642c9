"""All parts together: every head learns from all documents, and is chosen on those that it did not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import naive_heads, naive_metrics
from tests.conftest import random_matrices
from tests.parts.learned import Matrices, labelled_by_words
from threepass import Corpus, InputError, MomentLabeler, ingest_matrices, ingest_text
from threepass.model import fitting
from threepass.model.predictor import Predictor
from threepass.parts.heads import HEADS
from threepass.parts.held_out import HoldOut
from threepass.parts.learning import PartsLearning
from threepass.parts.memory import Memory, MemoryPart
from threepass.parts.refined import Refined, RefinedPart
from threepass.parts.ridge import Ridge, RidgePart
from threepass.passes.plan import BASE_BYTES
from threepass.passes.work import array_bytes, arrays_of

every_head = pytest.mark.parametrize("head", list(HEADS))
RIDGES = ["ridge", "blend"]
FITTED = ["refined", *RIDGES]


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
    return {head: MomentLabeler(3, head=head, head_dim=80).fit(corpus) for head in HEADS}


@pytest.fixture(scope="module")
def small() -> Matrices:
    """So few that choices are made in folds."""
    return labelled_by_words(400)


def parts_of(model: MomentLabeler) -> dict[str, Any]:
    return {part.name: part for part in model.predictor_.blend.parts}


def naive_features(model: MomentLabeler, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted words and features of dense documents, from the fitted basis."""
    blend, basis = model.predictor_.blend, parts_of(model)["ridge"].basis
    weighted = naive_heads.weighted(X, blend.weighting.idf, blend.weighting.scheme)
    return weighted, naive_heads.features(weighted, basis.B, basis.waves, basis.phases)


# -- what is learned ------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", RIDGES)
def test_ridge__is_solved_for_all_documents(
    models: dict[str, MomentLabeler], head: str, train: Matrices
) -> None:
    """Held-out documents too: they were given back."""
    X, Y = train
    model = models[head]
    assert model.fit_stats_["held_out_docs"] > 100
    _, F = naive_features(model, X)
    strength = model.fit_stats_["choice"]["ridge.strength"]
    A = np.linalg.solve(F.T @ F + strength * np.eye(F.shape[1]), F.T @ Y).T
    ours = parts_of(model)["ridge"].A
    assert abs(ours - A).max() < 2e-3 * abs(A).max()  # kept in half precision
    # without the held-out documents it would be another
    kept = ~naive_heads.held_out(len(X), 0.1)
    less = np.linalg.solve(F[kept].T @ F[kept] + strength * np.eye(F.shape[1]), F[kept].T @ Y[kept]).T
    assert abs(ours - less).max() > 1e-2 * abs(A).max()


@pytest.mark.parametrize("head", RIDGES)
def test_memory__is_of_all_documents(models: dict[str, MomentLabeler], head: str, train: Matrices) -> None:
    X, Y = train
    choice = models[head].fit_stats_["choice"]
    idf = models[head].predictor_.blend.weighting.idf
    centroids = naive_heads.cross_moment(naive_heads.weighted(X, idf), Y).T
    lengths = np.linalg.norm(centroids, axis=0) + choice["memory.damping"]
    ref = choice["memory.weight"] * centroids / np.where(lengths > 0, lengths, 1)
    memory = parts_of(models[head])["memory"]
    np.testing.assert_allclose(memory.C.to_scipy().toarray(), ref, rtol=2e-3, atol=1e-6)


def test_refined__is_chosen_without_the_held_out_documents_and_made_of_all(
    models: dict[str, MomentLabeler], train: Matrices
) -> None:
    twice = MomentLabeler(3, head="refined", refine_passes=1).fit(*train)
    paper = models["posterior"]
    X, Y = train
    kept = ~naive_heads.held_out(len(X), 0.1)

    def step(R: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        O, Q = (X[rows] > 0).T @ R[rows], Y[rows].T @ R[rows] + 0.01
        return O / O.sum(axis=0), Q / Q.sum(axis=0)

    def posterior(O: np.ndarray, pi: np.ndarray, Q: np.ndarray | None = None) -> np.ndarray:
        smooth = 0.9 * O.astype(float) + 0.1 / len(O)
        logs = (X > 0) @ np.log(smooth) + np.log(pi) + (0 if Q is None else Y @ np.log(Q))
        R = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(R / R.sum(axis=1, keepdims=True))

    R = posterior(paper.word_topics_, paper.topic_weights_)
    O, Q = step(R, np.ones(len(X), bool))
    once = parts_of(models["refined"])["refined"].model
    np.testing.assert_allclose(once.O, O, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(once.Q, Q, rtol=1e-3, atol=1e-6)
    # the first step knows nothing of the held-out documents; they are added to the last
    O, Q = step(R, kept)
    O, _ = step(posterior(O, R[kept].mean(axis=0), Q), np.ones(len(X), bool))
    np.testing.assert_allclose(parts_of(twice)["refined"].model.O, O, rtol=5e-3, atol=1e-5)
    assert twice.n_passes_ == 4


@every_head
def test_word_topics__are_the_papers_whatever_the_head(models: dict[str, MomentLabeler], head: str) -> None:
    for name in ("word_topics_", "label_topics_", "topic_weights_"):
        np.testing.assert_array_equal(getattr(models[head], name), getattr(models["posterior"], name))


@every_head
def test_fit__holds_nothing_but_the_model_in_the_end(
    small: Matrices, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is saved, which takes memory of its own."""
    fits: list[fitting.Fit] = []
    run = fitting.Fit.run
    monkeypatch.setattr(fitting.Fit, "run", lambda self, runner: fits.append(self) or run(self, runner))
    model = MomentLabeler(3, head=head, head_dim=20, whitening="sketch").fit(*small)
    (fit,) = fits
    assert array_bytes(list(fit.parts.held())) == 0
    assert (fit.parts.documents, fit.parts.blend, fit.parts.context.shared) == (None, None, {})
    tall = [array for array in arrays_of(list(fit.method.held())) if array.size >= 90 * 3]
    assert [id(array) for array in tall] == [id(model.whitening_)]


# -- what is chosen -------------------------------------------------------------------------------------


@every_head
def test_choice__is_told_and_json(models: dict[str, MomentLabeler], head: str, corpus: Corpus) -> None:
    stats = models[head].fit_stats_
    assert stats["head"] == head
    assert stats["model_bytes"] > 0
    assert stats["threshold"]["value"] == models[head].threshold_
    json.dumps(stats)
    if head == "posterior":
        assert stats["chosen_on"] == "training documents"
        assert stats["held_out_docs"] == 0
        assert "held_out" not in stats  # how good it is on documents that it knows says nothing
        return
    assert stats["chosen_on"] == "held-out training documents"
    assert 0 < stats["held_out_docs"] <= 0.12 * corpus.n_docs
    assert {name.split(".")[0] for name in stats["choice"]} == {part.name for part in HEADS[head].parts}
    assert 0.5 < stats["held_out"]["auc"] <= 1
    assert 0 < stats["held_out"]["p@1"] <= 1
    assert ("held_out_refined" in stats) == (head != "ridge")


def test_choice__held_out_scores_foretell_new_documents(
    models: dict[str, MomentLabeler], unseen: Matrices
) -> None:
    labelled = unseen[1].any(axis=1)
    found = models["blend"].evaluate(unseen[0][labelled], unseen[1][labelled])
    held_out = models["blend"].fit_stats_["held_out"]
    assert found["p@1"] == pytest.approx(held_out["p@1"], abs=0.08)
    assert found["auc"] == pytest.approx(held_out["auc"], abs=0.03)


def test_heads__beat_the_papers_where_words_tell_labels(
    models: dict[str, MomentLabeler], unseen: Matrices
) -> None:
    found = {head: models[head].evaluate(*unseen) for head in ("posterior", *RIDGES)}
    for head in RIDGES:
        assert found[head]["p@3"] > found["posterior"]["p@3"] + 0.1
        assert found[head]["auc"] > found["posterior"]["auc"] + 0.02


def test_choice__smoothing_that_is_given_is_kept(small: Matrices) -> None:
    model = MomentLabeler(3, head="refined", smoothing=0.2).fit(*small)
    assert parts_of(model)["refined"].model.smoothing == 0.2
    assert model.fit_stats_["choice"]["refined.smoothing"] == 0.2


# -- small, tiny and odd corpora ------------------------------------------------------------------------


def folds_of(
    monkeypatch: pytest.MonkeyPatch, head: str, X: np.ndarray, Y: np.ndarray, **settings: Any
) -> tuple[MomentLabeler, list[PartsLearning]]:
    """A fitted model, and what judged each fold of its documents."""
    seen: list[PartsLearning] = []
    plain = PartsLearning._fold

    def spy(self: PartsLearning, *documents: Any) -> PartsLearning:
        seen.append(plain(self, *documents))
        return seen[-1]

    with monkeypatch.context() as patch:
        patch.setattr(PartsLearning, "_fold", spy)
        model = MomentLabeler(3, head=head, head_dim=40, **settings).fit(X, Y)
    return model, seen


def sums_of(fold: PartsLearning) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for part in fold.parts:
        if isinstance(part, RidgePart):
            assert part.features is not None
            assert part.sums is not None
            found |= {"gram": part.sums.gram, "labels": part.sums.labels, "basis": part.features.basis.B}
        if isinstance(part, MemoryPart):
            found["lengths"] = part.cross.kept().lengths()
        if isinstance(part, RefinedPart):
            found |= {"O": part.model().O, "Q": part.model().Q}
    return found


@pytest.mark.parametrize(("head", "passes"), [("refined", 1), ("ridge", 0), ("blend", 1)])
def test_folds__sums_know_nothing_of_the_labels_that_they_judge(
    monkeypatch: pytest.MonkeyPatch, head: str, passes: int, small: Matrices
) -> None:
    X, Y = small
    own, _ = HoldOut.of(len(X), Y.shape[1]).folds(len(X))[0]
    other = Y.copy()
    other[own] = 1 - other[own]
    _, plain = folds_of(monkeypatch, head, X, Y, refine_passes=passes)
    _, changed = folds_of(monkeypatch, head, X, other, refine_passes=passes)
    assert len(plain) == len(changed) == 5
    same = []
    for one, two in zip(plain, changed, strict=True):
        ours, theirs = sums_of(one), sums_of(two)
        assert ours.keys() == theirs.keys()
        same.append(all(np.array_equal(array, theirs[name]) for name, array in ours.items()))
    assert same == [True, False, False, False, False]


def test_folds__sums_are_the_whole_less_the_folds(monkeypatch: pytest.MonkeyPatch, small: Matrices) -> None:
    X, Y = small
    model, folds = folds_of(monkeypatch, "blend", X, Y)
    idf = model.predictor_.blend.weighting.idf
    weighted = naive_heads.weighted(X, idf)
    whole = naive_heads.cross_moment(weighted, Y)
    for (own, _), fold in zip(HoldOut.of(len(X), Y.shape[1]).folds(len(X)), folds, strict=True):
        assert fold.documents is not None
        np.testing.assert_array_equal(fold.documents.X.to_scipy().sum(axis=1), X[own].sum(axis=1))
        less = whole - naive_heads.cross_moment(weighted[own], Y[own])
        sums = sums_of(fold)
        np.testing.assert_allclose(sums["lengths"], np.linalg.norm(less, axis=1), rtol=1e-4)
        assert sums["gram"][-1, -1] == len(X) - len(own)  # the constant feature counts documents
    _, F = naive_features(model, X)  # and the model is of all documents once
    strength = model.fit_stats_["choice"]["ridge.strength"]
    A = np.linalg.solve(F.T @ F + strength * np.eye(F.shape[1]), F.T @ Y).T
    assert abs(parts_of(model)["ridge"].A - A).max() < 2e-3 * abs(A).max()


@pytest.mark.parametrize("head", FITTED)
def test_small__is_told_and_saved(head: str, small: Matrices, tmp_path: Path) -> None:
    model = MomentLabeler(3, head=head, head_dim=40).fit(*small)
    stats = model.fit_stats_
    assert stats["chosen_on"] == "5 folds of the training documents"
    assert stats["held_out_docs"] == 400
    assert model.predictor_.blend.is_calibrated == (head in RIDGES)
    model.save(tmp_path / "m.zarr")
    loaded = Predictor.load(tmp_path / "m.zarr")
    assert loaded.threshold == model.threshold_ == stats["threshold"]["value"]
    assert loaded.scores_mean == model.scores_mean_
    np.testing.assert_array_equal(loaded.predict(small[0]).toarray(), model.predict(small[0]).toarray())


def off_by(model: MomentLabeler, n: int = 2000) -> float:
    """Mean distance of probabilities of 0.1 and above from how often labels are right."""
    table = [
        row for row in model.evaluate(*labelled_by_words(n, seed=1))["reliability"] if row["from"] >= 0.1
    ]
    pairs = sum(row["pairs"] for row in table)
    return float(sum(row["pairs"] * abs(row["predicted"] - row["observed"]) for row in table) / pairs)


@pytest.mark.parametrize(("head", "n", "most"), [("ridge", 400, 0.07), ("blend", 120, 0.12)])
def test_small__probabilities_are_honest_on_other_documents(head: str, n: int, most: float) -> None:
    assert off_by(MomentLabeler(3, head=head).fit(*labelled_by_words(n))) < most


@every_head
def test_tiny__takes_the_defaults_and_says_so(head: str, tmp_path: Path) -> None:
    X, Y = labelled_by_words(41, seed=3)
    model = MomentLabeler(2, head=head, head_dim=10).fit(X[1:], Y[1:])
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    assert ((P >= 0) & (P <= 1)).all()
    assert model.fit_stats_["chosen_on"] == "nothing: defaults"
    assert model.fit_stats_["held_out_docs"] == 0
    assert "threshold" not in model.fit_stats_
    model.save(tmp_path / "m.zarr")
    for one in (model.predictor_, Predictor.load(tmp_path / "m.zarr")):
        assert one.threshold is None
        assert not one.blend.is_calibrated
        assert "held-out" not in one.scores_mean
        assert ("uncalibrated" in one.scores_mean) == HEADS[head].is_calibrated


def test_few_hits__are_uncalibrated_too(small: Matrices) -> None:
    """Documents enough, but hardly one of them has a label."""
    X, Y = small[0], small[1].copy()
    Y[20:] = 0
    model = MomentLabeler(2, head="blend", head_dim=10).fit(X, Y)
    assert "uncalibrated" in model.scores_mean_
    assert model.threshold_ is None


@pytest.mark.filterwarnings("ignore:Only . topics? instead of")
@every_head
@pytest.mark.parametrize(
    ("X", "Y"),
    [
        ([[1, 0, 1, 1]], [[0, 1, 1]]),
        (np.tile([1, 0, 2, 1], (80, 1)), np.tile([0, 1, 1], (80, 1))),
        (np.tile([[1, 0, 2, 1], [0, 1, 0, 0]], (400, 1)), np.tile([[1], [0]], (400, 1))),
    ],
    ids=["one document", "all alike", "one label"],
)
def test_degenerate__corpora_still_fit(head: str, X: Any, Y: Any) -> None:
    model = MomentLabeler(1, head=head).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    labels, _ = model.predict_topk(X, k=1)
    assert np.asarray(Y)[0, labels[0, 0]] == 1


@pytest.mark.filterwarnings("ignore:No document has a label")
@pytest.mark.parametrize("head", ["auto", *HEADS])
def test_unlabelled__views_still_fit(head: str, tmp_path: Path) -> None:
    """Labels there are, but on none of the documents in view."""
    X, Y = random_matrices(900, 23, 7)
    Y[:850] = 0
    view = ingest_matrices(X, Y, tmp_path / "c.zarr").head(850)
    model = MomentLabeler(2, head=head).fit(view)
    assert np.isfinite(model.predict_proba(X)).all()


def test_auto__is_sharp_unless_there_are_no_labels(small: Matrices) -> None:
    assert MomentLabeler(2, head_dim=10).fit(*small).predictor_.blend.head == "sharp"
    with pytest.warns(UserWarning, match="No document has a label"):
        model = MomentLabeler(2, refine_passes=1).fit(small[0], 0 * small[1])
    assert model.predictor_.blend.head == "posterior"
    assert model.n_passes_ == 3


# -- the same everywhere --------------------------------------------------------------------------------


def test_fit__does_not_depend_on_blocks(
    models: dict[str, MomentLabeler], train: Matrices, unseen: Matrices, tmp_path: Path
) -> None:
    whole = ingest_matrices(*train, tmp_path / "one.zarr", block_bytes=10**8)
    one = MomentLabeler(3, head="blend", head_dim=80).fit(whole)
    assert one.fit_stats_["choice"] == models["blend"].fit_stats_["choice"]
    P = models["blend"].predict_proba(unseen[0])
    np.testing.assert_allclose(one.predict_proba(unseen[0]), P, atol=5e-3)


@every_head
def test_save__every_head_comes_back_bitwise(
    models: dict[str, MomentLabeler], head: str, unseen: Matrices, tmp_path: Path
) -> None:
    model, X = models[head], unseen[0]
    model.save(tmp_path / "m.zarr")
    loaded = Predictor.load(tmp_path / "m.zarr")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for ours, theirs in zip(loaded.predict_topk(X), model.predict_topk(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert str(loaded.explain(X[5], 0)) == str(model.explain(X[5], 0))
    kinds = {"ridge": Ridge, "memory": Memory, "refined": Refined}
    assert all(type(part) is kinds.get(name, type(part)) for name, part in parts_of(model).items())


@pytest.mark.parametrize("scheme", ["counts", "binary"])
def test_weighting__is_saved_and_used(scheme: Any, small: Matrices, tmp_path: Path) -> None:
    X = small[0].copy()
    model = MomentLabeler(3, head="ridge", weighting=scheme, head_dim=40).fit(*small)
    model.save(tmp_path / "m.zarr")
    loaded = Predictor.load(tmp_path / "m.zarr")
    assert loaded.blend.weighting.scheme == scheme
    doubled, plain = (loaded.predict_proba(X[:50] * factor) for factor in (2, 1))
    np.testing.assert_allclose(doubled, plain, atol=1e-5)  # rows are of unit length, whatever the scheme
    X[3, 2] = 40
    loud, quiet = loaded.predict_proba(X[3:4]), loaded.predict_proba((X[3:4] > 0) * 1)
    assert np.allclose(loud, quiet) == (scheme == "binary")


# -- probabilities, thresholds, rare labels -------------------------------------------------------------


@every_head
def test_probabilities__rank_as_the_top_labels_do(
    models: dict[str, MomentLabeler], head: str, unseen: Matrices
) -> None:
    P = models[head].predict_proba(unseen[0])
    labels, scores = models[head].predict_topk(unseen[0], k=5)
    assert ((P >= 0) & (P <= 1)).all()
    np.testing.assert_allclose(np.take_along_axis(P, labels.astype(int), 1), scores, rtol=1e-5, atol=1e-7)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (P.max(axis=1) == scores[:, 0]).all()
    if not HEADS[head].is_calibrated:
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-4)


@pytest.mark.parametrize("head", RIDGES)
def test_probabilities__can_be_taken_at_their_word(
    models: dict[str, MomentLabeler], head: str, unseen: Matrices
) -> None:
    P, true = models[head].predict_proba(unseen[0]), unseen[1]
    base = ((true.mean(axis=0) - true) ** 2).mean()
    assert ((P - true) ** 2).mean() < 0.6 * base
    assert off_by(models[head]) < 0.1
    assert P.sum() == pytest.approx(true.sum(), rel=0.2)  # as many labels as there are; 150 were held out


def micro_f1(found: np.ndarray, true: np.ndarray) -> float:
    return float(2 * (found * true).sum() / (found.sum() + true.sum()))


@every_head
def test_predict__from_the_chosen_threshold_on(
    models: dict[str, MomentLabeler], unseen: Matrices, head: str
) -> None:
    model, (X, Y) = models[head], unseen
    comp = model.predict(X).toarray()
    has_words = X.sum(axis=1, keepdims=True) > 0
    P = model.predict_proba(X) * has_words
    np.testing.assert_array_equal(comp, (model.threshold_ <= P) & has_words)
    best = max(micro_f1(t <= P, Y) for t in np.linspace(0.01, 0.9, 90))
    assert micro_f1(comp, Y) > best - 0.03
    assert micro_f1(comp, Y) == pytest.approx(model.fit_stats_["threshold"]["micro_f1"], abs=0.06)
    if head in RIDGES:
        assert len(set(comp.sum(axis=1).tolist())) > 3  # not as many labels on every document


@every_head
@pytest.mark.parametrize("settings", [{"k": 2}, {"threshold": 0.0}, {"k": 2, "threshold": 0.0}])
def test_predict__nothing_where_no_word_is_known(
    models: dict[str, MomentLabeler], unseen: Matrices, head: str, settings: dict[str, float]
) -> None:
    X = unseen[0][:100]
    found = models[head].predict(X, **settings).sum(axis=1)
    empty = X.sum(axis=1) == 0
    assert empty.sum() == 2
    assert (found[empty] == 0).all()
    assert found[~empty].sum() > 0


def test_predict__texts_get_as_many_labels_as_they_deserve(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    names = [f"tag{i}" for i in range(8)]
    rows = []
    for _ in range(300):
        own = rng.choice(8, size=rng.integers(1, 6), replace=False)
        text = " ".join([*(f"word{i}" for i in own), *rng.choice(["and", "the", "of"], 3)])
        tags = ", ".join(f'"{names[i]}"' for i in own)
        rows.append(f'{{"text": "{text}", "tags": [{tags}]}}')
    (folder / "posts.jsonl").write_text("\n".join(rows))
    corpus: Corpus = ingest_text(folder / "posts.jsonl", folder / "posts.zarr", text=["text"], labels="tags")
    model = MomentLabeler(4).fit(corpus)
    found = model.predict(["the word1", "word0 and word2 of word5 and word7", "nothing of this is known"])
    assigned = [[model.label_names_[i] for i in row.indices] for row in found]
    assert assigned == [["tag1"], ["tag0", "tag2", "tag5", "tag7"], []]


@every_head
def test_tail_weight__ranks_by_probability_over_propensity(
    models: dict[str, MomentLabeler], head: str, unseen: Matrices
) -> None:
    plain, X = models[head].predictor_, unseen[0]
    tail = plain.with_tail_weight(0.5)
    ref = plain.predict_proba(X) / naive_metrics.propensities(plain.label_counts, 1500) ** 0.5
    labels, scores = tail.predict_topk(X, k=3)
    np.testing.assert_allclose(scores, -np.sort(-ref, axis=1)[:, :3], rtol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(ref, labels.astype(int), 1), scores, rtol=1e-4)
    indicator = tail.predict(X, threshold=0.4).toarray()
    assert (indicator == (ref >= 0.4) * (X.sum(axis=1, keepdims=True) > 0)).mean() > 0.9999
    # probabilities, and the threshold of probabilities, are what they were
    np.testing.assert_array_equal(tail.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(tail.predict(X).toarray(), plain.predict(X).toarray())
    ranked = [plain.with_tail_weight(weight).predict_topk(X, k=3)[0] for weight in (0.0, 1.0)]
    frequencies = [plain.label_counts[some].mean() for some in ranked]
    assert frequencies[0] >= frequencies[1]
    assert frequencies[0] > frequencies[1] or head not in RIDGES


# -- limits ---------------------------------------------------------------------------------------------


def test_memory_limit__reduces_the_features_and_says_so(train: Matrices) -> None:
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
        ({"refine_passes": 1, "head": "ridge"}, "refine_passes.*'ridge'.*head='refined' or head='blend'"),
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
