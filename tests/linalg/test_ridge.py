from __future__ import annotations

import numpy as np
import pytest

from threepass.linalg.ridge import RidgePath, ridge_weights

STRENGTHS = (0.1, 1.0, 30.0, 1000.0)
SHAPES = [(0, 3, 2), (1, 1, 1), (40, 7, 3), (5, 20, 4), (300, 12, 50), (30, 4, 0)]


def moments(n: int, p: int, n_labels: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """F (n, p) with a column of ones, F'F and Y'F."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((n, p))
    F[:, -1] = 1
    Y = (rng.random((n, n_labels)) < 0.3) * 1.0
    return F, F.T @ F, Y.T @ F


def singular(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same with a column twice, a sum of columns and a column of zeros."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((200, 8))
    F[:, 3], F[:, 5], F[:, 6] = F[:, 0], F[:, 1] - 2 * F[:, 2], 0
    Y = (rng.random((200, 4)) < 0.3) * 1.0
    return F, F.T @ F, Y.T @ F


def solved(gram: np.ndarray, labels: np.ndarray, strength: float) -> np.ndarray:
    return np.linalg.solve(gram + strength * np.eye(len(gram)), labels.T).T


def rounding(labels: np.ndarray, strength: float) -> float:
    """What single precision may cost: its share of the largest that weights could be."""
    return 1e-6 * abs(labels).max(initial=0) / strength


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize(("n", "p", "n_labels"), SHAPES)
def test_ridge_weights__equal_solving(n: int, p: int, n_labels: int, strength: float) -> None:
    _, gram, labels = moments(n, p, n_labels)
    A = ridge_weights(gram, labels, strength)
    assert A.dtype == np.float32
    assert A.shape == (n_labels, p)
    np.testing.assert_allclose(
        A, solved(gram, labels, strength), rtol=1e-5, atol=rounding(labels, strength) / 10
    )


@pytest.mark.parametrize("strength", STRENGTHS)
def test_ridge_weights__singular_gram(strength: float) -> None:
    F, gram, labels = singular()
    assert np.linalg.matrix_rank(gram) == 5
    A = ridge_weights(gram, labels, strength)
    np.testing.assert_allclose(A, solved(gram, labels, strength), atol=rounding(labels, strength))
    np.testing.assert_allclose(A[:, 0], A[:, 3], atol=rounding(labels, strength))  # equal columns share
    np.testing.assert_array_equal(A[:, 6], 0)
    np.testing.assert_allclose(
        F @ A.T, F @ solved(gram, labels, strength).T, atol=10 * rounding(labels, strength)
    )


def test_ridge_weights__minimise_the_penalised_squares() -> None:
    F, gram, _ = moments(50, 5, 1)
    y = F @ [1.0, -2.0, 0.0, 0.5, 3.0]

    def loss(a: np.ndarray) -> float:
        return float(((y - F @ a) ** 2).sum() + 2.0 * (a**2).sum())

    best = ridge_weights(gram, (y @ F)[None, :], 2.0)[0].astype(np.float64)
    for step in np.concatenate([np.eye(5), -np.eye(5)]) * 0.01:
        assert loss(best + step) > loss(best)


def test_ridge_weights__single_precision_labels_and_nothing_is_changed() -> None:
    _, gram, labels = moments(40, 7, 3)
    kept = gram.copy()
    for array in (gram, labels):
        array.flags.writeable = False
    A = ridge_weights(gram, labels.astype(np.float32), 1.0)
    assert A.dtype == np.float32
    np.testing.assert_allclose(A, ridge_weights(gram, labels, 1.0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(gram, kept)


@pytest.mark.parametrize("shape", [*SHAPES, None])
def test_path__every_strength_equals_its_own_weights(shape: tuple[int, int, int] | None) -> None:
    F, gram, labels = singular() if shape is None else moments(*shape)
    path = RidgePath.of(gram, labels)
    filters = path.filters(STRENGTHS)
    assert (path.values.dtype, path.vectors.dtype, path.labels.dtype, filters.dtype) == (
        np.float64,
        np.float32,
        np.float32,
        np.float32,
    )
    assert filters.shape == (len(STRENGTHS), len(gram))
    for strength, one in zip(STRENGTHS, filters, strict=True):
        A = ridge_weights(gram, labels, strength)
        tolerance = rounding(labels, strength)
        np.testing.assert_allclose(path.labels * one @ path.vectors.T, A, rtol=1e-5, atol=tolerance)
        scores = (F.astype(np.float32) @ path.vectors * one) @ path.labels.T
        np.testing.assert_allclose(scores, F @ A.T, rtol=1e-5, atol=10 * tolerance)


def test_path__is_the_eigendecomposition() -> None:
    _, gram, labels = moments(40, 7, 3)
    path = RidgePath.of(gram, labels)
    V = path.vectors.astype(np.float64)
    np.testing.assert_allclose(V.T @ V, np.eye(7), atol=1e-6)
    np.testing.assert_allclose(V * path.values @ V.T, gram, atol=1e-4)
    np.testing.assert_allclose(path.labels, labels @ V, rtol=1e-5, atol=1e-4)


def test_path__rounding_below_zero_is_zero() -> None:
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    gram = V * [1e4, 10.0, -1e-9, -0.5] @ V.T  # far more than rounding, for all to see
    path = RidgePath.of(gram, rng.standard_normal((3, 4)))
    np.testing.assert_allclose(path.values, [0, 0, 10, 1e4], atol=1e-8)
    assert (path.values >= 0).all()
    np.testing.assert_allclose(path.filters([0.5])[0], [2, 2, 1 / 10.5, 1 / 10000.5], rtol=1e-6)


def test_filters__by_hand() -> None:
    path = RidgePath(np.array([0.0, 3.0]), np.eye(2, dtype=np.float32), np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(path.filters([1.0, 5.0]), [[1, 0.25], [np.float32(0.2), 0.125]])
    assert path.filters([]).shape == (0, 2)
