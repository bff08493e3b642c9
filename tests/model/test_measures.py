from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests import naive_metrics
from tests.conftest import random_matrices
from tests.model.kinds import (
    KINDS,
    paper_labeler,
    single_numbers,
)
from threepass import Corpus, InputError, MomentLabeler, ingest_matrices


def test_evaluate__equals_naive_metrics(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(120, 23, 7, seed=4)
    Y[5] = 1  # no AUC
    scores = small_model.predict_proba(X)
    inverse = 1 / naive_metrics.propensities(small_model.label_counts_, 300, 0.4, 2.0)
    areas = [roc_auc_score(y, s) if 0 < y.sum() < 7 else np.nan for y, s in zip(Y, scores, strict=True)]
    best, _ = small_model.predict_topk(X, k=7)
    ref = naive_metrics.metrics(best, Y > 0, (1, 2, 6), inverse, areas)
    comp = small_model.evaluate(X, Y, ks=(1, 2, 6), propensity=(0.4, 2.0))
    others = {"brier", "reliability", "calibrated", "documents_are", "familiar"}
    assert comp.keys() == ref.keys() | others
    assert comp["brier"] == pytest.approx(((scores - (Y > 0)) ** 2).mean(), rel=1e-5)
    for name, value in ref.items():
        assert comp[name] == pytest.approx(value, rel=1e-6), name
    assert comp["n_auc_skipped"] == 1 + np.count_nonzero(~Y.any(axis=1))


def test_evaluate__propensity_changes_its_metrics_only(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(120, 23, 7, seed=4)
    one, other = (small_model.evaluate(X, Y, propensity=p) for p in ((0.55, 1.5), (0.9, 0.1)))
    assert one["psp@1"] != other["psp@1"]
    assert {n: v for n, v in one.items() if "ps" not in n} == {
        n: v for n, v in other.items() if "ps" not in n
    }


def test_evaluate__without_auc(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(120, 23, 7, seed=4)
    metrics = small_model.evaluate(X, Y, ks=(2,), auc=False)
    assert not {"auc", "n_auc_skipped"} & metrics.keys()
    assert {name for name in metrics if "@" in name} == {"p@2", "ndcg@2", "recall@2", "psp@2", "psndcg@2"}
    full = small_model.evaluate(X, Y, ks=(2,))
    assert {name: full[name] for name in metrics} == metrics


def test_score__is_precision_at_one(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(120, 23, 7, seed=4)
    first = small_model.predict_topk(X, k=1)[0][:, 0]
    assert small_model.score(X, Y) == pytest.approx(Y[np.arange(120), first].mean())
    assert small_model.score(X, Y) == small_model.evaluate(X, Y)["p@1"]


def test_evaluate__learned_labels_beat_chance(planted: Corpus) -> None:
    train, test = planted.split(test=0.25)
    metrics = paper_labeler(4, words="counts", self_pairs="drop").fit(train).evaluate(test)
    assert metrics["n_docs"] == test.n_docs
    assert metrics["auc"] > 0.7
    assert metrics["p@1"] > 0.15  # 0.05 by chance


@pytest.mark.parametrize("kind", ["dense", "pydata gcxs", "dask"])
def test_evaluate__wrong_labels_are_refused(kind: str, small_model: MomentLabeler) -> None:
    X, Y = random_matrices(60, 23, 7)
    make = KINDS[kind]
    with pytest.raises(InputError, match=r"Found 14 columns.*the model has 7"):
        small_model.evaluate(make(X), make(np.hstack([Y, Y])))
    with pytest.raises(InputError, match=r"as many rows"):
        small_model.evaluate(make(X), make(Y[:50]))
    with pytest.raises(InputError, match=r"needs the true labels.*Pass Y"):
        small_model.evaluate(make(X))


@pytest.mark.parametrize(("x_kind", "y_kind"), [("dask", "pydata gcxs"), ("dask", "csc"), ("csr", "dask")])
def test_evaluate__kinds_can_be_mixed(x_kind: str, y_kind: str, small_model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7, seed=2)
    mixed = single_numbers(small_model.evaluate(KINDS[x_kind](X), KINDS[y_kind](Y)))
    assert mixed == pytest.approx(single_numbers(small_model.evaluate(X, Y)))


def test_evaluate__a_corpus_of_other_labels_is_refused(tmp_path: Path, small_model: MomentLabeler) -> None:
    corpus = ingest_matrices(random_matrices(60, 23, 7)[0], None, tmp_path / "no.zarr")
    with pytest.raises(InputError, match="Found 0 columns, the model has 7"):
        small_model.evaluate(corpus)


@pytest.mark.parametrize("ks", [(), (0,), (3, -1)])
def test_evaluate__bad_depths_are_refused(small_model: MomentLabeler, ks: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="ks"):
        small_model.evaluate(*random_matrices(60, 23, 7), ks=ks)
