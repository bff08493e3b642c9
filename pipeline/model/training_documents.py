"""Memory of the training documents, by which evaluations know them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..passes.document_hashes import MOST_HASHES, document_hashes
from ..types import Array

_FEWEST_COMPARED = 10
"""Documents to compare before a sample of the training documents says anything."""
_SHARED = 0.1
"""Share of familiar documents from which on two corpora are said to share some.

A few documents are alike by chance: 2 % of the test documents of Delicious and Reuters, and less elsewhere.
"""


@dataclass(frozen=True)
class TrainingDocuments:
    """The training documents: exactly, within their own store; elsewhere by a sample of hashes."""

    store: str
    """Fingerprint of the stored corpus that they are of."""
    rows: Array | None
    """(n / 8,) uint8: a bit for each document of the store, in order; None where all were used."""
    hashes: Array
    """(at most `most`,) int64, increasing: the smallest of `document_hashes`."""
    most: int = MOST_HASHES

    @classmethod
    def of(cls, corpus: Corpus, hashes: Array) -> TrainingDocuments:
        """Training documents of a corpus."""
        n_stored = corpus.info.n_docs
        rows = None
        if corpus.n_docs < n_stored:
            used = np.zeros(n_stored, bool)
            used[corpus.doc_ids] = True
            rows = np.packbits(used)
        return cls(corpus.info.fingerprint, rows, hashes)

    def within(self, corpus: Corpus) -> int | None:
        """Number of documents of the corpus among them; None where it is of another store."""
        if corpus.info.fingerprint != self.store:
            return None
        if self.rows is None:
            return corpus.n_docs
        return int(np.unpackbits(self.rows, count=corpus.info.n_docs)[corpus.doc_ids].sum())

    def familiar(self, words: SparseRows, labels: SparseRows) -> Array:
        """(2,) int64: documents that can be compared with the sample, and those of them that are in it."""
        found = document_hashes(words, labels)
        bound = self.hashes[-1] if self.is_sampled else np.iinfo(np.int64).max
        found = found[(found >= 0) & (found <= bound)]
        return np.array([len(found), np.isin(found, self.hashes).sum()])

    @property
    def is_sampled(self) -> bool:
        """Whether there are more documents than hashes are kept of."""
        return len(self.hashes) == self.most


def relation(
    known: TrainingDocuments | None, familiar: Array, n_docs: int, within: int | None, n_training: int
) -> tuple[str, float | None]:
    """Relation of documents to a model, and the share of them that it has met before.

    Parameters
    ----------
    known
        None for models of a time when nothing was remembered.
    familiar
        (2,) as of `TrainingDocuments.familiar`, of all documents.
    within
        As of `TrainingDocuments.within`; None for matrices.

    Returns
    -------
    are
        `training`, `part of training`, `overlapping`, `unseen` or `unknown`.
    share
        Of training documents; of unseen ones, those that have the words and labels of a training document.
        None where nothing could be compared.
    """
    compared, found = familiar.tolist()
    share = found / compared if compared else None
    if known is None or n_docs == 0:
        return "unknown", None
    if within is not None:
        if within == 0:
            return "unseen", share
        share = within / n_docs
    elif share is None or (known.is_sampled and compared < _FEWEST_COMPARED):
        return "unknown", share
    elif share < _SHARED:
        return "unseen", share
    if share < 1:
        return "overlapping", share
    return ("training" if n_docs == n_training else "part of training"), share
