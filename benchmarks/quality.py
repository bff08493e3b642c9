"""How good the labels are: `python -m benchmarks.quality bibtex [--head blend] [--leml] [--tail] [--table]`.

One JSON: AUC, P@k, PSP@k and Brier score on the test split at K topics, what was chosen on held-out training
documents, the seconds of each stage, peak memory and the size of the model.

`--leml` also times the ridge head's own part (both of its sums, its basis and its solution, from disk)
against five outer iterations of LEML on the same data and at the same rank, in the same run. `--tail` shows
what ranking by inverse propensity gives and costs. `--table` is the paper's head for K = 50, 75, 100, 125,
150 and both tensor methods, beside the AUC that the paper's author logged.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines.leml import Leml
from benchmarks.datasets import data_folder, ingest_splits
from benchmarks.measure import machine
from threepass import Corpus, MomentLabeler
from threepass.corpus.rows import SparseRows
from threepass.linalg.basis import orthonormal
from threepass.linalg.ridge import ridge_weights
from threepass.parts.cross import Cross
from threepass.parts.directions import label_directions, random_waves
from threepass.parts.ridge import Basis, Features, WordDirections
from threepass.parts.sizes import feature_counts
from threepass.parts.weighting import Weighting
from threepass.passes.executors import Threads
from threepass.passes.runner import Runner

TABLE_K = (50, 75, 100, 125, 150)
AUTHOR = {  # the method's AUC in the paper author's own log, at the K of TABLE_K
    "bibtex": (0.8523, 0.8592, 0.8639, 0.8650, 0.8729),
    "delicious": (0.8461, 0.8462, 0.8465, 0.8482, 0.8490),
}
METRICS = ("auc", "p@1", "p@3", "p@5", "ndcg@5", "psp@1", "psp@3", "psp@5", "brier")
TAIL_WEIGHTS = (0.0, 0.25, 0.5, 1.0)
LEML_LAMBDA = 5.0
"""Chosen at rank 100 on a tenth of Bibtex's training documents; the time hardly depends on it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    heads = ["auto", "posterior", "refined", "ridge", "blend", "sharp"]
    parser.add_argument("--head", choices=heads, default="auto", help="how documents become scores")
    parser.add_argument("--data", type=Path, help="folder of data sets; THREEPASS_DATA if absent")
    parser.add_argument("--k", type=int, default=100, help="number of topics")
    parser.add_argument("--refine-passes", type=int, default=0, help="further reads that refine the topics")
    parser.add_argument(
        "--leml", type=int, nargs="*", metavar="RANK", help="time LEML; at our rank if absent"
    )
    parser.add_argument("--tail", action="store_true", help="rank by inverse propensity, too")
    parser.add_argument("--table", action="store_true", help="the paper's head, K = 50 to 150")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # few documents for many topics; the numbers below say how it went
    with tempfile.TemporaryDirectory() as folder:
        train, test = ingest_splits(arguments.dataset, data_folder(arguments.data), Path(folder))
        result: dict[str, Any] = {
            "machine": machine(),
            "dataset": arguments.dataset,
            "train": train.shape,
            "test": test.shape,
            "labels": train.n_labels,
        }
        if arguments.table:
            rows = [
                measure(train, test, k, head="posterior", tensor=tensor)
                for k in TABLE_K
                for tensor in ("orthogonal", "power")
            ]
            author = dict(zip(TABLE_K, AUTHOR.get(arguments.dataset, ()), strict=False))
            result["table"] = [{**row, "author_auc": author.get(row["k"])} for row in rows]
        else:
            result["result"] = measure(
                train,
                test,
                arguments.k,
                head=arguments.head,
                refine_passes=arguments.refine_passes,
                tails=TAIL_WEIGHTS if arguments.tail else (),
            )
        if arguments.leml is not None:
            ranks = arguments.leml or [feature_counts(train.n_docs, train.n_terms, train.n_labels).total]
            result["leml"] = [against_leml(train, rank) for rank in ranks]
    print(json.dumps(result, indent=2))


def measure(
    train: Corpus, test: Corpus, k: int, *, tails: tuple[float, ...] = (), **parameters: Any
) -> dict[str, Any]:
    """Fit on the training documents, and measure on the test documents."""
    started = time.perf_counter()
    model = MomentLabeler(k, **parameters).fit(train)
    fitted = time.perf_counter()
    scores = model.evaluate(test, auc="all")
    stats = model.fit_stats_
    row = {
        "k": k,
        **parameters,
        **{name: round(scores[name], 6 if name == "brier" else 4) for name in METRICS},
        "reliability": scores["reliability"],
        "fit_seconds": round(fitted - started, 2),
        "evaluate_seconds": round(time.perf_counter() - fitted, 2),
        "stage_seconds": {name: round(value, 3) for name, value in stats["seconds"].items()},
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
        "model_mb": round(stats["model_bytes"] / 1e6, 1),
        "tensor_residual": round(model.tensor_residual_, 4),
        "reads_of_the_corpus": model.n_passes_ + stats["sample_share"],
        **{
            name: stats[name] for name in ("head_dim", "choice", "held_out_docs", "held_out") if name in stats
        },
    }
    if tails:
        row["tail"] = [
            {"tail_weight": tail, **_rounded(model.set_params(tail_weight=tail).evaluate(test, auc=False))}
            for tail in tails
        ]
    return row


def _rounded(scores: dict[str, Any]) -> dict[str, float]:
    return {name: round(scores[name], 4) for name in METRICS if name in scores}


def against_leml(train: Corpus, rank: int) -> dict[str, Any]:
    """Seconds of the ridge head's part and of LEML's five outer iterations, with as many features."""
    ridge_seconds(train.head(200), min(rank, 20))  # compiles what both use
    ours = ridge_seconds(train, rank)
    X, Y = train.to_scipy()
    words = SparseRows(X.indptr.astype(np.int64), X.indices, X.data, X.shape[1])
    labels = SparseRows(Y.indptr.astype(np.int64), Y.indices, None, Y.shape[1])
    weighted = Weighting.of_counts(*train.stored_term_counts).of(words)
    Leml(2, LEML_LAMBDA, n_outer=1).fit(weighted.slice(0, 200), labels.slice(0, 200))
    theirs = Leml(rank, LEML_LAMBDA, n_outer=5).fit(weighted, labels).seconds_[-1]
    return {
        "rank": rank,
        "ridge_seconds": round(ours, 3),
        "leml_seconds": round(theirs, 3),
        "ridge_over_leml": round(ours / theirs, 4),
    }


def ridge_seconds(train: Corpus, rank: int) -> float:
    """What the ridge head takes beside the paper's passes, in reads of its own."""
    started = time.perf_counter()
    counts = feature_counts(train.n_docs, train.n_terms, train.n_labels)
    if rank != counts.total:
        counts = feature_counts(train.n_docs, train.n_terms, train.n_labels, rank)
    weighting = Weighting.of_counts(*train.stored_term_counts)
    omega = np.random.default_rng(0).standard_normal((train.n_terms, counts.words), np.float32)
    runner = Runner(Threads())
    cross, own = runner.read([Cross(weighting, train.n_labels), WordDirections(weighting, omega)], train, {})
    directions = label_directions(cross, counts.labels, 0, counts.words)
    directions[:, counts.labels :] = own.words.finished()
    B = orthonormal(directions, overwrite=True)
    basis = Basis(B, *random_waves(B.shape[1], counts.waves, 0))
    (moments,) = runner.read([Features(weighting, basis, train.n_labels)], train, {})
    ridge_weights(moments.gram, moments.labels, 1.0)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
