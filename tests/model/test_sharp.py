"""The head `sharp`, from a corpus whose labels come in twins: rankings, evidence, files and resumed fits."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.mutators import forge
from tests import naive_contrast, naive_metrics, naive_scoring
from tests.damage import at, stored
from tests.passes.test_checkpoints import Stop, assert_same, stop_at
from tests.rows import dense_rows, sparse_rows
from threepass import Corpus, MomentLabeler, StoreError, ingest_matrices
from threepass.model.predictor import Predictor
from threepass.parts import contrast_learning, neighbours, training_words
from threepass.parts.contrast import Contrast
from threepass.parts.memory import MemoryPart
from threepass.parts.neighbours import NeighboursPart
from threepass.parts.training_words import UNIT
from threepass.passes.checkpoints import RunDirectory

PAIRS, COMMON = 20, 20
L = 2 * PAIRS


def twins(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Documents of one or two pairs of labels that share their words, but for one that each has of its own.

    The word of another label comes by chance.
    """
    rng = np.random.default_rng(seed)
    X, Y = np.zeros((n, COMMON * PAIRS + L + 40), int), np.zeros((n, L), int)
    for d in range(n):
        X[d, COMMON * PAIRS + L + rng.choice(40, 5)] = rng.integers(1, 4, 5)
        X[d, COMMON * PAIRS + rng.integers(L)] = 1
        for label in rng.integers(L, size=rng.integers(1, 3)):
            Y[d, label] = 1
            X[d, COMMON * (label // 2) + rng.choice(COMMON, 8)] = rng.integers(1, 4, 8)
            X[d, COMMON * PAIRS + label] |= rng.random() < 0.95
    X[::100] = 0
    Y[7::100] = 0
    return X, Y


@pytest.fixture(scope="module", autouse=True)
def _every_part() -> Iterator[None]:
    """Neighbours have a vote whatever is chosen otherwise, so that models have every part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "WEIGHTS", (0.5,))
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return ingest_matrices(*twins(1500), tmp_path_factory.mktemp("twins") / "c.zarr", block_bytes=20_000)


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> MomentLabeler:
    return labeler(n_jobs=1).fit(corpus)


@pytest.fixture(scope="module")
def documents() -> tuple[np.ndarray, np.ndarray]:
    return twins(150, seed=1)


def labeler(**settings: Any) -> MomentLabeler:
    return MomentLabeler(4, **{"head": "sharp", "head_dim": 20, **settings})


def contrast_of(model: MomentLabeler) -> Contrast:
    (part,) = [part for part in model.predictor_.blend.parts if isinstance(part, Contrast)]
    return part


def raw_scores(model: MomentLabeler, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, L) by all other parts, and with the bonus of the best `width` labels of each document."""
    blend, contrast = model.predictor_.blend, contrast_of(model)
    seen = blend.see(sparse_rows(X, np.float32))
    base = blend.scores(seen, slice(0, len(X)), slice(0, L)).astype(np.float64)
    foremost, _ = naive_scoring.top_labels(base, contrast.width)
    x, W, b = dense_rows(seen.words.weighted), dense_rows(contrast.W), contrast.biases
    anew = base.copy()
    for d, labels in enumerate(foremost):
        margins = naive_contrast.margins(x, W, b, [(d, label) for label in labels])
        anew[d, labels] += contrast.weight * (1 + np.clip(margins, -1, 1))
    return base, anew


def probabilities(model: MomentLabeler, scores: np.ndarray) -> np.ndarray:
    calibration = model.predictor_.blend.calibration
    assert calibration is not None
    return np.interp(scores, calibration.scores, calibration.probabilities)


def check_ranking(found: tuple[np.ndarray, np.ndarray], ref: np.ndarray, shown: np.ndarray, k: int) -> None:
    """The k best by `ref`, but for near ties, with what is shown of each."""
    labels, scores = found
    ref_labels, _ = naive_scoring.top_labels(ref, k)
    assert ((labels < 0) == (ref_labels < 0)).all()
    assert ((labels < 0) == np.isnan(scores)).all()
    kept = min(k, L)
    assert all(len(set(row)) == kept for row in labels[:, :kept].tolist())
    differ = (labels != ref_labels).any(axis=1)
    assert differ.mean() < 0.05
    own = np.take_along_axis(shown, labels[:, :kept].astype(int), 1)
    np.testing.assert_allclose(scores[:, :kept], own, rtol=1e-4, atol=1e-5)
    assert (np.diff(scores[:, :kept]) <= 0).all()


# -- predictions ------------------------------------------------------------------------------------------


def test_fit__contrast_tells_twins_apart(model: MomentLabeler, documents: Any) -> None:
    stats = model.fit_stats_
    assert stats["chosen_on"] == "held-out training documents"
    contrast = contrast_of(model)
    assert contrast.weight == stats["choice"]["contrast.weight"] > 0
    assert contrast.width == stats["choice"]["contrast.width"] in contrast_learning.WIDTHS
    assert stats["held_out"]["p@1"] > stats["held_out_before_contrast"]["p@1"]
    assert [part.name for part in model.predictor_.blend.parts][-2:] == ["neighbours", "contrast"]
    X, Y = documents
    base, anew = raw_scores(model, X)
    labelled = np.flatnonzero(Y.any(axis=1))
    before, after = (Y[labelled, scores[labelled].argmax(axis=1)].mean() for scores in (base, anew))
    assert after > before + 0.1
    assert stats["look_alikes"] == contrast_learning.MOST_ALIKE
    assert stats["contrast_share"] == 1
    assert not any(note.startswith("Contrast") for note in stats["notes"])
    assert 0 < stats["choice_seconds"] < stats["seconds"]["head"] + stats["seconds"]["contrast"]
    assert set(stats["part_bytes"]) == {part.name for part in model.predictor_.blend.parts}


def test_fit__classifiers_are_of_all_documents(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out ones too, unless these are so few that nothing would be gained."""
    solved: list[int] = []
    solve = contrast_learning.ContrastLearning.solve

    def noted(self: Any, runner: Any, group: int, cost: float) -> Any:
        solved.append(group)
        return solve(self, runner, group, cost)

    monkeypatch.setattr(contrast_learning.ContrastLearning, "solve", noted)
    whole = labeler().fit(corpus)
    n_costs = len(contrast_learning.COSTS)
    assert solved == [0] * n_costs + [contrast_learning._FINAL]
    solved.clear()
    monkeypatch.setattr(contrast_learning, "_LITTLE", 1.0)
    less = labeler().fit(corpus)
    assert len(solved) == n_costs
    assert less.fit_stats_["choice"] == whole.fit_stats_["choice"]
    assert not np.array_equal(contrast_of(less).biases, contrast_of(whole).biases)


@pytest.mark.parametrize(("n", "most_words"), [(1500, 10**6), (200, 10**6), (200, 1500)])
def test_fit__classifiers_that_judge_have_not_seen_the_documents(
    n: int, most_words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a tenth, of folds, and of folds of which few documents are gathered."""
    monkeypatch.setattr(training_words, "MOST_WORDS", most_words)
    found: list[tuple[Any, np.ndarray]] = []
    left_out: list[np.ndarray] = []
    find, known_documents = contrast_learning.ContrastLearning.find, contrast_learning.known_documents

    def noted(self: Any, runner: Any) -> None:
        found.append((self.judged, dense_rows(self.training.joined().X) / UNIT))
        find(self, runner)

    def known_of(block: Any, some: Any = None) -> Any:
        left_out.append(some)
        return known_documents(block, some)

    monkeypatch.setattr(contrast_learning.ContrastLearning, "find", noted)
    monkeypatch.setattr(contrast_learning, "known_documents", known_of)
    X, Y = twins(n)
    labeler().fit(X, Y)
    ((judged, known),) = found
    own = dense_rows(judged.X)
    n_groups = len(judged.ends) - 1
    assert n_groups == (1 if n == 1500 else 5)
    # nor do they speak for the look-alikes of those that the classifiers learn from
    for group, some in enumerate(left_out[:n_groups]):
        np.testing.assert_array_equal(some, judged.groups == group)
    assert left_out[n_groups:] == ([None] if n_groups > 1 else [])
    seen = 0
    for group, (start, stop) in enumerate(pairwise(judged.ends)):
        rows = known[judged.groups == group]
        products = rows @ own[start:stop].T
        assert (products.max(axis=1)[rows.any(axis=1)] > 0.999).all()  # each is one of the group
        assert len(np.unique(products.argmax(axis=1))) >= len(rows) - 5  # those without words are alike
        seen += len(rows)
    if most_words < 10**6:
        assert 0 < seen == len(known) < 100
    elif n == 200:
        assert seen == len(known) == Y.any(axis=1).sum()
    else:
        assert seen > 100
        strangers = known[judged.groups < 0] @ own.T
        assert (strangers.max(axis=1) < 0.999).mean() > 0.99


def test_predict_proba__is_that_of_a_plain_rescoring(model: MomentLabeler, documents: Any) -> None:
    X, _ = documents
    base, anew = raw_scores(model, X)
    assert ((anew > base).sum(axis=1) <= contrast_of(model).width).all()
    assert (anew - base).max() > 0.05
    found = model.predict_proba(X)
    np.testing.assert_allclose(found, probabilities(model, anew), rtol=1e-4, atol=1e-5)


def some_of(model: MomentLabeler, k: str) -> int:
    """So many labels: by the number of those that are scored anew."""
    width = contrast_of(model).width
    assert 5 < width < L - 5
    return {"one": 1, "fewer": width - 3, "as many": width, "more": width + 4, "all": L, "too many": L + 5}[k]


@pytest.mark.parametrize("number", ["one", "fewer", "as many", "more", "all", "too many"])
def test_predict_topk__is_that_of_a_plain_rescoring(
    model: MomentLabeler, documents: Any, number: str
) -> None:
    (X, _), k = documents, some_of(model, number)
    _, anew = raw_scores(model, X)
    check_ranking(model.predict_topk(X, k), anew, model.predict_proba(X), k)


@pytest.mark.parametrize("number", ["one", "fewer", "as many", "more", "too many"])
@pytest.mark.parametrize("tail_weight", [0.5, 1.0])
def test_predict_topk__of_emphasised_labels(
    model: MomentLabeler, documents: Any, tail_weight: float, number: str
) -> None:
    """By probability times emphasis; what is scored anew stays what it is without."""
    (X, _), k = documents, some_of(model, number)
    predictor = model.predictor_.with_tail_weight(tail_weight)
    counts, n_docs = model.label_counts_, model.statistics_.n_docs
    emphasis = naive_metrics.propensities(counts * 1.0, n_docs) ** -tail_weight
    assert emphasis.max() > 1.01 * emphasis.min()
    P = predictor.predict_proba(X)
    np.testing.assert_array_equal(P, model.predict_proba(X))
    check_ranking(predictor.predict_topk(X, k), P * emphasis, P * emphasis, k)


def test_predict_topk__of_labels_far_apart_in_emphasis(model: MomentLabeler, documents: Any) -> None:
    """Labels come to the front that none of the foremost is."""
    X, _ = documents
    emphasis = np.geomspace(1e-3, 1e3, L).astype(np.float32)
    predictor = copy.copy(model.predictor_)
    predictor.__dict__["ranking_blend"] = model.predictor_.blend.emphasised(emphasis)
    ref = model.predict_proba(X) * emphasis
    foremost = naive_scoring.top_labels(raw_scores(model, X)[0], contrast_of(model).width)[0]
    assert (naive_scoring.top_labels(ref, 1)[0] != foremost).all(axis=1).any()
    for k in (1, 3, some_of(model, "more")):
        check_ranking(predictor.predict_topk(X, k), ref, ref, k)


@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.3, 0.9])
def test_predict__labels_above_a_threshold(model: MomentLabeler, documents: Any, threshold: float) -> None:
    X, _ = documents
    P, known = model.predict_proba(X), X.any(axis=1)
    found = model.predict(X, threshold=threshold).toarray()
    differ = (found > 0) != ((threshold <= P) & known[:, None])
    assert not differ.any() or abs(P[differ] - threshold).max() < 1e-5


@pytest.mark.parametrize("tail_weight", [0.0, 1.0])
def test_evaluate__is_of_the_scores_that_are_predicted(
    model: MomentLabeler, documents: Any, tail_weight: float
) -> None:
    X, Y = documents
    predictor = model.predictor_.with_tail_weight(tail_weight)
    found = predictor.evaluate(X, Y)
    P, n_docs = model.predict_proba(X), model.statistics_.n_docs
    ranking = P * naive_metrics.propensities(model.label_counts_ * 1.0, n_docs) ** -tail_weight
    areas = [area for area in naive_metrics.document_auc(ranking, Y > 0) if not np.isnan(area)]
    assert found["auc"] == pytest.approx(np.mean(areas), abs=1e-3)
    assert found["brier"] == pytest.approx(((P - Y) ** 2).mean(), rel=1e-4)
    labels, _ = predictor.predict_topk(X, 5)
    hits = np.take_along_axis(Y, labels.astype(int), 1)
    for k in (1, 3, 5):
        assert found[f"p@{k}"] == pytest.approx(hits[:, :k].mean(), abs=0.005)


# -- evidence ---------------------------------------------------------------------------------------------


def told_by_a_word(X: np.ndarray, Y: np.ndarray) -> list[tuple[int, int]]:
    """Documents, and a label of each whose own word is there."""
    pairs = zip(*np.nonzero(Y * X[:, COMMON * PAIRS : COMMON * PAIRS + L]), strict=True)
    return [(int(d), int(label)) for d, label in pairs]


def test_explain__tells_words_of_the_classifier(model: MomentLabeler, documents: Any) -> None:
    X, Y = documents
    contrast, (base, anew) = contrast_of(model), raw_scores(model, X)
    P = model.predict_proba(X)
    x = dense_rows(model.predictor_.blend.words(sparse_rows(X, np.float32)).weighted)
    for d, carried in told_by_a_word(X, Y)[:3]:
        worst = int(base[d].argmin())
        for label in (carried, worst):
            told = model.explain(X[d], label, n=1000)
            assert told.score == pytest.approx(P[d, label], rel=1e-4, abs=1e-6)
            parts = dict(told.parts)
            assert parts["contrast"] == pytest.approx(anew[d, label] - base[d, label], abs=1e-5)
            assert sum(parts.values()) == pytest.approx(anew[d, label], abs=1e-4)
            adds = dense_rows(contrast.W)[label] * x[d]
            ref = {model.term_names_[word]: adds[word] for word in np.flatnonzero(adds)}
            assert dict(told.classifier) == pytest.approx(ref, rel=1e-4)
        assert dict(model.explain(X[d], worst).parts)["contrast"] == 0
        own = model.term_names_[COMMON * PAIRS + carried]
        assert any(name == own and value > 0 for name, value in model.explain(X[d], carried).classifier)
        assert f"{own} in the label's classifier" in str(model.explain(X[d], carried))


def test_explain__words_are_what_the_score_would_lose(model: MomentLabeler, documents: Any) -> None:
    """As long as the label is one of the foremost without the word, too."""
    X, Y = documents
    d, label = told_by_a_word(X, Y)[2]
    row = X[d]
    told = dict(model.explain(row, label, n=1000).words)
    words = np.flatnonzero(row)
    without = np.tile(row, (len(words), 1))
    without[np.arange(len(words)), words] = 0
    base, anew = raw_scores(model, np.vstack([row, without]))
    still = (-base[1:]).argsort(axis=1)[:, : contrast_of(model).width] == label
    for word, score in zip(words[still.any(axis=1)], anew[1:, label][still.any(axis=1)], strict=True):
        assert told[model.term_names_[word]] == pytest.approx(anew[0, label] - score, abs=1e-4)
    assert still.any(axis=1).mean() > 0.9
    assert told[model.term_names_[COMMON * PAIRS + label]] > 0.05


# -- files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(model: MomentLabeler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sharp") / "m.zarr"
    model.save(path)
    return path


def test_save__comes_back_bitwise(saved: Path, model: MomentLabeler, documents: Any) -> None:
    X, _ = documents
    back = Predictor.load(saved)
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    for weight in (0.0, 1.0):
        ours, theirs = (one.with_tail_weight(weight) for one in (back, model.predictor_))
        for found, expected in zip(ours.predict_topk(X, 12), theirs.predict_topk(X, 12), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert str(back.explain(X[5], 3)) == str(model.explain(X[5], 3))


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("contrast/words", at(0, 10**6), "columns are not all"),
        ("contrast/words", np.flip, "not sorted"),
        ("contrast/indptr", at(3, 2**62), "row starts are not in order"),
        ("contrast/indptr", lambda a: a[:-1], "wanted is int64, 41 values"),
        ("contrast/weights", at(0, np.nan), "not all of its numbers are finite"),
        ("contrast/weights", lambda a: a[:-1], "wanted is float16 or float32"),
        ("contrast/biases", lambda a: a[:-1], "wanted is float16 or float32, 40 values"),
        ("neighbours/words/indices", at(0, -1), "columns are not all"),
        ("neighbours/words/indptr", at(3, 2**62), "row starts are not in order"),
        ("neighbours/words/weights", at(0, 0), "not all are above 0"),
        ("neighbours/words/weights", lambda a: a.astype(np.float32), "it is float32"),
        ("neighbours/labels/indices", at(0, L), "columns are not all"),
        ("neighbours/labels/indptr", lambda a: a[:-1], "wanted is int64"),
    ],
)
def test_forged__arrays(saved: Path, tmp_path: Path, name: str, change: Any, why: str) -> None:
    store = Path(shutil.copytree(saved, tmp_path / "m.zarr"))
    forge(store, f"parts/{name}", np.ascontiguousarray(change(stored(store, f"parts/{name}"))))
    with pytest.raises(StoreError, match=f"damaged at .*{why}"):
        Predictor.load(store)


