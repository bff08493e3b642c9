from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipeline.decompose.recover import label_topics, on_simplex, topic_weights, word_topics
from tests import naive_moments as naive

MATRICES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 5)),
    elements=st.floats(-5, 5, allow_subnormal=False).map(lambda x: round(x, 3)),
)


@given(MATRICES)
def test_on_simplex__equals_the_plain_version(columns: np.ndarray) -> None:
    expected = np.array([naive.on_simplex(column) for column in columns.T]).T
    out = on_simplex(columns)
    positive, negative = np.maximum(columns, 0).sum(axis=0), np.maximum(-columns, 0).sum(axis=0)
    sure = abs(positive - negative) > 1e-9  # else rounding decides between two right answers
    np.testing.assert_allclose(out[:, sure], expected[:, sure], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(out.sum(axis=0), 1)
    assert (out >= 0).all()


def test_on_simplex__a_flipped_column_is_the_same_distribution() -> None:
    columns = np.random.default_rng(0).standard_normal((50, 6)) + 0.5
    flipped = columns * [1, -1, 1, -1, -1, 1]
    np.testing.assert_array_equal(on_simplex(flipped), on_simplex(columns))
    assert (on_simplex(columns) > 0).any(axis=0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_simplex__a_zero_column_is_uniform(dtype: type) -> None:
    out = on_simplex(np.array([[0, 1], [0, 3], [0, -2], [0, 0]], dtype))
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, [[0.25, 0.25], [0.25, 0.75], [0.25, 0], [0.25, 0]])


def test_on_simplex__leaves_its_argument_alone() -> None:
    columns = np.array([[1.0, -2.0], [-3.0, 4.0]])
    on_simplex(columns)
    np.testing.assert_array_equal(columns, [[1, -2], [-3, 4]])


def test_word_topics__of_the_true_eigenvectors_are_the_true_topics() -> None:
    rng = np.random.default_rng(1)
    O, pi = rng.dirichlet(np.full(30, 0.3), 4).T, np.array([0.4, 0.3, 0.2, 0.1])
    values, vectors = np.linalg.eigh((O * pi) @ O.T)
    values, vectors = values[-4:], vectors[:, -4:]
    U = np.sqrt(pi) * ((vectors / np.sqrt(values)).T @ O)  # the paper's u_k
    np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(word_topics(vectors * np.sqrt(values), U * [1, -1, -1, 1]), O, atol=1e-10)


def test_label_topics__clip_what_is_negative() -> None:
    out = label_topics(np.array([[3.0, -1.0, -5.0], [1.0, -2.0, 2.0], [-7.0, 0.0, 2.0]]))
    np.testing.assert_allclose(out, [[0.75, 1 / 3, 0], [0.25, 1 / 3, 0.5], [0, 1 / 3, 0.5]])


@pytest.mark.parametrize("make", [on_simplex, label_topics])
def test_topics__of_no_rows(make: object) -> None:
    assert make(np.zeros((0, 3))).shape == (0, 3)  # type: ignore[operator]


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
def test_topic_weights__most_bad_are_uniform_with_a_warning(lambdas: list[float]) -> None:
    bad = sum(x < 1 for x in lambdas)
    with pytest.warns(UserWarning, match=f"{bad} of {len(lambdas)} tensor eigenvalues"):
        weights = topic_weights(np.array(lambdas))
    np.testing.assert_allclose(weights, np.full(len(lambdas), 1 / len(lambdas)))


@pytest.mark.parametrize("lambdas", [[1.0], [1 - 1e-7], [1 + 1e-7], [0.5]])
def test_topic_weights__one_topic_is_sure(lambdas: list[float]) -> None:
    assert topic_weights(np.array(lambdas)).tolist() == [1]  # no warning: rounding is not noise
