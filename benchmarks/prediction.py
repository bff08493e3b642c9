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
from threepass import Corpus, Predictor
from threepass.corpus.rows import SparseRows
from threepass.model.inputs import documents
from threepass.parts.blend import Blend, DocumentFeatures
from threepass.parts.pruning import prune
from threepass.parts.scoring import pruning_pays, top_labels
from threepass.parts.terms import Dense, Side
from threepass.types import Array

THREADS = 2
REPEATS = 5
SLAB = 128
"""Documents of the dense way at a time: all scores, and the positions that argpartition makes of them."""
Best = tuple[Array, Array]


def measure(model: Predictor, corpus: Corpus, n_docs: int, k: int = 5) -> dict[str, Any]:
    """Both ways on the first documents of a corpus, and what leaving labels out takes and spares.

    Parameters
    ----------
    n_docs
        Documents; all of them when there are fewer.
    k
        Labels of each.
    """
    blend = without_contrast(model.ranking_blend)
    words = first_documents(model, corpus, n_docs)
    n_docs = words.n_rows
    share = max(1, -(-n_docs // THREADS))
    with threadpool_limits(1):
        _ = blend.tiles
        started = time.perf_counter()
        _ = replace(blend, plain=None).tiles
        index_seconds = time.perf_counter() - started
        ((see_seconds, _),) = timed(n_docs, (lambda rows: blend.see(words.slice(*rows)), share))
        seen = blend.see(words)
        (pruned_seconds, pruned), (dense_seconds, dense) = timed(
            n_docs,
            (lambda rows: top_labels(blend, some(seen, *rows), k), share),
            (lambda rows: dense_labels(blend, some(seen, *rows), k), SLAB),
        )
        scored = n_scored(blend, seen, k)
    return {
        "head": blend.head,
        "documents": n_docs,
        "labels": blend.n_labels,
        "k": k,
        "threads": THREADS,
        "seconds": pruned_seconds,
        "dense_seconds": dense_seconds,
        "times_faster": dense_seconds / pruned_seconds,
        "topics_and_features_seconds": see_seconds,
        "times_faster_with_topics_and_features": (dense_seconds + see_seconds)
        / (pruned_seconds + see_seconds),
        "share_of_labels_scored": float(scored.mean() / blend.n_labels),
        "documents_scored_whole": int((scored == blend.n_labels).sum()),
        **differences(blend, seen, labels_of(pruned), labels_of(dense)),
        "index_seconds": index_seconds,
        "index_bytes": blend.tiles.nbytes,
        "index_share_of_weights": blend.tiles.nbytes / weights_bytes(blend),
        "machine": machine(),
    }


def without_contrast(blend: Blend) -> Blend:
    """The parts that score every label: those by which most labels are left out."""
    parts = tuple(part for part in blend.parts if not part.rescored)
    plain = None if blend.plain is None else replace(blend.plain, parts=parts)
    return replace(blend, parts=parts, plain=plain)


def n_scored(blend: Blend, seen: DocumentFeatures, k: int) -> Array:
    """(n,): how many labels `top_labels` scores of each document; all, where it gives a document up."""
    if not pruning_pays(blend, k):
        return np.full(seen.n_docs, blend.n_labels)
    shape = seen.n_docs, k
    scored = prune(blend, seen, np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
    return np.where(scored < 0, blend.n_labels, scored)


def weights_bytes(blend: Blend) -> int:
    """Bytes of what is known of each label in the dense terms, such as Q and A."""
    return sum(int(term.labels.nbytes) for term in blend.terms if isinstance(term, Dense))


def labels_of(parts: list[Best]) -> Array:
    """(n, k): the labels of all documents."""
    return np.concatenate([labels for labels, _ in parts])


def first_documents(model: Predictor, corpus: Corpus, n_docs: int) -> SparseRows:
    """Words of the first documents, as the model's parts take them."""
    blocks = documents(corpus.head(n_docs), None, model.n_terms)
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


def some(seen: DocumentFeatures, start: int, stop: int) -> DocumentFeatures:
    """What was seen of some documents."""

    def part(side: Side) -> Side:
        return side.slice(start, stop) if isinstance(side, SparseRows) else side[start:stop]

    return DocumentFeatures(stop - start, tuple(map(part, seen.sides)), seen.has_words[start:stop])


def dense_labels(blend: Blend, seen: DocumentFeatures, k: int) -> Best:
    """The k best labels and what they are ranked by, from the scores of all labels."""
    everything = slice(0, blend.n_labels)
    ranking = blend.ranking(blend.scores(seen, slice(0, seen.n_docs), everything), everything)
    labels = np.argpartition(ranking, blend.n_labels - k, axis=1)[:, -k:]
    values = np.take_along_axis(ranking, labels, axis=1)
    order = np.lexsort((labels, -values), axis=1)
    return np.take_along_axis(labels, order, axis=1), np.take_along_axis(values, order, axis=1)


def differences(blend: Blend, seen: DocumentFeatures, ours: Array, dense: Array) -> dict[str, Any]:
    """How many documents have other labels, or in another order, and by how much these labels differ."""
    rows = np.flatnonzero((ours != dense).any(axis=1))
    gaps = [0.0]
    for row in rows.tolist():
        scores = [exact_scores(blend, seen, row, labels[row]) for labels in (ours, dense)]
        gaps.append(float((abs(scores[0] - scores[1]) / abs(scores[0])).max()))
    return {"documents_that_differ": len(rows), "largest_relative_gap_of_these": max(gaps)}


def exact_scores(blend: Blend, seen: DocumentFeatures, row: int, labels: Array) -> Array:
    """(k,) float64: raw scores of some labels for one document."""
    scores = np.zeros(len(labels))
    for term, side in zip(blend.terms, seen.sides, strict=True):
        if isinstance(term, Dense):
            products = term.labels[labels].astype(np.float64) @ side[row].astype(np.float64)
            scores += np.sqrt(products) * term.root_weight if term.root_weight else products
        else:
            words = side.slice(row, row + 1)
            postings = term.postings.take(words.indices).to_scipy(np.float64)
            scores += words.values_as(np.float64) @ postings.tocsc()[:, labels].toarray()
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--documents", type=int, default=4096)
    parser.add_argument("--top", type=int, default=5)
    arguments = parser.parse_args()
    model, corpus = Predictor.load(arguments.model), Corpus.open(arguments.corpus)
    print(json.dumps(measure(model, corpus, arguments.documents, arguments.top), indent=2))


if __name__ == "__main__":
    main()
