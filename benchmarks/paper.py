"""The paper's tables and its figure, drawn again: `python -m benchmarks.paper --out DIR`.

Table 1 is what was ingested beside what the paper states, Table 2 the labels that LEML and threepass give to
some documents, Table 3 the seconds of training, Figure 2 AUC and memory by K. A data set that is a folder of
`--data` (or THREEPASS_DATA) is taken from there. For any other one a planted corpus of its shape stands in,
with the share of its documents that `--scale` has, as in `--scale amazoncat=0.1`; the tables say so.

DIR gets `paper.md` and `figure2.png`, and for each data set a folder as `benchmarks.compare` makes it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import DEFAULT_K, Contest, compare, propensity_of
from benchmarks.datasets import data_folder, prepare_split
from benchmarks.figures import draw_by_k, figure
from benchmarks.methods import METHODS
from benchmarks.tables import machine_line, main_k, markdown, seconds
from threepass import Corpus, InputError, Manifest, find_manifest
from threepass.tasks import n_cpus

COMPARED = ("threepass-paper", "threepass", "leml")
LEML_SETTINGS = {"lam": 5.0, "bias": 0.0}
"""As `benchmarks.compare` chose them on Bibtex; a choice for each data set takes too long here."""
EXAMPLES = ("reuters21578-all", "bibtex", "delicious")
"""Data sets for Table 2, the first of them that is there: their labels have names."""
N_EXAMPLES = 3


@dataclass(frozen=True)
class Stated:
    """What the paper says of a data set."""

    name: str
    """Of its manifest, which has the counts of the paper's Table 1, and of its folder among the data."""
    shape: str
    """The planted corpus that can stand in."""
    seconds: tuple[float, float]
    """Of training at K = 100: LEML, and its own method."""
    speed_up: float
    auc: dict[str, dict[int, float]]
    """By method and K, as its author logged them."""
    scale: float = 1.0
    """Of the planted corpus, unless told otherwise."""
    n_outer: int = 5
    """Outer iterations of LEML, as the paper took them."""

    @property
    def manifest(self) -> Manifest:
        return find_manifest(self.name)


def _auc(
    ks: tuple[int, ...], paper: tuple[float, ...], leml: tuple[float, ...]
) -> dict[str, dict[int, float]]:
    own = {"threepass-paper": paper, "leml": leml}
    return {method: dict(zip(ks, values, strict=True)) for method, values in own.items() if values}


