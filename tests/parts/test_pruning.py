"""The best labels with most labels left out: the same as by sorting all of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_scoring as naive
from tests.parts import blends
from tests.parts.blends import KINDS, memory_of, ridge_of, seen_of, topics_of
from tests.rows import dense_rows, sparse_rows
from threepass.parts import scoring
from threepass.parts.blend import Blend, DocumentFeatures, ScoringSizes
from threepass.parts.calibration import Calibration
from threepass.parts.pruning import prune
from threepass.parts.scoring_kernels import interpolate, interpolated
from threepass.parts.tiles import Tiles

STEPS = Calibration(np.array([-4, 0, 2, 4, 8], "f4"), np.array([0, 0, 0.25, 0.75, 1], "f4"))


SMALL = ScoringSizes(tile=8, most_scored=3.0)
"""Tiles are small, and no document is given up, however many labels are scored."""
ALWAYS = replace(SMALL, fewest_labels=1, labels_per_rank=1)
"""Small models are pruned too."""
blend_of, random_case = partial(blends.blend_of, sizes=SMALL), partial(blends.random_case, sizes=SMALL)


def pruned(blend: Blend, seen: DocumentFeatures, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    labels, ranking = np.full((seen.n_docs, k), -1, "i4"), np.full((seen.n_docs, k), -np.inf, "f4")
    scored = prune(blend, seen, labels, ranking)
    return labels, ranking, scored


def check(blend: Blend, seen: DocumentFeatures, ranking: np.ndarray, k: int) -> None:
    """The labels are those of sorting, and what they are ranked by is right."""
    # labels are ranked in single precision: what it cannot tell apart is a tie
    ref_labels, ref_ranking = naive.top_labels(ranking.astype(np.float32), k)
    labels, comp, scored = pruned(blend, seen, k)
    np.testing.assert_array_equal(labels, ref_labels)
    np.testing.assert_array_equal(comp[labels >= 0], ref_ranking[labels >= 0])
    assert (scored > 0).all()


def unequal_emphasis(n_labels: int) -> np.ndarray:
    return np.random.default_rng(n_labels).choice(np.array([1, 1.5, 2, 4], "f4"), n_labels)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 5, 30])
def test_prune__equals_sorting(kind: str, k: int) -> None:
    check(*random_case(kind), k)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("calibration", [None, STEPS])
def test_prune__emphasis(kind: str, calibration: Calibration | None) -> None:
    blend, seen, scores = random_case(kind)
    emphasis = unequal_emphasis(blend.n_labels)
    blend = replace(blend, calibration=calibration, emphasis=emphasis)
    rounded = scores.astype(np.float32)
    if calibration is not None:
        rounded = np.interp(rounded, calibration.scores, calibration.probabilities)
    ref_labels, ref_ranking = naive.top_labels(rounded * emphasis, 5)
    labels, ranking, _ = pruned(blend, seen, 5)
    np.testing.assert_allclose(ranking, ref_ranking, rtol=1e-6)
    if "roots" not in kind:  # roots are not exact, nor are ties of what is made of them
        np.testing.assert_array_equal(labels, ref_labels)
    of_labels = np.take_along_axis(rounded * emphasis, labels, axis=1)
    np.testing.assert_allclose(of_labels, ref_ranking, rtol=1e-6)


@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(0, 5),
    n_labels=st.integers(1, 40),
    k=st.integers(1, 45),
    width=st.integers(1, 50),
    seed=st.integers(0, 1000),
)
def test_prune__any_size(kind: str, n: int, n_labels: int, k: int, width: int, seed: int) -> None:
    sizes = replace(SMALL, tile=width, pruned_docs=2)
    check(*random_case(kind, n, n_labels, seed, sizes=sizes), k)


@pytest.mark.parametrize("kind", KINDS)
def test_prune__equal_labels_go_by_id(kind: str) -> None:
    _, seen, _ = random_case(kind, n_labels=60)
    parts = {
        "topics": [topics_of(np.full((60, 3), 0.25))],
        "ridge": [ridge_of(np.full((60, 4), 0.5))],
        "memory": [memory_of(np.repeat([[0.5], [0.0]] * 4 + [[1.0]], 60, axis=1))],
        "roots": [topics_of(np.full((60, 3), 0.25), 2.0)],
    }
    alike = blend_of(60, *(part for name in kind.split(" + ") for part in parts[name]))
    # the tiles' order must not matter: here they come last label first
    alike.__dict__["tiles"] = replace(alike.tiles, order=alike.tiles.order[::-1].copy())
    labels, _, _ = pruned(alike, seen, 4)
    assert labels.tolist() == [[0, 1, 2, 3]] * seen.n_docs


def test_prune__no_documents() -> None:
    blend, seen, _ = random_case("ridge + memory + roots", n=0)
    labels, _, scored = pruned(blend, seen, 3)
    assert labels.shape == (0, 3)
    assert scored.shape == (0,)


def test_prune__scores_that_underflow() -> None:
    # each product is 0 in single precision, and so are bounds made of them, but a hundred of them are not
    Q = np.full((40, 101), 6e-31, "f4")
    Q[:20, 100] = 1  # of the topic that the document does not have: these labels are in the first tiles
    Q[30, :100] = 6.6e-31
    P = np.full((1, 101), 1e-15, "f4")
    P[0, 100] = 0
    check(blend_of(40, topics_of(Q)), seen_of(1, P), P.astype(float) @ Q.T.astype(float), 3)


@pytest.mark.parametrize("kind", ["ridge", "ridge + memory"])
def test_prune__weights_that_are_all_zero(kind: str) -> None:
    """As of a ridge regression of documents that have no labels."""
    blend, seen, scores = random_case(kind)
    blend = replace(blend, parts=(ridge_of(np.zeros((100, 4))), *blend.parts[1:]))
    if kind == "ridge":
        scores *= 0
    else:
        memory = blend.parts[1].terms[0].postings  # type: ignore[union-attr]
        scores = dense_rows(seen.sides[1]) @ dense_rows(memory)  # type: ignore[arg-type]
    check(blend, seen, scores, 5)


@pytest.mark.parametrize("emphasised", [False, True])
def test_prune__memory_of_many_labels(emphasised: bool) -> None:
    # ridge regression and memory are of one size: the best labels are good in both, and the best in neither
    rng = np.random.default_rng(0)
    n, n_labels, D, p = 20, 20_000, 6, 3
    A, F = rng.random((n_labels, p)).astype("f4"), rng.dirichlet(np.ones(p), n).astype("f4")
    C, X = rng.random((D, n_labels)).astype("f4"), rng.dirichlet(np.ones(D), n).astype("f4")
    A[100:] *= 0.5
    blend = blend_of(n_labels, ridge_of(A), memory_of(C))
    ranking = F.astype(float) @ A.T.astype(float) + X.astype(float) @ C.astype(float)
    if emphasised:
        emphasis = (1 + 0.1 * rng.random(n_labels)).astype("f4")
        blend, ranking = replace(blend, emphasis=emphasis), ranking * emphasis
    labels, comp, scored = pruned(blend, seen_of(n, F, sparse_rows(X, np.float32)), 5)
    ref_labels, ref = naive.top_labels(ranking, 5)
    np.testing.assert_array_equal(labels, ref_labels)
    np.testing.assert_allclose(comp, ref, rtol=1e-6)
    assert scored.mean() < 0.6 * n_labels


def peaked_topics(n_labels: int, sizes: ScoringSizes = SMALL, K: int = 10) -> tuple[Blend, np.ndarray]:
    """Each topic has a few labels of its own, some labels are nowhere, and the rest are in all of them."""
    rng = np.random.default_rng(0)
    Q = rng.random((n_labels, K)).astype("f4") / n_labels
    own = rng.permutation(n_labels)[: 10 * K]
    Q[own, np.arange(10 * K) % K] += rng.random(10 * K).astype("f4") + np.float32(0.1)
    Q[rng.random(n_labels) < 0.3] = 0
    return blend_of(n_labels, topics_of(Q), sizes=sizes), Q.astype(float)


def test_prune__leaves_most_labels_out() -> None:
    blend, Q = peaked_topics(2000)
    P = np.random.default_rng(1).dirichlet(np.full(10, 0.2), 50).astype("f4")
    labels, ranking, scored = pruned(blend, seen_of(50, P), 5)
    ref_labels, ref_ranking = naive.top_labels(P.astype(float) @ Q.T, 5)
    np.testing.assert_array_equal(labels, ref_labels)
    np.testing.assert_allclose(ranking, ref_ranking, rtol=1e-6)
    assert scored.mean() < 0.1 * blend.n_labels


def test_prune__one_label_that_is_well_remembered_does_not_spoil_the_bounds() -> None:
    rng = np.random.default_rng(0)
    n_labels = 5000
    C = np.zeros((3, n_labels))
    C[0] = rng.random(n_labels) * 0.001
    C[1, 4321], C[2, 1234] = 9, 5
    A = rng.standard_normal((n_labels, 2)).astype("f4") * 0.001
    A[:100] *= 1000
    X, F = np.ones((1, 3)), np.ones((1, 2), "f4")
    blend = blend_of(n_labels, ridge_of(A), memory_of(C))
    labels, _, scored = pruned(blend, seen_of(1, F, sparse_rows(X, np.float32)), 5)
    ref, _ = naive.top_labels(F @ A.T.astype(float) + X @ C, 5)
    np.testing.assert_array_equal(labels, ref)
    assert labels[0, :2].tolist() == [4321, 1234]
    assert scored[0] < 0.2 * n_labels


# -- when labels are left out -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_top_labels__documents_given_up_are_scored_all_the_same(kind: str) -> None:
    blend, seen, scores = random_case(kind, sizes=replace(ALWAYS, most_scored=0.0))
    assert (pruned(blend, seen, 5)[2] < 0).all()
    labels, comp = scoring.top_labels(blend, seen, 5)
    _, ref = naive.top_labels(scores, 5)
    np.testing.assert_allclose(comp, ref, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(scores, labels, axis=1), ref, rtol=1e-6, atol=1e-6)


def test_top_labels__some_documents_given_up() -> None:
    blend, Q = peaked_topics(2000, replace(ALWAYS, most_scored=0.2))
    P = np.eye(10, dtype="f4")
    P[[2, 3, 7]] = 0  # all labels tie
    scored = pruned(blend, seen_of(10, P), 5)[2]
    assert np.flatnonzero(scored < 0).tolist() == [2, 3, 7]
    labels, _ = scoring.top_labels(blend, seen_of(10, P), 5)
    ref, _ = naive.top_labels(P @ Q.T, 5)
    np.testing.assert_array_equal(labels, ref)


def test_prune__is_not_tried_on_once_most_documents_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = replace(SMALL, pruned_docs=3, most_scored=0.0)
    blend, seen, _ = random_case("topics", n=9, sizes=sizes)
    tried = []
    bounds = Tiles.bounds
    monkeypatch.setattr(Tiles, "bounds", lambda *args: tried.append(1) or bounds(*args))
    labels, _, scored = pruned(blend, seen, 2)
    assert len(tried) == 1
    assert (scored == -1).all()
    assert (labels == -1).all()


@pytest.mark.parametrize(
    ("n_labels", "k", "prunes"),
    [(16_383, 1, False), (16_384, 1, True), (16_384, 16, True), (16_384, 17, False), (16_384, 0, False)],
)
def test_top_labels__prunes_many_labels_for_small_k(
    monkeypatch: pytest.MonkeyPatch, n_labels: int, k: int, prunes: bool
) -> None:
    calls = []
    monkeypatch.setattr(scoring, "prune", lambda *args: calls.append(1) or prune(*args))
    blend, Q = peaked_topics(n_labels)
    P = np.random.default_rng(1).dirichlet(np.full(10, 0.2), 3).astype("f4")
    labels, scores = scoring.top_labels(blend, seen_of(3, P), k)
    assert bool(calls) == prunes
    ref, _ = naive.top_labels(P.astype(float) @ Q.T, k)
    np.testing.assert_array_equal(labels, ref)
    assert scores.shape == (3, k)


def test_top_labels__shows_probabilities() -> None:
    blend, seen, scores = random_case("ridge + memory", sizes=ALWAYS)
    blend = replace(blend, calibration=STEPS)
    labels, shown = scoring.top_labels(blend, seen, 5)
    own = np.take_along_axis(scores, labels, axis=1)
    np.testing.assert_allclose(shown, np.interp(own, STEPS.scores, STEPS.probabilities), rtol=1e-6)


def test_top_labels__are_the_same_on_threads_that_start_together() -> None:
    blend, seen, _ = random_case("ridge + memory + roots", n=40, n_labels=500, sizes=ALWAYS)
    ref, _ = scoring.top_labels(blend, seen, 5)
    new = replace(blend)  # without tiles
    with ThreadPoolExecutor(4) as pool:
        for labels, _ in pool.map(lambda _: scoring.top_labels(new, seen, 5), range(8)):
            np.testing.assert_array_equal(labels, ref)


@given(values=st.lists(st.floats(-6, 10, width=32), min_size=1, max_size=50))
def test_interpolated__is_interpolate_to_the_last_bit(values: list[float]) -> None:
    xs = np.array([-4.1, 0.3, 2.7, 2.8, 8.9], "f4")
    ys = np.array([0, 0.01, 0.33, 0.7, 1], "f4")
    array, out = np.array(values, "f4"), np.empty(len(values), "f4")
    interpolate(array, xs, ys, out)
    assert [interpolated(value, xs, ys) for value in array] == out.tolist()


def test_prune__documents_without_words() -> None:
    blend, seen, _ = random_case("ridge + memory")
    F = seen.sides[0]
    empty = sparse_rows(np.zeros((seen.n_docs, 9)), np.float32)
    A = blend.terms[0].labels  # type: ignore[union-attr]
    check(blend, seen_of(seen.n_docs, F, empty), np.asarray(F, float) @ A.T.astype(float), 5)
