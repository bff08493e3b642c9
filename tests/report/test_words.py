"""What the report says: of the documents it was judged on, of scores, and of whose errors were measured."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.parts.learned import labelled_by_words
from tests.report.conftest import Fitted
from threepass import MomentLabeler
from threepass.ingest.matrices import ingest_matrices
from threepass.model.inputs import BatchSizes
from threepass.parts.blend import Blend
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
    older = replace(model, training_documents=None)
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
    model = MomentLabeler(3, head=kind).fit(X[:n], Y[:n]).predictor_
    assert model.blend.is_calibrated == is_calibrated
    page = render(model, ingest_matrices(X[n:], Y[n:], tmp_path / "test.zarr"))
    text = text_of(page)
    assert ("robabilit" in text) == is_calibrated
    assert ("uncalibrated" in text) == (not is_calibrated)
    assert ("These were 5 folds of the training documents, 400 in all." in text) == is_calibrated
    scores = str(model.evaluate(X[n:], Y[n:]))
    assert ("robabilit" in scores) == is_calibrated
    assert ("uncalibrated" in scores) == (not is_calibrated)


def test_scores__say_on_what_they_were_calibrated(fitted: Fitted) -> None:
    model = fitted.model
    n = model.fit_stats["held_out_docs"]
    assert facts.calibrated_on(model) == f"These were {n} training documents."
    for stats in ({}, {"held_out_docs": "many", "chosen_on": 3}, {"held_out_docs": 0, "chosen_on": "x"}):
        assert facts.calibrated_on(replace(model, fit_stats=stats)) == ""


@pytest.mark.parametrize("head", ["posterior", "refined", "blend"])
def test_errors__stand_beside_the_topics_they_measure(head: Any) -> None:
    model = MomentLabeler(3, head=head).fit(*labelled_by_words(400)).predictor_
    page = render(model)
    for topic in model.topics():
        assert topic.weight == model.moments.pi[topic.number]
        error = f"error ± {topic.word_error:.2f} in words, ± {topic.label_error:.2f} in labels"
        assert error in page
    assert "before refinement" not in page
    assert facts.about_guarantee(model) in text_of(page)


@pytest.mark.parametrize("head", ["posterior", "refined", "ridge", "blend"])
def test_guarantee__is_not_of_what_scores_labels(head: Any) -> None:
    model = MomentLabeler(3, head=head).fit(*labelled_by_words(400)).predictor_
    said = facts.about_guarantee(model)
    assert said.startswith("The theorem and the error bars are about the topics as the paper's method found")
    assert ("nothing is promised" in said) == (head != "posterior")
    for part in model.blend.parts:
        assert part.described in said


def test_report__evaluates_once(fitted: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    plain = Blend.see

    def spy(self: Blend, X: Any) -> Any:
        looked_at.append(X.n_rows)
        return plain(self, X)

    monkeypatch.setattr(Blend, "see", spy)
    measures = measure(fitted.model, fitted.test)
    explained = sum(2 + len(example.explanation.words) for example in measures.examples)
    assert sum(looked_at) == fitted.test.n_docs + explained


def test_sample__is_told(fitted: Fitted) -> None:
    model = replace(fitted.model, sizes=BatchSizes(scores=60 * 100, fewest_sampled=1))
    page = render(model, fitted.test)
    n = model.evaluate(fitted.test)["n_sampled"]
    assert 60 < n < 140
    assert page.count(f"on a sample of {n} documents") == 3
    assert re.search(r"AUC per document, ± [\d.]+ %", page)


@pytest.mark.filterwarnings(SEEN)
def test_plurals__one_of_each(tmp_path: Path) -> None:
    corpus = ingest_matrices(np.ones((1, 3)), np.ones((1, 1)), tmp_path / "c.zarr")
    model = MomentLabeler(1, head="posterior").fit(corpus).predictor_
    page = render(model, corpus)
    said = text_of(page)
    assert said.startswith("threepass report: 1 topic, 1 label ")
    assert " 1 topic from 1 document " in said
    assert "to put 1 label on documents. Judged on the 1 document that it was trained on: " in said
    assert "Map of 1 topic" in page
    assert "Map of 1 topics" not in page
    assert "Documents of each of 1 label, " in page
    assert "All 1 label" not in said


def test_sizes__of_the_model_and_its_parts(fitted: Fitted) -> None:
    page, model = text_of(render(fitted.model, fitted.test)), fitted.model
    for part in model.blend.parts:
        assert f"{part.name} {part.nbytes / 1e6:,.1f} MB" in page
    assert f"model {model.fit_stats['model_bytes'] / 1e6:,.1f} MB" in page
    assert facts.size_facts(replace(model, fit_stats={"part_bytes": {"ridge": "<b>"}})) == []
