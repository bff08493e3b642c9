"""Whitening: W'M2W = I and the true eigenvalues, exactly or from a sketch, for any M2 of documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg

from tests import naive_moments as naive
from tests.moments.conftest import learn
from threepass import Corpus, InputError, ingest_matrices, ingest_planted
from threepass.corpus.rows import SparseRows
from threepass.ingest.synthetic import Lengths, Planted
from threepass.moments import whitening as module
from threepass.moments.method import DEFAULT_TOPICS
from threepass.moments.sample import Sampling, read_sample, sample_product, sampled_blocks
from threepass.moments.triples import WhitenedMoments
from threepass.moments.whitening import (
    Whitening,
    exact_whitening,
    rotated,
    rotation,
    sketched_whitening,
    warm_start,
)
from threepass.moments.words import WordView
from threepass.passes.plan import OVERSAMPLING

MODEL = Planted(2500, 700, 8, 8, words=Lengths(30, 25), labels=Lengths(2, 2), distinct=False, seed=3)
VIEWS = [WordView(counts, drop) for counts in (False, True) for drop in (False, True)]
every_view = pytest.mark.parametrize(
    "view", VIEWS, ids=["binary-keep", "binary-drop", "counts-keep", "counts-drop"]
)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, np.ndarray]:
    path = tmp_path_factory.mktemp("whitening") / "planted.zarr"
    corpus = ingest_planted(MODEL, path, block_bytes=45_000)
    assert corpus.n_blocks > 10
    return corpus, corpus.to_scipy()[0].toarray().astype(np.float64)


def semidefinite(D: int, rank: int, seed: int = 0) -> np.ndarray:
    """(D, D) of this rank, with eigenvalues that fall like those of text."""
    basis = np.linalg.qr(np.random.default_rng([seed, D]).standard_normal((D, rank)))[0]
    return (basis / np.arange(1, rank + 1)) @ basis.T


def sketch_of(M2: np.ndarray, width: int) -> np.ndarray:
    return warm_start(lambda omega: (M2 @ omega).astype(np.float32), len(M2), width, seed=0)


def from_sketch(M2: np.ndarray, K: int, width: int, **options: Any) -> Whitening:
    sketch = sketch_of(M2, width)
    return sketched_whitening((M2 @ sketch).astype(np.float32), sketch, K, **options)


def basis_of(whitening: Whitening) -> np.ndarray:
    """(D, K): Omega, with orthonormal columns."""
    return whitening.W * np.sqrt(whitening.eigenvalues).astype(whitening.W.dtype)


def whitening_of(fit: Any) -> Whitening:
    """Words in the order of the corpus."""
    moments = fit.moments
    return Whitening(moments.W[fit.corpus.term_ids], moments.eigenvalues)


def assert_whitens(whitening: Whitening, M2: np.ndarray, tolerance: float) -> None:
    K = len(whitening.eigenvalues)
    np.testing.assert_allclose(whitening.W.T @ M2 @ whitening.W, np.eye(K), atol=tolerance)
    np.testing.assert_allclose(basis_of(whitening).T @ basis_of(whitening), np.eye(K), atol=tolerance)
    assert (whitening.eigenvalues > 0).all()
    assert (np.diff(whitening.eigenvalues) <= 0).all()
    W = np.asarray(whitening.W, np.float64)
    pseudo_inverse = W @ np.linalg.inv(W.T @ W)
    np.testing.assert_allclose(
        whitening.W * whitening.eigenvalues, pseudo_inverse, atol=tolerance * whitening.eigenvalues[0] ** 0.5
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whitening__of_a_basis(dtype: type) -> None:
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 4)))[0].astype(dtype)
    eigenvalues = np.array([0.4, 0.1, 1e-3, 1e-6])
    kept = basis.copy()
    whitening = Whitening.of_basis(basis, eigenvalues)
    assert whitening.W.dtype == dtype
    assert whitening.eigenvalues is eigenvalues
    close = {"rtol": 1e-12 if dtype is np.float64 else 5e-7}
    np.testing.assert_allclose(whitening.W, basis / np.sqrt(eigenvalues), **close)
    np.testing.assert_array_equal(basis, kept)


# -- exact ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("D", "K", "solver"),
    [(40, 5, "LAPACK"), (500, 5, "LAPACK"), (501, 20, "ARPACK"), (520, 129, "ARPACK"), (520, 130, "LAPACK")],
)
def test_exact__both_solvers_give_the_top_eigenpairs(
    D: int, K: int, solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    M2 = semidefinite(D, D)
    called = []
    for where, name, label in (
        (scipy.linalg, "eigh", "LAPACK"),
        (scipy.sparse.linalg, "eigsh", "ARPACK"),
    ):
        plain = getattr(where, name)

        def spy(*args: Any, plain: Any = plain, label: str = label, **kwargs: Any) -> Any:
            called.append(label)
            return plain(*args, **kwargs)

        monkeypatch.setattr(where, name, spy)
    whitening = exact_whitening(M2, K)
    assert called == [solver]
    np.testing.assert_allclose(whitening.eigenvalues, 1 / np.arange(1, K + 1), rtol=1e-9)
    assert_whitens(whitening, M2, 1e-8)


@every_view
@pytest.mark.parametrize(("D", "K"), [(300, 5), (700, 20)])
def test_exact__whitens_a_planted_corpus(
    planted: tuple[Corpus, np.ndarray], view: WordView, D: int, K: int
) -> None:
    M2 = naive.m2_by_products(planted[1][:, :D], view.counts, view.drop_self_pairs)
    whitening = exact_whitening(M2, K)
    np.testing.assert_allclose(whitening.eigenvalues, np.linalg.eigvalsh(M2)[::-1][:K], rtol=1e-8)
    further = np.linalg.eigvalsh(M2)[::-1][K : K + len(whitening.further)]
    np.testing.assert_allclose(whitening.further, further, rtol=1e-6, atol=1e-12)
    assert_whitens(whitening, M2, 1e-7)


def test_exact__where_lapack_gives_up_on_some_eigenvalues(monkeypatch: pytest.MonkeyPatch) -> None:
    M2 = semidefinite(40, 40)
    expected = exact_whitening(M2, 5)

    def give_up(*_: Any, **__: Any) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(scipy.linalg, "eigh", give_up)
    found = exact_whitening(M2, 5)
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues)
    np.testing.assert_allclose(abs(found.W), abs(expected.W), atol=1e-8)


def test_exact__one_seed_one_result() -> None:
    M2 = semidefinite(600, 50)
    one, other = (exact_whitening(M2, 5, seed=3) for _ in range(2))
    np.testing.assert_array_equal(basis_of(one), basis_of(other))


# -- from a sketch --------------------------------------------------------------------------------------


def test_warm_start__is_orthonormal_and_finds_the_subspace() -> None:
    M2 = semidefinite(400, 400)
    sketch = sketch_of(M2, 60)
    assert sketch.dtype == np.float32
    np.testing.assert_allclose(sketch.T @ sketch, np.eye(60), atol=1e-5)
    top = basis_of(exact_whitening(M2, 10))
    assert np.linalg.svd(sketch.T @ top, compute_uv=False).min() > 0.999


@pytest.mark.parametrize(("D", "rank", "width"), [(30, 30, 100), (200, 3, 50)])
def test_warm_start__survives_a_small_or_degenerate_sample(D: int, rank: int, width: int) -> None:
    sketch = sketch_of(semidefinite(D, rank), width)
    assert sketch.shape == (D, min(D, width))
    np.testing.assert_allclose(sketch.T @ sketch, np.eye(min(D, width)), atol=1e-4)


def test_orthonormal__zero_and_repeated_columns() -> None:
    column = np.ones((50, 1), np.float32)
    for matrix in (np.zeros((50, 4), np.float32), np.repeat(column, 4, axis=1)):
        for n_turns in (1, 2):
            Q = module._orthonormal(matrix.copy(), n_turns)
            np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-5)


@pytest.mark.parametrize(("n_turns", "atol"), [(1, 3e-3), (2, 1e-5)])
def test_orthonormal__in_place_and_of_the_same_span(n_turns: int, atol: float) -> None:
    """One turn errs by the square of how unlike in length the directions are; the second mends it."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((500, 8)))[0] * np.geomspace(1, 0.01, 8)
    matrix = (U @ np.linalg.qr(rng.standard_normal((8, 8)))[0]).astype(np.float32)
    before = matrix.astype(np.float64)
    Q = module._orthonormal(matrix, n_turns)
    assert np.shares_memory(Q, matrix)
    assert Q.dtype == np.float32
    np.testing.assert_allclose(Q.T @ Q, np.eye(8), atol=atol)
    outside = before - Q @ np.linalg.lstsq(Q.astype(np.float64), before, rcond=None)[0]
    assert np.linalg.norm(outside) < 1e-5 * np.linalg.norm(before)


