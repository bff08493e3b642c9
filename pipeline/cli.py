"""The command `threepass`: one thin command for each stage.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 the input is wrong (one line says
what, where and what to do), 2 the command line is wrong.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from dask.utils import parse_bytes

from pipeline.cluster import DASHBOARD, Workers, connected
from pipeline.corpus.describe import describe, render
from pipeline.corpus.store import Corpus
from pipeline.errors import InputError, StoreError, ThreepassError
from pipeline.ingest.matrices import ingest_matrices
from pipeline.ingest.sources import read_names
from pipeline.ingest.spool import BLOCK_BYTES, IngestKeywords
from pipeline.ingest.synthetic import SHAPES, ingest_shape
from pipeline.ingest.xmc import ingest_xmc
from pipeline.model.labeler import MomentLabeler
from pipeline.passes.machine import available_bytes, measure_rates
from pipeline.passes.plan import SLOWER_THAN_LIMIT, gigabytes
from pipeline.predict import predict_to_file
from pipeline.progress import ProgressDisplay
from pipeline.verify import check as check_store


class _Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise ThreepassError("Interrupted. Nothing was left behind.") from None


app = typer.Typer(
    cls=_Commands,
    help="Put the right labels on documents: learn from corpora that do not fit in memory, in three reads.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Also write the numbers as JSON; - for stdout, in place of the text."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace DEST once the new corpus is whole.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Tasks at a time; all processors if absent.")
]
BlockSize = Annotated[
    str, typer.Option("--block-size", metavar="SIZE", help="Size of a block once read, as in 32MB.")
]
Dest = Annotated[Path, typer.Argument(metavar="DEST", help="Where the corpus shall be, as in train.zarr.")]


@app.command(
    epilog="Examples: 'threepass ingest train.txt.gz train.zarr --label-names labels.txt', "
    "'threepass ingest part-?.txt all.zarr --binary', 'threepass ingest X.npz Y.npz train.zarr'."
)
def ingest(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC...",
            help="XMC text ('N D L' header, then 'l1,l2 f1:v1 ...'), plain, gz, bz2, xz or zst; "
            "files or patterns. Or X.npz and Y.npz.",
        ),
    ],
    dest: Dest,
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="--no-header: svmlight, several labels.")
    ] = True,
    binary: Annotated[bool, typer.Option("--binary", help="Keep that a word occurs, not how often.")] = False,
    feature_names: Annotated[Path | None, typer.Option(help="File with one feature name a line.")] = None,
    label_names: Annotated[Path | None, typer.Option(help="File with one label name a line.")] = None,
    block_size: BlockSize = f"{BLOCK_BYTES // 1_000_000}MB",
    threads: Threads = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Turn sparse text or matrices into a corpus on disk."""
    started = time.monotonic()
    with ProgressDisplay(quiet) as progress:
        options = IngestKeywords(
            binary=binary,
            block_bytes=_bytes(block_size),
            overwrite=overwrite,
            n_threads=threads,
            progress=progress,
        )
        if all(source.endswith(".npz") for source in sources):
            if len(sources) > 2:
                raise InputError(
                    f"Matrices come as X.npz and Y.npz. Found {len(sources)} files. Give one or two."
                )
            corpus = ingest_matrices(
                sources[0],
                sources[1] if len(sources) == 2 else None,
                dest,
                feature_names=read_names(feature_names) if feature_names else None,
                label_names=read_names(label_names) if label_names else None,
                **options,
            )
        else:
            corpus = ingest_xmc(
                sources, dest, header=header, feature_names=feature_names, label_names=label_names, **options
            )
    _tell_new(corpus, dest, started, json_file)


