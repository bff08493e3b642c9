from __future__ import annotations

import asyncio
import importlib
import json
import pickle
import shutil
import warnings
from pathlib import Path

import dask
import numpy as np
import pytest
import scipy.sparse
import sparse
import zarr
from dask.base import tokenize
from dask.sizeof import sizeof
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from tests import naive
from tests.conftest import random_matrices
from threepass import Corpus, InputError, StoreError, ingest_matrices
from threepass.corpus.rows import SparseRows

Small = tuple[Corpus, np.ndarray, np.ndarray]


def test_corpus__counts_and_names(small: Small) -> None:
    corpus, X, Y = small
    assert corpus.shape == X.shape == (corpus.n_docs, corpus.n_terms)
    assert corpus.n_labels == Y.shape[1]
    assert corpus.n_blocks > 5
    assert corpus.block_rows.sum() == corpus.n_docs
    np.testing.assert_array_equal(corpus.term_counts, np.count_nonzero(X, axis=0))
    np.testing.assert_array_equal(corpus.label_counts, Y.sum(axis=0))
    assert corpus.terms == [str(i) for i in corpus.term_ids]
    assert corpus.labels == [str(i) for i in range(7)]
    assert (np.diff(corpus.term_counts) <= 0).all()


def test_corpus__dask_arrays_equal_the_source(small: Small) -> None:
    corpus, X, Y = small
    for array, dense in ((corpus.X, X), (corpus.Y, Y)):
        assert isinstance(array._meta, sparse.GCXS)
        blocks = dask.compute(*array.to_delayed().ravel(), scheduler="threads")
        assert all(isinstance(block, sparse.GCXS) for block in blocks)
        assert [block.shape for block in blocks] == [(n, dense.shape[1]) for n in array.chunks[0]]
        np.testing.assert_array_equal(np.concatenate([block.todense() for block in blocks]), dense)


def test_corpus__blocks_share_memory_with_what_they_become(small: Small) -> None:
    corpus, X, _ = small
    for block in corpus.blocks():
        assert np.shares_memory(block.X.to_gcxs().indices, block.X.indices)
        assert np.shares_memory(block.X.to_scipy().indices, block.X.indices)
        rows = slice(block.first_row, block.first_row + block.X.n_rows)
        np.testing.assert_array_equal(block.X.to_scipy().toarray(), X[rows])


def test_corpus__same_content_same_dask_keys(small: Small, tmp_path: Path) -> None:
    corpus, _, _ = small
    again = Corpus.open(tmp_path / "small.zarr")
    assert again.X.name == corpus.X.name
    assert again.fingerprint == corpus.fingerprint
    assert corpus.X.name != corpus.Y.name
    assert corpus.head(10).X.name != corpus.X.name


def test_corpus__fingerprint_changes_with_content_and_blocks(tmp_path: Path) -> None:
    X, Y = random_matrices(30, 9, 4)
    other = X.copy()
    other[5, 2] += 1
    names = [str(i) for i in range(9)]
    made = [
        ingest_matrices(X, Y, tmp_path / "a"),
        ingest_matrices(other, Y, tmp_path / "b"),
        ingest_matrices(X, 1 - Y, tmp_path / "c"),
        ingest_matrices(X, Y, tmp_path / "d", block_bytes=300),
        ingest_matrices(X, Y, tmp_path / "e", feature_names=names),
    ]
    assert len({corpus.fingerprint for corpus in made}) == len(made)
    assert ingest_matrices(X, Y, tmp_path / "f").fingerprint == made[0].fingerprint


@pytest.mark.parametrize(
    "make", [sparse.GCXS, sparse.COO, scipy.sparse.csr_array, scipy.sparse.coo_matrix, scipy.sparse.lil_array]
)
def test_dask_compat__size_and_token(make: type) -> None:
    importlib.import_module("threepass.corpus.dask_compat")
    dense = np.random.default_rng(0).random((200, 300)) * (np.random.default_rng(1).random((200, 300)) < 0.5)
    matrix, same, other = make(dense), make(dense.copy()), make(dense * 2)
    assert sizeof(matrix) >= 12 * np.count_nonzero(dense) * 0.9
    assert tokenize(matrix) == tokenize(same)
    assert tokenize(matrix) != tokenize(other)


