"""The command `threepass fit`: on threads or workers, with a plan, a log, and a way to go on after a kill."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..display import how_many
from ..errors import StoreError
from ..progress import begin
from ..storage.destination import last_finished
from .display import ProgressDisplay
from .interrupt import leaves
from .options import Json, Overwrite, Quiet, Threads, tell
from .startup import loading

if TYPE_CHECKING:
    from ..corpus.store import Corpus
    from ..model.labeler import MomentLabeler

DASHBOARD = "127.0.0.1:8787"

# options, by the panel of the help that they stand in
learning = partial(typer.Option, rich_help_panel="How it learns")
on_workers = partial(typer.Option, rich_help_panel="On workers, or a Dask cluster")
kept = partial(typer.Option, rich_help_panel="What is kept on the way")


def fit(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A corpus to learn from.")],
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Where to write the model, as in model.zarr.")
    ],
    n_components: Annotated[
        int, typer.Option("-k", "--topics", "--n-components", min=1, help="Number of topics.")
    ] = 100,
    head: Annotated[
        str,
        learning(help="auto, posterior (the paper's), refined, ridge, blend or sharp."),
    ] = "auto",
    head_dim: Annotated[
        int | None,
        learning(min=1, help="Features of the ridge regression; chosen if absent."),
    ] = None,
    weighting: Annotated[
        str,
        learning(help="Word weights of the ridge regression: log, counts or binary, times idf."),
    ] = "log",
    refine_passes: Annotated[
        int,
        learning(min=0, help="Further reads that refine the topics with labels."),
    ] = 0,
    tail_weight: Annotated[
        float,
        learning(min=0, max=1, help="0 ranks by probability, 1 favours rare labels."),
    ] = 0.0,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory that the process may use, as in 4GB.")
    ] = None,
    tensor: Annotated[str, learning(help="orthogonal or power.")] = "orthogonal",
    whitening: Annotated[str, learning(help="auto, exact or sketch.")] = "auto",
    self_pairs: Annotated[str, learning(help="keep (as the paper) or drop.")] = "keep",
    words: Annotated[str, learning(help="binary (as the paper) or counts.")] = "binary",
    seed: Annotated[int, learning(help="Seed of sketch and decomposition.")] = 0,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only print the memory and time that it would take.")
    ] = False,
    threads: Threads = None,
    workers: Annotated[
        int,
        on_workers(min=0, help="Worker processes to start on this machine; 0: threads alone."),
    ] = 0,
    threads_per_worker: Annotated[int, on_workers(min=1, help="Threads of each worker.")] = 1,
    worker_memory: Annotated[
        str,
        on_workers(metavar="SIZE", help="Memory that each worker may use, as in 4GB."),
    ] = "auto",
    scheduler: Annotated[
        str | None,
        on_workers(metavar="URL", help="A Dask cluster to join, as in tls://host:8786."),
    ] = None,
    tls_ca_file: Annotated[
        Path | None, on_workers(help="With --scheduler: certificate of the authority.")
    ] = None,
    tls_cert: Annotated[Path | None, on_workers(help="With --scheduler: own certificate.")] = None,
    tls_key: Annotated[Path | None, on_workers(help="With --scheduler: own key.")] = None,
    dashboard_address: Annotated[
        str,
        on_workers(metavar="HOST:PORT", help="Address of the workers' dashboard."),
    ] = DASHBOARD,
    performance_report: Annotated[
        Path | None,
        on_workers(metavar="FILE.html", help="Write Dask's own report about the workers."),
    ] = None,
    run_dir: Annotated[
        Path | None,
        kept(help="Folder from which an interrupted fit continues; MODEL.run if absent."),
    ] = None,
    run_log: Annotated[
        Path | None,
        kept(metavar="FILE", help="Keep the run's log, a line for each segment."),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Learn a model from a corpus, in three reads. After an interruption, the same command continues."""
    started = time.monotonic()
    with loading(quiet):
        from ..corpus.store import Corpus
        from ..model.labeler import MomentLabeler
        from ..passes.cluster.workers import Workers, connected
    # plain strings: `fit` refuses what it does not know, and names the choices
    choices: dict[str, Any] = {
        "head": head,
        "head_dim": head_dim,
        "weighting": weighting,
        "refine_passes": refine_passes,
        "tail_weight": tail_weight,
        "memory_limit": memory_limit,
        "tensor": tensor,
        "whitening": whitening,
        "self_pairs": self_pairs,
        "words": words,
    }
    labeler = MomentLabeler(n_components, **choices, n_jobs=threads, random_state=seed)
    source = Corpus.open(corpus)
    if plan:
        _tell_plan(labeler, source, quiet, json_file)
        return
    if model.exists() and not overwrite:
        raise StoreError(f"{model} exists already. Choose another name, or pass --overwrite.")
    where = Workers(
        workers,
        threads_per_worker,
        worker_memory,
        scheduler,
        (tls_ca_file, tls_cert, tls_key),
        dashboard_address,
    )
    leaves(partial(_what_is_left, model, run_dir or Path(f"{model}.run")))
    with connected(where, performance_report) as client, ProgressDisplay(quiet, source) as progress:
        if client is not None and not quiet:
            print(f"dashboard: {client.dashboard_link}", file=sys.stderr)
        files: dict[str, Any] = {"run_dir": run_dir, "run_log": run_log}
        labeler.fit_to(source, model, overwrite=overwrite, client=client, progress=progress, **files)
    _tell_fit(labeler, source.n_docs, model, time.monotonic() - started, quiet, json_file)


