"""Ridge regression of labels on features of the words: good at frequent labels.

Features are directions of the word-label moment, directions of the words themselves, and random waves of
these (`directions`). Read 1 sums what they are made of, read 2 F'F and F'Y; the weights follow in closed
form.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..linalg.basis import orthonormal
from ..linalg.ridge import RidgePath, ridge_weights
from ..linalg.tall import gaussian, reorder_rows
from ..moments.topics import MomentTopics
from ..passes import kernels
from ..passes.cost import Cost, Needs, Size
from ..passes.label_rows import label_bytes, zero_labels
from ..passes.sums import Sums
from ..passes.tall import TallSum, segment_tall_bytes, tall_bytes
from ..passes.work import Pass, hollow
from ..types import Array
from ..warn import warn
from .cross import WordLabels
from .directions import label_directions, random_waves
from .part import Choice, Context, Making, Part, Scale, Scorer, Stored, Trial, Words, half
from .selection import Knots, Shortlists
from .sizes import feature_counts
from .terms import Dense, Side, Term
from .weighting import Weighting

STRENGTHS = Scale((0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0))
_DEFAULT_STRENGTH = 1.0
_KNOTS = np.geomspace(1e-2, 1e5, 33)
"""Eigenvalues of F'F at which filters are known while strengths are tried; others are interpolated."""
_MOST_FOREMOST = 96
"""Features by which labels of a shortlist are found."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Basis:
    """Matrices that turn words into features."""

    B: Array
    """(D, q) float32: directions of words."""
    waves: Array
    """(q, m) float32; m may be 0."""
    phases: Array
    """(m,) float32."""

    @property
    def width(self) -> int:
        """p, the number of features."""
        return int(sum(self.waves.shape)) + 1

    def features(self, X: SparseRows) -> Array:
        """(n, p) float32: Z = X~B, random waves of its direction, and a one for the labels' own level.

        The waves sqrt(2/m) cos(z/|z| · w + phase) approximate a Gaussian kernel between documents (Rahimi and
        Recht, 2007): what they add is what words say together. One read of their moments is kernel ridge
        regression, without the documents.

        Cost: nnz rows of B are gathered; 2 n q m flops.
        """
        q, m = self.waves.shape
        F = np.ones((X.n_rows, self.width), np.float32)
        Z = kernels.times(X, self.B)
        F[:, :q] = Z
        if m:
            lengths = np.sqrt(np.einsum("np,np->n", Z, Z))
            Z /= np.where(lengths > 0, lengths, 1)[:, None]
            angles = Z @ self.waves
            angles += self.phases
            np.cos(angles, out=angles)
            F[:, q:-1] = angles * np.float32(np.sqrt(2 / m))
        return F


@dataclass
class OwnDirections(Sums):
    """X~'(X~ Omega), (D, m)."""

    words: TallSum


@dataclass(frozen=True)
class WordDirections(Pass[OwnDirections]):
    """Read 1: directions of the words themselves, where there is room for them."""

    weighting: Weighting
    omega: Array
    """(D, m) float32."""
    name = "word directions"

    def needs(self, size: Size) -> Needs:
        D, m = self.omega.shape
        return Needs(
            tall_bytes(D, m),
            segment_tall_bytes(D, m, size.n_docs, size.x_nnz),
            block_document=4 * m,
            cost=Cost(gathered=12 * size.x_nnz * m),
        )

    def zero(self) -> OwnDirections:
        return OwnDirections(TallSum.zero(*self.omega.shape))

    def add(self, sums: OwnDirections, block: Block) -> None:
        X = self.weighting.of(block.X)
        sums.words.add(X, kernels.times(X, self.omega))


@dataclass
class FeatureSums(Sums):
    """Moments of the features."""

    gram: Array
    """(p, p) float64: F'F."""
    labels: Array
    """(L, p): Y'F."""


