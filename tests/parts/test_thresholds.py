"""The threshold from which on labels are assigned, and who gets none."""

from __future__ import annotations

import numpy as np
import pytest

from tests import naive_selection as naive
from tests.model.test_heads import KINDS, RIDGES, labelled_by_words
from threepass import Corpus, MomentLabeler, ingest_text
from threepass.corpus.convert import as_rows
from threepass.parts import scoring
from threepass.parts.selection import best_threshold

Matrices = tuple[np.ndarray, np.ndarray]


def micro_f1(found: np.ndarray, true: np.ndarray) -> float:
    return float(2 * (found * true).sum() / (found.sum() + true.sum()))


# -- choosing it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("decimals", [0, 1, 6])
@pytest.mark.parametrize("n", [1, 2, 9, 200])
def test_best_threshold__equals_the_plain_one(n: int, decimals: int) -> None:
    rng = np.random.default_rng([n, decimals])
    scores = rng.random(n).round(decimals).astype(np.float32)
    hits = rng.random(n) < scores
    hits[0] = True
    weights = rng.integers(1, 5, n).astype(np.float32)
    threshold, f1 = best_threshold(scores, hits, weights)
    expected, lowest = naive.best_f1(scores.tolist(), hits, weights.astype(float))
    assert f1 == pytest.approx(expected, rel=1e-12)
    assert threshold <= lowest
    np.testing.assert_array_equal(scores >= threshold, scores >= lowest)


def test_best_threshold__by_hand() -> None:
    scores = np.array([0.2, 0.9, 0.5, 0.5], np.float32)
    threshold, f1 = best_threshold(scores, np.array([0, 1, 1, 0], bool), np.ones(4, np.float32))
    assert f1 == pytest.approx(2 * 2 / (3 + 2))
    assert threshold == pytest.approx(0.35)


# -- all labels above it --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def train() -> Matrices:
    return labelled_by_words(1500)


@pytest.fixture(scope="module")
def unseen() -> Matrices:
    return labelled_by_words(700, seed=1)


@pytest.fixture(scope="module")
def models(train: Matrices) -> dict[str, MomentLabeler]:
    return {kind: MomentLabeler(3, head=kind).fit(*train) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.2, 0.9, 2.0])
def test_labels_above__are_those_of_all_scores(
    models: dict[str, MomentLabeler],
    unseen: Matrices,
    kind: str,
    threshold: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = models[kind].head_
    seen = head.see(as_rows(unseen[0][:60], "X"))
    for fewest in (1, 10**9):  # with pruning and without
        monkeypatch.setattr(scoring, "_FEWEST_LABELS", fewest)
        monkeypatch.setattr(scoring, "_LABELS_PER_RANK", 1)
        comp = np.zeros((60, head.n_labels))
        comp[scoring.labels_above(head, seen, threshold)] = 1
        ref = models[kind].predict_proba(unseen[0][:60]) >= threshold
        np.testing.assert_array_equal(comp, ref)


# -- assigning labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_predict__from_the_chosen_threshold_on(
    models: dict[str, MomentLabeler], unseen: Matrices, kind: str
) -> None:
    model, (X, Y) = models[kind], unseen
    assert model.threshold_ is not None
    comp = model.predict(X).toarray()
    np.testing.assert_array_equal(comp, model.predict(X, threshold=model.threshold_).toarray())
    P = model.predict_proba(X) * (X.sum(axis=1, keepdims=True) > 0)
    best = max(micro_f1(t <= P, Y) for t in np.linspace(0.01, 0.9, 90))
    assert micro_f1(comp, Y) > best - 0.03
    assert micro_f1(comp, Y) == pytest.approx(model.fit_stats_["threshold"]["micro_f1"], abs=0.06)
    if kind in RIDGES:
        assert len(set(comp.sum(axis=1).tolist())) > 3  # not as many labels on every document


def test_predict__threshold_of_probabilities_whatever_the_ranking(train: Matrices, unseen: Matrices) -> None:
    plain, tail = (MomentLabeler(3, tail_weight=weight).fit(*train) for weight in (0.0, 1.0))
    np.testing.assert_array_equal(plain.predict(unseen[0]).toarray(), tail.predict(unseen[0]).toarray())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, {"k": 2}, {"threshold": 0.0}, {"k": 2, "threshold": 0.0}])
def test_predict__nothing_where_no_word_is_known(
    models: dict[str, MomentLabeler], unseen: Matrices, kind: str, settings: dict[str, float]
) -> None:
    X = unseen[0][:100]
    found = models[kind].predict(X, **settings).sum(axis=1)
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
