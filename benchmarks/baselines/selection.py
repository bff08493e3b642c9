"""Settings of a baseline, chosen on training documents that it does not learn from."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.baselines import Baseline
from benchmarks.baselines.documents import evaluate
from benchmarks.baselines.recipes import Recipe
from threepass.corpus.rows import SparseRows
from threepass.corpus.split import in_test
from threepass.errors import InputError
from threepass.parts.held_out import HELD_OUT_SEED

SHARE = 0.1
"""Of the training documents, held out for the choice."""
MEASURES = ("auc", "p@1", "p@3", "p@5")


@dataclass(frozen=True)
class Choice:
    """Settings, and how they were found.

    Parameters
    ----------
    settings
        The chosen ones, the number of iterations among them.
    held_out
        Metrics of these on the held-out documents.
    trials
        For each candidate its settings, those metrics at its best number of iterations, and `seconds`.
    seconds
        All fits and evaluations that the choice took.
    n_docs
        Training documents that it looked at.
    """

    settings: dict[str, Any]
    held_out: dict[str, float]
    trials: list[dict[str, Any]]
    seconds: float
    n_docs: int


def choose(recipe: Recipe, X: SparseRows, Y: SparseRows, most_docs: int = 50_000) -> Choice:
    """Choose settings by AUC + P@1 on a tenth of the documents, or of the first `most_docs` of many.

    A candidate is fitted once: measured after each of its iterations, it tells how many to take. Of equals
    the first wins. The tenth is the one that hash of the row's number picks, as for our own heads.

    Parameters
    ----------
    X, Y
        (N, D) weighted words and (N, L) labels of the training documents.
    most_docs
        Documents that the choice looks at: with more of them settings hardly change, and time does.
    """
    started = time.perf_counter()
    n_docs = min(X.n_rows, most_docs)
    mask = in_test(np.arange(n_docs), SHARE, HELD_OUT_SEED)
    kept, aside = np.flatnonzero(~mask), np.flatnonzero(mask)
    train, held_out = (X.take(kept), Y.take(kept)), (X.take(aside), Y.take(aside))
    if not len(kept) or not held_out[1].nnz:
        raise InputError(
            f"Settings need documents to be chosen on. Found {len(aside)} of {n_docs} set aside, with "
            f"{held_out[1].nnz} labels in all. Pass more documents, or settings of your own."
        )

    def trial(settings: dict[str, Any]) -> list[dict[str, Any]]:
        points: list[dict[str, Any]] = []

        def note(model: Baseline) -> None:
            metrics = evaluate(model, *held_out)
            counted = {recipe.iterations: len(points) + 1} if recipe.iterations else {}
            points.append(
                {
                    "settings": {**settings, **counted},
                    "metrics": {name: metrics[name] for name in MEASURES},
                    "seconds": model.seconds_[-1],
                }
            )

        recipe.make(**settings).fit(*train, note)
        return points

    with ThreadPoolExecutor(recipe.n_parallel) as pool:
        trials = list(pool.map(trial, recipe.candidates))
    best_of_each = [max(points, key=_objective) for points in trials]
    best = max(best_of_each, key=_objective)
    return Choice(
        best["settings"],
        best["metrics"],
        [{**point["settings"], **point["metrics"], "seconds": point["seconds"]} for point in best_of_each],
        time.perf_counter() - started,
        n_docs,
    )


def _objective(point: dict[str, Any]) -> float:
    auc, precision = point["metrics"]["auc"], point["metrics"]["p@1"]
    # No document has an AUC where each has all labels, or none.
    return float(precision if math.isnan(auc) else auc + precision)
