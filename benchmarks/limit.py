"""How far each pass is from what the machine can do: `python -m benchmarks.limit [SHAPE] [--scale s]`.

The limit of a pass is the larger of two times, both measured in the same run: reading and decoding its blocks
alone; and its arithmetic at the rate of a single precision matrix product, plus the rows it reaches by number
at the rate of a loop that does nothing but add up such rows, drawn as often as the corpus's words occur. What
a pass has to do is counted by the pass itself (`Pass.needs`): the least that its sums take, not what it does.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from threepass import Corpus, MomentLabeler, ingest_shape
from threepass.ingest.synthetic import SHAPES
from threepass.parts.sizes import feature_counts
from threepass.passes.machine import measure_rates
from threepass.passes.plan import Plan
from threepass.tasks import map_tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES, nargs="?", default="amazoncat")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the documents")
    parser.add_argument("--k", type=int, default=100, help="number of topics")
    parser.add_argument("--head", default="auto")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder if absent")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        corpus = ingest_shape(arguments.shape, f"{folder}/corpus.zarr", scale=arguments.scale)
        MomentLabeler(5).fit(corpus.head(500))  # compiles, or loads what was compiled before
        model = MomentLabeler(arguments.k, head=arguments.head).fit(corpus)
        result = {
            "machine": machine(),
            "shape": arguments.shape,
            "documents": corpus.n_docs,
            "head_dim": model.fit_stats_.get("head_dim"),
            **against_limit(corpus, model),
        }
    print(json.dumps(result, indent=2))


def against_limit(corpus: Corpus, model: MomentLabeler) -> dict[str, Any]:
    """Seconds of each pass of a fit that was just made, and the limits, measured now."""
    plan, seconds = model.plan(corpus), model.fit_stats_["seconds"]
    decode = decode_seconds(corpus, plan.layout.at_a_time)
    passes = []
    for stage, width in zip(*read_stages(corpus, plan, model.n_components), strict=True):
        rates = measure_rates(corpus.stored_term_counts[0], width, plan.layout.at_a_time, most_bytes=2**31)
        compute = rates.seconds(stage.cost)
        limit = max(compute, decode)
        passes.append(
            {
                "pass": stage.name,
                "seconds": round(seconds[stage.name], 2),
                "limit_seconds": round(limit, 2),
                "over_limit": round(seconds[stage.name] / limit, 2),
                "decode_seconds": round(decode, 2),
                "gflop": round(stage.cost.flops / 1e9, 1),
                "gflop_per_s": round(rates.flops / 1e9, 1),
                "gathered_gb": round(stage.cost.gathered / 1e9, 1),
                "row_bytes": 4 * width,
                "gathered_gb_per_s": round(rates.gathered / 1e9, 1),
            }
        )
    return {"passes": passes, "worst_over_limit": max(row["over_limit"] for row in passes)}


def read_stages(corpus: Corpus, plan: Plan, n_components: int) -> tuple[list[Any], list[int]]:
    """The three passes of a plan, and how wide the rows are that each reaches most."""
    stages = {price.name: price for price in plan.prices}
    counts = feature_counts(corpus.n_docs, corpus.n_terms, corpus.n_labels)
    features = counts.labels + counts.words if "head_dim" in plan.details else 0
    widths = [n_components + plan.layout.oversampling, max(n_components, features), n_components]
    return [stages[name] for name in ("pairs", "triples", "labels")], widths


def decode_seconds(corpus: Corpus, n_threads: int) -> float:
    """Reading every block, and nothing else, on as many threads."""
    started = time.perf_counter()
    map_tasks(
        lambda number: corpus.block(number).X.nnz, range(corpus.n_blocks), name="decode", n_threads=n_threads
    )
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
