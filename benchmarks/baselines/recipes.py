"""What each baseline's settings are chosen among."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.baselines.leml import Leml
from benchmarks.baselines.leml_losses import GeneralLeml
from benchmarks.baselines.one_vs_all import OneVsAll
from benchmarks.baselines.selection import Selected, select_and_fit
from benchmarks.baselines.wsabie import Wsabie
from pipeline.corpus.rows import SparseRows
from pipeline.errors import InputError
from pipeline.tasks import n_cpus

METHODS = ("leml", "wsabie", "ova")
LOSSES = ("squared", "logistic", "hinge")
N_OUTER = {"squared": 10, "logistic": 5, "hinge": 5}
"""Outer iterations of LEML at most; other losses than squares take ten times as long."""
N_EPOCHS = 30
"""Epochs of WSABIE at most."""
LAMBDAS = {
    "squared": (1.0, 3.0, 5.0, 10.0, 20.0, 40.0),
    "logistic": (3.0, 5.0, 10.0),
    "hinge": (5.0, 10.0, 20.0),
}
BIASES = (0.0, 0.3)
"""Labels that are frequent whatever the words need one where documents are short."""
RATES, MARGINS = (0.01, 0.02, 0.05), (1.0, 2.0)
CS = (0.03, 0.1, 0.3, 1.0, 3.0)


def fit_baseline(method: str, X: SparseRows, Y: SparseRows, rank: int, loss: Any = "squared") -> Selected:
    """Choose the settings of a method on a tenth of the documents, and fit it on all.

    Parameters
    ----------
    method
        One of `METHODS`.
    X, Y
        (N, D) weighted words and (N, L) labels of the training documents.
    rank
        Of LEML and WSABIE.
    loss
        Of LEML, one of `LOSSES`.
    """
    if method == "leml":
        if loss not in LOSSES:
            raise InputError(f"Losses are {', '.join(LOSSES)}. Found {loss}. Pass one of them.")
        make: Any = partial(Leml, rank) if loss == "squared" else partial(GeneralLeml, rank, loss=loss)
        candidates: list[dict[str, Any]] = [
            {"lam": lam, "bias": bias, "n_outer": N_OUTER[loss]} for bias in BIASES for lam in LAMBDAS[loss]
        ]
        return select_and_fit(make, candidates, X, Y, iterations="n_outer")
    if method == "wsabie":
        candidates = [
            {"rate": rate, "margin": margin, "bias": bias, "n_epochs": N_EPOCHS}
            for bias in BIASES
            for rate in RATES
            for margin in MARGINS
        ]
        return select_and_fit(
            partial(Wsabie, rank), candidates, X, Y, iterations="n_epochs", n_parallel=n_cpus()
        )
    if method == "ova":
        return select_and_fit(OneVsAll, [{"C": C} for C in CS], X, Y)
    raise InputError(f"Methods are {', '.join(METHODS)}. Found {method}. Pass one of them.")
