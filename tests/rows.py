"""Rows, blocks and random corpora in memory, for tests of passes, moments and parts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from tests.conftest import random_matrices
from threepass.corpus.rows import SparseRows
from threepass.corpus.store import Block
from threepass.passes.work import Pass, S

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def sparse_rows(dense: np.ndarray, dtype: Any = None) -> SparseRows:
    """The rows of a dense array; without a type, ones."""
    csr = scipy.sparse.csr_array(dense)
    values = None if dtype is None else csr.data.astype(dtype)
    return SparseRows(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), values, dense.shape[1])


def dense_rows(rows: SparseRows) -> np.ndarray:
    return rows.to_scipy(np.float64).toarray()


def block_of(X: np.ndarray, Y: np.ndarray, first_row: int = 0, number: int = 0) -> Block:
    return Block(number, first_row, sparse_rows(X, np.float32), sparse_rows(Y))


def ugly_matrices(n: int, n_terms: int, n_labels: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random counts and labels with empty and unlabelled rows, words never seen and a label never used."""
    X, Y = random_matrices(n, n_terms, n_labels, seed)
    Y[:, n_labels // 2] = 0
    return X, Y


def normal(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def assert_close(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> None:
    """As equal as single precision makes sums of these sizes."""
    assert one.keys() == other.keys()
    for name, array in other.items():
        size = max(1.0, abs(array).max(initial=0))
        np.testing.assert_allclose(one[name], array, rtol=1e-5, atol=2e-6 * size, err_msg=name)


def summed(work: Pass[S], *blocks: Block) -> S:
    """The sums of some blocks, one after the other."""
    sums = work.zero()
    for block in blocks:
        work.add(sums, block)
    sums.settle()
    return sums


def cut(X: np.ndarray, Y: np.ndarray, *places: int) -> list[Block]:
    """Blocks of the same documents; a place that comes up twice makes an empty one."""
    bounds = [0, *places, len(X)]
    return [
        block_of(X[start:stop], Y[start:stop], start, i) for i, (start, stop) in enumerate(pairwise(bounds))
    ]
