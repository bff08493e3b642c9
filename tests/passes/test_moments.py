"""Passes 1 to 3 give the moments that listing every word of every document gives."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import Corpus, ingest_matrices
from pipeline.passes import kernels
from pipeline.passes.labels import Labels
from pipeline.passes.pairs import Pairs, Statistics, accumulator_type, exact_m2, sketched_m2
from pipeline.passes.plan import segments
from pipeline.passes.run import Runner, Sums
from pipeline.passes.triples import EVEN, ODD, Triples
from pipeline.passes.words import WordView
from tests import naive_moments as naive
from tests.conftest import random_matrices

Small = tuple[Corpus, np.ndarray, np.ndarray]
VIEWS = [WordView(counts, drop) for counts in (False, True) for drop in (False, True)]
every_view = pytest.mark.parametrize(
    "view", VIEWS, ids=["binary-keep", "binary-drop", "counts-keep", "counts-drop"]
)
parts = pytest.mark.parametrize("part", ["whole", "head", "train", "test", "one block"])
ROWS = {(EVEN, ODD): slice(None), (EVEN,): slice(0, None, 2), (ODD,): slice(1, None, 2)}
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """As the fixture of that name, but made once: nothing here writes to it."""
    X, Y = random_matrices(34, 17, 5, seed=2)
    corpus = ingest_matrices(X, Y, tmp_path_factory.mktemp("moments") / "small.zarr", block_bytes=300)
    return corpus, X[:, corpus.term_ids], Y


def directions(n_terms: int, K: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_terms, K), dtype=np.float32)


def run(work: Pairs | Triples | Labels, corpus: Corpus, accumulator_bytes: int = 1) -> Sums:
    return Runner(n_threads=1).run(work, corpus, segments(corpus, accumulator_bytes))


def chosen(small: Small, part: str) -> Small:
    """A view of the small corpus, and the dense rows that are in it."""
    corpus, X, Y = small
    first = int(corpus.block_rows[0])
    view = {
        "whole": lambda: corpus,
        "head": lambda: corpus.head(19),
        "train": lambda: corpus.split(test=0.3)[0],
        "test": lambda: corpus.split(test=0.1)[1],
        "one block": lambda: corpus.head(first),
    }[part]()
    return view, X[view.doc_ids], Y[view.doc_ids]


def test_chosen__some_blocks_are_empty(small: Small) -> None:
    assert small[0].n_blocks > 4
    for part in ("head", "test", "one block"):
        assert (chosen(small, part)[0].block_rows == 0).any()
    assert (chosen(small, "train")[0].block_rows % 2 == 1).any()


@every_view
@parts
def test_pairs__equal_the_listed_tokens_and_pairs(small: Small, part: str, view: WordView) -> None:
    corpus, X, Y = chosen(small, part)
    how = (view.counts, view.drop_self_pairs)
    sums = run(Pairs(view, corpus.n_terms), corpus)
    assert asdict(Statistics.of(sums)) == naive.statistics(X, Y, *how)
    np.testing.assert_array_equal(sums["term_totals"], (X if view.counts else X > 0).sum(axis=0))
    M2 = exact_m2(sums, view)
    np.testing.assert_allclose(M2, naive.m2(X, *how), rtol=1e-12, atol=1e-15)
    assert M2.sum() == pytest.approx(1)


@every_view
@parts
def test_sketched_m2__equals_m2_times_the_sketch(small: Small, part: str, view: WordView) -> None:
    corpus, X, _ = chosen(small, part)
    for p in (1, 19) if part == "whole" else (5,):
        sketch = directions(corpus.n_terms, p)
        product = sketched_m2(run(Pairs(view, corpus.n_terms, sketch), corpus), view, sketch)
        expected = naive.m2(X, view.counts, view.drop_self_pairs) @ sketch.astype(np.float64)
        np.testing.assert_allclose(product, expected, **CLOSE)


@every_view
@parts
def test_triples__moments_equal_the_listed_pairs_and_triples(small: Small, part: str, view: WordView) -> None:
    corpus, X, Y = chosen(small, part)
    for K in (1, 19) if part == "whole" else (5,):
        work = Triples(view, directions(corpus.n_terms, K))
        W, how = work.W.astype(np.float64), (view.counts, view.drop_self_pairs)
        sums = run(work, corpus)
        for halves, rows in ROWS.items():
            moments = work.moments(sums, *halves)
            np.testing.assert_allclose(moments.M2, naive.whitened_m2(X[rows], W, *how), **CLOSE)
            np.testing.assert_allclose(moments.M3, naive.whitened_m3(X[rows], W, *how), **CLOSE)
        A = np.random.default_rng(2).standard_normal((K, 3))
        n_pairs = naive.statistics(X[::2], Y[::2], *how)["pairs"]
        expected = naive.m2(X[::2], *how) @ W @ A
        np.testing.assert_allclose(work.even_m2_times(sums, A) / n_pairs, expected, **CLOSE)


@every_view
def test_triples__same_moments_without_error_bars(small: Small, view: WordView) -> None:
    corpus = small[0]
    works = [Triples(view, directions(corpus.n_terms, 5), error_bars) for error_bars in (True, False)]
    one, other = (work.moments(run(work, corpus), EVEN, ODD) for work in works)
    np.testing.assert_array_equal(one.M3, other.M3)
    assert ("products even" in works[1].zero()) == view.drop_self_pairs


@every_view
@parts
def test_labels__moments_equal_the_listed_labels_and_pairs(small: Small, part: str, view: WordView) -> None:
    corpus, X, Y = chosen(small, part)
    K = 1 if part == "head" else 19
    V, V_even = directions(corpus.n_terms, K), directions(corpus.n_terms, K, seed=6)
    how = (view.counts, view.drop_self_pairs)
    work = Labels(view, V, corpus.n_labels, V_even)
    sums = run(work, corpus)
    expected = naive.label_moments(X, Y, V.astype(np.float64), *how)
    np.testing.assert_allclose(work.moments(sums), expected, **CLOSE)
    expected = naive.label_moments(X[::2], Y[::2], V_even.astype(np.float64), *how)
    np.testing.assert_allclose(work.even_moments(sums), expected, **CLOSE)
    without = Labels(view, V, corpus.n_labels)
    np.testing.assert_array_equal(without.moments(run(without, corpus)), work.moments(sums))


@every_view
@pytest.mark.parametrize("slab", [1, 3])
def test_passes__do_not_depend_on_slabs(
    small: Small, view: WordView, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = small[0]
    D, L = corpus.n_terms, corpus.n_labels
    W = directions(D, 4)
    works = [Pairs(view, D), Pairs(view, D, W), Triples(view, W), Labels(view, W, L, -2 * W)]
    expected = [run(work, corpus) for work in works]
    monkeypatch.setattr(kernels, "SLAB", slab)
    for work, sums in zip(works, expected, strict=True):
        assert_same_sums(run(work, corpus), sums)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_moments__do_not_depend_on_the_scale_of_fractions(small: Small, scale: float, tmp_path: Path) -> None:
    _, X, Y = small
    view = WordView(counts=True)
    corpus = ingest_matrices(X * scale, Y, tmp_path / "scaled.zarr")
    X = X[:, corpus.term_ids]
    W = directions(corpus.n_terms, 3)
    triples, labels = Triples(view, W), Labels(view, W, corpus.n_labels, W)
    moments = triples.moments(run(triples, corpus), EVEN, ODD)
    label_sums = run(labels, corpus)
    even = naive.label_moments(X[::2], Y[::2], W, True)
    np.testing.assert_allclose(exact_m2(run(Pairs(view, 17), corpus), view), naive.m2(X, True), rtol=1e-5)
    np.testing.assert_allclose(moments.M2, naive.whitened_m2(X, W, True), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moments.M3, naive.whitened_m3(X, W, True), rtol=1e-4, atol=1e-5)
    expected = naive.label_moments(X, Y, W, True)
    np.testing.assert_allclose(labels.moments(label_sums), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(labels.even_moments(label_sums), even, rtol=1e-4, atol=1e-5)


def test_passes__no_documents_sum_to_zero(small: Small) -> None:
    empty = small[0].head(0)
    view, W = WordView(drop_self_pairs=True), directions(17, 3)
    for work in (Pairs(view, 17), Triples(view, W), Labels(view, W, 5, W)):
        sums = run(work, empty)
        assert sums.keys() == work.zero().keys()
        assert not any(array.any() for array in sums.values())
    assert not Triples(view, W).moments(run(Triples(view, W), empty), EVEN, ODD).M3.any()


@pytest.mark.parametrize("drop", [False, True])
def test_naive__closed_form_equals_listing(drop: bool) -> None:
    X, _ = random_matrices(20, 6, 2)
    for counts in (False, True):
        np.testing.assert_allclose(naive.m2_by_products(X, counts, drop), naive.m2(X, counts, drop))


def test_naive__distinct_places_by_hand() -> None:
    row = [2, 0, 1]  # the tokens a, a, c
    assert naive.tuples(row, 2, True, True) == [(0, 0), (0, 2), (0, 0), (0, 2), (2, 0), (2, 0)]
    assert len(naive.tuples(row, 2, True, False)) == 9
    assert naive.tuples(row, 2, False, True) == [(0, 2), (2, 0)]
    assert len(naive.tuples(row, 3, True, True)) == 6
    assert naive.tuples(row, 3, False, True) == []


def test_accumulator_type__single_precision_above_256_megabytes() -> None:
    assert accumulator_type(32_000_000) is np.float64
    assert accumulator_type(32_000_001) is np.float32


def assert_same_sums(one: Sums, other: Sums) -> None:
    assert one.keys() == other.keys()
    for name in one:
        size = max(1.0, abs(other[name]).max())
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=2e-6 * size, err_msg=name)


@given(
    n=st.integers(1, 24),
    block_bytes=st.integers(1, 1500),
    accumulator_bytes=st.sampled_from([1, 10**9]),
    rows=st.sampled_from(["all", "head", "train", "test"]),
    where=st.floats(0, 1),
    view=st.sampled_from(VIEWS),
    seed=st.integers(0, 99),
)
@settings(max_examples=12)
def test_passes__do_not_depend_on_how_the_corpus_is_cut(
    n: int, block_bytes: int, accumulator_bytes: int, rows: str, where: float, view: WordView, seed: int
) -> None:
    X, Y = random_matrices(n, 11, 3, seed)
    W = directions(11, 3, seed)
    works = [Pairs(view, 11), Pairs(view, 11, W), Triples(view, W), Labels(view, W, 3, -2 * W)]
    with tempfile.TemporaryDirectory() as folder:
        whole = ingest_matrices(X, Y, f"{folder}/whole")
        cut = ingest_matrices(X, Y, f"{folder}/cut", block_bytes=block_bytes)
        assert whole.n_blocks == 1
        if rows == "head":
            whole, cut = (corpus.head(round(where * n)) for corpus in (whole, cut))
        elif rows != "all":
            side = 0 if rows == "train" else 1
            whole, cut = (corpus.split(test=where, seed=seed)[side] for corpus in (whole, cut))
        for work in works:
            assert_same_sums(run(work, cut, accumulator_bytes), run(work, whole))
