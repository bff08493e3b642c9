"""Terms of a score: equal to dense products, of any documents and labels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import normal, sparse_rows, ugly_matrices
from threepass.parts.terms import Dense, Sparse, Term, take_side

N, L, P = 9, 7, 5
ALL = slice(0, N), slice(0, L)
SLICES = [ALL, (slice(2, 5), slice(3, 7)), (slice(4, 4), ALL[1]), (ALL[0], slice(2, 2))]


def cases() -> dict[str, tuple[Term, np.ndarray | None, np.ndarray]]:
    """A term, the documents as it sees them, and all scores in double precision."""
    A, F = normal(L, P), normal(N, P, seed=6)
    X, _ = ugly_matrices(N, P, 3)
    C = abs(normal(P, L)) * (normal(P, L, seed=7) > 0)
    product = abs(F).astype(float) @ abs(A).T.astype(float)
    return {
        "product": (Dense(A), F, F.astype(float) @ A.T.astype(float)),
        "root": (Dense(abs(A), 0.7, is_nonnegative=True), abs(F), 0.7 * np.sqrt(product)),
        "sparse": (Sparse(sparse_rows(C, np.float32)), sparse_rows(X, np.float32), X @ C.astype(float)),
    }


@pytest.mark.parametrize("kind", ["product", "root", "sparse"])
@pytest.mark.parametrize(("rows", "labels"), SLICES)
def test_add__equals_the_dense_product(kind: str, rows: slice, labels: slice) -> None:
    term, side, ref = cases()[kind]
    alone = term.add(side, rows, labels, None)
    assert alone.dtype == np.float32
    np.testing.assert_allclose(alone, ref[rows, labels], rtol=1e-5, atol=1e-6)
    before = normal(*alone.shape, seed=9)
    out = before.copy()
    assert term.add(side, rows, labels, out) is out
    np.testing.assert_allclose(out, before + ref[rows, labels], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["product", "sparse"])
def test_take_side__some_documents_in_any_order(kind: str) -> None:
    term, side, ref = cases()[kind]
    rows = np.array([8, 0, 0, 3])
    taken = term.add(take_side(side, rows), slice(0, 4), slice(0, L), None)  # type: ignore[arg-type]
    np.testing.assert_allclose(taken, ref[rows], rtol=1e-5, atol=1e-6)
