"""View of a document's words in the moments: present or counted, with or without self-pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Block
from ..types import Array


@dataclass(frozen=True, slots=True)
class WordView:
    """The x of the moments.

    Parameters
    ----------
    counts
        x holds counts. False: x is binary, as in the paper.
    drop_self_pairs
        Leave out the pairs and triples in which the same occurrence of a word stands twice. The paper keeps
        them; without them the moments are unbiased for the model of equation 1.
    """

    counts: bool = False
    drop_self_pairs: bool = False

    def words(self, block: Block) -> SparseRows:
        return self.words_of(block.X)

    def words_of(self, X: SparseRows) -> SparseRows:
        if not self.counts:
            return replace(X, values=None)
        return X if X.values is None else replace(X, values=X.values.astype(np.float32, copy=False))

    def lengths(self, X: SparseRows) -> Array:
        """(n,) float64: nnz(x), or the number of words when they are counted."""
        if X.values is None:
            return np.diff(X.indptr).astype(np.float64)
        ends = np.concatenate([[0.0], np.cumsum(X.values, dtype=np.float64)])
        return np.asarray(ends[X.indptr[1:]] - ends[X.indptr[:-1]])

    def pair_weight(self, n: Array) -> Array:
        """Number of ordered pairs of words in a document of length n."""
        return n * (n - 1) if self.drop_self_pairs else n * n

    def triple_weight(self, n: Array) -> Array:
        """Number of ordered triples of words in a document of length n."""
        return n * (n - 1) * (n - 2) if self.drop_self_pairs else n * n * n
