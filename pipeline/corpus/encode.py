"""Words as rows of a corpus: of its own texts, and later of those to be labelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..text.hashing import hashed_columns
from ..text.info import Tokenizer
from ..text.terms import TermTable
from ..text.words import DocumentWords
from .kernels import merge_repeats
from .rows import SparseRows

if TYPE_CHECKING:
    from .store import Corpus


def encode(found: DocumentWords, table: TermTable, tokenizer: Tokenizer, n_terms: int) -> SparseRows:
    """Documents as rows of the terms of a table; with hashing, of those that the terms hash to."""
    hashed = tokenizer.hash_bits is not None
    indptr, indices, values = table.count(found, tokenizer.bigrams, learn=hashed)
    if tokenizer.hash_bits is not None:
        names = [name.decode() for name in table.names(np.arange(table.n_terms))]
        indices = hashed_columns(names, tokenizer.hash_bits)[indices] if names else indices
    nnz = merge_repeats(indptr, indices, values)
    return SparseRows(indptr, indices[:nnz], values[:nnz], n_terms)


def terms_in_source_order(corpus: Corpus) -> list[str]:
    """The names of terms by their source ids."""
    terms: list[str] = [""] * corpus.n_terms
    for i, name in zip(corpus.term_ids.tolist(), corpus.terms, strict=True):
        terms[i] = name
    return terms
