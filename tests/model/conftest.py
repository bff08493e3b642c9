"""Models and corpora that tests of several files share; none of them changes one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import random_matrices
from tests.model.kinds import Matrices, paper_labeler
from threepass import Corpus, MomentLabeler, Planted, ingest_planted
from threepass.ingest.synthetic import Lengths


@pytest.fixture(scope="package")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    model = Planted(
        4_000, 400, 20, 4, words=Lengths(30, 30), labels=Lengths(1, 1), distinct=False, topic_share=0.8
    )
    return ingest_planted(model, tmp_path_factory.mktemp("planted") / "planted.zarr", block_bytes=100_000)


@pytest.fixture(scope="package")
def matrices(planted: Corpus) -> Matrices:
    """Dense X and Y of the planted corpus, terms in source order."""
    X, Y = planted.to_scipy()
    return X.toarray()[:, np.argsort(planted.term_ids)], Y.toarray().astype(int)


@pytest.fixture(scope="package")
def paper_model(planted: Corpus) -> MomentLabeler:
    return paper_labeler(4, words="counts", self_pairs="drop").fit(planted)


@pytest.fixture(scope="package")
def corpus_head_model(planted: Corpus) -> MomentLabeler:
    return paper_labeler(3, words="counts").fit(planted.head(500))


@pytest.fixture(scope="package")
def small_model() -> MomentLabeler:
    """Fitted on 300 documents of 23 terms and 7 labels, some of each empty or never used."""
    return paper_labeler(3).fit(*random_matrices(300, 23, 7))