@app.command(epilog="Example: threepass synth amazoncat az.zarr --scale 0.1")
def synth(
    shape: Annotated[str, typer.Argument(metavar="SHAPE", help=f"One of: {', '.join(SHAPES)}.")],
    dest: Dest,
    scale: Annotated[float, typer.Option(help="Share of the documents to draw.")] = 1.0,
    block_size: BlockSize = f"{BLOCK_BYTES // 1_000_000}MB",
    threads: Threads = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Draw a corpus with the shape of one of the paper's data sets from a planted model."""
    started = time.monotonic()
    with ProgressDisplay(quiet) as progress:
        corpus = ingest_shape(
            shape,
            dest,
            scale=scale,
            block_bytes=_bytes(block_size),
            overwrite=overwrite,
            n_threads=threads,
            progress=progress,
        )
    _tell_new(corpus, dest, started, json_file)


@app.command(epilog="Example: threepass fit train.zarr model.zarr -k 100")
def fit(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A corpus to learn from.")],
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Where the model shall be, as in model.zarr.")
    ],
    n_components: Annotated[int, typer.Option("-k", "--topics", min=1, help="Number of topics.")] = 100,
    head: Annotated[
        str, typer.Option(help="auto, posterior (the paper's), refined, ridge or blend.")
    ] = "auto",
    head_dim: Annotated[
        int | None, typer.Option(min=1, help="Features of the ridge regression; chosen if absent.")
    ] = None,
    weighting: Annotated[
        str, typer.Option(help="Word weights of the ridge regression: log, counts or binary, times idf.")
    ] = "log",
    refine_passes: Annotated[
        int, typer.Option(min=0, help="Further reads that refine the topics with labels.")
    ] = 0,
    tail_weight: Annotated[
        float, typer.Option(min=0, max=1, help="0 ranks by probability, 1 favours rare labels.")
    ] = 0.0,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What the process may take, as in 4GB.")
    ] = None,
    tensor: Annotated[str, typer.Option(help="orthogonal or power.")] = "orthogonal",
    whitening: Annotated[str, typer.Option(help="auto, exact or sketch.")] = "auto",
    self_pairs: Annotated[str, typer.Option(help="keep (as the paper) or drop.")] = "keep",
    words: Annotated[str, typer.Option(help="binary (as the paper) or counts.")] = "binary",
    seed: Annotated[int, typer.Option(help="Seed of sketch and decomposition.")] = 0,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only tell what it would take, memory and time, and read nothing.")
    ] = False,
    threads: Threads = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Worker processes to start on this machine; 0: threads alone.")
    ] = 0,
    threads_per_worker: Annotated[int, typer.Option(min=1, help="Threads of each worker.")] = 1,
    worker_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="What each worker may take, as in 4GB.")
    ] = "auto",
    scheduler: Annotated[
        str | None, typer.Option(metavar="URL", help="A Dask cluster to join, as in tls://host:8786.")
    ] = None,
    tls_ca_file: Annotated[Path | None, typer.Option(help="With --scheduler: the authority.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="With --scheduler: our certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="With --scheduler: our key.")] = None,
    dashboard_address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the workers' dashboard shall listen.")
    ] = DASHBOARD,
    performance_report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Keep Dask's own account of the workers.")
    ] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(help="Where sums are kept for a killed fit to go on; MODEL.run if absent."),
    ] = None,
    run_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the run's log, a line for each segment.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Learn a model from a corpus, in three reads. Killed, the same command goes on where it was."""
    started = time.monotonic()
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
        _tell_plan(labeler, source, json_file)
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
    try:
        with connected(where, performance_report) as client, ProgressDisplay(quiet, source) as progress:
            if client is not None and not quiet:
                print(f"dashboard: {client.dashboard_link}", file=sys.stderr)
            files: dict[str, Any] = {"run_dir": run_dir, "run_log": run_log}
            labeler.fit_to(source, model, overwrite=overwrite, client=client, progress=progress, **files)
    except KeyboardInterrupt:
        kept = run_dir or f"{model}.run"
        raise ThreepassError(
            f"Interrupted. The same command goes on where it was; what it needs for that is in {kept}."
        ) from None
    seconds = time.monotonic() - started
    promise = labeler.guarantee()
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    run = labeler.fit_stats_["run"]
    reused, segments = run["segments_reused"], run["segments_reused"] + run["segments_computed"]
    text = (
        f"{model}: {len(labeler.topic_weights_)} topics from {source.n_docs:,} documents in {seconds:.1f} s, "
        f"{size / 1e6:,.1f} MB on disk\n"
        + (f"went on from an earlier run: {reused} of {segments} segments were there\n" if reused else "")
        + _head_text(labeler)
    )
    numbers = {
        "path": str(model),
        "seconds": seconds,
        "bytes_on_disk": size,
        "scores_mean": labeler.scores_mean_,
        "topics": len(labeler.topic_weights_),
        "fit": labeler.fit_stats_,
        "guarantee": promise.as_dict(),
    }
    _tell(f"{text}\n{promise.sentence}", numbers, json_file)


