from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from benchmarks.baselines.documents import best_labels, evaluate, weighted_documents
from benchmarks.baselines.leml import Leml
from benchmarks.baselines.one_vs_all import OneVsAll
from benchmarks.baselines.recipes import Recipe
from benchmarks.baselines.selection import choose
from tests import naive_heads, naive_metrics
from tests.benchmarks.conftest import Dense, Rows, sparse_rows
from tests.conftest import random_matrices
from threepass import ingest_matrices
from threepass.errors import InputError


@pytest.fixture
def planted() -> Dense:
    """Labels that some words tell, others do not."""
    rng = np.random.default_rng(1)
    Y = (rng.random((200, 8)) < 0.2) * 1.0
    X = np.hstack([Y[:, :6] * (rng.random((200, 6)) < 0.7), rng.random((200, 9)) < 0.2]) * 0.5
    return X, Y


def naive_measures(scores: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    topk = np.argsort(-scores, axis=1, kind="stable")
    return naive_metrics.metrics(topk[:, :5], Y > 0, (1, 3, 5), auc=naive_metrics.document_auc(scores, Y > 0))


@pytest.mark.parametrize("slab_floats", [1, 20, 10_000])
def test_evaluate__equals_the_naive_metrics(dense: Dense, rows: Rows, slab_floats: int) -> None:
    model = Leml(3, 0.5).fit(*rows)
    found = evaluate(model, *rows, slab_floats=slab_floats)
    expected = naive_measures(model.scores(rows[0]), dense[1])
    assert found["auc"] == pytest.approx(expected["auc"])
    for k in (1, 3, 5):
        assert found[f"p@{k}"] == pytest.approx(expected[f"p@{k}"])
        assert found[f"ndcg@{k}"] == pytest.approx(expected[f"ndcg@{k}"])


def test_weighted_documents__have_the_columns_of_training(tmp_path: Path) -> None:
    corpora, matrices = [], []
    for name, seed in (("train", 0), ("test", 5)):
        X, Y = random_matrices(50, 23, 7, seed)
        corpora.append(
            ingest_matrices(
                scipy.sparse.csr_array(X), scipy.sparse.csr_array(Y), tmp_path / name, block_bytes=700
            )
        )
        matrices.append((X, Y))
    train, test = corpora
    assert (train.term_ids != test.term_ids).any()
    for corpus, (X, Y) in zip(corpora, matrices, strict=True):
        words, labels = weighted_documents(corpus, train)
        assert words.flaw() is labels.flaw() is None
        expected = naive_heads.weighted(X, naive_heads.idf(matrices[0][0]))[:, train.term_ids]
        np.testing.assert_allclose(words.to_scipy().toarray(), expected, atol=1e-6)
        np.testing.assert_array_equal(labels.to_scipy().toarray(), Y)


def test_weighted_documents__refuse_another_data_set(tmp_path: Path) -> None:
    small, large = (
        ingest_matrices(
            *(scipy.sparse.csr_array(side) for side in random_matrices(9, 5, n_labels)),
            tmp_path / f"{n_labels}",
        )
        for n_labels in (3, 4)
    )
    with pytest.raises(InputError, match="Found 5 and 4"):
        weighted_documents(large, small)


@pytest.mark.parametrize("n_parallel", [1, 3])
def test_choose__finds_what_separate_fits_find(planted: Dense, n_parallel: int) -> None:
    X, Y = planted
    lams, most = (0.01, 1.0, 30.0), 3
    aside = naive_heads.held_out(len(X), 0.1)
    assert 5 < aside.sum() < 40
    expected = {}
    for lam in lams:
        for n_outer in range(1, most + 1):
            model = Leml(2, lam, n_outer).fit(sparse_rows(X[~aside]), sparse_rows(Y[~aside]))
            measured = naive_measures(model.scores(sparse_rows(X[aside])), Y[aside])
            expected[lam, n_outer] = measured["auc"] + measured["p@1"]
    candidates = tuple({"lam": lam, "n_outer": most} for lam in lams)
    recipe = Recipe(partial(Leml, 2), candidates, "n_outer", n_parallel=n_parallel)
    found = choose(recipe, sparse_rows(X), sparse_rows(Y))
    best = max(expected, key=expected.__getitem__)
    assert best == (found.settings["lam"], found.settings["n_outer"])
    assert found.held_out["auc"] + found.held_out["p@1"] == pytest.approx(expected[best])
    assert [trial["lam"] for trial in found.trials] == list(lams)
    for trial in found.trials:
        best_of_lam = max(expected[trial["lam"], n] for n in range(1, most + 1))
        assert trial["auc"] + trial["p@1"] == pytest.approx(best_of_lam)
    assert found.seconds > 0
    assert found.n_docs == len(X)


def test_choose__looks_at_the_first_documents_of_many(planted: Dense) -> None:
    X, Y = planted
    recipe = Recipe(partial(Leml, 2), ({"lam": 1.0, "n_outer": 2},), "n_outer")
    of_few = choose(recipe, sparse_rows(X[:120]), sparse_rows(Y[:120]))
    found = choose(recipe, sparse_rows(X), sparse_rows(Y), most_docs=120)
    assert found.n_docs == 120
    assert found.held_out == of_few.held_out


def test_choose__without_iterations_passes_settings_on(planted: Dense) -> None:
    X, Y = map(sparse_rows, planted)
    found = choose(Recipe(OneVsAll, ({"C": 1e-4}, {"C": 1.0})), X, Y)
    assert found.settings == {"C": 1.0}


def test_choose__goes_by_precision_where_no_auc_is_defined(planted: Dense) -> None:
    X, Y = planted
    everything = np.ones((len(Y), 1))  # the one label is on each document
    recipe = Recipe(partial(Leml, 1), ({"lam": 1.0, "n_outer": 2},), "n_outer")
    found = choose(recipe, *map(sparse_rows, (X, everything)))
    assert found.held_out["p@1"] == 1
    assert found.settings["n_outer"] == 1  # of equals the first


def test_choose__refuses_documents_without_labels(planted: Dense) -> None:
    X, Y = planted
    with pytest.raises(InputError, match="with 0 labels in all"):
        choose(Recipe(OneVsAll, ({"C": 1.0},)), sparse_rows(X), sparse_rows(0 * Y))


@pytest.mark.parametrize("method", ["leml", "leml-logistic", "leml-hinge", "wsabie", "ova"])
def test_recipe__every_method_beats_the_most_frequent_label(planted: Dense, method: str) -> None:
    X, Y = map(sparse_rows, planted)
    recipe = Recipe.of(method, 6, len(planted[0]), 0, 2)
    model = recipe.make(**choose(recipe, X, Y).settings).fit(X, Y)
    assert evaluate(model, X, Y)["p@1"] > planted[1].mean(axis=0).max() + 0.2
    assert model.nbytes > 0
    labels, scores = best_labels(model, X, Y.n_columns, 3)
    assert evaluate(model, X, Y, (1,))["p@1"] == pytest.approx(
        planted[1][range(len(labels)), labels[:, 0]].mean()
    )
    assert (np.diff(scores, axis=1) <= 0).all()


def test_recipe__fewer_settings_where_documents_are_many() -> None:
    few, many = (Recipe.of("leml", 6, n_docs, 0, 2) for n_docs in (49_999, 50_000))
    assert few.most_iterations == {"n_outer": 10}
    assert many.most_iterations == {"n_outer": 5}
    assert len(many.candidates) < len(few.candidates)
    few, many = (Recipe.of("wsabie", 6, n_docs, 0, 2) for n_docs in (49_999, 50_000))
    assert few.most_iterations == {"n_epochs": 30}
    assert many.most_iterations == {"n_epochs": 10}
    assert len(many.candidates) < len(few.candidates)


def test_recipe__refuses_what_it_does_not_know() -> None:
    with pytest.raises(InputError, match="Found magic"):
        Recipe.of("magic", 2, 100, 0, 1)
