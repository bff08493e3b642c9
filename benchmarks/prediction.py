"""The best of very many labels: `python -m benchmarks.prediction MODEL CORPUS [--documents 4096] [--top 5]`.

One JSON: seconds of `top_labels`, which leaves labels out, and of the dense way, which scores all labels by
matrix products and takes the best by `np.argpartition`; on the same documents, after a first run of both, on
two threads with a slab of documents each. Documents whose labels differ are counted, and how far apart their
scores are in double precision: 0 is a tie, and what is below 1e-6 is lost in single precision.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measure import machine
from threepass import Corpus, MomentLabeler
from threepass.corpus.rows import SparseRows
from threepass.model.inputs import documents
from threepass.parts.heads import Head, Seen
from threepass.parts.pruning import prune
from threepass.parts.scoring import pruning_pays, top_labels
from threepass.types import Array

THREADS = 2
REPEATS = 5
SLAB = 128
"""Documents of the dense way at a time: all scores, and the positions that argpartition makes of them."""
Best = tuple[Array, Array]


def measure(model: MomentLabeler, corpus: Corpus, n_docs: int, k: int = 5) -> dict[str, Any]:
    """Both ways on the first documents of a corpus, and what leaving labels out takes and spares.

    Parameters
    ----------
    n_docs
        Documents; all of them when there are fewer.
    k
        Labels of each.
    """
    head = model._ranking_head()
    words = first_documents(model, corpus, n_docs)
    n_docs = words.n_rows
    share = max(1, -(-n_docs // THREADS))
    with threadpool_limits(1):
        _ = head.tiles
        started = time.perf_counter()
        _ = replace(head, plain=None).tiles
        index_seconds = time.perf_counter() - started
        ((see_seconds, _),) = timed(n_docs, (lambda rows: head.see(words.slice(*rows)), share))
        seen = head.see(words)
        (pruned_seconds, pruned), (dense_seconds, dense) = timed(
            n_docs,
            (lambda rows: top_labels(head, some(seen, *rows), k), share),
            (lambda rows: dense_labels(head, some(seen, *rows), k), SLAB),
        )
        scored = n_scored(head, seen, k)
    return {
        "head": head.kind,
        "documents": n_docs,
        "labels": head.n_labels,
        "k": k,
        "threads": THREADS,
        "seconds": pruned_seconds,
        "dense_seconds": dense_seconds,
        "times_faster": dense_seconds / pruned_seconds,
        "topics_and_features_seconds": see_seconds,
        "times_faster_with_topics_and_features": (dense_seconds + see_seconds)
        / (pruned_seconds + see_seconds),
        "share_of_labels_scored": float(scored.mean() / head.n_labels),
        "documents_scored_whole": int((scored == head.n_labels).sum()),
        **differences(head, seen, labels_of(pruned), labels_of(dense)),
        "index_seconds": index_seconds,
        "index_bytes": head.tiles.nbytes,
        "index_share_of_weights": head.tiles.nbytes / weights_bytes(head),
        "machine": machine(),
    }


def n_scored(head: Head, seen: Seen, k: int) -> Array:
    """(n,): how many labels `top_labels` scores of each document; all, where it gives a document up."""
    if not pruning_pays(head.n_labels, k):
        return np.full(seen.n_docs, head.n_labels)
    shape = seen.n_docs, k
    scored = prune(head, seen, np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
    return np.where(scored < 0, head.n_labels, scored)


def weights_bytes(head: Head) -> int:
    """Bytes of what is known of each label: Q, and A where there is one."""
    return int(head.topics.Q.nbytes) + (0 if head.ridge is None else int(head.ridge.A.nbytes))


def labels_of(parts: list[Best]) -> Array:
    """(n, k): the labels of all documents."""
    return np.concatenate([labels for labels, _ in parts])


def first_documents(model: MomentLabeler, corpus: Corpus, n_docs: int) -> SparseRows:
    """Words of the first documents, as the model's heads take them."""
    blocks = documents(corpus.head(n_docs), None, model.n_features_in_)
    return SparseRows.concatenate([blocks.read(i)[0] for i in range(blocks.n_blocks)])


def timed(n_docs: int, *ways: tuple[Callable[[tuple[int, int]], Any], int]) -> list[tuple[float, list[Any]]]:
    """For each way the median of its runs over all documents, on threads, and the results of its last.

    A way is a function of the first and the last row, and the rows to call it for. Each has a first run that
    does not count; then they take turns, so that a machine that is busy for a while is so for all of them.
    """
    times: list[list[float]] = [[] for _ in ways]
    results: list[list[Any]] = [[] for _ in ways]
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(1 + REPEATS):
            for i, (work, step) in enumerate(ways):
                slabs = [(start, min(start + step, n_docs)) for start in range(0, n_docs, step)]
                started = time.perf_counter()
                results[i] = list(pool.map(work, slabs))
                times[i].append(time.perf_counter() - started)
    return [(median(runs[1:]), result) for runs, result in zip(times, results, strict=True)]


def some(seen: Seen, start: int, stop: int) -> Seen:
    """What was seen of some documents."""
    X = None if seen.X is None else seen.X.slice(start, stop)
    P, F = (None if array is None else array[start:stop] for array in (seen.P, seen.F))
    return Seen(stop - start, P, F, X)


def dense_labels(head: Head, seen: Seen, k: int) -> Best:
    """The k best labels and what they are ranked by, from the scores of all labels."""
    everything = slice(0, head.n_labels)
    ranking = head.ranking(head.scores(seen, slice(0, seen.n_docs), everything), everything)
    labels = np.argpartition(ranking, head.n_labels - k, axis=1)[:, -k:]
    values = np.take_along_axis(ranking, labels, axis=1)
    order = np.lexsort((labels, -values), axis=1)
    return np.take_along_axis(labels, order, axis=1), np.take_along_axis(values, order, axis=1)


def differences(head: Head, seen: Seen, ours: Array, dense: Array) -> dict[str, Any]:
    """How many documents have other labels, or in another order, and by how much these labels differ."""
    rows = np.flatnonzero((ours != dense).any(axis=1))
    gaps = [0.0]
    for row in rows.tolist():
        scores = [exact_scores(head, seen, row, labels[row]) for labels in (ours, dense)]
        gaps.append(float((abs(scores[0] - scores[1]) / abs(scores[0])).max()))
    return {"documents_that_differ": len(rows), "largest_relative_gap_of_these": max(gaps)}


def exact_scores(head: Head, seen: Seen, row: int, labels: Array) -> Array:
    """(k,) float64: raw scores of some labels for one document."""
    scores = np.zeros(len(labels))
    if seen.P is not None:
        scores += head.topics.Q[labels].astype(np.float64) @ seen.P[row].astype(np.float64)
    if head.ridge is None:
        return scores
    assert seen.F is not None
    scores = np.sqrt(scores) * head.topics_weight
    scores += head.ridge.A[labels].astype(np.float64) @ seen.F[row].astype(np.float64)
    if head.memory is not None and seen.X is not None:
        words = seen.X.slice(row, row + 1)
        remembered = head.memory.take(words.indices).to_scipy(np.float64)
        scores += words.values_as(np.float64) @ remembered.tocsc()[:, labels].toarray()
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--documents", type=int, default=4096)
    parser.add_argument("--top", type=int, default=5)
    arguments = parser.parse_args()
    model, corpus = MomentLabeler.load(arguments.model), Corpus.open(arguments.corpus)
    print(json.dumps(measure(model, corpus, arguments.documents, arguments.top), indent=2))


if __name__ == "__main__":
    main()
