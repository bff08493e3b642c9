"""The shared part of every ingest: from pieces of a source to a finished store.

Terms are ranked by document frequency, which is known only after the whole source was read. So an ingest has
two stages, both parallel and both in bounded memory:

1. *read*: each task turns its part of the source into small pieces (a few MB of CSR rows with source ids),
   adds up the totals, and puts the pieces in a spool beside the store;
2. *write*: each task joins consecutive pieces into one block, renumbers its terms, converts its values to the
   smallest type that fits, and writes it.

The content of a store depends only on the source and the options, never on the number of threads.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import zarr
import zarr.storage

from ..corpus import format as fmt
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError
from ..progress import Progress
from ..storage.arrays import write_array, write_names
from ..storage.destination import new_directory
from ..storage.marks import has_mark
from ..tasks import check_wanted, map_tasks
from ..text.info import TextInfo
from ..types import Array
from . import kernels

PIECE_BYTES = 8_000_000
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


def build_corpus(dest: str | Path, source: Source, options: IngestOptions) -> Corpus:
    """Run both stages of an ingest and open the finished store."""
    dest = Path(dest)
    with (
        new_directory(
            dest, overwrite=options.overwrite, is_ours=lambda p: has_mark(p, fmt.FORMAT)
        ) as partial,
    ):
        spool = Spool(partial / "spool", options)
        spool.directory.mkdir()
        writers = list(source.read(spool))
        spool.next_stage()
        totals = Totals()
        for writer in writers:
            totals.add(writer.totals)
        if source.summarize is not None:
            source = _with_summary(source, source.summarize(), totals)
        if totals.n_docs == 0:
            raise InputError(
                "The source has no documents. Found only blank lines and comments. Check the file."
            )
        totals.term_counts = _widened(totals.term_counts, source.shape.n_terms, source.names.terms, "feature")
        totals.label_counts = _widened(
            totals.label_counts, source.shape.n_labels, source.names.labels, "label"
        )
        kind = "float32" if source.float32 and not totals.integers else totals.value_type()
        pieces = [piece for writer in writers for piece in writer.pieces]
        root = zarr.create_group(zarr.storage.LocalStore(partial), zarr_format=3)
        info = _write_store(root, spool, pieces, totals, kind)
        checksums = info.crc32c | _write_names(root, source.names, info)
        if source.write_extras is not None:
            checksums |= source.write_extras(root)
        shutil.rmtree(spool.directory)
        fingerprint = fmt.fingerprint(root, info)
        info = replace(
            info,
            source=source.description,
            fingerprint=fingerprint,
            crc32c=checksums,
            text=source.text,
        )
        fmt.write_info(root, info)
    return Corpus.open(dest)


def _with_summary(source: Source, summary: SourceSummary, totals: Totals) -> Source:
    totals.term_counts, totals.label_counts = summary.term_counts, summary.label_counts
    return replace(source, names=summary.names, description=source.description | summary.description)


def _write_store(
    root: zarr.Group,
    spool: Spool,
    pieces: list[Piece],
    totals: Totals,
    kind: str,
) -> fmt.CorpusInfo:
    """Stage 2: write all blocks and counts."""
    # rank[source id] = column: most frequent first, ties by id
    term_ids = np.argsort(-totals.term_counts, kind="stable").astype(np.int32)
    rank = np.empty_like(term_ids)
    rank[term_ids] = np.arange(len(term_ids), dtype=np.int32)

    root.create_group("X")
    root.create_group("Y")
    groups = _blocks(pieces, spool.options.block_bytes)
    n_labels = len(totals.label_counts)

    def write(job: tuple[int, list[Piece]]) -> tuple[fmt.BlockInfo, dict[str, int]]:
        number, members = job
        X, Y = _load(members, len(rank), n_labels)
        if X.values is None:
            kernels.rename_columns(X.indptr, X.indices, rank)
        else:
            kernels.rename_columns_with_values(X.indptr, X.indices, X.values, rank)
        if kind != "ones":
            X = replace(X, values=X.values_as(kind))
        x_crc32c, x_checksums = fmt.write_rows(root, "X", number, X)
        y_crc32c, y_checksums = fmt.write_rows(root, "Y", number, Y)
        block = fmt.BlockInfo(X.n_rows, X.nnz, Y.nnz, x_crc32c, y_crc32c)
        for piece in members:
            piece.path.unlink()
        spool.advance("write", 1, len(groups))
        return block, x_checksums | y_checksums

    written = map_tasks(
        write, list(enumerate(groups)), name="ingest-write", n_threads=spool.options.n_threads
    )

    checksums = write_array(root, "term_ids", term_ids)
    checksums |= write_array(root, "term_counts", totals.term_counts[term_ids])
    checksums |= write_array(root, "label_counts", totals.label_counts)
    for _, of_block in written:
        checksums |= of_block
    return fmt.CorpusInfo(
        n_docs=totals.n_docs,
        n_terms=len(term_ids),
        n_labels=n_labels,
        values=kind,
        blocks=tuple(block for block, _ in written),
        fingerprint="",
        crc32c=checksums,
    )


def _write_names(root: zarr.Group, names: Names, info: fmt.CorpusInfo) -> dict[str, int]:
    checksums: dict[str, int] = {}
    if names.terms is not None:
        term_ids = fmt.read_term_ids(root, info).tolist()
        checksums |= write_names(root, "terms", [names.terms[i] for i in term_ids])
    if names.labels is not None:
        checksums |= write_names(root, "labels", names.labels)
    return checksums


def _blocks(pieces: list[Piece], block_bytes: int) -> list[list[Piece]]:
    """Join consecutive pieces while they fit in one block."""
    groups: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        if not groups or piece.nbytes > room:
            groups.append([])
            room = block_bytes
        groups[-1].append(piece)
        room -= piece.nbytes
    return groups


def _load(pieces: list[Piece], n_terms: int, n_labels: int) -> tuple[SparseRows, SparseRows]:
    xs, ys = [], []
    for piece in pieces:
        size = piece.path.stat().st_size
        with piece.path.open("rb") as file:
            x_indptr, x_indices, y_indptr, y_indices = (np.load(file) for _ in range(4))
            values = np.load(file) if file.tell() < size else None
        X = SparseRows(x_indptr, x_indices, values, n_terms)
        Y = SparseRows(y_indptr, y_indices, None, n_labels)
        if piece.renumbering is not None:
            X, Y = _renumbered(X, piece.renumbering.terms), _renumbered(Y, piece.renumbering.labels)
            kernels.rename_columns(Y.indptr, Y.indices, np.arange(n_labels, dtype=np.int32))  # sorts rows
        xs.append(X)
        ys.append(Y)
    return SparseRows.concatenate(xs), SparseRows.concatenate(ys)


def _renumbered(rows: SparseRows, file: Path | None) -> SparseRows:
    """The rows with source ids as columns, in any order, without the columns that are left out."""
    if file is None:
        return rows
    ids = np.load(file)[rows.indices]
    kept = ids >= 0
    indptr = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    values = None if rows.values is None else rows.values[kept]
    return SparseRows(indptr, ids[kept], values, rows.n_columns)


def _count(counts: Array, indices: Array) -> Array:
    if len(indices):
        counts = _padded(counts, int(indices.max()) + 1)
        kernels.count_columns(indices, counts)
    return counts


def _padded(counts: Array, length: int) -> Array:
    return counts if len(counts) >= length else np.pad(counts, (0, length - len(counts)))


def _sum_padded(a: Array, b: Array) -> Array:
    total: Array = _padded(a, len(b)) + _padded(b, len(a))
    return total


def _widened(counts: Array, width: int | None, names: Sequence[str] | None, what: str) -> Array:
    """Counts of all columns, unseen ones included. There must be as many names."""
    width = width if width is not None else max(len(counts), len(names or ()))
    if names is not None and len(names) != width:
        raise InputError(
            f"The {what} names do not fit the data. Found {len(names):,} names for {width:,} {what}s. "
            f"Give one name per line, in the order of the {what} ids."
        )
    return _padded(counts, width)
