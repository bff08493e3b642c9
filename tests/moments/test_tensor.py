"""Eigenpairs of a symmetric tensor: planted ones come back, and any other input ends in something finite."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from tensorly.decomposition import symmetric_parafac_power_iteration

from tests import naive_tensor as naive
from threepass.errors import InputError
from threepass.moments import tensor as module
from threepass.moments.tensor import (
    decompose,
    orthogonal_iteration,
    pair_contractions,
    power_method,
    relative_residual,
)

METHODS = ["orthogonal", "power"]


def rotation(K, seed=0):
    """A random orthogonal matrix, drawn apart from the starts of the methods."""
    return np.linalg.qr(np.random.default_rng([seed, K, 99]).standard_normal((K, K)))[0]


def planted(lambdas, seed=0):
    """A tensor with these eigenvalues, and its eigenvectors."""
    U = rotation(len(lambdas), seed)
    return naive.rank_one_sum(lambdas, U), U


def noise(K, size, seed=0):
    """A symmetric tensor of Gaussian entries with this Frobenius norm."""
    N = naive.symmetrized(np.random.default_rng([seed, K]).standard_normal((K, K, K)))
    return N * (size / np.linalg.norm(N))


def matched(result, U):
    """Which pair of the result goes with each column of U, and U'u of the two: signed, so 1 is right."""
    cosines = U.T @ result.eigenvectors
    _, which = linear_sum_assignment(-cosines)
    return which, cosines[np.arange(len(U)), which]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("K", [1, 2, 5, 20])
