"""Writing of a corpus from the pieces in a spool: the second stage of every ingest."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import zarr
import zarr.storage

from ..corpus import format as fmt
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError
from ..storage.arrays import write_array, write_names
from ..storage.destination import new_directory
from ..storage.marks import has_mark
from ..tasks import map_tasks
from ..types import Array
from . import kernels
from .spool import IngestOptions, Names, Piece, Source, SourceSummary, Spool, Totals, padded


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


def _widened(counts: Array, width: int | None, names: Sequence[str] | None, what: str) -> Array:
    """Counts of all columns, unseen ones included. There must be as many names."""
    width = width if width is not None else max(len(counts), len(names or ()))
    if names is not None and len(names) != width:
        raise InputError(
            f"The {what} names do not fit the data. Found {len(names):,} names for {width:,} {what}s. "
            f"Give one name per line, in the order of the {what} ids."
        )
    return padded(counts, width)
