from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import naive_heads as naive
from tests.rows import CLOSE, dense_rows, sparse_rows, ugly_matrices
from threepass.parts.weighting import SCHEMES, Weighting

every_scheme = pytest.mark.parametrize("scheme", SCHEMES)


def rows_of_kind(n_rows: int, kind: Any) -> np.ndarray:
    """Counts, the first row empty; fractions below and above 1 where the type has them."""
    dense = ugly_matrices(40, 23, 1, seed=3)[0][:n_rows]
    if kind is None:
        return (dense > 0) * 1.0
    return dense * (0.625 if np.issubdtype(kind, np.floating) else 1.0)


@every_scheme
@pytest.mark.parametrize("kind", [None, np.uint8, np.float32, np.float64], ids=str)
@pytest.mark.parametrize("n_rows", [0, 1, 2, 40])
def test_of__equals_the_plain_loop(n_rows: int, kind: Any, scheme: Any) -> None:
    dense = rows_of_kind(n_rows, kind)
    idf = np.linspace(0.1, 3, 23).astype(np.float32)
    X = sparse_rows(dense, kind)
    weighted = Weighting(idf, scheme).of(X)
    assert weighted.values is not None
    assert weighted.values.dtype == np.float32
    assert weighted.shape == dense.shape
    np.testing.assert_array_equal(weighted.indices, X.indices)
    np.testing.assert_allclose(dense_rows(weighted), naive.weighted(dense, idf, scheme), **CLOSE)


@every_scheme
def test_of__rows_are_of_unit_length_or_empty(scheme: Any) -> None:
    dense = rows_of_kind(40, np.float32)
    assert 0 < (dense > 1).sum() < (dense > 0).sum()
    weighting = Weighting.of_counts((dense > 0).sum(axis=0), 40, scheme)
    lengths = np.linalg.norm(dense_rows(weighting.of(sparse_rows(dense, np.float32))), axis=1)
    assert not dense[0].any()
    np.testing.assert_allclose(lengths, dense.any(axis=1), rtol=1e-6)


def test_of__by_hand() -> None:
    X = sparse_rows(np.array([[2, 0, 0.5, 1]]), np.float32)
    idf = np.array([1, 7, 2, 3], np.float32)
    for scheme, weights in {
        "log": [1 + math.log(2), 0, 1, 3],
        "counts": [2, 0, 1, 3],
        "binary": [1, 0, 2, 3],
    }.items():
        expected = [np.array(weights) / np.linalg.norm(weights)]
        np.testing.assert_allclose(dense_rows(Weighting(idf, scheme).of(X)), expected, rtol=1e-6)


def test_of__without_values_every_scheme_is_binary() -> None:
    X = sparse_rows(rows_of_kind(40, None))
    idf = np.linspace(0.1, 3, 23).astype(np.float32)
    one, *others = (Weighting(idf, scheme).of(X).values for scheme in SCHEMES)
    for other in others:
        np.testing.assert_array_equal(one, other)


@every_scheme
def test_of__a_row_does_not_depend_on_its_neighbours(scheme: Any) -> None:
    X = sparse_rows(rows_of_kind(40, np.float32), np.float32)
    weighting = Weighting(np.linspace(0.1, 3, 23).astype(np.float32), scheme)
    whole = weighting.of(X)
    rows = np.array([39, 0, 7, 7])
    np.testing.assert_array_equal(weighting.of(X.take(rows)).values, whole.take(rows).values)
    np.testing.assert_array_equal(weighting.of(X.slice(3, 9)).values, whole.slice(3, 9).values)


@pytest.mark.parametrize("size", [1e-18, 1e-3, 1e3, 1e18])
def test_of__counts_of_any_size(size: float) -> None:
    dense = rows_of_kind(40, np.float32)
    idf = np.linspace(0.1, 3, 23).astype(np.float32)
    expected = naive.weighted(dense, idf, "counts")
    X = sparse_rows(dense * size, np.float32)
    np.testing.assert_allclose(dense_rows(Weighting(idf, "counts").of(X)), expected, **CLOSE)


@every_scheme
def test_of__a_word_of_weight_zero_is_left_out(scheme: Any) -> None:
    dense = np.array([[2, 1, 0], [3, 0, 0], [0, 0, 4]])
    weighting = Weighting(np.array([0, 2, 5], np.float32), scheme)
    out = dense_rows(weighting.of(sparse_rows(dense, np.float32)))
    np.testing.assert_allclose(out, [[0, 1, 0], [0, 0, 0], [0, 0, 1]], rtol=1e-6)


@every_scheme
def test_of__does_not_change_its_input(scheme: Any) -> None:
    X = sparse_rows(rows_of_kind(40, np.float32), np.float32)
    assert X.values is not None
    kept = replace(X, values=X.values.copy())
    Weighting(np.full(23, 2, np.float32), scheme).of(X)
    np.testing.assert_array_equal(X.values, kept.values)


def test_of__takes_a_memory_map(tmp_path: Path) -> None:
    X = sparse_rows(rows_of_kind(40, np.float32), np.float32)
    idf = np.linspace(0.1, 3, 23).astype(np.float32)
    np.save(tmp_path / "idf.npy", idf)
    mapped = np.load(tmp_path / "idf.npy", mmap_mode="r")
    np.testing.assert_array_equal(Weighting(mapped).of(X).values, Weighting(idf).of(X).values)


def test_of_counts__equals_the_plain_loop() -> None:
    dense = ugly_matrices(40, 23, 1, seed=3)[0]
    weighting = Weighting.of_counts((dense > 0).sum(axis=0), 40)
    assert weighting.idf.dtype == np.float32
    assert weighting.scheme == "log"
    np.testing.assert_allclose(weighting.idf, naive.idf(dense), rtol=1e-6)


@pytest.mark.parametrize("n_docs", [1, 3, 10**9])
def test_of_counts__above_zero_and_falling(n_docs: int) -> None:
    idf = Weighting.of_counts(np.array([0, 1, n_docs]), n_docs).idf
    assert idf[0] > idf[1] >= idf[2] > 0


def test_of_counts__no_documents() -> None:
    np.testing.assert_allclose(Weighting.of_counts(np.zeros(2), 0).idf, math.log(2), rtol=1e-6)
