from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import sparse

from tests import naive_scoring as naive
from tests.conftest import random_matrices
from tests.model.kinds import (
    KINDS,
    Matrices,
    paper_labeler,
    single_numbers,
)
from threepass import Corpus, InputError, MomentLabeler, ingest_matrices
from threepass.model.inputs import BatchSizes


def test_predictions__equal_the_oracles(small_model: MomentLabeler) -> None:
    X, _ = random_matrices(50, 23, 7, seed=3)
    m = small_model
    P = naive.posterior(X, naive.smoothed(m.word_topics_, 0.1), m.topic_weights_)
    scores = naive.label_scores(P, m.label_topics_)
    np.testing.assert_allclose(m.transform(X), P, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(m.predict_proba(X), scores, rtol=1e-4, atol=1e-6)
    labels, best = m.predict_topk(X, k=4)
    np.testing.assert_allclose(best, naive.top_labels(scores, 4)[1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(m.predict_proba(X), labels, axis=1), best, rtol=1e-6)
    np.testing.assert_allclose(m.predict_proba(X).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(m.transform(X).sum(axis=1), 1, rtol=1e-5)


def test_transform__smoothing_is_used(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    other = paper_labeler(3, smoothing=0.9).fit(X, Y)
    np.testing.assert_array_equal(other.word_topics_, small_model.word_topics_)
    assert other.transform(X).max(axis=1).mean() < small_model.transform(X).max(axis=1).mean() - 0.05


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
@pytest.mark.parametrize("kind", ["corpus", *KINDS])
def test_predictions__same_for_any_kind(
    planted: Corpus, matrices: Matrices, paper_model: MomentLabeler, kind: str
) -> None:
    X, Y = (m[:500] for m in matrices)
    ours = planted.head(500) if kind == "corpus" else KINDS[kind](X)
    true = None if kind == "corpus" else KINDS[kind](Y)
    for method in (paper_model.transform, paper_model.predict_proba):
        np.testing.assert_allclose(method(ours), method(X), rtol=1e-4, atol=1e-6)
    labels, scores = paper_model.predict_topk(ours, k=5)
    ref_labels, ref_scores = paper_model.predict_topk(X, k=5)
    assert (labels == ref_labels).mean() > 0.999  # sums in another order may swap near ties
    np.testing.assert_allclose(scores, ref_scores, rtol=1e-4)
    assert (paper_model.predict(ours) != paper_model.predict(X)).sum() <= 2
    metrics, ref = (single_numbers(paper_model.evaluate(*docs)) for docs in ((ours, true), (X, Y)))
    assert metrics.keys() == ref.keys()
    for name, value in ref.items():
        assert metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-3), name


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
def test_predictions__many_blocks_keep_their_order(matrices: Matrices, paper_model: MomentLabeler) -> None:
    X, Y = (m[:500] for m in matrices)
    whole, metrics = paper_model.predict_proba(X), single_numbers(paper_model.evaluate(X, Y))
    model = replace(paper_model.predictor_, sizes=BatchSizes(block_rows=77))
    np.testing.assert_array_equal(model.predict_proba(X), whole)
    assert single_numbers(model.evaluate(X, Y)) == pytest.approx(metrics)


def test_predictions__a_corpus_with_other_ranks(
    tmp_path: Path, matrices: Matrices, planted: Corpus, paper_model: MomentLabeler
) -> None:
    X, Y = matrices[0][3000:3200].copy(), matrices[1][3000:3200]
    X[:, 350:] += 1  # rare words are now the commonest
    corpus = ingest_matrices(X, Y, tmp_path / "test.zarr", block_bytes=20_000)
    assert not np.array_equal(corpus.term_ids, planted.term_ids)
    np.testing.assert_allclose(
        paper_model.predict_proba(corpus), paper_model.predict_proba(X), rtol=1e-4, atol=1e-6
    )
    ours, ref = (single_numbers(paper_model.evaluate(*docs)) for docs in ((corpus,), (X, Y)))
    assert ours == pytest.approx(ref, rel=1e-4)


def test_predictions__words_unknown_to_the_model_are_ignored(
    tmp_path: Path, matrices: Matrices, paper_model: MomentLabeler
) -> None:
    X, Y = matrices[0][:200], matrices[1][:200]
    wider = np.hstack([X, np.full((200, 9), 3)])
    corpus = ingest_matrices(wider, Y, tmp_path / "wide.zarr")
    np.testing.assert_allclose(
        paper_model.predict_proba(corpus), paper_model.predict_proba(X), rtol=1e-4, atol=1e-6
    )
    with pytest.raises(InputError, match=r"409 features.*expecting 400"):
        paper_model.predict_proba(wider)


def test_predictions__a_corpus_with_fewer_words(
    tmp_path: Path, matrices: Matrices, paper_model: MomentLabeler
) -> None:
    X, Y = matrices[0][:200].copy(), matrices[1][:200]
    X[:, 300:] = 0
    corpus = ingest_matrices(X[:, :300], Y, tmp_path / "narrow.zarr")
    np.testing.assert_allclose(
        paper_model.predict_proba(corpus), paper_model.predict_proba(X), rtol=1e-4, atol=1e-6
    )


def test_predictions__no_documents(planted: Corpus, paper_model: MomentLabeler) -> None:
    none = planted.head(0)
    assert paper_model.transform(none).shape == (0, 4)
    assert paper_model.predict_proba(none).shape == (0, 20)
    assert [side.shape for side in paper_model.predict_topk(none, k=3)] == [(0, 3), (0, 3)]
    assert paper_model.predict(none).shape == (0, 20)
    assert paper_model.evaluate(none)["n_docs"] == 0


@pytest.mark.parametrize("kind", ["dense", "csr", "pydata gcxs", "dask", "list"])
def test_predictions__another_width_is_refused(kind: str, small_model: MomentLabeler) -> None:
    for width in (22, 24):
        with pytest.raises(InputError, match=f"X has {width} features, but .* is expecting 23 features"):
            small_model.predict(KINDS[kind](np.ones((5, width))))


@pytest.mark.parametrize("make", [np.asarray, sparse.COO.from_numpy, da.from_array])
def test_predictions__a_row_alone_is_refused(make: Any, small_model: MomentLabeler) -> None:
    with pytest.raises(InputError):
        small_model.transform(make(np.ones(23)))


@pytest.mark.parametrize(
    ("k", "threshold"), [(1, None), (3, None), (7, None), (50, None), (None, 0.15), (2, 0.15), (None, 2.0)]
)
def test_predict__k_and_threshold(small_model: MomentLabeler, k: int | None, threshold: float | None) -> None:
    X, _ = random_matrices(80, 23, 7, seed=9)
    ref = naive.indicator(small_model.predict_proba(X), k, threshold)
    ref[X.sum(axis=1) == 0] = 0
    comp = small_model.predict(X, k=k, threshold=threshold)
    assert isinstance(comp, scipy.sparse.csr_array)
    assert comp.shape == (80, 7)
    assert comp.has_canonical_format
    assert set(comp.data.tolist()) <= {1}
    np.testing.assert_array_equal(comp.toarray(), ref)
    for row in range(80):
        assert (np.diff(comp.indices[comp.indptr[row] : comp.indptr[row + 1]]) > 0).all()


def test_predict__threshold_chooses_some() -> None:
    X, Y = random_matrices(300, 23, 7)
    model = paper_labeler(3).fit(X, Y)
    counts = model.predict(X, threshold=0.15).sum(axis=1)
    assert 0 < counts.mean() < 7
    assert (model.predict(X, k=2, threshold=0.15).sum(axis=1) == np.minimum(counts, 2)).all()


@pytest.mark.parametrize("share", [0.02, 0.3, 0.75])
def test_predict__as_many_labels_as_documents_have_without_a_threshold(share: float) -> None:
    X, _ = random_matrices(70, 23, 7)
    Y = (np.random.default_rng(0).random((70, 8)) < share) * 1
    average = max(1, round(Y.sum() / 70))
    model = paper_labeler(3).fit(X, Y)
    assert model.threshold_ is None
    np.testing.assert_array_equal(model.predict(X).sum(axis=1), average * (X.sum(axis=1) > 0))


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_predict__k_is_a_number_of_labels(small_model: MomentLabeler, k: Any) -> None:
    X, _ = random_matrices(5, 23, 7)
    for call in (small_model.predict_topk, small_model.predict):
        with pytest.raises(InputError, match=f"k is a number of labels. Found {k}"):
            call(X, k=k)
