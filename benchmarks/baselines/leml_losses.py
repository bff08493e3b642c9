"""LEML with a logistic or squared hinge loss, by Newton steps with conjugate gradient in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.baselines import loss_kernels
from benchmarks.baselines.leml import Leml, Limits
from benchmarks.baselines.parts import Part, Parts, total
from threepass.corpus.rows import SparseRows
from threepass.errors import InputError
from threepass.passes import kernels
from threepass.types import Array

Loss = Literal["logistic", "hinge"]
_CG_TOLERANCE = 0.1
_SUFFICIENT = 1e-4
"""The share of the decrease that a step's slope promises, for a step to be taken."""
_NOISE = 1e-6
"""Relative error of a sum of losses in single precision."""
_MAX_HALVINGS = 10


@dataclass
class GeneralLeml(Leml):
    """Minimise the sum of loss(y, x W h) over all N x L entries + ½ lam (||W||² + ||H||²).

    Labels are signs y: +1 or -1. The loss is log(1 + exp(-y t)) or ½ max(0, 1 - y t)². W and H take turns as
    in `Leml`, from the same start. Each turn takes at most 5 Newton steps, each of at most 20 conjugate
    gradient steps that end at a tenth of its first residual, and is over when the gradient's norm has fallen
    to `tolerance` times what it was at the turn's start. A Newton step is halved until the objective falls,
    where the authors' program has a trust region. W is solved for as a whole. The labels of H are independent
    of each other: each has its own steps, with those of all others at the same time.

    Parameters
    ----------
    loss
        `logistic` or `hinge`, which is squared.

    Notes
    -----
    Cost: unlike with squares, the zeros of Y do not fold into H'H: a conjugate gradient step takes
    6 N L rank flops, and logistic losses N L exponentials. `fit` refuses more than `limits.flops`. Memory: N
    rank floats beside that of `Leml`, and two slabs of 1024 x L floats for each thread; never N x L.
    """

    loss: Loss = "logistic"

    def fit(
        self, X: SparseRows, Y: SparseRows, callback: Callable[[Leml], None] | None = None
    ) -> GeneralLeml:
        if self.loss not in ("logistic", "hinge"):
            raise InputError(
                f"The loss is logistic or hinge. Found {self.loss}. Pass one, or use Leml for squares."
            )
        limits = self.limits
        n_steps = 2 * self.n_outer * limits.newton * limits.gradient
        flops = n_steps * 6.0 * X.n_rows * Y.n_columns * self.rank
        if flops > limits.flops:
            raise InputError(
                f"A {self.loss} loss visits each pair of a document and a label. Found {X.n_rows} x "
                f"{Y.n_columns} of them at rank {self.rank}, up to {flops:.1e} operations, above "
                f"{limits.flops:.0e}. Use the squared loss, or fewer documents."
            )
        super().fit(X, Y, callback)
        return self

    def _update_words(self, rows: Parts) -> int:
        problem = _Words(rows, self.H_, self.loss == "logistic")
        self.W_, n_steps = _minimise(self.W_, problem, _whole, self.lam, self.tolerance, self.limits)
        return n_steps

    def _update_labels(self, rows: Parts) -> None:
        problem = _Labels(rows, self.W_, self.loss == "logistic")
        self.H_, _ = _minimise(self.H_, problem, _rowwise, self.lam, self.tolerance, self.limits)


class _Words:
    """The losses as a function of W; `times_hessian` is at the W that was last evaluated."""

    def __init__(self, rows: Parts, H: Array, logistic: bool) -> None:
        self._rows, self._H, self._logistic = rows, H, logistic
        self._Z: dict[int, Array] = {}

    def evaluate(self, W: Array) -> tuple[Array, Array]:
        """(1, 1) the sum of losses, and (D, rank) its gradient."""
        H = self._H

        def of_part(part: Part) -> tuple[Array, Array]:
            values, out = np.zeros(len(H)), np.zeros_like(W)
            for X, Y in part:
                Z = self._Z[id(X)] = kernels.times(X, W)  # (s, rank)
                T = Z @ H.T  # (s, L)
                loss_kernels.slopes(T, Y.indptr, Y.indices, self._logistic, values)
                kernels.add_transposed_times(X, T @ H, out)
            return values, out

        values, gradients = zip(*self._rows.each(of_part), strict=True)
        return total(values).sum(keepdims=True)[:, np.newaxis], total(gradients)

    def times_hessian(self, S: Array) -> Array:
        """(D, rank): X'(loss''(X W H') ∘ (X S H')) H."""
        H = self._H

        def of_part(part: Part) -> Array:
            out = np.zeros_like(S)
            for X, Y in part:
                V = kernels.times(X, S) @ H.T  # (s, L)
                T = self._Z[id(X)] @ H.T  # (s, L)
                loss_kernels.times_curvature(T, Y.indptr, Y.indices, self._logistic, V)
                kernels.add_transposed_times(X, V @ H, out)
            return out

        return total(self._rows.each(of_part))


