"""`MomentLabeler`: a scikit-learn style estimator that learns labels from three reads of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import dask.array as da
import numpy as np
import scipy.sparse
import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from pipeline.corpus.rows import Array, SparseRows
from pipeline.corpus.store import Corpus
from pipeline.errors import InputError
from pipeline.metrics import RankingSums, document_auc, propensities, ranking_sums
from pipeline.model.error_bars import ErrorBars
from pipeline.model.guarantee import Guarantee, guarantee
from pipeline.model.inputs import Documents, aligned, as_scipy, documents, training_corpus
from pipeline.model.learn import Learned, Settings, check_enough_documents, learn
from pipeline.model.scoring import all_scores, log_word_topics, posterior, top_labels
from pipeline.passes.pairs import Statistics
from pipeline.passes.run import Progress, Runner
from pipeline.passes.words import WordView
from pipeline.tasks import map_tasks, n_cpus

CHOICES: dict[str, tuple[str, ...]] = {
    "whitening": ("auto", "exact", "sketch"),
    "tensor": ("orthogonal", "power"),
    "self_pairs": ("keep", "drop"),
    "words": ("binary", "counts"),
    "prior": ("eigenvalues", "uniform"),
}


class MomentLabeler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Labels for documents, from moments of words and of words with labels.

    The model (the paper's equation 1): a document has one of K topics; its words and its labels are drawn
    from that topic's distributions O and Q. Their moments, summed in three reads of the corpus, are
    decomposed into O, Q and the topics' weights; there is nothing iterative about the data.

    Parameters
    ----------
    n_components
        K, the number of topics.
    whitening
        `exact` holds all pairs of words, `sketch` a narrow image of them; `auto` is exact up to 4,096 terms.
    tensor
        `orthogonal` finds all topics at once; `power` one after the other, as the paper does.
    self_pairs
        `keep` a word's pair with itself, as the paper does, or `drop` it: the moments are then unbiased when
        documents do follow the model, at the price of more noise.
    words
        `binary` asks whether a word occurs, as the paper does; `counts` how often.
    prior
        Topic weights by tensor `eigenvalues`, as the paper says, or `uniform`.
    smoothing
        Share of uniform mass that is mixed into each topic's words when labels are predicted.
    error_bars
        Measure how far off each topic is; makes passes 2 and 3 longer.
    n_jobs
        Threads; every processor when None.
    random_state
        Seed of the whitening sketch and of the decomposition's start.

    Attributes
    ----------
    word_topics_ : (D, K) float32
        O: P[word | topic]; rows in the order of the training matrix's columns, or of the source's ids.
    label_topics_ : (L, K) float32
        Q: P[label | topic].
    topic_weights_ : (K,) float64
        pi: P[topic].
    whitening_ : (D, K) float32
        W, rows as in `word_topics_`.
    eigenvalues_ : (K,) float64
        The largest eigenvalues of the matrix of word pairs.
    tensor_eigenvalues_ : (K,) float64
        lambda, of the whitened tensor of word triples.
    tensor_residual_ : float
        Share of that tensor which the topics leave unexplained.
    error_bars_ : ErrorBars
        For each topic the measured L1 error of its words and of its labels.
    n_passes_ : int
        Full reads of the corpus: 3.
    fit_stats_ : dict
        Seconds of each stage, share of the corpus that was sampled, and choices made.

    Examples
    --------
    >>> import tempfile
    >>> from pipeline import Planted, ingest_planted
    >>> from pipeline.ingest.synthetic import Lengths
    >>> planted = Planted(2000, 300, 12, 4, words=Lengths(20, 18), labels=Lengths(1, 1))
    >>> corpus = ingest_planted(planted, tempfile.mkdtemp() + "/planted.zarr")
    >>> model = MomentLabeler(n_components=4).fit(corpus)
    >>> labels, scores = model.predict_topk(corpus.head(5), k=3)
    >>> labels.shape, scores.shape
    ((5, 3), (5, 3))
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        whitening: Literal["auto", "exact", "sketch"] = "auto",
        tensor: Literal["orthogonal", "power"] = "orthogonal",
        self_pairs: Literal["keep", "drop"] = "keep",
        words: Literal["binary", "counts"] = "binary",
        prior: Literal["eigenvalues", "uniform"] = "eigenvalues",
        smoothing: float = 0.1,
        error_bars: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.whitening = whitening
        self.tensor = tensor
        self.self_pairs = self_pairs
        self.words = words
        self.prior = prior
        self.smoothing = smoothing
        self.error_bars = error_bars
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- learning -----------------------------------------------------------------------------------------

    def fit(
        self, X: Any, Y: Any = None, *, client: Any = None, progress: Progress | None = None
    ) -> MomentLabeler:
        """Learn from a corpus, or from matrices of words and labels.

        Parameters
        ----------
        X
            A `Corpus`; or a matrix (documents, words), with `Y`: scipy, pydata/sparse, dense or Dask.
        Y
            (documents, labels), when X is a matrix; whatever is not zero is a label.
        client
            A `distributed.Client` to run the passes on; local threads when None.
        progress
            Called as `progress(pass, documents done, documents in all)`.
        """
        self._check_parameters()
        source, Y = X, as_scipy(Y)
        if _is_plain(X) and _is_plain(Y):
            X, Y = self._validated(X, Y)
        with training_corpus(X, Y, self.n_jobs) as corpus:
            if corpus.n_labels == 0 or corpus.n_terms == 0:
                raise InputError(
                    f"There is nothing to learn. Found {corpus.n_terms} terms and {corpus.n_labels} labels. "
                    "Give documents with words, and labels for them."
                )
            if self._view.counts and self._view.drop_self_pairs and corpus.info.values.startswith("float"):
                raise InputError(
                    "self_pairs='drop' with words='counts' needs whole-number counts. Found fractions. "
                    "Use words='binary', or self_pairs='keep'."
                )
            settings = Settings(
                self.n_components,
                self.whitening,
                self.tensor,
                self.prior,
                self._view,
                self.error_bars,
                int(self.random_state),
            )
            learned = learn(corpus, settings, Runner(self.n_jobs, client, progress))
            if _is_plain(source):  # only now: a fit that is refused leaves the last one as it was
                validate_data(self, source, skip_check_array=True)
            self._keep(learned, corpus)
        check_enough_documents(self.statistics_.n_docs, len(self.topic_weights_))
        return self

    def _validated(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """What scikit-learn checks of any estimator's input; with Y, when fitting."""
        try:
            if Y is None:
                return validate_data(self, X, accept_sparse="csr", reset=False), None
            X, Y = check_X_y(X, Y, accept_sparse="csr", multi_output=True, estimator=self)
        except ValueError as error:
            raise InputError(str(error)) from error
        Y = Y.reshape(-1, 1) if Y.ndim == 1 else Y
        if Y.dtype.kind not in "buif":
            raise InputError(
                f"Unknown label type: a column for each label is wanted. Found values of type {Y.dtype}. "
                "Use sklearn.preprocessing.MultiLabelBinarizer."
            )
        return X, Y

    @property
    def classes_(self) -> Array:
        """(L,): the columns of Y, which `predict_proba` has too."""
        return np.arange(len(self.label_topics_))

    @property
    def _view(self) -> WordView:
        return WordView(counts=self.words == "counts", drop_self_pairs=self.self_pairs == "drop")

    def _check_parameters(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(
                    f"{name} is not known. Found {getattr(self, name)!r}. "
                    f"Choose one of: {', '.join(choices)}."
                )
        if not isinstance(self.n_components, int | np.integer) or self.n_components < 1:
            raise InputError(
                f"n_components is a number of topics. Found {self.n_components!r}. Pass 1 or more."
            )
        if not (isinstance(self.smoothing, float | np.floating) and 0 < self.smoothing < 1):
            raise InputError(
                f"smoothing lies between 0 and 1. Found {self.smoothing!r}. Leave it out for 0.1."
            )
        if self.n_jobs is not None and not (isinstance(self.n_jobs, int | np.integer) and self.n_jobs > 0):
            raise InputError(f"n_jobs is a number of threads. Found {self.n_jobs!r}. Leave it out for all.")
        if not (isinstance(self.random_state, int | np.integer) and self.random_state >= 0):
            raise InputError(f"random_state is a seed. Found {self.random_state!r}. Pass 0 or more.")

    def _keep(self, learned: Learned, corpus: Corpus) -> None:
        """Take over what was learned, words in source order."""
        in_source = np.argsort(corpus.term_ids)
        self.word_topics_: Array = learned.O[in_source]
        self.whitening_: Array = learned.whitening.W.astype(np.float32)[in_source]
        self.label_topics_: Array = learned.Q
        self.topic_weights_: Array = learned.pi
        self.eigenvalues_: Array = learned.whitening.eigenvalues
        self.tensor_eigenvalues_: Array = learned.tensor.eigenvalues
        self.tensor_residual_ = learned.tensor.residual
        self.label_counts_: Array = learned.label_counts
        self.statistics_: Statistics = learned.statistics
        self.error_bars_: ErrorBars = learned.error_bars
        self.label_names_: list[str] = corpus.labels
        self.n_features_in_ = corpus.n_terms
        self.n_passes_ = 3
        self.fit_stats_: dict[str, Any] = {
            **learned.stats,
            "tensor_iterations": learned.tensor.iterations,
            "tensor_converged": learned.tensor.converged,
        }

    # -- predicting ---------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """(n, K) float32: the probability of each topic, for each document (the paper's equation 14)."""
        return np.concatenate(list(self._over_blocks(X, lambda P, _: P)))

    def predict_topk(self, X: Any, k: int = 5) -> tuple[Array, Array]:
        """The k best labels of each document, and their probabilities.

        Parameters
        ----------
        X
            A `Corpus` of any size, a matrix, or a Dask array; read in blocks.

        Returns
        -------
        labels : (n, k) int32
            Best first; ties by label id; -1 where the model has fewer than k labels.
        scores : (n, k) float32
            P[label | document] = sum_k Q_lk P[topic k | document]; they add up to 1 over all labels.
        """
        labels, scores = (np.concatenate(side) for side in zip(*self.stream_topk(X, k), strict=True))
        return labels, scores

    def stream_topk(self, X: Any, k: int = 5) -> Iterator[tuple[Array, Array]]:
        """As `predict_topk`, a block at a time: for predictions that are too many to hold."""
        _check_k(k)
        self._fitted()
        return self._over_blocks(X, lambda P, _: top_labels(P, self.label_topics_, k))

    def predict_proba(self, X: Any) -> Array:
        """(n, L) float32: the probability of each label, dense; for large data see `predict_topk`."""
        return np.concatenate(list(self._over_blocks(X, lambda P, _: P @ self.label_topics_.T)))

    def predict(self, X: Any, k: int | None = None, threshold: float | None = None) -> scipy.sparse.csr_array:
        """(n, L) sparse indicator of the labels to assign.

        Parameters
        ----------
        k
            The k best of each document. When neither is given, as many as a training document has on average.
        threshold
            All labels of at least this probability; with `k`, at most k of them.
        """
        Q = self._fitted().label_topics_
        if k is None and threshold is None:
            k = max(1, round(self.label_counts_.sum() / max(1, self.statistics_.n_docs)))

        def chosen(P: Array, _: SparseRows | None) -> scipy.sparse.csr_array:
            if k is None:  # no ranking is needed, only a comparison
                return scipy.sparse.vstack(
                    [
                        scipy.sparse.csr_array(scores >= threshold, dtype=np.int8)
                        for _, scores in all_scores(P, Q)
                    ]
                )
            labels, scores = top_labels(P, Q, min(k, len(Q)))
            keep = labels >= 0 if threshold is None else scores >= threshold
            ones = np.ones(int(keep.sum()), np.int8)
            return scipy.sparse.csr_array((ones, (np.nonzero(keep)[0], labels[keep])), shape=(len(P), len(Q)))

        if k is not None:
            _check_k(k)
        indicator = scipy.sparse.csr_array(scipy.sparse.vstack(list(self._over_blocks(X, chosen))))
        indicator.sort_indices()
        return indicator

    def evaluate(
        self,
        X: Any,
        Y: Any = None,
        *,
        ks: Sequence[int] = (1, 3, 5),
        propensity: tuple[float, float] = (0.55, 1.5),
        auc: bool = True,
    ) -> dict[str, float]:
        """How well the predicted ranking of labels fits the true ones.

        Parameters
        ----------
        X, Y
            A `Corpus` with labels, or matrices of words and labels.
        ks
            Depths of P@k, nDCG@k, recall@k, PSP@k and PSnDCG@k.
        propensity
            A and B of the propensity model, applied to the training frequencies of labels.
        auc
            Also the AUC of each document, averaged; it needs the score of every label.
        """
        if isinstance(X, Corpus) and Y is not None:
            raise InputError(
                "A corpus holds its own labels. Found a second argument. Call evaluate(corpus) alone."
            )
        if not isinstance(X, Corpus) and Y is None:
            raise InputError(
                "Evaluation needs the true labels. Found a matrix alone. Pass Y too, or a corpus."
            )
        if not ks or min(ks) < 1:
            raise InputError(f"ks are depths of the ranking. Found {ks!r}. Pass some, as in (1, 3, 5).")
        Q = self._fitted().label_topics_
        inverse = 1 / propensities(self.label_counts_, self.statistics_.n_docs, *propensity)

        def sums(P: Array, labels: SparseRows | None) -> RankingSums:
            assert labels is not None
            if labels.n_columns != len(Q):
                raise InputError(
                    f"The labels do not fit the model. Found {labels.n_columns} columns, "
                    f"the model has {len(Q)}. Use the columns of the training data."
                )
            areas = np.full(len(P), np.nan)
            if auc:
                for rows, scores in all_scores(P, Q):
                    areas[rows] = document_auc(scores, labels.slice(rows.start, rows.stop))
            best, _ = top_labels(P, Q, max(ks))
            return ranking_sums(best, labels, tuple(ks), inverse, areas if auc else None)

        total = RankingSums.zero(tuple(ks))
        for part in self._over_blocks(X, sums, Y):
            total = total.merge(part)
        return total.finish()

    def score(self, X: Any, y: Any = None) -> float:
        """P@1: how often the best label is right."""
        return self.evaluate(X, y, ks=(1,), auc=False)["p@1"]

    def _over_blocks(self, X: Any, use: Any, Y: Any = None) -> Iterator[Any]:
        """`use(posterior, labels)` of every block of some documents, in order, on threads."""
        self._fitted()
        if _is_plain(X):
            X, _ = self._validated(X)
        docs: Documents = documents(X, Y, self.n_features_in_)
        log_O = aligned(log_word_topics(self.word_topics_, self.smoothing), docs.columns)
        log_pi = np.log(np.maximum(self.topic_weights_, 1e-300))

        def block(number: int) -> Any:
            words, labels = docs.read(number)
            return use(posterior(words, log_O, log_pi), labels)

        at_a_time = 2 * (self.n_jobs or n_cpus())
        for first in range(0, docs.n_blocks, at_a_time):
            numbers = range(first, min(first + at_a_time, docs.n_blocks))
            yield from map_tasks(block, numbers, name="predict", n_threads=self.n_jobs)

    def _fitted(self) -> MomentLabeler:
        check_is_fitted(self, "word_topics_")
        return self

    # -- trust --------------------------------------------------------------------------------------------

    def guarantee(self, delta: float = 0.05) -> Guarantee:
        """Theorem 1 of the paper for this corpus, and the error bars measured beside it."""
        self._fitted()
        return guarantee(
            self.statistics_,
            self.self_pairs == "drop",
            self.eigenvalues_,
            self.topic_weights_,
            self.error_bars_,
            delta,
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model as a zarr group; it appears at `path` only once it is whole."""
        from pipeline.model.persist import save_model

        save_model(self._fitted(), Path(path), overwrite)

    @classmethod
    def load(cls, path: str | Path) -> MomentLabeler:
        """Read a saved model. Nothing in it is executed."""
        from pipeline.model.persist import load_model

        return load_model(path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


def _check_k(k: int) -> None:
    if not (isinstance(k, int | np.integer) and k > 0):
        raise InputError(f"k is a number of labels. Found {k!r}. Pass 1 or more.")


def _is_plain(X: Any) -> bool:
    """Whether scikit-learn's own validation understands X."""
    return X is not None and not isinstance(X, Corpus | da.Array | sparse.SparseArray | str | Path)
