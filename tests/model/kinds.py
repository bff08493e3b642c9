"""Matrices of every kind, and what tests of the estimator share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse
import sparse

from threepass import MomentLabeler

Matrices = tuple[np.ndarray, np.ndarray]
FITTED = ("word_topics_", "label_topics_", "topic_weights_", "whitening_", "eigenvalues_")


def paper_labeler(*args: Any, **parameters: Any) -> MomentLabeler:
    """The estimator with the paper's own head."""
    return MomentLabeler(*args, **{"head": "posterior", **parameters})


def single_numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """An evaluation without its table, and without what it says of the documents."""
    return {name: value for name, value in metrics.items() if isinstance(value, float)}


def dask_rows(dense: np.ndarray, chunks: Any, convert: Callable[[Any], Any] | None = None) -> da.Array:
    array = da.from_array(dense, chunks=chunks)
    if convert is None:
        return array
    return array.map_blocks(convert, dtype=dense.dtype, meta=convert(np.zeros((0, 0), dense.dtype)))


def gcxs(dense: np.ndarray) -> sparse.GCXS:
    return sparse.GCXS.from_numpy(dense)


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_array,
    "csr_matrix": scipy.sparse.csr_matrix,
    "dense": np.asarray,
    "list": np.ndarray.tolist,
    "pydata coo": sparse.COO.from_numpy,
    "pydata gcxs": gcxs,
    "dask": lambda m: dask_rows(m, (97, max(1, m.shape[1] // 2))),
    "dask of gcxs": lambda m: dask_rows(m, (120, -1), gcxs),
    "dask of csr": lambda m: dask_rows(m, (120, -1), scipy.sparse.csr_array),
}


def assert_same_fit(one: MomentLabeler, other: MomentLabeler, atol: float = 2e-5) -> None:
    """Equal but for rounding; eigenvectors have no sign. A sketch is not exact: give it a larger `atol`."""
    for name in FITTED:
        np.testing.assert_allclose(
            abs(getattr(one, name)), abs(getattr(other, name)), rtol=2e-3, atol=atol, err_msg=name
        )


def assert_sensible(model: MomentLabeler, n_terms: int, n_labels: int) -> None:
    K = len(model.topic_weights_)
    assert model.word_topics_.shape == model.whitening_.shape == (n_terms, K)
    assert model.label_topics_.shape == (n_labels, K)
    for name in FITTED:
        assert np.isfinite(getattr(model, name)).all(), name
    for distributions in (model.word_topics_, model.label_topics_, model.topic_weights_):
        assert (distributions >= 0).all()
        np.testing.assert_allclose(distributions.sum(axis=0), 1, rtol=1e-5)
    assert model.n_features_in_ == n_terms
    assert model.n_passes_ == 3
    assert np.isfinite(model.guarantee().bound_words)
