"""Seconds and bytes of a fit of the paper's sizes: `python -m benchmarks.scale SHAPE [--scale s] [--k 100]`.

SHAPE is one of the paper's data sets (Table 1), drawn from a planted model; `--scale` takes a share of its
documents. Every fit runs in a process of its own, whose memory is watched with that of its children. The JSON
has seconds and projected bytes of each stage, peak memory, each pass over its limit as measured in the same
process (see `benchmarks.limit`), and what the paper reports for the same shape. More is measured when asked:

--double      half of the documents, beside all of them: how time and memory grow
--threads     the same fit on one processor
--workers     the same fit on two worker processes of a local Dask cluster, one thread each
--predict     the five best labels of 4,096 documents, against scoring all labels
--compile     what compiling takes on the very first run

Where other programs disturb, `--rounds 3` runs the fits that are compared three times, by turns; the fastest
of each counts, and the seconds of all are told.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, run_measured
from threepass import Corpus, ingest_shape
from threepass.ingest.synthetic import SHAPES

FIT = "from benchmarks.fit_once import main; main()"
PAPER = {  # minutes, and gigabytes from K = 50 to K = 150, on the author's machine
    "amazoncat": {"minutes": 75, "memory_gb": "11 to 13"},
    "wikilshtc": {"minutes": 180, "memory_gb": "12 to 17"},
}
PREDICTED = 4096


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the documents")
    parser.add_argument("--k", type=int, default=100, help="number of topics")
    parser.add_argument("--head", default="auto", help="auto is the default head, posterior the paper's")
    parser.add_argument("--memory-limit", help="as in 4GB")
    for name in ("double", "threads", "workers", "predict", "compile"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--rounds", type=int, default=1, help="how often fits are run, by turns")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder if absent")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        print(json.dumps(measure(arguments, Path(folder)), indent=2))


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    corpus = ingest_shape(arguments.shape, folder / "corpus.zarr", scale=arguments.scale)
    parameters = {"head": arguments.head, "memory_limit": arguments.memory_limit}
    options = {"k": arguments.k, "parameters": parameters}
    result: dict[str, Any] = {"machine": machine(), "shape": arguments.shape, **facts(corpus)}
    if arguments.compile:
        result["compile"] = compile_seconds(folder, options)
    extra = {"limit": True, "predict": PREDICTED if arguments.predict else 0}
    wanted = {"fit": {**options, **extra}}
    if arguments.threads:
        wanted["one_thread"] = {**options, "threads": 1}
    if arguments.workers:
        wanted["two_workers"] = {**options, "workers": 2}
    fits = by_turns(folder / "corpus.zarr", wanted, arguments.rounds)
    whole = fits["fit"]
    result |= {**fits, "paper": PAPER.get(arguments.shape)}
    if arguments.threads:
        result["two_threads_over_one"] = round(fits["one_thread"]["seconds"] / whole["seconds"], 2)
    if arguments.workers:
        result["two_workers_over_two_threads"] = round(whole["seconds"] / fits["two_workers"]["seconds"], 2)
    if arguments.double:
        ingest_shape(arguments.shape, folder / "half.zarr", scale=arguments.scale / 2)
        half = fit(folder / "half.zarr", options)
        result["half_of_the_documents"] = half
        result["seconds_when_doubled"] = round(whole["seconds"] / half["seconds"], 2)
        result["memory_when_doubled"] = round(whole["peak_mb"] / half["peak_mb"], 3)
    return result


def by_turns(path: Path, wanted: dict[str, dict[str, Any]], rounds: int) -> dict[str, dict[str, Any]]:
    """The fastest of some fits of each kind, with the seconds of all."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for _ in range(rounds):
        for name, options in wanted.items():
            runs[name].append(fit(path, options))
    return {
        name: {**min(own, key=lambda run: run["seconds"]), "all_seconds": [run["seconds"] for run in own]}
        for name, own in runs.items()
    }


def facts(corpus: Corpus) -> dict[str, int]:
    return {
        "documents": corpus.n_docs,
        "terms": corpus.n_terms,
        "labels": corpus.n_labels,
        "nonzeros": sum(block.x_nnz for block in corpus.info.blocks),
        "blocks": corpus.n_blocks,
    }


def fit(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    result = run_measured(FIT, path, json.dumps(options))
    plan = result.pop("plan", None)
    if plan is not None:
        result["projected_mb"] = round(plan["peak_bytes"] / 1e6, 1)
        result["peak_over_projected"] = round(result["peak_mb"] / result["projected_mb"], 3)
        result["tasks_at_a_time"] = plan["tasks_at_a_time"]
        result["stage_projected_mb"] = {row["stage"]: round(row["bytes"] / 1e6) for row in plan["stages"]}
    result["seconds"] = round(result.get("seconds", result["warm_seconds"]), 2)
    return result


def compile_seconds(folder: Path, options: dict[str, Any]) -> dict[str, float]:
    """A tiny fit with nothing compiled, and once more with all of it."""
    with environment("NUMBA_CACHE_DIR", str(folder / "compiled")):
        first, second = (
            fit(folder / "corpus.zarr", {**options, "warm_only": True})["warm_seconds"] for _ in range(2)
        )
    return {"first_run_seconds": round(first, 1), "second_run_seconds": round(second, 1)}


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


if __name__ == "__main__":
    main()
