"""What the report says: of the documents it was judged on, of scores, and of whose errors were measured."""

from __future__ import annotations

import copy
import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.model.test_heads import labelled_by_words
from tests.report.conftest import Fitted
from threepass import MomentLabeler
from threepass.ingest.matrices import ingest_matrices
from threepass.model import evaluation
from threepass.parts.heads import Head
from threepass.report import facts
from threepass.report.measures import measure
from threepass.report.page import render

SEEN = "ignore:.*the model was trained on|.*are also among the training documents:UserWarning"


def lead(page: str) -> str:
    """The sentences below the headline."""
    found = re.search(r'<p class="lead">(.*?)</p>', page, re.DOTALL)
    assert found
    return " ".join(found[1].split())


def text_of(page: str) -> str:
    """Everything that a reader sees, titles of figures included."""
    body = re.sub(r"<(style|script)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", body).split()))


def test_headline__claims_unseen_documents_only_where_they_are(fitted: Fitted) -> None:
    page = render(fitted.model, fitted.test)
    assert f"Judged on {fitted.test.n_docs} documents that it had not seen." in lead(page)
    assert "remembers" not in page


@pytest.mark.filterwarnings(SEEN)
def test_headline__says_so_where_documents_were_seen(fitted: Fitted) -> None:
    model, test = fitted
    whole = type(test)(test.root, test.info)
    train, _ = whole.split(test=0.3)
    for corpus, said in (
        (train, f"Judged on the {train.n_docs:,} documents that it was trained on: "),
        (whole, f"Judged on {whole.n_docs:,} documents, about 70 % of which it was trained on: "),
    ):
        assert facts.judged(model.evaluate(corpus)).startswith(said)
    page = render(model, train.head(40))
    assert "Judged on 40 of the documents that it was trained on: " in lead(page)
    assert "not seen" not in page
    assert re.search(r"<strong>.*how well the model remembers them", page)
    older = copy.copy(model)
    older.training_documents_ = None
    said = "Judged on 40 documents; whether it had seen them cannot be told."
    assert facts.judged(older.evaluate(train.head(40))) == said


@pytest.mark.filterwarnings(SEEN)
@pytest.mark.parametrize(
    ("kind", "n", "is_calibrated"), [("posterior", 400, False), ("blend", 50, False), ("blend", 400, True)]
)
def test_scores__are_probabilities_only_where_they_were_calibrated(
    kind: Any, n: int, is_calibrated: bool, fitted: Fitted, tmp_path: Any
) -> None:
    from threepass import ingest_matrices

    X, Y = labelled_by_words(n + 200)
    model = MomentLabeler(3, head=kind).fit(X[:n], Y[:n])
    assert model.head_.is_calibrated == is_calibrated
    page = render(model, ingest_matrices(X[n:], Y[n:], tmp_path / "test.zarr"))
    text = text_of(page)
    assert ("robabilit" in text) == is_calibrated
    assert ("uncalibrated" in text) == (not is_calibrated)
    assert ("These were 5 folds of the training documents, 400 in all." in text) == is_calibrated
    scores = str(model.evaluate(X[n:], Y[n:]))
    assert ("robabilit" in scores) == is_calibrated
    assert ("uncalibrated" in scores) == (not is_calibrated)


def test_scores__say_on_what_they_were_calibrated(fitted: Fitted) -> None:
    model = copy.copy(fitted.model)
    n = model.fit_stats_["held_out_docs"]
    assert facts.calibrated_on(model) == f"These were {n} training documents."
    for stats in ({}, {"held_out_docs": "many", "chosen_on": 3}, {"held_out_docs": 0, "chosen_on": "x"}):
        model.fit_stats_ = stats
        assert facts.calibrated_on(model) == ""


@pytest.mark.parametrize("kind", ["posterior", "blend"])
def test_errors__belong_to_the_topics_before_refinement(kind: Any, fitted: Fitted) -> None:
    model = with_head(fitted.model, kind)
    assert np.isfinite(model.error_bars_.words).all()
    page = render(model)
    is_refined = kind == "blend"
    assert ("before refinement: error ±" in page) == is_refined
    assert ("those shown here were refined since" in page) == is_refined
    assert "error before refinement below 0.25" in page if is_refined else "error below 0.25" in page
    assert facts.about_guarantee(model) in text_of(page)


@pytest.mark.parametrize("kind", ["posterior", "refined", "ridge", "blend"])
def test_guarantee__is_not_of_what_scores_labels(kind: Any, fitted: Fitted) -> None:
    said = facts.about_guarantee(with_head(fitted.model, kind))
    assert said.startswith("The theorem and the error bars are about the topics as the paper's method found")
    assert ("nothing is promised" in said) == (kind != "posterior")
    assert ("after their refinement" in said) == (kind in ("refined", "blend"))


def with_head(model: MomentLabeler, kind: Any) -> MomentLabeler:
    """The same model, with a head that says it is of this kind."""
    changed = copy.copy(model)
    changed.head_ = replace(model.head_, kind=kind)
    return changed


def test_report__evaluates_once(fitted: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    plain = Head.see

    def spy(self: Head, X: Any) -> Any:
        looked_at.append(X.n_rows)
        return plain(self, X)

    monkeypatch.setattr(Head, "see", spy)
    measures = measure(fitted.model, fitted.test)
    explained = sum(2 + len(example.explanation.words) for example in measures.examples)
    assert sum(looked_at) == fitted.test.n_docs + explained


def test_sample__is_told(fitted: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "SCORES", 60 * 100)
    monkeypatch.setattr(evaluation, "FEWEST_SAMPLED", 1)
    page = render(fitted.model, fitted.test)
    n = fitted.model.evaluate(fitted.test)["n_sampled"]
    assert 60 < n < 140
    assert page.count(f"on a sample of {n} documents") == 3
    assert re.search(r"AUC per document, ± [\d.]+ %", page)


@pytest.mark.filterwarnings(SEEN)
def test_plurals__one_of_each(tmp_path: Path) -> None:
    corpus = ingest_matrices(np.ones((1, 3)), np.ones((1, 1)), tmp_path / "c.zarr")
    model = MomentLabeler(1, head="posterior").fit(corpus)
    page = render(model, corpus)
    said = text_of(page)
    assert said.startswith("threepass report: 1 topic, 1 label ")
    assert " 1 topic from 1 document " in said
    assert "to put 1 label on documents. Judged on the 1 document that it was trained on: " in said
    assert "Map of 1 topic" in page
    assert "Map of 1 topics" not in page
    assert "Documents of each of 1 label, " in page
    assert "All 1 label" not in said
