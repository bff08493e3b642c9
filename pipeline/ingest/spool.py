"""The shared part of every ingest: from pieces of a source, gathered here, to a store, written by `compose`.

Terms are ranked by document frequency, which is known only after the whole source was read. So an ingest has
two stages, both parallel and both in bounded memory:

1. *read*: each task turns its part of the source into small pieces (a few MB of CSR rows with source ids),
   adds up the totals, and puts the pieces in a spool beside the store;
2. *write*: each task joins consecutive pieces into one block, renumbers its terms, converts its values to the
   smallest type that fits, and writes it.

The content of a store depends only on the source and the options, never on the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import zarr
import zarr.storage

from ..corpus.rows import SparseRows
from ..errors import InputError
from ..progress import Progress
from ..tasks import check_wanted
from ..text.info import TextInfo
from ..types import Array
from . import kernels
from .sizes import SIZES, Sizes

BLOCK_BYTES = 20_000_000
"""Small enough for two threads to end a pass at about the same time, and large enough to read at full speed.
Two and a half pieces, so that blocks of whole pieces have one size."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of every kind of ingest."""

    binary: bool = False
    """Store whether a term occurs, not how often."""
    block_bytes: int = BLOCK_BYTES
    """Target size of a block in memory (8 bytes per nonzero, 16 per document)."""
    overwrite: bool = False
    """Replace an existing corpus once the new one is complete."""
    n_threads: int | None = None
    """Tasks at a time. None: one per processor."""
    progress: Progress | None = None
    sizes: Sizes = SIZES
    """Sizes of what is read at a time."""

    def __post_init__(self) -> None:
        if self.block_bytes < 1:
            raise InputError(
                f"block_bytes must be positive. Found {self.block_bytes}. "
                f"Leave it out for {BLOCK_BYTES // 1_000_000} MB."
            )


class IngestKeywords(TypedDict, total=False):
    """Fields of `IngestOptions`, as keywords of the public functions."""

    binary: bool
    block_bytes: int
    overwrite: bool
    n_threads: int | None
    progress: Progress | None
    sizes: Sizes


@dataclass(slots=True)
class Totals:
    """Totals over the whole source, needed before the first block can be written."""

    term_counts: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    label_counts: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    n_docs: int = 0
    max_value: float = 1.0
    integers: bool = True
    single_exact: bool = True

    def add_piece(self, X: SparseRows, Y: SparseRows, counted: bool) -> None:
        if counted:
            self.term_counts = _count(self.term_counts, X.indices)
            self.label_counts = _count(self.label_counts, Y.indices)
        self.n_docs += X.n_rows
        if X.values is not None and X.nnz:
            self.max_value = max(self.max_value, float(X.values.max()))
            self.integers = self.integers and bool(np.all(X.values == np.floor(X.values)))
            self.single_exact = self.single_exact and bool(np.all(X.values == X.values.astype(np.float32)))

    def add(self, other: Totals) -> None:
        self.term_counts = _sum_padded(self.term_counts, other.term_counts)
        self.label_counts = _sum_padded(self.label_counts, other.label_counts)
        self.n_docs += other.n_docs
        self.max_value = max(self.max_value, other.max_value)
        self.integers = self.integers and other.integers
        self.single_exact = self.single_exact and other.single_exact

    def value_type(self) -> str:
        """Smallest type of the format that holds every value exactly."""
        if self.integers:
            if self.max_value == 1:
                return "ones"
            for kind in ("uint8", "uint16", "uint32"):
                if self.max_value <= np.iinfo(kind).max:
                    return kind
        return "float32" if self.single_exact else "float64"


