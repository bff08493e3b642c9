"""Topics of a document, and its labels by them (the paper's section 2.4, equations 13 to 15)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..corpus.rows import SparseRows
from ..linalg.tall import reorder_rows
from ..passes import kernels
from ..types import Array

_SMALLEST = float(np.finfo(np.float32).tiny)
"""Below it single precision is neither precise nor fast: products of such numbers take ten times as long."""


@dataclass(frozen=True)
class TopicModel:
    """P[label | document] = sum_k Q_lk P[topic k | document] (equation 15)."""

    O: Array
    """(D, K) float32: P[word | topic]."""
    Q: Array
    """(L, K) float32: P[label | topic]."""
    pi: Array
    """(K,) float64: P[topic]."""
    smoothing: float = 0.1
    """Share of uniform mass mixed into each topic's words: no single word may rule a topic out."""
    temperature: float = 1.0
    """Above 1, topics are less sure of themselves: words are not as independent as the model says."""

    @cached_property
    def log_O(self) -> Array:
        return log_word_topics(self.O, self.smoothing)

    @property
    def log_pi(self) -> Array:
        return log_prior(self.pi)

    def posterior(self, X: SparseRows) -> Array:
        """(n, K) float32: P[topic | document] (equation 14)."""
        return posterior(X, self.log_O, self.log_pi, temperature=self.temperature)

    def reordered(self, words: Array, n_threads: int | None = None) -> TopicModel:
        """The same with words in another order, in place: word `i` is what word `words[i]` was."""
        return replace(self, O=reorder_rows(self.O, words, n_threads))


def log_prior(pi: Array) -> Array:
    """(K,) float64: log of the topics' weights, finite."""
    return np.log(np.maximum(pi, 1e-300))


def log_word_topics(O: Array, smoothing: float, n_terms: int | None = None, overwrite: bool = False) -> Array:
    """(D, K) float32: log of O mixed with a uniform distribution; of `n_terms` words, if O has but some."""
    mixed = np.multiply(O, np.float32(1 - smoothing), out=O if overwrite else None)
    mixed += smoothing / max(1, len(O) if n_terms is None else n_terms)
    return np.log(mixed, out=mixed)


def posterior(
    X: SparseRows,
    log_O: Array,
    log_pi: Array,
    Y: SparseRows | None = None,
    log_Q: Array | None = None,
    temperature: float = 1.0,
) -> Array:
    """(n, K) float32: P[topic | document], from a document's distinct words (equations 13 and 14).

    P[h | d] ~ (pi_h prod_v O_vh)^(1/T), in logarithms, with the row's maximum taken out before exp. A
    document with no known word gets the prior. With `log_Q`, times prod_l Q_lh over the document's labels.

    Cost: nnz rows of log O are gathered.
    """
    binary = SparseRows(X.indptr, X.indices, None, X.n_columns)
    # logarithms of long documents run into the thousands: only double precision keeps their differences
    P = kernels.times(binary, log_O, np.float64)  # (n, K)
    P += log_pi
    if Y is not None and log_Q is not None:
        P += kernels.times(SparseRows(Y.indptr, Y.indices, None, Y.n_columns), log_Q, np.float64)
    P /= temperature
    P -= P.max(axis=1, keepdims=True)
    np.exp(P, out=P)
    P /= P.sum(axis=1, keepdims=True)
    P[P < _SMALLEST] = 0
    return P.astype(np.float32)
