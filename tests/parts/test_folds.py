"""Small corpora: every document is judged by sums that do not know it; tiny ones say that nothing was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import naive_heads
from tests.model.test_heads import RIDGES, labelled_by_words, naive_features
from threepass import MomentLabeler
from threepass.parts.choose_head import Candidates, RidgeSums
from threepass.parts.heads import Topics
from threepass.parts.held_out import HoldOut

FITTED = ["refined", *RIDGES]
Fold = tuple[np.ndarray, Topics | None, RidgeSums | None]


@pytest.fixture(scope="module")
def small() -> tuple[np.ndarray, np.ndarray]:
    return labelled_by_words(400)


def folds_of(
    monkeypatch: pytest.MonkeyPatch, kind: str, X: np.ndarray, Y: np.ndarray, **settings: Any
) -> tuple[MomentLabeler, list[Fold]]:
    """A fitted model, and what each fold of its documents was scored with."""
    seen: list[Fold] = []
    plain = Candidates.of.__func__  # type: ignore[attr-defined]

    def spy(cls: type[Candidates], documents: Any, topics: Any, options: Any, ridge: Any, *rest: Any) -> Any:
        seen.append((documents[0].to_scipy().toarray(), topics, ridge))
        return plain(cls, documents, topics, options, ridge, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Candidates, "of", classmethod(spy))
        model = MomentLabeler(3, head=kind, **settings).fit(X, Y)
    return model, seen


# -- which documents ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_docs", "n_labels", "share", "n_folds"),
    [
        (0, 5, 0, 1),
        (1, 5, 0, 1),
        (79, 5, 0, 1),
        (80, 5, 1, 5),
        (999, 5, 1, 5),
        (1000, 5, 0.1, 1),
        (10**6, 5, 0.02, 1),
        (10**6, 10**6, 0.001, 1),
    ],
)
def test_hold_out__by_size(n_docs: int, n_labels: int, share: float, n_folds: int) -> None:
    found = HoldOut.of(n_docs, n_labels)
    assert (found.share, found.n_folds) == (share, n_folds)
    assert found.left_out == (share if n_folds == 1 else 0)


@pytest.mark.parametrize("n_docs", [80, 83, 400])
def test_folds__every_document_is_in_one(n_docs: int) -> None:
    folds = HoldOut.of(n_docs, 5).folds(n_docs)
    assert sorted(np.concatenate([own for own, _ in folds]).tolist()) == list(range(n_docs))
    for own, others in folds:
        assert sorted([*own.tolist(), *others.tolist()]) == list(range(n_docs))
        assert abs(len(own) - n_docs / 5) < 1


# -- what judges them -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FITTED)
def test_folds__sums_know_nothing_of_the_labels_that_they_judge(
    monkeypatch: pytest.MonkeyPatch, kind: str, small: tuple[np.ndarray, np.ndarray]
) -> None:
    X, Y = small
    own, _ = HoldOut.of(len(X), Y.shape[1]).folds(len(X))[0]
    other = Y.copy()
    other[own] = 1 - other[own]
    passes = 1 if kind != "ridge" else 0
    _, plain = folds_of(monkeypatch, kind, X, Y, refine_passes=passes)
    _, changed = folds_of(monkeypatch, kind, X, other, refine_passes=passes)
    assert len(plain) == len(changed) == 5
    same = [same_sums(one, two) for one, two in zip(plain, changed, strict=True)]
    assert same == [True, False, False, False, False]


def same_sums(one: Fold, two: Fold) -> bool:
    np.testing.assert_array_equal(one[0], two[0])
    pairs = []
    for topics, their in ((one[1], two[1]),):
        if topics is not None and their is not None:
            pairs += [(topics.Q, their.Q), (topics.O, their.O)]
    if one[2] is not None and two[2] is not None:
        pairs += [(one[2].moments[name], two[2].moments[name]) for name in ("gram", "labels")]
        pairs += [(one[2].features.B, two[2].features.B)]
        pairs += [(one[2].cross.lengths(), two[2].cross.lengths())]
    assert pairs
    return all(np.array_equal(a, b) for a, b in pairs)


def test_folds__sums_are_the_whole_less_the_folds(
    monkeypatch: pytest.MonkeyPatch, small: tuple[np.ndarray, np.ndarray]
) -> None:
    X, Y = small
    model, folds = folds_of(monkeypatch, "blend", X, Y)
    weighted, _ = naive_features(model, X)
    whole = naive_heads.cross_moment(weighted, Y)
    for (own, _), (words, topics, ridge) in zip(
        HoldOut.of(len(X), Y.shape[1]).folds(len(X)), folds, strict=True
    ):
        assert ridge is not None
        assert topics is not None
        rank = np.argsort(-(X > 0).sum(axis=0), kind="stable")  # words in the order of the corpus
        np.testing.assert_array_equal(words.sum(axis=1), X[own].sum(axis=1))
        less = whole - naive_heads.cross_moment(weighted[own], Y[own])
        np.testing.assert_allclose(ridge.cross.lengths(), np.linalg.norm(less, axis=1), rtol=1e-4)
        assert topics.O.shape[0] == len(rank)
        gram = ridge.moments["gram"]
        assert gram[-1, -1] == len(X) - len(own)  # the constant feature counts documents


@pytest.mark.parametrize("kind", RIDGES)
def test_folds__the_head_is_of_all_documents_once(small: tuple[np.ndarray, np.ndarray], kind: str) -> None:
    X, Y = small
    model = MomentLabeler(3, head=kind).fit(X, Y)
    _, F = naive_features(model, X)
    strength = model.fit_stats_["choice"]["strength"]
    A = np.linalg.solve(F.T @ F + strength * np.eye(F.shape[1]), F.T @ Y).T
    assert model.head_.ridge is not None
    assert abs(model.head_.ridge.A - A).max() < 2e-3 * abs(A).max()


# -- what is said ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FITTED)
def test_small__is_told_and_saved(kind: str, small: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    model = MomentLabeler(3, head=kind).fit(*small)
    stats = model.fit_stats_
    assert stats["chosen_on"] == "5 folds of the training documents"
    assert stats["held_out_docs"] == 400
    assert model.head_.is_calibrated == (kind in RIDGES)
    model.save(tmp_path / "m.zarr")
    loaded = MomentLabeler.load(tmp_path / "m.zarr")
    assert loaded.threshold_ == model.threshold_ == stats["threshold"]["value"]
    assert loaded.scores_mean_ == model.scores_mean_
    np.testing.assert_array_equal(loaded.predict(small[0]).toarray(), model.predict(small[0]).toarray())


@pytest.mark.parametrize("kind", RIDGES)
@pytest.mark.parametrize(("n", "most"), [(120, 0.12), (400, 0.07)])
def test_small__probabilities_are_honest_on_other_documents(kind: str, n: int, most: float) -> None:
    model = MomentLabeler(3, head=kind).fit(*labelled_by_words(n))
    found = model.evaluate(*labelled_by_words(3000, seed=1))
    table = [row for row in found["reliability"] if row["from"] >= 0.1]
    pairs = sum(row["pairs"] for row in table)
    assert sum(row["pairs"] * abs(row["predicted"] - row["observed"]) for row in table) / pairs < most


@pytest.mark.parametrize("kind", RIDGES)
@pytest.mark.parametrize("n", [1, 40])
def test_tiny__scores_are_said_to_be_uncalibrated(kind: str, n: int, tmp_path: Path) -> None:
    X, Y = labelled_by_words(60, seed=3)
    model = MomentLabeler(1, head=kind).fit(X[1 : n + 1], Y[1 : n + 1])
    assert model.fit_stats_["held_out_docs"] == 0
    assert model.fit_stats_["chosen_on"] == "nothing: defaults"
    assert "threshold" not in model.fit_stats_
    model.save(tmp_path / "m.zarr")
    for one in (model, MomentLabeler.load(tmp_path / "m.zarr")):
        assert not one.head_.is_calibrated
        assert "uncalibrated" in one.scores_mean_
        assert "held-out" not in one.scores_mean_
        assert one.threshold_ is None


@pytest.mark.parametrize("kind", RIDGES)
def test_few_hits__are_uncalibrated_too(kind: str) -> None:
    """Documents enough, but hardly one of them has a label."""
    X, Y = labelled_by_words(400)
    Y[20:] = 0
    model = MomentLabeler(2, head=kind).fit(X, Y)
    assert "uncalibrated" in model.scores_mean_
    assert model.threshold_ is None
