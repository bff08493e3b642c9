"""Ridge regression: its features, what is summed for it, and the weights that follow."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest

from tests import naive_heads as naive
from tests.parts.learned import context_of, labelled_by_words, learned, words_of
from tests.rows import CLOSE, assert_close, cut, normal, sparse_rows, summed, ugly_matrices
from threepass.parts.part import half
from threepass.parts.ridge import STRENGTHS, Basis, Features, Ridge, RidgePart, WordDirections
from threepass.parts.selection import Shortlists
from threepass.parts.weighting import Weighting
from threepass.passes.cost import Size

D, L = 17, 5


def weighting_of(X: np.ndarray, scheme: Any = "log") -> Weighting:
    return Weighting.of_counts((X > 0).sum(axis=0), len(X), scheme)


def basis_of(p: int = 4, m: int = 6) -> Basis:
    return Basis(normal(D, p), 2 * normal(p, m, seed=6), np.linspace(0, 2 * np.pi, m, dtype=np.float32))


def naive_features(basis: Basis, weighting: Weighting, X: np.ndarray) -> np.ndarray:
    x = naive.weighted(X, weighting.idf, weighting.scheme)
    return naive.features(x, basis.B, basis.waves, basis.phases)


# -- features -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [0, 1, 6])
@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_features__equal_the_plain_formula(n: int, p: int, m: int) -> None:
    X = ugly_matrices(40, 23, 1, seed=3)[0][:n] * np.linspace(0.2, 2, 23)
    B, waves, phases = normal(23, p), 2 * normal(p, m), normal(m, seed=1)
    F = Basis(B, waves, phases).features(sparse_rows(X, np.float32))
    assert F.dtype == np.float32
    assert F.shape == (n, p + m + 1)
    np.testing.assert_allclose(F, naive.features(X, B, waves, phases), **CLOSE)


def test_features__by_hand() -> None:
    X = sparse_rows(np.array([[3, 4]]), np.float32)
    waves, phases = np.array([[2, 0], [0, 5]], np.float32), np.array([0, 0.5], np.float32)
    F = Basis(np.eye(2, dtype=np.float32), waves, phases).features(X)
    np.testing.assert_allclose(F, [[3, 4, math.cos(1.2), math.cos(4.5), 1]], rtol=1e-6)


def test_features__a_document_without_words_has_its_level_and_the_phases() -> None:
    B, waves, phases = normal(5, 2), normal(2, 3), np.array([0, 1, 2], np.float32)
    F = Basis(B, waves, phases).features(sparse_rows(np.zeros((2, 5)), np.float32))
    expected = [0, 0, *(math.sqrt(2 / 3) * math.cos(phase) for phase in (0, 1, 2)), 1]
    np.testing.assert_allclose(F, [expected, expected], rtol=1e-6)


def test_features__waves_see_directions_only() -> None:
    X = ugly_matrices(20, 23, 1, seed=3)[0]
    B, waves, phases = normal(23, 4), normal(4, 6), normal(6)
    one, other = (Basis(B, waves, phases).features(sparse_rows(X * c, np.float32)) for c in (1, 16))
    np.testing.assert_array_equal(16 * one[:, :4], other[:, :4])
    np.testing.assert_allclose(one[:, 4:], other[:, 4:], **CLOSE)


def test_features__waves_approximate_a_gaussian_kernel() -> None:
    rng = np.random.default_rng(0)
    X, m = rng.random((8, 5)) + 0.01, 40_000
    phases = rng.uniform(0, 2 * np.pi, m).astype(np.float32)
    F = Basis(np.eye(5, dtype=np.float32), normal(5, m), phases).features(sparse_rows(X, np.float32))
    u = X / np.linalg.norm(X, axis=1)[:, None]
    squares = ((u[:, None] - u[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(F[:, 5:-1] @ F[:, 5:-1].T, np.exp(-squares / 2), atol=0.03)


def test_features__do_not_change_their_arrays() -> None:
    X = sparse_rows(ugly_matrices(20, 23, 1)[0], np.float32)
    arrays = normal(23, 4), normal(4, 6), normal(6)
    kept = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    Basis(*arrays).features(X)
    for array, before in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(array, before)


# -- passes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["log", "counts", "binary"])
@pytest.mark.parametrize("m", [0, 6])
@pytest.mark.parametrize("n", [0, 1, 34])
def test_pass__equals_the_plain_sums(n: int, m: int, scheme: Any) -> None:
    X, Y = ugly_matrices(n, D, L)
    work = Features(weighting_of(X, scheme), basis_of(m=m), L)
    sums = summed(work, *cut(X, Y, n // 3, n // 3, n // 2))
    assert_close(sums.to_arrays(), naive.ridge_sums(naive_features(work.basis, work.weighting, X), Y))
    assert sums.gram[-1, -1] == n
    np.testing.assert_array_equal(sums.labels[:, -1], Y.sum(axis=0))


@pytest.mark.parametrize("m", [0, 6])
def test_pass__needs_its_sums(m: int) -> None:
    work = Features(weighting_of(np.ones((1, D))), basis_of(m=m), L)
    zero = work.zero()
    assert work.basis.width == 4 + m + 1
    assert {array.dtype for array in zero.to_arrays().values()} == {np.dtype(np.float64)}
    needs = work.needs(Size(10, 50, 20))
    assert needs.sums == needs.segment == zero.nbytes
    assert needs.cost.flops > 0


@pytest.mark.parametrize("m", [0, 3])
@pytest.mark.parametrize("n", [0, 1, 34])
def test_word_directions__equal_the_plain_sums(n: int, m: int) -> None:
    X, Y = ugly_matrices(n, D, L)
    work = WordDirections(weighting_of(X), normal(D, m))
    words = summed(work, *cut(X, Y, n // 2, n // 2)).words.finished()
    ref = naive.word_directions(naive.weighted(X, work.weighting.idf), work.omega)
    np.testing.assert_allclose(words, ref, **CLOSE)
    assert work.needs(Size(0, 0, 0)).sums == work.zero().nbytes


# -- the part -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def documents() -> tuple[np.ndarray, np.ndarray]:
    return labelled_by_words(300)


@pytest.mark.parametrize("dim", [None, 20, 60])
@pytest.mark.parametrize("strength", [0.1, 1.0, 1000.0])
def test_finish__solves_the_normal_equations(
    documents: tuple[np.ndarray, np.ndarray], dim: int | None, strength: float
) -> None:
    X, Y = documents
    one = learned(RidgePart(context_of(X, Y, dim=dim)), X, Y)
    scorer = one.finished(strength=strength)
    assert isinstance(scorer, Ridge)
    F = naive_features(scorer.basis, one.context.weighting, X)
    A = np.linalg.solve(F.T @ F + strength * np.eye(F.shape[1]), F.T @ Y).T
    assert abs(scorer.A - A).max() < 2e-3 * abs(A).max()  # kept in half precision
    for array in (scorer.A, scorer.basis.B):
        np.testing.assert_array_equal(array.astype(np.float16).astype(np.float32), array)


def test_basis__labels_words_and_waves(documents: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = documents
    part = RidgePart(context_of(X, Y))
    assert (part.counts.labels, part.counts.words) == (30, 60)
    assert part.counts.waves == 300 - 90  # no more than documents
    assert [part.prepares(read) for read in (1, 2, 3)] == ["word directions", "features", None]
    basis = learned(part, X, Y).part.features.basis  # type: ignore[attr-defined]
    # half precision: as orthonormal as that
    np.testing.assert_allclose(basis.B.T @ basis.B, np.eye(basis.B.shape[1]), atol=0.01)
    fewer = RidgePart(context_of(X, Y, dim=20))
    assert (fewer.counts.labels, fewer.counts.words, fewer.counts.waves) == (20, 0, 0)
    assert fewer.prepares(1) is None
    assert fewer.details() == {"head_dim": 20, "head_dim_reason": "as asked for"}


def test_basis__of_documents_without_labels() -> None:
    X, Y = labelled_by_words(100)
    one = learned(RidgePart(context_of(X, 0 * Y, dim=20)), X, 0 * Y)
    scorer = one.finished()
    assert isinstance(scorer, Ridge)
    assert scorer.basis.width == 1  # there is no direction, and so no wave
    np.testing.assert_array_equal(scorer.A, 0)


def test_trial__every_strength_as_if_it_were_solved_for(documents: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = documents
    Z, own = labelled_by_words(40, seed=1)
    one = learned(RidgePart(context_of(X, Y, dim=40)), X, Y)
    words = words_of(one.context, Z)
    trial = one.part.trial(words)
    lists = Shortlists.of(sparse_rows(own), lambda rows: [trial.dense(rows)], seed=0)
    at = trial.at(lists)
    F = naive_features(one.part.features.basis, one.context.weighting, Z)  # type: ignore[attr-defined]
    sums = one.part.sums  # type: ignore[attr-defined]
    for strength in STRENGTHS:
        A = np.linalg.solve(sums.gram + strength * np.eye(len(sums.gram)), sums.labels.T).T
        found = one.part.pair_scores(at, {"strength": strength})
        error = found.reshape(40, 30) - F @ A.T
        assert abs(error).max() < (
            1e-4 if strength == 1 else 0.01
        )  # filters are interpolated, but for the default


def test_tell__says_how_many_and_why(
    documents: tuple[np.ndarray, np.ndarray], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="threepass"):
        RidgePart(context_of(*documents, dim=17)).tell()
    assert "17 features (as asked for)" in caplog.text


# -- precision ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (5,), (7, 3), (0, 4)])
def test_half__rounds_in_place_to_what_is_saved(shape: tuple[int, ...]) -> None:
    matrix = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 1000
    expected = matrix.astype(np.float16).astype(np.float32)
    assert half(matrix) is matrix
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize("large", [65504.0, -65504.0, 65505.0, -1e30])
def test_half__what_is_too_large_stays(large: float) -> None:
    matrix = np.array([[1 / 3, large]], np.float32)
    out = half(matrix)
    assert out[0, 1] == np.float32(large)
    assert out[0, 0] == (np.float16(1 / 3) if abs(large) <= 65504 else np.float32(1 / 3))
