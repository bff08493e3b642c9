"""Neighbours: the training documents that are most like a document vote for their labels.

What they add is what no sum over documents knows: which words stood together in one of them. Votes are shares
of similarity^power, so that close copies outvote the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, Self

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..moments.topics import MomentTopics
from ..passes.cost import corpus_size
from ..passes.work import hollow
from ..tasks import map_tasks
from ..types import CSR, Array
from .neighbour_kernels import Search, count_votes, nearest, postings, sort_rows
from .part import Choice, Context, Making, Part, Scale, Scorer, Stored, Trial, Words
from .selection import Shortlists
from .terms import Side, Sparse, Term
from .training_words import UNIT, Sampling, TrainingWords

POWERS = (1.0, 2.0, 4.0, 8.0)
WEIGHTS = Scale((0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 5.0))
COUNT = 20
"""Neighbours that vote."""
SEARCH = Search(most_postings=8192, n_candidates=64)
MOST_WORDS = 16_000_000
"""Words of the documents that a model keeps: 96 MB, and as much again to look them up by."""
_POSTINGS = 512
"""Documents that a word leads to: those where it weighs most."""
_SLAB = 512
"""Documents whose neighbours are looked for at a time."""


_indexing = Lock()


@dataclass(frozen=True)
class KnownDocuments:
    """Training documents with their labels, to be found by their words."""

    X: SparseRows
    """(n, D) uint16: weights, in units of 1 / `UNIT`."""
    Y: SparseRows
    """(n, L)."""

    @property
    def index(self) -> CSR:
        """For each word the documents where it weighs most; made once, whichever thread asks first."""
        with _indexing:
            if "_index" not in self.__dict__:
                indptr, docs, weights = postings(_triple(self.X), self.X.n_columns, _POSTINGS)
                self.__dict__["_index"] = indptr, docs, weights
        own: CSR = self.__dict__["_index"]
        return own

    def with_index(self, index: CSR) -> KnownDocuments:
        """The same documents, whose index is at hand."""
        known = KnownDocuments(self.X, self.Y)
        known.__dict__["_index"] = index
        return known

    def nearest(
        self, X: SparseRows, own: Array | None = None, search: Search = SEARCH
    ) -> tuple[Array, Array]:
        """The nearest documents of each row of X~, (n, `COUNT`), and how similar they are.

        Parameters
        ----------
        own
            (n,) int32: number of each row among the known documents, which is not to be found; -1 for none.
        """
        found = np.empty((X.n_rows, COUNT), np.int32), np.empty((X.n_rows, COUNT), np.float32)
        x = X.indptr, X.indices, X.values_as(np.float32)
        own = np.full(X.n_rows, -1, np.int32) if own is None else own
        nearest(x, _triple(self.X), self.index, float(UNIT), (search, own), found)
        return found

    def votes(self, found: tuple[Array, Array], power: float, weight: float = 1.0) -> SparseRows:
        """(n, L) float32: shares of the neighbours' votes for each label, times the weight."""
        y = self.Y.indptr, self.Y.indices
        indptr, labels, values = count_votes(*found, y, power, weight, self.Y.n_columns)
        return SparseRows(indptr, labels, values, self.Y.n_columns)


def _triple(X: SparseRows) -> CSR:
    return X.indptr, X.indices, X.values_as(np.uint16)


def known_documents(block: Block, left_out: Array | None = None) -> tuple[KnownDocuments, Array]:
    """As many documents as a budget allows, those with rare labels first; and their numbers in the block.

    Parameters
    ----------
    left_out
        (n,) bool: documents that are not to be known.
    """
    X, Y = block.X, block.Y
    counts = np.bincount(Y.indices, minlength=Y.n_columns)  # what was not gathered does not count
    labelled, rarest = Sampling(counts).rarest(Y)
    sampling = Sampling.of(counts, rarest, np.diff(X.indptr)[labelled], MOST_WORDS)
    rows = sampling.rows(X, Y)
    if left_out is not None:
        rows = rows[~left_out[rows]]
    if len(rows) == X.n_rows:
        return KnownDocuments(X, Y), rows
    return KnownDocuments(X.take(rows), Y.take(rows)), rows


@dataclass(frozen=True)
class Neighbours(Scorer):
    """Votes of the most similar training documents."""

    known: KnownDocuments
    power: float
    weight: float
    name = "neighbours"
    described = "votes of the most similar training documents"

    @cached_property
    def _each(self) -> SparseRows:
        """(L, L): the identity, for votes are scores of labels already."""
        L = self.known.Y.n_columns
        ones = np.ones(L, np.float32)
        return SparseRows(np.arange(L + 1, dtype=np.int64), np.arange(L, dtype=np.int32), ones, L)

    @property
    def terms(self) -> Sequence[Term]:
        return [Sparse(self._each)]

    def see(self, words: Words) -> Sequence[Side]:
        return [self.known.votes(self.known.nearest(words.weighted), self.power, self.weight)]

    @property
    def largest(self) -> float:
        return self.weight

    def arrays(self) -> dict[str, Array]:
        X, Y = self.known.X, self.known.Y
        words = {"words/indptr": X.indptr, "words/indices": X.indices, "words/weights": _triple(X)[2]}
        return words | {"labels/indptr": Y.indptr, "labels/indices": Y.indices}

    def numbers(self) -> dict[str, float]:
        return {"power": self.power, "weight": self.weight}

    @classmethod
    def load(cls, stored: Stored, moments: MomentTopics) -> Self:
        words = stored.read("words/indptr", (None,), np.int64)
        labels = stored.read("labels/indptr", words.shape, np.int64)
        indices = stored.read("words/indices", (None,), np.int32)
        weights = stored.read("words/weights", indices.shape, np.uint16)
        X = SparseRows(words, indices, weights, len(moments.W))
        Y = SparseRows(labels, stored.read("labels/indices", (None,), np.int32), None, len(moments.Q))
        for name, rows in (("words", X), ("labels", Y)):
            flaw = rows.flaw() if len(words) else "there are no rows"
            if flaw is not None:  # compiled loops do not look where they write
                raise stored.damaged(f"{name}/indices", flaw)
        if not weights.all():
            raise stored.damaged("words/weights", "not all are above 0")
        return cls(KnownDocuments(X, Y), stored.number("power", 0, 100), stored.number("weight", 0, 1e6))

    def reordered(self, words: Array, moments: MomentTopics, n_threads: int | None = None) -> Self:
        known = KnownDocuments(renumbered(self.known.X, words), self.known.Y)
        return type(self)(known, self.power, self.weight)


