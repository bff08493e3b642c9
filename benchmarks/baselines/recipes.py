"""How each baseline is made, and what its settings are chosen among."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.baselines import Baseline
from benchmarks.baselines.leml import Leml
from benchmarks.baselines.leml_losses import GeneralLeml
from benchmarks.baselines.one_vs_all import OneVsAll
from benchmarks.baselines.wsabie import Wsabie
from threepass.errors import InputError

LEML_LOSSES = {"leml": "squared", "leml-logistic": "logistic", "leml-hinge": "hinge"}
MANY_DOCS = 50_000
"""From as many on LEML has 5 outer iterations, as its authors take on large data, WSABIE 10 epochs, and fewer
settings are tried."""
N_OUTER = {"squared": 10, "logistic": 5, "hinge": 5}
"""Outer iterations of LEML at most; other losses than squares take ten times as long."""
N_EPOCHS = 30
"""Epochs of WSABIE at most."""
LAMBDAS = {
    "squared": (1.0, 3.0, 5.0, 10.0, 20.0, 40.0),
    "logistic": (3.0, 5.0, 10.0),
    "hinge": (5.0, 10.0, 20.0),
}
FEW_LAMBDAS = (1.0, 5.0, 20.0)
BIASES = (0.0, 0.3)
"""Labels that are frequent whatever the words need one where documents are short."""
RATES, MARGINS = (0.01, 0.02, 0.05), (1.0, 2.0)
CS = (0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Recipe:
    """A baseline, and the settings it may have.

    Parameters
    ----------
    make
        Makes an unfitted model from settings.
    candidates
        Settings to choose among, each with the most iterations where there are any.
    iterations
        The name of the setting that counts iterations; None for a method without.
    has_curve
        Whether every iteration is worth measuring.
    n_parallel
        Candidates to be fitted at the same time, for a method that keeps to one thread.
    """

    make: Callable[..., Baseline]
    candidates: tuple[dict[str, Any], ...]
    iterations: str | None = None
    has_curve: bool = False
    n_parallel: int = 1

    @property
    def most_iterations(self) -> dict[str, Any]:
        """The setting of the most iterations; nothing for a method without."""
        return {self.iterations: self.candidates[0][self.iterations]} if self.iterations else {}

    @classmethod
    def of(cls, method: str, rank: int, n_docs: int, seed: int, n_threads: int) -> Recipe:
        """The recipe of `leml`, `leml-logistic`, `leml-hinge`, `wsabie` or `ova`.

        Parameters
        ----------
        rank
            Of LEML and WSABIE.
        n_docs
            Training documents.
        """
        many = n_docs >= MANY_DOCS
        if method in LEML_LOSSES:
            loss = LEML_LOSSES[method]
            make: Any = Leml if loss == "squared" else partial(GeneralLeml, loss=loss)
            lambdas = tuple(lam for lam in LAMBDAS[loss] if lam in FEW_LAMBDAS or not many)
            n_outer = min(5, N_OUTER[loss]) if many else N_OUTER[loss]
            candidates = tuple(
                {"lam": lam, "bias": bias, "n_outer": n_outer} for bias in BIASES for lam in lambdas
            )
            return cls(partial(make, rank, n_threads=n_threads, seed=seed), candidates, "n_outer", True)
        if method == "wsabie":
            candidates = tuple(
                {"rate": rate, "margin": margin, "bias": bias, "n_epochs": 10 if many else N_EPOCHS}
                for bias in BIASES
                for rate in (RATES[1:] if many else RATES)
                for margin in (MARGINS[:1] if many else MARGINS)
            )
            return cls(partial(Wsabie, rank, seed=seed), candidates, "n_epochs", n_parallel=n_threads)
        if method == "ova":
            return cls(partial(OneVsAll, n_threads=n_threads), tuple({"C": C} for C in CS))
        known = ", ".join([*LEML_LOSSES, "wsabie", "ova"])
        raise InputError(f"Baselines are {known}. Found {method}. Pass one of them.")
