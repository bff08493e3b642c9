"""A baseline in a process of its own: `python -m benchmarks.methods.baseline METHOD FOLDER OPTIONS`.

FOLDER has `split.json`, and gets `best.npz`. OPTIONS is JSON: `k`, `seed`, `threads` and
`settings`, null to choose them. The last line is a JSON object.

Its documents are in memory, and weighted, before the clock of training starts; what the choice of its
settings takes is told apart. LEML goes on to its last outer iteration, whatever number was chosen, and is
measured after each, with the clock stopped: that is its curve of quality over seconds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines import Baseline
from benchmarks.baselines.documents import best_labels, evaluate, weighted_documents
from benchmarks.baselines.recipes import Recipe
from benchmarks.baselines.selection import Choice, choose
from benchmarks.methods import TOP, phase
from benchmarks.methods.split import Split
from threepass.corpus.rows import SparseRows

Documents = tuple[SparseRows, SparseRows]


def main() -> None:
    method, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    phase("load")
    train, test = Split.load(folder / "split.json").open()
    known, unseen = weighted_documents(train, train), weighted_documents(test, train)
    recipe = Recipe.of(method, options["k"], train.n_docs, options["seed"], options["threads"])
    phase("prepare")
    few = known[0].slice(0, min(200, train.n_docs)), known[1].slice(0, min(200, train.n_docs))
    recipe.make(**recipe.candidates[0]).fit(*few)  # compiles
    phase("choose")
    given = options["settings"]
    choice = choose(recipe, *known) if given is None else Choice(given, {}, [], 0.0, 0)

    phase("train")
    measured: list[dict[str, Any]] = []
    curve: list[dict[str, float]] = []
    wanted = choice.settings.get(recipe.iterations or "", 1)

    def note(model: Baseline) -> None:
        n_done = len(model.seconds_)
        if recipe.has_curve or n_done == wanted:
            metrics = evaluate(model, *unseen)
            curve.append({"seconds": model.seconds_[-1], "auc": metrics["auc"], "p@1": metrics["p@1"]})
        if n_done == wanted:
            measured.append(predicted(model, unseen, folder) | {"auc": metrics["auc"]})

    goes_on = recipe.most_iterations if recipe.has_curve else {}
    model = recipe.make(**{**choice.settings, **goes_on}).fit(*known, note)
    result = {
        **measured[0],
        "train_seconds": model.seconds_[wanted - 1],
        "model_bytes": model.nbytes,
        "chosen": choice.settings,
        **({"choose_seconds": choice.seconds, "choice_documents": choice.n_docs} if choice.n_docs else {}),
        "curve": curve if recipe.has_curve else [],
    }
    print(json.dumps(result))


def predicted(model: Baseline, documents: Documents, folder: Path) -> dict[str, float]:
    started = time.perf_counter()
    labels, scores = best_labels(model, documents[0], documents[1].n_columns, TOP)
    seconds = time.perf_counter() - started
    np.savez(folder / "best.npz", labels=labels, scores=scores)
    return {"predict_seconds": seconds}


if __name__ == "__main__":
    main()