class _Labels:
    """The losses as a function of H; `times_hessian` is at the H that was last evaluated."""

    def __init__(self, rows: Parts, W: Array, logistic: bool) -> None:
        self._rows, self._logistic = rows, logistic
        parts = rows.each(lambda part: {id(X): kernels.times(X, W) for X, _ in part})
        self._Z = {slab: Z for part in parts for slab, Z in part.items()}

    def evaluate(self, H: Array) -> tuple[Array, Array]:
        """(L, 1) the sum of each label's losses, and (L, rank) their gradients."""
        self._H = H

        def of_part(part: Part) -> tuple[Array, Array]:
            values, out = np.zeros(len(H)), np.zeros_like(H)
            for X, Y in part:
                Z = self._Z[id(X)]  # (s, rank)
                T = Z @ H.T  # (s, L)
                loss_kernels.slopes(T, Y.indptr, Y.indices, self._logistic, values)
                out += T.T @ Z
            return values, out

        values, gradients = zip(*self._rows.each(of_part), strict=True)
        return total(values)[:, np.newaxis], total(gradients)

    def times_hessian(self, S: Array) -> Array:
        """(L, rank): (loss''(Z H') ∘ (Z S'))' Z."""
        H = self._H

        def of_part(part: Part) -> Array:
            out = np.zeros_like(S)
            for X, Y in part:
                Z = self._Z[id(X)]  # (s, rank)
                V, T = Z @ S.T, Z @ H.T  # (s, L)
                loss_kernels.times_curvature(T, Y.indptr, Y.indices, self._logistic, V)
                out += V.T @ Z
            return out

        return total(self._rows.each(of_part))


_Dot = Callable[[Array, Array], Array]


def _whole(A: Array, B: Array) -> Array:
    """(1, 1) float64: everything is one unknown."""
    return np.array([[np.vdot(A, B)]], np.float64)


def _rowwise(A: Array, B: Array) -> Array:
    """(L, 1) float64: every row is an unknown of its own."""
    products: Array = np.einsum("ij,ij->i", A, B)[:, np.newaxis].astype(np.float64)
    return products


def _minimise(
    start: Array, problem: _Words | _Labels, dot: _Dot, lam: float, tolerance: float, limits: Limits
) -> tuple[Array, int]:
    """The problem's losses + ½ lam ||A||², lowered from A = start; and the conjugate gradient steps taken.

    Where `dot` is of rows, each row has its own length of step, its own end, and its own halvings.
    """

    def evaluate(A: Array) -> tuple[Array, Array]:
        values, gradient = problem.evaluate(A)
        gradient += np.float32(lam) * A
        return values + lam / 2 * dot(A, A), gradient

    A, n_steps = start, 0
    value, gradient = evaluate(A)
    squared = dot(gradient, gradient)
    enough = tolerance**2 * squared
    for _ in range(limits.newton):
        active = squared > enough
        if not active.any():
            break
        S, steps = _newton_direction(np.where(active, -gradient, 0), problem, dot, lam, limits.gradient)
        n_steps += steps
        slope = dot(gradient, S)  # of the objective along S, at most 0
        length = active.astype(np.float64)
        for _ in range(_MAX_HALVINGS):
            trial = A + length.astype(np.float32) * S
            trial_value, trial_gradient = evaluate(trial)
            worse = trial_value > value + _SUFFICIENT * length * slope + _NOISE * abs(value)
            if not worse.any():
                break
            length[worse] /= 2
        else:  # no length will do: rounding is all that is left to gain
            length[worse] = 0
            trial = A + length.astype(np.float32) * S
            trial_value, trial_gradient = evaluate(trial)
        A, value, gradient = trial, trial_value, trial_gradient
        squared = np.where(length > 0, dot(gradient, gradient), 0)
    return A, n_steps


def _newton_direction(
    R: Array, problem: _Words | _Labels, dot: _Dot, lam: float, most: int
) -> tuple[Array, int]:
    """About (Hessian + lam I)^-1 R, and the conjugate gradient steps that it took; R is overwritten."""
    S = np.zeros_like(R)
    P = R.copy()
    squared = dot(R, R)
    enough = _CG_TOLERANCE**2 * squared
    for step in range(most):
        going = squared > enough
        if not going.any():
            return S, step
        P *= going
        Q = problem.times_hessian(P)
        Q += np.float32(lam) * P
        length = np.divide(squared, dot(P, Q), out=np.zeros_like(squared), where=going).astype(np.float32)
        S += length * P
        R -= length * Q
        before, squared = squared, np.where(going, dot(R, R), 0)
        P *= np.divide(squared, before, out=np.zeros_like(squared), where=going).astype(np.float32)
        P += R
    return S, most
