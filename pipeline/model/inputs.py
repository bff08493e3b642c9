"""Inputs of all kinds as blocks of sparse rows, in the columns that a model knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..corpus.convert import as_rows, as_scipy, is_dask, is_pydata
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError
from ..tasks import check_wanted, compute_all, map_tasks, n_cpus, one_blas_thread

if TYPE_CHECKING:
    from .predictor import Predictor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """Numbers of documents that are labelled or judged together."""

    block_rows: int = 20_000
    """Rows of a matrix in memory that make one block."""
    task_docs: int = 4096
    """Documents whose features are held at a time, by each task."""
    scores: int = 100_000_000
    """Documents times labels that are scored in a few seconds; of more, a sample of about as many."""
    fewest_sampled: int = 1000
    """Documents of such a sample at least."""


SIZES = BatchSizes()


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents to be labelled, in blocks that can be read in any order."""

    n_blocks: int
    read: Callable[[int], tuple[SparseRows, SparseRows | None]]
    """Block number -> words, in the model's columns, and, where they are known, labels."""
    n_docs: int = 0
    """For progress alone; 0 where it is not known before they are read."""


def number_of(X: Any) -> int:
    """Number of documents that X is."""
    if isinstance(X, Corpus | Documents):
        return X.n_docs
    if isinstance(X, str):
        return 1
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def is_plain(X: Any) -> bool:
    """Whether scikit-learn's own validation understands X."""
    if X is None or is_dask(X) or is_pydata(X):
        return False
    return not isinstance(X, Corpus | Documents | str | Path)


def is_texts(X: Any) -> bool:
    """Whether X is a text, or a sequence with texts in it."""
    from .texts import as_text_list

    return as_text_list(X) is not None


def as_documents(X: Any, Y: Any, model: Predictor) -> Documents:
    """A corpus, texts, a matrix of any kind or a Dask array, in the columns of a model."""
    from .texts import as_text_list, check_like, has_tag_lists, tag_rows

    if isinstance(X, Documents):
        return X
    if isinstance(X, Corpus):
        check_like(X, model.text, model.term_names, None)
    elif (texts := as_text_list(X)) is not None:
        rows = model.encoder.text_rows(texts)
        tagged = Y is not None and has_tag_lists(Y)
        labels = tag_rows(Y, len(texts), model.label_names) if tagged else as_labels(Y)
        return row_documents(rows, labels, model.sizes.block_rows)
    return documents(X, Y, model.n_terms, model.sizes.block_rows)


def over_documents(
    X: Any,
    use: Callable[[SparseRows], T],
    model: Predictor,
    told: Callable[[float], None] | None = None,
) -> Iterator[T]:
    """`use(words)` of some documents at a time, in order, on threads.

    `told` is called with each further number of documents that are done.
    """
    docs, n_threads, step = as_documents(X, None, model), model.n_threads, model.sizes.task_docs

    def block(number: int) -> list[T]:
        words, _ = docs.read(number)
        parts = []
        for start in range(0, max(1, words.n_rows), step):
            stop = min(start + step, words.n_rows)
            check_wanted()
            parts.append(use(words.slice(start, stop)))
            if told is not None:
                told(stop - start)
        return parts

    at_a_time = 2 * (n_threads or n_cpus())
    for first in range(0, docs.n_blocks, at_a_time):
        numbers = range(first, min(first + at_a_time, docs.n_blocks))
        with one_blas_thread():
            done = map_tasks(block, numbers, name="predict", n_threads=n_threads)
        for parts in done:
            yield from parts


def row_documents(rows: SparseRows, labels: SparseRows | None, n_rows: int) -> Documents:
    """Rows that are in memory, `n_rows` to a block."""

    def read(i: int) -> tuple[SparseRows, SparseRows | None]:
        bounds = i * n_rows, min((i + 1) * n_rows, rows.n_rows)
        return rows.slice(*bounds), None if labels is None else labels.slice(*bounds)

    return Documents(max(1, -(-rows.n_rows // n_rows)), read, rows.n_rows)


def documents(X: Any, Y: Any, n_terms: int, n_rows: int = SIZES.block_rows) -> Documents:
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
    if is_dask(X):
        return _dask_documents(X, Y)
    return row_documents(as_rows(X, "X"), as_labels(Y), n_rows)


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


def as_labels(Y: Any) -> SparseRows | None:
    """A matrix of labels in memory as rows; None for none."""
    return None if Y is None else as_rows(_as_columns(as_label_matrix(Y)), "Y", indicator=True)


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


def _dask_documents(X: Any, Y: Any) -> Documents:
    xs: Sequence[Any] = X.rechunk({1: -1}).to_delayed().ravel()
    ys: Sequence[Any] | None = None
    if Y is not None:
        if not is_dask(Y):
            import dask.array as da
            import scipy.sparse

            Y = da.from_array(scipy.sparse.csr_array(_as_columns(Y)), asarray=False)
        ys = Y.rechunk({0: X.chunks[0], 1: -1}).to_delayed().ravel()

    def read(i: int) -> tuple[SparseRows, SparseRows | None]:
        if ys is None:
            return as_rows(compute_all([xs[i]], 1)[0], "X"), None
        x, y = compute_all([xs[i], ys[i]], 1)
        return as_rows(x, "X"), as_rows(y, "Y", indicator=True)

    return Documents(len(xs), read)
