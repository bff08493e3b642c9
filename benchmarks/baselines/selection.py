"""Settings of a baseline, chosen on training documents that it does not learn from."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.baselines import Baseline
from benchmarks.baselines.documents import evaluate
from pipeline.corpus.rows import SparseRows
from pipeline.corpus.split import in_test
from pipeline.errors import InputError
from pipeline.passes.held_out import HELD_OUT_SEED

SHARE = 0.1
"""Of the training documents, held out for the choice."""
MEASURES = ("auc", "p@1", "p@3", "p@5")


@dataclass(frozen=True)
class Selected:
    """A model of all training documents, and how its settings were found.

    Parameters
    ----------
    model
        Fitted on all training documents, with the chosen settings.
    chosen
        The settings, the number of iterations among them.
    held_out
        Metrics of the chosen settings on the held-out documents.
    trials
        For each candidate its settings, those metrics at its best number of iterations, and `seconds`.
    selection_seconds
        All fits and evaluations that the choice took.
    fit_seconds
        The fit of the final model alone, everything compiled before.
    """

    model: Baseline
    chosen: dict[str, Any]
    held_out: dict[str, float]
    trials: list[dict[str, Any]]
    selection_seconds: float
    fit_seconds: float


def select_and_fit(
    make: Callable[..., Baseline],
    candidates: Sequence[dict[str, Any]],
    X: SparseRows,
    Y: SparseRows,
    iterations: str | None = None,
    n_parallel: int = 1,
) -> Selected:
    """Choose by AUC + P@1 on a tenth of the documents, then fit on all of them.

    A candidate is fitted once: measured after each of its iterations, it tells how many to take. Of equals
    the first wins. The tenth is the one that hash of the row's number picks, as for our own heads.

    Parameters
    ----------
    make
        Makes an unfitted model from settings.
    candidates
        Settings to choose among, each with the most iterations where there are any.
    X, Y
        (N, D) weighted words and (N, L) labels of the training documents.
    iterations
        The name of the setting that counts iterations; None for a method without.
    n_parallel
        Candidates to be fitted at the same time, for a method that keeps to one thread.
    """
    started = time.perf_counter()
    mask = in_test(np.arange(X.n_rows), SHARE, HELD_OUT_SEED)
    kept, aside = np.flatnonzero(~mask), np.flatnonzero(mask)
    train, held_out = (X.take(kept), Y.take(kept)), (X.take(aside), Y.take(aside))
    if not len(kept) or not held_out[1].nnz:
        raise InputError(
            f"Settings need documents to be chosen on. Found {len(aside)} of {X.n_rows} set aside, with "
            f"{held_out[1].nnz} labels in all. Pass more documents, or settings of your own."
        )

    def trial(settings: dict[str, Any]) -> list[dict[str, Any]]:
        points: list[dict[str, Any]] = []

        def note(model: Baseline) -> None:
            metrics = evaluate(model, *held_out)
            counted = {} if iterations is None else {iterations: len(points) + 1}
            points.append(
                {
                    "settings": {**settings, **counted},
                    "metrics": {name: metrics[name] for name in MEASURES},
                    "seconds": model.seconds_[-1],
                }
            )

        make(**settings).fit(*train, note)
        return points

    with ThreadPoolExecutor(n_parallel) as pool:
        trials = list(pool.map(trial, candidates))
    best_of_each = [max(points, key=_objective) for points in trials]
    best = max(best_of_each, key=_objective)
    selected = time.perf_counter()
    model = make(**best["settings"])
    model.fit(X, Y)
    return Selected(
        model,
        best["settings"],
        best["metrics"],
        [{**point["settings"], **point["metrics"], "seconds": point["seconds"]} for point in best_of_each],
        selected - started,
        time.perf_counter() - selected,
    )


def _objective(point: dict[str, Any]) -> float:
    auc, precision = point["metrics"]["auc"], point["metrics"]["p@1"]
    # No document has an AUC where each has all labels, or none.
    return float(precision if math.isnan(auc) else auc + precision)