@app.command(epilog="Example: threepass predict model.zarr test.zarr best.parquet --top 5")
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model.")],
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="Documents to label.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="NAME.parquet, or any other name for zarr.")],
    top: Annotated[int, typer.Option(min=1, help="Labels for each document.")] = 5,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write the best labels of every document of a corpus."""
    labeler, source = MomentLabeler.load(model), Corpus.open(corpus)
    with ProgressDisplay(quiet) as progress:
        predict_to_file(labeler, source, out, k=top, overwrite=overwrite, progress=progress)
    print(f"{out}: the {top} best labels of {source.n_docs:,} documents")


@app.command(epilog="Example: threepass evaluate model.zarr test.zarr")
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model.")],
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="Documents with their true labels.")],
    json_file: Json = None,
) -> None:
    """Measure how well a model labels a corpus: AUC, P@k, nDCG@k, recall@k, PSP@k, PSnDCG@k, calibration."""
    scores = MomentLabeler.load(model).evaluate(Corpus.open(corpus))
    shown = {name: value for name, value in scores.items() if isinstance(value, float)}
    lines = [f"{name:>14} {_rounded(value)}" for name, value in shown.items()]
    counts = f"{scores['n_docs']:,} documents, {scores['n_unlabelled']:,} of them without labels"
    table = [
        "",
        f"{'probability':>14} {'labels':>14} {'predicted':>10} {'observed':>10}",
        *(
            f"{row['from']:>7g} - {row['to']:<4g} {row['pairs']:>14,} "
            f"{row['predicted']:>10.4f} {row['observed']:>10.4f}"
            for row in scores["reliability"]
        ),
    ]
    _tell("\n".join([counts, *lines, *table]), scores, json_file)


@app.command(epilog="Example: threepass info train.zarr")
def info(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A corpus.")],
    json_file: Json = None,
) -> None:
    """Describe a corpus: counts, sparsity, size, histograms, a sample document."""
    description = describe(Corpus.open(path))
    _tell(render(description), description, json_file)


@app.command(epilog="Example: threepass check train.zarr")
def check(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A corpus or a model.")],
    quiet: Quiet = False,
    json_file: Json = None,
) -> None:
    """Read all of a corpus or a model, and tell whether everything in it is as it was written."""
    with ProgressDisplay(quiet) as progress:
        report = check_store(path, progress=progress)
    _tell(str(report), report.as_dict(), json_file)
    if not report.is_whole:
        raise typer.Exit(1)


@app.command()
def demo(quiet: Quiet = False) -> None:
    """Draw a small planted corpus, put it on disk, and describe it. Needs no data and no network."""
    with tempfile.TemporaryDirectory(prefix="threepass-demo-") as folder:
        with ProgressDisplay(quiet) as progress:
            corpus = ingest_shape("bibtex", Path(folder) / "demo.zarr", progress=progress)
        print(render(describe(corpus)))
    print(
        "\nNext, with data of your own:\n  threepass ingest train.txt train.zarr\n  threepass info train.zarr"
    )


def _rounded(value: float) -> str:
    return f"{value:,.4f}" if value >= 0.01 else f"{value:.4g}"


def _head_text(labeler: MomentLabeler) -> str:
    """What was chosen for the head, in a line."""
    stats = labeler.fit_stats_
    features = f", {stats['head_dim']:,} features ({stats['head_dim_reason']})" if "head_dim" in stats else ""
    found = stats.get("held_out", stats.get("held_out_topics"))
    held_out = ""
    if found:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        held_out = f"; on {stats['held_out_docs']:,} held-out training documents {scores}"
    return f"head {stats['head']}{features}{held_out}"


def _tell_plan(labeler: MomentLabeler, corpus: Corpus, json_file: Path | None) -> None:
    """What a fit would take, at the speed that this machine has now."""
    plan = labeler.plan(corpus)
    rates = measure_rates(corpus.stored_term_counts[0], 128, labeler.n_jobs)
    seconds = [SLOWER_THAN_LIMIT * rates.seconds(stage.cost) for stage in plan.stages]
    lines = [f"{'stage':>14} {'memory':>9} {'sums':>16} {'time':>9}"]
    for stage, least in zip(plan.stages, seconds, strict=True):
        sums = f"{stage.n_accumulators} x {gigabytes(stage.accumulator)}" if stage.n_accumulators else ""
        lines.append(f"{stage.name:>14} {gigabytes(stage.total):>9} {sums:>16} {least:>7.1f} s")
    head = "" if plan.sizes is None else f", {plan.sizes.total:,} features ({plan.sizes.reason})"
    mapped = ", sums in mapped files" if plan.spill else ""
    available = available_bytes()
    free = "" if available is None else f" of {gigabytes(available)} that are free"
    lines.append(
        f"peak {gigabytes(plan.peak)}{free}, about {sum(seconds):.0f} s; {plan.at_a_time} tasks at a time, "
        f"sketch of {labeler.n_components + plan.oversampling} columns{head}{mapped}"
    )
    numbers = plan.as_dict()
    for row, least in zip(numbers["stages"], seconds, strict=True):
        row["seconds"] = least
    _tell("\n".join(lines), {**numbers, "seconds": sum(seconds)}, json_file)


def _bytes(size: str) -> int:
    try:
        return int(parse_bytes(size))
    except ValueError as error:
        raise InputError(f"--block-size is not a size. Found '{size}'. Write it as in 32MB.") from error


def _tell_new(corpus: Corpus, dest: Path, started: float, json_file: Path | None) -> None:
    seconds = time.monotonic() - started
    description = {**describe(corpus), "path": str(dest), "seconds": seconds}
    text = (
        f"{dest}: {corpus.n_docs:,} documents x {corpus.n_terms:,} terms, {corpus.n_labels:,} labels, "
        f"{description['bytes_on_disk'] / 1e6:,.1f} MB on disk, in {seconds:.1f} s"
    )
    _tell(text, description, json_file)


def _tell(text: str, numbers: dict[str, Any], json_file: Path | None) -> None:
    """Print the text, and the numbers where they are wanted."""
    if json_file == Path("-"):
        print(json.dumps(numbers, indent=2))
        return
    print(text)
    if json_file is not None:
        try:
            json_file.write_text(json.dumps(numbers, indent=2) + "\n")
        except OSError as error:
            raise InputError(
                f"{json_file} could not be written: {error.strerror}. Check the path."
            ) from error


def main() -> None:
    """Run the command line. Typer sees to usage errors (exit code 2); what users can mend exits with 1."""
    warnings.showwarning = lambda message, *_, **__: print(f"threepass: warning: {message}", file=sys.stderr)
    try:
        app()
    except ThreepassError as error:
        print("threepass:", " ".join(str(error).split()), file=sys.stderr)
        sys.exit(1)
