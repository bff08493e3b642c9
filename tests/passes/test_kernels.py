from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests import naive_moments as naive
from tests.conftest import random_matrices
from threepass.corpus.rows import SparseRows
from threepass.passes import kernels

WIDTHS = [1, 5, 37]
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


COLUMNS = [slice(0, 37), slice(0, 1), slice(3, 20), slice(36, 37), slice(5, 5), slice(37, 37)]


@pytest.mark.parametrize("columns", COLUMNS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_rows", N_ROWS)
def test_times__of_some_columns(n_rows: int, kind: str, columns: slice) -> None:
    X, dense = block(n_rows, kind)
    W = whole_numbers(23, 37)
    for dtype in (None, np.float64):
        Z = kernels.times(X, W, dtype, columns=columns)
        assert Z.dtype == (dtype or np.float32)
        np.testing.assert_array_equal(Z, (dense @ W)[:, columns])


def test_times__sums_in_the_type_that_is_asked_for() -> None:
    X = sparse_rows(np.ones((1, 3)), "ones")
    W = np.array([[2**25], [1], [1]], np.float32)
    assert kernels.times(X, W)[0, 0] == 2**25
    assert kernels.times(X, W, np.float64)[0, 0] == 2**25 + 2


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
def test_products__by_columns_are_bitwise_those_of_all(kind: str) -> None:
    X, _ = block(40, kind)
    W = np.random.default_rng(0).standard_normal((23, 37), dtype=np.float32)
    parts = [kernels.times(X, W, columns=columns) for columns in (slice(0, 3), slice(3, 20), slice(20, 37))]
    np.testing.assert_array_equal(np.hstack(parts), kernels.times(X, W))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_rows", N_ROWS)
def test_add_pairs__adds_the_upper_half(n_rows: int, kind: str) -> None:
    X, dense = block(n_rows, kind)
    out = whole_numbers(23, 23).astype(np.float64)
    expected = out + np.triu(dense.T @ dense)
    kernels.add_pairs(X, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("K", [1, 37])
@pytest.mark.parametrize("n_rows", [0, 40, 1100])
def test_whitened_triples__equal_the_plain_formula(n_rows: int, K: int) -> None:
    Z = np.random.default_rng(n_rows).standard_normal((n_rows, K), dtype=np.float32)
    before = np.random.default_rng(1).standard_normal((1, K))
    out = naive.triple_sum(before)
    kernels.add_whitened_triples(Z, out)
    kernels.symmetrise(out)
    expected = naive.triple_sum(Z) + naive.triple_sum(before)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5 * max(1, n_rows) ** 0.5)
    for order in itertools.permutations(range(3)):
        np.testing.assert_array_equal(out, out.transpose(order))


@pytest.mark.parametrize("K", [1, 3, 4, 5, 16, 37])
@pytest.mark.parametrize("n_rows", [1, 100, 2 * 2048 + 1])
def test_whitened_triples__sums_of_whole_numbers_are_exact(n_rows: int, K: int) -> None:
    """For all i <= j <= k, a few documents and a few j at a time; into nothing but what it may write to."""
    Z = whole_numbers(n_rows, K)
    i, j, k = np.ogrid[:K, :K, :K]
    ascending = (i <= j) & (j <= k)
    out = np.zeros((K, K, K))
    kernels.add_whitened_triples(Z, out)
    np.testing.assert_array_equal(out[ascending], naive.triple_sum(Z)[ascending])
    few = kernels.TRIPLE_BLOCK
    assert not out[(i // few > j // few) | (k // few < j // few)].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", WIDTHS)
def test_symmetrise__reads_only_what_was_summed(K: int, dtype: type) -> None:
    whole = naive.triple_sum(whole_numbers(9, K)).astype(dtype)
    i, j, k = np.ogrid[:K, :K, :K]
    part = np.where((i <= j) & (j <= k), whole, dtype(1e9))
    assert K == 1 or (part == 1e9).any()
    assert kernels.symmetrise(part) is None
    np.testing.assert_array_equal(part, whole)
    kernels.symmetrise(part)  # whole already: nothing changes
    np.testing.assert_array_equal(part, whole)


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


# -- half precision -------------------------------------------------------------------------------------


def halves() -> np.ndarray:
    """Every finite number that half precision holds, as float32, ascending."""
    bits = np.arange(2**16, dtype=np.uint16).view(np.float16)
    return np.unique(bits[np.isfinite(bits)].astype(np.float32))


def assert_rounds_as_numpy(values: np.ndarray) -> None:
    out = values.copy()
    assert kernels.round_to_half(out) is None
    np.testing.assert_array_equal(out, values.astype(np.float16).astype(np.float32))


def test_round_to_half__leaves_every_half_as_it_is() -> None:
    exact = halves()
    assert len(exact) == 2 * (0x7C00 - 1) + 1  # those of each sign but for zero, and zero
    assert (exact.max(), exact[exact > 0].min()) == (65504, 2.0**-24)
    out = exact.copy()
    kernels.round_to_half(out)
    np.testing.assert_array_equal(out, exact)


def test_round_to_half__in_the_middle_and_on_either_side_of_it() -> None:
    exact = halves().astype(np.float64)
    middle = ((exact[1:] + exact[:-1]) / 2).astype(np.float32)
    np.testing.assert_array_equal(middle, (exact[1:] + exact[:-1]) / 2)  # single precision holds them
    below, above = (np.nextafter(middle, np.float32(way)) for way in (-np.inf, np.inf))
    # the neighbours go to different halves, the middle to the even one of the two
    np.testing.assert_array_equal(below.astype(np.float16), exact[:-1])
    np.testing.assert_array_equal(above.astype(np.float16), exact[1:])
    for values in (below, middle, above):
        assert_rounds_as_numpy(values)


@pytest.mark.parametrize("power", [-127, -26, -25, -24, -15, -14, -13, 0, 15])
def test_round_to_half__numbers_between_two_powers_of_two(power: int) -> None:
    """Subnormal numbers of single precision, subnormal ones of half precision, and others."""
    fraction = np.arange(0, 2**23, 29, dtype=np.int32)
    values = (fraction + (power + 127 << 23)).view(np.float32)
    values = values[values <= 65504]
    assert_rounds_as_numpy(values)
    assert_rounds_as_numpy(-values)


def test_round_to_half__random_numbers_of_any_size() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 10**6, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[abs(values) <= 65504]
    assert len(values) > 5 * 10**5
    assert_rounds_as_numpy(values)


def test_round_to_half__few_and_zero() -> None:
    for values in ([], [0.0], [-0.0, 0.1, -0.1]):
        assert_rounds_as_numpy(np.array(values, np.float32))
