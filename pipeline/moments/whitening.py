"""Whitening: the top eigenpairs of M2 and W = Omega Sigma^-1/2 (the paper's Algorithm 1, steps 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from ..errors import InputError
from ..linalg.tall import RowsOf, gaussian, gram, small_eigenpairs, times_in_place
from ..tasks import one_blas_thread
from ..types import Array

RANK_TOLERANCE = 1e-9
"""An eigenvalue below this share of the largest is numerically zero."""


@dataclass(frozen=True, slots=True)
class Whitening:
    """W = Omega Sigma^-1/2, from the top eigenpairs of M2: W'M2W is the identity."""

    W: Array
    """(D, K)."""
    eigenvalues: Array
    """(K,) positive, descending."""
    further: Array = field(default_factory=lambda: np.zeros(0))
    """(m,) positive, descending: the next eigenvalues, for people to see what K leaves out; those of a sketch
    are too small rather than too large."""

    @classmethod
    def of_basis(cls, basis: Array, eigenvalues: Array) -> Whitening:
        """From Omega (D, K), which has orthonormal columns."""
        return cls(np.asarray(basis / np.sqrt(eigenvalues).astype(basis.dtype)), eigenvalues)


def n_further(n_components: int) -> int:
    """Number of eigenvalues kept beyond K, where there are so many."""
    return max(10, n_components // 4)


@one_blas_thread()
def exact_whitening(M2: Array, n_components: int, seed: int = 0) -> Whitening:
    """The top eigenpairs of M2 (D, D), by ARPACK or, when many are wanted, by LAPACK.

    Cost: O(D² K) for each of some ten Arnoldi sweeps, or O(D³).
    """
    D = len(M2)
    K = min(n_components + n_further(n_components), D)
    if D <= 500 or 4 * n_components >= D:
        values, vectors = _largest_eigenpairs(M2, K)
    else:
        start = np.random.default_rng(seed).standard_normal(D)
        values, vectors = scipy.sparse.linalg.eigsh(M2, k=K, which="LA", v0=start)
    order = np.argsort(-values)
    rank = _rank(values[order[:n_components]])
    top, further = order[:rank], values[order[n_components:]]
    return replace(Whitening.of_basis(vectors[:, top], values[top]), further=further[further > 0])


def _largest_eigenpairs(M2: Array, count: int) -> tuple[Array, Array]:
    """The largest eigenvalues, ascending, and their eigenvectors, by LAPACK."""
    try:
        values, vectors = scipy.linalg.eigh(M2, subset_by_index=(len(M2) - count, len(M2) - 1))
    except np.linalg.LinAlgError:  # some builds give up on many equal eigenvalues when only a few are wanted
        values, vectors = np.linalg.eigh(M2)
    return values[-count:], vectors[:, -count:]


def warm_start(
    multiply: Callable[[Array], Array],
    n_terms: int,
    width: int,
    seed: int,
    n_iter: int = 4,
    n_threads: int | None = None,
) -> Array:
    """(D, p) float32, orthonormal: subspace iteration on a sample of the documents.

    Parameters
    ----------
    multiply
        Gives M2 Omega on the sample, and may overwrite Omega.

    A sketch that already lies near the top eigenvectors makes one pass over the whole corpus enough: from a
    random one, the 50th to 100th eigenvalue come out at a fifth to a half of their size.
    """
    width = min(width, n_terms)
    sketch = gaussian(n_terms, width, seed, n_threads)
    for _ in range(n_iter):
        sketch = _orthonormal(multiply(sketch), 1, n_threads)
    return _orthonormal(sketch, 1, n_threads)


def sketched_whitening(
    product: Array,
    sketch: RowsOf,
    n_components: int,
    *,
    semidefinite: bool = True,
    n_threads: int | None = None,
) -> Whitening:
    """The top eigenpairs of M2 from `product` = M2 Omega, Omega (D, p) being about orthonormal.

    The product is overwritten: another D x p would be large.

    A semidefinite M2 gets Nyström's formula, M2 ~ (M2 Omega)(Omega'M2 Omega)^-1(M2 Omega)', which gains half
    a subspace iteration over plain Rayleigh–Ritz (Halko, Martinsson and Tropp 2011, section 5.5). Without
    self-pairs M2 may be indefinite; a small eigenvalue of the core can then be the difference of large ones,
    and its inverse nonsense. There the images of the best Ritz vectors are taken: one subspace iteration.
    """
    core = gram(sketch, product, n_threads)  # (p, p)
    values, vectors = small_eigenpairs((core + core.T) / 2)
    keep = values > max(values[-1], 0) * 1e-7  # the product is in single precision
    if not semidefinite:
        keep &= np.arange(len(values)) >= len(values) - n_components
    if not keep.any():
        _rank(np.zeros(0))
    # M2 ~ F F', or M2² ~ F F'; the eigenvectors come from the small F'F
    small = vectors[:, keep] / (np.sqrt(values[keep]) if semidefinite else 1)  # (p, r)
    F = times_in_place(product, small, n_threads)  # (D, r)
    values, vectors = small_eigenpairs(gram(F, F, n_threads))
    order = np.argsort(-values)[: n_components + n_further(n_components)]
    order = order[values[order] > 0]
    eigenvalues = values[order] if semidefinite else np.sqrt(values[order])
    order, eigenvalues, further = order[:n_components], eigenvalues[:n_components], eigenvalues[n_components:]
    rank = _rank(eigenvalues)
    order, eigenvalues = order[:rank], eigenvalues[:rank]
    W = F @ (vectors[:, order] / np.sqrt(values[order] * eigenvalues)).astype(F.dtype)
    return Whitening(W, eigenvalues, further)


def rotation(eigenvalues: Array, M2: Array) -> tuple[Array, Array]:
    """Rotation that makes a whitening exact, from the measures of pass 2: Rayleigh–Ritz in the same subspace.

    Parameters
    ----------
    eigenvalues
        (K,): of M2, as the whitening has them.
    M2
        (K, K): W'M2W on the whole corpus, the identity but for the errors of a sketch.

    Returns
    -------
    R
        (K, K'): by which W, or a whitened tensor, is carried over: R'(W'M2W)R = I.
    eigenvalues
        (K',) positive, descending.
    """
    root = np.sqrt(eigenvalues)
    values, vectors = small_eigenpairs(root[:, None] * (M2 + M2.T) / 2 * root)  # Omega'M2 Omega
    order = np.argsort(-values)
    order = order[: _rank(values[order])]
    return root[:, None] * vectors[:, order] / np.sqrt(values[order]), values[order]


def rotated(whitening: Whitening, R: Array, eigenvalues: Array, n_threads: int | None = None) -> Whitening:
    """With W R for W, which is overwritten."""
    return Whitening(times_in_place(whitening.W, R, n_threads), eigenvalues, whitening.further)


def _orthonormal(matrix: Array, n_turns: int = 2, n_threads: int | None = None) -> Array:
    """Orthonormal columns that span the same space, by Cholesky twice; by QR when that breaks down.

    After one turn columns are orthonormal only as far as rounding allows, which is enough between steps of a
    subspace iteration. The matrix is overwritten.
    """
    for _ in range(n_turns):
        try:
            lower = np.linalg.cholesky(gram(matrix, matrix, n_threads))
        except np.linalg.LinAlgError:
            return np.linalg.qr(matrix)[0]
        # the small inverse in double precision, the tall product in single; the second turn mends rounding
        inverse = scipy.linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)
        matrix = times_in_place(matrix, inverse.T, n_threads)
    return matrix


def _rank(values: Array) -> int:
    """Number of clearly positive eigenvalues, of descending ones."""
    rank = int((values > RANK_TOLERANCE * max(values[0], 0)).sum()) if len(values) else 0
    if rank == 0:
        raise InputError(
            "No two words of the corpus occur together, so there is nothing to learn from. "
            "Found no positive eigenvalue of the word pairs. Check that documents have several known words."
        )
    return rank
