from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from threepass.corpus.rows import SparseRows
from threepass.linalg import tall
from threepass.parts import directions as subspace
from threepass.parts.cross import CrossMoment
from threepass.parts.directions import label_directions, orthonormal, random_waves
from threepass.parts.features import features


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


def outside(vectors: np.ndarray, span: np.ndarray) -> float:
    """The largest share of a column's length that lies outside the columns' span."""
    U, values, _ = np.linalg.svd(span.astype(np.float64), full_matrices=False)
    U = U[:, values > 1e-5 * values.max(initial=0)]
    left = vectors - U @ (U.T @ vectors)
    return float((np.linalg.norm(left, axis=0) / np.linalg.norm(vectors, axis=0)).max(initial=0))


def assert_orthonormal(B: np.ndarray, atol: float = 1e-5) -> None:
    assert B.dtype == np.float32
    assert B.flags.c_contiguous
    B = B.astype(np.float64)
    np.testing.assert_allclose(B.T @ B, np.eye(B.shape[1]), atol=atol)


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
    most = min(subspace._PER_LABEL, count)
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


# -- bases --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_terms", "p"), [(1, 1), (30, 1), (30, 7), (8, 8), (400, 60)])
def test_orthonormal__basis_of_the_span(n_terms: int, p: int) -> None:
    M = np.random.default_rng(p).standard_normal((n_terms, p)).astype(np.float32)
    kept = M.copy()
    B = orthonormal(M)
    assert B.shape == (n_terms, p)
    assert_orthonormal(B, atol=1e-3 if n_terms == p else 1e-5)
    assert outside(M, B) < 1e-3
    assert outside(B, M) < 1e-3
    np.testing.assert_array_equal(M, kept)


def test_orthonormal__dependent_and_zero_columns_are_dropped() -> None:
    rng = np.random.default_rng(0)
    M = rng.standard_normal((50, 5)).astype(np.float32)
    zero, double, total = np.zeros((50, 1), np.float32), 2 * M[:, :1], M[:, 1:2] - 3 * M[:, 2:3]
    B = orthonormal(np.concatenate([zero, M, double, zero, total, M], axis=1))
    assert B.shape == (50, 5)
    assert_orthonormal(B)
    assert outside(M, B) < 1e-5


def test_orthonormal__more_columns_than_rows() -> None:
    B = orthonormal(np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32))
    assert B.shape == (6, 6)
    assert_orthonormal(B)


def test_orthonormal__short_columns_count_as_much_as_long_ones() -> None:
    M = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    B = orthonormal(M * np.geomspace(1e-12, 1e12, 6).astype(np.float32))
    assert B.shape == (50, 6)
    assert_orthonormal(B)
    assert outside(M, B) < 1e-5


@pytest.mark.parametrize("p", [0, 1, 4])
def test_orthonormal__nothing_to_span(p: int) -> None:
    B = orthonormal(np.zeros((5, p), np.float32))
    assert B.shape == (5, 0)
    assert B.dtype == np.float32


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


@pytest.mark.parametrize("seed", [0, 1])
def test_random_waves__approximate_the_gaussian_kernel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((12, 4))
    points[1] = points[0]
    points[2] = -points[0]
    points[3] = points[0] + 0.1 * points[3]
    points /= np.linalg.norm(points, axis=1)[:, None]
    m = 4000
    documents = SparseRows(np.arange(13), np.arange(12, dtype=np.int32), np.ones(12, np.float32), 12)
    F = features(documents, points.astype(np.float32), *random_waves(4, m, seed))
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    assert squares.max() == pytest.approx(4)
    kernel = F[:, 4:-1] @ F[:, 4:-1].T
    np.testing.assert_allclose(kernel, np.exp(-squares / 2), atol=4.5 / np.sqrt(m))


def test_label_directions__room_for_others_stays_empty() -> None:
    M = random_moment(9, 40)
    for count in (9, 4):
        directions = label_directions(moment_of(M), count, seed=1, room=3)
        np.testing.assert_array_equal(directions[:, :count], label_directions(moment_of(M), count, seed=1))
        np.testing.assert_array_equal(directions[:, count:], np.zeros((40, 3)))


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_orthonormal__in_place(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    M = np.random.default_rng(0).standard_normal((30, 6)).astype(np.float32)
    before, expected = M.copy(), orthonormal(M)
    np.testing.assert_array_equal(M, before)
    monkeypatch.setattr(tall, "_ROWS", rows)
    B = orthonormal(M, overwrite=True)
    assert B.base is M
    assert B.shape == M.shape
    np.testing.assert_allclose(M, expected, atol=1e-6)
    M[:, 3] = M[:, 1]
    assert orthonormal(M, overwrite=True).shape == (30, 5)


@pytest.mark.parametrize("n_threads", [2, 5, None])
def test_orthonormal__threads_do_not_change_a_bit(
    n_threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tall, "_ROWS", 100)
    M = np.random.default_rng(0).standard_normal((1000, 40)).astype(np.float32)
    M[:, 7] = M[:, 3]
    one, other = (orthonormal(M, n_threads=n) for n in (1, n_threads))
    assert one.shape == (1000, 39)
    np.testing.assert_array_equal(one, other)