MINUTE, HOUR = 60.0, 3600.0
ENDS = (50, 150)
STATED = (
    Stated(
        "bibtex",
        "bibtex",
        (160, 300),
        0.53,
        _auc(DEFAULT_K, (0.8523, 0.8592, 0.8639, 0.8650, 0.8729), (0.9014, 0.9114, 0.9143, 0.9169, 0.9174)),
        n_outer=10,
    ),
    Stated(
        "delicious",
        "delicious",
        (60, 150),
        0.4,
        _auc(DEFAULT_K, (0.8461, 0.8462, 0.8465, 0.8482, 0.8490), (0.8357, 0.8330, 0.8307, 0.8287, 0.8276)),
        n_outer=10,
    ),
    Stated(
        "nytimes",
        "nytimes",
        (HOUR, 6 * MINUTE),
        10,
        _auc(ENDS, (0.9748, 0.9772), (0.9764, 0.9796)),
    ),
    Stated(
        "wiki10-31k",
        "wiki31k",
        (3 * HOUR + 40 * MINUTE, 15 * MINUTE),
        15,
        _auc(ENDS, (0.9109, 0.9128), (0.9129, 0.9021)),
    ),
    Stated(
        "amazoncat-13k",
        "amazoncat",
        (13 * HOUR, 75 * MINUTE),
        10,
        _auc(ENDS, (0.9716, 0.9775), (0.9770, 0.9731)),
        scale=0.1,
    ),
    Stated(
        "wikilshtc-325k",
        "wikilshtc",
        (48 * HOUR, 3 * HOUR),
        16,
        {},
        scale=0.005,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for results, made if absent")
    parser.add_argument("--data", type=Path, help="folder of data sets; THREEPASS_DATA if absent")
    parser.add_argument("--only", help=f"some of {','.join(stated.shape for stated in STATED)}")
    parser.add_argument("--scale", action="append", default=[], metavar="SHAPE=SHARE")
    parser.add_argument("--k", default=",".join(map(str, DEFAULT_K)), help="numbers of topics, or ranks")
    parser.add_argument("--test-docs", type=int, default=5000, help="measure on the first so many documents")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds that a method may take")
    parser.add_argument("--threads", type=int, default=n_cpus())
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder if absent")
    arguments = parser.parse_args()
    try:
        run(arguments)
    except InputError as error:
        sys.exit(f"benchmarks.paper: {error}")


def run(arguments: argparse.Namespace) -> None:
    scales = {shape: float(share) for shape, share in (pair.split("=") for pair in arguments.scale)}
    only = arguments.only.split(",") if arguments.only else [stated.shape for stated in STATED]
    ks = [int(k) for k in arguments.k.split(",")]
    try:
        data: Path | None = data_folder(arguments.data)
    except InputError:
        data = None  # every data set is planted
    found = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        for stated in STATED:
            if stated.shape in only:
                scale = scales.get(stated.shape, stated.scale)
                source = stated.name if has(data, stated.name) else f"{stated.shape}:{scale:g}"
                contest = start(source, data, folder, arguments)
                leml = {**LEML_SETTINGS, "n_outer": stated.n_outer}
                out = arguments.out / stated.shape
                rows = compare(contest, source, COMPARED, ks, out, {"leml": leml})
                found.append(Found(stated, source, rows, lengths(contest.train, contest.test)))
        parts = [table_1(found), table_3(found), figure_2(found, arguments.out / "figure2.png")]
        named = next((name for name in EXAMPLES if has(data, name)), None)
        if named is not None:
            contest = start(named, data, folder, arguments)
            for method in COMPARED:
                leml = {**LEML_SETTINGS, "n_outer": 5} if method == "leml" else None
                contest.run(method, 100, leml)
            parts.insert(1, table_2(contest, named))
        (arguments.out / "paper.md").write_text(f"{machine_line(found[0].result)}\n\n" + "\n".join(parts))
    print((arguments.out / "paper.md").read_text())


def has(data: Path | None, name: str) -> bool:
    return data is not None and any((data / name).glob("train.txt*"))


def start(source: str, data: Path | None, folder: Path, arguments: argparse.Namespace) -> Contest:
    split = prepare_split(source, data, folder, arguments.test_docs)
    propensity = propensity_of(source)
    return Contest(split, folder, arguments.threads, timeout=arguments.timeout, propensity=propensity)


@dataclass(frozen=True)
class Found:
    """What was measured, beside what the paper states."""

    stated: Stated
    source: str
    result: dict[str, Any]
    lengths: tuple[float, ...]
    """Mean and median features of a document, mean and median labels; of training and test documents."""

    @property
    def name(self) -> str:
        """With a word where it is not the real data."""
        _, planted, scale = self.source.partition(":")
        return (
            f"{self.stated.manifest.title} (planted, {100 * float(scale):g}% of the documents)"
            if planted
            else self.stated.manifest.title
        )


def lengths(*corpora: Corpus) -> tuple[float, ...]:
    """Mean and median of the features and of the labels of a document."""
    blocks = [block for corpus in corpora for block in corpus.blocks()]
    counts = [
        np.concatenate([np.diff(rows.indptr) for rows in side])
        for side in ([block.X for block in blocks], [block.Y for block in blocks])
    ]
    return tuple(float(of(count)) for count in counts for of in (np.mean, np.median))


def table_1(found: list[Found]) -> str:
    """Counts as ingested, and in brackets as stated."""
    rows = []
    for row in found:
        facts, stated = row.result["facts"], row.stated.manifest.counts
        counts = [facts[name] for name in ("terms", "labels", "train_documents", "test_documents")]
        wanted = [stated.features, stated.labels, stated.train_documents, stated.test_documents]
        pairs = [f"{ours:,} ({theirs:,})" for ours, theirs in zip(counts, wanted, strict=True)]
        wanted_lengths = (
            stated.mean_features,
            stated.median_features,
            stated.mean_labels,
            stated.median_labels,
        )
        means = [f"{ours:.4g} ({theirs})" for ours, theirs in zip(row.lengths, wanted_lengths, strict=True)]
        rows.append([row.name, *pairs, *means])
    head = ["data", "features", "labels", "training documents", "test documents"]
    head += ["features a document, mean", "median", "labels a document, mean", "median"]
    text = (
        "**Table 1.** What was ingested, in brackets what the paper states. Test documents are those that\n"
    )
    return text + "were measured on.\n\n" + markdown(head, rows)


def table_2(contest: Contest, name: str) -> str:
    """The best labels of the first test documents that have at least three."""
    names = contest.train.labels
    counts = np.diff(contest.truth.indptr)
    rows = []
    for document in np.flatnonzero(counts >= 3)[:N_EXAMPLES].tolist():
        entries = slice(*contest.truth.indptr[document : document + 2].tolist())
        true = contest.truth.indices[entries].tolist()
        cells = ["; ".join(names[label] for label in true)]
        for method in COMPARED:
            with np.load(contest.folder / f"{method}-100.npz") as best:
                pairs = zip(best["labels"][document].tolist(), best["scores"][document].tolist(), strict=True)
                cells.append(
                    "; ".join(
                        f"**{names[label]}** ({score:.2f})"
                        if label in true
                        else f"{names[label]} ({score:.2f})"
                        for label, score in pairs
                    )
                )
        rows.append([cell.replace("|", "/") for cell in cells])
    head = ["true labels", *(METHODS[method].title for method in COMPARED)]
    text = f"**Table 2.** Labels and scores of some test documents of {name}, K = 100; true ones in bold.\n"
    return text + "Scores of different methods cannot be compared.\n\n" + markdown(head, rows)


def table_3(found: list[Found]) -> str:
    """Seconds of training, and how many times as fast as LEML."""
    rows = []
    for row in found:
        k = main_k(row.result)
        took = {one["method"]: one.get("train_seconds") for one in row.result["rows"] if one["k"] == k}
        leml, paper, default = (took.get(method) for method in ("leml", "threepass-paper", "threepass"))
        stated = row.stated.seconds
        rows.append(
            [
                row.name,
                *(seconds(value) for value in (leml, paper)),
                times(leml, paper),
                seconds(default),
                times(leml, default),
                *(seconds(value) for value in stated),
                f"{row.stated.speed_up:g}",
            ]
        )
    head = ["data", "LEML", "threepass, paper's head", "speed-up", "threepass, default", "speed-up"]
    head += ["stated: LEML", "its method", "speed-up"]
    text = (
        "**Table 3.** Seconds of training at K = 100. LEML has as many outer iterations as in the paper, 10\n"
        "on Bibtex and Delicious and 5 elsewhere, and lambda = 5, as chosen on Bibtex.\n\n"
    )
    return text + markdown(head, rows)


def times(slow: float | None, fast: float | None) -> str:
    return "" if slow is None or fast is None else f"{slow / fast:.3g}"


def figure_2(found: list[Found], path: Path) -> str:
    """AUC and memory by K, a row of two panels for each data set."""
    with figure(path, "AUC and memory by K", (11, 3.1 * len(found)), 2, len(found)) as panels:
        for row, (left, right) in zip(found, panels.reshape(-1, 2), strict=True):
            done = [one for one in row.result["rows"] if one["status"] == "done"]
            ks = draw_by_k(left, [one for one in done if one.get("auc") is not None], "auc", 1.0)
            for method, values in row.stated.auc.items():
                label = f"{METHODS[method].title}, as logged by the paper's author"
                colour = METHODS[method].colour
                left.plot(list(values), list(values.values()), ":", color=colour, label=label)
            draw_by_k(right, done, "train_peak_bytes", 1e-9)
            left.set(title=row.name, ylabel="AUC", xlabel="K", xticks=ks)
            right.set(ylabel="memory while training, GB", xlabel="K", xticks=ks)
            right.set_ylim(bottom=0)
        panels[0].legend(loc="center right", fontsize=7)
    (path.with_suffix(".json")).write_text(
        json.dumps([{"data": row.name, "rows": row.result["rows"]} for row in found], indent=1) + "\n"
    )
    return f"**Figure 2.** AUC and memory by K.\n\n![AUC and memory by K]({path.name})\n"


if __name__ == "__main__":
    main()