def test_corpus__pickles(small: Small) -> None:
    corpus, X, _ = small
    copy = pickle.loads(pickle.dumps(corpus.head(7)))
    np.testing.assert_array_equal(copy.to_scipy()[0].toarray(), X[:7])


def test_corpus__a_block_opens_with_anndata(small: Small, tmp_path: Path) -> None:
    from anndata.io import read_elem

    corpus, X, Y = small
    group = zarr.open_group(tmp_path / "small.zarr", mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anndata's own
        x, y = read_elem(group["X/00001"]), read_elem(group["Y/00001"])
    rows = slice(corpus.block_rows[0], corpus.block_rows[:2].sum())
    np.testing.assert_array_equal(x.toarray(), X[rows])
    np.testing.assert_array_equal(y.toarray(), Y[rows])


def test_corpus__binary_blocks_store_no_values(tmp_path: Path) -> None:
    X, Y = random_matrices(20, 9, 4)
    corpus = ingest_matrices(X, Y, tmp_path / "b.zarr", binary=True)
    assert corpus.is_binary
    np.testing.assert_array_equal(corpus.to_scipy()[0].toarray(), (X > 0)[:, corpus.term_ids])
    assert not (tmp_path / "b.zarr/X/00000/data/c").exists()
    assert (tmp_path / "b.zarr/X/00000/indices/c").exists()


@pytest.mark.parametrize(
    ("largest", "kind"),
    [(1, "ones"), (255, "uint8"), (256, "uint16"), (70_000, "uint32"), (0.5, "float32"), (0.1, "float64")],
)
def test_corpus__values_take_the_smallest_exact_type(tmp_path: Path, largest: float, kind: str) -> None:
    X = np.array([[1, 0, largest], [0, 1, 0]])
    corpus = ingest_matrices(X, np.ones((2, 1)), tmp_path / "v.zarr")
    assert corpus.info.values == kind
    np.testing.assert_array_equal(corpus.to_scipy()[0].toarray(), X[:, corpus.term_ids])
    np.testing.assert_array_equal(corpus.X.compute(scheduler="sync").todense(), X[:, corpus.term_ids])


@pytest.mark.parametrize("n", [0, 1, 13, 60, 1000])
def test_head__first_documents(small: Small, n: int) -> None:
    corpus, X, Y = small
    head = corpus.head(n)
    x, y = head.to_scipy()
    np.testing.assert_array_equal(x.toarray(), X[:n])
    np.testing.assert_array_equal(y.toarray(), Y[:n])
    assert head.X.shape == (min(n, 60), corpus.n_terms)
    np.testing.assert_array_equal(head.term_counts, np.count_nonzero(X[:n], axis=0))


def test_split__same_rows_whatever_the_blocks(small: Small, tmp_path: Path) -> None:
    corpus, X, Y = small
    whole = ingest_matrices(X, Y, tmp_path / "whole.zarr")
    assert whole.n_blocks == 1
    for seed in (0, 1):
        sides = [c.split(test=0.3, seed=seed) for c in (corpus, whole)]
        for mine, theirs in zip(*sides, strict=True):
            np.testing.assert_array_equal(mine.doc_ids, theirs.doc_ids)
            np.testing.assert_array_equal(mine.to_scipy()[0].toarray(), X[mine.doc_ids])
            np.testing.assert_array_equal(mine.to_scipy()[1].toarray(), Y[mine.doc_ids])
            np.testing.assert_array_equal(mine.label_counts, Y[mine.doc_ids].sum(axis=0))
        train, test = sides[0]
        assert sorted([*train.doc_ids, *test.doc_ids]) == list(range(60))
    assert not np.array_equal(corpus.split(seed=0)[1].doc_ids, corpus.split(seed=1)[1].doc_ids)


def test_split__a_view_splits_again_by_document_number(small: Small) -> None:
    corpus, _, _ = small
    inner = corpus.head(40).split(test=0.5, seed=3)[1]
    outer = corpus.split(test=0.5, seed=3)[1]
    assert inner.doc_ids.tolist() == [i for i in outer.doc_ids.tolist() if i < 40]


def test_split__share_is_as_asked(tmp_path: Path) -> None:
    from threepass.corpus.split import hash_uniform

    u = hash_uniform(np.arange(200_000), seed=7)
    counts, _ = np.histogram(u, bins=20, range=(0, 1))
    assert abs(counts - 10_000).max() < 500  # five standard deviations


@pytest.mark.parametrize("call", [lambda c: c.split(test=1.5), lambda c: c.head(-1)])
def test_corpus__wrong_arguments_are_refused(small: Small, call: object) -> None:
    with pytest.raises(InputError):
        call(small[0])  # type: ignore[operator]


def test_rows__take_and_concatenate(small: Small) -> None:
    _, X, _ = small
    csr = scipy.sparse.csr_array(X)
    rows = SparseRows(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data, X.shape[1])
    picked = np.array([5, 5, 0, 59, 17])
    np.testing.assert_array_equal(rows.take(picked).to_scipy().toarray(), X[picked])
    np.testing.assert_array_equal(rows.take(np.zeros(0, int)).to_scipy().toarray(), X[:0])
    parts = [rows.slice(a, b) for a, b in ((0, 10), (10, 10), (10, 60))]
    np.testing.assert_array_equal(SparseRows.concatenate(parts).to_scipy().toarray(), X)


def rows_of(dense: np.ndarray, dtype: type | None) -> SparseRows:
    """Without a type, ones."""
    csr = scipy.sparse.csr_array(dense)
    values = None if dtype is None else csr.data.astype(dtype)
    return SparseRows(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), values, dense.shape[1])


