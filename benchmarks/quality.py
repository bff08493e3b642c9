"""How good the labels are: `python -m benchmarks.quality bibtex --head posterior [--table]`.

One JSON: the test split's AUC and P@k at K topics, the seconds of each stage, and the two tensor methods on
the same tensor in the same run. `--table` repeats it for K = 50, 75, 100, 125, 150 and both methods, beside
the AUC that the paper's author logged.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.datasets import data_folder, ingest_splits
from benchmarks.measure import machine
from pipeline import Corpus, MomentLabeler

TABLE_K = (50, 75, 100, 125, 150)
AUTHOR = {  # the method's AUC in the paper author's own log, at the K of TABLE_K
    "bibtex": (0.8523, 0.8592, 0.8639, 0.8650, 0.8729),
    "delicious": (0.8461, 0.8462, 0.8465, 0.8482, 0.8490),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--head", choices=["posterior"], default="posterior", help="how topics become scores")
    parser.add_argument("--data", type=Path, help="folder of data sets; THREEPASS_DATA if absent")
    parser.add_argument("--k", type=int, default=100, help="number of topics")
    parser.add_argument("--table", action="store_true", help="K = 50 to 150, both tensor methods")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # few documents for many topics; the numbers below say how it went
    with tempfile.TemporaryDirectory() as folder:
        train, test = ingest_splits(arguments.dataset, data_folder(arguments.data), Path(folder))
        result: dict[str, Any] = {
            "machine": machine(),
            "dataset": arguments.dataset,
            "head": arguments.head,
            "train": train.shape,
            "test": test.shape,
            "labels": train.n_labels,
        }
        if arguments.table:
            rows = [measure(train, test, k, tensor) for k in TABLE_K for tensor in ("orthogonal", "power")]
            author = dict(zip(TABLE_K, AUTHOR.get(arguments.dataset, ()), strict=False))
            result["table"] = [{**row, "author_auc": author.get(row["k"])} for row in rows]
        else:
            result["result"] = measure(train, test, arguments.k, "orthogonal")
            result["tensor"] = compare_tensor_methods(train, test, arguments.k)
    print(json.dumps(result, indent=2))


def measure(train: Corpus, test: Corpus, k: int, tensor: str) -> dict[str, Any]:
    started = time.perf_counter()
    model = MomentLabeler(k, tensor=tensor).fit(train)
    seconds = time.perf_counter() - started
    scores = model.evaluate(test)
    return {
        "k": k,
        "tensor": tensor,
        **{name: round(scores[name], 4) for name in ("auc", "p@1", "p@3", "p@5", "ndcg@5", "psp@1", "psp@5")},
        "fit_seconds": round(seconds, 2),
        "stage_seconds": {name: round(value, 3) for name, value in model.fit_stats_["seconds"].items()},
        "tensor_residual": round(model.tensor_residual_, 4),
        "reads_of_the_corpus": model.n_passes_ + model.fit_stats_["sample_share"],
    }


def compare_tensor_methods(train: Corpus, test: Corpus, k: int) -> dict[str, Any]:
    """Time and residual of the two decompositions of the same tensor, one after the other."""
    rows = {tensor: measure(train, test, k, tensor) for tensor in ("power", "orthogonal")}
    seconds = {tensor: row["stage_seconds"]["tensor"] for tensor, row in rows.items()}
    residuals = {tensor: row["tensor_residual"] for tensor, row in rows.items()}
    return {
        "seconds": seconds,
        "residuals": residuals,
        "auc": {tensor: row["auc"] for tensor, row in rows.items()},
        "orthogonal_over_power_seconds": round(seconds["orthogonal"] / seconds["power"], 3),
        "orthogonal_over_power_residual": round(residuals["orthogonal"] / residuals["power"], 3),
    }


if __name__ == "__main__":
    main()