def renumbered(rows: SparseRows, columns: Array) -> SparseRows:
    """The same rows with columns in another order, in place: column `i` is what `columns[i]` was."""
    places = np.empty(len(columns), np.int32)
    places[columns] = np.arange(len(columns), dtype=np.int32)
    indices, values = places[rows.indices], rows.values
    assert values is not None
    sort_rows(rows.indptr, indices, values)
    return SparseRows(rows.indptr, indices, values, rows.n_columns)


class NeighboursPart(Part):
    """The neighbours while they are gathered."""

    name = "neighbours"
    scorer = Neighbours

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        context.share(TrainingWords)

    @property
    def training(self) -> TrainingWords:
        """The gathered documents, shared with other parts."""
        return self.context.share(TrainingWords)

    def held(self) -> Sequence[Any]:
        return []  # documents are held by those who gather them

    @property
    def defaults(self) -> Choice:
        return {"weight": 0.5, "power": 4.0}

    def options(self) -> Mapping[str, Sequence[float]]:
        return {"weight": WEIGHTS, "power": POWERS}

    def known(self) -> KnownDocuments:
        """The documents that a model keeps."""
        return known_documents(self.training.joined())[0]

    def tell(self) -> None:
        """Note where a model keeps the words of some documents alone."""
        n_words, whole = self.training.n_words, self.training.work.whole.x_nnz
        if min(MOST_WORDS, n_words) < whole:
            self.context.stats.setdefault("notes", []).append(
                f"Neighbours are documents with about {min(MOST_WORDS, n_words) / whole:.0%} of all words: "
                "all those with rare labels, and a sample of the others."
            )

    def trial(self, documents: Words) -> Trial:
        known = self.known()
        X, n_threads = documents.weighted, self.context.n_threads
        slabs = [slice(start, min(start + _SLAB, X.n_rows)) for start in range(0, X.n_rows, _SLAB)]
        found = map_tasks(
            lambda rows: known.nearest(X.slice(rows.start, rows.stop)),
            slabs,
            name="choose",
            n_threads=n_threads,
        )
        docs, similarities = (np.concatenate(side) for side in zip(*found, strict=True))
        return _NeighboursTrial(known, (docs, similarities), self.defaults)

    def pair_scores(self, at: Mapping[str, Array], choice: Choice) -> Array:
        return np.asarray(np.float32(choice["weight"]) * at["votes"][POWERS.index(choice["power"])])

    def finish(self, choice: Choice) -> Scorer | None:
        if not choice["weight"]:
            return None
        return Neighbours(self.known(), choice["power"], choice["weight"])

    def finishing(self) -> Making:
        return Making(2 * self._bytes)  # the index, while choices are made

    def remains(self) -> Sequence[Array]:
        return [hollow(self._bytes, dtype=np.uint8)]

    @property
    def _bytes(self) -> int:
        work = replace(self.training.work, most_words=min(MOST_WORDS, self.training.n_words))
        return work.needs(corpus_size(self.context.corpus)).sums

    @property
    def reordering(self) -> int:
        return self._bytes


@dataclass(frozen=True)
class _NeighboursTrial(Trial):
    known: KnownDocuments
    found: tuple[Array, Array]
    """Neighbours of the documents, and how similar they are."""
    defaults: Choice

    def dense(self, rows: slice) -> Array:
        return self._dense(rows, self.defaults["power"], self.defaults["weight"])

    def at(self, lists: Shortlists) -> dict[str, Array]:
        def some(rows: slice) -> Array:
            indptr = lists.indptr[rows.start : rows.stop + 1]
            documents = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
            labels = lists.labels[indptr[0] : indptr[-1]]
            votes = [self._dense(rows, power)[documents, labels] for power in POWERS]
            return np.array(votes, np.float32)

        return {"votes": np.concatenate(lists.for_some_rows(some, self.known.Y.n_columns), axis=1)}

    def _dense(self, rows: slice, power: float, weight: float = 1.0) -> Array:
        docs, similarities = self.found
        votes = self.known.votes((docs[rows], similarities[rows]), power, weight)
        out = np.zeros(votes.shape, np.float32)
        out[np.repeat(np.arange(votes.n_rows), np.diff(votes.indptr)), votes.indices] = votes.values
        return out