def _tell_plan(labeler: MomentLabeler, corpus: Corpus, quiet: bool, json_file: Path | None) -> None:
    with ProgressDisplay(quiet) as progress:
        begin(progress, "measuring")
        told = _plan_text(labeler, corpus)
    tell(*told, json_file)


def _tell_fit(
    labeler: MomentLabeler, n_docs: int, model: Path, seconds: float, quiet: bool, json_file: Path | None
) -> None:
    """Say what was learned from how many documents, and where it is."""
    stats, promise = labeler.fit_stats_, labeler.guarantee()
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    topics = len(labeler.topic_weights_)
    learned = f"{how_many(topics, 'topic')} from {how_many(n_docs, 'document')}"
    lines = [f"{model}: {learned} in {seconds:.1f} s, {size / 1e6:,.1f} MB on disk"]
    if not quiet:
        for note in stats["notes"]:
            print(f"note: {note}", file=sys.stderr)
        lines += [*_reuse_lines(stats["run"]), _head_text(labeler), promise.sentence]
    numbers = {
        "path": str(model),
        "seconds": seconds,
        "bytes_on_disk": size,
        "scores_mean": labeler.scores_mean_,
        "topics": topics,
        "fit": stats,
        "guarantee": promise.as_dict(),
    }
    tell("\n".join(lines), numbers, json_file)


def _reuse_lines(run: dict[str, Any]) -> list[str]:
    """What an earlier run had done already, if anything."""
    reused = run["segments_reused"]
    if not reused:
        return []
    segments = how_many(reused + run["segments_computed"], "segment")
    return [f"went on from an earlier run: {reused} of {segments} were there"]


def _what_is_left(model: Path, kept: Path) -> str | None:
    if last_finished() == model or not kept.exists():
        return None
    return f"The same command goes on where it was; what it needs for that is in {kept}."


def _head_text(labeler: MomentLabeler) -> str:
    """The head that was chosen, and what its scores mean."""
    stats = labeler.fit_stats_
    features = (
        f", {how_many(stats['head_dim'], 'feature')} ({stats['head_dim_reason']})"
        if "head_dim" in stats
        else ""
    )
    found = stats.get("held_out")
    held_out = ""
    if found:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        held_out = f"; on {how_many(stats['held_out_docs'], 'held-out training document')} {scores}"
    lines = [f"head {stats['head']}{features}{held_out}", f"scores: {labeler.scores_mean_}"]
    if labeler.threshold_ is not None:
        f1 = stats["threshold"]["micro_f1"]
        lines.append(f"labels are assigned from {labeler.threshold_:.3f} on (micro-F1 {f1:.3f} there)")
    return "\n".join(lines)


def _plan_text(labeler: MomentLabeler, corpus: Corpus) -> tuple[str, dict[str, Any]]:
    """Memory and time of a fit, at the speed that this machine has now; as text and as numbers."""
    from ..passes.machine import available_bytes, measure_rates
    from ..passes.plan import BASE_BYTES, SLOWER_THAN_LIMIT, gigabytes

    plan = labeler.plan(corpus)
    layout, rates = plan.layout, measure_rates(corpus.stored_term_counts[0], 128, labeler.threads)
    seconds = [SLOWER_THAN_LIMIT * rates.seconds(price.cost) for price in plan.prices]
    lines = [f"{'stage':>15} {'memory':>9} {'sums':>9} {'time':>9}"]
    for price, least in zip(plan.prices, seconds, strict=True):
        made = price.sums + price.segments
        sums = gigabytes(made) if made else ""
        lines.append(f"{price.name:>15} {gigabytes(BASE_BYTES + price.nbytes):>9} {sums:>9} {least:>7.1f} s")
    details = plan.details
    head = ""
    if "head_dim" in details:
        head = f", {how_many(details['head_dim'], 'feature')} ({details['head_dim_reason']})"
    mapped = ", sums in mapped files" if layout.spill else ""
    available = available_bytes()
    free = "" if available is None else f" of {gigabytes(available)} that are free"
    tasks, width = how_many(layout.at_a_time, "task"), labeler.n_components + layout.oversampling
    lines.append(
        f"peak {gigabytes(plan.peak)}{free}, about {sum(seconds):.0f} s; {tasks} at a time, "
        f"sketch of {how_many(width, 'column')}{head}{mapped}"
    )
    numbers = plan.as_dict()
    for row, least in zip(numbers["stages"], seconds, strict=True):
        row["seconds"] = least
    return "\n".join(lines), {**numbers, "seconds": sum(seconds)}