@dataclass(frozen=True)
class Features(Pass[FeatureSums]):
    """Read 2: F'F and Y'F."""

    weighting: Weighting
    basis: Basis
    n_labels: int
    name = "features"

    def needs(self, size: Size) -> Needs:
        (q, m), p = self.basis.waves.shape, self.basis.width
        sums = 8 * p**2 + label_bytes(self.n_labels, p)
        flops = size.n_docs * (p**2 + 2 * q * m)
        cost = Cost(flops, 4 * size.x_nnz * q + 8 * size.y_nnz * p)
        return Needs(sums, sums, slab_document=12 * p, cost=cost)

    def zero(self) -> FeatureSums:
        p = self.basis.width
        return FeatureSums(np.zeros((p, p)), zero_labels(self.n_labels, p))

    def add(self, sums: FeatureSums, block: Block) -> None:
        X = self.weighting.of(block.X)
        for start in range(0, X.n_rows, kernels.SLAB):
            stop = min(start + kernels.SLAB, X.n_rows)
            F = self.basis.features(X.slice(start, stop))
            sums.gram += F.T @ F
            kernels.add_label_moments(block.Y.slice(start, stop), F, sums.labels)


@dataclass(frozen=True)
class Ridge(Scorer):
    """Linear regression of labels on features of the weighted words: F A'."""

    basis: Basis
    A: Array
    """(L, p) float32: what each feature says of each label."""
    name = "ridge"
    described = "ridge regression on features of the words"
    halved = ("basis", "weights")
    largest = 1.0

    @property
    def terms(self) -> Sequence[Term]:
        return [Dense(self.A)]

    def see(self, words: Words) -> Sequence[Side]:
        return [self.basis.features(words.weighted)]

    def arrays(self) -> dict[str, Array]:
        basis = self.basis
        return {"basis": basis.B, "waves": basis.waves, "phases": basis.phases, "weights": self.A}

    @classmethod
    def load(cls, stored: Stored, moments: MomentTopics) -> Self:
        phases = stored.read("phases", (None,), np.float32)
        waves = stored.read("waves", (None, len(phases)), np.float32)
        B = stored.read_floats("basis", (len(moments.W), len(waves)))
        basis = Basis(B, waves, phases)
        return cls(basis, stored.read_floats("weights", (len(moments.Q), basis.width)))

    def reordered(self, words: Array, moments: MomentTopics, n_threads: int | None = None) -> Self:
        basis = self.basis
        return type(self)(Basis(reorder_rows(basis.B, words, n_threads), basis.waves, basis.phases), self.A)


