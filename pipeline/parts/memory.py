"""The memory: for each label the words it was seen with, sparse and pruned; good at rare labels.

It is the cross moment of read 1, each label's row divided by its length: X~ c_l / (|c_l| + damping).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..corpus.rows import SparseRows
from ..moments.topics import MomentTopics
from ..passes.work import hollow
from ..types import Array
from . import cross_kernels
from .cross import WordLabels
from .part import Choice, Context, Making, Part, Scale, Scorer, Stored, Trial, Words, half
from .selection import Shortlists
from .terms import Side, Sparse, Term

DAMPINGS = (0.0, 0.3, 1.0, 3.0, 10.0)
WEIGHTS = Scale((0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0))


@dataclass(frozen=True)
class Memory(Scorer):
    """X~ C: what the words of a document remember."""

    C: SparseRows
    """(D, L) float32: the labels' centroids X~'Y, damped and weighted."""
    weight: float
    name = "memory"
    described = "a memory of the words seen with each label"
    halved = ("values",)

    @property
    def terms(self) -> Sequence[Term]:
        return [Sparse(self.C)]

    def see(self, words: Words) -> Sequence[Side]:
        return [words.weighted]

    @property
    def largest(self) -> float:
        return self.weight

    def arrays(self) -> dict[str, Array]:
        C = self.C
        return {"indptr": C.indptr, "labels": C.indices, "values": C.values_as(np.float32)}

    def numbers(self) -> dict[str, float]:
        return {"weight": self.weight}

    @classmethod
    def load(cls, stored: Stored, moments: MomentTopics) -> Self:
        n_terms, n_labels = len(moments.W), len(moments.Q)
        indptr = stored.read("indptr", (n_terms + 1,), np.int64)
        labels = stored.read("labels", (None,), np.int32)
        C = SparseRows(indptr, labels, stored.read_floats("values", labels.shape), n_labels)
        if (flaw := C.flaw()) is not None:  # compiled loops do not look where they write
            raise stored.damaged("labels", flaw)
        return cls(C, stored.number("weight", 0, 1e6))

    def reordered(self, words: Array, moments: MomentTopics, n_threads: int | None = None) -> Self:
        return replace(self, C=self.C.take(words))


class MemoryPart(Part):
    """The memory while it learns."""

    name = "memory"
    scorer = Memory

    @property
    def defaults(self) -> Choice:
        return {"weight": 0.5, "damping": 1.0}

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        context.share(WordLabels)

    @property
    def cross(self) -> WordLabels:
        """The cross moment, shared with other parts."""
        return self.context.share(WordLabels)

    def held(self) -> Sequence[Any]:
        return []  # the moment is held by those who gather it

    def options(self) -> Mapping[str, Sequence[float]]:
        return {"weight": WEIGHTS, "damping": DAMPINGS}

    def trial(self, documents: Words) -> Trial:
        moment = self.cross.kept()
        return _MemoryTrial.of(
            documents.weighted,
            moment.by_word(self.context.n_threads),
            moment.lengths(),
            self.defaults,
        )

    def pair_scores(self, at: Mapping[str, Array], choice: Choice) -> Array:
        if not choice["weight"]:
            return np.zeros_like(at["products"])
        lengths = at["lengths"] + np.float32(choice["damping"])
        return np.asarray(np.float32(choice["weight"]) * at["products"] / np.where(lengths > 0, lengths, 1))

    def finish(self, choice: Choice) -> Scorer | None:
        if not choice["weight"]:
            return None
        moment = self.cross.kept()
        C = scaled(moment.by_word(self.context.n_threads), scale(moment.lengths(), choice))
        half(C.values_as(np.float32))
        return Memory(C, choice["weight"])

    def finishing(self) -> Making:
        return Making(2 * self._bytes)

    def remains(self) -> Sequence[Array]:
        return [hollow(self._bytes, dtype=np.uint8)]

    @property
    def reordering(self) -> int:
        return self._bytes

    @property
    def _bytes(self) -> int:
        return self.cross.kept_bytes + 8 * self.context.corpus.n_terms


@dataclass(frozen=True)
class _MemoryTrial(Trial):
    X: SparseRows
    """(n, D): weighted words of the documents."""
    C: SparseRows
    """(D, L): the cross moment."""
    lengths: Array
    """(L,): of the labels' rows of it."""
    doubted: SparseRows
    """(D, L): the same, damped and weighted by the defaults."""

    @classmethod
    def of(cls, X: SparseRows, C: SparseRows, lengths: Array, choice: Choice) -> _MemoryTrial:
        return cls(X, C, lengths, scaled(C, scale(lengths, choice)))

    def dense(self, rows: slice) -> Array:
        return self._products(rows, self.doubted)

    def at(self, lists: Shortlists) -> dict[str, Array]:
        def some(rows: slice) -> Array:
            indptr = lists.indptr[rows.start : rows.stop + 1]
            documents = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
            return np.asarray(self._products(rows, self.C)[documents, lists.labels[indptr[0] : indptr[-1]]])

        products = np.concatenate(lists.for_some_rows(some, self.C.n_columns))
        return {"products": products, "lengths": self.lengths.astype(np.float32)[lists.labels]}

    def _products(self, rows: slice, C: SparseRows) -> Array:
        X = self.X.slice(rows.start, rows.stop)
        out = np.zeros((X.n_rows, C.n_columns), np.float32)
        cross_kernels.add_scores(X.csr(), C.csr(), 0, out)
        return out


def scale(lengths: Array, choice: Choice) -> Array:
    """(L,): what the memory of each label is multiplied by."""
    total = lengths + choice["damping"]
    return np.asarray(choice["weight"] / np.where(total > 0, total, 1))


def scaled(C: SparseRows, scales: Array) -> SparseRows:
    """Each column times its scale."""
    return replace(C, values=C.values_as(np.float32) * scales.astype(np.float32)[C.indices])
