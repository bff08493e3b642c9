"""Fits that are disturbed in every way, and what comes of it: `python -m benchmarks.faults`, JSON.

--workers N      kills of worker processes, spread over the three passes, with one and with two workers (30);
                 then a worker that is stopped and one that takes too much memory, in each pass
--kills N        `kill -9` of the whole fit at a random moment, then the same fit again (50)
--together N     fits that are started at once into one path (6)
--overhead S     what checkpoints add to the time of a fit, on S of the documents of the AmazonCat shape
--mutations N    stores and models that are damaged at random (2,000); see `benchmarks.mutations`

Every fit must give the same model as an undisturbed one, to the last bit. How much work is done again after a
kill is told by the documents that were done before it and are not kept after it, in segments.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import multiprocessing
import os
import random
import signal
import statistics
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import mutations
from benchmarks.measure import machine
from threepass import Corpus, MomentLabeler, Planted, StoreError, ingest_planted, ingest_shape
from threepass.ingest.synthetic import Lengths
from threepass.passes.cluster import workers as cluster
from threepass.passes.cluster.tasks import Patience

PASSES = ("pairs", "triples", "labels")
PLANTED = Planted(400_000, 1000, 50, 20, words=Lengths(40, 36), labels=Lengths(2, 2), seed=1)
PARAMETERS: dict[str, Any] = {"n_components": 20, "head_dim": 50, "whitening": "sketch"}
TASKS = 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=30)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--together", type=int, default=6)
    parser.add_argument("--overhead", type=float, default=1.0)
    parser.add_argument("--mutations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    result: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as name:
        folder, rng = Path(name), random.Random(arguments.seed)
        corpus = ingest_planted(PLANTED, folder / "corpus.zarr", block_bytes=1_000_000)
        wanted = digest(MomentLabeler(**PARAMETERS).fit(corpus))
        if arguments.kills:
            result["killed_and_resumed"] = killed_fits(folder, wanted, arguments.kills, rng)
        if arguments.together:
            result["started_at_once"] = fits_at_once(folder, wanted, arguments.together)
        if arguments.workers:
            result["worker_kills"] = worker_kills(corpus, wanted, arguments.workers)
            result["worker_troubles"] = [
                trouble(corpus, wanted, how, name) for how in (stop, take_memory) for name in PASSES
            ]
        if arguments.overhead:
            result["checkpoints"] = overhead(folder, arguments.overhead)
    if arguments.mutations:
        result["mutations"] = mutations.run(arguments.mutations, arguments.seed)
    print(json.dumps(result, indent=2))


def digest(model: MomentLabeler) -> str:
    """A name for every number that a model was made of."""
    arrays = [model.word_topics_, model.label_topics_, model.topic_weights_, model.whitening_]
    arrays += [model.label_counts_, model.error_bars_.words, model.error_bars_.labels]
    arrays += [array for part in model.predictor_.blend.parts for array in part.arrays().values()]
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


# -- the whole fit ----------------------------------------------------------------------------------------


def fit_in_child(corpus: Path, path: Path, news: Any) -> None:
    """Fit and save, telling how far it is, and at last the model and what was reused; or why not."""
    warnings.simplefilter("ignore")
    try:
        model = MomentLabeler(**PARAMETERS, n_jobs=TASKS).fit_to(
            Corpus.open(corpus), path, progress=lambda *step: news.send(step)
        )
        news.send(("done", digest(model), model.fit_stats_["run"]))
    except StoreError as error:
        news.send(("refused", str(error), {}))


class Child:
    """A fit in a process of its own; what it told last of each pass."""

    def __init__(self, corpus: Path, path: Path) -> None:
        # its server has imported the package and started nothing: children are there sooner
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["threepass"])
        self._news, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=fit_in_child, args=(corpus, path, theirs))
        self.process.start()
        theirs.close()
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}
        self.outcome: tuple[str, str, dict[str, Any]] | None = None
        self.begun = threading.Event()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        try:
            while True:
                message = self._news.recv()
                self.begun.set()
                if message[0] in ("done", "refused"):
                    self.outcome = message
                else:
                    self.first.setdefault(message[0], message[1])
                    self.last[message[0]] = message[1]
        except EOFError:
            self.begun.set()

    def kill(self) -> None:
        assert self.process.pid is not None
        with suppress(ProcessLookupError):  # it was faster
            os.kill(self.process.pid, signal.SIGKILL)

    def wait(self) -> Child:
        self.process.join()
        self._listener.join()
        return self


def killed_fits(folder: Path, wanted: str, count: int, rng: random.Random) -> dict[str, Any]:
    """Kill at a moment drawn from the time that a fit takes, from its first block on; then fit again."""
    corpus = folder / "corpus.zarr"
    started: list[float] = []
    for number in range(2):  # the first one compiles
        child = Child(corpus, folder / f"undisturbed-{number}.zarr")
        child.begun.wait()
        started.append(time.monotonic())
        child.wait()
    seconds = time.monotonic() - started[-1]
    assert child.outcome is not None
    segments = child.outcome[2]["segments_computed"]
    docs = PLANTED.n_docs * len(PASSES) / segments  # of a segment
    redone, in_passes, equal, finished, reused = [], 0, 0, 0, []
    for number in range(count):
        path = folder / f"killed-{number}.zarr"
        child = Child(corpus, path)
        child.begun.wait()
        time.sleep(rng.random() * seconds)
        child.kill()
        child.wait()
        if child.outcome is not None:  # it was faster
            finished += child.outcome[0] == "done"
            equal += child.outcome[1] == wanted
            continue
        again = Child(corpus, path).wait()
        assert again.outcome is not None
        finished += again.outcome[0] == "done"
        equal += again.outcome[1] == wanted
        in_passes += 1
        reused.append(again.outcome[2]["segments_reused"])
        lost = sum(done - again.first.get(name, 0) for name, done in child.last.items())
        redone.append(lost / docs / TASKS)
    left = [path.name for path in folder.iterdir() if path.name.endswith((".run", ".partial"))]
    return {
        "kills": count,
        "killed_before_they_were_done": in_passes,
        "finished": finished,
        "bitwise_equal": equal,
        "seconds_undisturbed": round(seconds, 2),
        "segments": segments,
        "mean_segments_reused": round(statistics.mean(reused), 1) if reused else None,
        "segments_done_again_per_running_task": {
            "mean": round(statistics.mean(redone), 3) if redone else None,
            "worst": round(max(redone), 3) if redone else None,
        },
        "left_behind": left,
    }


def fits_at_once(folder: Path, wanted: str, count: int) -> dict[str, Any]:
    path = folder / "one-for-all.zarr"
    children = [Child(folder / "corpus.zarr", path) for _ in range(count)]
    outcomes = [child.wait().outcome for child in children]
    won = [outcome for outcome in outcomes if outcome is not None and outcome[0] == "done"]
    refused = [outcome[1] for outcome in outcomes if outcome is not None and outcome[0] == "refused"]
    return {
        "started": count,
        "won": len(won),
        "refused": len(refused),
        "bitwise_equal": sum(outcome[1] == wanted for outcome in won),
        "said": sorted({text.split(". ")[0].replace(str(folder), "") for text in refused}),
    }


# -- workers ------------------------------------------------------------------------------------------------


def kill(client: Any, number: int) -> None:
    workers = list(client.cluster.workers.values())
    os.kill(workers[number % len(workers)].pid, signal.SIGKILL)


def stop(client: Any, number: int) -> None:
    workers = list(client.cluster.workers.values())
    os.kill(workers[number % len(workers)].pid, signal.SIGSTOP)


def take_memory(client: Any, number: int) -> None:
    address = list(client.nthreads())[number % len(client.nthreads())]
    client.cluster.memory_taken = client.submit(_take_memory, workers=[address], pure=False)


def _take_memory() -> None:
    taken = []
    for _ in range(30):
        taken.append(np.ones(10_000_000))
        time.sleep(0.02)


def disturbed(
    client: Any, corpus: Corpus, disturb: Callable[[Any, int], None], moments: dict[str, float]
) -> tuple[str, float, list[str]]:
    """A fit that is disturbed once it has read such a share of the corpus in each of some passes."""
    left = dict(moments)
    disturbed_in: list[str] = []

    def progress(stage: str, done: float, total: float) -> None:
        if stage in left and done >= left[stage] * total:
            del left[stage]
            disturbed_in.append(stage)
            # not from here: this may be the thread by which the cluster speaks to us
            threading.Thread(target=disturb, args=(client, len(disturbed_in))).start()

    started = time.monotonic()
    model = MomentLabeler(**PARAMETERS).fit(corpus, client=client, progress=progress)
    return digest(model), time.monotonic() - started, disturbed_in


def worker_kills(corpus: Corpus, wanted: str, count: int) -> dict[str, Any]:
    """One in each pass, at all kinds of moments; half of the fits have a single worker."""
    kills, equal, fits, seconds = 0, 0, 0, []
    for n_workers in (2, 1):
        with workers(n_workers) as client:
            while kills < count * (2 if n_workers == 1 else 1) // 2:
                moments = {name: (fits * 0.17 + i * 0.31) % 0.95 for i, name in enumerate(PASSES)}
                found, took, where = disturbed(client, corpus, kill, moments)
                kills, fits, equal = kills + len(where), fits + 1, equal + (found == wanted)
                seconds.append(took)
    return {
        "kills": kills,
        "fits": fits,
        "bitwise_equal": equal,
        "seconds_of_a_fit": round(statistics.mean(seconds), 1),
    }


def trouble(corpus: Corpus, wanted: str, how: Callable[[Any, int], None], name: str) -> dict[str, Any]:
    with workers(2) as client:
        found, seconds, where = disturbed(client, corpus, how, {name: 0.3})
    return {
        "how": how.__name__,
        "pass": where,
        "bitwise_equal": found == wanted,
        "seconds": round(seconds, 1),
    }


def workers(number: int) -> Any:
    for name in ("distributed.worker.memory", "distributed.worker.state_machine"):
        logging.getLogger(name).setLevel(logging.ERROR)
    patience = Patience(silent_worker=6)
    return cluster.connected(
        cluster.Workers(number, memory="1GB", dashboard="127.0.0.1:0", patience=patience)
    )


# -- what it costs ------------------------------------------------------------------------------------------


def overhead(folder: Path, scale: float, turns: int = 3) -> dict[str, Any]:
    """The same fit with and without checkpoints, by turns; the best of each."""
    corpus = ingest_shape("amazoncat", folder / "amazoncat.zarr", scale=scale)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    run: dict[str, Any] = {}
    for _ in range(turns):
        for kept in (False, True):
            run_dir = folder / "amazoncat.run"
            started = time.monotonic()
            model = MomentLabeler().fit(corpus, run_dir=run_dir if kept else None)
            seconds[kept].append(time.monotonic() - started)
            if kept:
                run = model.fit_stats_["run"]
                for path in sorted(run_dir.rglob("*"), reverse=True):
                    path.rmdir() if path.is_dir() else path.unlink()
    without, with_files = min(seconds[False]), min(seconds[True])
    return {
        "documents": corpus.n_docs,
        "seconds_without": [round(value, 2) for value in seconds[False]],
        "seconds_with": [round(value, 2) for value in seconds[True]],
        "overhead": round(with_files / without - 1, 4),
        "written_gb": round(run["checkpoint_bytes"] / 1e9, 2),
        "write_seconds": round(run["checkpoint_seconds"], 2),
    }


if __name__ == "__main__":
    main()
