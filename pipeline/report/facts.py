"""Facts about a fitted model, as rows and sentences for the page.

`fit_stats_` is read from disk, and anybody may have written it: every value is checked before it is shown.
"""

from __future__ import annotations

import inspect
import json
import math
import shlex
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..display import how_many
from ..metrics.scores import Scores, percent
from ..model.predictor import Predictor
from ..parts.posterior import Posterior
from .measures import Measures

TABLE_BYTES = 1_000_000
"""Most bytes of the table of labels."""
TABLE_LABELS = 10_000
_READS = {"pairs": "read 1", "triples": "read 2", "labels": "read 3", "refine": "a further read"}
"""Reads, by the first word of their stage."""
_OPTIONS = {
    "n_components": "-k",
    "head": "--head",
    "head_dim": "--head-dim",
    "weighting": "--weighting",
    "refine_passes": "--refine-passes",
    "tail_weight": "--tail-weight",
    "memory_limit": "--memory-limit",
    "tensor": "--tensor",
    "whitening": "--whitening",
    "self_pairs": "--self-pairs",
    "words": "--words",
    "random_state": "--seed",
}
_OF_NO_EFFECT = {"n_jobs"}
"""Parameters that do not change the model."""


@dataclass(frozen=True, slots=True)
class StageRow:
    """Time and memory of a stage of the fit."""

    name: str
    read: str
    seconds: float
    planned: float | None
    """Bytes that the plan allowed for."""
    peak: float | None
    """Most bytes that the process had held by the end of the stage."""


def clip(name: str, most: int = 40) -> str:
    """A name, shortened to `most` characters."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def number(value: Any) -> float | None:
    """The value as a float; None unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def numbers(value: Any) -> dict[str, float]:
    """Entries of a dictionary that are numbers; empty for anything else."""
    if not isinstance(value, dict):
        return {}
    return {str(name): found for name, entry in value.items() if (found := number(entry)) is not None}


def stages(model: Predictor) -> list[StageRow]:
    """All stages, in the order in which they ran."""
    stats = model.fit_stats
    plan = stats.get("plan")
    planned: dict[str, float] = {}
    for row in plan.get("stages", ()) if isinstance(plan, dict) else ():
        if isinstance(row, dict) and (size := number(row.get("bytes"))) is not None:
            planned[str(row.get("stage"))] = size
    peaks = numbers(stats.get("peak_bytes"))
    return [
        StageRow(
            clip(name), _READS.get(name.partition(" ")[0], ""), seconds, planned.get(name), peaks.get(name)
        )
        for name, seconds in numbers(stats.get("seconds")).items()
    ]


def further_eigenvalues(model: Predictor) -> list[float]:
    """Eigenvalues after the first K, if the model has them."""
    found = model.fit_stats.get("further_eigenvalues")
    values = [number(value) for value in found] if isinstance(found, list) else []
    return [value for value in values if value is not None and value > 0]


def held_out(model: Predictor) -> dict[str, float]:
    """Measures on the training documents that were held out for choices."""
    stats = model.fit_stats
    return numbers(stats.get("held_out"))


def judged(scores: Scores) -> str:
    """Sentence about the documents that the model was evaluated on."""
    n, share = scores["n_docs"], percent(scores["familiar"] or 0)
    documents = how_many(n, "document")
    remembers = "this says how well it remembers them, not how well it does on new documents"
    return {
        "training": f"Judged on the {documents} that it was trained on: {remembers}.",
        "part of training": f"Judged on {n:,} of the documents that it was trained on: {remembers}.",
        "overlapping": f"Judged on {documents}, about {share} of which it was trained on: expect less of "
        "new ones.",
        "unseen": f"Judged on {documents} that it had not seen.",
    }.get(scores["documents_are"], f"Judged on {documents}; whether it had seen them cannot be told.")


def calibrated_on(model: Predictor) -> str:
    """Sentence about the documents that scores were calibrated on; empty if they were not."""
    stats = model.fit_stats
    n_docs, chosen_on = number(stats.get("held_out_docs")), stats.get("chosen_on")
    if not model.blend.is_calibrated or not n_docs or not isinstance(chosen_on, str):
        return ""
    if chosen_on == "held-out training documents":
        return f"These were {n_docs:,.0f} training documents."
    return f"These were {clip(chosen_on, 60)}, {n_docs:,.0f} in all."


