"""`Corpus`: a corpus on disk, read block by block."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import zarr

from ..display import how_many, html_table
from ..errors import InputError
from ..storage.marks import Location
from ..text.info import Tokenizer
from ..types import Array
from . import format as fmt
from .origins import StoredOrigins
from .rows import SparseRows
from .split import in_test

if TYPE_CHECKING:
    import dask.array as da
    import scipy.sparse
    import sparse


@dataclass(frozen=True, slots=True)
class Block:
    """A run of consecutive documents: words X and labels Y of the same rows."""

    number: int
    first_row: int
    X: SparseRows
    Y: SparseRows


class Corpus:
    """Documents and their labels, stored on disk in blocks and read on demand.

    Columns of X are terms ranked by document frequency; `term_ids` holds their ids in the source. `split` and
    `head` return views: the same files, fewer rows.

    Examples
    --------
    >>> import tempfile, scipy.sparse
    >>> from threepass import Corpus, ingest_matrices
    >>> X = scipy.sparse.csr_array([[1, 0, 2], [0, 0, 3], [1, 1, 1]])
    >>> Y = scipy.sparse.csr_array([[1, 0], [0, 1], [1, 1]])
    >>> corpus = ingest_matrices(X, Y, tempfile.mkdtemp() + "/tiny.zarr")
    >>> corpus
    <Corpus: 3 documents x 3 terms, 2 labels, 1 block>
    >>> corpus.term_ids.tolist(), corpus.term_counts.tolist()
    ([2, 0, 1], [3, 2, 1])
    """

    def __init__(self, root: zarr.Group, info: fmt.CorpusInfo, rows: Array | None = None) -> None:
        self._root = root
        self._info = info
        self._rows = rows  # numbers of the documents in view, increasing; None: all of them
        starts = np.concatenate([[0], np.cumsum([block.n_docs for block in info.blocks])]).astype(np.int64)
        # bounds[b]:bounds[b + 1] are the rows of this view that lie in block b
        self._starts = starts
        self._bounds = starts if rows is None else np.searchsorted(rows, starts)

    @classmethod
    def open(cls, location: Location) -> Corpus:
        """Open a corpus by path, fsspec URL or zarr store, and validate its metadata.

        Raises
        ------
        StoreError
            There is no complete corpus of a known version.
        """
        return cls(*fmt.open_root(location))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of X: documents and terms."""
        return self.n_docs, self.n_terms

    @property
    def n_docs(self) -> int:
        return int(self._bounds[-1])

    @property
    def n_terms(self) -> int:
        return self._info.n_terms

    @property
    def n_labels(self) -> int:
        return self._info.n_labels

    @property
    def n_blocks(self) -> int:
        return len(self._info.blocks)

    @property
    def block_rows(self) -> Array:
        """(n_blocks,) int64: documents of this corpus in each block. A view may have none in some."""
        return np.diff(self._bounds)

    @property
    def block_bytes(self) -> Array:
        """(n_blocks,) int64: rough size in memory of the words of each block, whatever rows are in view."""
        return np.array([8 * block.x_nnz + 16 * block.n_docs for block in self._info.blocks], np.int64)

    @property
    def is_binary(self) -> bool:
        """Whether every stored value is 1."""
        return self._info.values == "ones"

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Type of X's values once read: float32, or float64 if float32 would not be exact."""
        return np.dtype(np.float64 if self._info.values in ("uint32", "float64") else np.float32)

    @property
    def root(self) -> zarr.Group:
        """The zarr group that holds everything."""
        return self._root

    @property
    def info(self) -> fmt.CorpusInfo:
        """Metadata of the whole store, whatever rows are in view."""
        return self._info

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Tokenizer of the texts; None if the corpus was not made of texts."""
        return None if self._info.text is None else self._info.text.tokenizer

    @cached_property
    def doc_ids(self) -> Array:
        """(n_docs,) int64: number of each document of this view in the whole corpus."""
        return np.arange(self.n_docs) if self._rows is None else self._rows

    @cached_property
    def origins(self) -> StoredOrigins:
        """Files, rows and ids that documents came from; of all documents, in view or not."""
        return StoredOrigins(self._root, self._info)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of exactly this content, these blocks and these rows."""
        if self._rows is None:
            return self._info.fingerprint
        digest = hashlib.sha256(self._info.fingerprint.encode() + self._rows.tobytes())
        return digest.hexdigest()[:32]

    @cached_property
    def term_ids(self) -> Array:
        """(n_terms,) int32: source id of each column of X."""
        return fmt.read_term_ids(self._root, self._info)

    @cached_property
    def terms(self) -> list[str]:
        """Name of each column of X; the source id as text if no names were given."""
        return fmt.read_names(self._root, self._info, "X") or [str(i) for i in self.term_ids.tolist()]

    @cached_property
    def labels(self) -> list[str]:
        """Name of each column of Y; its number as text if no names were given."""
        return fmt.read_names(self._root, self._info, "Y") or [str(i) for i in range(self.n_labels)]

    @property
    def term_counts(self) -> Array:
        """(n_terms,) int64: documents with each term. A view reads its blocks once to count them."""
        return self._counts[0]

    @property
    def label_counts(self) -> Array:
        """(n_labels,) int64: documents with each label. A view reads its blocks once to count them."""
        return self._counts[1]

    @property
    def stored_term_counts(self) -> tuple[Array, int]:
        """Document frequencies, (n_terms,) int64, and number of documents, both of the whole corpus.

        They were counted at ingest, so no block is read. In a view they still cover all documents. They
        reveal nothing about labels.
        """
        return fmt.read_counts(self._root, self._info, "X"), self._info.n_docs

    @cached_property
    def _counts(self) -> tuple[Array, Array]:
        if self._rows is None:
            return fmt.read_counts(self._root, self._info, "X"), fmt.read_counts(self._root, self._info, "Y")
        terms, labels = np.zeros(self.n_terms, np.int64), np.zeros(self.n_labels, np.int64)
        for block in self.blocks():
            terms += np.bincount(block.X.indices, minlength=self.n_terms)
            labels += np.bincount(block.Y.indices, minlength=self.n_labels)
        return terms, labels

    def blocks(self) -> Iterator[Block]:
        """Every block in turn, empty ones included."""
        return (self.block(number) for number in range(self.n_blocks))

    def block(self, number: int, X: SparseRows | None = None) -> Block:
        """Read one block from disk, or only its labels if its words `X` were read before."""
        X = self.block_side("X", number) if X is None else X
        return Block(number, int(self._bounds[number]), X, self.block_side("Y", number))

    def block_side(self, side: fmt.Side, number: int) -> SparseRows:
        """Read the words or the labels of one block from disk."""
        return _read_view(self._root, self._info, side, number, self._local_rows(number))

    def _local_rows(self, number: int) -> Array | None:
        """Rows of the stored block that are in view; None for all."""
        if self._rows is None:
            return None
        in_block = slice(self._bounds[number], self._bounds[number + 1])
        local: Array = self._rows[in_block] - self._starts[number]
        return local

    @property
    def X(self) -> da.Array:
        """(n_docs, n_terms) Dask array of `sparse.GCXS` blocks, one for each block on disk."""
        return self._dask("X", self.n_terms, self.dtype)

    @property
    def Y(self) -> da.Array:
        """(n_docs, n_labels) Dask array of `sparse.GCXS` blocks of ones, one for each block on disk."""
        return self._dask("Y", self.n_labels, np.dtype(np.float32))

    def _dask(self, side: fmt.Side, n_columns: int, dtype: np.dtype[np.floating]) -> da.Array:
        import dask
        import dask.array as da
        import scipy.sparse
        import sparse

        from . import dask_compat as _dask_compat  # noqa: F401  (registers sizes and tokens of blocks)

        # The same content has the same keys on purpose: Dask may then share it.
        name = f"corpus-{side}-{self.fingerprint}"
        meta = sparse.GCXS(scipy.sparse.csr_array((0, 0), dtype=dtype))
        blocks = []
        for number, n_rows in enumerate(self.block_rows.tolist()):
            read = partial(_read_gcxs, self._root, self._info, side, number, self._local_rows(number), dtype)
            value = dask.delayed(read)(dask_key_name=f"read-{name}-{number}")
            shape = (n_rows, n_columns)
            blocks.append(da.from_delayed(value, shape, dtype, meta=meta, name=f"{name}-{number}"))
        return da.concatenate(blocks)

    def to_scipy(self) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
        """X and Y in memory; for corpora that fit."""
        blocks = list(self.blocks())
        if not blocks:
            raise InputError("The corpus has no blocks. Nothing was ingested into it. Ingest it again.")
        X = SparseRows.concatenate([block.X for block in blocks]).to_scipy(self.dtype)
        return X, SparseRows.concatenate([block.Y for block in blocks]).to_scipy()

    def head(self, n: int) -> Corpus:
        """A view of the first `n` documents."""
        if n < 0:
            raise InputError(f"head needs a number of documents. Found {n}. Pass 0 or more.")
        return Corpus(self._root, self._info, self.doc_ids[:n])

    def split(self, test: float = 0.2, seed: int = 0) -> tuple[Corpus, Corpus]:
        """Views of the training and the test documents, chosen by a hash of the document's number.

        Parameters
        ----------
        test
            Expected share of test documents, 0 to 1.
        seed
            Another seed gives another split.
        """
        if not 0 <= test <= 1:
            raise InputError(f"test is the share of test documents. Found {test}. Pass a number from 0 to 1.")
        mask = in_test(self.doc_ids, test, seed)
        train, held_out = self.doc_ids[~mask], self.doc_ids[mask]
        return Corpus(self._root, self._info, train), Corpus(self._root, self._info, held_out)

    def __repr__(self) -> str:
        view = "" if self._rows is None else f" (a view of {self._info.n_docs:,})"
        sizes = how_many(self.n_terms, "term"), how_many(self.n_labels, "label")
        return (
            f"<Corpus: {how_many(self.n_docs, 'document')}{view} x {', '.join(sizes)}, "
            f"{how_many(self.n_blocks, 'block')}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("documents", f"{self.n_docs:,}" + ("" if self._rows is None else f" of {self._info.n_docs:,}")),
            ("terms", f"{self.n_terms:,}"),
            ("labels", f"{self.n_labels:,}"),
            ("blocks", f"{self.n_blocks:,}"),
            ("values", "ones" if self.is_binary else self._info.values),
            ("fingerprint", self.fingerprint),
        ]
        return html_table("Corpus", rows)


def _read_view(
    root: zarr.Group, info: fmt.CorpusInfo, side: fmt.Side, number: int, rows: Array | None
) -> SparseRows:
    whole = fmt.read_rows(root, info, side, number)
    return whole if rows is None else whole.take(rows)


def _read_gcxs(
    root: zarr.Group,
    info: fmt.CorpusInfo,
    side: fmt.Side,
    number: int,
    rows: Array | None,
    dtype: np.dtype[np.floating],
) -> sparse.GCXS:
    return _read_view(root, info, side, number, rows).to_gcxs(dtype)
