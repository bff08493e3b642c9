from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests import naive_heads as naive
from tests.passes.conftest import (
    CLOSE,
    PARTS,
    Cut,
    Dense,
    assert_close,
    chosen,
    cuts,
    normal,
    run,
    sparse_rows,
    ugly_matrices,
)
from threepass import Corpus
from threepass.parts.features import Features, features
from threepass.parts.held_out import SetAside
from threepass.parts.weighting import Weighting
from threepass.passes import kernels


def features_pass(corpus: Corpus, share: float = 0.0, p: int = 4, m: int = 6) -> Features:
    weighting = Weighting.of_counts(*corpus.stored_term_counts)
    phases = np.linspace(0, 2 * np.pi, m, dtype=np.float32)
    arrays = normal(corpus.n_terms, p), 2 * normal(p, m, seed=6), phases
    return Features(weighting, *arrays, corpus.n_labels, share)


def naive_features(work: Features, X: np.ndarray) -> np.ndarray:
    x = naive.weighted(X, work.weighting.idf, work.weighting.scheme)
    return naive.features(x, work.B, work.waves, work.phases)


# -- features -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [0, 1, 6])
@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_features__equal_the_plain_formula(n: int, p: int, m: int) -> None:
    X = ugly_matrices(40, 23, 1, seed=3)[0][:n] * np.linspace(0.2, 2, 23)
    B, waves, phases = normal(23, p), 2 * normal(p, m), normal(m, seed=1)
    F = features(sparse_rows(X, np.float32), B, waves, phases)
    assert F.dtype == np.float32
    assert F.shape == (n, p + m + 1)
    np.testing.assert_allclose(F, naive.features(X, B, waves, phases), **CLOSE)


def test_features__by_hand() -> None:
    X = sparse_rows(np.array([[3, 4]]), np.float32)
    waves, phases = np.array([[2, 0], [0, 5]], np.float32), np.array([0, 0.5], np.float32)
    F = features(X, np.eye(2, dtype=np.float32), waves, phases)
    np.testing.assert_allclose(F, [[3, 4, math.cos(1.2), math.cos(4.5), 1]], rtol=1e-6)


def test_features__a_document_without_words_has_its_level_and_the_phases() -> None:
    B, waves, phases = normal(5, 2), normal(2, 3), np.array([0, 1, 2], np.float32)
    F = features(sparse_rows(np.zeros((2, 5)), np.float32), B, waves, phases)
    expected = [0, 0, *(math.sqrt(2 / 3) * math.cos(phase) for phase in (0, 1, 2)), 1]
    np.testing.assert_allclose(F, [expected, expected], rtol=1e-6)


def test_features__waves_see_directions_only() -> None:
    X = ugly_matrices(20, 23, 1, seed=3)[0]
    B, waves, phases = normal(23, 4), normal(4, 6), normal(6)
    one, other = (features(sparse_rows(X * c, np.float32), B, waves, phases) for c in (1, 16))
    np.testing.assert_array_equal(16 * one[:, :4], other[:, :4])
    np.testing.assert_allclose(one[:, 4:], other[:, 4:], **CLOSE)


def test_features__waves_approximate_a_gaussian_kernel() -> None:
    rng = np.random.default_rng(0)
    X, m = rng.random((8, 5)) + 0.01, 40_000
    phases = rng.uniform(0, 2 * np.pi, m).astype(np.float32)
    F = features(sparse_rows(X, np.float32), np.eye(5, dtype=np.float32), normal(5, m), phases)
    u = X / np.linalg.norm(X, axis=1)[:, None]
    squares = ((u[:, None] - u[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(F[:, 5:-1] @ F[:, 5:-1].T, np.exp(-squares / 2), atol=0.03)


def test_features__do_not_change_their_arrays() -> None:
    X = sparse_rows(ugly_matrices(20, 23, 1)[0], np.float32)
    arrays = normal(23, 4), normal(4, 6), normal(6)
    kept = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    features(X, *arrays)
    for array, before in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(array, before)


# -- the pass -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("part", PARTS)
def test_pass__equals_the_plain_sums(many_blocks: Dense, part: str, share: float) -> None:
    corpus, X, Y = chosen(many_blocks, part)
    held = naive.held_out(len(X), share)
    for m in (0, 6):
        work = features_pass(corpus, share, m=m)
        expected = naive.ridge_sums(naive_features(work, X[~held]), Y[~held])
        sums = run(work, corpus)
        assert_close(sums, expected)
        assert sums["gram"][-1, -1] == (~held).sum()
        np.testing.assert_array_equal(sums["labels"][:, -1], Y[~held].sum(axis=0))


@pytest.mark.parametrize("scheme", ["log", "counts", "binary"])
def test_pass__by_its_weighting(many_blocks: Dense, scheme: str) -> None:
    corpus, X, Y = many_blocks
    work = features_pass(corpus)
    work = replace(work, weighting=replace(work.weighting, scheme=scheme))
    assert_close(run(work, corpus), naive.ridge_sums(naive_features(work, X), Y))


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_pass__held_out_documents_come_back(many_blocks: Dense, share: float) -> None:
    corpus = many_blocks[0]
    work, everything = features_pass(corpus, share), features_pass(corpus)
    held = run(SetAside(share), corpus)["documents"].joined(corpus.n_terms, corpus.n_labels)
    assert held.X.n_rows > 0
    sums = run(work, corpus)
    everything.add(sums, held)
    assert_close(sums, run(everything, corpus))


@pytest.mark.parametrize("slab", [1, 3])
def test_pass__does_not_depend_on_slabs(
    many_blocks: Dense, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = many_blocks[0]
    work = features_pass(corpus, 0.3)
    expected = run(work, corpus)
    monkeypatch.setattr(kernels, "SLAB", slab)
    assert_close(run(work, corpus), expected)


@pytest.mark.parametrize("m", [0, 6])
def test_pass__accumulator_bytes_of_its_sums(many_blocks: Dense, m: int) -> None:
    work = features_pass(many_blocks[0], m=m)
    zero = work.zero()
    assert work.width == 4 + m + 1
    assert {array.dtype for array in zero.values()} == {np.dtype(np.float64)}
    assert work.accumulator_bytes == sum(array.nbytes for array in zero.values())


@given(cut=cuts)
@settings(max_examples=12)
def test_pass__does_not_depend_on_how_the_corpus_is_cut(cut: Cut) -> None:
    whole, parts = cut.corpora(11, 3)
    work = features_pass(whole, cut.share)
    assert_close(run(work, parts, cut.accumulator_bytes), run(work, whole))