@dataclass(frozen=True, slots=True)
class Piece:
    """A spooled run of documents."""

    path: Path
    n_docs: int
    nbytes: int
    """Bytes of its rows in memory, once read back from the store."""
    renumbering: Renumbering | None = None


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Files with the source ids of a piece's columns, which are known only after the whole source was read.

    Each `.npy` file has the source id of each column, int32; -1 for a column that is left out. The files
    exist once reading is done. None: columns are source ids already.
    """

    terms: Path | None
    labels: Path | None


class Spool:
    """Directory for the pieces of reading tasks; safe to use from many threads."""

    def __init__(self, directory: Path, options: IngestOptions) -> None:
        self.directory = directory
        self.options = options
        self._lock = threading.Lock()
        self._done = 0.0

    def writer(self, part: int) -> PieceWriter:
        """Make the writer of part `part` of the source, counted in document order."""
        return PieceWriter(self, self.directory / f"{part:06d}")

    def advance(self, stage: str, amount: float, total: float) -> None:
        """Report progress. Also ends the task if its run was given up."""
        check_wanted()
        with self._lock:
            self._done += amount
            if self.options.progress is not None:
                self.options.progress(stage, min(self._done, total), total)

    def next_stage(self) -> None:
        self._done = 0.0


class PieceWriter:
    """Writer of the pieces of one part of the source, in order."""

    def __init__(self, spool: Spool, prefix: Path) -> None:
        self._spool = spool
        self._prefix = prefix
        self.pieces: list[Piece] = []
        self.totals = Totals()

    def add(self, X: SparseRows, Y: SparseRows, renumbering: Renumbering | None = None) -> None:
        """Spool rows in canonical form (columns sorted and unique, no zeros), cut to block size.

        With a renumbering, columns need not be sorted, and the `SourceSummary` must provide their counts.
        """
        if self._spool.options.binary or (X.values is not None and bool(np.all(X.values == 1))):
            X = replace(X, values=None)
        self.totals.add_piece(X, Y, counted=renumbering is None)
        sizes = np.cumsum(8 * (np.diff(X.indptr) + np.diff(Y.indptr)) + 16)  # bytes up to and including row i
        start = 0
        while start < X.n_rows:
            before = sizes[start - 1] if start else 0
            stop = int(np.searchsorted(sizes, before + self._spool.options.block_bytes, side="right"))
            stop = max(stop, start + 1)
            nbytes = int(sizes[stop - 1] - before)
            self._write(X.slice(start, stop), Y.slice(start, stop), nbytes, renumbering)
            start = stop

    def _write(self, X: SparseRows, Y: SparseRows, nbytes: int, renumbering: Renumbering | None) -> None:
        path = self._prefix.with_name(f"{self._prefix.name}-{len(self.pieces):06d}.npy")
        with path.open("wb") as file:
            for array in (X.indptr, X.indices, Y.indptr, Y.indices):
                np.save(file, array)
            if X.values is not None:
                np.save(file, X.values)
        self.pieces.append(Piece(path, X.n_rows, nbytes, renumbering))


Reader = Callable[[Spool], Iterable[PieceWriter]]


@dataclass(frozen=True, slots=True)
class Names:
    """Names by source id; None if the source has none."""

    terms: Sequence[str] | None = None
    labels: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """Width of X and Y; None if the largest id in the source decides."""

    n_terms: int | None = None
    n_labels: int | None = None


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """Names and counts of a source with renumbered columns, known only after reading it."""

    names: Names
    term_counts: Array
    """int64, by source id: number of documents with each term."""
    label_counts: Array
    description: dict[str, Any]
    """Added to the description of the source."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source of documents: its reader, and everything known before reading."""

    read: Reader
    """Stage 1: spools all pieces and returns their writers in document order."""
    description: dict[str, Any]
    """Source of the corpus, as shown by `threepass info`."""
    shape: Shape = Shape()
    names: Names = Names()
    float32: bool = False
    """Store values that are not whole numbers in single precision, even if that rounds them."""
    write_extras: Callable[[zarr.Group], dict[str, int]] | None = None
    """Adds more groups to the store, before the completion mark. Returns their arrays' checksums."""
    summarize: Callable[[], SourceSummary] | None = None
    """Called once, after reading."""
    text: TextInfo | None = None
    """Tokenizer and columns, for a source of texts."""


def _count(counts: Array, indices: Array) -> Array:
    if len(indices):
        counts = padded(counts, int(indices.max()) + 1)
        kernels.count_columns(indices, counts)
    return counts


def padded(counts: Array, length: int) -> Array:
    """Counts with zeros for columns that are missing at the end."""
    return counts if len(counts) >= length else np.pad(counts, (0, length - len(counts)))


def _sum_padded(a: Array, b: Array) -> Array:
    total: Array = padded(a, len(b)) + padded(b, len(a))
    return total
