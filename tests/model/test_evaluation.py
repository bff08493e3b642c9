"""What an evaluation says of the documents it was given, and what it measures on a sample of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse

from tests.command import threepass
from threepass import Corpus, MomentLabeler, Planted, Predictor, ingest_matrices, ingest_planted
from threepass.corpus.split import in_test
from threepass.ingest.synthetic import Lengths
from threepass.metrics.measures import Spread, document_auc
from threepass.metrics.scores import Scores, percent
from threepass.model import evaluation
from threepass.model.inputs import BatchSizes, as_labels

SEEN = "the model was trained on|are also among the training documents"


class Fitted(NamedTuple):
    model: MomentLabeler
    whole: Corpus
    train: Corpus
    test: Corpus


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """All documents have words of their own, but for two without any; and one is in both halves."""
    folder = tmp_path_factory.mktemp("evaluation")
    planted = ingest_planted(
        Planted(600, 200, 12, 4, words=Lengths(20, 18), labels=Lengths(2, 1)), folder / "planted.zarr"
    )
    X, Y = (side.toarray() for side in planted.to_scipy())
    X[[3, 4]] = 0
    rows = in_test(np.arange(600), 0.3, 0)
    for side in (X, Y):
        side[np.flatnonzero(rows)[0]] = side[np.flatnonzero(~rows)[0]]
    whole = ingest_matrices(X, Y, folder / "whole.zarr", block_bytes=20_000)
    train, test = whole.split(test=0.3)
    return Fitted(MomentLabeler(4, n_jobs=2).fit(train), whole, train, test)


def matrices(corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """With words in the order of the source."""
    X, Y = (side.toarray() for side in corpus.to_scipy())
    return X[:, np.argsort(corpus.term_ids)], Y


def judged(model: MomentLabeler | Predictor, *documents: Any, **settings: Any) -> Scores:
    """An evaluation on documents that were seen, which warns of them once."""
    with pytest.warns(UserWarning, match=SEEN) as warned:
        scores = model.evaluate(*documents, **settings)
    assert [str(warning.message) for warning in warned] == [scores.caution]
    return scores


# -- which documents these are -----------------------------------------------------------------------------


def test_documents__of_the_same_store_are_known_exactly(fitted: Fitted, tmp_path: Path) -> None:
    model, whole, train, test = fitted
    model.save(tmp_path / "m.zarr")
    for one in (model, MomentLabeler.load(tmp_path / "m.zarr")):
        assert judged(one, train)["documents_are"] == "training"
        assert judged(one, train.head(5))["documents_are"] == "part of training"
        found = judged(one, whole)
        assert (found["documents_are"], found["familiar"]) == ("overlapping", train.n_docs / whole.n_docs)
        found = one.evaluate(test)  # which would be an error if it warned
        assert found["documents_are"] == "unseen"
        assert 0 < found["familiar"] <= 1 / (test.n_docs - 2)
        assert "has not seen these documents; " in str(found)
        assert one.evaluate(test.head(0))["documents_are"] == "unknown"


def test_documents__of_a_model_of_the_whole_store(fitted: Fitted) -> None:
    model = MomentLabeler(3, head="posterior").fit(fitted.whole)
    assert judged(model, fitted.whole)["documents_are"] == "training"
    assert judged(model, fitted.test)["documents_are"] == "part of training"


def test_documents__from_elsewhere_are_known_by_their_words(fitted: Fitted, tmp_path: Path) -> None:
    model, _, train, test = fitted
    X, Y = matrices(train)
    again = ingest_matrices(X, Y, tmp_path / "again.zarr", block_bytes=7_000)
    assert again.info.fingerprint != train.info.fingerprint
    assert judged(model, again)["documents_are"] == "training"
    assert judged(model, scipy.sparse.csr_array(X), Y, auc=False)["documents_are"] == "training"
    assert judged(model, X[::-1][:100], Y[::-1][:100])["documents_are"] == "part of training"
    others = matrices(test)
    half = np.vstack([X[-50:], others[0][-50:]]), np.vstack([Y[-50:], others[1][-50:]])
    found = judged(model, *half)
    assert (found["documents_are"], found["familiar"]) == ("overlapping", 0.5)
    assert "About 50 % of these documents are also among" in str(found)
    assert "About 50 %" in found._repr_html_()
    unseen = model.evaluate(*others)
    assert unseen["documents_are"] == "unseen"
    assert 0 < unseen["familiar"] < 0.02
    assert model.evaluate(others[0][1:], others[1][1:])["familiar"] == 0
    relabelled = model.evaluate(X, 1 - Y)  # the same words, as short documents have them
    assert (relabelled["documents_are"], relabelled["familiar"]) == ("unseen", 0)
    assert model.evaluate(0 * X[:9], Y[:9])["documents_are"] == "unknown"  # no words to know them by


def test_documents__are_known_by_a_sample_of_many(fitted: Fitted) -> None:
    X, Y = matrices(fitted.train)
    predictor = MomentLabeler(3, head="posterior").fit(X, Y).predictor_
    known = predictor.training_documents
    assert known is not None
    assert len(known.hashes) > 300
    assert not known.is_sampled
    known = replace(known, hashes=known.hashes[:100], most=100)  # those that a fit of so many would keep
    assert known.is_sampled
    model = replace(predictor, training_documents=known)
    assert judged(model, X, Y)["documents_are"] == "training"
    mixed = np.vstack([X, matrices(fitted.test)[0]]), np.vstack([Y, matrices(fitted.test)[1]])
    found = judged(model, *mixed)
    assert found["documents_are"] == "overlapping"
    assert found["familiar"] == pytest.approx(len(X) / len(mixed[0]), abs=0.12)
    assert model.evaluate(X[:10], Y[:10])["documents_are"] == "unknown"  # too few to be in the sample


def test_documents__are_not_known_to_models_that_remember_none(fitted: Fitted, tmp_path: Path) -> None:
    model = MomentLabeler(3, head="posterior").fit(fitted.train)
    model.predictor_.training_documents = None
    model.save(tmp_path / "m.zarr")
    found = MomentLabeler.load(tmp_path / "m.zarr").evaluate(fitted.train)
    assert (found["documents_are"], found["familiar"]) == ("unknown", None)
    assert "Whether the model has seen these documents cannot be told." in str(found)


def test_score__does_not_warn(fitted: Fitted) -> None:
    assert fitted.model.score(fitted.train) == judged(fitted.model, fitted.train)["p@1"]


def test_percent__is_never_all_or_nothing_when_it_is_not() -> None:
    shares = [0, 0.001, 0.12, 0.995, 1]
    assert list(map(percent, shares)) == ["0 %", "less than 1 %", "12 %", "more than 99 %", "100 %"]


def test_command__says_what_the_documents_are(fitted: Fitted, tmp_path: Path) -> None:
    model = tmp_path / "m.zarr"
    fitted.model.save(model)
    X, Y = matrices(fitted.train)
    ingest_matrices(X, Y, tmp_path / "again.zarr")
    run = threepass(
        "evaluate", model, tmp_path / "again.zarr", "--exact", "-q", "--json", tmp_path / "s.json"
    )
    assert run.returncode == 0
    assert "threepass: warning: These are the documents that the model was trained on" in run.stderr
    assert "These are the documents that the model was trained on" in run.stdout
    assert json.loads((tmp_path / "s.json").read_text())["documents_are"] == "training"


# -- on a sample ---------------------------------------------------------------------------------------------


SAMPLE = BatchSizes(scores=12 * 60, fewest_sampled=1)
"""By which about 60 documents of the 12 labels have every label scored."""


def sized(model: MomentLabeler, sizes: BatchSizes) -> Predictor:
    return replace(model.predictor_, sizes=sizes)


def test_sample__the_mean_of_some_documents_and_its_error(fitted: Fitted) -> None:
    model, test = sized(fitted.model, SAMPLE), fitted.test
    n = test.n_docs
    rows = in_test(np.arange(n), 60 / n, evaluation._SAMPLE_SEED)
    X, Y = matrices(test)
    probabilities = model.predict_proba(X)
    areas = document_auc(probabilities, as_labels(Y))
    briers = ((probabilities - Y) ** 2).mean(axis=1)
    m = rows.sum()
    found, every = model.evaluate(test), model.evaluate(test, auc="all")
    assert 40 < found["n_sampled"] == m < 80
    for name, values in (("auc", areas), ("brier", briers)):
        assert found[name] == pytest.approx(np.nanmean(values[rows]), rel=1e-5)
        defined = values[rows][~np.isnan(values[rows])]
        error = defined.std(ddof=1) / np.sqrt(len(defined)) * np.sqrt(1 - len(defined) / n)
        assert found[f"{name}_se"] == pytest.approx(error, rel=1e-4)
        assert every[name] == pytest.approx(np.nanmean(values), rel=1e-5)
        assert abs(found[name] - every[name]) < 4 * found[f"{name}_se"]
        assert f"{name} {found[name]:.4f} ± {error:.1g}, on a sample of {m} documents" in str(found)
    assert {name: value for name, value in found.items() if "@" in name} == {
        name: value for name, value in every.items() if "@" in name
    }
    assert not {"n_sampled", "auc_se", "brier_se"} & every.keys()
    assert sum(row["pairs"] for row in found["reliability"]) == 12 * m
    assert f"on a sample of {m} documents" in found._repr_html_()
    assert json.loads(json.dumps(found))["auc_se"] == found["auc_se"]


def test_sample__no_other_document_has_every_label_scored(
    fitted: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored: list[int] = []
    plain = evaluation.all_scores

    def spy(blend: Any, seen: Any) -> Any:
        scored.append(seen.n_docs)
        return plain(blend, seen)

    monkeypatch.setattr(evaluation, "all_scores", spy)
    model = sized(fitted.model, SAMPLE)
    for auc, n in (
        (True, model.evaluate(fitted.test)["n_sampled"]),
        (False, 0),
        ("all", fitted.test.n_docs),
    ):
        scored.clear()
        model.evaluate(fitted.test, auc=auc)
        assert sum(scored) == n


def test_sample__does_not_depend_on_blocks(fitted: Fitted) -> None:
    X, Y = matrices(fitted.test)
    model = sized(fitted.model, SAMPLE)
    blocks, one = model.evaluate(fitted.test), model.evaluate(X, Y)
    parts = sized(fitted.model, replace(SAMPLE, task_docs=7)).evaluate(X, Y)
    assert blocks["n_sampled"] == one["n_sampled"] == parts["n_sampled"]
    for name in ("auc", "auc_se", "brier", "brier_se", "p@1"):
        assert blocks[name] == pytest.approx(one[name], rel=1e-6)
        assert parts[name] == pytest.approx(one[name], rel=1e-6)


@pytest.mark.parametrize(
    ("auc", "n_docs", "n_labels", "share"),
    [
        (True, 7395, 159, 1.0),
        (True, 226_000, 22_000, 4545 / 226_000),
        (True, 10**6, 670_000, 1000 / 10**6),
        (True, 0, 5, 1.0),
        (True, float("nan"), 5, 1.0),
        ("all", 226_000, 22_000, 1.0),
        (False, 226_000, 22_000, 0.0),
    ],
)
def test_sample_share__by_size(auc: Any, n_docs: float, n_labels: int, share: float) -> None:
    assert evaluation.sample_share(auc, n_docs, n_labels) == share


def test_spread__of_one_document_says_nothing() -> None:
    assert np.isnan(Spread.of(np.array([0.5, np.nan])).standard_error(10))
    values = np.array([0.1, 0.5, 0.9])
    assert Spread.of(values).standard_error(3) == 0  # all there are
    assert Spread.of(values).standard_error(10**9) == pytest.approx(values.std(ddof=1) / 3**0.5)


def test_progress__tells_parts_of_a_block(fitted: Fitted) -> None:
    told: list[tuple[str, float, float]] = []
    X, Y = matrices(fitted.test)
    model = sized(fitted.model, BatchSizes(task_docs=50))
    model.evaluate(X, Y, progress=lambda *step: told.append(step))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[0] == ("evaluate", 0, len(X))
    assert told[-1] == ("evaluate", len(X), len(X))
    assert len(told) == 1 + -(-len(X) // 50)


def test_by_label__counts_the_best_of_the_largest_depth(fitted: Fitted) -> None:
    counts = fitted.model.evaluate(fitted.test, ks=(1, 3), auc=False).by_label
    assert counts is not None
    _, Y = matrices(fitted.test)
    best, _ = fitted.model.predict_topk(fitted.test, 3)
    predicted = np.zeros(Y.shape)
    np.put_along_axis(predicted, best, 1, axis=1)
    np.testing.assert_array_equal(counts.true, Y.sum(axis=0))
    np.testing.assert_array_equal(counts.found, (Y * predicted).sum(axis=0))
    np.testing.assert_array_equal(counts.predicted, predicted.sum(axis=0))
