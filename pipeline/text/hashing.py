"""Columns of words by their hashes, in place of a vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..types import Array


def hashed_columns(names: list[str], bits: int) -> Array:
    """(n,) int32: the column that each term falls into."""
    from dask_ml.feature_extraction.text import HashingVectorizer  # not for those who do not hash

    vectorizer = HashingVectorizer(
        n_features=2**bits, analyzer=_itself, alternate_sign=False, norm=None, dtype=np.float32
    )
    columns: Any = vectorizer.transform(names).indices
    return columns.astype(np.int32)  # type: ignore[no-any-return]


def _itself(term: str) -> list[str]:
    return [term]
