"""Methods on one data set, side by side: `python -m benchmarks.compare DATASET --methods all --out DIR`.

DATASET is a folder of `--data` (or THREEPASS_DATA), or a shape of the paper's with a share of its documents,
as in `amazoncat:0.5`, which is drawn from a planted model. Every method runs in a process of its own, one
after the other, on the same documents and weighted words. DIR gets `results.json`, `table.md` and the figures
`quality_by_seconds.png` and, where there are several K, `auc_by_k.png` and `memory_by_k.png`.

Training starts, for threepass, with the corpus on disk, for the others once their documents are in memory,
weighted and, for peers that read text, in a file; choosing the settings of a baseline, on training documents
that it does not learn from, is told apart. Memory is the most that the process and its children take while
training. AUC is there for methods that score all labels. A method that fails, or takes longer than
`--timeout`, is reported as that, and one whose package is not installed as absent; `--python
pecos=ENV/bin/python` names another environment for it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.baselines.documents import weighted_documents
from benchmarks.datasets import prepare_split
from benchmarks.figures import draw_all
from benchmarks.measure import Watched, machine, watch
from benchmarks.methods import METHODS, TOP
from benchmarks.methods.split import Split
from benchmarks.tables import comparison
from threepass import Corpus, InputError, list_datasets
from threepass.corpus.rows import SparseRows
from threepass.metrics.measures import propensities, ranking_sums
from threepass.tasks import n_cpus
from threepass.types import Array

REFUSAL = f"{InputError.__module__}.{InputError.__qualname__}: "
"""How the last line of a method begins that will not have so much data."""
DEFAULT_K = (50, 75, 100, 125, 150)
PROPENSITY = 0.55, 1.5
"""A and B of data sets without a manifest of their own."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    parser.add_argument("--methods", default="all", help=f"all, or some of {','.join(METHODS)}")
    parser.add_argument("--k", default=",".join(map(str, DEFAULT_K)), help="numbers of topics, or ranks")
    parser.add_argument("--out", type=Path, required=True, help="folder for results, made if absent")
    parser.add_argument("--data", type=Path, help="folder of data sets; THREEPASS_DATA if absent")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds that a method may take")
    parser.add_argument("--test-docs", type=int, help="measure on the first so many test documents")
    parser.add_argument("--threads", type=int, default=n_cpus())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--python", action="append", default=[], metavar="METHOD=PATH")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder if absent")
    arguments = parser.parse_args()
    try:
        methods = chosen_methods(arguments.methods)
        pythons = dict(pair.split("=", 1) for pair in arguments.python)
        ks = [int(k) for k in arguments.k.split(",")]
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            split = prepare_split(arguments.dataset, arguments.data, Path(name), arguments.test_docs)
            running = arguments.threads, arguments.seed, arguments.timeout, pythons
            contest = Contest(split, Path(name), *running, propensity_of(arguments.dataset))
            result = compare(contest, arguments.dataset, methods, ks, arguments.out)
    except InputError as error:
        sys.exit(f"benchmarks.compare: {error}")
    print((arguments.out / "table.md").read_text())
    failed = [row["method"] for row in result["rows"] if row["status"] in ("failed", "timeout")]
    if failed:
        print(f"did not finish: {', '.join(failed)}", file=sys.stderr)


def chosen_methods(names: str) -> list[str]:
    methods = list(METHODS) if names == "all" else names.split(",")
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise InputError(
            f"There is no method '{unknown[0]}'. Methods are {', '.join(METHODS)}. Pass some of them, or all."
        )
    return methods


def propensity_of(dataset: str) -> tuple[float, float]:
    known = {manifest.name: manifest.propensity for manifest in list_datasets()}
    return known.get(dataset, PROPENSITY)


