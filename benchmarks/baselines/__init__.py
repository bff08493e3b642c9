"""Other methods, written to be as fast as ours can be: the same kernels, the same cores, the same float32.

Every one of them is a `Baseline`, so that one harness drives them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from threepass.corpus.rows import SparseRows
from threepass.errors import InputError
from threepass.types import Array


class Baseline(Protocol):
    """A method that learns labels from words, and scores every label of a document."""

    seconds_: list[float]
    """Seconds from the start of `fit` to the end of each iteration, without the callback's."""

    def fit(self, X: SparseRows, Y: SparseRows, callback: Callable[[Any], None] | None = None) -> Any:
        """Learn from all documents.

        Parameters
        ----------
        X
            (N, D) words, weighted as they should count.
        Y
            (N, L) labels; the values are not looked at.
        callback
            Called with this object after each iteration, with the clock stopped; a method that does not
            iterate calls it once, at the end.
        """

    def scores(self, X: SparseRows) -> Array:
        """(n, L) float32 for a slab of documents: the larger, the likelier."""

    @property
    def nbytes(self) -> int:
        """Bytes of the fitted model."""


def refuse_other_documents(X: SparseRows, Y: SparseRows) -> None:
    if X.n_rows != Y.n_rows:
        raise InputError(
            "Words and labels need a row for each document. "
            f"Found {X.n_rows} and {Y.n_rows} rows. Pass both of the same documents."
        )


def refuse_other_words(X: SparseRows, n_terms: int) -> None:
    if X.n_columns != n_terms:
        raise InputError(
            f"Documents need the {n_terms} columns of the fit. Found {X.n_columns}. "
            "Pass words in the same order as there."
        )
