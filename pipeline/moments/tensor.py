"""Eigenpairs of the whitened third moment: T ~ sum_k lambda_k u_k⊗u_k⊗u_k (Algorithm 1, step 5).

Two methods. `orthogonal_iteration` moves all K vectors at once and keeps them orthonormal, as whitening says
they are (the paper, section 2.3). `power_method` is the one the paper's bound is proved for: one vector at a
time, from random starts, each subtracted before the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..tasks import one_blas_thread
from ..types import Array

Method = Literal["orthogonal", "power"]

_SLAB = 16  # first indices of T taken together: a GEMM long enough to be fast, 12 MB of it at K = 300
_ASYMMETRY = 1e-4  # of the largest entry: single precision sums stay below it


@dataclass(frozen=True, slots=True)
class TensorDecomposition:
    """Eigenpairs of a symmetric third-order tensor, the largest eigenvalue first.

    An odd order leaves the sign free, since lambda u⊗u⊗u = -lambda (-u)⊗(-u)⊗(-u): here lambda >= 0.
    """

    eigenvalues: Array
    """(K,) float64: lambda, descending, none negative."""
    eigenvectors: Array
    """(K, K) float64: column k is the unit vector u_k."""
    residual: float
    """||T - sum_k lambda_k u_k⊗u_k⊗u_k|| / ||T|| in Frobenius norms; 0 for T = 0."""
    iterations: int
    """Steps taken, in all."""
    converged: bool
    """False when the steps ran out first; the result is then the best found so far."""


@one_blas_thread()
def decompose(tensor: npt.ArrayLike, method: Method = "orthogonal", *, seed: int = 0) -> TensorDecomposition:
    """Eigenpairs by the method of that name, with its default settings.

    Parameters
    ----------
    tensor
        (K, K, K) symmetric. It is left as it is, and not copied when it is float64 in C order.
    method
        "orthogonal" for `orthogonal_iteration`, "power" for `power_method`.
    seed
        Of the random starts; one seed, one result.

    Raises
    ------
    InputError
        The tensor is not cubic, symmetric and finite, or there is no such method.

    Examples
    --------
    >>> T = np.zeros((2, 2, 2))
    >>> T[0, 0, 0], T[1, 1, 1] = 2, -3
    >>> decompose(T).eigenvalues.round(6)
    array([3., 2.])
    """
    if method == "orthogonal":
        return orthogonal_iteration(tensor, seed=seed)
    if method == "power":
        return power_method(tensor, seed=seed)
    raise InputError(f"There is no tensor method '{method}'. Choose one of: orthogonal, power.")


def orthogonal_iteration(
    tensor: npt.ArrayLike, *, seed: int = 0, tol: float = 1e-4, max_iter: int = 500
) -> TensorDecomposition:
    """All K eigenpairs together: climb sum_k lambda_k² over the orthogonal matrices.

    With U orthogonal the pairs leave ||T||² - sum_k lambda_k² of the tensor, so this is a least-squares fit.
    Each step takes the gradient, whose column k is lambda_k T(I, u_k, u_k) but for a factor, and goes to the
    nearest orthogonal matrix, its polar factor. Where noise outweighs the small eigenvalues plain steps
    overshoot, and may cycle for ever; a step that loses ground is taken again with some of the old U mixed
    in, so that the sum never falls.

    The start is a random orthogonal matrix. The identity would do as well on most tensors, but two equally
    likely topics whiten to (e_1 ± e_2) / sqrt(2), and there it is a saddle that the steps never leave.

    Parameters
    ----------
    tensor
        (K, K, K) symmetric.
    seed
        Of the start.
    tol
        Stop when a step changes sum_k lambda_k² by less than this share of it. Near a clear optimum steps
        converge cubically, so little is left to gain; on real corpora what is left is far below sampling
        noise and takes ten times as long.
    max_iter
        Steps to take at most.

    Notes
    -----
    *Cost.* K⁴ / 2 multiply-adds a step and an SVD of K x K; 32 K² numbers beside the tensor.

    *Reference.* Chen and Saad, "On the tensor SVD and the optimal low rank orthogonal approximation of
    tensors", SIAM J. Matrix Anal. Appl. 30 (2009). The mixing is, column by column, the shift of Kolda and
    Mayo (see `power_method`).
    """
    T = _checked(tensor)
    U = _polar(np.random.default_rng(seed).standard_normal(T.shape[:2]))  # (K, K)
    G = pair_contractions(T, U)  # (K, K)
    lambdas = np.sum(G * U, axis=0)  # (K,)
    objective = lambdas @ lambdas
    mix = 0.0
    iterations, converged = 0, False
    while not converged and iterations < max_iter:
        iterations += 1
        # In proportion to each column's own gradient: one weight for all would freeze the weak columns.
        keep = mix * np.abs(lambdas) * np.linalg.norm(G, axis=0)  # (K,)
        U_next = _polar(G * lambdas + U * keep)
        G_next = pair_contractions(T, U_next)
        lambdas_next = np.sum(G_next * U_next, axis=0)
        gain = lambdas_next @ lambdas_next - objective
        if gain < -1e-12 * objective:  # more than rounding
            mix = max(0.25, 2 * mix)
            continue
        converged = bool(gain <= tol * objective)
        U, G, lambdas, objective = U_next, G_next, lambdas_next, objective + gain
        mix *= 0.9
    return _finished(T, lambdas, U, iterations, converged)


def power_method(
    tensor: npt.ArrayLike,
    *,
    n_restarts: int = 20,
    n_iter: int = 30,
    shift: float = 0.0,
    seed: int = 0,
    tol: float = 1e-10,
) -> TensorDecomposition:
    """One eigenpair after another: power iteration from random starts, then deflation.

    For each of the K: the step u <- T(I, u, u) / ||.|| from every start, the start with the largest
    T(u, u, u) some steps further, and T <- T - lambda u⊗u⊗u. The errors of one pair stay in the tensor for
    those after it, and nothing keeps the vectors orthogonal.

    Parameters
    ----------
    tensor
        (K, K, K) symmetric.
    n_restarts
        Random starts for each pair.
    n_iter
        Steps from every start at most, and again at most as many for the best of them.
    shift
        Add this multiple of u to T(I, u, u) in each step. Large enough, it makes T(u, u, u) grow with every
        step, on any tensor, in smaller steps; 0 is the plain method.
    seed
        Of the starts.
    tol
        Stop when ||T(I, u, u) - lambda u|| is less than this share of ||T||.

    Notes
    -----
    *Cost.* `n_restarts` K³ / 2 multiply-adds a step, at most 2 K `n_iter` steps. No copy of the tensor: what
    was deflated is subtracted from T(I, u, u) instead.

    *Reference.* Anandkumar, Ge, Hsu, Kakade and Telgarsky, "Tensor decompositions for learning latent
    variable models", JMLR 15 (2014), Algorithm 1; for the shift, Kolda and Mayo, "Shifted power method for
    computing tensor eigenpairs", SIAM J. Matrix Anal. Appl. 32 (2011).
    """
    T = _checked(tensor)
    if min(n_restarts, n_iter) < 1:
        raise InputError(
            f"The power method needs a start and a step. Found n_restarts={n_restarts}, n_iter={n_iter}. "
            "Make each at least 1."
        )
    K = len(T)
    rng = np.random.default_rng(seed)
    smallest = tol * np.linalg.norm(T)
    U, lambdas = np.zeros((K, K)), np.zeros(K)  # pairs not found yet are zero, and deflate nothing
    iterations, converged = 0, True

    def climb(V: Array) -> tuple[Array, Array, bool]:
        """Climb from the columns of V on T less the pairs found: end points, values, and if they rest."""
        nonlocal iterations
        for step in range(n_iter + 1):
            G = pair_contractions(T, V) - (U * lambdas) @ (U.T @ V) ** 2  # (K, n)
            values = np.sum(G * V, axis=0)  # (n,)
            still = bool((np.linalg.norm(G - V * values, axis=0) <= smallest).all())
            if still or step == n_iter:
                break
            iterations += 1
            V = _unit(G + shift * V, otherwise=V)
        return V, values, still

    for k in range(K):
        starts = rng.standard_normal((K, n_restarts))
        V, values, _ = climb(starts / np.linalg.norm(starts, axis=0))
        best = np.argmax(values)
        u, value, still = climb(V[:, [best]])
        U[:, k], lambdas[k] = u[:, 0], value[0]
        converged &= still
    return _finished(T, lambdas, U, iterations, converged)


def pair_contractions(T: Array, V: Array) -> Array:
    """T(I, v, v) for every column v of V.

    Parameters
    ----------
    T
        (K, K, K) float64, symmetric.
    V
        (K, n) float64.

    Returns
    -------
    (K, n) float64
        Entry (i, c) is sum_jl T[i, j, l] V[j, c] V[l, c].

    Notes
    -----
    *Cost.* n K³ / 2 multiply-adds, half of those in the sum, since the GEMMs go over slabs of T with j <= l
    but for each slab's own corner; 16 K (K + n) numbers beside T.
    """
    K, n = V.shape
    G = np.zeros((K, n))
    for start in range(0, K, _SLAB):
        stop = min(start + _SLAB, K)
        P = V[start:stop, None] * V[start:]  # (slab, K - start, n)
        P[:, stop - start :] *= 2  # for (l, j), which no slab visits
        G += T[start:stop, start:].reshape(-1, K).T @ P.reshape(-1, n)
    return G


def relative_residual(T: Array, lambdas: Array, U: Array) -> float:
    """||T - sum_k lambda_k u_k⊗u_k⊗u_k|| / ||T||, from the differences themselves; 0 for T = 0.

    Expanding the square would need no pass over T but would lose half of the digits.
    """
    norm = np.linalg.norm(T)
    if norm == 0:
        return 0.0
    squares = 0.0
    for i, layer in enumerate(T):
        squares += np.sum((layer - (U * (lambdas * U[i])) @ U.T) ** 2)
    return float(np.sqrt(squares) / norm)


def _polar(A: Array) -> Array:
    """The orthogonal matrix nearest to A."""
    left, _, right = np.linalg.svd(A)
    nearest: Array = left @ right
    return nearest


def _unit(V: Array, otherwise: Array) -> Array:
    """Columns of length 1; those of `otherwise` where V has a zero column."""
    norms = np.linalg.norm(V, axis=0)
    return np.where(norms > 0, V / np.where(norms > 0, norms, 1), otherwise)


def _finished(T: Array, lambdas: Array, U: Array, iterations: int, converged: bool) -> TensorDecomposition:
    U = np.where(lambdas < 0, -U, U)
    lambdas = np.abs(lambdas)
    order = np.argsort(-lambdas, kind="stable")
    U, lambdas = U[:, order], lambdas[order]
    return TensorDecomposition(lambdas, U, relative_residual(T, lambdas, U), iterations, converged)


def _checked(tensor: npt.ArrayLike) -> Array:
    """The tensor as float64 in C order, once it is known to be cubic, symmetric and finite."""
    T = np.ascontiguousarray(tensor, np.float64)
    if T.ndim != 3 or len(set(T.shape)) != 1 or T.size == 0:
        raise InputError(
            f"The tensor must be K x K x K with K at least 1. Found shape {np.shape(tensor)}. "
            "Pass the whitened third moment."
        )
    n_bad = T.size - np.count_nonzero(np.isfinite(T))
    if n_bad:
        raise InputError(
            f"The tensor must be finite. Found {n_bad} of {T.size} entries NaN or infinite. "
            "Look for a whitening matrix built on an eigenvalue of zero."
        )
    # Swapping the last two indices and swapping the first two make all orders; by layers, to copy little.
    gap = max(max(np.abs(A - A.T).max(), np.abs(A - T[:, i]).max()) for i, A in enumerate(T))
    largest = max(T.max(), -T.min())
    if gap > _ASYMMETRY * largest:
        raise InputError(
            f"The tensor must be symmetric. Found entries that differ by {gap:.3g} when their indices change "
            f"places, with {largest:.3g} the largest. Average it over the six orders of its indices first."
        )
    return T
