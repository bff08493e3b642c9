"""`TermTable`: terms and their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..types import Array
from . import term_kernels
from .term_kernels import Counting, Terms

if TYPE_CHECKING:
    from .words import DocumentWords

_FIRST_TERMS, _FIRST_BYTES = 2**14, 2**18


class TermTable:
    """Terms, numbered from 0 in order of appearance, and the number of documents with each.

    Only one thread may use a table at a time. `reader` makes another table that shares the terms.
    """

    def __init__(self, terms: Terms | None = None, n_terms: int = 0) -> None:
        self.terms = terms if terms is not None else _empty(_FIRST_TERMS, _FIRST_BYTES)
        self.n_terms = n_terms
        self._n_rows = 0

    @classmethod
    def of_names(cls, names: Iterable[str]) -> TermTable:
        """Make a table in which `names[i]` is term i. Of equal names the first is found."""
        encoded = [name.encode() for name in names]
        text = np.frombuffer(b"".join(encoded), np.uint8)
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        table = cls(_empty(max(len(encoded), 1), max(len(text), 1)), len(encoded))
        terms = table.terms
        terms.ends[: len(ends)] = ends
        terms.text[: len(text)] = text
        for i in range(len(encoded)):
            terms.hashes[i] = term_kernels.hash_of(text, ends[i], ends[i + 1])
        term_kernels.rebuild_slots(terms.hashes, len(encoded), terms.slots)
        return table

    def reader(self) -> TermTable:
        """Make a table to look up words in the same terms, with separate counts."""
        terms = self.terms._replace(
            counts=np.zeros_like(self.terms.counts),
            last_rows=np.full_like(self.terms.last_rows, -1),
            places=np.zeros_like(self.terms.places),
        )
        return TermTable(terms, self.n_terms)

    @property
    def counts(self) -> Array:
        """(n_terms,) int64: number of counted documents with each term."""
        return self.terms.counts[: self.n_terms]

    def count(self, found: DocumentWords, bigrams: bool, learn: bool) -> tuple[Array, Array, Array]:
        """Count the terms of documents. Returns rows as `indptr`, `indices` and `values`.

        Indices of a row are unique, in order of appearance.

        Parameters
        ----------
        learn
            Add new terms. Otherwise they are left out.
        """
        words, n_documents = found.words, found.n_documents
        n_words = int(words.ends[-1]) if len(words.ends) else 0
        most = n_words * (1 + bigrams)
        indptr = np.zeros(n_documents + 1, np.int64)
        indices, values = np.empty(most, np.int32), np.empty(most, np.int32)
        how = Counting(found.per_document, bigrams, learn, self._n_rows)
        document = 0
        while True:
            document, self.n_terms = term_kernels.count_terms(
                words, how, self.terms, self.n_terms, document, (indptr, indices, values)
            )
            if document == n_documents:
                break
            segments = slice(document * found.per_document, (document + 1) * found.per_document)
            begin = int(words.ends[segments.start - 1]) if segments.start else 0
            stop = int(words.ends[segments.stop - 1])
            n_bytes = int(words.lengths[begin:stop].sum())
            self.reserve((stop - begin) * (1 + bigrams), n_bytes * (1 + 2 * bigrams) + 2 * (stop - begin))
        self._n_rows += n_documents
        nnz = indptr[-1]
        return indptr, indices[:nnz], values[:nnz]

    def merge(self, other: TermTable, share: int, n_shares: int, numbers: Array) -> None:
        """Add the terms of another table that fall in a share; see `term_kernels.merge_terms`."""
        text = int(other.terms.ends[other.n_terms])
        self.reserve(other.n_terms, text)
        self.n_terms = term_kernels.merge_terms(
            self.terms, self.n_terms, other.terms, share, n_shares, numbers[: other.n_terms]
        )

    def reserve(self, n_terms: int, n_bytes: int) -> None:
        """Make room for this many more terms and bytes. What must grow at least doubles."""
        old, used = self.terms, int(self.terms.ends[self.n_terms])
        capacity, room = len(old.hashes), len(old.text)
        if self.n_terms + n_terms > capacity:
            capacity = max(2 * capacity, self.n_terms + n_terms)
        if used + n_bytes > room:
            room = max(2 * room, used + n_bytes)
        if (capacity, room) == (len(old.hashes), len(old.text)):
            return
        new = (
            _empty(capacity, room)
            if capacity > len(old.hashes)
            else old._replace(text=np.empty(room, np.uint8))
        )
        new.text[:used] = old.text[:used]
        if new.hashes is not old.hashes:
            for name in ("hashes", "counts", "last_rows", "places"):
                getattr(new, name)[: self.n_terms] = getattr(old, name)[: self.n_terms]
            new.ends[: self.n_terms + 1] = old.ends[: self.n_terms + 1]
            term_kernels.rebuild_slots(new.hashes, self.n_terms, new.slots)
        self.terms = new

    def names(self, numbers: Array) -> list[bytes]:
        """Text of some terms."""
        ends = self.terms.ends
        text = self.terms.text[: ends[self.n_terms]].tobytes()
        starts, stops = ends[numbers].tolist(), ends[numbers + 1].tolist()
        return [text[a:b] for a, b in zip(starts, stops, strict=True)]


def _empty(capacity: int, n_bytes: int) -> Terms:
    n_slots = 1 << max(4, (2 * capacity - 1).bit_length())
    return Terms(
        np.full(n_slots, -1, np.int32),
        np.empty(capacity, np.uint64),
        np.zeros(capacity + 1, np.int64),
        np.empty(n_bytes, np.uint8),
        np.zeros(capacity, np.int64),
        np.full(capacity, -1, np.int64),
        np.empty(capacity, np.int64),
    )
