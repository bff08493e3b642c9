"""Out-of-core construction of a vocabulary, and numbers for labels.

While the source is read, each task counts terms in its own table. A table that has grown large is saved to
disk as a *run*, and the rows counted with it keep its numbers. At the end all runs are merged, one share of
the terms at a time, so memory depends only on the sizes of a table and of the vocabulary. Terms are then
numbered in alphabetical order, which does not depend on how the source was cut.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ..corpus.format import MAX_COLUMNS
from ..corpus.kernels import merge_repeats
from ..corpus.rows import SparseRows
from ..display import how_many
from ..errors import InputError
from ..text.term_kernels import rename_share
from ..text.terms import TermTable
from ..types import Array
from . import kernels
from .labels import LabelLists

_MANY = 1000
"""Documents from which on words of a single document are left out."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the terms of a vocabulary.

    Parameters
    ----------
    min_df
        Fewest documents with a term. None: 2 from 1,000 documents on, and 1 below.
    max_df
        Largest share of documents with a term, 0 to 1.
    max_terms
        Most terms to keep, the most frequent ones first. None: no limit.
    """

    min_df: int | None = None
    max_df: float = 1.0
    max_terms: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("min_df", self.min_df), ("max_terms", self.max_terms)):
            if value is not None and not (isinstance(value, int) and value >= 1):
                raise InputError(
                    f"{name} is a number of documents or terms. Found {value!r}. Pass 1 or more."
                )
        if not 0 < self.max_df <= 1:
            raise InputError(f"max_df is a share of the documents. Found {self.max_df!r}. Pass 0 to 1.")

    def least(self, n_documents: int) -> int:
        """Fewest documents with a term."""
        return self.min_df if self.min_df is not None else 2 if n_documents >= _MANY else 1


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Kept terms, in alphabetical order."""

    names: list[str]
    counts: Array
    """(n,) int64: number of documents with each term."""
    n_seen: int
    """Number of terms before any were left out."""


class _Run:
    """A table of terms that is being filled, and the paths for it and its renumbering."""

    def __init__(self, folder: Path, number: int) -> None:
        self.table = TermTable()
        self.n_terms = 0
        self.path = folder / f"run-{number:05d}.npy"
        self.renumbering = folder / f"ids-{number:05d}.npy"

    def save(self) -> None:
        terms, n = self.table.terms, self.table.n_terms
        self.n_terms = n
        with self.path.open("wb") as file:
            for array in (
                terms.hashes[:n],
                terms.ends[: n + 1],
                terms.text[: terms.ends[n]],
                terms.counts[:n],
            ):
                np.save(file, array)
        self.table = TermTable()

    def load(self) -> TermTable:
        """Load the saved table for merging. Words cannot be looked up in it."""
        with self.path.open("rb") as file:
            hashes, ends, text, counts = (np.load(file) for _ in range(4))
        table = TermTable()
        table.terms = table.terms._replace(hashes=hashes, ends=ends, text=text, counts=counts)
        table.n_terms = len(hashes)
        return table


