"""Results as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.methods import METHODS

Row = dict[str, Any]
PERCENT = {
    "p@1": "P@1",
    "p@3": "P@3",
    "p@5": "P@5",
    "ndcg@5": "nDCG@5",
    "psp@1": "PSP@1",
    "psp@5": "PSP@5",
}


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table: first column to the left, the others to the right."""
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def main_k(result: dict[str, Any]) -> int | None:
    """The number of topics that is shown where there is room for one: 100, or the one nearest to it."""
    ks = {row["k"] for row in result["rows"] if row["k"] is not None}
    return min(ks, key=lambda k: (abs(k - 100), k), default=None)


def comparison(result: dict[str, Any]) -> str:
    """All methods at one K; then AUC, seconds and memory by K; and what the columns mean."""
    facts, k = result["facts"], main_k(result)
    of_k = f", K = {k}" if k is not None else ""
    text = (
        f"**{result['dataset']}**: {facts['train_documents']:,} training and {facts['test_documents']:,} "
        f"test documents, {facts['terms']:,} terms, {facts['labels']:,} labels{of_k}. "
        f"{machine_line(result)}\n\n"
    )
    rows = [row for row in result["rows"] if row["k"] in (None, k)]
    text += markdown(
        ["method", "AUC", *PERCENT.values(), "train", "choice", "predict", "memory", "model"],
        [[METHODS[row["method"]].title, *cells(row)] for row in rows],
    )
    for name, title, show in BY_K:
        table = by_k(result, name, show)
        if table:
            text += f"\n{title}\n\n{table}"
    return text


def machine_line(result: dict[str, Any]) -> str:
    """What it was measured on."""
    machine = result["machine"]
    return (
        f"{machine['threads']} threads on {machine['cpu']}, {machine['memory_gb']:.0f} GB, "
        f"Python {machine['python']}."
    )


def cells(row: Row) -> list[str]:
    """What was measured; a row that was not says why in its second cell."""
    if row["status"] != "done":
        return [f"{row['status']}: {row['reason']}"[:80].replace("|", "/"), *[""] * (len(PERCENT) + 5)]
    return [
        shown_auc(row.get("auc")),
        *(f"{100 * row[name]:.1f}" for name in PERCENT),
        seconds(row["train_seconds"]),
        seconds(row.get("choose_seconds")),
        seconds(row["predict_seconds"]),
        gigabytes(row["train_peak_bytes"]),
        f"{row['model_bytes'] / 1e6:,.1f} MB",
    ]


def by_k(result: dict[str, Any], name: str, show: Callable[[Any], str]) -> str:
    """One number of each method that has a K, for each K; empty where there is only one K."""
    ks = sorted({row["k"] for row in result["rows"] if row["k"] is not None})
    found = {(row["method"], row["k"]): row.get(name) for row in result["rows"] if row["status"] == "done"}
    methods = [method for method in METHODS if any((method, k) in found for k in ks)]
    if len(ks) < 2 or not methods:
        return ""
    rows = [[METHODS[method].title, *(show(found.get((method, k))) for k in ks)] for method in methods]
    return markdown(["method", *(f"K = {k}" for k in ks)], rows)


def shown_auc(auc: float | None) -> str:
    return "" if auc is None else f"{auc:.4f}".removeprefix("0")


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f} s" if value >= 99.5 else f"{value:.3g} s"


def gigabytes(value: int | None) -> str:
    return "" if value is None else f"{value / 1e9:.2f} GB"


BY_K: list[tuple[str, str, Callable[[Any], str]]] = [
    ("auc", "AUC:", shown_auc),
    ("train_seconds", "Seconds of training:", seconds),
    ("train_peak_bytes", "Memory of training:", gigabytes),
]