@dataclass
class Contest:
    """The documents, and how methods are run on them."""

    split: Split
    folder: Path
    threads: int
    seed: int = 0
    timeout: float = 3600
    pythons: dict[str, str] = field(default_factory=dict)
    """Interpreters of other environments, by method."""
    propensity: tuple[float, float] = PROPENSITY
    """A and B."""

    def __post_init__(self) -> None:
        self.train, self.test = self.split.open()
        self.truth = SparseRows.concatenate([block.Y for block in self.test.blocks()])
        self._matrices: list[Path] = []

    def run(self, method: str, k: int, settings: dict[str, Any] | None = None) -> dict[str, Any]:
        """A row of the results: what was measured, or why it was not.

        Parameters
        ----------
        settings
            Of a baseline, as they were chosen for another K; None to choose them.
        """
        known = METHODS[method]
        python = self.pythons.get(method, sys.executable)
        row: dict[str, Any] = {"method": method, "k": k if known.has_k else None}
        if known.package and not importable(known.package, python):
            return row | {"status": "absent", "reason": f"{known.package} is not installed"}
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = Path(name)
            self.split.save(folder / "split.json")
            if known.module == "peer":
                for path in self._peer_matrices():
                    os.link(path, folder / path.name)
            options = json.dumps({"k": k, "seed": self.seed, "threads": self.threads, "settings": settings})
            command = [python, "-m", f"benchmarks.methods.{known.module}", method, folder, options]
            title = f"{known.title}, K = {k}" if known.has_k else known.title
            watched = watch(command, self.timeout, Teller(title))
            row |= measured(watched)
            if watched.ended == "done":
                with np.load(folder / "best.npz") as best:
                    row |= self.quality(best["labels"])
                    shutil.copy(folder / "best.npz", self.folder / f"{method}-{k}.npz")
        return row

    def quality(self, labels: Array) -> dict[str, float]:
        """P@k, nDCG@k and PSP@k of the best labels."""
        inverse = 1 / propensities(self.train.label_counts, self.train.n_docs, *self.propensity)
        metrics = ranking_sums(labels, self.truth, (1, 3, TOP), inverse).finish()
        return {name: value for name, value in metrics.items() if name.startswith(("p@", "ndcg@", "psp@"))}

    def _peer_matrices(self) -> list[Path]:
        """Weighted words and labels in files, as the peers read them; made once."""
        if not self._matrices:
            X, Y = (rows.to_scipy() for rows in weighted_documents(self.train, self.train))
            test = weighted_documents(self.test, self.train)[0].to_scipy()
            for name, matrix in (("X", X), ("Y", Y), ("test", test)):
                self._matrices.append(self.folder / f"{name}.npz")
                scipy.sparse.save_npz(self._matrices[-1], scipy.sparse.csr_matrix(matrix), compressed=False)
        return self._matrices


class Teller:
    """Says on stderr what a method is at."""

    def __init__(self, title: str) -> None:
        self._title, self._started = title, time.perf_counter()

    def __call__(self, phase: str) -> None:
        seconds = time.perf_counter() - self._started
        print(f"{self._title}: {phase} ({seconds:.1f} s)", file=sys.stderr, flush=True)


def measured(watched: Watched) -> dict[str, Any]:
    if watched.ended != "done":
        if watched.ended == "timeout":
            return {"status": "timeout", "reason": f"ended after {watched.seconds:.0f} s"}
        reason = "".join(watched.said.splitlines()[-1:])
        refused = reason.removeprefix(REFUSAL)
        return {"status": "failed" if refused == reason else "refused", "reason": refused}
    return {
        "status": "done",
        **watched.result,
        "process_seconds": watched.seconds,
        "train_peak_bytes": watched.peaks.get("train", watched.peak),
        "peak_bytes": watched.peaks,
    }


def importable(package: str, python: str) -> bool:
    return (
        subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode == 0
    )


def compare(
    contest: Contest,
    dataset: str,
    methods: Sequence[str],
    ks: Sequence[int],
    out: Path,
    settings: Mapping[str, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Run all methods, and write results after each of them, table and figures at the end.

    Parameters
    ----------
    settings
        Of baselines by name, in place of a choice.
    """
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "dataset": dataset,
        "machine": {**machine(), "threads": contest.threads},
        "facts": facts(contest.train, contest.test),
        "rows": [],
    }
    for method in methods:
        own = (settings or {}).get(method)
        by_distance = sorted(ks, key=lambda k: abs(k - 100))  # what is chosen at 100 holds for the others
        for k in by_distance if METHODS[method].every_k else by_distance[:1]:
            row = contest.run(method, k, own)
            own = row.get("chosen") if METHODS[method].module == "baseline" else None
            result["rows"].append(row)
            (out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "table.md").write_text(comparison(result))
    draw_all(result, out)
    return result


def facts(train: Corpus, test: Corpus) -> dict[str, int]:
    return {
        "train_documents": train.n_docs,
        "test_documents": test.n_docs,
        "terms": train.n_terms,
        "labels": train.n_labels,
    }


if __name__ == "__main__":
    main()
