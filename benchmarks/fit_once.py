"""One fit in a process of its own, for `benchmarks.scale`; prints one JSON."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from contextlib import ExitStack
from typing import Any


def main() -> None:
    path, options = sys.argv[1], json.loads(sys.argv[2])
    if options.get("threads") == 1:  # before any library has counted the processors
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    warnings.simplefilter("ignore")
    from threepass import Corpus, MomentLabeler

    parameters = {"n_components": options["k"], **options.get("parameters", {})}
    with ExitStack() as stack:
        client = local_client(stack, options["workers"]) if options.get("workers") else None
        started = time.perf_counter()
        corpus = Corpus.open(path)
        # loads, or compiles, every kernel, here and on each worker
        MomentLabeler(**{**parameters, "n_components": 5}).fit(corpus.head(2000), client=client)
        warmed = time.perf_counter()
        if options.get("warm_only"):
            print(json.dumps({"warm_seconds": warmed - started}))
            return
        model = MomentLabeler(**parameters).fit(corpus, client=client)
        result: dict[str, Any] = {
            "seconds": time.perf_counter() - warmed,
            "warm_seconds": warmed - started,
            "stage_seconds": {name: round(value, 2) for name, value in model.fit_stats_["seconds"].items()},
            "plan": model.fit_stats_["plan"],
            "held_out": model.fit_stats_.get("held_out"),
            "head_dim": model.fit_stats_.get("head_dim"),
            "model_bytes": model.fit_stats_["model_bytes"],
        }
    if options.get("limit"):
        from benchmarks.limit import against_limit

        result["limit"] = against_limit(corpus, model)
    if options.get("predict"):
        from benchmarks.prediction import measure

        result["prediction"] = measure(model.predictor_, corpus, options["predict"])
    print(json.dumps(result))


def local_client(stack: ExitStack, n_workers: int) -> Any:
    from distributed import Client, LocalCluster

    cluster = stack.enter_context(
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit=0,
        )
    )
    return stack.enter_context(Client(cluster))


if __name__ == "__main__":
    main()
