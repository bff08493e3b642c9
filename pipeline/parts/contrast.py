"""Contrast: a linear classifier for each label, which tells its documents from those that look alike.

Look-alikes of a document are the labels that its neighbours and its words speak for. A label's classifier
learns from the documents that carry it against those that only look like it; no other was ever confused with
them. When a document is labelled, the best labels by all other parts get a bonus,

    weight * (1 + clip(w_l x + b_l, -1, 1)),

so that they stay before all others, and the ranking of these others stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..moments.topics import MomentTopics
from ..passes.cost import Cost, Needs, Size
from ..passes.sums import SPILL_BYTES, Sums
from ..passes.work import Pass
from ..types import CSR, Array
from .contrast_kernels import Problem, Stopping, look_alikes, margins, solve_labels
from .cross import CrossMoment
from .cross_kernels import largest_entries
from .memory import scale, scaled
from .neighbour_kernels import Search
from .neighbours import KnownDocuments, renumbered
from .part import Evidence, Scorer, Stored, Words
from .terms import Side, Term
from .training_words import UNIT

STOPPING = Stopping(epochs=20, gradient=0.3, least=0.05)
SEARCH = Search(most_postings=2048, n_candidates=32)
"""For look-alikes of training documents, which need not be the very best."""
_POWER, _WEIGHT = 4.0, 0.5
"""Of neighbours' votes for look-alikes."""
_MEMORY = {"weight": 0.5, "damping": 1.0}
"""Of the memory for look-alikes."""
_POSTINGS = 256
"""Labels that a word speaks for, where look-alikes are found."""
LEAST = -1.0
"""Margins below this one say no more than it does: that a document does not carry the label."""


@dataclass(frozen=True)
class Contrast(Scorer):
    """Classifiers of the labels, for the best labels by all other parts."""

    W: SparseRows
    """(L, D) float32: the weights of words."""
    biases: Array
    """(L,) float32."""
    weight: float
    width: int
    """Labels of each document that are scored anew."""
    name = "contrast"
    described = "classifiers that tell look-alike labels apart"
    halved = ("weights", "biases")

    @property
    def rescored(self) -> int:
        return self.width

    @property
    def terms(self) -> Sequence[Term]:
        return ()

    def see(self, words: Words) -> Sequence[Side]:
        return ()

    @property
    def largest(self) -> float:
        return 2 * self.weight

    def bonus(self, X: SparseRows, labels: Array) -> Array:
        """(n, m) float32: what is added to the scores of some labels of each document.

        Parameters
        ----------
        X
            (n, D): X~.
        labels
            (n, m): -1 for none, which gets 0.
        """
        n, m = labels.shape
        out = np.empty(n * m, np.float32)
        pairs = np.arange(n + 1, dtype=np.int64) * m, np.ascontiguousarray(labels, np.int32).ravel()
        margins(X.csr(), (*self.W.csr(), self.biases), pairs, X.n_columns, out)
        return bonus_of(out.reshape(n, m), self.weight)

    def evidence(self, words: Words, label: int) -> Evidence:
        X, own = words.weighted, slice(self.W.indptr[label], self.W.indptr[label + 1])
        row = np.zeros(X.n_columns, np.float32)
        row[X.indices] = X.values_as(np.float32)
        said = self.W.indices[own], row[self.W.indices[own]] * self.W.values_as(np.float32)[own]
        order = np.argsort(-np.abs(said[1]), kind="stable")
        return Evidence(words=[(int(said[0][i]), float(said[1][i])) for i in order if said[1][i]])

    def arrays(self) -> dict[str, Array]:
        indptr, words, weights = self.W.csr()
        return {"indptr": indptr, "words": words, "weights": weights, "biases": self.biases}

    def numbers(self) -> dict[str, float]:
        return {"weight": self.weight, "width": self.width}

    @classmethod
    def load(cls, stored: Stored, moments: MomentTopics) -> Self:
        n_terms, n_labels = len(moments.W), len(moments.Q)
        indptr = stored.read("indptr", (n_labels + 1,), np.int64)
        words = stored.read("words", (None,), np.int32)
        W = SparseRows(indptr, words, stored.read_floats("weights", words.shape), n_terms)
        if (flaw := W.flaw()) is not None:  # compiled loops do not look where they write
            raise stored.damaged("words", flaw)
        biases = stored.read_floats("biases", (n_labels,))
        return cls(W, biases, stored.number("weight", 0, 1e6), int(stored.number("width", 1, 1e6)))

    def reordered(self, words: Array, moments: MomentTopics, n_threads: int | None = None) -> Self:
        return replace(self, W=renumbered(self.W, words))


def bonus_of(margin: Array, weight: float) -> Array:
    """float32: what margins add to scores."""
    clipped = np.clip(margin, np.float32(LEAST), np.float32(1))
    return np.asarray((clipped - np.float32(LEAST)) * np.float32(weight))


