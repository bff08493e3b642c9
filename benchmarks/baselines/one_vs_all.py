"""One-vs-all: a linear support vector machine for each label, by liblinear."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks.baselines import refuse_other_documents, refuse_other_words
from threepass.corpus.rows import SparseRows
from threepass.errors import InputError
from threepass.tasks import n_cpus
from threepass.types import Array


@dataclass(frozen=True)
class Limits:
    """Limits of a fit, and of what it keeps."""

    smallest: float = 0.01
    """Smallest weight that is kept: on Bibtex and Delicious a fifth is not, for less than .001 of AUC."""
    n_bytes: float = 8e9
    """Of D x L weights, before pruning."""
    work: float = 2e10
    """Words of all documents, once for each label: some ten minutes on two cores."""


@dataclass
class OneVsAll:
    """A linear squared-hinge classifier for each label, on its own; labels are ranked by their margins.

    liblinear solves the primal problem: the dual draws from random numbers that all threads share, and would
    not give the same model twice.

    Parameters
    ----------
    C
        Weight of the losses against the squared norm.
    n_threads
        Labels that are learnt at the same time; None for as many as there are processors.
    limits
        Most weights and work, and the smallest weight that is kept.

    Attributes
    ----------
    weights_
        (D, L) sparse float32.
    intercepts_
        (L,) float32.
    n_unconverged_
        Labels at which liblinear stopped early.
    seconds_
        Seconds of the fit, one entry.

    Notes
    -----
    Cost: some tens of reads of X for each label. Memory: 12 bytes for each word of X, twice for each thread,
    and 8 bytes for each weight kept.
    """

    C: float = 1.0
    n_threads: int | None = None
    limits: Limits = Limits()
    weights_: scipy.sparse.csr_array = field(init=False, repr=False)
    intercepts_: Array = field(init=False, repr=False)
    n_unconverged_: int = field(init=False, repr=False)
    seconds_: list[float] = field(init=False, repr=False)

    def fit(
        self, X: SparseRows, Y: SparseRows, callback: Callable[[OneVsAll], None] | None = None
    ) -> OneVsAll:
        """Learn one label after the other.

        Parameters
        ----------
        X
            (N, D) words, weighted as they should count.
        Y
            (N, L) labels; the values are not looked at.
        callback
            Called with this object at the end.
        """
        if not self.C > 0:
            raise InputError(f"C weighs the losses. Found {self.C}. Pass a number above 0.")
        refuse_other_documents(X, Y)
        n_bytes, work = 4.0 * X.n_columns * Y.n_columns, float(X.nnz) * Y.n_columns
        limits = self.limits
        if n_bytes > limits.n_bytes or work > limits.work:
            raise InputError(
                f"One-vs-all learns words x labels weights, and reads all words once for each label. Found "
                f"{X.n_columns} x {Y.n_columns}, {n_bytes / 1e9:.1f} GB where {limits.n_bytes / 1e9:.0f} are "
                f"allowed, and {work:.1e} words where {limits.work:.0e} are. Use another method."
            )
        started = time.perf_counter()
        words = X.to_scipy(np.float64)
        by_label = scipy.sparse.csc_array(Y.to_scipy())

        def learn(label: int) -> tuple[Array, Array, float, bool]:
            """Which weights are kept, these, the intercept, and whether liblinear was done."""
            has = np.zeros(X.n_rows)
            has[by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]] = 1
            if has.all() or not has.any():  # nothing to tell apart
                return np.zeros(0, np.int32), np.zeros(0, np.float32), 1.0 if has.any() else -1.0, True
            machine = LinearSVC(C=self.C, dual=False).fit(words, has)
            w = machine.coef_[0]
            kept = np.flatnonzero(abs(w) >= limits.smallest).astype(np.int32)
            return kept, w[kept].astype(np.float32), machine.intercept_[0], machine.n_iter_ < machine.max_iter

        with warnings.catch_warnings(), ThreadPoolExecutor(self.n_threads or n_cpus()) as pool:
            warnings.simplefilter("ignore", ConvergenceWarning)  # counted below
            learnt = list(pool.map(learn, range(Y.n_columns)))
        kept, weights, intercepts, converged = zip(*learnt, strict=True)
        # scipy has one type for both index arrays; `limits.n_bytes` keeps it wide enough.
        indptr = np.cumsum([0, *(len(ids) for ids in kept)], dtype=np.int32)
        triple = np.concatenate(weights), np.concatenate(kept), indptr
        self.weights_ = scipy.sparse.csc_array(triple, shape=(X.n_columns, Y.n_columns)).tocsr()
        self.intercepts_ = np.array(intercepts, np.float32)
        self.n_unconverged_ = len(converged) - sum(converged)
        self.seconds_ = [time.perf_counter() - started]
        if callback is not None:
            callback(self)
        return self

    def scores(self, X: SparseRows) -> Array:
        """(n, L) float32: margins."""
        refuse_other_words(X, self.weights_.shape[0])
        margins: Array = (X.to_scipy() @ self.weights_).toarray()
        margins += self.intercepts_
        return margins

    @property
    def nbytes(self) -> int:
        """Bytes of the weights, their places, and the intercepts."""
        W = self.weights_
        return int(W.data.nbytes + W.indices.nbytes + W.indptr.nbytes + self.intercepts_.nbytes)