class VocabularyBuilder:
    """Builder that lends tables to tasks and merges them; safe to use from many threads."""

    def __init__(self, folder: Path, limits: Limits, run_terms: int) -> None:
        self._folder = folder
        self._limits = limits
        self._run_terms = run_terms
        self._lock = threading.Lock()
        self._idle: deque[_Run] = deque()
        self._full: list[_Run] = []
        self._n_runs = 0

    @contextmanager
    def borrow(self) -> Iterator[tuple[TermTable, Path]]:
        """Lend a table to the caller alone, with the path for the ids of its terms."""
        with self._lock:
            if self._idle:
                run = self._idle.pop()
            else:
                run = _Run(self._folder, self._n_runs)
                self._n_runs += 1
        yield run.table, run.renumbering
        if run.table.n_terms > self._run_terms:
            run.save()
            with self._lock:
                self._full.append(run)
        else:
            with self._lock:
                self._idle.append(run)

    def finish(self, n_documents: int) -> Vocabulary:
        """Merge all runs, choose the terms, and write the renumbering of each run.

        Raises
        ------
        InputError
            No term is left.
        """
        for run in self._idle:
            run.save()
        runs = [*self._full, *self._idle]
        # in files: all runs together may have more terms than fit in memory
        numbers = {run: _new_file(run.renumbering, run.n_terms) for run in runs}
        n_shares = max(1, -(-sum(map(len, numbers.values())) // (2 * self._run_terms)))
        names: list[bytes] = []
        counts: list[Array] = []
        n_seen, most = 0, 0
        for share in range(n_shares):
            merged = TermTable()
            first = len(names)
            for run in runs:
                merged.merge(run.load(), share, n_shares, numbers[run])
            n_seen += merged.n_terms
            most = max(most, int(merged.counts.max(initial=0)))
            kept = self._within_limits(merged.counts, n_documents)
            new = np.full(merged.n_terms, -1, np.int32)
            new[kept] = first + np.arange(len(kept))
            names += merged.names(kept)
            counts.append(merged.counts[kept])
            for run in runs:
                rename_share(run.load().terms.hashes, share, n_shares, new, numbers[run])
        if not names:
            raise self._nothing_left(n_seen, most, n_documents)
        return self._renumber(names, np.concatenate(counts), n_seen, numbers)

    def _within_limits(self, counts: Array, n_documents: int) -> Array:
        least, most = self._limits.least(n_documents), self._limits.max_df * n_documents
        return np.flatnonzero((counts >= least) & (counts <= most))

    def _renumber(
        self, names: list[bytes], counts: Array, n_seen: int, numbers: dict[_Run, np.memmap[Any, Any]]
    ) -> Vocabulary:
        order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
        limit = min(self._limits.max_terms or MAX_COLUMNS, MAX_COLUMNS)
        if len(order) > limit:  # the most frequent ones, ties in alphabetical order
            frequent = np.argsort(-counts[order], kind="stable")[:limit]
            order = order[np.sort(frequent)]
        new = np.full(len(names), -1, np.int32)
        new[order] = np.arange(len(order))
        for run, ids in numbers.items():
            ids[:] = np.where(ids >= 0, new[ids], -1)
            ids.flush()
            run.path.unlink()
        return Vocabulary([names[i].decode() for i in order.tolist()], counts[order], n_seen)

    def _nothing_left(self, n_seen: int, most: int, n_documents: int) -> InputError:
        if n_seen == 0:
            return InputError(
                f"There are no words in {how_many(n_documents, 'document')}. "
                "Name another column with --text, or lower --min-length."
            )
        least = self._limits.least(n_documents)
        if most < least:
            return InputError(
                f"No term is left of {n_seen:,}. The most frequent one is in {most:,} documents, and "
                f"min_df is {least:,}. Lower --min-df."
            )
        return InputError(
            f"No term is left of {n_seen:,}. None is in at least {least:,} and at most "
            f"{self._limits.max_df:.1%} of {n_documents:,} documents. Raise --max-df, or lower --min-df."
        )


def _new_file(path: Path, n: int) -> np.memmap[Any, Any]:
    ids: np.memmap[Any, Any] = np.lib.format.open_memmap(path, "w+", np.int32, (max(n, 1),))
    ids[:] = -1
    return ids


class LabelNumbers:
    """Numbers for labels, in order of appearance; safe to use from many threads.

    Parameters
    ----------
    known
        Known labels. Others are left out and counted. None: every label gets a number.
    """

    def __init__(self, known: list[str] | None = None) -> None:
        self._known = known is not None
        self._numbers = {name: i for i, name in enumerate(known or ())}
        self._unknown: dict[str, int] = {}
        self._counts = np.zeros(max(16, len(self._numbers)), np.int64)
        self._lock = threading.Lock()

    def rows(self, labels: LabelLists) -> SparseRows:
        """Label numbers of some documents, each once in a row."""
        encoded = pc.dictionary_encode(labels.names)
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        with self._lock:
            numbers = np.array([self._number(name) for name in names], np.int32)
            if self._known:
                unknown = np.flatnonzero(numbers < 0)
                often = np.bincount(codes, minlength=len(names))
                for i in unknown.tolist():
                    self._unknown[names[i]] = self._unknown.get(names[i], 0) + int(often[i])
        indices = numbers[codes] if len(names) else np.zeros(0, np.int32)
        kept = indices >= 0
        indptr = np.concatenate([[0], np.cumsum(kept)])[labels.indptr]
        indices = indices[kept]
        nnz = merge_repeats(indptr, indices, np.ones(len(indices)))
        indices = indices[:nnz]
        with self._lock:
            if len(self._counts) < len(self._numbers):
                self._counts = np.pad(self._counts, (0, 2 * len(self._numbers) - len(self._counts)))
            kernels.count_columns(indices, self._counts)
        return SparseRows(indptr, indices, None, MAX_COLUMNS)

    def _number(self, name: str) -> int:
        if self._known:
            return self._numbers.get(name, -1)
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def unknown(self) -> dict[str, int]:
        """Labels that were left out, with the number of times."""
        return self._unknown

    def finish(self, file: Path | None) -> tuple[list[str], Array]:
        """Names of the labels and number of documents with each; with a file, in alphabetical order."""
        names, counts = list(self._numbers), self._counts[: len(self._numbers)]
        if len(names) > MAX_COLUMNS:
            raise InputError(f"There are {len(names):,} labels. At most {MAX_COLUMNS:,} are supported.")
        if file is None:
            return names, counts
        order = sorted(range(len(names)), key=names.__getitem__)
        ids = np.empty(len(names), np.int32)
        ids[order] = np.arange(len(names), dtype=np.int32)
        np.save(file, ids)
        return [names[i] for i in order], counts[order]