class RidgePart(Part):
    """Ridge regression while it learns."""

    name = "ridge"
    scorer = Ridge

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        corpus, settings = context.corpus, context.settings
        shape = corpus.n_docs, corpus.n_terms, corpus.n_labels
        self.counts = feature_counts(*shape, settings.dim, context.layout.parts_bytes)
        context.share(WordLabels)
        self.own: WordDirections | None = None
        self.own_sums: OwnDirections | None = None
        self.features: Features | None = None
        self.sums: FeatureSums | None = None

    @property
    def cross(self) -> WordLabels:
        """The cross moment, shared with other parts."""
        return self.context.share(WordLabels)

    @property
    def _summed(self) -> tuple[Features, FeatureSums]:
        """Features of read 2, and their sums."""
        assert self.features is not None
        assert self.sums is not None
        return self.features, self.sums

    def held(self) -> Sequence[Any]:
        return [self.own, self.own_sums, self.features, self.sums]

    # -- reads ----------------------------------------------------------------------------------------------

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        work = {1: self.own, 2: self.features}.get(read)
        return () if work is None else [work]

    def take(self, read: int, sums: Sequence[Any]) -> None:
        (own,) = sums
        if read == 1:
            self.own_sums, self.own = own, None
        else:
            self.sums = own

    def give_back(self, held_out: Block) -> None:
        features, sums = self._summed
        features.add(sums, held_out)

    def prepares(self, read: int) -> str | None:
        names = {2: "features"} | ({1: "word directions"} if self.counts.words else {})
        return names.get(read)

    def prepare(self, read: int) -> None:
        context, counts = self.context, self.counts
        seed, n_threads = context.settings.seed, context.n_threads
        if read == 1:
            omega = gaussian(context.corpus.n_terms, counts.words, seed, n_threads)
            self.own = WordDirections(context.weighting, omega)
            return
        M = label_directions(self.cross.kept(), counts.labels, seed, counts.words, n_threads)
        if self.own_sums is not None:
            M[:, counts.labels :] = self.own_sums.words.finished()
            self.own_sums = None
        B = half(orthonormal(M, True, n_threads))  # features are made with exactly what is saved
        waves = random_waves(B.shape[1], counts.waves if B.shape[1] else 0, seed)
        self.features = Features(context.weighting, Basis(B, *waves), context.corpus.n_labels)

    def pretend(self, read: int) -> None:
        D, counts = self.context.corpus.n_terms, self.counts
        if read == 1:
            self.own = WordDirections(self.context.weighting, hollow(D, counts.words))
            return
        self.own_sums = None
        q = counts.labels + counts.words
        basis = Basis(hollow(D, q), hollow(q, counts.waves), hollow(counts.waves))
        self.features = Features(self.context.weighting, basis, self.context.corpus.n_labels)

    def preparing(self, read: int) -> Making:
        D, counts = self.context.corpus.n_terms, self.counts
        if read == 1:
            return Making(4 * D * counts.words)
        q = counts.labels + counts.words
        return Making(4 * D * q + 24 * q * q, Cost(3 * D * q * q))

    # -- choices, and what remains --------------------------------------------------------------------------

    @property
    def defaults(self) -> Choice:
        return {"strength": _DEFAULT_STRENGTH}

    def options(self) -> Mapping[str, Sequence[float]]:
        return {"strength": STRENGTHS}

    def trial(self, documents: Words) -> Trial:
        features, sums = self._summed
        path = RidgePath.of(sums.gram, sums.labels, self.context.n_threads)
        return _RidgeTrial(path, features.basis.features(documents.weighted) @ path.vectors)

    def pair_scores(self, at: Mapping[str, Array], choice: Choice) -> Array:
        filters = (_KNOTS + _DEFAULT_STRENGTH) / (_KNOTS + choice["strength"])
        return np.asarray(filters.astype(np.float32) @ at["products"])

    def finish(self, choice: Choice) -> Scorer:
        features, sums = self._summed
        A = ridge_weights(sums.gram, sums.labels, choice["strength"], self.context.n_threads)
        self.features = self.sums = None
        return Ridge(features.basis, half(A))

    def finishing(self) -> Making:
        L, p = self.context.corpus.n_labels, self.counts.total + 1
        return Making(2 * 4 * L * p + 24 * p * p)

    def remains(self) -> Sequence[Array]:
        assert self.features is not None
        basis = self.features.basis
        return [basis.B, basis.waves, basis.phases, hollow(self.context.corpus.n_labels, basis.width)]

    def details(self) -> dict[str, Any]:
        return {"head_dim": self.counts.total, "head_dim_reason": self.counts.reason}

    def tell(self) -> None:
        """Log how many features there are, and why; warn where memory leaves fewer than asked for."""
        counts, wanted = self.counts, self.context.settings.dim
        log.info("The ridge regression has %d features (%s).", counts.total, counts.reason)
        if wanted is not None and counts.reason.startswith("memory"):
            warn(
                f"head_dim is reduced from {wanted} to {counts.total} ({counts.reason}). "
                "Raise memory_limit for more."
            )


@dataclass(frozen=True)
class _RidgeTrial(Trial):
    path: RidgePath
    F: Array
    """(n, p): features of the documents, in the path's coordinates."""

    @cached_property
    def _foremost(self) -> tuple[Array, Array]:
        """The features that say most, filtered, and what they say of labels: (n, q) and (L, q)."""
        path = self.path
        (filters,) = path.filters([_DEFAULT_STRENGTH])
        said = path.values * filters**2 * np.einsum("lp,lp->p", path.labels, path.labels)
        most = np.sort(np.argsort(-said, kind="stable")[:_MOST_FOREMOST])
        return self.F[:, most] * filters[most], np.ascontiguousarray(path.labels[:, most])

    def dense(self, rows: slice) -> Array:
        F, labels = self._foremost
        return np.asarray(F[rows] @ labels.T)

    def at(self, lists: Shortlists) -> dict[str, Array]:
        """Products at the default strength, shared out among knots: at any other they are a weighted sum."""
        path = self.path
        (filters,) = path.filters([_DEFAULT_STRENGTH])
        knots = Knots.of(np.log(np.maximum(path.values, _KNOTS[0])), np.log(_KNOTS))
        return {"products": lists.knot_products(self.F * filters, path.labels, knots)}
