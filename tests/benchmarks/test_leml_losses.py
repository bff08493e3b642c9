from __future__ import annotations

import numpy as np
import pytest

from benchmarks.baselines import leml_losses
from benchmarks.baselines.leml import Limits
from benchmarks.baselines.leml_losses import GeneralLeml, Loss
from benchmarks.baselines.loss_kernels import slopes, times_curvature
from tests import naive_leml as naive
from tests.benchmarks.conftest import Dense, Rows, sparse_rows
from threepass.errors import InputError

LAM = 0.7
LOSSES = ["logistic", "hinge"]


def first_labels(rank: int, rows: Rows) -> np.ndarray:
    return GeneralLeml(rank, LAM, n_outer=0).fit(*rows).H_


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes__are_differences_of_the_loss(loss: Loss) -> None:
    rng = np.random.default_rng(3)
    T, Y = rng.standard_normal((7, 4)) * 2, rng.random((7, 4)) < 0.4
    T[0, :2] = 60, -60  # where a careless exponential overflows or a logarithm meets 0
    labels, values = sparse_rows(Y * 1.0), np.zeros(4)
    found = T.astype(np.float32)
    slopes(found, labels.indptr, labels.indices, loss == "logistic", values)
    expected = [naive.signed_loss(loss, T[:, [label]], Y[:, [label]]) for label in range(4)]
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    step = 1e-5
    for place in np.ndindex(T.shape):
        above, below = T.copy(), T.copy()
        above[place] += step
        below[place] -= step
        slope = (naive.signed_loss(loss, above, Y) - naive.signed_loss(loss, below, Y)) / (2 * step)
        assert found[place] == pytest.approx(slope, abs=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_times_curvature__is_differences_of_the_slopes(loss: Loss) -> None:
    rng = np.random.default_rng(4)
    T, Y = rng.standard_normal((7, 4)) * 2, rng.random((7, 4)) < 0.4
    V = rng.standard_normal((7, 4)).astype(np.float32)
    labels, step = sparse_rows(Y * 1.0), 1e-5

    def slopes_at(T: np.ndarray) -> np.ndarray:
        T = T.copy()
        slopes(T, labels.indptr, labels.indices, loss == "logistic", np.zeros(4))
        return T

    expected = V * (slopes_at(T + step) - slopes_at(T - step)) / (2 * step)
    times_curvature(T.astype(np.float32), labels.indptr, labels.indices, loss == "logistic", V)
    np.testing.assert_allclose(V, expected, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("rank", "n_outer"), [(1, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize(("n_threads", "slab"), [(1, 1024), (2, 7), (50, 7)])
def test_fit__equals_exact_alternation(
    dense: Dense,
    rows: Rows,
    loss: Loss,
    rank: int,
    n_outer: int,
    n_threads: int,
    slab: int,
) -> None:
    W, H = naive.alternate_signed(loss, *dense, first_labels(rank, rows), LAM, n_outer)
    limits = Limits(newton=50, gradient=200, slab=slab)
    model = GeneralLeml(rank, LAM, n_outer, n_threads, tolerance=1e-4, limits=limits, loss=loss).fit(*rows)
    assert model.W_.dtype == model.H_.dtype == np.float32
    np.testing.assert_allclose(model.W_, W, atol=5e-3)
    np.testing.assert_allclose(model.H_, H, atol=5e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("lam", [0.001, 1, 30])
def test_fit__never_increases_the_objective(dense: Dense, rows: Rows, loss: Loss, lam: float) -> None:
    X, Y = dense[0] * 20, dense[1]  # far-out scores, where whole Newton steps overshoot
    values = [naive.signed_objective(loss, X, Y, np.zeros((13, 4)), first_labels(4, rows), lam)]
    model = GeneralLeml(4, lam, n_outer=6, loss=loss)
    model.fit(
        sparse_rows(X),
        rows[1],
        lambda model: values.append(naive.signed_objective(loss, X, Y, model.W_, model.H_, lam)),
    )
    assert len(values) == 7
    assert (np.diff(values) <= 1e-5 * values[0]).all()
    assert values[-1] < 0.95 * values[0]


def test_minimise__halves_steps_that_overshoot() -> None:
    # one label of one document: from far below, a whole Newton step of a logistic loss goes far above
    tried: list[float] = []

    class OneScore:
        def evaluate(self, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            self.T = T
            tried.append(float(T[0, 0]))
            slope, values = T.copy(), np.zeros(1)
            slopes(slope, np.array([0, 1]), np.array([0]), True, values)
            return values[:, np.newaxis], slope

        def times_hessian(self, S: np.ndarray) -> np.ndarray:
            V = S.copy()
            times_curvature(self.T, np.array([0, 1]), np.array([0]), True, V)
            return V

    start = np.array([[-9.0]], np.float32)
    found, _ = leml_losses._minimise(start, OneScore(), leml_losses._rowwise, 1e-6, 1e-3, Limits())
    assert tried[0] == -9
    assert tried[1] > 5000  # ½ lam t² alone is above the first loss
    assert tried[2] == pytest.approx((tried[1] - 9) / 2)
    assert naive.signed_loss("logistic", found, np.ones((1, 1))) < 0.1


def test_fit__keeps_to_the_most_steps(rows: Rows) -> None:
    limits = Limits(newton=2, gradient=3)
    model = GeneralLeml(4, 0.001, n_outer=3, tolerance=1e-6, limits=limits).fit(*rows)
    assert max(model.n_steps_) == 6


@pytest.mark.parametrize("loss", LOSSES)
def test_fit__without_any_label_scores_all_below_zero(rows: Rows, loss: Loss) -> None:
    X, _ = rows
    model = GeneralLeml(2, 0.01, n_outer=2, loss=loss).fit(X, sparse_rows(np.zeros((40, 6))))
    scores = model.scores(X)
    assert (scores[np.diff(X.indptr) > 0] < 0).all()


def test_fit__seed_decides(rows: Rows) -> None:
    first, again, other = (GeneralLeml(4, LAM, n_threads=2, seed=seed).fit(*rows).H_ for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert abs(first - other).max() > 0.01


def test_fit__refuses_an_unknown_loss(rows: Rows) -> None:
    with pytest.raises(InputError, match="Found cubic"):
        GeneralLeml(3, LAM, loss="cubic").fit(*rows)  # type: ignore[arg-type]


def test_fit__refuses_too_many_pairs(rows: Rows) -> None:
    # 2 turns x 5 iterations x 5 Newton x 20 steps of 6 x 40 documents x 6 labels x rank 3 operations
    with pytest.raises(InputError, match=r"Found 40 x 6 of them at rank 3, up to 4.3e\+06"):
        GeneralLeml(3, LAM, limits=Limits(flops=4_320_000 - 1)).fit(*rows)
    GeneralLeml(3, LAM, limits=Limits(flops=4_320_000)).fit(*rows)
