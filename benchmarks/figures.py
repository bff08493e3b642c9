"""Results as figures: matplotlib, without a display; markers differ as well as colours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.methods import METHODS
from benchmarks.tables import main_k

Rows = list[dict[str, Any]]
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 150,
}


def draw_all(result: dict[str, Any], out: Path) -> list[Path]:
    """AUC and memory by K where there are several, and quality by seconds."""
    rows = [row for row in result["rows"] if row["status"] == "done"]
    drawn = []
    if len({row["k"] for row in rows} - {None}) > 1:
        scored = [row for row in rows if row.get("auc") is not None]
        drawn.append(by_k(scored, "auc", 1.0, "AUC, mean over test documents", result, out / "auc_by_k.png"))
        title = "memory while training, GB"
        drawn.append(by_k(rows, "train_peak_bytes", 1e-9, title, result, out / "memory_by_k.png"))
    drawn.append(quality_by_seconds(rows, result, out / "quality_by_seconds.png"))
    return drawn


def by_k(rows: Rows, name: str, unit: float, label: str, result: dict[str, Any], path: Path) -> Path:
    """A line for each method that has a K, a dashed one across for each that has none."""
    with figure(path, result["dataset"], (7.5, 4.5)) as (axes,):
        ks = draw_by_k(axes, rows, name, unit)
        axes.set(xlabel="K", ylabel=label, xticks=ks)
        axes.margins(x=0.03)
        beside(axes)
        if unit != 1.0:
            axes.set_ylim(bottom=0)
    return path


def draw_by_k(axes: Any, rows: Rows, name: str, unit: float) -> list[int]:
    ks = sorted({row["k"] for row in rows} - {None})
    for method, known in METHODS.items():
        own = sorted((row for row in rows if row["method"] == method), key=lambda row: row["k"] or 0)
        values = [unit * row[name] for row in own]
        look: dict[str, Any] = {"color": known.colour, "label": known.title}
        if own and known.has_k:
            axes.plot([row["k"] for row in own], values, marker=known.marker, markersize=5, **look)
        elif own:
            axes.axhline(values[0], linestyle="--", linewidth=1.2, **look)
    return ks


def quality_by_seconds(rows: Rows, result: dict[str, Any], path: Path) -> Path:
    """Each method at one K as a point; LEML as the way it takes, a point for each outer iteration."""
    k = main_k(result)
    rows = [row for row in rows if row["k"] in (None, k)]
    with figure(path, result["dataset"] + (f", K = {k}" if k else ""), (11, 4.5), 2) as panels:
        for axes, name, label in zip(panels, ("auc", "p@1"), ("AUC", "P@1"), strict=True):
            for row in rows:
                known = METHODS[row["method"]]
                curve = row.get("curve") or []
                if curve:
                    axes.plot(
                        [max(point["seconds"], 1e-3) for point in curve],
                        [point[name] for point in curve],
                        color=known.colour,
                        marker=".",
                        linewidth=1,
                        alpha=0.7,
                    )
                if row.get(name) is not None:
                    axes.plot(
                        row["train_seconds"],
                        row[name],
                        known.marker,
                        color=known.colour,
                        markersize=9,
                        label=known.title,
                    )
            axes.set(xscale="log", xlabel="seconds of training", ylabel=f"{label} on test documents")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
        beside(panels[1])
    return path


def beside(axes: Any) -> None:
    """The legend to the right: nothing of the data is covered."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), borderaxespad=0)


@contextmanager
def figure(
    path: Path, title: str, size: tuple[float, float], columns: int = 1, rows: int = 1
) -> Iterator[Any]:
    """Panels to draw in; written to `path` at the end."""
    with plt.rc_context(STYLE):
        drawing, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        drawing.suptitle(title)
        yield panels.ravel()
        drawing.savefig(path, metadata={"Software": None})
        plt.close(drawing)
