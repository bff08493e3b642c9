"""Whatever users hand to an estimator, as blocks of sparse rows with the columns that the model knows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse

from pipeline.corpus.rows import Array, SparseRows
from pipeline.corpus.store import Corpus
from pipeline.errors import InputError
from pipeline.ingest.matrices import as_rows, ingest_matrices
from pipeline.tasks import compute_all

_ROWS = 20_000
"""Rows of a matrix in memory that make one block."""


@contextmanager
def training_corpus(X: Any, Y: Any, n_threads: int | None) -> Iterator[Corpus]:
    """X itself when it is a corpus; else matrices as a corpus in a temporary folder."""
    if isinstance(X, Corpus):
        if Y is not None:
            raise InputError(
                "A corpus holds its own labels. Found a second argument. Call fit(corpus) alone."
            )
        yield X
        return
    if Y is None:
        raise InputError("requires y to be passed, but the target y is None. Call fit(X, Y) or fit(corpus).")
    with tempfile.TemporaryDirectory(prefix="threepass-") as folder:
        yield ingest_matrices(X, Y, Path(folder) / "corpus.zarr", n_threads=n_threads)


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents to be labelled, in blocks that can be read in any order."""

    n_blocks: int
    read: Callable[[int], tuple[SparseRows, SparseRows | None]]
    """Block number -> words (columns as `columns` says) and, where they are known, labels."""
    columns: Array | None
    """Source id of each column; None when columns are source ids already."""


def documents(X: Any, Y: Any, n_terms: int) -> Documents:
    """Wrap a corpus, a matrix of any kind, or a Dask array; matrices must have `n_terms` columns."""
    if isinstance(X, Corpus):
        return Documents(X.n_blocks, lambda i: _corpus_block(X, i), X.term_ids)
    if getattr(X, "ndim", 2) == 2 and hasattr(X, "shape") and X.shape[1] != n_terms:
        raise InputError(
            f"X has {X.shape[1]} features, but MomentLabeler is expecting {n_terms} features as input. "
            "Use the columns of the training data."
        )
    if isinstance(X, da.Array):
        return _dask_documents(X, Y)
    rows = as_rows(X, "X")
    labels = None if Y is None else as_rows(Y, "Y", indicator=True)
    if labels is not None and labels.n_rows != rows.n_rows:
        raise InputError(
            f"X and Y must have as many rows as each other. Found {rows.n_rows} and {labels.n_rows}."
        )

    def read(i: int) -> tuple[SparseRows, SparseRows | None]:
        bounds = i * _ROWS, min((i + 1) * _ROWS, rows.n_rows)
        return rows.slice(*bounds), None if labels is None else labels.slice(*bounds)

    return Documents(max(1, -(-rows.n_rows // _ROWS)), read, None)


def _corpus_block(corpus: Corpus, number: int) -> tuple[SparseRows, SparseRows]:
    block = corpus.block(number)
    return block.X, block.Y


def _dask_documents(X: da.Array, Y: Any) -> Documents:
    xs: Sequence[Any] = X.rechunk({1: -1}).to_delayed().ravel()
    ys: Sequence[Any] | None = None
    if Y is not None:
        Y = Y if isinstance(Y, da.Array) else da.from_array(scipy.sparse.csr_array(Y), asarray=False)
        ys = Y.rechunk({0: X.chunks[0], 1: -1}).to_delayed().ravel()

    def read(i: int) -> tuple[SparseRows, SparseRows | None]:
        if ys is None:
            return as_rows(compute_all([xs[i]], 1)[0], "X"), None
        x, y = compute_all([xs[i], ys[i]], 1)
        return as_rows(x, "X"), as_rows(y, "Y", indicator=True)

    return Documents(len(xs), read, None)


def aligned(matrix: Array, columns: Array | None) -> Array:
    """Rows of a (D, K) matrix in source order, as the columns of some documents want them.

    Words that the model does not know get rows of zeros, which say nothing of any topic.
    """
    if columns is None:
        return matrix
    known = columns < len(matrix)
    if known.all():
        return np.ascontiguousarray(matrix[columns])
    result = np.zeros((len(columns), matrix.shape[1]), matrix.dtype)
    result[known] = matrix[columns[known]]
    return result