def test_warm_start__threads_do_not_change_a_bit() -> None:
    M2 = semidefinite(300, 300)
    one, other = (
        warm_start(lambda omega: (M2 @ omega).astype(np.float32), 300, 20, seed=0, n_threads=n)
        for n in (1, 3)
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("is_semidefinite", [True, False])
def test_sketched__threads_do_not_change_a_bit(is_semidefinite: bool) -> None:
    M2 = semidefinite(300, 300)
    sketch = sketch_of(M2, 40)
    one, other = (
        sketched_whitening(
            (M2 @ sketch).astype(np.float32), sketch, 6, semidefinite=is_semidefinite, n_threads=n
        )
        for n in (1, 3)
    )
    np.testing.assert_array_equal(one.W, other.W)
    np.testing.assert_array_equal(one.eigenvalues, other.eigenvalues)


def test_sketched__overwrites_the_product_but_not_the_sketch() -> None:
    M2 = semidefinite(80, 80)
    sketch = sketch_of(M2, 40)
    product, kept = (M2 @ sketch).astype(np.float32), sketch.copy()
    before = product.copy()
    whitening = sketched_whitening(product, sketch, 6)
    assert abs(product - before).max() > 0.01
    np.testing.assert_array_equal(sketch, kept)
    assert not np.shares_memory(whitening.W, product)  # which may be let go of
    assert whitening.W.base is None or whitening.W.base.nbytes == whitening.W.nbytes


@pytest.mark.parametrize("is_semidefinite", [True, False])
def test_sketched__equals_exact_when_the_sketch_spans_everything(is_semidefinite: bool) -> None:
    M2 = semidefinite(80, 80)
    if not is_semidefinite:
        M2 -= 0.02 * np.eye(80)
    whitening = from_sketch(M2, 6, 80, semidefinite=is_semidefinite)
    np.testing.assert_allclose(whitening.eigenvalues, np.linalg.eigvalsh(M2)[::-1][:6], rtol=1e-4)
    n_further = 10 if is_semidefinite else 0  # an indefinite core is good for the first K alone
    np.testing.assert_allclose(whitening.further, np.linalg.eigvalsh(M2)[::-1][6 : 6 + n_further], rtol=1e-3)
    assert_whitens(whitening, M2, 1e-3)


def test_sketched__a_large_negative_eigenvalue_is_not_taken_for_a_topic() -> None:
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((200, 200)))[0]
    values = np.concatenate([[1, 0.5, 0.3], -np.linspace(0.9, 0.01, 40), np.zeros(157)])
    M2 = (basis * values) @ basis.T
    whitening = from_sketch(M2, 5, 60, semidefinite=False)
    np.testing.assert_allclose(whitening.eigenvalues, [1, 0.5, 0.3], rtol=0.02)


