"""Topics as the moments have them: the result of Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..linalg.tall import reorder_rows
from ..types import Array
from .error_bars import ErrorBars
from .guarantee import Guarantee, guarantee
from .pairs import Statistics
from .recover import Prior, topic_weights, word_topics


@dataclass(frozen=True)
class MomentTopics:
    """O, Q and pi, what they were recovered from, and how far they can be trusted.

    Words are in the order of the whitening's rows.
    """

    W: Array
    """(D, K) float32: the whitening, W'M2W = I."""
    eigenvalues: Array
    """(K,) float64: nu, the largest eigenvalues of M2."""
    U: Array
    """(K, K) float64: eigenvectors of the whitened tensor."""
    tensor_eigenvalues: Array
    """(K,) float64: lambda."""
    tensor_residual: float
    """Share of the whitened tensor that the topics leave unexplained."""
    Q: Array
    """(L, K) float32: P[label | topic]."""
    statistics: Statistics
    error_bars: ErrorBars
    prior: Prior = "eigenvalues"
    drop_self_pairs: bool = False

    @cached_property
    def O(self) -> Array:  # noqa: E743
        """(D, K) float32: P[word | topic], from mu_k = W† u_k; made when it is first asked for."""
        return recovered_words(self.W, self.eigenvalues, self.U)

    @property
    def pi(self) -> Array:
        """(K,) float64: P[topic]."""
        return topic_weights(self.tensor_eigenvalues, self.prior)

    @property
    def n_topics(self) -> int:
        return len(self.eigenvalues)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without what is derived."""
        return self.W.nbytes + self.Q.nbytes

    def guarantee(self, delta: float = 0.05) -> Guarantee:
        """Theorem 1 for these topics, with probability 1 - delta, and the error bars measured beside it."""
        sigma, pi = self.eigenvalues, self.pi
        return guarantee(self.statistics, self.drop_self_pairs, sigma, pi, self.error_bars, delta)

    def reordered(self, words: Array, n_threads: int | None = None) -> MomentTopics:
        """The same with words in another order, in place: word `i` is what word `words[i]` was."""
        return replace(self, W=reorder_rows(self.W, words, n_threads))


def recovered_words(W: Array, eigenvalues: Array, U: Array) -> Array:
    """(D, K) float32: O, its columns W† u_k = W Sigma u_k made distributions."""
    return word_topics(W, eigenvalues[:, None] * np.asarray(U))
