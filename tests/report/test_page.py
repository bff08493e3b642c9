"""The page: complete, harmless whatever names there are, the same every time, and never too large."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from tests.command import check_one_line_error, threepass
from tests.report.conftest import EVIL, Fitted
from threepass import Corpus, MomentLabeler, Predictor, StoreError, ingest_matrices, write_report
from threepass.model.files import save_predictor
from threepass.report.facts import embedded, fit_command, fit_python, stages
from threepass.report.measures import measure
from threepass.report.page import render

VOID = {"meta", "link", "input", "img", "br"}


class Outline(HTMLParser):
    """The elements of a page; complains when they do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def ids(outline: Outline) -> list[str]:
    return [str(attrs["id"]) for _, attrs in outline.elements if "id" in attrs]


def test_page__has_all_parts_and_nests(page: Path) -> None:
    outline = Outline(page.read_text())
    parts = {
        "accuracy",
        "examples",
        "topics",
        "labels",
        "corpus",
        "spectrum",
        "guarantee",
        "cost",
        "reproduce",
    }
    assert parts <= set(ids(outline))
    assert len(ids(outline)) == len(set(ids(outline)))
    tags = [tag for tag, _ in outline.elements]
    assert tags.count("svg") == 6
    assert tags.count("h1") == tags.count("main") == tags.count("nav") == 1
    links = [str(attrs["href"]) for tag, attrs in outline.elements if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= set(ids(outline))
    text = page.read_text()
    assert "K = 15" in text
    for stage in ("pairs", "triples", "labels", "head"):
        assert f'<th scope="row" class="left">{stage}</th>' in text


def test_page__names_are_harmless(page: Path) -> None:
    text = page.read_text()
    outline = Outline(text)
    assert len(outline.scripts) == 2
    data, script = outline.scripts
    assert EVIL in {row[0] for row in json.loads(data)["rows"]}
    assert script == files("threepass.report").joinpath("script.js").read_text()
    assert "img" not in {tag for tag, _ in outline.elements}
    assert not any(name.startswith("on") for _, attrs in outline.elements for name in attrs)
    assert EVIL not in text
    assert "{{ 7 * 7 }}" in text
    assert "x" * 100 not in text


def test_page__loads_nothing(page: Path) -> None:
    for tag, attrs in Outline(page.read_text()).elements:
        for name in ("src", "href", "action", "srcset", "data"):
            assert str(attrs.get(name) or "#").startswith(("#", "data:,")), (tag, attrs)
    assert "url(" not in page.read_text()
    assert "@import" not in page.read_text()


def test_page__is_the_same_every_time(fitted: Fitted, tmp_path: Path) -> None:
    first = render(fitted.model, fitted.test)
    assert render(fitted.model, fitted.test) == first
    save_predictor(fitted.model, tmp_path / "m.zarr", False)
    assert render(Predictor.load(tmp_path / "m.zarr"), fitted.test) == first


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
def test_page__many_labels_stay_below_3_mb(tmp_path: Path) -> None:
    n, L = 3000, 325_000
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((n, 200), density=0.1, rng=rng)
    Y = scipy.sparse.coo_array((np.ones(2 * n), (np.arange(2 * n) // 2, rng.integers(L, size=2 * n))), (n, L))
    names = [f"<label & {i} of {'very ' * 20}many>" for i in range(L)]
    corpus = ingest_matrices(X, Y, tmp_path / "c.zarr", label_names=names)
    model = MomentLabeler(20, head="posterior", prior="uniform", error_bars=False).fit(corpus)
    write_report(model, tmp_path / "r.html", corpus.head(50))
    assert (tmp_path / "r.html").stat().st_size < 3_000_000
    text = (tmp_path / "r.html").read_text()
    shown = int(re.search(r"The ([\d,]+) most frequent of 325,000 labels", text)[1].replace(",", ""))  # type: ignore[index]
    assert 2000 < shown < L
    assert len(json.loads(Outline(text).scripts[0])["rows"]) == shown


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
@pytest.mark.parametrize("head", ["posterior", "refined", "ridge"])
@pytest.mark.parametrize("n_components", [1, 2])
def test_page__of_any_head_and_few_topics(head: Any, n_components: int, fitted: Fitted) -> None:
    X, Y = Corpus(fitted.test.root, fitted.test.info).to_scipy()
    model = MomentLabeler(n_components, head=head, prior="uniform", error_bars=False).fit(X, Y).predictor_
    text = render(model)
    assert Outline(text)
    assert ("on training documents that it had set aside" in text) == (head != "posterior")
    assert ("Nothing was measured" in text) == (head == "posterior")
    assert "no error bar was measured" in text
    assert "threepass fit" not in text  # there is no option for the prior
    assert Outline(render(model, fitted.test.head(3)))


def test_page__of_strange_statistics(fitted: Fitted) -> None:
    """Models of an earlier version lack some of them, and those of strangers may have anything."""
    strange: list[dict[str, Any]] = [
        {},
        {"plan": 3, "seconds": [1], "peak_bytes": "much", "further_eigenvalues": {"a": 1}, "corpus": []},
        {
            "plan": {"stages": [None, {"stage": [EVIL], "bytes": True}]},
            "seconds": {EVIL: 1.0, "pairs": float("nan"), "labels": None},
            "peak_bytes": {"pairs": -1},
            "further_eigenvalues": [1e-9, "x", -1, None, 2.0],
            "corpus": {"kind": EVIL, "fingerprint": 7},
            "held_out": {"auc": EVIL},
            "tensor_converged": False,
        },
    ]
    for stats in strange:
        text = render(replace(fitted.model, fit_stats=stats))
        assert Outline(text)
        assert EVIL not in text
    assert "had not converged" in text
    assert "This model does not say" not in text


def test_measures__against_one_document_at_a_time(fitted: Fitted) -> None:
    model, test = fitted
    measures = measure(model, test)
    L = len(model.label_names)
    occurrences, found, predicted = np.zeros(L, int), np.zeros(L, int), np.zeros(L, int)
    _, Y = test.to_scipy()
    best, _ = model.predict_topk(test, 5)
    for row, top in zip(Y.toarray(), best.tolist(), strict=True):
        for label in np.flatnonzero(row).tolist():
            occurrences[label] += 1
            found[label] += label in top
        for label in top:
            predicted[label] += 1
    np.testing.assert_array_equal(measures.labels.true, occurrences)
    np.testing.assert_array_equal(measures.labels.found, found)
    assert sum(band.labels for band in measures.bands) <= L
    assert sum(band.found for band in measures.bands) == found.sum()
    assert sum(band.predicted for band in measures.bands) == predicted.sum()
    few = next(band for band in measures.bands if band.name == "30–99")
    inside = (model.label_counts >= 30) & (model.label_counts <= 99)
    assert few.recall == found[inside].sum() / occurrences[inside].sum()
    assert measures.scores["p@1"] == model.evaluate(test)["p@1"]


def test_examples__are_what_the_model_says(fitted: Fitted) -> None:
    model, test = fitted
    texts = {int(number): f"Before word{number % 9}.\nAfter." for number in test.doc_ids}
    plain, running = measure(model, test).examples, measure(model, test, texts).examples
    assert len(plain) == len(running) == 6
    X, Y = test.to_scipy()
    for example, same in zip(plain, running, strict=True):
        row = int(np.searchsorted(test.doc_ids, example.number))
        true = {model.label_names[i] for i in Y[[row]].indices.tolist()}
        assert {guess.label for guess in example.guesses if guess.right} | set(example.missed) == true
        words = {test.terms[i] for i in X[[row]].indices.tolist()}
        assert {piece.text for piece in example.pieces} == words
        assert not example.is_text
        assert same.is_text
        assert "".join(piece.text for piece in same.pieces) == texts[example.number].replace("\n", " ")
        strongest = max(example.pieces, key=lambda piece: abs(float(piece.said)))
        assert strongest.text == example.explanation.words[0][0]


def test_embedded__cannot_leave_its_script() -> None:
    value = ["</script>", "<!--", "&lt;", "\u2028", "漢"]
    assert not set("<>&\u2028") & set(embedded(value))
    assert json.loads(embedded(value)) == value


def test_reproduce__says_how_the_model_was_made() -> None:
    def made(**parameters: Any) -> Any:
        return SimpleNamespace(parameters=MomentLabeler(**parameters).get_params())

    assert fit_command(made()) == "threepass fit train.zarr model.zarr -k 100"
    model = made(n_components=7, head="refined", random_state=3, memory_limit="4 GB", n_jobs=2)
    assert fit_command(model) == (
        "threepass fit train.zarr model.zarr -k 7 --head refined --memory-limit '4 GB' --seed 3"
    )
    call = fit_python(model)
    assert call == (
        "MomentLabeler(n_components=7, head='refined', memory_limit='4 GB', random_state=3)"
        '.fit(Corpus.open("train.zarr"))'
    )
    assert fit_command(made(smoothing=0.2)) is None


def test_write__refuses_to_replace(fitted: Fitted, tmp_path: Path) -> None:
    (tmp_path / "r.html").write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        write_report(fitted.model, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == "mine"
    write_report(fitted.model, tmp_path / "r.html", overwrite=True)
    assert "threepass" in (tmp_path / "r.html").read_text()


def test_command(fitted: Fitted, tmp_path: Path) -> None:
    model, corpus, out = tmp_path / "m.zarr", tmp_path / "c.zarr", tmp_path / "r.html"
    save_predictor(fitted.model, model, False)
    X, Y = fitted.test.to_scipy()
    ingest_matrices(X[:, np.argsort(fitted.test.term_ids)], Y, corpus)
    run = threepass("report", model, out, "--corpus", corpus)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"{out}: 0.")
    assert "How good are its labels?" in out.read_text()
    check_one_line_error(threepass("report", model, out), "exists already")
    run = threepass("report", model, out, "--overwrite", "--json", "-")
    assert json.loads(run.stdout) == {"path": str(out), "bytes": out.stat().st_size}
    check_one_line_error(threepass("report", model, tmp_path / "r.pdf"), "ends in .html")
    check_one_line_error(threepass("report", tmp_path / "no", tmp_path / "s.html"), "no")
    ingest_matrices(X, Y[:, :7], tmp_path / "other.zarr")
    refused = threepass("report", model, tmp_path / "s.html", "--corpus", tmp_path / "other.zarr")
    check_one_line_error(refused, "labels do not fit the model")
    assert not (tmp_path / "s.html").exists()
    empty = Corpus.open(corpus).head(0)
    with pytest.raises(Exception, match="empty"):
        render(fitted.model, empty)


def test_stages__tell_which_read_each_is() -> None:
    seconds = {"pairs": 1.0, "word directions": 0.1, "label topics": 0.1, "refine 1": 2.0, "refine 2": 2.0}
    rows = stages(SimpleNamespace(fit_stats={"seconds": seconds}))  # type: ignore[arg-type]
    assert [row.read for row in rows] == ["read 1", "", "", "a further read", "a further read"]
