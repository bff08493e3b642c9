"""The demo, on few packages: the whole way to a report, beside baselines that are what they say they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import TfidfTransformer

from tests.command import check_one_line_error, threepass
from threepass import Corpus, MomentLabeler, StoreError, check
from threepass.report.demo import neighbour_votes, run_demo

FEW = ["zarr", "sparse", "rich", "tornado"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the command has left a small demo."""
    out = tmp_path_factory.mktemp("demo") / "out"
    options = [word for name in FEW for word in ("--package", name)]
    run = threepass("demo", "--quiet", "--out", out, *options)
    assert run.returncode == 0, run.stderr
    (out.parent / "stdout").write_text(run.stdout)
    (out.parent / "stderr").write_text(run.stderr)
    return out


def test_demo__says_what_it_did(folder: Path) -> None:
    said = (folder.parent / "stdout").read_text()
    for part in (
        "docstrings",
        "taken out of the text",
        "the heaviest:",
        "most frequent labels",
        "10 nearest neighbours",
        "evidence:",
        str(folder / "report.html"),
        "threepass ingest",
        "threepass fit posts.zarr model.zarr",
    ):
        assert part in said
    assert said.count("it is:") == 3
    progress = [line for line in (folder.parent / "stderr").read_text().splitlines() if "warning" not in line]
    assert progress == []


def test_demo__leaves_whole_stores_and_a_report(folder: Path) -> None:
    assert check(folder / "docstrings.zarr").is_whole
    assert check(folder / "model.zarr").is_whole
    page = (folder / "report.html").read_text()
    assert "How good are its labels?" in page
    assert 'class="text"' in page  # examples in running text
    model = MomentLabeler.load(folder / "model.zarr")
    corpus = Corpus.open(folder / "docstrings.zarr")
    assert model.statistics_.n_docs == corpus.split()[0].n_docs


def test_demo__does_not_replace_silently(folder: Path, tmp_path: Path) -> None:
    check_one_line_error(threepass("demo", "--out", folder, "--package", "sparse"), "exists already")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("work")
    with pytest.raises(StoreError):
        run_demo(tmp_path / "mine", packages=["sparse"], overwrite=True)
    assert (tmp_path / "mine" / "precious").read_text() == "work"


def test_demo__is_deterministic_and_beats_frequency(tmp_path: Path) -> None:
    scores = []
    for name in ("a", "b"):
        run = threepass(
            "demo", "--out", tmp_path / name, "--package", "sparse", "--package", "zarr", "--json", "-"
        )
        assert run.returncode == 0, run.stderr
        scores.append(json.loads(run.stdout)["scores"])
    assert scores[0] == scores[1]
    assert scores[0]["threepass"]["p@3"] > scores[0]["most frequent labels"]["p@3"] + 0.05
    assert scores[0]["threepass"]["auc"] > scores[0]["most frequent labels"]["auc"]


def test_neighbour_votes__against_dense() -> None:
    rng = np.random.default_rng(0)
    X, new = (scipy.sparse.csr_array(rng.poisson(0.3, (n, 40))) for n in (70, 300))
    Y = scipy.sparse.csr_array((rng.random((70, 9)) < 0.3).astype(np.float32))
    weigh = TfidfTransformer(sublinear_tf=True).fit(X)
    alike = weigh.transform(new).toarray() @ weigh.transform(X).toarray().T
    expected = np.zeros((300, 9))
    for row, similarities in enumerate(alike):
        for neighbour in sorted(range(70), key=lambda i: -similarities[i])[:4]:
            expected[row] += similarities[neighbour] * Y.toarray()[neighbour]
    found = np.concatenate(list(neighbour_votes(X, Y, new, 4)))
    np.testing.assert_allclose(found, expected, atol=1e-6)
