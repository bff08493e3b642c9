"""Damage stores at random, and see that each is refused in one clear line or gives the answers it should.

    python -m benchmarks.mutations --count 2000 --seed 0
    python -m benchmarks.mutations --seed 0 --only 123    # one of them again, with its traceback

A small corpus and two small models are written; each mutation is applied to a fresh copy, which is then
opened and used for all that it is good for, in a child process. It must be refused by a `ThreepassError` of
one line, which `check` must agree with, or answer exactly as the whole one does. Any other exception, another
answer, a crash, a process that hangs or one that takes twice the memory is a failure. Mutations called
`forged` have checksums made to match: these are other stores rather than damaged ones, and may answer
otherwise, but none of the rest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import children, machine
from benchmarks.mutators import KINDS, mutate
from threepass import Corpus, MomentLabeler, ThreepassError, check, ingest_matrices
from threepass.corpus.describe import describe

STORES = ("corpus.zarr", "sharp.zarr", "posterior.zarr")
_ROOM = 2**30
"""Address space beyond what a warm process has; more is asked for only by a number that was believed."""


def make_stores(folder: Path) -> None:
    """A corpus of several blocks with names and counts, and a model with each kind of head."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.2), 4)
    which = rng.integers(4, size=240)
    X = np.stack([rng.multinomial(rng.integers(0, 30), topics[topic]) for topic in which])
    Y = rng.random((240, 9)) < np.where(np.arange(9) % 4 == which[:, None], 0.6, 0.05)
    names = {
        "feature_names": [f"wört {i}" for i in range(60)],
        "label_names": [f"label {i} ü" for i in range(9)],
    }
    corpus = ingest_matrices(X, Y, folder / "corpus.zarr", block_bytes=9000, **names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few documents, it says
        for head in ("sharp", "posterior"):
            MomentLabeler(3, head=head, n_jobs=1).fit(corpus).save(folder / f"{head}.zarr")


def answers(path: Path) -> str:
    """A digest of all that a store is good for."""
    return _corpus_answers(path) if path.name == "corpus.zarr" else _model_answers(path)


def _corpus_answers(path: Path) -> str:
    corpus = Corpus.open(path)
    said = describe(corpus)
    # spaces in a zarr.json are bytes on disk, too
    del said["bytes_on_disk"], said["bits_per_nonzero"]
    digest = hashlib.sha256(repr((said, corpus.terms, corpus.labels)).encode())
    for array in (corpus.term_ids, corpus.term_counts, corpus.label_counts, corpus.head(50).term_counts):
        digest.update(array.tobytes())
    for block in corpus.blocks():
        for rows in (block.X, block.Y):
            digest.update(rows.to_scipy().toarray().tobytes())
    return digest.hexdigest()


def _model_answers(path: Path) -> str:
    model = MomentLabeler.load(path)
    D = model.n_features_in_
    documents = np.zeros((3, D))
    documents[0, :5] = 2
    documents[1, 17 % D] = 1  # row 2 has no words
    labels, scores = model.predict_topk(documents, k=4)
    explanation = model.explain(documents[:1], 0)
    said = (model.topics(5), str(explanation), model.guarantee().sentence, model.get_params())
    digest = hashlib.sha256(repr((*said, model.fit_stats_, model.tensor_residual_, model.n_passes_)).encode())
    for array in (labels, scores, model.transform(documents), model.predict_proba(documents)):
        digest.update(array.tobytes())
    digest.update(model.evaluate(documents, np.eye(3, len(model.label_names_)))["auc"].hex().encode())
    return digest.hexdigest()


def outcome(path: Path, wanted: str) -> tuple[str, str]:
    """What becomes of a damaged store, and what is said of it."""
    message, whole = "", False
    try:
        try:
            whole = check(path).is_whole
        except ThreepassError as error:
            message = str(error)
        got = answers(path)
    except ThreepassError as error:
        message = str(error)
        one_line = message.strip() and "\n" not in message
        return ("check finds it whole" if whole else "refused" if one_line else "more than a line"), message
    except Exception as error:
        trace = traceback.extract_tb(error.__traceback__)[-1]
        return "exception", f"{error!r} in {Path(trace.filename).name}, line {trace.lineno}"
    return ("harmless" if got == wanted else "another answer"), message


def run_child(folder: Path, seed: int, numbers: range) -> None:
    """Apply some mutations, one after the other; a line before and a line after each."""
    warnings.simplefilter("ignore")
    wanted = {name: answers(folder / name) for name in STORES}
    _forget_peak()
    for name in STORES:
        answers(folder / name)
    normal = _status("VmHWM")
    limit = _status("VmSize") + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for number in numbers:
            name, kind, copy, description = mutation(folder, Path(scratch) / str(number), seed, number)
            _say({"number": number, "kind": kind, "store": name, "mutation": description})
            _forget_peak()
            found, message = outcome(copy, wanted[name])
            peak = _status("VmHWM") / normal
            _say({"number": number, "outcome": found, "message": message, "memory": round(peak, 3)})


def mutation(folder: Path, scratch: Path, seed: int, number: int) -> tuple[str, str, Path, str]:
    """The store, the kind, the mutated copy and what was done to it, of mutation `number`."""
    rng = np.random.default_rng([seed, number])
    name = STORES[rng.choice(3, p=[0.5, 0.3, 0.2])]
    kind = list(KINDS)[rng.integers(len(KINDS))]
    copy = scratch / name
    return name, kind, copy, mutate(folder / name, copy, kind, rng)


def _say(record: dict[str, Any]) -> None:
    print(json.dumps(record), flush=True)


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _status(field: str) -> int:
    """Bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def child_command(folder: Path, seed: int, first: int, count: int) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.mutations", "--child", str(folder)]
    return [*command, "--seed", str(seed), "--first", str(first), "--count", str(count - first)]


def records(
    command: Callable[[int], list[str]], count: int, patience: float = 120.0
) -> Iterator[dict[str, Any]]:
    """What became of each mutation; a child that crashes or hangs is noticed, and another goes on.

    Parameters
    ----------
    command
        Number of the first mutation -> how to start a child that goes on from there.
    patience
        Seconds after which a child hangs; its first mutation waits for imports and compilation, too.
    """
    first = 0
    while first < count:
        before, running = first, {}
        for record in _spoken(command(first), patience):
            if "outcome" not in record:
                running = record
            elif running:
                yield {"message": "", "memory": 0.0, **running, **record}
                first, running = running["number"] + 1, {}
        if first == before:
            raise RuntimeError(f"The process for mutation {first} ended before it was done.")


def _spoken(command: list[str], patience: float) -> Iterator[dict[str, Any]]:
    """What a child says, and at last how it came to an end, if it was not by itself."""
    lines: queue.Queue[str] = queue.Queue()
    with (
        children() as group,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=group) as child,
    ):
        assert child.stdout is not None
        pump = threading.Thread(target=_pump, args=(child.stdout, lines.put))
        pump.start()
        try:
            while line := lines.get(timeout=patience):
                yield json.loads(line)
            if code := child.wait():
                yield {"outcome": "crash", "message": f"exit code {code}"}
        except queue.Empty:
            yield {"outcome": "hung", "message": f"for {patience:g} seconds"}
        finally:
            child.kill()
            pump.join()


def _pump(lines: Any, put: Callable[[str], None]) -> None:
    for line in lines:
        put(line)
    put("")


def run(count: int, seed: int) -> dict[str, Any]:
    """All mutations and what became of them."""
    started = time.perf_counter()
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    failures, most_memory = [], 0.0
    with tempfile.TemporaryDirectory(prefix="threepass-mutations-") as folder:
        make_stores(Path(folder))
        for record in records(lambda first: child_command(Path(folder), seed, first, count), count):
            kind, found = record["kind"], record["outcome"]
            if record["memory"] > 2:
                found = "twice the memory"
            kinds[kind][found] += 1
            most_memory = max(most_memory, record["memory"])
            fine = {"refused", "harmless"} | ({"another answer"} if kind.startswith("forged") else set())
            if found not in fine:
                failures.append({**record, "outcome": found})
    total = Counter[str]()
    for counts in kinds.values():
        total.update(counts)
    return {
        "seed": seed,
        "mutations": count,
        "outcomes": dict(total),
        "by_kind": {kind: dict(counts) for kind, counts in sorted(kinds.items())},
        "failures": failures,
        "most_memory_over_normal": most_memory,
        "seconds": round(time.perf_counter() - started, 1),
        "machine": machine(),
    }


def show_one(seed: int, number: int) -> None:
    """One mutation again, errors and all."""
    with tempfile.TemporaryDirectory(prefix="threepass-mutations-") as folder:
        make_stores(Path(folder))
        name, kind, copy, description = mutation(Path(folder), Path(folder) / "copy", seed, number)
        print(f"{name}, {kind}: {description}")
        same = answers(Path(folder) / name) == answers(copy)
        print("the same answer" if same else "another answer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="show what becomes of this one")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        numbers = range(arguments.first, arguments.first + arguments.count)
        run_child(arguments.child, arguments.seed, numbers)
    elif arguments.only is not None:
        show_one(arguments.seed, arguments.only)
    else:
        result = run(arguments.count, arguments.seed)
        print(json.dumps(result, indent=2))
        sys.exit(1 if result["failures"] else 0)


if __name__ == "__main__":
    main()