@every_view
def test_learn__exact_and_sketch_whiten_the_corpus(
    planted: tuple[Corpus, np.ndarray], view: WordView
) -> None:
    corpus, X = planted
    M2 = naive.m2_by_products(X, view.counts, view.drop_self_pairs)
    fits = [learn(corpus, 8, how, view=view) for how in ("exact", "sketch")]
    exact, sketch = (whitening_of(fit) for fit in fits)
    np.testing.assert_allclose(exact.eigenvalues, np.linalg.eigvalsh(M2)[::-1][:8], rtol=1e-4)
    np.testing.assert_allclose(sketch.eigenvalues, exact.eigenvalues, rtol=0.03)
    assert_whitens(exact, M2, 1e-5)
    assert_whitens(sketch, M2, 1e-5)
    errors = [fit.stats["whitening_error"] for fit in fits]
    assert errors[0] < 1e-5
    assert errors[0] < errors[1] < 0.2
    # both span the same words, all but for the last and weakest direction
    overlap = np.linalg.svd(basis_of(exact).T @ basis_of(sketch), compute_uv=False)
    assert overlap[-2] > 0.98


# -- the sample -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("documents", [1, 5])
def test_sample__a_view_that_ends_in_a_sampled_block_is_sampled_well(
    planted: tuple[Corpus, np.ndarray], documents: int
) -> None:
    corpus, _ = planted
    first = sampled_blocks(corpus)[0]
    view = corpus.head(int(corpus.block_rows[:first].sum()) + documents)
    sample, n_blocks, _ = read_sample(view, keep=True)
    share = n_blocks / view.n_blocks
    assert sample.n_rows >= 0.5 * share * view.n_docs


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_sampled_blocks__have_documents_and_are_spread(
    planted: tuple[Corpus, np.ndarray], share: float
) -> None:
    corpus, how = planted[0], Sampling(share=share)
    for view in (corpus, corpus.head(corpus.n_docs // 2), corpus.split(test=0.05)[1], corpus.head(1)):
        chosen = sampled_blocks(view, how)
        assert chosen == sorted(set(chosen))
        assert 1 <= len(chosen) <= max(1, round(share * view.n_blocks))
        assert (view.block_rows[chosen] > 0).all()
    assert len(sampled_blocks(corpus, how)) == max(1, round(share * corpus.n_blocks))


def test_sampled_blocks__fewer_where_blocks_are_large(planted: tuple[Corpus, np.ndarray]) -> None:
    corpus, _ = planted
    largest = max(8 * block.x_nnz + 16 * block.n_docs for block in corpus.info.blocks)
    for affordable in (1, 3):
        assert len(sampled_blocks(corpus, Sampling(1.0, most_bytes=affordable * largest))) == affordable
    assert len(sampled_blocks(corpus, Sampling(1.0, most_bytes=1))) == 1


def test_read_sample__rows_of_the_blocks_and_what_may_be_kept_of_them(
    planted: tuple[Corpus, np.ndarray],
) -> None:
    corpus, X = planted
    numbers = sampled_blocks(corpus, Sampling(0.5))
    starts = np.concatenate([[0], np.cumsum(corpus.block_rows)])
    rows = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in numbers])
    sample, n_blocks, held = read_sample(corpus, True, Sampling(0.5))
    assert n_blocks == len(numbers) > 3
    assert list(held) == numbers
    np.testing.assert_array_equal(sample.to_scipy().toarray(), X[rows])
    for number, words in held.items():
        np.testing.assert_array_equal(words.to_scipy().toarray(), X[starts[number] : starts[number + 1]])
    assert read_sample(corpus, keep=False)[2] == {}
    two = sum(held[number].nbytes for number in numbers[:2])
    fewer = read_sample(corpus, True, Sampling(0.5, most_held=two))[2]
    assert 0 < len(fewer) < n_blocks
    assert sum(words.nbytes for words in fewer.values()) <= two