@dataclass
class Pieces(Sums):
    """Arrays of ranges as a sum: adding puts them one behind the other."""

    pieces: dict[str, list[Array]] = field(default_factory=dict)

    def append(self, **arrays: Array) -> None:
        """Put arrays behind those of the same names."""
        for name, array in arrays.items():
            self.pieces.setdefault(name, []).append(array)

    def joined(self, name: str) -> Array:
        """All pieces of a name."""
        if len(self.pieces[name]) > 1:
            self.pieces[name] = [np.concatenate(self.pieces[name])]
        return self.pieces[name][0]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for arrays in self.pieces.values() for array in arrays)

    def merge(self, other: Pieces) -> None:
        for name, arrays in other.pieces.items():
            self.pieces.setdefault(name, []).extend(arrays)

    def settle(self) -> None:
        """Nothing waits."""

    def spill(self, empty: bool = True, least: int = SPILL_BYTES) -> None:
        """Stay in memory: pieces are made where they are needed."""

    def to_arrays(self) -> dict[str, Array]:
        return {name: self.joined(name) for name in self.pieces}

    def restore(self, arrays: dict[str, Array]) -> None:
        kinds = [{n: (a.dtype, a.shape[1:]) for n, a in some.items()} for some in (arrays, self.to_arrays())]
        if kinds[0] != kinds[1]:
            raise ValueError(f"pieces of {kinds[0]} in place of {kinds[1]}")
        self.pieces = {name: [array] for name, array in arrays.items()}


@dataclass(frozen=True)
class LookAlikes(Pass[Pieces]):
    """Labels that look most like each document's, for ranges of documents.

    Candidates are what its neighbours and a few postings of the memory say: nearly all labels that all parts
    together rank high are among them, and no score of all labels is computed.
    """

    X: SparseRows
    """(n, D) uint16: the documents."""
    own: Array
    """(n,) int32: number of each among the known ones, or -1."""
    known: KnownDocuments
    """Those that may be neighbours."""
    index: CSR
    postings: SparseRows
    """(D, L) float32: the labels that a word speaks for."""
    n_alike: int
    """m, the labels of each document."""
    name = "look-alikes"

    def needs(self, size: Size) -> Needs:
        return Needs(4 * size.n_docs * self.n_alike, cost=Cost(gathered=0))

    def zero(self) -> Pieces:
        return Pieces({"lists": [np.zeros((0, self.n_alike), np.int32)]})

    def add(self, sums: Pieces, block: Block) -> None:
        known = self.known.with_index(self.index)
        for start in range(block.first_row, block.first_row + block.X.n_rows, _SLAB):
            stop = min(start + _SLAB, block.first_row + block.X.n_rows)
            stored = self.X.slice(start, stop)
            weights = stored.values_as(np.float32) / np.float32(UNIT)
            X = SparseRows(stored.indptr, stored.indices, weights, stored.n_columns)
            votes = known.votes(known.nearest(X, self.own[start:stop], SEARCH), _POWER, _WEIGHT)
            lists = np.empty((stop - start, self.n_alike), np.int32)
            look_alikes(votes.csr(), X.csr(), self.postings.csr(), votes.n_columns, lists)
            sums.append(lists=lists)


_SLAB = 512


def word_labels(known: KnownDocuments, n_threads: int | None = None) -> SparseRows:
    """(D, L) float32: for each word the few labels that it speaks for most: a memory of these documents."""
    X, Y = known.X, known.Y
    weights = X.values_as(np.float32) / np.float32(UNIT)
    moment = CrossMoment.zero(Y.n_columns, X.n_columns)
    moment.add(SparseRows(X.indptr, X.indices, weights, X.n_columns), Y)
    moment = moment.cut()
    C = scaled(moment.by_word(n_threads), scale(moment.lengths(), _MEMORY))
    indptr, labels, values = largest_entries(C.csr(), _POSTINGS)
    return SparseRows(indptr, labels, values, Y.n_columns)


@dataclass(frozen=True)
class Classifiers(Pass[Pieces]):
    """Weights and biases of the classifiers, for ranges of labels."""

    X: SparseRows
    """(n, D) uint16: the documents."""
    indptr: Array
    """(L + 1,) int64, with `docs` as from `pairs_by_label`."""
    docs: Array
    cost: float
    """C."""
    seed: int
    most_weights: int
    """Weights that are kept of the labels of a range, the largest."""
    name = "contrast"

    def needs(self, size: Size) -> Needs:
        return Needs(8 * self.most_weights)  # of one range; the stage says what all of them take

    def zero(self) -> Pieces:
        kinds = {"lengths": np.int64, "words": np.int32, "weights": np.float32, "biases": np.float32}
        return Pieces({name: [np.zeros(0, kind)] for name, kind in kinds.items()})

    def add(self, sums: Pieces, block: Block) -> None:
        words = self.X.indptr, self.X.indices, self.X.values_as(np.uint16)
        problem = Problem(words, float(UNIT), self.indptr, self.docs, self.cost, self.seed)
        first, last = block.first_row, block.first_row + block.X.n_rows
        indptr, words_of, weights, biases = solve_labels(problem, STOPPING, (first, last), self.X.n_columns)
        lengths = np.diff(indptr)
        if len(weights) > self.most_weights:
            sizes = np.abs(weights)
            kept = sizes >= np.partition(sizes, -self.most_weights)[-self.most_weights]
            lengths = np.add.reduceat(np.append(kept, False), indptr[:-1]) * (lengths > 0)
            words_of, weights = words_of[kept], weights[kept]
        sums.append(lengths=lengths.astype(np.int64), words=words_of, weights=weights, biases=biases)
