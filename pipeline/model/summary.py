"""Summaries of a fitted model: a dictionary, text for a terminal, and HTML for a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..display import how_many, html_table
from ..storage.marks import written_by

if TYPE_CHECKING:
    from .predictor import Predictor


def describe_model(path: str | Path) -> dict[str, Any]:
    """Describe a saved model: what it learned, from what, how well, and its size; ready for JSON."""
    from .files import load_predictor, open_model

    model = load_predictor(path)
    _, mark = open_model(path)
    stats = model.fit_stats
    folder = Path(path)
    files = [file for file in folder.rglob("*") if file.is_file()] if folder.is_dir() else []
    return {
        "path": str(path),
        "head": model.blend.head,
        "topics": model.moments.n_topics,
        "terms": model.n_terms,
        "labels": model.n_labels,
        "takes_texts": model.text is not None,
        "scores_mean": model.scores_mean,
        "threshold": model.threshold,
        "threshold_micro_f1": _entries(stats, "threshold").get("micro_f1"),
        "held_out_docs": stats.get("held_out_docs", 0),
        "chosen_on": stats.get("chosen_on"),
        "held_out": _entries(stats, "held_out"),
        "training_documents": model.moments.statistics.n_docs,
        "corpus": _entries(stats, "corpus"),
        "parameters": dict(model.parameters),
        "fit_seconds": sum(_entries(stats, "seconds").values()),
        "bytes_on_disk": sum(file.stat().st_size for file in files) or None,
        "written_by": written_by(mark),
    }


def _entries(stats: dict[str, Any], name: str) -> dict[str, Any]:
    found = stats.get(name)
    return found if isinstance(found, dict) else {}


def render_model(description: dict[str, Any]) -> str:
    """The description as text, for people."""
    d = description
    sizes = (how_many(d[f"{noun}s"], noun) for noun in ("topic", "term", "label"))
    corpus, disk = d["corpus"], d["bytes_on_disk"]
    came_from = [f"{key} {corpus[key]}" for key in ("kind", "fingerprint") if key in corpus]
    lines = [
        f"a model with the head {d['head']}: {', '.join(sizes)}",
        f"scores: {d['scores_mean']}",
        _threshold(d),
        _held_out(d) if d["held_out"] else "",
        f"learned from {how_many(d['training_documents'], 'document')}"
        + (f": {', '.join(came_from)}" if came_from else "")
        + f"; fitted in {d['fit_seconds']:.1f} s",
        f"{disk / 1e6:,.1f} MB on disk" if disk else "",
        "takes raw texts"
        if d["takes_texts"]
        else "takes words as columns of a matrix or corpus, no raw texts",
        f"written by {d['written_by']}" if d["written_by"] else "",
    ]
    return _printable("\n".join(line for line in lines if line))


def _threshold(d: dict[str, Any]) -> str:
    if d["threshold"] is None:
        return "threshold: none; predict assigns as many labels as a training document has on average"
    f1 = d["threshold_micro_f1"]
    measured = "" if f1 is None else f", of the best micro-F1, {f1:.3f}"
    return f"threshold: {d['threshold']:.3f}{measured}"


def _held_out(d: dict[str, Any]) -> str:
    scores = ", ".join(f"{name} {value:.3f}" for name, value in d["held_out"].items())
    chosen_on = f"chosen on {d['chosen_on']}" if d["chosen_on"] else "chosen"
    return f"{chosen_on}, {how_many(d['held_out_docs'], 'document')}: {scores}"


def _printable(text: str) -> str:
    """Without control characters, which a stranger's model may hold for the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def fitted_table(model: Predictor) -> str:
    """HTML: what was learned, and how well it did on held-out training documents."""
    stats = model.fit_stats
    rows = [
        ("topics", f"{model.moments.n_topics:,}"),
        ("terms", f"{model.n_terms:,}"),
        ("labels", f"{model.n_labels:,}"),
        ("training documents", f"{model.moments.statistics.n_docs:,}"),
        ("head", model.blend.head),
        ("scores mean", model.scores_mean),
        ("reads of the corpus", f"{model.n_passes:,}"),
        ("seconds", f"{sum(_entries(stats, 'seconds').values()):.1f}"),
        *((f"{name}, held out", f"{value:.4f}") for name, value in _entries(stats, "held_out").items()),
    ]
    return html_table("Fitted", rows)
