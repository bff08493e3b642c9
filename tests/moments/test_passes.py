"""Passes 1 to 3 give the moments that listing every word of every document gives."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from tests import naive_moments as naive
from tests.conftest import random_matrices
from tests.passes.conftest import run
from tests.rows import block_of, sparse_rows
from threepass import Corpus, ingest_matrices
from threepass.moments.labels import Directions, LabelPairs, even_label_moments, label_moments
from threepass.moments.pairs import Pairs, Sketch, exact_m2, sketched_m2
from threepass.moments.triples import Triples
from threepass.moments.words import WordView
from threepass.passes import kernels
from threepass.passes.label_rows import DOUBLE_BYTES, label_bytes, zero_labels
from threepass.passes.tall import RANKS

Small = tuple[Corpus, np.ndarray, np.ndarray]
VIEWS = [WordView(counts, drop) for counts in (False, True) for drop in (False, True)]
every_view = pytest.mark.parametrize(
    "view", VIEWS, ids=["binary-keep", "binary-drop", "counts-keep", "counts-drop"]
)
parts = pytest.mark.parametrize("part", ["whole", "head", "test", "one block"])
HALVES = {("even", "odd"): slice(None), ("even",): slice(0, None, 2), ("odd",): slice(1, None, 2)}
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
) -> LabelPairs:
    even = None if U_even is None else Directions.of(W, U_even, view)
    return LabelPairs(view, W, Directions.of(W, U, view), n_labels, even)


def sketch_of(W: np.ndarray) -> Sketch:
    return Sketch.of(W, np.arange(len(W)), len(W))


def chosen(small: Small, part: str) -> Small:
    """A view of the small corpus, and the dense rows that are in it."""
    corpus, X, Y = small
    first = int(corpus.block_rows[0])
    view = {
        "whole": lambda: corpus,
        "head": lambda: corpus.head(19),
        "test": lambda: corpus.split(test=0.1)[1],
        "one block": lambda: corpus.head(first),
    }[part]()
    return view, X[view.doc_ids], Y[view.doc_ids]


def test_chosen__some_blocks_are_empty(small: Small) -> None:
    assert small[0].n_blocks > 4
    for part in ("head", "test", "one block"):
        assert (chosen(small, part)[0].block_rows == 0).any()


@every_view
@parts
def test_pairs__equal_the_listed_tokens_and_pairs(small: Small, part: str, view: WordView) -> None:
    corpus, X, Y = chosen(small, part)
    how = (view.counts, view.drop_self_pairs)
    sums = run(Pairs(view, corpus.n_terms), corpus)
    assert asdict(sums.statistics) == naive.statistics(X, Y, *how)
    np.testing.assert_array_equal(sums.term_totals, (X if view.counts else X > 0).sum(axis=0))
    M2 = exact_m2(sums, view)
    assert sums.pairs is None  # they have left the sums
    np.testing.assert_allclose(M2, naive.m2(X, *how), rtol=1e-12, atol=1e-15)
    assert M2.sum() == pytest.approx(1)


@every_view
@parts
def test_sketched_m2__equals_m2_times_the_sketch(small: Small, part: str, view: WordView) -> None:
    corpus, X, _ = chosen(small, part)
    for p in (1, 19) if part == "whole" else (5,):
        sketch = sketch_of(directions(corpus.n_terms, p))
        kept = sketch[:].copy()
        sums = run(Pairs(view, corpus.n_terms, sketch), corpus)
        memory = sums.product.rows
        product = sketched_m2(sums, view, sketch)
        assert product is memory  # made in the sums, which it leaves
        assert sums.product is None
        assert product.dtype == np.float32
        np.testing.assert_array_equal(sketch[:], kept)
        expected = naive.m2(X, view.counts, view.drop_self_pairs) @ sketch[:].astype(np.float64)
        np.testing.assert_allclose(product, expected, **CLOSE)


@every_view
def test_moments__of_frequent_and_of_rare_words(tmp_path: Path, view: WordView) -> None:
    """Words in double precision, words with a row in every segment, and all the others."""
    D, K = RANKS.frequent + 400, 3
    rng = np.random.default_rng(0)
    X = np.zeros((30, D))
    words = np.concatenate([rng.choice(D, 60, replace=False), np.arange(0, D, D // 9)])
    X[:, words] = rng.poisson(0.5, (30, len(words)))
    corpus = ingest_matrices(X, np.ones((30, 2)), tmp_path / "wide.zarr", block_bytes=2000)
    assert corpus.n_blocks > 4
    X = X[:, corpus.term_ids]
    x = X if view.counts else (X > 0) * 1.0
    n = x.sum(axis=1)
    n_pairs = view.pair_weight(n).sum()
    W = directions(D, K)
    sketch = sketch_of(W)
    products = x.T @ (x @ sketch[:].astype(np.float64))
    products -= view.drop_self_pairs * x.sum(axis=0)[:, None] * sketch[:]
    product = sketched_m2(run(Pairs(view, D, sketch), corpus), view, sketch)
    np.testing.assert_allclose(product, products / n_pairs, **CLOSE)
    work = Triples(view, W)
    sums = run(work, corpus)
    even = x[::2]
    products = even.T @ (even @ W.astype(np.float64)) - view.drop_self_pairs * even.sum(axis=0)[:, None] * W
    some = slice(RANKS.frequent - 7, RANKS.frequent + 90)
    np.testing.assert_allclose(work.even_m2_times(sums.even, np.eye(K), some), products[some], **CLOSE)
    used = np.flatnonzero(X.any(axis=0))
    moments = work.moments(*sums.halves)
    expected = naive.m2_by_products(X[:, used], view.counts, view.drop_self_pairs)
    np.testing.assert_allclose(moments.M2, W[used].T @ expected @ W[used], **CLOSE)
    Z = x @ W.astype(np.float64)
    M3 = naive.triple_sum(Z)
    if view.drop_self_pairs:  # by the closed form: listing all triples would take a while
        A, c = x.T @ Z, x.sum(axis=0)
        once = np.einsum("vi,vj,vk->ijk", A[used], W[used], W[used])
        M3 -= once + once.transpose(1, 0, 2) + once.transpose(1, 2, 0)
        M3 += 2 * np.einsum("v,vi,vj,vk->ijk", c[used], W[used], W[used], W[used])
    np.testing.assert_allclose(moments.M3, M3 / view.triple_weight(n).sum(), **CLOSE)


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
@parts
def test_triples__moments_equal_the_listed_pairs_and_triples(small: Small, part: str, view: WordView) -> None:
    corpus, X, Y = chosen(small, part)
    for K in (1, 19) if part == "whole" else (5,):
        work = Triples(view, directions(corpus.n_terms, K))
        W, how = work.W.astype(np.float64), (view.counts, view.drop_self_pairs)
        sums = run(work, corpus)
        for halves, rows in HALVES.items():
            moments = work.moments(*(getattr(sums, half) for half in halves))
            np.testing.assert_allclose(moments.M2, naive.whitened_m2(X[rows], W, *how), **CLOSE)
            np.testing.assert_allclose(moments.M3, naive.whitened_m3(X[rows], W, *how), **CLOSE)
        A = np.random.default_rng(2).standard_normal((K, 3))
        n_pairs = naive.statistics(X[::2], Y[::2], *how)["pairs"]
        expected = naive.m2(X[::2], *how) @ W @ A
        for some in (slice(0, 17), slice(4, 17), slice(16, 17), slice(5, 5), slice(9, 99)):
            product = work.even_m2_times(sums.even, A, some)
            assert product.dtype == np.float32
            np.testing.assert_allclose(product / n_pairs, expected[some], **CLOSE)


@every_view
def test_triples__are_not_changed_by_what_is_made_of_them(small: Small, view: WordView) -> None:
    corpus = small[0]
    work = Triples(view, directions(corpus.n_terms, 5))
    sums = run(work, corpus)
    first = [work.moments(*sums.halves), work.moments(sums.even)]
    product = work.even_m2_times(sums.even, np.eye(5), slice(0, 17))
    kept = product.copy()
    product[:] = 0
    again = [work.moments(*sums.halves), work.moments(sums.even)]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.M2, other.M2)
        np.testing.assert_array_equal(one.M3, other.M3)
    np.testing.assert_array_equal(work.even_m2_times(sums.even, np.eye(5), slice(0, 17)), kept)
    without = replace(work, error_bars=False)
    assert (without.zero().even.products is not None) == view.drop_self_pairs
    np.testing.assert_array_equal(without.moments(*run(without, corpus).halves).M3, first[0].M3)


@every_view
@parts
def test_labels__moments_equal_the_listed_labels_and_pairs(small: Small, part: str, view: WordView) -> None:
    corpus, X, Y = chosen(small, part)
    K = 1 if part == "head" else 19
    W = directions(corpus.n_terms, K)
    U, U_even = (np.linalg.qr(directions(K, K, seed).astype(np.float64))[0] for seed in (6, 7))
    V, V_even = W.astype(np.float64) @ U, W.astype(np.float64) @ U_even
    how = (view.counts, view.drop_self_pairs)
    sums = run(label_pass(view, corpus.n_labels, W, U, U_even), corpus)
    np.testing.assert_allclose(label_moments(sums), naive.label_moments(X, Y, V, *how), **CLOSE)
    expected = naive.label_moments(X[::2], Y[::2], V_even, *how)
    np.testing.assert_allclose(even_label_moments(sums), expected, **CLOSE)
    np.testing.assert_array_equal(sums.label_counts, Y.sum(axis=0))
    plain = run(label_pass(view, corpus.n_labels, W, U), corpus)
    assert plain.even_moments is None
    np.testing.assert_array_equal(label_moments(plain), label_moments(sums))


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


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_moments__do_not_depend_on_the_scale_of_fractions(small: Small, scale: float, tmp_path: Path) -> None:
    _, X, Y = small
    view = WordView(counts=True)
    corpus = ingest_matrices(X * scale, Y, tmp_path / "scaled.zarr")
    X = X[:, corpus.term_ids]
    W = directions(corpus.n_terms, 3)
    U = directions(3, 3, seed=6)
    triples, labels = Triples(view, W), label_pass(view, corpus.n_labels, W, np.eye(3), U)
    moments = triples.moments(*run(triples, corpus).halves)
    label_sums = run(labels, corpus)
    even = naive.label_moments(X[::2], Y[::2], W.astype(np.float64) @ U, True)
    np.testing.assert_allclose(exact_m2(run(Pairs(view, 17), corpus), view), naive.m2(X, True), rtol=1e-5)
    np.testing.assert_allclose(moments.M2, naive.whitened_m2(X, W, True), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moments.M3, naive.whitened_m3(X, W, True), rtol=1e-4, atol=1e-5)
    expected = naive.label_moments(X, Y, W, True)
    np.testing.assert_allclose(label_moments(label_sums), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(even_label_moments(label_sums), even, rtol=1e-4, atol=1e-5)


def test_moments__of_no_documents_are_zero(small: Small) -> None:
    view, W = WordView(drop_self_pairs=True), directions(17, 3)
    triples, labels = Triples(view, W), label_pass(view, 5, W, np.eye(3), np.eye(3))
    moments = triples.moments(*run(triples, small[0].head(0)).halves)
    sums = run(labels, small[0].head(0))
    for array in (moments.M2, moments.M3, label_moments(sums), even_label_moments(sums)):
        assert not array.any()


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


# -- many labels ----------------------------------------------------------------------------------------


def test_zero_labels__single_precision_above_256_megabytes() -> None:
    assert label_bytes(32_000, 1000) == DOUBLE_BYTES == 256_000_000
    assert label_bytes(32_001, 1000) == 4 * 32_001 * 1000
    for n_labels, dtype in ((4, np.float64), (5, np.float32)):
        zero = zero_labels(n_labels, 3, most_double=8 * 12)
        assert zero.dtype == dtype
        assert zero.shape == (n_labels, 3)
        assert not zero.any()
        assert label_bytes(n_labels, 3, most_double=8 * 12) == zero.nbytes


def test_labels__in_single_precision_where_labels_are_many(small: Small) -> None:
    corpus, X, Y = small
    view, W = WordView(drop_self_pairs=True), directions(17, 3)
    work = label_pass(view, corpus.n_labels, W, np.eye(3), np.eye(3))
    sums = work.zero()
    sums.moments, sums.even_moments = (zero_labels(5, 3, most_double=1) for _ in range(2))
    for block in corpus.blocks():
        work.add(sums, block)
    assert sums.moments.dtype == sums.even_moments.dtype == np.float32
    expected = naive.label_moments(X, Y, W.astype(np.float64), drop=True)
    np.testing.assert_allclose(label_moments(sums), expected, **CLOSE)
