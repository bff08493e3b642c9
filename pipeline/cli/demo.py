"""The command `threepass demo`: the whole way, from text that is on this machine already."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..display import how_many
from .display import ProgressDisplay
from .options import Json, Quiet, tell
from .startup import loading

if TYPE_CHECKING:
    from ..report.demo import Demo, Prediction

_TOPICS = 8


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where to write corpus, model and report.")
    ] = Path("threepass-demo"),
    packages: Annotated[
        list[str] | None,
        typer.Option("--package", metavar="NAME", help="Read only this installed package; may be repeated."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the DIR of an earlier demo.")
    ] = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Learn from the documentation of the Python libraries on this machine. Needs no data and no network."""
    with loading(quiet):
        from ..ingest.docstrings import PACKAGES
        from ..report.demo import REPORT, run_demo
    with ProgressDisplay(quiet) as progress:
        done = run_demo(out, packages=packages or PACKAGES, overwrite=overwrite, progress=progress)
    numbers = {
        "documents": done.corpus.n_docs,
        "terms": done.corpus.n_terms,
        "labels": done.corpus.n_labels,
        "scores": done.scores,
        "seconds": done.seconds,
        "report_bytes": (done.folder / REPORT).stat().st_size,
        "folder": str(done.folder),
    }
    tell("\n".join(_lines(done)), numbers, json_file)


def _lines(done: Demo) -> list[str]:
    from ..report.demo import CORPUS, MODEL, REPORT

    corpus, model = done.corpus, done.model
    seconds = ", ".join(f"{stage} {value:.1f} s" for stage, value in done.seconds.items())
    sizes = ", ".join(
        [
            how_many(corpus.n_docs, "docstring"),
            how_many(corpus.n_terms, "different word"),
            how_many(corpus.n_labels, "label"),
        ]
    )
    topics = how_many(len(model.topic_weights_), "topic")
    learned = f"{topics} from {how_many(model.statistics_.n_docs, 'document')}"
    lines = [
        f"{sizes}, from Python libraries on this machine.",
        "From what a docstring says, predict where its object lives (numpy, numpy.linalg, ...), what it is",
        "(class, function, method, ...) and what it takes (takes axis, ...). Its name, its signature, code",
        "and the names of its parameters were taken out of the text.",
        "",
        f"{learned}; the heaviest:",
    ]
    for topic in model.topics(6)[:_TOPICS]:
        words, labels = (", ".join(name for name, _ in side) for side in (topic.words, topic.labels[:3]))
        lines.append(f"  {topic.weight:5.1%}  {words}  ->  {labels}")
    lines += ["", "On documents that were held out, how many of the best labels are right:"]
    lines.append(f"  {'':<22} {'P@1':>7} {'P@3':>7} {'P@5':>7} {'nDCG@5':>7} {'AUC':>7}")
    for name, scores in done.scores.items():
        lines.append(f"  {name:<22} " + " ".join(f"{score:7.3f}" for score in scores.values()))
    lines += ["", "Three of them:"]
    for prediction in done.predictions:
        lines += _prediction_lines(prediction)
    lines += [
        f"All of this and more, to look at: {done.folder / REPORT}",
        f"Time: {seconds}; {sum(done.seconds.values()):.0f} s in all.",
        f"Corpus and model are beside it: {done.folder / CORPUS}, {done.folder / MODEL}",
        "",
        "Ask the model something of your own:",
        f"  echo 'sort an array along an axis' | threepass predict {done.folder / MODEL} -",
        "",
        "Next, with data of your own, a file with a text and its tags on each line:",
        "  threepass ingest posts.jsonl posts.zarr --text title,body --labels tags",
        "  threepass fit posts.zarr model.zarr",
        "  threepass predict model.zarr new.jsonl labels.jsonl",
    ]
    return lines


def _prediction_lines(prediction: Prediction) -> list[str]:
    flat = " ".join(prediction.document.text.split())
    labels: list[Any] = [
        f"{name} {score:.2f} {'ok' if right else 'no'}" for name, score, right in prediction.labels
    ]
    words = ", ".join(name for name, gain in prediction.explanation.words if gain > 0)
    return [
        *textwrap.wrap(
            f'"{textwrap.shorten(flat, 200, placeholder=" ...")}"',
            100,
            initial_indent="  ",
            subsequent_indent="  ",
        ),
        f"    labels:   {', '.join(labels)}",
        f"    evidence: {words or 'no single word'}  ->  {prediction.explanation.label}",
        f"    it is:    {prediction.document.name}",
        "",
    ]
