"""A model with ugly names, and documents that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from threepass import Corpus, MomentLabeler, Planted, Predictor, ingest_matrices, ingest_planted
from threepass.ingest.synthetic import Lengths

EVIL = '<script>document.title = "owned"</script>'
UGLY = (
    EVIL,
    '"></script><img src=x onerror="alert(1)">',
    "{{ 7 * 7 }}",
    "naïve & «ünïcode» 漢字",
    "x" * 500,
    "",
)


class Fitted(NamedTuple):
    """A model, and the test corpus that goes with it."""

    model: Predictor
    test: Corpus


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    folder = tmp_path_factory.mktemp("report")
    planted = Planted(1500, 400, 60, 15, words=Lengths(22, 18), labels=Lengths(2, 2))
    X, Y = ingest_planted(planted, folder / "planted.zarr").to_scipy()
    terms = [*UGLY, *(f"word{i}" for i in range(len(UGLY), X.shape[1]))]
    labels = [*UGLY, *(f"label{i}" for i in range(len(UGLY), Y.shape[1]))]
    corpus = ingest_matrices(
        X, Y, folder / "c.zarr", feature_names=terms, label_names=labels, block_bytes=20_000
    )
    train, test = corpus.split(test=0.3)
    return Fitted(MomentLabeler(n_components=15, n_jobs=2).fit(train).predictor_, test)


@pytest.fixture(scope="session")
def page(fitted: Fitted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from threepass import write_report

    path = tmp_path_factory.mktemp("page") / "report.html"
    texts = {int(i): f"Some running text with word{i % 50} and {EVIL}\nand more." for i in np.arange(1500)}
    write_report(fitted.model, path, fitted.test, texts=texts)
    return path
