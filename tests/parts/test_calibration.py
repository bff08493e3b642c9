from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_selection as naive
from threepass.parts import calibration
from threepass.parts.calibration import Calibration
from threepass.parts.scoring_kernels import interpolate

SINGLE = np.float32(1) / 2**23
numbers = st.floats(-1000, 1000, width=32, allow_subnormal=False)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def simulated(n: int, seed: int = 0, mean: float = -2.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and hits of probability sigmoid(score)."""
    rng = np.random.default_rng(seed)
    scores = (mean + 1.5 * rng.standard_normal(n)).astype(np.float32)
    return scores, rng.random(n) < sigmoid(scores)


def fitted(scores: np.ndarray, hits: np.ndarray, weights: np.ndarray | None = None) -> Calibration:
    weights = np.ones(len(scores), np.float32) if weights is None else weights
    found = Calibration.fitted(scores, hits, weights)
    assert found is not None
    return found


def assert_same(one: Calibration, other: Calibration) -> None:
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=1e-5, atol=1e-6)


# -- interpolation ------------------------------------------------------------------------------------------


@given(
    knots=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12, unique_by=lambda knot: knot[0]),
    values=st.lists(st.floats(width=32, allow_nan=False), max_size=12),
    inside=st.lists(st.floats(0, 1), max_size=12),
)
def test_interpolate__equals_numpy(
    knots: list[tuple[float, float]], values: list[float], inside: list[float]
) -> None:
    xs, ys = np.array(sorted(knots), np.float32).T.copy()
    between = xs[0] + np.array(inside) * (xs[-1] - xs[0])
    at = np.concatenate([values, between, xs]).astype(np.float32)
    out = np.full(len(at), np.nan, np.float32)
    interpolate(at, xs, ys, out)
    ref = np.interp(at.astype(np.float64), xs, ys)
    np.testing.assert_allclose(out, ref, rtol=0, atol=8 * SINGLE * abs(ys).max())
    np.testing.assert_array_equal(out[-len(xs) :], ys)


def test_interpolate__beyond_the_ends() -> None:
    xs, ys = np.array([1, 2], np.float32), np.array([0.25, 0.75], np.float32)
    out = np.empty(6, np.float32)
    interpolate(np.array([-np.inf, 0.5, 1, 2, 9, np.inf], np.float32), xs, ys, out)
    assert out.tolist() == [0.25, 0.25, 0.25, 0.75, 0.75, 0.75]


def test_interpolate__steps_where_knots_are_equal() -> None:
    xs, ys = np.array([0, 1, 1, 2], np.float32), np.array([0, 0.2, 0.6, 1], np.float32)
    out = np.empty(3, np.float32)
    interpolate(np.array([0.5, 1, 1.5], np.float32), xs, ys, out)
    np.testing.assert_allclose(out, [0.1, 0.6, 0.8], rtol=1e-6)


# -- applying -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (5,), (4, 3), (0, 3), (2, 3, 4), ()])
def test_apply__equals_numpy_for_any_shape(shape: tuple[int, ...]) -> None:
    map_ = Calibration(np.array([-1, 0, 2], np.float32), np.array([0, 0.3, 1], np.float32))
    scores = np.asarray(np.random.default_rng(0).normal(0, 2, shape), np.float32)
    kept = scores.copy()
    probabilities = map_.apply(scores)
    assert probabilities.dtype == np.float32
    assert probabilities.shape == shape
    np.testing.assert_allclose(probabilities, np.interp(scores, [-1, 0, 2], [0, 0.3, 1]), atol=1e-6)
    np.testing.assert_array_equal(scores, kept)


def test_apply__any_memory_layout() -> None:
    map_ = Calibration(np.array([-1, 2], np.float32), np.array([0, 1], np.float32))
    scores = np.random.default_rng(0).normal(0, 2, (6, 8)).astype(np.float32)
    for same in (np.asfortranarray(scores), np.repeat(scores, 2, axis=1)[:, ::2], scores.astype(np.float64)):
        np.testing.assert_array_equal(map_.apply(same), map_.apply(scores))


def test_uncalibrated__is_a_share_of_the_largest() -> None:
    map_ = Calibration.uncalibrated(2.5)
    scores = np.array([-1, 0, 1, 2.5, 4], np.float32)
    np.testing.assert_allclose(map_.apply(scores), [0, 0, 0.4, 1, 1], rtol=1e-6)


# -- fitting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [-3.0, 0.0])
def test_fitted__recovers_true_probabilities(mean: float) -> None:
    scores, hits = simulated(200_000, mean=mean)
    map_ = fitted(scores, hits)
    # between the means of the outer bins; beyond, nothing but the ends is known
    at = np.linspace(map_.scores[2], map_.scores[-3], 200).astype(np.float32)
    np.testing.assert_allclose(map_.apply(at), sigmoid(at), atol=0.04)
    assert abs(map_.apply(at) - sigmoid(at)).mean() < 0.01


def test_fitted__any_scale_of_scores() -> None:
    scores, hits = simulated(100_000)
    map_ = fitted(scores**3 * 100 - 7, hits)
    at = np.linspace(-3, 1, 50).astype(np.float32)
    assert abs(map_.apply(at**3 * 100 - 7) - sigmoid(at)).max() < 0.06


def test_fitted__honest_on_other_pairs() -> None:
    map_ = fitted(*simulated(100_000, seed=1))
    scores, hits = simulated(100_000, seed=2)
    probabilities = map_.apply(scores)
    assert probabilities.mean() == pytest.approx(hits.mean(), abs=0.01)
    for low, high in [(0.02, 0.1), (0.1, 0.3), (0.3, 0.5), (0.5, 0.8)]:
        chosen = (probabilities >= low) & (probabilities < high)
        assert chosen.sum() > 1000
        assert probabilities[chosen].mean() == pytest.approx(hits[chosen].mean(), abs=0.03)


@pytest.mark.parametrize("n", [300, 1000, 20_000])
@pytest.mark.parametrize("kind", ["informative", "useless", "misleading"])
def test_fitted__equals_the_plain_one(n: int, kind: str) -> None:
    scores, hits = simulated(n, mean=-1)
    if kind == "useless":
        hits = np.random.default_rng(5).permutation(hits)
    if kind == "misleading":
        scores = -scores
    weights = np.random.default_rng(3).integers(1, 5, n).astype(np.float32)
    assert len(set(scores.tolist())) > 0.99 * n
    scores, places = np.unique(scores, return_index=True)
    hits, weights = hits[places], weights[places]
    shuffled = np.random.default_rng(4).permutation(len(scores))
    map_ = fitted(scores[shuffled], hits[shuffled], weights[shuffled])
    wide = scores.astype(np.float64)
    ref = naive.calibration(wide, hits, weights, calibration._MOST_KNOTS, calibration._HITS_PER_KNOT)
    assert ref is not None
    np.testing.assert_allclose(map_.scores, ref[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(map_.probabilities, ref[1], rtol=1e-5)
    assert len(ref[0]) == 5 if kind == "misleading" else len(ref[0]) >= 6
    assert len(ref[0]) <= calibration._MOST_KNOTS + 4


def test_fitted__by_hand() -> None:
    # two bins of 12 hits: scores 0 to 23 with every other a hit, then 24 to 35 with hits alone
    scores = np.arange(36, dtype=np.float32)
    hits = (scores % 2 == 1) | (scores >= 24)
    map_ = fitted(scores, hits)
    np.testing.assert_allclose(map_.scores, [-35, 0, 11.5, 29.5, 35, 70])
    low, high = 12 / 24.5, 12 / 12.5
    ends = low - (high - low) / 2, (1 + high) / 2  # half of the rise, and no more than half way to 1
    np.testing.assert_allclose(map_.probabilities, [0, ends[0], low, high, ends[1], 1], rtol=1e-6)


def test_fitted__keeps_the_order_of_scores() -> None:
    scores, hits = simulated(5000)
    hits &= np.random.default_rng(1).random(5000) < 0.8  # no score is certain
    map_ = fitted(scores, hits)
    assert (np.diff(map_.scores) > 0).all()
    assert (np.diff(map_.probabilities) > 0).all()
    assert map_.probabilities[[0, -1]].tolist() == [0, 1]
    # strictly: scores that differ by more than rounding have other probabilities
    at = np.linspace(map_.scores[0], map_.scores[-1], 2000).astype(np.float32)
    assert (np.diff(map_.apply(at)) > 0).all()
    assert map_.scores[0] < scores.min() < scores.max() < map_.scores[-1]


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 150),
    levels=st.sampled_from([1, 2, 5, 1000]),
    rate=st.sampled_from([0.0, 0.2, 0.7, 1.0]),
    slope=st.sampled_from([-1.0, 0.0, 1.0]),
)
def test_fitted__increasing_probabilities_whatever_the_pairs(
    seed: int, n: int, levels: int, rate: float, slope: float
) -> None:
    rng = np.random.default_rng(seed)
    scores = (rng.integers(levels, size=n) / levels - 0.5).astype(np.float32)
    hits = rng.random(n) < rate + slope * scores
    map_ = Calibration.fitted(scores, hits, rng.integers(1, 4, n).astype(np.float32))
    assert (map_ is None) == (hits.sum() < 2 * calibration._HITS_PER_KNOT)
    if map_ is None:
        return
    assert map_.scores.dtype == map_.probabilities.dtype == np.float32
    assert (np.diff(map_.scores) > 0).all()
    assert (np.diff(map_.probabilities) >= 0).all()
    assert map_.probabilities[[0, -1]].tolist() == [0, 1]
    probabilities = map_.apply(np.sort(scores))
    assert (probabilities > 0).all()
    assert (probabilities <= 1).all()
    assert (np.diff(probabilities) >= -2 * SINGLE).all()


@pytest.mark.parametrize("n_hits", [0, 1, 23, 24])
def test_fitted__too_few_hits(n_hits: int) -> None:
    hits = np.arange(100) < n_hits
    scores = np.random.default_rng(0).random(100).astype(np.float32)
    assert (Calibration.fitted(scores, hits, np.ones(100)) is None) == (n_hits < 24)


def test_fitted__no_pairs() -> None:
    assert Calibration.fitted(np.zeros(0, np.float32), np.zeros(0, bool), np.zeros(0, np.float32)) is None


@pytest.mark.parametrize("first", ["hits", "misses", "mixed"])
@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_fitted__constant_scores_have_the_rate_of_hits(value: float, first: str) -> None:
    places = np.arange(120)
    hits = {"hits": places < 40, "misses": places >= 80, "mixed": places % 3 == 0}[first]
    map_ = fitted(np.full(120, value, np.float32), hits)
    assert map_.apply(np.array([value], np.float32))[0] == pytest.approx(
        1 / 3, rel=0.03
    )  # half a pair is added
    np.testing.assert_array_equal(map_.apply(np.array([value - 1, value + 1], np.float32)), [0, 1])


def test_fitted__few_levels_of_scores_have_their_rates() -> None:
    rng = np.random.default_rng(0)
    levels = np.repeat([0.0, 1.0, 2.0], 40_000).astype(np.float32)
    hits = rng.random(len(levels)) < np.repeat([0.1, 0.3, 0.6], 40_000)
    shuffled = rng.permutation(len(levels))
    map_ = fitted(levels[shuffled], hits[shuffled])
    found = map_.apply(np.array([0, 1, 2], np.float32))
    assert abs(found - [0.1, 0.3, 0.6]).max() < 0.1  # bins that hold two levels mix them
    assert (np.diff(found) > 0.1).all()


def test_fitted__all_hits_are_nearly_certain() -> None:
    scores = np.sort(np.random.default_rng(0).random(100)).astype(np.float32)
    found = fitted(scores, np.ones(100, bool)).apply(scores)
    assert found.min() > 0.9
    assert found.max() < 1
    assert (np.diff(found) >= 0).all()


def test_fitted__separable_scores_go_from_rare_to_nearly_certain() -> None:
    scores = np.linspace(0, 1, 1000).astype(np.float32)
    found = fitted(scores, scores > 0.8).apply(scores)
    assert found[-1] > 0.9
    assert found[100] < 0.1
    assert found.max() < 1
    assert (np.diff(found) >= 0).all()


def test_fitted__the_last_scores_are_not_overrated() -> None:
    """Few hits even among the best: the ends must not be drawn towards 1 where there are data."""
    rng = np.random.default_rng(0)
    scores = rng.random(100_000).astype(np.float32)
    hits = rng.random(100_000) < np.where(scores > 0.9, 0.04, 0.02)
    map_ = fitted(scores, hits)
    best = scores > 0.99
    assert map_.apply(scores[best]).mean() == pytest.approx(hits[best].mean(), abs=0.02)


def test_weights__stand_for_repeated_pairs() -> None:
    scores, hits = simulated(3000, mean=-1)
    scores, places = np.unique(scores, return_index=True)
    hits = hits[places]
    times = np.where(hits, 1, np.random.default_rng(1).integers(1, 6, len(hits)))  # hits are never drawn
    assert times.mean() > 2
    weighted = fitted(scores, hits, times.astype(np.float32))
    assert_same(weighted, fitted(np.repeat(scores, times), np.repeat(hits, times)))
    assert abs(weighted.probabilities[2] - fitted(scores, hits).probabilities[2]) > 0.01


def test_weights__only_their_ratios_count_but_for_half_a_pair() -> None:
    scores, hits = simulated(3000, mean=-1)
    weights = np.random.default_rng(1).uniform(1, 9, 3000)
    one, other = (fitted(scores, hits, times * weights).apply(scores) for times in (1, 1000))
    np.testing.assert_allclose(one, other, atol=0.5 / 12.5)  # a bin has 12 hits at least


def test_weights__nothing_is_changed() -> None:
    scores, hits = simulated(500, mean=-1)
    arrays = scores, hits, np.ones(500, np.float32)
    for array in arrays:
        array.flags.writeable = False
    assert_same(fitted(*arrays), fitted(*(array.copy() for array in arrays)))
