"""The best labels, those above a threshold, and all scores: tile by tile, as if sorted at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_scoring as naive
from tests.parts.blends import blend_of, random_case, seen_of, topics_of
from threepass.parts import scoring
from threepass.parts.blend import ScoringSizes
from threepass.parts.calibration import Calibration


def random_scores(n: int, n_labels: int, n_topics: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """P and Q in quarters: their products are exact, and ties are everywhere."""
    rng = np.random.default_rng([n, n_labels, n_topics])
    P = rng.integers(0, 5, (n, n_topics)).astype(np.float32) / 4
    return P, rng.integers(0, 5, (n_labels, n_topics)).astype(np.float32) / 4


def top_labels(P: np.ndarray, Q: np.ndarray, k: int, **sizes: int) -> tuple[np.ndarray, np.ndarray]:
    blend = blend_of(len(Q), topics_of(Q), sizes=ScoringSizes(**sizes))
    return scoring.top_labels(blend, seen_of(len(P), P), k)


def check_top_labels(P: np.ndarray, Q: np.ndarray, k: int, **sizes: int) -> None:
    ref_labels, ref_scores = naive.top_labels(naive.label_scores(P, Q), k)
    labels, scores = top_labels(P, Q, k, **sizes)
    assert (labels.dtype, scores.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(labels, ref_labels)
    np.testing.assert_array_equal(scores, ref_scores.astype(np.float32))


@pytest.mark.parametrize("k", [1, 3, 20, 21, 30])
def test_top_labels__equals_sorting(k: int) -> None:
    check_top_labels(*random_scores(50, 20), k)


@pytest.mark.parametrize("n_rows", [0, 1, 5, 16])
@pytest.mark.parametrize("n_labels", [1, 6, 7, 8, 40])
@pytest.mark.parametrize("k", [1, 5, 9])
def test_top_labels__some_labels_of_some_documents_at_a_time(n_rows: int, n_labels: int, k: int) -> None:
    check_top_labels(*random_scores(n_rows, n_labels), k, docs=5, labels=7)


def test_top_labels__all_tied_goes_by_id() -> None:
    P, Q = np.ones((2, 1), np.float32), np.full((9, 1), 0.25, np.float32)
    labels, scores = top_labels(P, Q, 4, labels=2)
    assert labels.tolist() == [[0, 1, 2, 3]] * 2
    assert (scores == 0.25).all()


def test_top_labels__fewer_labels_than_k() -> None:
    labels, scores = top_labels(np.ones((1, 1), np.float32), np.array([[0.25], [0.75]], np.float32), 4)
    assert labels.tolist() == [[1, 0, -1, -1]]
    np.testing.assert_array_equal(scores, [[0.75, 0.25, np.nan, np.nan]])


def test_top_labels__a_score_of_zero_is_a_score() -> None:
    labels, scores = top_labels(np.zeros((2, 2), np.float32), np.zeros((3, 2), np.float32), 3)
    assert labels.tolist() == [[0, 1, 2]] * 2
    assert (scores == 0).all()


@given(n_labels=st.integers(1, 30), k=st.integers(1, 12), step=st.integers(1, 31), n=st.integers(0, 6))
def test_top_labels__however_many_labels_at_a_time(n_labels: int, k: int, step: int, n: int) -> None:
    check_top_labels(*random_scores(n, n_labels), k, labels=step)


@pytest.mark.parametrize("n", [0, 1, 10, 11])
@pytest.mark.parametrize("rows_at_a_time", [1, 3, 1000])
def test_all_scores__every_row_once(n: int, rows_at_a_time: int) -> None:
    P, Q = random_scores(n, 8)
    blend = blend_of(8, topics_of(Q), sizes=ScoringSizes(score_bytes=4 * 8 * rows_at_a_time))
    seen, whole = np.zeros(n, int), np.full((n, 8), np.nan)
    for rows, scores in scoring.all_scores(blend, seen_of(n, P)):
        assert len(scores) <= rows_at_a_time
        seen[rows] += 1
        whole[rows] = scores
    assert (seen == 1).all()
    np.testing.assert_array_equal(whole, naive.label_scores(P, Q).reshape(n, 8))


@pytest.mark.parametrize("kind", ["ridge", "memory", "ridge + memory + roots"])
@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.3, 0.75, 100.0])
def test_labels_above__are_those_of_all_scores(kind: str, calibrated: bool, threshold: float) -> None:
    blend, seen, scores = random_case(kind, n_labels=60)
    scores = scores.astype(np.float32)
    if calibrated:
        steps = Calibration(np.array([-4, 0, 2, 4, 8], "f4"), np.array([0, 0, 0.25, 0.75, 1], "f4"))
        blend, scores = replace(blend, calibration=steps), steps.apply(scores)
    for fewest in (1, 10**9):  # with pruning and without
        sizes = ScoringSizes(fewest_labels=fewest, labels_per_rank=1, most_scored=3.0)
        blend = replace(blend, sizes=sizes)
        comp = np.zeros(scores.shape, bool)
        comp[scoring.labels_above(blend, seen, threshold)] = True
        ref = scores >= threshold
        differ = np.argwhere(comp != ref)  # roots are summed in other precisions
        assert not len(differ) or ("roots" in kind and abs(scores[tuple(differ.T)] - threshold).max() < 1e-6)


def test_labels_above__of_no_documents() -> None:
    blend, seen, _ = random_case("ridge", n=0)
    assert [len(side) for side in scoring.labels_above(blend, seen, 0.0)] == [0, 0]
