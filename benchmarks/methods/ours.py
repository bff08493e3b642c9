"""threepass in a process of its own: `python -m benchmarks.methods.ours METHOD FOLDER OPTIONS`.

FOLDER has `split.json`, and gets `best.npz`. OPTIONS is JSON: `k`, `seed` and `threads`. The last line is a
JSON object.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.methods import TOP, phase
from benchmarks.methods.split import Split
from threepass import MomentLabeler

HEADS = {"threepass": "auto", "threepass-blend": "blend", "threepass-paper": "posterior"}


def main() -> None:
    method, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    warnings.simplefilter("ignore")  # few documents for many topics: the numbers say how it went
    train, test = Split.load(folder / "split.json").open()
    parameters: dict[str, Any] = {"head": HEADS[method], "n_jobs": options["threads"]}
    phase("prepare")
    MomentLabeler(5, **parameters).fit(train.head(500)).predict_topk(test.head(10), TOP)  # compiles

    phase("train")
    started = time.perf_counter()
    model = MomentLabeler(options["k"], random_state=options["seed"], **parameters).fit(train)
    trained = time.perf_counter()

    phase("predict")
    labels, scores = model.predict_topk(test, TOP)
    predicted = time.perf_counter()
    np.savez(folder / "best.npz", labels=labels, scores=scores)

    phase("evaluate")
    model.save(folder / "model.zarr")
    result = {
        "train_seconds": trained - started,
        "predict_seconds": predicted - trained,
        "model_bytes": sum(
            path.stat().st_size for path in (folder / "model.zarr").rglob("*") if path.is_file()
        ),
        "auc": model.evaluate(test, ks=(1,), auc="all")["auc"],
        "stage_seconds": model.fit_stats_["seconds"],
        "choice_share": model.fit_stats_["choice_seconds"] / (trained - started),
        "chosen": {
            name: model.fit_stats_[name] for name in ("head_dim", "choice") if name in model.fit_stats_
        },
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
