from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from threepass import SHAPES, InputError, StoreError, ingest_matrices, ingest_planted, ingest_shape
from threepass.ingest.sizes import Sizes
from threepass.ingest.synthetic import Lengths, Planted, planted_truth

MODEL = Planted(4000, 300, 20, 4, words=Lengths(25, 20), labels=Lengths(1, 1), distinct=False, seed=3)


@pytest.mark.parametrize("name", SHAPES)
def test_shape__lengths_match_the_papers_table(name: str) -> None:
    model = SHAPES[name]
    for lengths, width in ((model.words, model.n_terms), (model.labels, model.n_labels)):
        table = lengths.table(width // 2)
        assert np.median(table) == lengths.median
        assert table.mean() == pytest.approx(lengths.mean, rel=0.03)
        assert 1 <= table.min() <= table.max() <= width // 2


@pytest.mark.parametrize(("name", "scale"), [("bibtex", 1.0), ("delicious", 0.3), ("nytimes", 0.02)])
def test_shape__corpus_has_it(tmp_path: Path, name: str, scale: float) -> None:
    corpus = ingest_shape(name, tmp_path / "d", scale=scale)
    model = SHAPES[name]
    X, Y = corpus.to_scipy()
    assert X.shape == (round(model.n_docs * scale), model.n_terms)
    assert Y.shape[1] == model.n_labels
    assert corpus.is_binary
    for rows, lengths in ((X, model.words), (Y, model.labels)):
        counts = np.diff(rows.indptr)
        assert counts.mean() == pytest.approx(lengths.mean, rel=0.1)
        assert np.median(counts) == pytest.approx(lengths.median, rel=0.1)


def test_planted__documents_do_not_depend_on_blocks_or_threads(tmp_path: Path) -> None:
    one = ingest_planted(MODEL, tmp_path / "a", n_threads=1)
    sizes = Sizes(piece_bytes=50_000)
    other = ingest_planted(MODEL, tmp_path / "b", block_bytes=200_000, sizes=sizes)
    assert other.n_blocks > one.n_blocks
    for mine, theirs in zip(one.to_scipy(), other.to_scipy(), strict=True):
        assert (mine != theirs).nnz == 0


def test_planted__seeds_differ(tmp_path: Path) -> None:
    other = replace(MODEL, seed=4)
    a, b = (ingest_planted(m, tmp_path / str(m.seed)).to_scipy()[0] for m in (MODEL, other))
    assert (a != b).nnz > 0


def test_planted__words_and_labels_follow_the_truth(tmp_path: Path) -> None:
    corpus = ingest_planted(MODEL, tmp_path / "d")
    truth = planted_truth(corpus)
    for matrix in (truth.O, truth.Q, truth.pi):
        np.testing.assert_allclose(matrix.sum(axis=0), 1)
    X, Y = corpus.to_scipy()
    words, labels = X.sum(axis=0), Y.sum(axis=0)
    # total variation between what was drawn and P[v] = sum_k pi_k O_vk; sampling noise alone is about 0.01
    assert abs(words / words.sum() - truth.O @ truth.pi).sum() / 2 < 0.03
    assert abs(labels / labels.sum() - truth.Q @ truth.pi).sum() / 2 < 0.05
    # pairs of words of one document follow M2 = O diag(pi) O'
    pairs = (X.T @ X).toarray() - np.diag(X.sum(axis=0))
    weights = np.asarray(X.sum(axis=1))
    M2 = truth.O @ np.diag(truth.pi) @ truth.O.T
    independent = np.outer(truth.O @ truth.pi, truth.O @ truth.pi)  # words that know nothing of each other
    far = abs(independent - M2).sum()
    assert abs(pairs / (weights * (weights - 1)).sum() - M2).sum() < far / 2


def test_truth__only_planted_corpora_have_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no 'truth'"):
        planted_truth(ingest_matrices(np.eye(2), np.eye(2), tmp_path / "d"))


@pytest.mark.parametrize(
    "call", [lambda d: ingest_shape("wiki", d), lambda d: ingest_shape("bibtex", d, scale=0)]
)
def test_shape__wrong_arguments(tmp_path: Path, call: object) -> None:
    with pytest.raises(InputError):
        call(tmp_path / "d")  # type: ignore[operator]


def test_planted__needs_something_to_draw() -> None:
    with pytest.raises(InputError, match="at least 1"):
        Planted(10, 0, 5, 2, words=Lengths(5, 5), labels=Lengths(1, 1))