def test_read_sample__every_so_many_documents_of_large_blocks(planted: tuple[Corpus, np.ndarray]) -> None:
    corpus, X = planted
    (number,) = sampled_blocks(corpus, Sampling(0.0))
    first, n = int(corpus.block_rows[:number].sum()), int(corpus.block_rows[number])
    for step in (3, n):
        how = Sampling(0.0, fewest_docs=n / step)  # type: ignore[arg-type]
        sample, n_blocks, held = read_sample(corpus, True, how)
        assert n_blocks == 1
        np.testing.assert_array_equal(sample.to_scipy().toarray(), X[first : first + n : step])
        assert held[number].n_rows == n  # what is kept for pass 1 is the whole block


@every_view
def test_sample_product__is_m2_of_the_sample_times_the_sketch(
    planted: tuple[Corpus, np.ndarray], view: WordView
) -> None:
    corpus, X = planted
    sample = corpus.block(0).X
    M2 = naive.m2_by_products(X[: sample.n_rows], view.counts, view.drop_self_pairs)
    omega = np.random.default_rng(0).standard_normal((corpus.n_terms, 3), dtype=np.float32)
    rows = view.words_of(sample)
    product = sample_product(rows, 1, view.drop_self_pairs)(omega.copy())  # it is overwritten
    n_pairs = view.pair_weight(view.lengths(rows)).sum()
    np.testing.assert_allclose(product / n_pairs, M2 @ omega, rtol=1e-4, atol=1e-6)
    for n_threads in (2, 5):
        again = sample_product(rows, n_threads, view.drop_self_pairs)(omega.copy())
        np.testing.assert_array_equal(again, product)
    # the same documents many times: a few thousand are multiplied at a time
    many = SparseRows.concatenate([rows] * (9000 // rows.n_rows + 1))
    times = many.n_rows // rows.n_rows
    found = sample_product(many, 2, view.drop_self_pairs)(omega.copy()) / times
    np.testing.assert_allclose(found, product, rtol=1e-4, atol=1e-2)


def test_learn__words_outside_the_sample_are_learned_too(tmp_path: Path) -> None:
    """The sample knows nothing of them; pass 1 does."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(3000, 0.1), 4)
    X = np.array([rng.multinomial(60, topics[d % 4]) for d in range(1500)])
    X[600:900, ::2] = 0  # the middle, from which the sample is taken
    corpus = ingest_matrices(X, np.ones((1500, 2)), tmp_path / "c.zarr", block_bytes=60_000)
    sample, n_blocks, _ = read_sample(corpus, keep=True)
    words = sample.compact()[1]
    assert n_blocks == 1
    # enough for the sketch to be made of these alone
    assert 4 * (4 + OVERSAMPLING) < len(words) < 0.4 * corpus.n_terms
    exact, sketch = (whitening_of(learn(corpus, 4, how)) for how in ("exact", "sketch"))
    np.testing.assert_allclose(sketch.eigenvalues, exact.eigenvalues, rtol=0.03)
    overlap = np.linalg.svd(basis_of(exact).T @ basis_of(sketch), compute_uv=False)
    assert overlap.min() > 0.97


@pytest.mark.parametrize("n_words", [0, 2, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_learn__a_sample_with_few_words_or_none_spoils_nothing(tmp_path: Path, n_words: int) -> None:
    X = np.random.default_rng(0).poisson(0.3, (900, 30))
    X[300:600] = 0
    X[450, :n_words] = 1
    corpus = ingest_matrices(X, np.ones((900, 2)), tmp_path / "c.zarr", block_bytes=4000)
    assert read_sample(corpus, keep=True)[0].nnz == n_words
    exact, sketch = (learn(corpus, 3, how, prior="uniform").moments for how in ("exact", "sketch"))
    np.testing.assert_allclose(sketch.eigenvalues, exact.eigenvalues, rtol=1e-3)


# -- rotation -------------------------------------------------------------------------------------------


def made_exact(rough: Whitening, measured: np.ndarray) -> tuple[Whitening, np.ndarray]:
    R, eigenvalues = rotation(rough.eigenvalues, measured)
    kept = rough.W.copy()  # it is overwritten
    return rotated(replace(rough, W=kept), R, eigenvalues), R


def test_rotated__makes_a_rough_whitening_exact_in_its_own_subspace() -> None:
    M2 = semidefinite(120, 120)
    rng = np.random.default_rng(4)
    basis = np.linalg.qr(basis_of(exact_whitening(M2, 6)) + 0.02 * rng.standard_normal((120, 6)))[0]
    rough = Whitening.of_basis(basis, np.diag(basis.T @ M2 @ basis) * np.linspace(0.7, 1.3, 6))
    measured = rough.W.T @ M2 @ rough.W
    assert abs(measured - np.eye(6)).max() > 0.2
    whitening, R = made_exact(rough, measured)
    assert_whitens(whitening, M2, 1e-10)
    np.testing.assert_allclose(whitening.W, rough.W @ R, atol=1e-10)
    np.testing.assert_allclose(basis @ (basis.T @ basis_of(whitening)), basis_of(whitening), atol=1e-10)
    np.testing.assert_allclose(whitening.eigenvalues, np.linalg.eigvalsh(basis.T @ M2 @ basis)[::-1])


def test_rotated__carries_a_tensor() -> None:
    rng = np.random.default_rng(5)
    X = rng.poisson(0.5, (30, 12))
    basis = np.linalg.qr(rng.standard_normal((12, 4)))[0]
    rough = Whitening.of_basis(basis, np.array([0.4, 0.3, 0.2, 0.1]))
    M2 = naive.whitened_m2(X, rough.W)
    whitening, R = made_exact(rough, M2)
    carried = WhitenedMoments(M2, naive.whitened_m3(X, rough.W)).carried(R)
    np.testing.assert_allclose(carried.M2, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(carried.M3, naive.whitened_m3(X, whitening.W), atol=1e-10)


def test_rotated__drops_what_is_not_positive() -> None:
    rough = Whitening.of_basis(np.eye(10)[:, :3], np.array([3.0, 2.0, 1.0]))
    whitening, R = made_exact(rough, np.diag([1.0, -0.2, 1.1]))
    assert R.shape == (3, 2)
    np.testing.assert_allclose(whitening.eigenvalues, [3, 1.1])
    np.testing.assert_allclose(whitening.W, rough.W @ R)


# -- too little to whiten -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [exact_whitening, lambda M2, K: from_sketch(M2, K, 60)])
@pytest.mark.parametrize("D", [40, 700])
@pytest.mark.parametrize("rank", [1, 3])
def test_whitening__fewer_topics_than_wanted(make: Any, D: int, rank: int) -> None:
    M2 = semidefinite(D, rank)
    whitening = make(M2, 5)
    assert whitening.W.shape == (D, rank)
    np.testing.assert_allclose(whitening.eigenvalues, 1 / np.arange(1, rank + 1), rtol=1e-4)
    assert_whitens(whitening, M2, 1e-3)


@pytest.mark.parametrize("make", [exact_whitening, lambda M2, K: from_sketch(M2, K, 60)])
def test_whitening__more_topics_than_words(make: Any) -> None:
    M2 = semidefinite(6, 6)
    whitening = make(M2, 9)
    assert_whitens(whitening, M2, 1e-3)


@pytest.mark.parametrize("whitening", ["exact", "sketch"])
def test_learn__identical_documents_are_two_topics_at_most(tmp_path: Path, whitening: Any) -> None:
    X = np.zeros((60, 30))
    X[::3, :9] = 1
    X[1::3, 5:20] = 1
    X[2::3, 5:20] = 1
    corpus = ingest_matrices(X, np.ones((60, 2)), tmp_path / "two.zarr", block_bytes=2000)
    with pytest.warns(UserWarning, match="Only 2 topics instead of 4"):
        moments = learn(corpus, 4, whitening, prior="uniform").moments
    assert moments.O.shape == (30, 2)
    assert moments.Q.shape == moments.pi.shape * 2
    np.testing.assert_allclose(moments.O.sum(axis=0), 1, rtol=1e-5)


def test_learn__fewer_topics_than_the_default_are_a_note_and_no_labels_a_warning(tmp_path: Path) -> None:
    X = np.repeat([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], 30, axis=0)
    corpus = ingest_matrices(X, np.zeros((60, 2)), tmp_path / "two.zarr")
    with pytest.warns(UserWarning, match="No document has a label"):
        fit = learn(corpus, DEFAULT_TOPICS)
    assert fit.moments.n_topics == 2
    assert fit.stats["notes"][0].startswith("Only 2 topics instead of 100")
    assert fit.moments.Q.tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize("whitening", ["exact", "sketch"])
@pytest.mark.parametrize("D", [30, 700])
def test_learn__identical_documents_are_one_sure_topic(tmp_path: Path, whitening: Any, D: int) -> None:
    X = np.zeros((60, D))
    X[:, np.random.default_rng(0).choice(D, 15, replace=False)] = 1
    corpus = ingest_matrices(X, np.ones((60, 2)), tmp_path / "one.zarr", block_bytes=2000)
    moments = learn(corpus, 1, whitening).moments  # no warning: warnings are errors here
    assert moments.pi.tolist() == [1]
    np.testing.assert_allclose(moments.O[:, 0], X[0] / 15, atol=1e-5)


@pytest.mark.parametrize("D", [10, 600])
def test_whitening__nothing_positive_is_refused(D: int) -> None:
    sketch = np.eye(D, 5, dtype=np.float32)
    with pytest.raises(InputError, match="No two words"):
        exact_whitening(-np.eye(D), 3)
    for is_semidefinite in (True, False):
        for product in (-sketch, np.zeros_like(sketch)):
            with pytest.raises(InputError, match="No two words"):
                sketched_whitening(product, sketch, 3, semidefinite=is_semidefinite)


@pytest.mark.parametrize("whitening", ["exact", "sketch"])
def test_learn__documents_of_one_word_are_refused_without_self_pairs(tmp_path: Path, whitening: Any) -> None:
    corpus = ingest_matrices(np.eye(12), np.ones((12, 2)), tmp_path / "eye.zarr")
    with pytest.raises(InputError, match="No document has two words"):
        learn(corpus, 2, whitening, view=WordView(drop_self_pairs=True))


@pytest.mark.filterwarnings("ignore:The topic weights:UserWarning", "ignore:Only .* topics:UserWarning")
@pytest.mark.parametrize("whitening", ["exact", "sketch"])
def test_learn__an_indefinite_m2_does_no_harm(tmp_path: Path, whitening: Any) -> None:
    # pairs along a cycle: half of the eigenvalues, 2 cos(t), are negative
    X = np.eye(40) + np.roll(np.eye(40), 1, axis=1)
    corpus = ingest_matrices(X, np.ones((40, 2)), tmp_path / "cycle.zarr", block_bytes=1000)
    M2 = naive.m2_by_products(X[:, corpus.term_ids], drop=True)
    assert np.linalg.eigvalsh(M2)[0] < -0.02
    moments = learn(corpus, 5, whitening, view=WordView(drop_self_pairs=True)).moments
    np.testing.assert_allclose(moments.eigenvalues, np.linalg.eigvalsh(M2)[::-1][:5], rtol=1e-3)
    assert np.isfinite(moments.O).all()
    assert np.isfinite(moments.Q).all()
