"""Seconds until a command answers: `python -m benchmarks.startup [--model MODEL] [--before EXECUTABLE]`.

Commands take turns, each in a process of its own, and the best time of each counts. Beside each stands one
that does what cannot be spared, or another version of the same, and the bar that their ratio has to meet.
`--model` also labels one text with a model that was fitted to texts; `--before` names the executable
`threepass` of another version, and `--before-model` its model where it reads another format.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from benchmarks.tables import markdown

TEXT = "sort an array along an axis\n"
# Small, for the memory of a process that starts another counts as the other's too.
LAUNCHER = """
import json, os, subprocess, sys, time
command, text = json.loads(sys.argv[1])
reading, writing = os.pipe()
os.write(writing, text.encode())
os.close(writing)
started = time.perf_counter()
process = subprocess.Popen(command, stdin=reading, stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
seconds = time.perf_counter() - started
process.returncode = os.waitstatus_to_exitcode(status)
print(json.dumps({"seconds": seconds, "peak_mb": usage.ru_maxrss / 1000, "code": process.returncode}))
"""


@dataclass(frozen=True, slots=True)
class Start:
    """A command, another to compare it with, and the bar: `factor` times as long, and `extra`."""

    what: str
    command: tuple[str, ...]
    beside: str = ""
    reference: tuple[str, ...] = ()
    """Empty where there is nothing to compare with."""
    factor: float = 1.0
    extra: float = 0.0
    """Seconds."""

    @property
    def bar(self) -> str:
        if not self.reference:
            return ""
        return f"{self.factor:.3g} x" + (f" + {1000 * self.extra:.0f} ms" if self.extra else "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", type=Path, help="one that was fitted to texts")
    parser.add_argument("--before", help="the executable of another version")
    parser.add_argument("--before-model", type=Path, help="its model; the same if absent")
    arguments = parser.parse_args()
    rows = measure(starts(arguments.model, arguments.before, arguments.before_model), arguments.rounds)
    print(table(rows))
    print(json.dumps({"machine": machine(), "rows": rows}, indent=2))


def starts(model: Path | None, before: str | None, before_model: Path | None) -> list[Start]:
    """All that is measured."""
    python, threepass = sys.executable, str(Path(sys.executable).with_name("threepass"))
    libraries, nothing = "import typer, rich.console", "import importlib.metadata"
    found = [
        Start(" ".join(["threepass", *words]), (threepass, *words), libraries, (python, "-c", libraries), 2.5)
        for words in (("--help",), ("fit", "--help"))
    ]
    code = "import threepass"
    found.append(Start(code, (python, "-c", code), nothing, (python, "-c", nothing), 1.5, 0.03))
    if model is not None:
        what, command = "echo text | threepass predict MODEL -", (threepass, "predict", str(model), "-")
        old = () if before is None else (before, "predict", str(before_model or model), "-")
        found.append(Start(what, command, "before" if old else "", old, 1 / 3))
    return found


def measure(started: Sequence[Start], rounds: int) -> list[dict[str, Any]]:
    """A row for each start: best seconds and most memory of it and of what is beside it."""
    commands = dict.fromkeys(command for start in started for command in (start.command, start.reference))
    runs: dict[tuple[str, ...], list[dict[str, float]]] = {command: [] for command in commands if command}
    for _ in range(rounds):
        for command, found in runs.items():
            found.append(launch(command))
    rows = []
    for start in started:
        row: dict[str, Any] = {"what": start.what, **best(runs[start.command])}
        if start.reference:
            other = best(runs[start.reference])
            row |= {"beside": start.beside} | {f"beside_{name}": value for name, value in other.items()}
            row["ratio"] = round(row["seconds"] / other["seconds"], 3)
            row["bar"] = start.bar
            row["holds"] = row["seconds"] <= start.factor * other["seconds"] + start.extra
        rows.append(row)
    return rows


def launch(command: Sequence[str]) -> dict[str, float]:
    """Seconds and megabytes of a process that is given a text."""
    job = json.dumps([list(command), TEXT])
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, job], capture_output=True, text=True, check=True
    )
    answer: dict[str, float] = json.loads(run.stdout)
    if answer.pop("code"):
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr[-2000:]}")
    return answer


def best(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {
        "seconds": round(min(run["seconds"] for run in runs), 4),
        "peak_mb": round(max(run["peak_mb"] for run in runs), 1),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A row for each start; the bar stands beside the ratio."""
    cells = []
    for row in rows:
        own = [row["what"].replace("|", "\\|"), f"{1000 * row['seconds']:.0f} ms", f"{row['peak_mb']:.0f} MB"]
        other = [""] * 5
        if "beside" in row:
            other = [
                row["beside"],
                f"{1000 * row['beside_seconds']:.0f} ms",
                f"{row['beside_peak_mb']:.0f} MB",
                f"{row['ratio']:.2f}",
                f"{row['bar']}{'' if row['holds'] else ' (missed)'}",
            ]
        cells.append([*own, *other])
    return markdown(["", "time", "memory", "beside", "its time", "its memory", "ratio", "bar"], cells)


if __name__ == "__main__":
    main()
