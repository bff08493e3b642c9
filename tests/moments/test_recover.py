from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests import naive_moments as naive
from threepass.moments.recover import Simplex, label_topics, on_simplex, topic_weights, word_topics

MATRICES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 5)),
    elements=st.floats(-5, 5, allow_subnormal=False).map(lambda x: round(x, 3)),
)


@given(MATRICES)
def test_on_simplex__equals_the_plain_version(columns: np.ndarray) -> None:
    expected = np.array([naive.on_simplex(column) for column in columns.T]).T
    positive, negative = np.maximum(columns, 0).sum(axis=0), np.maximum(-columns, 0).sum(axis=0)
    out = on_simplex(columns)
    sure = abs(positive - negative) > 1e-9  # else rounding decides between two right answers
    np.testing.assert_allclose(out[:, sure], expected[:, sure], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(out.sum(axis=0), 1)
    assert (out >= 0).all()


def test_on_simplex__a_flipped_column_is_the_same_distribution() -> None:
    columns = np.random.default_rng(0).standard_normal((50, 6)) + 0.5
    flipped = columns * [1, -1, 1, -1, -1, 1]
    on_simplex(flipped)
    on_simplex(columns)
    np.testing.assert_array_equal(flipped, columns)
    assert (columns > 0).any(axis=0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_simplex__a_zero_column_is_uniform(dtype: type) -> None:
    out = on_simplex(np.array([[0, 1], [0, 3], [0, -2], [0, 0]], dtype))
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, [[0.25, 0.25], [0.25, 0.75], [0.25, 0], [0.25, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_simplex__in_place(dtype: type) -> None:
    columns = np.array([[1, -2], [-3, 4]], dtype)
    assert on_simplex(columns) is columns
    np.testing.assert_array_equal(columns, [[0, 0], [1, 1]])


@pytest.mark.parametrize("make", [on_simplex, label_topics])
def test_topics__of_more_rows_than_are_looked_at_at_a_time(make: Any) -> None:
    columns = np.random.default_rng(0).standard_normal((9001, 3))
    columns[:4096] += 1
    expected = np.maximum(columns, 0) / np.maximum(columns, 0).sum(axis=0)
    np.testing.assert_allclose(make(columns), expected, rtol=1e-10)


# -- some rows at a time --------------------------------------------------------------------------------


@given(columns=MATRICES, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_simplex__of_parts_is_that_of_the_whole(columns: np.ndarray, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(columns)) for cut in cuts), len(columns)]
    parts = [columns[start:stop] for start, stop in pairwise(bounds)]
    kept = columns.copy()
    simplex = Simplex.of(iter(parts))
    assert simplex.n_rows == len(columns)
    positive, negative = np.maximum(columns, 0).sum(axis=0), np.maximum(-columns, 0).sum(axis=0)
    np.testing.assert_allclose(simplex.totals, np.maximum(positive, negative))
    out = np.concatenate([simplex.apply(part) for part in parts])
    expected = np.array([naive.on_simplex(column) for column in columns.T]).T
    sure = abs(positive - negative) > 1e-9
    np.testing.assert_allclose(out[:, sure], expected[:, sure], rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(columns, kept)  # parts may be read again


def test_simplex__a_zero_column_is_uniform_over_all_rows() -> None:
    parts = np.zeros((3, 2)), np.array([[0.0, 2.0]])
    simplex = Simplex.of(parts)
    np.testing.assert_array_equal(simplex.apply(parts[0]), [[0.25, 0]] * 3)
    np.testing.assert_array_equal(simplex.apply(parts[1]), [[0.25, 1]])


def test_simplex__sums_single_precision_in_double() -> None:
    """2**24 ones: from there on single precision would not count any further."""
    ones = np.ones((2**13, 1), np.float32)
    simplex = Simplex.of([ones] * (2**11 + 3))
    assert simplex.totals.tolist() == [2**13 * (2**11 + 3)]
    assert simplex.n_rows == 2**13 * (2**11 + 3)
    part = simplex.apply(ones)
    assert part.dtype == np.float32
    np.testing.assert_array_equal(part, np.float32(1 / (2**13 * (2**11 + 3))))


# -- topics ---------------------------------------------------------------------------------------------


def true_whitening(O: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W, eigenvalues and the paper's u_k of a model whose moments are known."""
    values, vectors = np.linalg.eigh((O * pi) @ O.T)
    values, vectors = values[-len(pi) :], vectors[:, -len(pi) :]
    W = vectors / np.sqrt(values)
    U = np.sqrt(pi) * (W.T @ O)
    np.testing.assert_allclose(U.T @ U, np.eye(len(pi)), atol=1e-10)
    return W, values, U


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_word_topics__of_the_true_eigenvectors_are_the_true_topics(dtype: type) -> None:
    rng = np.random.default_rng(1)
    O, pi = rng.dirichlet(np.full(30, 0.3), 4).T, np.array([0.4, 0.3, 0.2, 0.1])
    W, values, U = true_whitening(O, pi)
    W = W.astype(dtype)
    kept = W.copy()
    topics = word_topics(W, values[:, None] * U * [1, -1, -1, 1])
    assert topics.dtype == np.float32
    if dtype is np.float64:  # only the product is rounded, and then the quotient
        np.testing.assert_allclose(topics, O, rtol=2.0**-23, atol=1e-10)
    else:
        np.testing.assert_allclose(topics, O, atol=3e-7)
    np.testing.assert_array_equal(W, kept)


def test_label_topics__clip_what_is_negative() -> None:
    out = label_topics(np.array([[3.0, -1.0, -5.0], [1.0, -2.0, 2.0], [-7.0, 0.0, 2.0]]))
    np.testing.assert_allclose(out, [[0.75, 1 / 3, 0], [0.25, 1 / 3, 0.5], [0, 1 / 3, 0.5]])


@given(moments=MATRICES)
def test_label_topics__equal_the_plain_version(moments: np.ndarray) -> None:
    kept, n = moments.copy(), len(moments)
    Q = label_topics(moments)
    for k, column in enumerate(np.maximum(moments, 0).T):
        total = column.sum()
        expected = column / total if total > 0 else np.full(n, 1 / n)
        np.testing.assert_allclose(Q[:, k], expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(moments, kept)


@pytest.mark.parametrize("make", [on_simplex, label_topics])
def test_topics__of_no_rows(make: Any) -> None:
    assert make(np.zeros((0, 3))).shape == (0, 3)


def test_topic_weights__all_trusted() -> None:
    lambdas = np.array([4.0, 2.0, 2.0, 1.0])
    np.testing.assert_allclose(topic_weights(lambdas), np.array([1, 4, 4, 16]) / 25)


def test_topic_weights__true_eigenvalues_give_the_true_weights() -> None:
    pi = np.random.default_rng(0).dirichlet(np.full(10, 2.0))
    np.testing.assert_allclose(topic_weights(pi**-0.5), pi)


def test_topic_weights__a_few_bad_ones_get_the_median() -> None:
    lambdas = np.array([4.0, 2.0, 1.0, 0.9, 1e-9, 0.0])  # weights 1/16, 1/4, 1 and three times their median
    expected = np.array([1, 4, 16, 4, 4, 4]) / 33
    np.testing.assert_allclose(topic_weights(lambdas), expected)
    np.testing.assert_allclose(topic_weights(np.array([2.0, -3.0])), [0.5, 0.5])


@pytest.mark.parametrize("lambdas", [[2.0, 0.5, 0.5], [0.5, 0.5], [2.0, 0.0, 0.0, -5.0, 3.0]])
def test_topic_weights__most_bad_are_uniform(lambdas: list[float]) -> None:
    np.testing.assert_allclose(topic_weights(np.array(lambdas)), np.full(len(lambdas), 1 / len(lambdas)))


def test_topic_weights__uniform_prior() -> None:
    assert topic_weights(np.array([4.0, 2.0]), "uniform").tolist() == [0.5, 0.5]


@pytest.mark.parametrize("lambdas", [[1.0], [1 - 1e-7], [1 + 1e-7], [0.5]])
def test_topic_weights__one_topic_is_sure(lambdas: list[float]) -> None:
    assert topic_weights(np.array(lambdas)).tolist() == [1]  # rounding is not noise
