"""The blend: its scores, what they mean, and what labels are ranked by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.parts.blends import KINDS, blend_of, memory_of, random_case, ridge_of, seen_of, topics_of
from tests.parts.learned import PlantedTopics
from tests.rows import sparse_rows, ugly_matrices
from threepass.parts.blend import Blend
from threepass.parts.calibration import Calibration

STEPS = Calibration(np.array([-4, 0, 2, 4, 8], "f4"), np.array([0, 0, 0.25, 0.75, 1], "f4"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "labels"), [(slice(0, 12), slice(0, 100)), (slice(3, 5), slice(40, 41))])
def test_scores__are_the_sum_of_all_parts(kind: str, rows: slice, labels: slice) -> None:
    blend, seen, ref = random_case(kind)
    scores = blend.scores(seen, rows, labels)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, ref[rows, labels], rtol=1e-6, atol=1e-6)
    shares = [blend.share(part, seen, rows, labels) for part in blend.parts]
    np.testing.assert_allclose(sum(shares), scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_take__some_of_the_documents(kind: str) -> None:
    blend, seen, ref = random_case(kind)
    rows = np.array([7, 0, 11])
    some = seen.take(rows)
    assert some.n_docs == 3
    scores = blend.scores(some, slice(0, 3), slice(0, 100))
    np.testing.assert_allclose(scores, ref[rows], rtol=1e-6, atol=1e-6)


def test_scores__of_no_parts_are_zero() -> None:
    blend = blend_of(5)
    np.testing.assert_array_equal(blend.scores(seen_of(2), slice(0, 2), slice(1, 4)), np.zeros((2, 3)))


def test_see__which_documents_have_words() -> None:
    X, _ = ugly_matrices(20, 9, 3)
    blend = blend_of(
        3, ridge_of(np.ones((3, 1))), memory_of(np.ones((9, 3))), topics_of(np.ones((3, 2)), 0.5, 9)
    )
    seen = blend.see(sparse_rows(X, np.float32))
    np.testing.assert_array_equal(seen.has_words, X.any(axis=1))
    assert [type(side).__name__ for side in seen.sides] == ["ndarray", "SparseRows", "ndarray"]
    assert seen.sides[1] is not None
    empty = blend.see(sparse_rows(np.zeros((0, 9)), np.float32))
    assert blend.scores(empty, slice(0, 0), slice(0, 3)).shape == (0, 3)


# -- what scores mean -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calibration", "is_calibrated", "meaning"),
    [
        (None, False, "add up to 1"),
        (Calibration.uncalibrated(1.7), False, "uncalibrated"),
        (STEPS, True, "calibrated on held-out documents"),
    ],
)
def test_meaning__by_its_calibration(
    calibration: Calibration | None, is_calibrated: bool, meaning: str
) -> None:
    blend = replace(random_case("ridge")[0], calibration=calibration)
    assert blend.is_calibrated == is_calibrated
    assert meaning in blend.meaning
    scores = np.array([[-9, 0, 1.7, 3]], "f4")
    ref = scores if calibration is None else np.interp(scores, calibration.scores, calibration.probabilities)
    np.testing.assert_allclose(blend.probabilities(scores), ref, rtol=1e-6)


def test_emphasised__ranks_by_probability_times_emphasis() -> None:
    plain = replace(random_case("ridge")[0], calibration=STEPS)
    emphasis = np.linspace(1, 3, 100)
    blend = plain.emphasised(emphasis)
    scores = np.array([[1.0, 3.0]], "f4")
    ranking = blend.ranking(scores, slice(40, 42))
    np.testing.assert_allclose(ranking, STEPS.apply(scores) * emphasis[40:42].astype("f4"), rtol=1e-6)
    assert blend.shown(ranking) is ranking
    assert blend.tiles is plain.tiles
    assert plain.ranking(scores, slice(40, 42)) is scores
    np.testing.assert_array_equal(plain.shown(scores), STEPS.apply(scores))


def test_reordered__every_part_and_the_weights_of_words() -> None:
    rng = np.random.default_rng(0)
    X, _ = ugly_matrices(20, 9, 3)
    order = rng.permutation(9)
    topics = PlantedTopics.random(9, 30)

    def whole() -> Blend:
        ridge = ridge_of(np.random.default_rng(1).random((30, 4)))
        B = np.random.default_rng(2).random((9, 3)).astype("f4")
        ridge = replace(ridge, basis=replace(ridge.basis, B=B))
        refined = topics_of(topics.Q, 0.5, 9)
        refined = replace(refined, model=replace(refined.model, O=topics.O.copy()))
        blend = blend_of(30, ridge, memory_of(np.random.default_rng(3).random((9, 30))), refined)
        idf = np.random.default_rng(4).random(9).astype("f4") + 1
        return replace(blend, weighting=replace(blend.weighting, idf=idf))

    ref, comp = whole(), whole().reordered(order, topics)  # type: ignore[arg-type]
    for blend, words in ((ref, X), (comp, X[:, order])):
        seen = blend.see(sparse_rows(words, np.float32))
        scores = blend.scores(seen, slice(0, 20), slice(0, 30))
        if blend is ref:
            expected = scores
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
    assert comp.nbytes == ref.nbytes == sum(part.nbytes for part in ref.parts)
