"""Blends whose numbers are exact, for tests of terms, tiles, scoring and pruning."""

from __future__ import annotations

import numpy as np

from tests import naive_scoring as naive
from tests.rows import sparse_rows
from threepass.corpus.rows import SparseRows
from threepass.moments.posterior import TopicModel
from threepass.parts.blend import Blend, DocumentFeatures, ScoringSizes
from threepass.parts.memory import Memory
from threepass.parts.part import Scorer, Words
from threepass.parts.refined import Refined
from threepass.parts.ridge import Basis, Ridge
from threepass.parts.terms import Side
from threepass.parts.weighting import Weighting

KINDS = ("topics", "ridge", "memory", "ridge + memory", "ridge + roots", "ridge + memory + roots")
SIZES = ScoringSizes()
Case = tuple[Blend, DocumentFeatures, np.ndarray]
"""A blend, what it sees of some documents, and the scores of all labels by plain sums."""


def topics_of(Q: np.ndarray, weight: float = 0.0, n_terms: int = 0) -> Refined:
    K = Q.shape[1]
    return Refined(TopicModel(np.zeros((n_terms, K), "f4"), Q.astype("f4"), np.full(K, 1 / K)), weight)


def ridge_of(A: np.ndarray, n_terms: int = 9) -> Ridge:
    q = A.shape[1] - 1  # the last feature is a one
    basis = Basis(np.zeros((n_terms, q), "f4"), np.zeros((q, 0), "f4"), np.zeros(0, "f4"))
    return Ridge(basis, A.astype("f4"))


def memory_of(C: np.ndarray) -> Memory:
    return Memory(sparse_rows(C, np.float32), 1.0)


def blend_of(n_labels: int, *parts: Scorer, n_terms: int = 9, sizes: ScoringSizes = SIZES) -> Blend:
    return Blend("blend", parts, Weighting(np.ones(n_terms, np.float32)), n_labels, sizes=sizes)


def seen_of(n: int, *sides: Side) -> DocumentFeatures:
    X = SparseRows(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), None, 1)
    return DocumentFeatures(Words(X, Weighting(np.ones(1, np.float32))), sides, np.ones(n, bool))


def random_case(
    kind: str, n: int = 12, n_labels: int = 100, seed: int = 0, sizes: ScoringSizes = SIZES
) -> Case:
    """Weights in quarters, so that sums are exact and ties are everywhere; zero rows and empty documents."""
    rng = np.random.default_rng([seed, n, n_labels, KINDS.index(kind)])

    def quarters(*shape: int, low: int = 0) -> np.ndarray:
        values = rng.integers(low, 5, shape) / 4 * (rng.random(shape) < 0.7)
        values[:: max(2, shape[0] // 4)] = 0
        return values.astype(np.float32)

    K, p, D = 3, 4, 9
    P, Q, F, A = quarters(n, K), quarters(n_labels, K), quarters(n, p, low=-4), quarters(n_labels, p, low=-4)
    X, C = quarters(n, D), quarters(D, n_labels)
    parts: list[Scorer] = []
    sides: list[np.ndarray | SparseRows] = []
    scores = np.zeros((n, n_labels))
    if "ridge" in kind:
        parts.append(ridge_of(A))
        sides.append(F)
        scores += naive.label_scores(F, A)
    if "memory" in kind:
        parts.append(memory_of(C))
        sides.append(sparse_rows(X, np.float32))
        scores += naive.label_scores(X, C.T)
    if "roots" in kind:
        parts.append(topics_of(Q, 2.0))
        sides.append(P)
        scores += 2 * np.sqrt(naive.label_scores(P, Q))
    if kind == "topics":
        parts.append(topics_of(Q))
        sides.append(P)
        scores += naive.label_scores(P, Q)
    return blend_of(n_labels, *parts, sizes=sizes), seen_of(n, *sides), scores
