"""Documents as every baseline sees them, and how well it labels them."""

from __future__ import annotations

import numpy as np

from benchmarks.baselines import Baseline
from threepass.corpus.rows import SparseRows
from threepass.corpus.store import Corpus
from threepass.errors import InputError
from threepass.metrics.measures import RankingSums, document_auc, ranking_sums
from threepass.parts.scoring_kernels import keep_best
from threepass.parts.weighting import Weighting
from threepass.types import Array

_SLAB_FLOATS = 2**23
"""Scores that are held at a time."""


def weighted_documents(corpus: Corpus, train: Corpus) -> tuple[SparseRows, SparseRows]:
    """Words and labels of a corpus, in memory, in the columns of `train` and weighted by its rarities.

    Returns
    -------
    X, Y
        (N, D) float32, rows of length 1; and (N, L).
    """
    if corpus.n_terms > train.n_terms or corpus.n_labels > train.n_labels:
        raise InputError(
            f"Documents may have the {train.n_terms} words and {train.n_labels} labels of training. "
            f"Found {corpus.n_terms} and {corpus.n_labels}. Ingest both of the same data set."
        )
    blocks = list(corpus.blocks())
    X, Y = (SparseRows.concatenate([getattr(block, side) for block in blocks]) for side in ("X", "Y"))
    # A corpus has its columns in an order of its own; in that of `train`, frequent words lie side by side.
    places = np.argsort(train.term_ids)[corpus.term_ids].astype(np.int32)
    csr = SparseRows(X.indptr, places[X.indices], X.values, train.n_terms).to_scipy()
    csr.has_sorted_indices = False
    csr.sort_indices()
    words = SparseRows(X.indptr, csr.indices, csr.data, train.n_terms)
    weighting = Weighting.of_counts(*train.stored_term_counts)
    return weighting.of(words), SparseRows(Y.indptr, Y.indices, None, train.n_labels)


def best_labels(model: Baseline, X: SparseRows, n_labels: int, k: int) -> tuple[Array, Array]:
    """The k best labels of each document and their scores, both (n, k); -1 where there are fewer labels."""
    labels = np.full((X.n_rows, k), -1, np.int32)
    best = np.full((X.n_rows, k), -np.inf, np.float32)
    for rows in _slabs(X.n_rows, n_labels):
        keep_best(model.scores(X.slice(rows.start, rows.stop)), 0, labels[rows], best[rows])
    return labels, best


def evaluate(
    model: Baseline,
    X: SparseRows,
    Y: SparseRows,
    ks: tuple[int, ...] = (1, 3, 5),
    inverse_propensity: Array | None = None,
    slab_floats: int = _SLAB_FLOATS,
) -> dict[str, float]:
    """The metrics of a model's scores, as `RankingSums.finish` names them; at most some slabs are in memory.

    Parameters
    ----------
    model
        Fitted.
    X, Y
        (n, D) and (n, L).
    ks
        Cut-offs.
    inverse_propensity
        (L,) for the propensity-scored metrics.
    slab_floats
        Scores that are held at a time.
    """
    sums = RankingSums.zero(ks)
    for rows in _slabs(X.n_rows, Y.n_columns, slab_floats):
        truth = Y.slice(rows.start, rows.stop)
        scores = model.scores(X.slice(rows.start, rows.stop))  # (s, L)
        labels = np.full((truth.n_rows, max(ks)), -1, np.int32)
        best = np.full(labels.shape, -np.inf, np.float32)
        keep_best(scores, 0, labels, best)
        auc = document_auc(scores, truth)
        sums = sums.merge(ranking_sums(labels, truth, ks, inverse_propensity, auc))
    return sums.finish()


def _slabs(n_rows: int, n_labels: int, slab_floats: int = _SLAB_FLOATS) -> list[slice]:
    """Rows to score at a time."""
    step = max(1, slab_floats // max(1, n_labels))
    return [slice(top, min(top + step, n_rows)) for top in range(0, n_rows, step)]
