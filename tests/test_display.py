"""What objects show of themselves, in a terminal and in a notebook."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from threepass import Corpus, MomentLabeler, ingest_matrices
from threepass.display import html_table
from threepass.metrics.scores import Scores


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    rng = np.random.default_rng(0)
    X = scipy.sparse.csr_array(rng.random((200, 12)) < 0.4).astype(np.int64)
    Y = scipy.sparse.csr_array(rng.random((200, 3)) < 0.4).astype(np.int64)
    return ingest_matrices(X, Y, tmp_path_factory.mktemp("display") / "corpus.zarr")


def test_html_table__escapes_every_cell() -> None:
    html = html_table("<t>", [("<a>", 1)], ["<h>"])
    assert "<t>" not in html
    assert "<a>" not in html
    assert "<h>" not in html
    assert html.count("&lt;") == 3


def test_corpus__tells_its_sizes(corpus: Corpus) -> None:
    assert "200</td>" in corpus._repr_html_()
    assert "50 of 200</td>" in corpus.head(50)._repr_html_()
    assert corpus.fingerprint in corpus._repr_html_()


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
def test_scores__are_a_dictionary_that_prints_tables(corpus: Corpus, tmp_path: Path) -> None:
    scores = MomentLabeler(2).fit(corpus).evaluate(corpus)
    assert isinstance(scores, Scores)
    assert json.loads(json.dumps(scores))["p@1"] == scores["p@1"]
    assert f"p@1 {scores['p@1']:.4f}" in str(scores)
    assert "200 documents, " in repr(scores)
    for row in scores["reliability"]:
        assert f"{row['pairs']:,}" in str(scores)
        assert f"{row['observed']:.4f}" in scores._repr_html_()
    few = MomentLabeler(2).fit(corpus).evaluate(corpus, auc=False)
    assert "probability" not in str(few)
    assert "Reliability" not in few._repr_html_()


def test_labeler__shows_parameters_and_once_fitted_what_it_learned(corpus: Corpus) -> None:
    model = MomentLabeler(n_components=2)
    assert "n_components" in model._repr_html_()
    assert "training documents" not in model._repr_html_()
    model.fit(corpus)
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model)
    for text in (bundle["text/html"], model._repr_html_()):
        assert "training documents" in text
        assert model.scores_mean_ in text


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
def test_evaluate__tells_how_far_it_is(corpus: Corpus) -> None:
    model, told = MomentLabeler(2).fit(corpus), []
    X, Y = corpus.to_scipy()
    for source in ((corpus,), (corpus.head(0),), (X, Y)):
        told.clear()
        model.evaluate(*source, progress=lambda *step: told.append(step))
        assert told[-1] == ("evaluate", source[0].shape[0], source[0].shape[0])
