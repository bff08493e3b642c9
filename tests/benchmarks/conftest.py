from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from tests.conftest import random_matrices
from threepass.corpus.rows import SparseRows

Dense = tuple[np.ndarray, np.ndarray]
Rows = tuple[SparseRows, SparseRows]


def sparse_rows(dense: np.ndarray) -> SparseRows:
    csr = scipy.sparse.csr_array(dense)
    values = csr.data.astype(np.float32)
    return SparseRows(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), values, dense.shape[1])


@pytest.fixture
def dense() -> Dense:
    """Words and labels with empty rows, unlabelled rows, a word and a label that no document has."""
    X, Y = random_matrices(40, 13, 6)
    X, Y = X * 0.37, Y * 1.0
    X[:, 4] = 0
    Y[:, 2] = 0
    assert (X.sum(axis=1) == 0).any()
    assert (Y.sum(axis=1) == 0).any()
    return X, Y


@pytest.fixture
def rows(dense: Dense) -> Rows:
    return sparse_rows(dense[0]), sparse_rows(dense[1])
