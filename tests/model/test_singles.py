"""One document goes straight through: no graph, one BLAS thread, and the same answer as among others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import scipy.sparse
import threadpoolctl

from tests.model.test_texts import write_posts
from threepass import Corpus, MomentLabeler, Tokenizer, ingest_text
from threepass.parts.blend import Blend, ScoringSizes


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, MomentLabeler, list[str]]:
    folder = tmp_path_factory.mktemp("singles")
    corpus = ingest_text(
        write_posts(folder / "posts.jsonl"), folder / "c.zarr", tokenizer=Tokenizer(pattern=r"\p{L}{2,}")
    )
    texts = ["ship and wave", "bread, soup: bread!", "", "nothing known", "été ship fish"]
    return corpus, MomentLabeler(n_components=3).fit(corpus), texts


@pytest.fixture
def two_blas_threads() -> Iterator[None]:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):  # the main thread is in control
        yield


def blas_threads() -> int:
    return max(info["num_threads"] for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas")


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("a graph is made")


def test_one_document__makes_no_graph(
    fitted: tuple[Corpus, MomentLabeler, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, model, texts = fitted
    monkeypatch.setattr(dask, "compute", refuse)
    for one in (texts[:1], texts[0], np.eye(1, corpus.n_terms), corpus.head(1)):
        model.predict_topk(one, 2)
        model.predict(one)
        model.predict_proba(one)
        model.transform(one)
        model.explain(one[0] if isinstance(one, list) else one, 0)


@pytest.mark.parametrize("prunes", [False, True])
def test_one_document__has_the_labels_it_has_among_others(
    fitted: tuple[Corpus, MomentLabeler, list[str]], prunes: bool
) -> None:
    _, estimator, texts = fitted
    blend = estimator.predictor_.blend
    sizes = ScoringSizes(fewest_labels=1 if prunes else 10**9, labels_per_rank=1)
    model = copy(estimator)
    model.predictor_ = replace(estimator.predictor_, blend=replace(blend, sizes=sizes))
    labels, scores = model.predict_topk(texts, 3)
    own = [model.predict_topk(text, 3) for text in texts]
    np.testing.assert_array_equal(np.concatenate([one for one, _ in own]), labels)
    np.testing.assert_allclose(np.concatenate([one for _, one in own]), scores, rtol=1e-5)
    chosen = scipy.sparse.vstack([model.predict(text) for text in texts])
    np.testing.assert_array_equal(chosen.toarray(), model.predict(texts).toarray())


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("n_clients", [1, 4])
def test_clients__on_one_blas_thread_each_whoever_is_in_control(
    fitted: tuple[Corpus, MomentLabeler, list[str]], monkeypatch: pytest.MonkeyPatch, n_clients: int
) -> None:
    _, model, texts = fitted
    ref, found, original = [model.predict_topk(text, 3) for text in texts], [], Blend.scores

    def scores(self: Blend, *arguments: Any) -> Any:
        found.append(blas_threads())
        return original(self, *arguments)

    monkeypatch.setattr(Blend, "scores", scores)
    with ThreadPoolExecutor(n_clients) as clients:
        for (labels, own), (ref_labels, ref_own) in zip(
            clients.map(lambda text: model.predict_topk(text, 3), texts), ref, strict=True
        ):
            np.testing.assert_array_equal(labels, ref_labels)
            np.testing.assert_array_equal(own, ref_own)
        clients.submit(model.explain, texts[0], 0).result()
    assert set(found) == {1}
    assert blas_threads() == 2


@pytest.mark.usefixtures("two_blas_threads")
def test_fit__on_one_blas_thread_and_the_same_with_two(
    fitted: tuple[Corpus, MomentLabeler, list[str]], tmp_path: Path
) -> None:
    corpus, model, _ = fitted
    found = []
    with ThreadPoolExecutor(1) as other:
        again = MomentLabeler(n_components=3)
        other.submit(again.fit, corpus, progress=lambda *_: found.append(blas_threads())).result()
    assert set(found) == {1}
    assert blas_threads() == 2
    np.testing.assert_array_equal(again.word_topics_, model.word_topics_)
