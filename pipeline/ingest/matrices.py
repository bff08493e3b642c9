"""Ingest of matrices: scipy and pydata/sparse matrices, `.npz` files, Dask arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import scipy.sparse

from ..corpus.convert import as_rows, as_scipy, is_dask
from ..corpus.format import MAX_COLUMNS
from ..corpus.store import Corpus
from ..errors import InputError
from ..tasks import compute_all, map_tasks
from .compose import build_corpus
from .spool import (
    IngestKeywords,
    IngestOptions,
    Names,
    PieceWriter,
    Shape,
    Source,
    Spool,
)

Matrix = Any
"""Any matrix that `ingest_matrices` takes for X or Y."""


def ingest_matrices(
    X: Matrix,
    Y: Matrix | None,
    dest: str | Path,
    *,
    feature_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    **options: Unpack[IngestKeywords],
) -> Corpus:
    """Turn matrices into a corpus on disk.

    Parameters
    ----------
    X
        (documents, terms), not negative: a scipy sparse matrix or array of any format, a pydata/sparse array,
        a dense array, the path of an `.npz` file that scipy or pydata/sparse wrote, or a Dask array of any of
        these, which is computed block by block and never held in memory as a whole.
    Y
        (documents, labels): the same kinds. Every nonzero entry is a label. None: no labels at all.
    dest
        Path of the new corpus, which appears only once it is complete.
    feature_names, label_names
        A name for each column.
    **options
        `binary`, `block_bytes`, `overwrite`, `n_threads`, `progress`: see `IngestOptions`.

    Raises
    ------
    InputError
        The matrices do not fit each other, or hold values that are negative or not finite.

    Examples
    --------
    >>> import numpy, tempfile
    >>> X, Y = numpy.eye(3), numpy.ones((3, 2))
    >>> ingest_matrices(X, Y, tempfile.mkdtemp() + "/eye.zarr", label_names=["a", "b"]).labels
    ['a', 'b']
    """
    X = _loaded(X, "X")
    Y = scipy.sparse.csr_array((X.shape[0], 0)) if Y is None else _loaded(Y, "Y")
    for matrix, name in ((X, "X"), (Y, "Y")):
        if matrix.ndim != 2 or matrix.shape[1] > MAX_COLUMNS:
            raise InputError(
                f"{name} must be a matrix of at most {MAX_COLUMNS:,} columns. Found shape {matrix.shape}."
            )
    if X.shape[0] != Y.shape[0] and not np.isnan(X.shape[0] + Y.shape[0]):
        raise _rows_differ(X.shape[0], Y.shape[0])
    if X.shape[0] == 0:
        raise InputError("X has no rows. Give at least one document.")
    read = partial(_read_dask if is_dask(X) or is_dask(Y) else _read_memory, X, Y)
    source = Source(
        read=read,
        description={"kind": "matrices"},
        shape=Shape(int(X.shape[1]), int(Y.shape[1])),
        names=Names(feature_names, label_names),
    )
    return build_corpus(dest, source, IngestOptions(**options))


def _loaded(matrix: Matrix, name: str) -> Matrix:
    """Load `.npz`, leave Dask arrays lazy, and convert anything else to CSR, which is cheap to slice."""
    if isinstance(matrix, str | Path):
        matrix = _load_npz(Path(matrix))
    if is_dask(matrix):
        return matrix
    try:
        return scipy.sparse.csr_array(as_scipy(matrix))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} is not a matrix. Found {type(matrix).__name__} ({error}). "
            "Give a scipy or pydata/sparse matrix, a dense or Dask array, or the path of an .npz file."
        ) from error


def _load_npz(path: Path) -> Matrix:
    try:
        try:
            return scipy.sparse.load_npz(path)
        except (ValueError, KeyError):
            import sparse

            return sparse.load_npz(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist. Check the path.") from error
    except Exception as error:
        raise InputError(
            f"{path} is not a sparse matrix that scipy.sparse.save_npz or sparse.save_npz wrote ({error})."
        ) from error


def _read_memory(X: Matrix, Y: Matrix, spool: Spool) -> list[PieceWriter]:
    sizes = 8 * (X.indptr.astype(np.int64) + Y.indptr) + 16 * np.arange(X.shape[0] + 1)
    cuts = np.unique(np.searchsorted(sizes, np.arange(0, sizes[-1], spool.options.sizes.piece_bytes)))
    bounds = [*cuts.tolist(), X.shape[0]]

    def read(number: int) -> PieceWriter:
        rows = slice(bounds[number], bounds[number + 1])
        writer = spool.writer(number)
        writer.add(as_rows(X[rows], "X"), as_rows(Y[rows], "Y", indicator=True))
        spool.advance("read", 1, len(bounds) - 1)
        return writer

    return map_tasks(read, range(len(bounds) - 1), name="ingest-read", n_threads=spool.options.n_threads)


def _read_dask(X: Matrix, Y: Matrix, spool: Spool) -> list[PieceWriter]:
    import dask
    import dask.array as da

    X, Y = (m if is_dask(m) else da.from_array(m, chunks=(-1, -1), asarray=False) for m in (X, Y))
    X, Y = X.rechunk({1: -1}), Y.rechunk({1: -1})
    if X.chunks[0] != Y.chunks[0] and not np.isnan([*X.chunks[0], *Y.chunks[0]]).any():
        Y = Y.rechunk({0: X.chunks[0]})
    xs, ys = X.to_delayed().ravel(), Y.to_delayed().ravel()
    if len(xs) != len(ys):
        raise InputError(
            f"X and Y are cut differently, and the sizes of their blocks are unknown. Found {len(xs)} and "
            f"{len(ys)} blocks. Call compute_chunk_sizes() on both first."
        )

    def read(number: int, x: Matrix, y: Matrix) -> PieceWriter:
        rows, labels = as_rows(x, "X"), as_rows(y, "Y", indicator=True)
        if rows.n_rows != labels.n_rows:
            raise _rows_differ(rows.n_rows, labels.n_rows)
        writer = spool.writer(number)
        writer.add(rows, labels)
        spool.advance("read", 1, len(xs))
        return writer

    call = dask.delayed(read, pure=False)
    tasks = [
        call(i, x, y, dask_key_name=("ingest-read", i)) for i, (x, y) in enumerate(zip(xs, ys, strict=True))
    ]
    return compute_all(tasks, spool.options.n_threads)


def _rows_differ(x: float, y: float) -> InputError:
    return InputError(f"X and Y must have as many rows as each other. Found {x} and {y}.")