# -- fits -------------------------------------------------------------------------------------------------


def test_fit__threads_do_not_change_a_bit(corpus: Corpus, model: MomentLabeler) -> None:
    """And it tells how far it is in documents, and in labels."""
    calls: list[tuple[str, float, float]] = []
    two = labeler(n_jobs=2).fit(corpus, progress=lambda *call: calls.append(call))
    assert two.fit_stats_["choice"] == model.fit_stats_["choice"]
    assert_same(two, model)
    counted = {name: (max(d for n, d, _ in calls if n == name), total) for name, _, total in calls if total}
    n_labelled = int((twins(1500)[1].sum(axis=1) > 0).sum())
    assert counted["look-alikes"] == (n_labelled, n_labelled)
    assert counted["contrast"] == (L, L)


@pytest.mark.parametrize("stage", ["look-alikes", "contrast"])
def test_fit_to__goes_on_after_an_interruption(
    corpus: Corpus, model: MomentLabeler, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of the documents, or of the labels."""
    monkeypatch.setattr(RunDirectory, "affordable", lambda self, nbytes: True)
    for least in ("_LEAST_WORDS", "_LEAST_PAIRS"):
        monkeypatch.setattr(contrast_learning, least, 500)
    stop = stop_at(stage, 0.6)
    with pytest.raises(Stop):
        labeler(n_jobs=1).fit_to(
            corpus, tmp_path / "m.zarr", progress=lambda name, done, of: stop(name, done, of) if of else None
        )
    assert not (tmp_path / "m.zarr").exists()
    (kept,) = tmp_path.rglob(f"*-{stage}/total-*")
    done = int(kept.name.removeprefix("total-"))
    assert done > 3
    again = labeler(n_jobs=1)
    lines: list[tuple[str, float]] = []
    again.fit_to(corpus, tmp_path / "m.zarr", progress=lambda name, done, of: lines.append((name, done)))
    assert again.fit_stats_["run"]["segments_reused"] > done
    began = next(seen for name, seen in lines if name == stage and seen)
    assert began > 0.3 * (L if stage == "contrast" else 1300)
    assert_same(again, model)
    assert [path.name for path in tmp_path.iterdir()] == ["m.zarr"]


@pytest.mark.parametrize(
    ("n", "chosen_on"),
    [(n, "5 folds of the training documents") for n in (150, 600)] + [(40, "nothing")],
)
def test_fit__small_corpora(n: int, chosen_on: str) -> None:
    X, Y = twins(n)
    model = labeler().fit(X, Y)
    assert model.fit_stats_["chosen_on"].startswith(chosen_on)
    P = model.predict_proba(X)
    assert ((P >= 0) & (P <= 1)).all()
    if n == 40:
        names = [part.name for part in model.predictor_.blend.parts]
        assert names == ["ridge", "memory", "refined", "neighbours"]
    else:
        assert model.predictor_.blend.is_calibrated
        assert n == 150 or model.fit_stats_["choice"]["contrast.weight"] > 0
    labels, _ = model.predict_topk(X, 1)
    assert np.take_along_axis(Y, labels.astype(int), 1).mean() > 0.5


def test_fit__folds_of_which_few_documents_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a limit of memory."""
    X, Y = twins(150)
    monkeypatch.setattr(training_words, "MOST_WORDS", 1000)
    model = labeler().fit(X, Y)
    (known,) = [part for part in model.predictor_.blend.parts if part.name == "neighbours"]
    assert 20 < len(known.arrays()["words/indptr"]) < 100
    assert model.fit_stats_["held_out"]["p@1"] > 0.3


def test_fit__learns_from_some_documents_where_all_would_take_too_long(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (training_words, contrast_learning):
        monkeypatch.setattr(room, "MOST_PRODUCTS", 100_000)
    found: list[np.ndarray] = []
    find = contrast_learning.ContrastLearning.find

    def noted(self: Any, runner: Any) -> None:
        find(self, runner)
        found.append(self.lists[0])

    monkeypatch.setattr(contrast_learning.ContrastLearning, "find", noted)
    stats = labeler().fit(corpus).fit_stats_
    assert stats["look_alikes"] == 10
    (note,) = [note for note in stats["notes"] if note.startswith("Contrast")]
    assert f"about {stats['contrast_share']:.0%} of all words" in note
    assert 0.2 < stats["contrast_share"] < 0.6
    (lists,) = found
    assert lists.shape[1] == 10
    n_judged = stats["held_out_docs"]  # they are given back, all of them
    assert len(lists) == pytest.approx(
        stats["contrast_share"] * (corpus.n_docs - n_judged) + n_judged, rel=0.1
    )
    assert (lists >= 0).any(axis=1).mean() > 0.95


def test_fit__without_neighbours_and_memory(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look-alikes then come from all documents' votes alone."""
    for part in (NeighboursPart, MemoryPart):
        monkeypatch.setattr(part, "finish", lambda self, choice: None)
    model = labeler().fit(corpus)
    names = [part.name for part in model.predictor_.blend.parts]
    assert not {"neighbours", "memory"} & set(names)
    assert contrast_of(model).W.nnz > 1000
