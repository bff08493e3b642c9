"""The memory of the words seen with each label: its values, and what it gives for every choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import naive_heads as naive
from tests.parts.learned import context_of, labelled_by_words, learned, words_of
from tests.rows import dense_rows, sparse_rows
from threepass.parts.memory import DAMPINGS, Memory, MemoryPart
from threepass.parts.part import Context
from threepass.parts.selection import Shortlists
from threepass.passes.stages import Layout

Matrices = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def documents() -> Matrices:
    X, Y = labelled_by_words(200)
    Y[:, 7] = 0  # a label that is never seen
    return X, Y


@pytest.mark.parametrize("weight", [0.5, 10.0])
@pytest.mark.parametrize("damping", [0.0, 1.0, 10.0])
def test_finish__damped_and_weighted_centroids(documents: Matrices, damping: float, weight: float) -> None:
    X, Y = documents
    one = learned(MemoryPart(context_of(X, Y)), X, Y)
    scorer = one.finished(damping=damping, weight=weight)
    assert isinstance(scorer, Memory)
    centroids = naive.cross_moment(naive.weighted(X, one.context.weighting.idf), Y).T
    lengths = np.linalg.norm(centroids, axis=0) + damping
    ref = weight * centroids / np.where(lengths > 0, lengths, 1)
    np.testing.assert_allclose(dense_rows(scorer.C), ref, rtol=2e-3, atol=1e-6)  # kept in half precision
    assert scorer.C.values is not None
    np.testing.assert_array_equal(scorer.C.values.astype(np.float16).astype(np.float32), scorer.C.values)
    assert scorer.numbers() == {"weight": weight}
    assert scorer.largest == weight


@pytest.mark.parametrize("score_bytes", [1, 10**9])
def test_trial__every_choice_as_if_it_were_made(documents: Matrices, score_bytes: int) -> None:
    X, Y = documents
    Z, own = labelled_by_words(40, seed=1)
    one = learned(MemoryPart(context_of(X, Y)), X, Y)
    trial = one.part.trial(words_of(one.context, Z))
    lists = Shortlists.of(sparse_rows(own), lambda rows: [trial.dense(rows)], seed=0, score_bytes=score_bytes)
    at = trial.at(lists)
    centroids = naive.cross_moment(naive.weighted(X, one.context.weighting.idf), Y).T
    z = naive.weighted(Z, one.context.weighting.idf)
    for damping in DAMPINGS:
        lengths = np.linalg.norm(centroids, axis=0) + damping
        ref = z @ centroids / np.where(lengths > 0, lengths, 1)
        for weight in (0.0, 2.0):
            found = one.part.pair_scores(at, {"damping": damping, "weight": weight})
            np.testing.assert_allclose(found.reshape(40, 30), weight * ref, rtol=1e-4, atol=1e-5)


def limited(context: Context, most_entries: int) -> Context:
    """To a cross moment of so many entries, by a limit of memory."""
    layout = Layout(1, 0, 50 * (most_entries - 1), 0, memory_limit=10**9)
    return replace(context, layout=layout)


def test_memory__holds_no_more_entries_than_allowed(documents: Matrices) -> None:
    """Not even once held-out documents were added."""
    X, Y = documents
    one = learned(MemoryPart(limited(context_of(X, Y), 400)), X[:150], Y[:150])
    one.give_back(X[150:], Y[150:])
    scorer = one.finished()
    assert isinstance(scorer, Memory)
    assert 400 - 30 < scorer.C.nnz <= 400


def test_memory__obeys_a_limit_of_memory(documents: Matrices) -> None:
    part = MemoryPart(limited(context_of(*documents), 301))
    assert part.cross.work.most_entries == 301
    assert part.reordering >= 8 * 301
    assert part.finishing().nbytes == 2 * part.reordering


def test_shared__by_parts_that_finish_in_any_order(documents: Matrices) -> None:
    X, Y = documents
    context = context_of(X, Y)
    first, second = MemoryPart(context), MemoryPart(context)
    assert first.cross is second.cross
    learned(first, X, Y)
    ours, theirs = first.finish(first.defaults), second.finish(second.defaults)
    assert isinstance(ours, Memory)
    assert isinstance(theirs, Memory)
    np.testing.assert_array_equal(ours.C.values, theirs.C.values)
