"""Passes 1 to 3 give the moments that listing every word of every document gives."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import naive_moments as naive
from tests.conftest import random_matrices
from tests.passes.conftest import block_of, plain_sums, sparse_rows
from threepass import Corpus, ingest_matrices
from threepass.moments import labels as labels_module
from threepass.moments.labels import Directions, Labels, label_bytes, zero_labels
from threepass.moments.pairs import Pairs, Sketch, Statistics, exact_m2, sketched_m2
from threepass.moments.triples import EVEN, ODD, Triples
from threepass.moments.words import WordView
from threepass.passes import kernels
from threepass.passes import tall as tall_module
from threepass.passes.runner import Pass, Runner
from threepass.passes.segments import segments
from threepass.passes.sums import Sums, sums_bytes

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


def label_pass(
    view: WordView, n_labels: int, W: np.ndarray, U: np.ndarray, U_even: np.ndarray | None = None
) -> Labels:
    even = None if U_even is None else Directions.of(W, U_even, view)
    return Labels(view, W, Directions.of(W, U, view), n_labels, even)


def all_passes(view: WordView, n_labels: int, W: np.ndarray) -> list[Pass]:
    D, K = W.shape
    U = directions(K, K, seed=7)
    works: list[Pass] = [Pairs(view, D), Pairs(view, D, sketch_of(W)), Triples(view, W)]
    return [*works, label_pass(view, n_labels, W, U, -2 * U)]


def sketch_of(W: np.ndarray) -> Sketch:
    return Sketch.of(W, np.arange(len(W)), len(W))


def run(work: Pass, corpus: Corpus, accumulator_bytes: int = 1) -> Sums:
    return Runner(n_threads=1).run(work, corpus, segments(corpus, accumulator_bytes))


RANKS = [(0, 0), (0, 100), (3, 7), (tall_module.HOT, tall_module.FREQUENT)]
"""None, some or all of the words are summed in double precision, and have a row in every segment."""


def rank_words(patch: pytest.MonkeyPatch, hot: int, frequent: int) -> None:
    patch.setattr(tall_module, "HOT", hot)
    patch.setattr(tall_module, "FREQUENT", frequent)


@pytest.fixture(params=RANKS, ids=str)
def hot(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    rank_words(monkeypatch, *request.param)


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


def test_exact_m2__pairs_leave_the_accumulator(small: Small) -> None:
    view = WordView()
    sums = run(Pairs(view, 17), small[0])
    exact_m2(sums, view)
    assert sums.keys() == {"statistics", "term_totals"}


@pytest.mark.usefixtures("hot")
@every_view
@parts
def test_sketched_m2__equals_m2_times_the_sketch(small: Small, part: str, view: WordView) -> None:
    corpus, X, _ = chosen(small, part)
    for p in (1, 19) if part == "whole" else (5,):
        sketch = sketch_of(directions(corpus.n_terms, p))
        product = sketched_m2(run(Pairs(view, corpus.n_terms, sketch), corpus), view, sketch)
        expected = naive.m2(X, view.counts, view.drop_self_pairs) @ sketch[:].astype(np.float64)
        np.testing.assert_allclose(product, expected, **CLOSE)


@pytest.mark.parametrize("n_words", [0, 1, 6])
@pytest.mark.parametrize("width", [0, 1, 5])
def test_sketch__is_the_basis_but_for_rounding(n_words: int, width: int) -> None:
    words = np.sort(np.random.default_rng(1).permutation(9)[:n_words])
    basis = directions(n_words, width) * np.logspace(-6, 3, width, dtype=np.float32)
    basis[:, :1] = 0
    sketch = Sketch.of(basis, words, 9)
    assert sketch.shape == (9, width)
    dense = np.zeros((9, width))
    dense[words] = basis
    step = abs(dense).max(axis=0) / 32767
    assert (abs(sketch[:] - dense) <= 0.51 * step).all()
    X = (np.random.default_rng(2).random((7, 9)) < 0.4).astype(np.float32)
    np.testing.assert_allclose(sketch.products(sparse_rows(X)), X @ sketch[:], rtol=1e-5, atol=1e-7)


@every_view
def test_sketched_m2__is_made_in_the_accumulator_and_leaves_it(small: Small, view: WordView) -> None:
    corpus = small[0]
    sketch = sketch_of(directions(corpus.n_terms, 5))
    kept = sketch[:].copy()
    sums = run(Pairs(view, corpus.n_terms, sketch), corpus)
    memory = sums["pairs"].rows
    product = sketched_m2(sums, view, sketch)
    assert product is memory
    assert product.dtype == np.float32
    assert "pairs" not in sums
    np.testing.assert_array_equal(sketch[:], kept)


@pytest.mark.usefixtures("hot")
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
        for some in (slice(0, 17), slice(0, 4), slice(4, 17), slice(16, 17), slice(5, 5), slice(9, 99)):
            product = work.even_m2_times(sums, A, some)
            assert product.dtype == np.float32
            np.testing.assert_allclose(product / n_pairs, expected[some], **CLOSE)


@every_view
def test_triples__are_not_changed_by_what_is_made_of_them(small: Small, view: WordView) -> None:
    corpus = small[0]
    work = Triples(view, directions(corpus.n_terms, 5))
    sums = run(work, corpus)
    first = [work.moments(sums, EVEN, ODD), work.moments(sums, EVEN)]
    product = work.even_m2_times(sums, np.eye(5), slice(0, 17))
    kept = product.copy()
    product[:] = 0
    again = [work.moments(sums, EVEN, ODD), work.moments(sums, EVEN)]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.M2, other.M2)
        np.testing.assert_array_equal(one.M3, other.M3)
    np.testing.assert_array_equal(work.even_m2_times(sums, np.eye(5), slice(0, 17)), kept)


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
    W = directions(corpus.n_terms, K)
    U, U_even = (np.linalg.qr(directions(K, K, seed).astype(np.float64))[0] for seed in (6, 7))
    V, V_even = W.astype(np.float64) @ U, W.astype(np.float64) @ U_even
    how = (view.counts, view.drop_self_pairs)
    work = label_pass(view, corpus.n_labels, W, U, U_even)
    sums = run(work, corpus)
    np.testing.assert_allclose(work.moments(sums), naive.label_moments(X, Y, V, *how), **CLOSE)
    expected = naive.label_moments(X[::2], Y[::2], V_even, *how)
    np.testing.assert_allclose(work.even_moments(sums), expected, **CLOSE)
    np.testing.assert_array_equal(sums["label_counts"], Y.sum(axis=0))
    without = label_pass(view, corpus.n_labels, W, U)
    plain = run(without, corpus)
    assert "even moments" not in plain
    np.testing.assert_array_equal(without.moments(plain), work.moments(sums))


@every_view
def test_directions__equal_the_plain_formula(view: WordView) -> None:
    X, W, U = random_matrices(20, 17, 1)[0], directions(17, 4), directions(4, 4, seed=6)
    block = block_of(X, np.zeros((20, 1)))
    words, V = view.words(block), W.astype(np.float64) @ U
    counts = X if view.counts else (X > 0) * 1
    made = Directions.of(W, U.astype(np.float64), view)
    assert made.U.dtype == np.float32
    assert (made.squares is not None) == view.drop_self_pairs  # a D x K is only kept where it is needed
    Z = kernels.times(words, W)
    kept = Z.copy()
    expected = (counts @ V) ** 2 - (counts @ V**2 if view.drop_self_pairs else 0)
    np.testing.assert_allclose(made.pair_weights(words, Z), expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(Z, kept)


@every_view
@pytest.mark.parametrize("slab", [1, 3])
def test_passes__do_not_depend_on_slabs(
    small: Small, view: WordView, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = small[0]
    works = all_passes(view, corpus.n_labels, directions(corpus.n_terms, 4))
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
    U = directions(3, 3, seed=6)
    triples, labels = Triples(view, W), label_pass(view, corpus.n_labels, W, np.eye(3), U)
    moments = triples.moments(run(triples, corpus), EVEN, ODD)
    label_sums = run(labels, corpus)
    even = naive.label_moments(X[::2], Y[::2], W.astype(np.float64) @ U, True)
    np.testing.assert_allclose(exact_m2(run(Pairs(view, 17), corpus), view), naive.m2(X, True), rtol=1e-5)
    np.testing.assert_allclose(moments.M2, naive.whitened_m2(X, W, True), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moments.M3, naive.whitened_m3(X, W, True), rtol=1e-4, atol=1e-5)
    expected = naive.label_moments(X, Y, W, True)
    np.testing.assert_allclose(labels.moments(label_sums), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(labels.even_moments(label_sums), even, rtol=1e-4, atol=1e-5)


def test_passes__no_documents_sum_to_zero(small: Small) -> None:
    empty = small[0].head(0)
    view, W = WordView(drop_self_pairs=True), directions(17, 3)
    for work in all_passes(view, 5, W):
        sums = run(work, empty)
        assert sums.keys() == work.zero().keys()
        assert not any(array.any() for array in plain_sums(sums).values())
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


# -- sizes ----------------------------------------------------------------------------------------------


def test_zero_labels__single_precision_above_256_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert labels_module._DOUBLE_BYTES == 256_000_000
    assert label_bytes(32_000, 1000) == 256_000_000
    assert label_bytes(32_001, 1000) == 4 * 32_001 * 1000
    monkeypatch.setattr(labels_module, "_DOUBLE_BYTES", 8 * 12)
    for n_labels, dtype in ((4, np.float64), (5, np.float32)):
        zero = zero_labels(n_labels, 3)
        assert zero.dtype == dtype
        assert zero.shape == (n_labels, 3)
        assert not zero.any()
        assert label_bytes(n_labels, 3) == zero.nbytes


@every_view
@pytest.mark.parametrize("n_terms", [17, 2000])
def test_accumulator_bytes__are_those_of_the_sums(view: WordView, n_terms: int) -> None:
    W = np.ones((n_terms, 6), np.float32)
    works = all_passes(view, 40, W)
    works += [label_pass(view, 40, W, np.eye(6)), Triples(view, W, error_bars=False)]
    for work in works:
        size = sums_bytes(work.zero())
        small = 1000 + 8 * 40  # counts and weights of a few numbers each
        assert size - small <= work.accumulator_bytes <= size, work.name
        assert work.segment_bytes(10, 100) == work.accumulator_bytes  # all words have rows


def test_labels__in_single_precision_where_labels_are_many(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, X, Y = small
    view, W = WordView(drop_self_pairs=True), directions(17, 3)
    work = label_pass(view, corpus.n_labels, W, np.eye(3), np.eye(3))
    double = run(work, corpus)
    monkeypatch.setattr(labels_module, "_DOUBLE_BYTES", 1)
    single = run(work, corpus)
    assert single["moments"].dtype == single["even moments"].dtype == np.float32
    assert double["moments"].dtype == np.float64
    expected = naive.label_moments(X, Y, W.astype(np.float64), drop=True)
    np.testing.assert_allclose(work.moments(single), expected, **CLOSE)


def assert_same_sums(one: Sums, other: Sums) -> None:
    assert one.keys() == other.keys()
    one, other = (plain_sums(sums) for sums in (one, other))
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
    ranks=st.sampled_from(RANKS),
    seed=st.integers(0, 99),
)
@settings(max_examples=12)
def test_passes__do_not_depend_on_how_the_corpus_is_cut(
    n: int,
    block_bytes: int,
    accumulator_bytes: int,
    rows: str,
    where: float,
    view: WordView,
    ranks: tuple[int, int],
    seed: int,
) -> None:
    X, Y = random_matrices(n, 11, 3, seed)
    works = all_passes(view, 3, directions(11, 3, seed))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        rank_words(patch, *ranks)
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