def test_decompose__recovers_a_planted_tensor(method, K):
    lambdas = np.random.default_rng(K).dirichlet(np.full(K, 5.0)) ** -0.5
    T, U = planted(lambdas)
    result = decompose(T, method)
    which, cosines = matched(result, U)
    np.testing.assert_allclose(result.eigenvalues[which], lambdas, rtol=1e-7)
    np.testing.assert_allclose(result.eigenvectors[:, which], U, atol=1e-7)
    np.testing.assert_allclose(cosines, 1, rtol=1e-12)
    assert (np.diff(result.eigenvalues) <= 0).all()
    assert result.residual < 1e-7
    assert result.converged


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1e-2, 1e-1])
def test_decompose__is_off_by_no_more_than_the_noise(method, size):
    lambdas = np.linspace(1, 2, 10)
    T, U = planted(lambdas)
    result = decompose(T + noise(10, size), method)
    which, _ = matched(result, U)
    # the noise has Frobenius norm `size`; what it does to one direction is a small share of it
    assert np.abs(result.eigenvalues[which] - lambdas).max() < size
    assert np.linalg.norm(result.eigenvectors[:, which] - U, axis=0).max() < size
    assert 0.5 * size < result.residual * np.linalg.norm(T) < size
    assert result.converged


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("K", [2, 4])
def test_decompose__agrees_with_tensorly(method, K):
    T, _ = planted(np.linspace(1, 2, K))
    T += noise(K, 1e-3)
    np.random.seed(0)  # noqa: NPY002  (tensorly draws its starts there)
    weights, factor = symmetric_parafac_power_iteration(T, rank=K, n_repeat=10, n_iteration=30)
    result = decompose(T, method)
    which, cosines = matched(result, factor)
    np.testing.assert_allclose(result.eigenvalues[which], weights, atol=1e-3)
    np.testing.assert_allclose(cosines, 1, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_decompose__turns_vectors_of_negative_eigenvalues_round(method):
    T, U = planted([3.0, -2.0, 1.0, -0.5])
    result = decompose(T, method)
    np.testing.assert_allclose(result.eigenvalues, [3, 2, 1, 0.5], rtol=1e-7)
    np.testing.assert_allclose(result.eigenvectors, U * [1, -1, 1, -1], atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_decompose__separates_equal_eigenvalues(method):
    # a matrix could not: any basis would do for it
    T, U = planted(np.full(8, 2.0))
    result = decompose(T, method)
    which, _ = matched(result, U)
    np.testing.assert_allclose(result.eigenvectors[:, which], U, atol=1e-7)
    np.testing.assert_allclose(result.eigenvalues, 2, rtol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_decompose__gives_zero_eigenvalues_where_the_rank_is_lower(method):
    T, U = planted([3.0, 2.0, 1.0, 0.0, 0.0, 0.0])
    result = decompose(T, method)
    np.testing.assert_allclose(result.eigenvalues, [3, 2, 1, 0, 0, 0], atol=1e-7)
    np.testing.assert_allclose(result.eigenvectors[:, :3], U[:, :3], atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(result.eigenvectors, axis=0), 1)
    assert result.converged


@pytest.mark.parametrize("method", METHODS)
def test_decompose__of_zero_is_zero(method):
    result = decompose(np.zeros((3, 3, 3)), method)
    np.testing.assert_array_equal(result.eigenvalues, 0)
    np.testing.assert_allclose(np.linalg.norm(result.eigenvectors, axis=0), 1)
    assert result.residual == 0
    assert result.converged


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_decompose__of_junk_is_finite(method, seed):
    T = noise(12, 5.0, seed)
    result = decompose(T, method, seed=seed)
    assert np.isfinite(result.eigenvalues).all()
    np.testing.assert_allclose(np.linalg.norm(result.eigenvectors, axis=0), 1)
    assert (np.diff(result.eigenvalues) <= 0).all()
    assert result.eigenvalues[-1] >= 0
    assert result.residual < 1


@pytest.mark.parametrize("method", METHODS)
def test_decompose__depends_on_the_seed_alone(method):
    T = planted(np.linspace(1, 2, 6))[0] + noise(6, 1.0)
    first, again = decompose(T, method, seed=5), decompose(T, method, seed=5)
    np.testing.assert_array_equal(first.eigenvalues, again.eigenvalues)
    np.testing.assert_array_equal(first.eigenvectors, again.eigenvectors)
    assert not np.array_equal(first.eigenvectors, decompose(T, method, seed=6).eigenvectors)
    to_the_end = {"orthogonal": orthogonal_iteration, "power": power_method}[method]
    one, other = (to_the_end(T, seed=seed, tol=1e-10) for seed in (5, 6))
    np.testing.assert_allclose(one.eigenvalues, other.eigenvalues, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_decompose__leaves_the_tensor_alone(method, dtype):
    T = planted([3.0, 2.0, 1.0])[0].astype(dtype)
    T.flags.writeable = False
    before = T.copy()
    result = decompose(T, method)
    np.testing.assert_array_equal(T, before)
    np.testing.assert_allclose(result.eigenvalues, [3, 2, 1], rtol=1e-5)
    assert result.eigenvalues.dtype == result.eigenvectors.dtype == np.float64


@pytest.mark.parametrize("method", METHODS)
def test_decompose__takes_any_memory_order(method):
    T = planted([3.0, 2.0, 1.0])[0]
    result = decompose(np.asfortranarray(T), method)
    np.testing.assert_allclose(result.eigenvalues, [3, 2, 1], rtol=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(), (3,), (3, 3), (3, 3, 2), (2, 3, 3), (3, 3, 3, 3), (0, 0, 0)])
def test_decompose__refuses_what_is_not_cubic(method, shape):
    with pytest.raises(InputError, match=r"must be K x K x K with K at least 1\. Found shape \("):
        decompose(np.ones(shape), method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_decompose__refuses_what_is_not_finite(method, value):
    T = np.zeros((3, 3, 3))
    T[1, 1, 1] = value
    with pytest.raises(InputError, match=r"must be finite\. Found 1 of 27 entries"):
        decompose(T, method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (0, 2)])
def test_decompose__refuses_what_is_symmetric_in_two_indices_only(method, axes):
    T = np.random.default_rng(0).standard_normal((4, 4, 4))
    T += T.swapaxes(*axes)
    with pytest.raises(InputError, match=r"must be symmetric\. Found entries that differ by"):
        decompose(T, method)


def test_decompose__allows_the_asymmetry_of_single_precision():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((5000, 8)).astype(np.float32)
    T = np.einsum("ni,nj,nl->ijl", Z, Z, Z, optimize=True)
    assert np.abs(T - T.transpose(1, 0, 2)).max() > 0
    assert np.isfinite(decompose(T).residual)


def test_decompose__refuses_an_unknown_method():
    with pytest.raises(InputError, match=r"no tensor method 'newton'\. Choose one of: orthogonal, power"):
        decompose(np.ones((1, 1, 1)), "newton")


@pytest.mark.parametrize("K", [1, 2, 20])
def test_orthogonal__is_orthonormal(K):
    for T in (planted(np.linspace(1, 2, K))[0], noise(K, 1.0), planted(np.eye(K)[0])[0]):
        result = orthogonal_iteration(T, max_iter=50)
        U = result.eigenvectors
        np.testing.assert_allclose(U.T @ U, np.eye(K), atol=1e-10)
        values = np.sum(naive.pair_contractions(T, U) * U, axis=0)
        np.testing.assert_allclose(result.eigenvalues, values, atol=1e-10)


def test_orthogonal__leaves_the_saddle_of_two_equally_likely_topics():
    U = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    T = naive.rank_one_sum([1, 1], U)
    G = naive.pair_contractions(T, np.eye(2))
    np.testing.assert_allclose(G * np.diag(G), np.diag([0.5, 0]), atol=1e-15)  # no step from the identity
    for seed in range(20):
        np.testing.assert_allclose(orthogonal_iteration(T, seed=seed).eigenvalues, 1, rtol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_orthogonal__never_loses_ground(seed):
    # eigenvalues over two decades in noise that buries the small ones: here plain polar steps do fall back
    T = planted(np.logspace(0, -2, 20), seed)[0]
    T += noise(20, 0.75 * np.linalg.norm(T), seed)
    sums = [
        np.sum(orthogonal_iteration(T, seed=seed, max_iter=steps, tol=1e-10).eigenvalues ** 2)
        for steps in range(0, 120, 3)
    ]
    assert (np.diff(sums) >= -1e-10 * sums[-1]).all()
    assert sums[-1] > sums[0]

    U = np.linalg.qr(np.random.default_rng(seed).standard_normal((20, 20)))[0]
    plain = []
    for _ in range(120):
        G = naive.pair_contractions(T, U)
        values = np.sum(G * U, axis=0)
        plain.append(values @ values)
        left, _, right = np.linalg.svd(G * values)
        U = left @ right
    assert np.diff(plain).min() < -1e-10 * plain[-1]
    assert sums[-1] > 0.999 * max(plain)


def test_orthogonal__says_when_the_steps_ran_out():
    T = planted(np.linspace(1, 2, 20))[0] + noise(20, 1.0)
    result = orthogonal_iteration(T, max_iter=3)
    assert not result.converged
    assert result.iterations == 3
    assert orthogonal_iteration(T).iterations > 3


@pytest.mark.parametrize("shift", [0, 0.7])
def test_power__equals_the_method_spelled_out(shift):
    K, n_restarts, n_iter = 5, 4, 25
    T = planted(np.linspace(1, 2, K))[0] + noise(K, 0.5)
    rng = np.random.default_rng(3)
    starts = [rng.standard_normal((K, n_restarts)) for _ in range(K)]
    lambdas, U = naive.power_method(T, starts, n_iter, shift)
    order = np.argsort(-lambdas)
    result = power_method(T, n_restarts=n_restarts, n_iter=n_iter, shift=shift, seed=3, tol=0)
    np.testing.assert_allclose(result.eigenvalues, lambdas[order], rtol=1e-8)
    np.testing.assert_allclose(result.eigenvectors, U[:, order], atol=1e-8)
    assert result.iterations == 2 * n_iter * K


@pytest.mark.parametrize("seed", [3, 7])
def test_power__stops_cycling_with_a_shift(seed):
    T = noise(4, 1.0, seed)
    plain, shifted = (power_method(T, n_iter=400, shift=shift) for shift in (0, 0.5))
    assert not plain.converged
    assert shifted.converged
    assert shifted.residual < plain.residual - 0.1


def test_power__says_when_the_steps_ran_out():
    T = planted(np.linspace(1, 2, 8))[0] + noise(8, 1.0)
    result = power_method(T, n_iter=2)
    assert not result.converged
    assert result.iterations == 2 * 2 * 8
    assert power_method(T, n_iter=200).converged


@pytest.mark.parametrize("options", [{"n_restarts": 0}, {"n_iter": 0}])
def test_power__refuses_no_start_and_no_step(options):
    with pytest.raises(InputError, match=r"needs a start and a step\. Found .*=0.*\. Make each at least 1"):
        power_method(np.ones((1, 1, 1)), **options)


def test_unit__stays_where_a_step_leads_nowhere():
    V, old = np.array([[3.0, 0.0], [4.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(module._unit(V, otherwise=old), [[0.6, 0], [0.8, 1]])


@pytest.mark.parametrize("K", [1, 2, module._SLAB, module._SLAB + 1, 3 * module._SLAB - 1])
@pytest.mark.parametrize("n", [1, 7])
def test_pair_contractions__equal_naive(K, n):
    T = noise(K, 1.0)
    V = np.random.default_rng(0).standard_normal((K, n))
    np.testing.assert_allclose(pair_contractions(T, V), naive.pair_contractions(T, V), atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [0, 0.3, 3.0])
def test_residual__equals_naive(method, size):
    T = planted(np.linspace(1, 2, 7))[0] + noise(7, size)
    result = decompose(T, method)
    expected = naive.relative_residual(T, result.eigenvalues, result.eigenvectors)
    assert result.residual == pytest.approx(expected, abs=1e-12)


def test_residual__of_any_pairs_equals_naive():
    rng = np.random.default_rng(0)
    T, lambdas, U = noise(5, 1.0), rng.standard_normal(3), rng.standard_normal((5, 3))
    assert relative_residual(T, lambdas, U) == pytest.approx(naive.relative_residual(T, lambdas, U))
