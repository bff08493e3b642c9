"""LEML: labels from a low-rank linear map of the words, by alternating least squares."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from benchmarks.baselines import refuse_other_documents, refuse_other_words
from benchmarks.baselines.parts import Part, Parts, total, with_bias
from threepass.corpus.rows import SparseRows
from threepass.errors import InputError
from threepass.passes import kernels
from threepass.tasks import n_cpus
from threepass.types import Array


@dataclass(frozen=True)
class Limits:
    """Limits of a fit."""

    newton: int = 5
    """Newton steps of a turn, as in the authors' program."""
    gradient: int = 20
    """Conjugate gradient steps of a Newton step, as in the authors' program."""
    flops: float = 1e15
    """Of a loss that is not of squares: most of an hour on two cores, as most steps end before they must."""
    slab: int = 1024
    """Rows that a thread works on at a time."""


@dataclass
class Leml:
    """Minimise ½ ||Y - X W H'||² + ½ lam (||W||² + ||H||²) over W (D, rank) and H (L, rank).

    It starts from W = 0 and a Gaussian H with H H' about I. An outer iteration is two steps:

    - W by conjugate gradient from the W before. The authors' program takes at most 5 Newton steps, each of at
      most 20 conjugate gradient steps that end at 0.1 of its first residual. This loss is quadratic in W, so
      that every Newton step has the same Hessian and a further one only restarts the same solve: here it is
      one run, without restarts or a trust region, of at most 100 steps. It ends when the norm of the gradient
      has fallen to `tolerance` times what it was at the W that the run began with, under the new H. The first
      iteration measures it from W = 0, a later one from where the iteration before it ended.
    - H exactly, by a Cholesky factor of (X W)'(X W) + lam I.

    Rows are worked on a slab at a time, so that nothing of N x L or N x rank is ever held. Each thread has a
    part of the rows with about as many nonzeros as the others', and its own BLAS calls on one core; what is
    left, of rank x rank, has the BLAS of all cores.

    Parameters
    ----------
    rank
        Width of W and H.
    lam
        Weight of the squared norms, above 0.
    n_outer
        Outer iterations.
    n_threads
        Threads; None for as many as there are processors.
    seed
        Of the first H.
    tolerance
        The gradient's norm at which the solve for W ends, as a share of its norm at the start.
    bias
        Of a word that every document has, beside its own; 0 for none.
    limits
        Most steps and operations, and rows at a time.

    Attributes
    ----------
    W_, H_
        (D, rank) and (L, rank) float32; W has a row more where there is a bias.
    seconds_
        Seconds from the start of `fit` to the end of each outer iteration, without the callback's.
    n_steps_
        Conjugate gradient steps of each outer iteration.

    Notes
    -----
    Cost: a conjugate gradient step takes 4 nnz(X) rank + 2 N rank min(rank, 2 L) flops, and one more of about
    the same cost is spent on the gradient and one on H. Memory: (4 + n_threads) (D + L) rank floats of 4
    bytes, a few arrays of rank x rank, and the input.

    References
    ----------
    Yu, Jain, Kar, Dhillon, "Large-scale Multi-label Learning with Missing Labels", ICML 2014.
    """

    rank: int
    lam: float
    n_outer: int = 5
    n_threads: int | None = None
    seed: int = 0
    tolerance: float = 0.1
    bias: float = 0.0
    limits: Limits = Limits()
    W_: Array = field(init=False, repr=False)
    H_: Array = field(init=False, repr=False)
    seconds_: list[float] = field(init=False, repr=False)
    n_steps_: list[int] = field(init=False, repr=False)

    def fit(self, X: SparseRows, Y: SparseRows, callback: Callable[[Leml], None] | None = None) -> Leml:
        """Find W and H.

        Parameters
        ----------
        X
            (N, D) words, weighted as they should count.
        Y
            (N, L) labels; the values are not looked at.
        callback
            Called with this object after each outer iteration, with the clock stopped.
        """
        if self.rank < 1 or not self.lam > 0:
            raise InputError(
                "LEML needs a rank of at least 1 and a lam above 0. "
                f"Found rank={self.rank}, lam={self.lam}. Pass others."
            )
        refuse_other_documents(X, Y)
        started = time.perf_counter()
        X = with_bias(X, self.bias)
        rng = np.random.default_rng(self.seed)
        self.W_ = np.zeros((X.n_columns, self.rank), np.float32)
        self.H_ = rng.standard_normal((Y.n_columns, self.rank), np.float32) / np.float32(np.sqrt(self.rank))
        self.seconds_, self.n_steps_ = [], []
        with Parts.shared_out(X, Y, self.n_threads or n_cpus(), self.limits.slab) as rows:
            for _ in range(self.n_outer):
                self.n_steps_.append(self._update_words(rows))
                self._update_labels(rows)
                self.seconds_.append(time.perf_counter() - started)
                if callback is not None:
                    paused = time.perf_counter()
                    with rows.all_cores():
                        callback(self)
                    started += time.perf_counter() - paused
        return self

    def scores(self, X: SparseRows) -> Array:
        """(n, L) float32: X W H'."""
        refuse_other_words(X, len(self.W_) - (self.bias != 0))
        scores: Array = kernels.times(with_bias(X, self.bias), self.W_) @ self.H_.T
        return scores

    @property
    def nbytes(self) -> int:
        """Bytes of W and H."""
        return int(self.W_.nbytes + self.H_.nbytes)

    def _update_words(self, rows: Parts) -> int:
        """Move W towards its optimum for this H, and tell in how many steps."""
        W, H, lam = self.W_, self.H_, np.float32(self.lam)
        with rows.all_cores():
            HH = H.T @ H if self.rank <= 2 * len(H) else None  # (rank, rank)

        def through_labels(Z: Array) -> Array:  # Z H'H, the cheaper way round
            return (Z @ H.T) @ H if HH is None else Z @ HH

        def negative_gradient(part: Part) -> Array:  # X'(Y - X W H')H of some rows
            out = np.zeros_like(W)
            for X, Y in part:
                G = kernels.times(Y, H)  # (s, rank)
                G -= through_labels(kernels.times(X, W))
                kernels.add_transposed_times(X, G, out)
            return out

        def hessian_times_S(part: Part) -> Array:  # X'(X S)(H'H) of some rows
            out = np.zeros_like(S)
            for X, _ in part:
                kernels.add_transposed_times(X, through_labels(kernels.times(X, S)), out)
            return out

        R = total(rows.each(negative_gradient))  # (D, rank) the residual
        R -= lam * W
        S = R.copy()  # (D, rank) the direction
        squared = np.vdot(R, R)
        enough = self.tolerance**2 * squared
        most = self.limits.newton * self.limits.gradient
        for step in range(most):
            if squared <= enough:
                return step
            A = total(rows.each(hessian_times_S))  # (D, rank)
            A += lam * S
            length = squared / np.vdot(S, A)
            W += length * S
            A *= length
            R -= A
            before, squared = squared, np.vdot(R, R)
            S *= squared / before
            S += R
        return most

    def _update_labels(self, rows: Parts) -> None:
        """H = Y'Z (Z'Z + lam I)^-1 with Z = X W."""
        W, L = self.W_, len(self.H_)

        def sums(part: Part) -> tuple[Array, Array]:  # Z'Z and Y'Z of some rows
            gram, moments = np.zeros((self.rank, self.rank)), np.zeros((L, self.rank), np.float32)
            for X, Y in part:
                Z = kernels.times(X, W)  # (s, rank)
                gram += Z.T @ Z
                kernels.add_label_moments(Y, Z, moments)
            return gram, moments

        grams, moments = zip(*rows.each(sums), strict=True)
        gram = total(grams)  # (rank, rank) float64: small singular values of Z are squared in it
        gram[np.diag_indices(self.rank)] += self.lam
        with rows.all_cores():
            factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
            H = scipy.linalg.cho_solve(factor, total(moments).T, check_finite=False).T  # (L, rank)
        self.H_ = np.ascontiguousarray(H, np.float32)
