"""WSABIE: words and labels in one low-dimensional space, by stochastic gradient steps on a ranking loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.baselines import refuse_other_documents, refuse_other_words
from benchmarks.baselines.parts import with_bias
from benchmarks.baselines.wsabie_kernels import warp_epoch
from threepass.corpus.rows import SparseRows
from threepass.errors import InputError
from threepass.passes import kernels
from threepass.types import Array

MAX_TRIALS = 200
"""Labels drawn in search of one that scores too high, at most; the cost of an epoch is bounded by it."""


@dataclass
class Wsabie:
    """Rank labels by x W h, with WARP: the loss of a label at rank r is 1 + 1/2 + ... + 1/r.

    A step takes a document and one of its labels, and draws others until one scores above it less the margin;
    how many draws it took tells the rank. Both labels and the document's words are moved, by AdaGrad with a
    rate for each row, and rows longer than `max_norm` are cut to it. Each epoch visits every label of every
    document once, documents in random order. One thread, so that the seed decides the result.

    Parameters
    ----------
    rank
        Width of W and H.
    rate
        Of learning, in units of a row's typical gradient.
    margin
        By which a document's labels should score above the others.
    n_epochs
        Visits of every document.
    max_norm
        Length of the longest row of W and H.
    seed
        Of the start, the order and the draws.
    bias
        Of a word that every document has, beside its own; 0 for none.

    Attributes
    ----------
    W_, H_
        (D, rank) and (L, rank) float32; W has a row more where there is a bias.
    seconds_
        Seconds from the start of `fit` to the end of each epoch, without the callback's.

    Notes
    -----
    Cost: an epoch takes 4 nnz(X) rank + 2 nnz(Y) rank t flops, t <= 200 the mean number of draws. Memory: D +
    L rows of rank + 1 floats of 4 bytes, and the input.

    References
    ----------
    Weston, Bengio, Usunier, "WSABIE: Scaling Up To Large Vocabulary Image Annotation", IJCAI 2011.
    """

    rank: int
    rate: float
    margin: float = 1.0
    n_epochs: int = 20
    max_norm: float = 5.0
    seed: int = 0
    bias: float = 0.0
    W_: Array = field(init=False, repr=False)
    H_: Array = field(init=False, repr=False)
    seconds_: list[float] = field(init=False, repr=False)

    def fit(self, X: SparseRows, Y: SparseRows, callback: Callable[[Wsabie], None] | None = None) -> Wsabie:
        """Find W and H.

        Parameters
        ----------
        X
            (N, D) words, weighted as they should count.
        Y
            (N, L) labels; the values are not looked at.
        callback
            Called with this object after each epoch, with the clock stopped.
        """
        if self.rank < 1 or not all(value > 0 for value in (self.rate, self.margin, self.max_norm)):
            raise InputError(
                "WSABIE needs a rank of at least 1, and a rate, margin and max_norm above 0. Found "
                f"rank={self.rank}, rate={self.rate}, margin={self.margin}, max_norm={self.max_norm}. "
                "Pass others."
            )
        refuse_other_documents(X, Y)
        started = time.perf_counter()
        X = with_bias(X, self.bias)
        values = X.values_as(np.float32)
        rng = np.random.default_rng(self.seed)
        scale = np.float32(1 / np.sqrt(self.rank))
        self.W_ = scale * rng.standard_normal((X.n_columns, self.rank), np.float32)
        self.H_ = scale * rng.standard_normal((Y.n_columns, self.rank), np.float32)
        squares_W, squares_H = (np.zeros(len(A), np.float32) for A in (self.W_, self.H_))
        ranks = np.arange(1, Y.n_columns + 1)
        rank_loss = np.concatenate([[0], np.cumsum(1 / ranks)]).astype(np.float32)  # (L + 1,)
        state = rng.integers(2**63, size=1, dtype=np.uint64)
        self.seconds_ = []
        for _ in range(self.n_epochs):
            warp_epoch(
                rng.permutation(X.n_rows),
                (X.indptr, X.indices, values),
                (Y.indptr, Y.indices),
                self.W_,
                self.H_,
                squares_W,
                squares_H,
                self.rate,
                self.margin,
                self.max_norm,
                MAX_TRIALS,
                rank_loss,
                state,
            )
            self.seconds_.append(time.perf_counter() - started)
            if callback is not None:
                paused = time.perf_counter()
                callback(self)
                started += time.perf_counter() - paused
        return self

    def scores(self, X: SparseRows) -> Array:
        """(n, L) float32: X W H'."""
        refuse_other_words(X, len(self.W_) - (self.bias != 0))
        scores: Array = kernels.times(with_bias(X, self.bias), self.W_) @ self.H_.T
        return scores

    @property
    def nbytes(self) -> int:
        """Bytes of W and H."""
        return int(self.W_.nbytes + self.H_.nbytes)