VALUES = [None, np.uint8, np.float32, np.float64]


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@given(picked=st.lists(st.integers(0, 19), max_size=30))
def test_rows__take_equals_picking_dense_rows(dtype: type | None, picked: list[int]) -> None:
    dense = random_matrices(20, 9, 1)[0]
    rows = rows_of(dense, dtype)
    for array in (rows.indptr, rows.indices, rows.values):
        if array is not None:
            array.flags.writeable = False  # as a memory map is
    taken = rows.take(np.array(picked, np.int64))
    assert (taken.indptr.dtype, taken.indices.dtype) == (np.int64, np.int32)
    assert (taken.values is None) == (dtype is None)
    assert taken.values is None or taken.values.dtype == dtype
    assert taken.n_columns == 9
    expected = dense if dtype is not None else (dense > 0) * 1
    np.testing.assert_array_equal(taken.to_scipy().toarray(), expected[picked])


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@given(
    dense=hnp.arrays(
        np.uint8, st.tuples(st.integers(0, 5), st.integers(0, 12)), elements=st.sampled_from([0, 0, 1, 3])
    )
)
def test_rows__compact_has_only_the_columns_in_use(dtype: type | None, dense: np.ndarray) -> None:
    rows = rows_of(dense, dtype)
    kept = rows.indices.copy()
    small, columns = rows.compact()
    np.testing.assert_array_equal(columns, np.flatnonzero(dense.any(axis=0)))
    assert small.shape == (len(dense), len(columns))
    assert small.indices.dtype == np.int32
    assert small.values is rows.values
    expected = dense if dtype is not None else (dense > 0) * 1
    np.testing.assert_array_equal(small.to_scipy().toarray(), expected[:, columns])
    np.testing.assert_array_equal(columns[small.indices], rows.indices)  # and back
    np.testing.assert_array_equal(rows.indices, kept)


def test_open__stores_that_are_not_directories(small: Small, tmp_path: Path) -> None:
    """From memory, and by URL: checked as well, but for what only a local disk can tell."""
    corpus, X, _ = small
    memory, default = MemoryStore(), default_buffer_prototype().buffer
    files = [path for path in (tmp_path / "small.zarr").rglob("*") if path.is_file()]
    content = {path.relative_to(tmp_path / "small.zarr").as_posix(): path.read_bytes() for path in files}

    async def fill(changes: dict[str, bytes]) -> None:
        for key, value in (content | changes).items():
            await memory.set(key, default.from_bytes(value))

    asyncio.run(fill({}))
    for location in (memory, f"file://{tmp_path}/small.zarr"):
        again = Corpus.open(location)
        assert again.term_ids.tolist() == corpus.term_ids.tolist()
        np.testing.assert_array_equal(again.to_scipy()[0].toarray(), X)
    asyncio.run(fill({"X/00002/indices/c/0": b"short"}))
    with pytest.raises(StoreError, match="X/00002"):
        Corpus.open(memory).block(2)
    asyncio.run(fill({"X/00002/indices/zarr.json": b"{}"}))
    with pytest.raises(StoreError, match="X/00002"):
        Corpus.open(memory).block(2)


