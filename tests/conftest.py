"""Corpora that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

# two processes share the processors; set before NumPy loads its BLAS
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, settings

from threepass import Corpus, ingest_matrices

# The same examples on every run of CI, which must not fail by chance; new ones at a developer's desk. A busy
# machine is slow, which is no fault of the code.
settings.register_profile(
    "threepass",
    deadline=None,
    max_examples=60,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("threepass")


def random_matrices(n: int, n_terms: int, n_labels: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dense counts and labels with empty rows, unlabelled rows and columns never used."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.3, (n, n_terms)) * (rng.random(n_terms) < 0.8)
    Y = (rng.random((n, n_labels)) < 0.2) * 1
    X[:: max(3, n // 7)] = 0
    Y[1 :: max(3, n // 5)] = 0
    return X, Y


@pytest.fixture
def small(tmp_path: Path) -> tuple[Corpus, np.ndarray, np.ndarray]:
    """A corpus of many small blocks, with the dense X (columns as in the corpus) and Y it was made from."""
    X, Y = random_matrices(60, 23, 7)
    corpus = ingest_matrices(
        scipy.sparse.csr_array(X), scipy.sparse.csr_array(Y), tmp_path / "small.zarr", block_bytes=700
    )
    return corpus, X[:, corpus.term_ids], Y
