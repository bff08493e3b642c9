"""Whitening: the top eigenpairs of M2 and W = Omega Sigma^-1/2 (the paper's Algorithm 1, steps 2 and 3)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from pipeline.corpus.rows import Array
from pipeline.errors import InputError

RANK_TOLERANCE = 1e-9
"""An eigenvalue below this share of the largest is numerically zero."""


@dataclass(frozen=True, slots=True)
class Whitening:
    """Eigenpairs of M2: `basis` (D, K) with orthonormal columns, `eigenvalues` (K,) positive, descending."""

    basis: Array
    eigenvalues: Array

    @property
    def W(self) -> Array:
        """(D, K): Omega Sigma^-1/2, so that W'M2W is the identity."""
        return np.asarray(self.basis / np.sqrt(self.eigenvalues).astype(self.basis.dtype))

    @property
    def unwhitening(self) -> Array:
        """(D, K): W(W'W)^-1 = Omega Sigma^1/2, which takes a whitened vector back to words."""
        return np.asarray(self.basis * np.sqrt(self.eigenvalues).astype(self.basis.dtype))


def exact_whitening(M2: Array, n_components: int, seed: int = 0) -> Whitening:
    """The top eigenpairs of M2 (D, D), by ARPACK or, when many are wanted, by LAPACK.

    Cost: O(D² K) for each of some ten Arnoldi sweeps, or O(D³).
    """
    D = len(M2)
    K = min(n_components, D)
    if D <= 500 or 4 * K >= D:
        values, vectors = scipy.linalg.eigh(M2, subset_by_index=(D - K, D - 1))
    else:
        start = np.random.default_rng(seed).standard_normal(D)
        values, vectors = scipy.sparse.linalg.eigsh(M2, k=K, which="LA", v0=start)
    order = np.argsort(-values)
    return _positive(vectors[:, order], values[order], n_components)


def warm_start(
    multiply: Callable[[Array], Array], n_terms: int, width: int, seed: int, n_iter: int = 4
) -> Array:
    """(D, p) float32, orthonormal: subspace iteration on a sample of the documents.

    Parameters
    ----------
    multiply
        Gives M2 Omega on the sample.

    A sketch that already lies near the top eigenvectors makes one pass over the whole corpus enough: from a
    random one, the 50th to 100th eigenvalue come out at a fifth to a half of their size.
    """
    width = min(width, n_terms)
    sketch = _orthonormal(np.random.default_rng(seed).standard_normal((n_terms, width), dtype=np.float32))
    for _ in range(n_iter):
        sketch = _orthonormal(multiply(sketch))
    return sketch


def sketched_whitening(
    product: Array, sketch: Array, n_components: int, *, semidefinite: bool = True
) -> Whitening:
    """The top eigenpairs of M2 from `product` = M2 Omega, Omega (D, p) being orthonormal.

    A semidefinite M2 gets Nyström's formula, M2 ~ (M2 Omega)(Omega'M2 Omega)^-1(M2 Omega)', which gains half
    a subspace iteration over plain Rayleigh–Ritz (Halko, Martinsson and Tropp 2011, section 5.5). Without
    self-pairs M2 may be indefinite; a small eigenvalue of the core can then be the difference of large ones,
    and its inverse nonsense. There the images of the best Ritz vectors are taken: one subspace iteration.
    """
    core = (sketch.T @ product).astype(np.float64)  # (p, p)
    values, vectors = np.linalg.eigh((core + core.T) / 2)
    keep = values > max(values[-1], 0) * 1e-7  # the product is in single precision
    if not semidefinite:
        keep &= np.arange(len(values)) >= len(values) - n_components
    if not keep.any():
        return _positive(sketch[:, :0], np.zeros(0), n_components)
    # M2 ~ F F', or M2² ~ F F'; the eigenvectors come from the small F'F
    small = vectors[:, keep] / (np.sqrt(values[keep]) if semidefinite else 1)  # (p, r)
    F = product @ small.astype(product.dtype)  # (D, r)
    gram = (F.T @ F).astype(np.float64)
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    order = np.argsort(-values)[:n_components]
    order = order[values[order] > 0]
    basis = F @ (vectors[:, order] / np.sqrt(values[order])).astype(F.dtype)
    return _positive(basis, values[order] if semidefinite else np.sqrt(values[order]), n_components)


def rotated(whitening: Whitening, M2: Array) -> tuple[Whitening, Array]:
    """Make the whitening exact, given what pass 2 measured.

    Parameters
    ----------
    M2
        (K, K): W'M2W on the whole corpus, the identity but for the errors of a sketch.

    Returns
    -------
    Whitening
        Rayleigh–Ritz in the same subspace: now W'M2W = I on these documents.
    Array
        (K, K'): R with W_new = W_old R, by which a whitened tensor is carried over.
    """
    root = np.sqrt(whitening.eigenvalues)
    values, vectors = np.linalg.eigh(root[:, None] * (M2 + M2.T) / 2 * root)  # Omega'M2 Omega
    order = np.argsort(-values)
    exact = _positive(vectors[:, order], values[order], len(root))
    R = root[:, None] * exact.basis / np.sqrt(exact.eigenvalues)
    basis = whitening.basis @ exact.basis.astype(whitening.basis.dtype)
    return Whitening(basis, exact.eigenvalues), R


def _orthonormal(matrix: Array) -> Array:
    """Orthonormal columns that span the same space, by Cholesky twice; by QR when that breaks down."""
    for _ in range(2):
        gram = (matrix.T @ matrix).astype(np.float64)
        try:
            lower = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return np.linalg.qr(matrix)[0]
        # the small inverse in double precision, the tall product in single; the second turn mends rounding
        inverse = scipy.linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)
        matrix = matrix @ inverse.T.astype(np.float32)
    return matrix


def _positive(vectors: Array, values: Array, wanted: int) -> Whitening:
    """Keep the eigenpairs that are clearly positive; say so when there are fewer than wanted."""
    rank = int((values > RANK_TOLERANCE * max(values[0], 0)).sum()) if len(values) else 0
    if rank == 0:
        raise InputError(
            "No two words of the corpus occur together, so there is nothing to learn from. "
            "Found no positive eigenvalue of the word pairs. Check that documents have several known words."
        )
    if rank < wanted:
        warnings.warn(
            f"Only {rank} topics instead of {wanted}: the matrix of word pairs has numerical rank {rank} "
            f"(eigenvalue {rank + 1} is below {RANK_TOLERANCE:g} of the first). "
            f"Use n_components={rank} or fewer, or more documents.",
            stacklevel=4,
        )
    return Whitening(np.ascontiguousarray(vectors[:, :rank]), np.asarray(values[:rank], np.float64))
