from __future__ import annotations

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
import sparse

from tests import naive
from tests.conftest import random_matrices
from threepass import Corpus, InputError, ingest_matrices
from threepass.ingest.sizes import Sizes

X, Y = random_matrices(37, 11, 5)


def check_holds(corpus: Corpus, X: np.ndarray = X, Y: np.ndarray = Y) -> None:
    x, y = corpus.to_scipy()
    assert corpus.term_ids.tolist() == naive.rank_terms(X)
    np.testing.assert_array_equal(x.toarray(), X[:, corpus.term_ids])
    np.testing.assert_array_equal(y.toarray(), Y != 0)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_matrices__scipy_of_any_format(tmp_path: Path, kind: str) -> None:
    check_holds(
        ingest_matrices(scipy.sparse.coo_array(X).asformat(kind), scipy.sparse.coo_matrix(Y), tmp_path / "d")
    )


@pytest.mark.parametrize("make", [sparse.COO, sparse.GCXS, np.asarray, np.asfortranarray])
def test_matrices__pydata_sparse_and_dense(tmp_path: Path, make: type) -> None:
    check_holds(ingest_matrices(make(X), make(Y), tmp_path / "d"))


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, np.float64])
def test_matrices__any_type_of_number(tmp_path: Path, dtype: object) -> None:
    check_holds(ingest_matrices(X.astype(dtype), Y.astype(bool), tmp_path / "d"))  # type: ignore[call-overload]


def test_matrices__the_input_is_left_alone(tmp_path: Path) -> None:
    ugly = scipy.sparse.csr_array(
        (np.array([1.0, 2, 0, 4]), np.array([3, 1, 0, 3]), np.array([0, 4])), shape=(1, 5)
    )
    before = ugly.copy()
    check_holds(
        ingest_matrices(ugly, np.ones((1, 1)), tmp_path / "d"), np.array([[0, 2, 0, 5, 0]]), np.ones((1, 1))
    )
    assert ugly.data.tolist() == before.data.tolist()
    assert ugly.indices.tolist() == before.indices.tolist()


@pytest.mark.parametrize("save", [scipy.sparse.save_npz, sparse.save_npz])
def test_matrices__npz_files(tmp_path: Path, save: object) -> None:
    make = scipy.sparse.csr_array if save is scipy.sparse.save_npz else sparse.COO
    save(tmp_path / "x.npz", make(X))  # type: ignore[operator]
    save(tmp_path / "y.npz", make(Y))  # type: ignore[operator]
    check_holds(ingest_matrices(tmp_path / "x.npz", str(tmp_path / "y.npz"), tmp_path / "d"))


@pytest.mark.parametrize("block", [np.asarray, scipy.sparse.csr_array, sparse.COO.from_numpy])
def test_matrices__dask_arrays_of_any_block(tmp_path: Path, block: object) -> None:
    x = da.from_array(X, chunks=(10, 4)).rechunk({1: -1}).map_blocks(block)
    y = (
        da.from_array(Y, chunks=(7, 5)).map_blocks(block)
        if block is np.asarray
        else da.from_array(Y, chunks=(10, 5))
    )
    check_holds(ingest_matrices(x, y, tmp_path / "d", block_bytes=300))


def test_matrices__dask_with_unknown_sizes(tmp_path: Path) -> None:
    keep = X.sum(axis=1) > 0
    x, y = (da.from_array(m, chunks=(10, -1))[da.from_array(keep, chunks=10)] for m in (X, Y))
    assert np.isnan(x.shape[0])
    check_holds(ingest_matrices(x, y, tmp_path / "d"), X[keep], Y[keep])
    with pytest.raises(InputError, match="cut differently"):
        ingest_matrices(x, da.from_array(Y[keep], chunks=(9, -1)), tmp_path / "e")


def test_matrices__one_dask_one_scipy(tmp_path: Path) -> None:
    check_holds(ingest_matrices(da.from_array(X, chunks=(10, -1)), scipy.sparse.csr_array(Y), tmp_path / "d"))


def test_matrices__cut_into_many_pieces(tmp_path: Path) -> None:
    check_holds(ingest_matrices(X, Y, tmp_path / "d", block_bytes=500, sizes=Sizes(piece_bytes=100)))


def test_matrices__no_labels(tmp_path: Path) -> None:
    corpus = ingest_matrices(X, None, tmp_path / "d")
    assert corpus.n_labels == 0
    check_holds(corpus, X, np.zeros((37, 0)))


BAD = np.where(X.max() == X, np.nan, X)


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        (X[:5], Y, "Found 5 and 37"),
        (da.from_array(X[:5]), da.from_array(Y), "Found 5 and 37"),
        (BAD, Y, "NaN or infinite values. Found in row"),
        (-X, Y, "X holds negative values"),
        (X, -Y, "Y holds negative values"),
        (X.astype(complex), Y, "must hold numbers"),
        (X[:0], Y[:0], "no rows"),
        (X[0], Y, "must be a matrix|not a matrix"),
        ("nothing.npz", Y, "does not exist"),
        ({"a": 1}, Y, "not a matrix"),
    ],
)
def test_matrices__refused(tmp_path: Path, x: object, y: object, why: str) -> None:
    with pytest.raises(InputError, match=why):
        ingest_matrices(x, y, tmp_path / "d")
    assert not list(tmp_path.iterdir())


def test_matrices__not_a_sparse_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=X)
    with pytest.raises(InputError, match="is not a sparse matrix"):
        ingest_matrices(tmp_path / "x.npz", Y, tmp_path / "d")
