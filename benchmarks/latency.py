"""Milliseconds of a single text: `python -m benchmarks.latency MODEL... [--beside] [--before PYTHON]`.

Texts are drawn from the model's own topics: as texts where the model was fitted to texts, else as matrices
of one row. After loading and some first texts, each client, a thread, labels one text after the other. Told
are the median, what nine in ten stay below, and the time of all texts over their number. A fit of a planted
corpus with Bibtex's shape is timed too. `--beside` measures everything once more beside a process that keeps
one processor busy. `--before` names the
interpreter of an environment with another version to compare with: both have processes of their own, which
take turns in each round.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import one_text
from benchmarks.measure import children, machine
from benchmarks.tables import markdown
from threepass import ingest_shape

FIT = "fit, Bibtex's shape"
Ask = Callable[[dict[str, Any]], dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--texts", type=int, default=200, help="of each round")
    parser.add_argument("--clients", default="1,4", help="numbers of threads that label at a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", action="store_true", help="also beside a busy process")
    parser.add_argument("--before", help="the interpreter of an environment with another version")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the documents that are fitted")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "corpus.zarr")
        ingest_shape("bibtex", path, scale=arguments.scale)
        result = {"machine": machine(), "rows": measure(arguments, path)}
    print(table(result["rows"]))
    print(json.dumps(result, indent=2))


def measure(arguments: argparse.Namespace, corpus: str) -> list[dict[str, Any]]:
    """A row for each thing that is measured, in each version."""
    versions = {"now": sys.executable} | ({"before": arguments.before} if arguments.before else {})
    by_clients = [{"clients": int(number)} for number in arguments.clients.split(",")]
    works: list[tuple[str, dict[str, Any], list[dict[str, int]]]] = [
        (str(path), {"model": str(path.absolute()), "texts": arguments.texts}, by_clients)
        for path in arguments.models
    ]
    works.append((FIT, {"corpus": corpus}, [{}]))
    rows = []
    for name, start, requests in works:
        with ExitStack() as stack:
            group = stack.enter_context(children())
            started = {
                version: stack.enter_context(server(group, python, start))
                for version, python in versions.items()
            }
            for request, beside in product(requests, (False, True) if arguments.beside else (False,)):
                answers: dict[str, list[dict[str, Any]]] = {version: [] for version in versions}
                with busy(group if beside else None):
                    for _, version in product(range(arguments.rounds), versions):
                        answers[version].append(started[version](request))
                told = {"what": name, **request, "beside": beside}
                rows += [{**told, "version": version, **summary(answers[version])} for version in versions]
    return rows


@contextmanager
def server(group: int, python: str, start: dict[str, Any]) -> Iterator[Ask]:
    """A process with one version of the package, in a group; and the function that asks it for something."""
    command = [python, "-P", one_text.__file__]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=group,
    ) as process:

        def ask(request: dict[str, Any]) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            print(json.dumps(request), file=process.stdin, flush=True)
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer

        ask(start)
        yield ask


@contextmanager
def busy(group: int | None) -> Iterator[None]:
    """A process in a group that keeps one processor busy; none where there is no group."""
    if group is None:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], process_group=group) as process:
        try:
            yield
        finally:
            process.kill()


def summary(answers: list[dict[str, Any]]) -> dict[str, float]:
    """Over all rounds: for texts milliseconds, for fits seconds."""
    seconds = [answer["seconds"] for answer in answers]
    if "ms" not in answers[0]:
        return {"median_s": round(float(np.median(seconds)), 2), "worst_s": round(max(seconds), 2)}
    ms = np.concatenate([answer["ms"] for answer in answers])
    return {
        "median_ms": round(float(np.median(ms)), 2),
        "ninety_percent_ms": round(float(np.quantile(ms, 0.9)), 2),
        "ms_a_text": round(1000 * sum(seconds) / len(ms), 2),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """A row for each thing, with the versions side by side."""
    versions = list(dict.fromkeys(row["version"] for row in rows))
    lines: dict[str, list[str]] = {}
    for row in rows:
        clients = f", {row['clients']} at a time" if "clients" in row else ""
        beside = ", beside a busy process" if row["beside"] else ""
        lines.setdefault(f"{row['what']}{clients}{beside}", []).append(cell(row))
    return markdown(["", *versions], [[name, *cells] for name, cells in lines.items()])


def cell(row: dict[str, Any]) -> str:
    if "median_s" in row:
        return f"{row['median_s']:.1f} s (worst {row['worst_s']:.1f})"
    return f"{row['median_ms']:.2f} ms (90 %: {row['ninety_percent_ms']:.2f}; each: {row['ms_a_text']:.2f})"


if __name__ == "__main__":
    main()
