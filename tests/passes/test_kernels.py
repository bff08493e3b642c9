from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from pipeline.corpus.rows import SparseRows
from pipeline.passes import kernels
from tests import naive_moments as naive
from tests.conftest import random_matrices

WIDTHS = [1, 5, 16, 37]
KINDS = ["ones", "counts"]
N_ROWS = [0, 1, 40]


def sparse_rows(dense: np.ndarray, kind: str) -> SparseRows:
    csr = scipy.sparse.csr_array(dense)
    values = csr.data.astype(np.float32) if kind == "counts" else None
    return SparseRows(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), values, dense.shape[1])


def block(n_rows: int, kind: str) -> tuple[SparseRows, np.ndarray]:
    """Rows, the first of them empty, and the dense array that they stand for."""
    dense = random_matrices(40, 23, 1, seed=3)[0][:n_rows]
    X = sparse_rows(dense, kind)
    return X, dense if kind == "counts" else (dense > 0) * 1


def whole_numbers(*shape: int) -> np.ndarray:
    """float32 that add and multiply without rounding, so that sums can be compared to the last bit."""
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(np.float32)


def test_block__has_an_empty_row_and_counts_above_one() -> None:
    X, dense = block(40, "counts")
    assert not dense[0].any()
    assert X.values is not None
    assert X.values.max() > 1
    assert dense.shape == X.shape


@pytest.mark.parametrize("K", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_rows", N_ROWS)
def test_times__equals_the_dense_product(n_rows: int, kind: str, K: int) -> None:
    X, dense = block(n_rows, kind)
    W = whole_numbers(23, K)
    Z = kernels.times(X, W)
    assert Z.dtype == np.float32
    assert Z.shape == (n_rows, K)
    np.testing.assert_array_equal(Z, dense @ W)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_rows", N_ROWS)
def test_add_transposed_times__adds_the_dense_product(n_rows: int, kind: str, K: int, dtype: type) -> None:
    X, dense = block(n_rows, kind)
    Z = whole_numbers(n_rows, K)
    out = whole_numbers(23, K).astype(dtype)
    expected = out + dense.T @ Z
    kernels.add_transposed_times(X, Z, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_rows", N_ROWS)
def test_add_pairs__adds_the_upper_half(n_rows: int, kind: str) -> None:
    X, dense = block(n_rows, kind)
    out = whole_numbers(23, 23).astype(np.float64)
    expected = out + np.triu(dense.T @ dense)
    kernels.add_pairs(X, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("K", [*WIDTHS, 50])
@pytest.mark.parametrize("n_rows", [0, 1, 40, 512, 1100])
def test_whitened_triples__equal_the_plain_formula(n_rows: int, K: int) -> None:
    Z = np.random.default_rng(n_rows).standard_normal((n_rows, K), dtype=np.float32)
    before = np.random.default_rng(1).standard_normal((1, K))
    out = naive.triple_sum(before)
    kernels.add_whitened_triples(Z, out)
    whole = kernels.symmetrised(out)
    expected = naive.triple_sum(Z) + naive.triple_sum(before)
    np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-5 * max(1, n_rows) ** 0.5)
    for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
        np.testing.assert_array_equal(whole, whole.transpose(order))


@pytest.mark.parametrize("K", WIDTHS)
def test_symmetrised__reads_only_what_was_summed(K: int) -> None:
    whole = naive.triple_sum(np.random.default_rng(K).standard_normal((9, K)))
    i, j, k = np.ogrid[:K, :K, :K]
    part = np.where((i <= j) & (i <= k), whole, np.nan)
    kept = part.copy()
    np.testing.assert_allclose(kernels.symmetrised(part), whole, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(part, kept)


@pytest.mark.parametrize("K", WIDTHS)
@pytest.mark.parametrize("n_rows", N_ROWS)
def test_add_label_moments__sums_over_the_documents_of_a_label(n_rows: int, K: int) -> None:
    dense = random_matrices(40, 1, 7)[1][:n_rows]
    assert n_rows < 40 or not dense[1].any()
    S = whole_numbers(n_rows, K)
    out = np.zeros((7, K))
    kernels.add_label_moments(sparse_rows(dense, "ones"), S, out)
    for label in range(7):
        np.testing.assert_array_equal(out[label], S[dense[:, label] > 0].sum(axis=0))


def test_add_label_moments__a_labels_value_does_not_count() -> None:
    Y = sparse_rows(np.array([[0, 5], [2, 0]]), "counts")
    out = np.zeros((2, 1))
    kernels.add_label_moments(Y, np.array([[3], [7]], np.float32), out)
    np.testing.assert_array_equal(out, [[7], [3]])


def test_kernels__take_read_only_arrays(tmp_path: Path) -> None:
    X, dense = block(40, "counts")
    W = whole_numbers(23, 5)
    np.save(tmp_path / "W.npy", W)
    mapped = np.load(tmp_path / "W.npy", mmap_mode="r")
    np.testing.assert_array_equal(kernels.times(X, mapped), dense @ W)
