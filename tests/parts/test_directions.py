"""Directions of words that tell labels apart, and random waves of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from tests.linalg.test_basis import outside
from threepass.linalg.basis import orthonormal
from threepass.parts import directions as module
from threepass.parts.cross import CrossMoment
from threepass.parts.directions import label_directions, random_waves


def moment_of(M: np.ndarray) -> CrossMoment:
    """Y'X~ from its dense (L, D)."""
    rows = scipy.sparse.csr_array(M.astype(np.float32))
    return CrossMoment(rows.indptr.astype(np.int64), rows.indices, rows.data, M.shape[1])


def random_moment(n_labels: int, n_terms: int, seed: int = 0) -> np.ndarray:
    """(L, D), not negative, some labels far more frequent than others."""
    rng = np.random.default_rng(seed)
    M = rng.exponential(size=(n_labels, n_terms)) * (rng.random((n_labels, n_terms)) < 0.6)
    return M * np.geomspace(100, 0.1, n_labels)[:, None]


def scaled(M: np.ndarray) -> np.ndarray:
    """(D, L): columns c_l / |c_l|^1/2."""
    lengths = np.sqrt((M**2).sum(axis=1))
    return (M / np.sqrt(lengths)[:, None]).T


# -- directions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 3])
def test_label_directions__one_for_each_label(more: int) -> None:
    M = random_moment(9, 40)
    directions = label_directions(moment_of(M), 9 + more, seed=1)
    assert directions.dtype == np.float32
    np.testing.assert_allclose(directions[:, :9], scaled(M), rtol=1e-5)
    np.testing.assert_array_equal(directions[:, 9:], np.zeros((40, more)))


def test_label_directions__as_many_as_labels_span_the_centroids() -> None:
    M = random_moment(9, 40)
    B = orthonormal(label_directions(moment_of(M), 9, seed=1))
    assert B.shape == (40, 9)
    assert outside(M.T, B) < 1e-4
    assert outside(B, M.T) < 1e-4


def test_label_directions__a_label_never_seen_has_no_direction() -> None:
    M = random_moment(6, 30)
    M[[0, 4]] = 0
    directions = label_directions(moment_of(M), 6, seed=1)
    np.testing.assert_array_equal(directions[:, [0, 4]], 0)
    assert orthonormal(directions).shape == (30, 4)
    fewer = label_directions(moment_of(M), 3, seed=1)
    assert np.isfinite(fewer).all()
    assert outside(fewer, M[[1, 2, 3, 5]].T) < 1e-4


@pytest.mark.parametrize("count", [1, 2, 5, 19])
def test_label_directions__fewer_than_labels_are_sums_with_signs(count: int) -> None:
    M = random_moment(20, 60)
    directions = label_directions(moment_of(M), count, seed=4)
    assert directions.shape == (60, count)
    assert outside(directions, M.T) < 1e-4
    # the centroids are independent: the sums can be told from them
    G = np.linalg.lstsq(scaled(M), directions.astype(np.float64), rcond=None)[0]  # (L, count)
    whole = np.round(G)
    np.testing.assert_allclose(G, whole, atol=2e-3)
    most = min(module._PER_LABEL, count)
    sums = abs(whole).sum(axis=1)
    assert (sums <= most).all()
    np.testing.assert_array_equal(sums % 2, most % 2)  # signs that cancel do so by twos
    assert (whole > 0).any()
    assert count == 1 or (np.count_nonzero(whole, axis=1) > 1).any()
    assert orthonormal(directions).shape == (60, count)


def test_label_directions__few_suffice_for_centroids_of_low_rank() -> None:
    rng = np.random.default_rng(2)
    M = rng.random((80, 3)) @ rng.random((3, 50))
    B = orthonormal(label_directions(moment_of(M), 6, seed=0))
    assert B.shape == (50, 3)
    assert outside(M.T, B) < 1e-3


def test_label_directions__by_their_seed() -> None:
    cross = moment_of(random_moment(20, 60))
    first, again, other = (label_directions(cross, 5, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert abs(first - other).max() > 0.1


@pytest.mark.parametrize(("n_labels", "count"), [(0, 0), (0, 2), (4, 4), (4, 2)])
def test_label_directions__nothing_seen(n_labels: int, count: int) -> None:
    directions = label_directions(CrossMoment.zero(n_labels, 7), count, seed=0)
    np.testing.assert_array_equal(directions, np.zeros((7, count)))
    assert orthonormal(directions).shape == (7, 0)


# -- waves --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "count"), [(3, 5), (1, 1), (4, 0), (0, 0)])
def test_random_waves__shapes(width: int, count: int) -> None:
    waves, phases = random_waves(width, count, seed=0)
    assert (waves.shape, phases.shape) == ((width, count), (count,))
    assert waves.dtype == phases.dtype == np.float32


def test_random_waves__by_their_seed() -> None:
    first, again, other = (random_waves(3, 5, seed) for seed in (1, 1, 2))
    for one, same, another in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, same)
        assert (one != another).all()


def test_random_waves__distributions() -> None:
    waves, phases = random_waves(10, 4000, seed=0)
    assert abs(waves.mean()) < 0.02
    assert waves.std() == pytest.approx(1, abs=0.02)
    assert (phases >= 0).all()
    assert (phases < 2 * np.pi + 1e-6).all()
    np.testing.assert_allclose(
        np.quantile(phases, [0.25, 0.5, 0.75]), np.pi * np.array([0.5, 1, 1.5]), atol=0.2
    )


def test_label_directions__room_for_others_stays_empty() -> None:
    M = random_moment(9, 40)
    for count in (9, 4):
        directions = label_directions(moment_of(M), count, seed=1, room=3)
        np.testing.assert_array_equal(directions[:, :count], label_directions(moment_of(M), count, seed=1))
        np.testing.assert_array_equal(directions[:, count:], np.zeros((40, 3)))