def about_guarantee(model: Predictor) -> str:
    """Sentences about the topics that the theorem and the error bars are about, and their part in scores."""
    about = "The theorem and the error bars are about the topics as the paper's method found them."
    used = " and ".join(part.described for part in model.blend.parts)
    promised = any(isinstance(part, Posterior) for part in model.blend.parts)
    return (
        f"{about} This model scores labels by {used}{'' if promised else '; nothing is promised of these'}."
    )


def corpus_facts(model: Predictor) -> list[tuple[str, str]]:
    """Names and values of facts about the training corpus."""
    s, counts = model.moments.statistics, model.label_counts
    D, L = model.n_terms, len(counts)
    word = "different words" if model.parameters.get("words") == "binary" else "words"
    facts = [
        ("documents", f"{s.n_docs:,}"),
        ("of them with labels", f"{s.n_labelled:,}"),
        ("words in the vocabulary", f"{D:,}"),
        (f"{word} in a document", f"{s.words / s.n_docs:.1f} on average"),
        ("labels", f"{L:,}"),
        ("labels on a document", f"{counts.sum() / s.n_docs:.2f} on average"),
        ("documents of a label", f"median {np.median(counts):g}, at most {counts.max():,}"),
        ("labels seen less than 5 times", f"{(counts < 5).mean():.0%}"),
    ]
    corpus = model.fit_stats.get("corpus")
    if isinstance(corpus, dict):
        facts += [
            ("came from", clip(str(corpus.get("kind", "unknown")))),
            ("fingerprint", clip(str(corpus.get("fingerprint", "unknown")))),
        ]
    return facts


def size_facts(model: Predictor) -> list[tuple[str, str]]:
    """Bytes of the model and of each of its parts, in words."""
    rows = [("model", number(model.fit_stats.get("model_bytes")))]
    rows += [(clip(name), size) for name, size in numbers(model.fit_stats.get("part_bytes")).items()]
    return [(name, f"{size / 1e6:,.1f} MB") for name, size in rows if size is not None]


def label_rows(model: Predictor, measures: Measures | None) -> list[list[Any]]:
    """Rows of the most frequent labels, as many as fit.

    A row has the name, the number of documents, the main topic and its share; and with measures the numbers
    of test documents that have the label, and of those where it was found.
    """
    counts, topics = model.label_counts, model.moments
    order = np.argsort(-counts, kind="stable")[:TABLE_LABELS]
    joint = topics.Q[order].astype(np.float64) * topics.pi  # P[label, topic]
    main = joint.argmax(axis=1)
    share = joint[np.arange(len(order)), main] / np.maximum(joint.sum(axis=1), 1e-300)
    rows: list[list[Any]] = []
    size = 0
    for place, label in enumerate(order.tolist()):
        row: list[Any] = [
            clip(model.label_names[label], 80),
            int(counts[label]),
            int(main[place]),
            round(float(share[place]), 3),
        ]
        if measures is not None:
            row += [int(measures.labels.true[label]), int(measures.labels.found[label])]
        size += len(embedded(row)) + 1
        if size > TABLE_BYTES:
            break
        rows.append(row)
    return rows


def embedded(value: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII alone
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def changed_parameters(model: Predictor) -> dict[str, Any]:
    """Parameters that differ from the default and change the model."""
    from ..model.labeler import MomentLabeler

    defaults = inspect.signature(MomentLabeler.__init__).parameters
    values = dict(model.parameters)
    return {
        name: values[name]
        for name, parameter in defaults.items()
        if name in values and name not in _OF_NO_EFFECT and values[name] != parameter.default
    }


def fit_command(model: Predictor) -> str | None:
    """Command that reproduces the fit; None where a parameter has no option."""
    changed = changed_parameters(model)
    if not changed.keys() <= _OPTIONS.keys():
        return None
    changed = {"n_components": model.parameters["n_components"], **changed}
    options = [f"{_OPTIONS[name]} {shlex.quote(str(value))}" for name, value in changed.items()]
    return " ".join(["threepass fit train.zarr model.zarr", *options])


def fit_python(model: Predictor) -> str:
    """Python call that reproduces the fit."""
    changed = ", ".join(f"{name}={value!r}" for name, value in changed_parameters(model).items())
    return f'MomentLabeler({changed}).fit(Corpus.open("train.zarr"))'