def test_open__missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no corpus at .*nothing"):
        Corpus.open(tmp_path / "nothing")


def test_open__not_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    (tmp_path / "dir").mkdir()
    zarr.create_group(tmp_path / "group")
    for name, why in (("file", "it is a file"), ("dir", "no zarr v3 group"), ("group", "not a corpus")):
        with pytest.raises(StoreError, match=why):
            Corpus.open(tmp_path / name)


def _edit(store: Path, **changes: object) -> None:
    path = store / "zarr.json"
    content = json.loads(path.read_text())
    content["attributes"]["threepass"].pop("checksum")  # or all of this would be noticed by it
    for key, value in changes.items():
        if value is None:
            content["attributes"].pop("threepass")
        else:
            content["attributes"]["threepass"][key] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 2}, "version 2.*Upgrade"),
        ({"version": None}, "unfinished"),
        ({"n_docs": 61}, "do not add up"),
        ({"n_docs": -1}, "damaged"),
        ({"n_terms": "many"}, "damaged"),
        ({"n_terms": 2**40}, "damaged"),
        ({"values": "complex128"}, "damaged"),
        ({"blocks": 7}, "damaged"),
        ({"blocks": [{"n_docs": 60}]}, "damaged"),
    ],
)
def test_open__a_store_that_lies_is_refused(
    small: Small, tmp_path: Path, changes: dict[str, object], why: str
) -> None:
    _edit(tmp_path / "small.zarr", **changes)
    with pytest.raises(StoreError, match=why):
        Corpus.open(tmp_path / "small.zarr")


def test_open__cut_short_says_how_to_redo(small: Small, tmp_path: Path) -> None:
    (tmp_path / "small.zarr").rename(tmp_path / "next.zarr.partial")
    with pytest.raises(StoreError, match=r"cut short.*same command again"):
        Corpus.open(tmp_path / "next.zarr")


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "swap"])
def test_read__a_damaged_block_is_named(small: Small, tmp_path: Path, damage: str) -> None:
    chunks = tmp_path / "small.zarr/X"
    chunk = chunks / "00002/indices/c/0"
    content = bytearray(chunk.read_bytes())
    if damage == "flip":
        content[-1] ^= 4
        chunk.write_bytes(content)
    elif damage == "truncate":
        chunk.write_bytes(content[:-3])
    elif damage == "remove":
        chunk.unlink()
    else:
        shutil.rmtree(chunks / "00002")
        shutil.copytree(chunks / "00003", chunks / "00002")
    corpus = Corpus.open(tmp_path / "small.zarr")
    corpus.block(1)
    with pytest.raises(StoreError, match="X/00002"):
        corpus.block(2)


def test_naive__rank() -> None:
    assert naive.rank_terms(np.array([[1, 0, 2, 0], [1, 0, 2, 3]])) == [0, 2, 3, 1]


def test_stored_term_counts__are_of_all_documents_in_view_or_not(
    small: tuple[Corpus, np.ndarray, np.ndarray],
) -> None:
    corpus, X, _ = small
    for view in (corpus, corpus.head(7), corpus.split(test=0.5)[1]):
        counts, n_docs = view.stored_term_counts
        assert counts.tolist() == np.count_nonzero(X, axis=0).tolist()
        assert n_docs == len(X)


def test_block__takes_words_that_were_read_before(small: tuple[Corpus, np.ndarray, np.ndarray]) -> None:
    view = small[0].head(30)
    words = view.block_side("X", 1)
    block = view.block(1, words)
    assert block.X is words
    np.testing.assert_array_equal(block.Y.to_scipy().toarray(), view.block(1).Y.to_scipy().toarray())
    assert block.first_row == view.block(1).first_row
