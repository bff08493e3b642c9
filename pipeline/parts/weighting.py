"""X~: a document as ridge and memory see it, weighted by the rarity of its words and of unit length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..corpus.rows import SparseRows
from ..passes import kernels
from ..types import Array

Scheme = Literal["log", "counts", "binary"]
SCHEMES: tuple[str, ...] = get_args(Scheme)


@dataclass(frozen=True)
class Weighting:
    """Map from counts to weights: tf · idf, rows of length 1.

    Parameters
    ----------
    idf
        (D,) float32: the weight of each word; 0 for a word to be left out.
    scheme
        tf is 1 + log c for `log` (c itself below 1, where a corpus has fractions), c for `counts`, and 1 for
        `binary`.
    """

    idf: Array
    scheme: Scheme = "log"

    @classmethod
    def of_counts(cls, term_counts: Array, n_docs: int, scheme: Scheme = "log") -> Weighting:
        """idf = log((N + 1) / (df + 1/2)), above 0 even for a word that every document has."""
        return cls(np.log((n_docs + 1) / (term_counts + 0.5)).astype(np.float32), scheme)

    def of(self, X: SparseRows) -> SparseRows:
        """X~, float32; rows without words stay empty.

        Cost: nnz additions; 4 bytes a nonzero.
        """
        values = None if self.scheme == "binary" else X.values
        out = np.empty(X.nnz, np.float32)
        kernels.unit_rows(X.indptr, X.indices, values, self.idf, self.scheme == "log", out)
        return SparseRows(X.indptr, X.indices, out, X.n_columns)
