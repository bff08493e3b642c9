"""Rows, blocks and corpora that the tests of the heads' passes share."""

from __future__ import annotations

import atexit
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import strategies as st

from tests.conftest import random_matrices
from threepass import Corpus, ingest_matrices
from threepass.corpus.rows import SparseRows
from threepass.corpus.store import Block
from threepass.passes.runner import Pass, Runner
from threepass.passes.segments import segments
from threepass.passes.sums import Sums
from threepass.passes.tall import TallSum

Dense = tuple[Corpus, np.ndarray, np.ndarray]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
PARTS = ["whole", "head", "train", "test", "one document", "one empty row", "nothing"]


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


@pytest.fixture(scope="session")
def many_blocks(tmp_path_factory: pytest.TempPathFactory) -> Dense:
    """A corpus of many small blocks, with the dense X (columns as in the corpus) and Y it was made from."""
    X, Y = ugly_matrices(34, 17, 5, seed=2)
    corpus = ingest_matrices(X, Y, tmp_path_factory.mktemp("heads") / "many.zarr", block_bytes=300)
    X = X[:, corpus.term_ids]
    assert corpus.n_blocks > 4
    assert X.max() > 1
    for axis in (0, 1):
        assert (X.sum(axis=axis) == 0).any()
        assert (Y.sum(axis=axis) == 0).any()
    return corpus, X, Y


def chosen(many_blocks: Dense, part: str) -> Dense:
    """A view of the corpus, and the dense rows that are in it; some of its blocks are empty."""
    corpus, X, Y = many_blocks
    rows = {
        "one document": np.flatnonzero(X.any(axis=1) & Y.any(axis=1))[:1],
        "one empty row": np.flatnonzero(~X.any(axis=1))[:1],
        "nothing": np.zeros(0, np.int64),
    }
    if part in rows:
        view = Corpus(corpus.root, corpus.info, rows[part])
    else:
        views = {"whole": corpus, "head": corpus.head(19)}
        views["train"], views["test"] = corpus.split(test=0.3)
        view = views[part]
        assert part in ("whole", "train") or (view.block_rows == 0).any()
    return view, X[view.doc_ids], Y[view.doc_ids]


def run(work: Pass, corpus: Corpus, accumulator_bytes: int = 1) -> Sums:
    return Runner(n_threads=1).run(work, corpus, segments(corpus, accumulator_bytes))


def plain_sums(sums: Sums) -> dict[str, np.ndarray]:
    """Arrays by their names, those with a row for each word made whole."""
    return {name: value.finished() if isinstance(value, TallSum) else value for name, value in sums.items()}


def normal(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def assert_close(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """As equal as single precision makes sums of these sizes."""
    assert one.keys() == other.keys()
    for name, array in other.items():
        size = max(1.0, abs(array).max(initial=0))
        np.testing.assert_allclose(one[name], array, rtol=1e-5, atol=2e-6 * size, err_msg=name)


@cache
def ingested(n: int, block_bytes: int, n_terms: int, n_labels: int) -> Corpus:
    """One of few corpora: many cuts of them are tried, and files take longer to write than to read."""
    folder = _folders.enter_context(tempfile.TemporaryDirectory())
    return ingest_matrices(
        *ugly_matrices(n, n_terms, n_labels, n), f"{folder}/corpus", block_bytes=block_bytes
    )


_folders = ExitStack()
atexit.register(_folders.close)


@dataclass(frozen=True)
class Cut:
    """Documents, a view of them, and the size of their blocks."""

    n: int
    block_bytes: int
    accumulator_bytes: int
    rows: str
    where: float
    share: float

    def corpora(self, n_terms: int, n_labels: int) -> tuple[Corpus, Corpus]:
        """The same view of the same documents in one block and in many."""
        whole = ingested(self.n, 10**6, n_terms, n_labels)
        assert whole.n_blocks == 1
        return self._view(whole), self._view(ingested(self.n, self.block_bytes, n_terms, n_labels))

    def _view(self, corpus: Corpus) -> Corpus:
        if self.rows == "all":
            return corpus
        if self.rows == "head":
            return corpus.head(round(self.where * self.n))
        return corpus.split(test=self.where, seed=self.n)[self.rows == "test"]


cuts = st.builds(
    Cut,
    n=st.sampled_from([1, 7, 24]),
    block_bytes=st.sampled_from([1, 150, 400]),
    accumulator_bytes=st.sampled_from([1, 10**9]),
    rows=st.sampled_from(["all", "head", "train", "test"]),
    where=st.floats(0, 1),
    share=st.sampled_from([0.0, 0.3, 1.0]),
)
