"""One baseline on one data set: `python -m benchmarks.baselines bibtex --method leml --k 100`.

One JSON: AUC and P@k on the test split, the settings chosen on a tenth of the training documents, and the
seconds of the choice, of the fit on all training documents and of scoring the test documents, apart from each
other. `--loss` is LEML's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.baselines.documents import evaluate, weighted_documents
from benchmarks.baselines.recipes import LOSSES, METHODS, fit_baseline
from benchmarks.baselines.selection import MEASURES
from benchmarks.datasets import data_folder, ingest_splits
from benchmarks.measure import machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--loss", choices=LOSSES, default="squared", help="of LEML")
    parser.add_argument("--k", type=int, default=100, help="rank of LEML and WSABIE")
    parser.add_argument("--data", type=Path, help="folder of data sets; THREEPASS_DATA if absent")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train, test = ingest_splits(arguments.dataset, data_folder(arguments.data), Path(folder))
        documents = weighted_documents(train, train)
        test_documents = weighted_documents(test, train)
    found = fit_baseline(arguments.method, *documents, arguments.k, arguments.loss)
    started = time.perf_counter()
    metrics = evaluate(found.model, *test_documents)
    result = {
        "machine": machine(),
        "dataset": arguments.dataset,
        "method": arguments.method,
        **({"loss": arguments.loss} if arguments.method == "leml" else {}),
        "train": documents[0].shape,
        "test": test_documents[0].shape,
        "labels": train.n_labels,
        "chosen": found.chosen,
        "test_metrics": _rounded({name: metrics[name] for name in MEASURES}),
        "held_out_metrics": _rounded(found.held_out),
        "fit_seconds": round(found.fit_seconds, 3),
        "selection_seconds": round(found.selection_seconds, 2),
        "evaluate_seconds": round(time.perf_counter() - started, 3),
        "model_mb": round(found.model.nbytes / 1e6, 2),
        "trials": [_rounded(trial) for trial in found.trials],
    }
    print(json.dumps(result, indent=2))


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}


if __name__ == "__main__":
    main()
