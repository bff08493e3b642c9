"""Whatever users hand to an estimator, as blocks of sparse rows with the columns that the model knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse
import sparse
from sklearn.utils import check_X_y
from sklearn.utils.validation import validate_data

from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError
from ..ingest.matrices import as_rows, ingest_matrices
from ..storage.destination import temporary_folder
from ..tasks import compute_all

_ROWS = 20_000
"""Rows of a matrix in memory that make one block."""


def as_scipy(matrix: Any) -> Any:
    """Sparse matrices of any library as scipy's, and lists as arrays; what is lazy stays so."""
    if matrix is None or isinstance(matrix, da.Array | Corpus | str | Path):
        return matrix
    if isinstance(matrix, sparse.SparseArray):
        return sparse.COO(matrix).to_scipy_sparse() if matrix.ndim == 2 else matrix.todense()
    if scipy.sparse.issparse(matrix) or hasattr(matrix, "iloc"):
        return matrix
    return np.asarray(matrix)


def as_label_matrix(Y: Any) -> Any:
    """Labels as `as_scipy` has them; names of labels are refused with what makes columns of them."""
    try:
        matrix = as_scipy(Y)
    except ValueError as error:
        raise _names_found("lists of several lengths") from error
    dtypes = getattr(matrix, "dtypes", getattr(matrix, "dtype", None))  # a table has one for each column
    for dtype in np.ravel(np.asarray(dtypes, object)):
        if dtype is not None and dtype.kind not in "buifc":
            raise _names_found(f"values of type {dtype}")
    return matrix


def _names_found(what: str) -> InputError:
    return InputError(
        f"Unknown label type: a column for each label is wanted. Found {what}. Use "
        "sklearn.preprocessing.MultiLabelBinarizer, with classes=model.label_names_ where a model has names."
    )


def is_plain(X: Any) -> bool:
    """Whether scikit-learn's own validation understands X."""
    return X is not None and not isinstance(X, Corpus | da.Array | sparse.SparseArray | str | Path)


def validated(estimator: Any, X: Any, Y: Any = None) -> tuple[Any, Any]:
    """What scikit-learn checks of any estimator's input; with Y, when fitting."""
    try:
        if Y is None:
            return validate_data(estimator, X, accept_sparse="csr", reset=False), None
        X, Y = check_X_y(X, Y, accept_sparse="csr", multi_output=True, estimator=estimator)
    except ValueError as error:
        raise InputError(str(error)) from error
    return X, Y.reshape(-1, 1) if Y.ndim == 1 else Y


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
    with temporary_folder() as folder:
        yield ingest_matrices(X, Y, folder / "corpus.zarr", n_threads=n_threads)


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents to be labelled, in blocks that can be read in any order."""

    n_blocks: int
    read: Callable[[int], tuple[SparseRows, SparseRows | None]]
    """Block number -> words, in the model's columns, and, where they are known, labels."""
    n_docs: int = 0
    """For progress alone; 0 where it is not known before they are read."""


def row_documents(rows: SparseRows, labels: SparseRows | None = None, n_rows: int = _ROWS) -> Documents:
    """Rows that are in memory, `n_rows` to a block."""

    def read(i: int) -> tuple[SparseRows, SparseRows | None]:
        bounds = i * n_rows, min((i + 1) * n_rows, rows.n_rows)
        return rows.slice(*bounds), None if labels is None else labels.slice(*bounds)

    return Documents(max(1, -(-rows.n_rows // n_rows)), read, rows.n_rows)


def documents(X: Any, Y: Any, n_terms: int) -> Documents:
    """Wrap a corpus, a matrix of any kind, or a Dask array; matrices must have `n_terms` columns."""
    if isinstance(X, Corpus):
        return Documents(X.n_blocks, lambda i: _corpus_block(X, i, n_terms), X.n_docs)
    X, Y = as_scipy(X), as_label_matrix(Y)
    if np.ndim(X) != 2 or X.shape[1] != n_terms:
        raise InputError(
            f"X has {X.shape[1] if np.ndim(X) == 2 else 'no'} features, but MomentLabeler is expecting "
            f"{n_terms} features as input. Give a matrix with the columns of the training data."
        )
    if Y is not None and Y.shape[0] != X.shape[0] and not np.isnan(X.shape[0] + Y.shape[0]):
        raise InputError(
            f"X and Y must have as many rows as each other. Found {X.shape[0]} and {Y.shape[0]}."
        )
    if isinstance(X, da.Array):
        return _dask_documents(X, Y)
    rows = as_rows(X, "X")
    labels = as_labels(Y)
    return row_documents(rows, labels)


def as_labels(Y: Any) -> SparseRows | None:
    """A matrix of labels in memory as rows; None for none."""
    return None if Y is None else as_rows(_as_columns(Y), "Y", indicator=True)


def _as_columns(Y: Any) -> Any:
    """One label's values, given as a plain vector, as a matrix of one column."""
    return Y.reshape(-1, 1) if isinstance(Y, np.ndarray) and Y.ndim == 1 else Y


def _corpus_block(corpus: Corpus, number: int, n_terms: int) -> tuple[SparseRows, SparseRows]:
    """Words by their ids in the source, those that the model knows; in a row as the corpus has them."""
    block = corpus.block(number)
    X, ids = block.X, corpus.term_ids[block.X.indices]
    if corpus.n_terms <= n_terms:
        return SparseRows(X.indptr, ids, X.values, n_terms), block.Y
    known = ids < n_terms
    indptr = np.concatenate([[0], np.cumsum(known)])[X.indptr]
    values = None if X.values is None else X.values[known]
    return SparseRows(indptr, ids[known], values, n_terms), block.Y


def _dask_documents(X: da.Array, Y: Any) -> Documents:
    xs: Sequence[Any] = X.rechunk({1: -1}).to_delayed().ravel()
    ys: Sequence[Any] | None = None
    if Y is not None:
        Y = (
            Y
            if isinstance(Y, da.Array)
            else da.from_array(scipy.sparse.csr_array(_as_columns(Y)), asarray=False)
        )
        ys = Y.rechunk({0: X.chunks[0], 1: -1}).to_delayed().ravel()

    def read(i: int) -> tuple[SparseRows, SparseRows | None]:
        if ys is None:
            return as_rows(compute_all([xs[i]], 1)[0], "X"), None
        x, y = compute_all([xs[i], ys[i]], 1)
        return as_rows(x, "X"), as_rows(y, "Y", indicator=True)

    return Documents(len(xs), read)
