"""`MomentLabeler`: a scikit-learn style estimator that learns labels from three reads of a corpus."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse
from dask.utils import parse_bytes
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError
from ..linalg.tall import reorder_rows
from ..metrics.measures import propensities
from ..metrics.scores import Scores
from ..moments.error_bars import ErrorBars
from ..moments.guarantee import Guarantee, guarantee
from ..moments.notes import fit_notes
from ..moments.pairs import Statistics
from ..moments.recover import topic_weights
from ..moments.words import WordView
from ..parts.heads import Head, Kind, Seen
from ..parts.learn_head import HeadSettings
from ..parts.scoring import all_scores, labels_above, top_labels
from ..passes.checkpoints import RunDirectory
from ..passes.runner import Runner
from ..progress import Progress, counted
from ..tasks import check_wanted, map_tasks, n_cpus, one_blas_thread
from ..text.info import TextInfo
from ..text.words import as_texts
from ..types import Array
from .evaluation import Evaluation, sample_share
from .evidence import Explanation, Topic, explanation, topic_list
from .inputs import (
    Documents,
    as_label_matrix,
    as_labels,
    documents,
    is_plain,
    row_documents,
    training_corpus,
    validated,
)
from .learn import DEFAULT_TOPICS, Clock, Learned, Settings, learn
from .parameters import check_parameters
from .plan import Plan
from .summary import fitted_table
from .texts import TextEncoder, as_text_list, check_like, refuse_texts
from .training_documents import TrainingDocuments, relation

_DOCUMENTS = 4096
"""Documents whose features are held at a time, by each task."""


class MomentLabeler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Labels for documents, from moments of words and of words with labels.

    The model (the paper's equation 1): a document has one of K topics; its words and its labels are drawn
    from that topic's distributions O and Q. Their moments, summed in three reads of the corpus, are
    decomposed into O, Q and the topics' weights; there is nothing iterative about the data.

    Parameters
    ----------
    n_components
        K, the number of topics.
    head
        How documents become label scores. `posterior`: by their topics, as the paper does. `refined`: the
        same after one EM step, made in the third read. `ridge`: closed-form ridge regression on features of
        the words, with a memory of the words seen with each label. `blend`: ridge, memory and refined topics
        together. `auto` is `blend`, and `posterior` where no document has a label.
    head_dim
        Features of the ridge regression; None for as many as memory and time allow. When given, all of them
        are directions in word space.
    weighting
        How often a word occurs counts as 1 + `log` c, as `counts` c, or not at all (`binary`) in the weighted
        words of the ridge regression. The topics have `words` for that.
    refine_passes
        Further reads, each an EM step in which a document's labels speak for its topics too.
    tail_weight
        0 ranks labels by probability. 1 ranks them by probability over propensity, which favours rare labels
        as PSP@k does, at a cost in P@k; values between are between.
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
        Share of uniform mass that is mixed into each topic's words when labels are predicted. None: chosen on
        held-out documents, or 0.1 for the paper's head.
    error_bars
        Measure how far off each topic is; makes passes 2 and 3 longer.
    memory_limit
        What a process that does nothing else may take, as in "4GB". To obey it, fewer tasks run at a time,
        then features and sketch get narrower, and at last sums are kept in mapped files; `plan` tells. With
        None there is no limit; the features of the ridge regression take about 2 GB at the most.
    n_jobs
        Threads of the passes; every processor when None.
    random_state
        Seed of the whitening sketch and of the decomposition's start.

    Attributes
    ----------
    word_topics_ : (D, K) float32
        O: P[word | topic]; rows in the order of the training matrix's columns, or of the source's ids.
        Refined by EM where the head is, and so are Q and pi.
    label_topics_ : (L, K) float32
        Q: P[label | topic].
    topic_weights_ : (K,) float64
        pi: P[topic].
    head_ : Head
        Everything that predicting takes.
    whitening_ : (D, K) float32
        W, rows as in `word_topics_`.
    eigenvalues_ : (K,) float64
        The largest eigenvalues of the matrix of word pairs.
    tensor_eigenvalues_ : (K,) float64
        lambda, of the whitened tensor of word triples.
    tensor_residual_ : float
        Share of that tensor which the topics leave unexplained.
    error_bars_ : ErrorBars
        For each topic the measured L1 error of its words and of its labels, before any refinement.
    training_documents_ : TrainingDocuments or None
        By which `evaluate` knows documents that the model has seen.
    n_passes_ : int
        Full reads of the corpus: 3, and `refine_passes`.
    text_ : TextInfo or None
        How texts become words, where the training corpus was made of texts.
    fit_stats_ : dict
        Seconds of each stage, and what the process had held at most by its end (`peak_bytes`); the corpus;
        the eigenvalues after the first K (`further_eigenvalues`), share of the corpus that a sample read once
        more, choices made and by what (`choice`), how good they are on the held-out training documents
        (`held_out`), bytes of the model, and `notes`: sentences about the topics, none of which asks for
        anything to be done.

    Examples
    --------
    >>> import tempfile
    >>> from threepass import Planted, ingest_planted
    >>> from threepass.ingest.synthetic import Lengths
    >>> planted = Planted(2000, 300, 12, 4, words=Lengths(20, 18), labels=Lengths(1, 1))
    >>> corpus = ingest_planted(planted, tempfile.mkdtemp() + "/planted.zarr")
    >>> model = MomentLabeler(n_components=4).fit(corpus)
    >>> labels, scores = model.predict_topk(corpus.head(5), k=3)
    >>> labels.shape, scores.shape
    ((5, 3), (5, 3))
    """

    def __init__(
        self,
        n_components: int = DEFAULT_TOPICS,
        *,
        head: Literal["auto", "posterior", "refined", "ridge", "blend"] = "auto",
        head_dim: int | None = None,
        weighting: Literal["log", "counts", "binary"] = "log",
        refine_passes: int = 0,
        tail_weight: float = 0.0,
        whitening: Literal["auto", "exact", "sketch"] = "auto",
        tensor: Literal["orthogonal", "power"] = "orthogonal",
        self_pairs: Literal["keep", "drop"] = "keep",
        words: Literal["binary", "counts"] = "binary",
        prior: Literal["eigenvalues", "uniform"] = "eigenvalues",
        smoothing: float | None = None,
        error_bars: bool = True,
        memory_limit: str | int | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.head = head
        self.head_dim = head_dim
        self.weighting = weighting
        self.refine_passes = refine_passes
        self.tail_weight = tail_weight
        self.whitening = whitening
        self.tensor = tensor
        self.self_pairs = self_pairs
        self.words = words
        self.prior = prior
        self.smoothing = smoothing
        self.error_bars = error_bars
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- learning -----------------------------------------------------------------------------------------

    @one_blas_thread()
    def fit(
        self,
        X: Any,
        Y: Any = None,
        *,
        client: Any = None,
        progress: Progress | None = None,
        run_dir: str | Path | None = None,
    ) -> MomentLabeler:
        """Learn from a corpus, or from matrices of words and labels.

        Parameters
        ----------
        X
            A `Corpus`; or a matrix (documents, words), with `Y`: scipy, pydata/sparse, dense or Dask.
        Y
            (documents, labels), when X is a matrix; whatever is not zero is a label.
        client
            A `distributed.Client` to run the passes on; local threads when None. Workers must reach the
            corpus by its path or URL, and `run_dir`, or without one the temporary directory.
        progress
            See `threepass.progress.Progress`; reads of the corpus are counted in documents.
        run_dir
            A directory in which sums are kept while they are made. When a fit is killed, the same call goes
            on from there; a directory of another corpus or other parameters is not used. Remove it once the
            model is saved, or let `fit_to` do all of that.
        """
        check_parameters(self)
        refuse_texts(X)
        source, Y = X, as_label_matrix(Y)
        if is_plain(X) and is_plain(Y):
            X, Y = validated(self, X, Y)
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
            settings = self._settings(corpus)
            with _run_directory(run_dir, corpus, settings) as files:
                learned = learn(corpus, settings, Runner(self.n_jobs, client, progress, files=files))
            if is_plain(source):  # only now: a fit that is refused leaves the last one as it was
                validate_data(self, source, skip_check_array=True)
            self._keep(learned, corpus, progress)
        return self

    def fit_to(
        self,
        corpus: Corpus,
        path: str | Path,
        *,
        overwrite: bool = False,
        client: Any = None,
        progress: Progress | None = None,
        run_dir: str | Path | None = None,
        run_log: str | Path | None = None,
    ) -> MomentLabeler:
        """Fit and save in one go. Killed at any moment, the same call goes on where it was.

        Nobody else can write to `path` meanwhile. What the fit needs to go on lies in `run_dir`, beside the
        model as `PATH.run` when None, and is removed once the model is whole.

        Parameters
        ----------
        run_log
            Where the run's log shall be kept: a line of JSON for each segment that was worked on. It is
            written as `run.jsonl` in the run directory while the fit runs.
        """
        from .files import fit_to

        path = Path(path)
        folder = path.with_name(f"{path.name}.run") if run_dir is None else Path(run_dir)
        log = None if run_log is None else Path(run_log)
        fit_to(self, corpus, path, overwrite, folder, log, client=client, progress=progress)
        return self

    @property
    def classes_(self) -> Array:
        """(L,): the columns of Y, which `predict_proba` has too."""
        return np.arange(len(self.label_topics_))

    def plan(self, corpus: Corpus) -> Plan:
        """What fitting the corpus will take: bytes and work of each stage. Nothing is read for it.

        Raises
        ------
        InputError
            `memory_limit` is less than the least that a fit takes.
        """
        check_parameters(self)
        return self._settings(corpus).plan(corpus, self.n_jobs)

    def _settings(self, corpus: Corpus) -> Settings:
        return Settings(
            self.n_components,
            self.whitening,
            self.tensor,
            self.prior,
            self._view,
            self.error_bars,
            int(self.random_state),
            self._head_settings(corpus),
            None if self.memory_limit is None else int(parse_bytes(self.memory_limit)),
        )

    def _head_settings(self, corpus: Corpus) -> HeadSettings:
        labelled = any(block.y_nnz for block in corpus.info.blocks)
        kind: Kind = self.head if self.head != "auto" else "blend" if labelled else "posterior"
        refine_passes = int(self.refine_passes) if kind in ("refined", "blend") else 0
        return HeadSettings(kind, self.weighting, self.head_dim, refine_passes, self.smoothing)

    @property
    def _view(self) -> WordView:
        return WordView(counts=self.words == "counts", drop_self_pairs=self.self_pairs == "drop")

    def _keep(self, learned: Learned, corpus: Corpus, progress: Progress | None) -> None:
        """Take over what was learned, words in source order."""
        clock = Clock(learned.stats, progress)
        clock.begin("model")
        in_source = np.argsort(corpus.term_ids)
        self.label_counts_: Array = learned.label_counts
        self.statistics_: Statistics = learned.statistics
        self.training_documents_: TrainingDocuments | None = TrainingDocuments.of(corpus, learned.hashes)
        self.head_: Head = learned.head.reordered(in_source, self.n_jobs)
        W = learned.whitening.W.astype(np.float32, copy=False)
        self.whitening_: Array = reorder_rows(W, in_source, self.n_jobs)
        self.eigenvalues_: Array = learned.whitening.eigenvalues
        self.tensor_eigenvalues_: Array = learned.tensor.eigenvalues
        self.tensor_residual_ = learned.tensor.residual
        self.error_bars_: ErrorBars = learned.error_bars
        self.text_: TextInfo | None = corpus.info.text
        self._encoder: TextEncoder | None = None
        self.label_names_: list[str] = corpus.labels
        terms = corpus.terms
        self.term_names_: list[str] = [terms[i] for i in in_source.tolist()]
        self.n_features_in_ = corpus.n_terms
        self.n_passes_ = learned.n_reads
        clock.mark("model")
        self.fit_stats_: dict[str, Any] = {
            **learned.stats,
            "notes": [
                *learned.stats["notes"],
                *fit_notes(corpus.n_docs, learned.tensor.eigenvalues, self.prior),
            ],
            "tensor_iterations": learned.tensor.iterations,
            "tensor_converged": learned.tensor.converged,
        }

    @property
    def word_topics_(self) -> Array:
        return self.head_.topics.O

    @property
    def label_topics_(self) -> Array:
        return self.head_.topics.Q

    @property
    def topic_weights_(self) -> Array:
        return self.head_.topics.pi

    @property
    def threshold_(self) -> float | None:
        """The score from which on `predict` assigns a label: of the best micro-F1 on held-out documents.

        None where these were too few. `fit_stats_["threshold"]` has that F1 too.
        """
        return self.head_.threshold

    @property
    def scores_mean_(self) -> str:
        """What the scores of this model's head mean, in words."""
        return self.head_.meaning

    # -- predicting ---------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """(n, K) float32: the probability of each topic, for each document (the paper's equation 14)."""
        topics_only = Head("posterior", self._fitted().head_.topics)
        return np.concatenate(list(self._over_documents(X, lambda seen, _: seen.P, head=topics_only)))

    def predict_topk(self, X: Any, k: int = 5) -> tuple[Array, Array]:
        """The k best labels of each document, and their probabilities.

        Parameters
        ----------
        X
            A `Corpus` of any size, a matrix, or a Dask array; read in blocks. For a model that was fitted to
            a corpus made of texts also a text, or several.

        Returns
        -------
        labels : (n, k) int32
            Best first; ties by label id; -1 where the model has fewer than k labels.
        scores : (n, k) float32
            What `scores_mean_` says; with a `tail_weight`, divided by that power of the label's propensity.
        """
        labels, scores = (np.concatenate(side) for side in zip(*self.stream_topk(X, k), strict=True))
        return labels, scores

    def stream_topk(
        self, X: Any, k: int = 5, progress: Progress | None = None
    ) -> Iterator[tuple[Array, Array]]:
        """As `predict_topk`, some documents at a time: for predictions that are too many to hold."""
        _check_k(k)
        head = self._ranking_head()
        told = None if progress is None else counted(progress, "predict", _n_docs(X))
        return self._over_documents(X, lambda seen, _: top_labels(head, seen, k), head=head, told=told)

    def predict_proba(self, X: Any) -> Array:
        """(n, L) float32: the probability of each label, dense; for large data see `predict_topk`.

        `scores_mean_` says what these probabilities are of; `tail_weight` does not change them.
        """
        head = self._fitted().head_

        def proba(seen: Seen, _: SparseRows | None) -> Array:
            parts = [head.probabilities(scores) for _, scores in all_scores(head, seen)]
            return np.concatenate(parts) if parts else np.zeros((0, head.n_labels), np.float32)

        return np.concatenate(list(self._over_documents(X, proba, head=head)))

    def predict(self, X: Any, k: int | None = None, threshold: float | None = None) -> scipy.sparse.csr_array:
        """(n, L) sparse indicator of the labels to assign; none to a document without a word that is known.

        When neither `k` nor `threshold` is given, labels are assigned from `threshold_` on. A model without
        one (its training documents were too few) assigns as many as a training document has on average.

        Parameters
        ----------
        k
            The k best of each document.
        threshold
            All labels of at least this score; with `k`, at most k of them.
        """
        head = self._ranking_head()
        if k is None and threshold is None:
            threshold = self.threshold_
            if threshold is None:
                k = max(1, round(self.label_counts_.sum() / max(1, self.statistics_.n_docs)))
            else:  # it is one of probabilities, whatever labels are ranked by
                head = self.head_

        def chosen(seen: Seen, _: SparseRows | None) -> scipy.sparse.csr_array:
            if k is None:
                assert threshold is not None
                rows, own = labels_above(head, seen, threshold)
            else:
                labels, scores = top_labels(head, seen, min(k, head.n_labels))
                keep = labels >= 0 if threshold is None else scores >= threshold
                rows, own = np.nonzero(keep)[0], labels[keep]
            assert seen.has_words is not None
            known = seen.has_words[rows]
            rows, own = rows[known], own[known]
            ones = np.ones(len(rows), np.int8)
            return scipy.sparse.csr_array((ones, (rows, own)), shape=(seen.n_docs, head.n_labels))

        if k is not None:
            _check_k(k)
        parts = list(self._over_documents(X, chosen, head=head))
        indicator = scipy.sparse.csr_array(scipy.sparse.vstack(parts))
        indicator.sort_indices()
        return indicator

    def evaluate(
        self,
        X: Any,
        Y: Any = None,
        *,
        ks: Sequence[int] = (1, 3, 5),
        propensity: tuple[float, float] = (0.55, 1.5),
        auc: bool | Literal["all"] = True,
        progress: Progress | None = None,
    ) -> Scores:
        """How well the predicted ranking of labels fits the true ones, and how honest the probabilities are.

        `documents_are` says what the documents are to the model: `training`, `part of training`,
        `overlapping`, `unseen`, or `unknown` for models that cannot tell; and `familiar` which share of them
        are training documents, or have the words and labels of one. Documents that were seen are warned of.

        Parameters
        ----------
        X, Y
            A `Corpus` with labels, or matrices of words and labels.
        ks
            Depths of P@k, nDCG@k, recall@k, PSP@k and PSnDCG@k.
        propensity
            A and B of the propensity model, applied to the training frequencies of labels.
        auc
            Also what needs the score of every label: the AUC of each document, averaged; the Brier score, the
            mean of (probability - truth)² over documents and labels; and `reliability`, a table of how often
            labels of about a probability are right. Where documents times labels are many, a sample of
            `n_sampled` documents has them, and `auc_se` and `brier_se` are standard errors; "all" takes every
            document, however long it takes.
        progress
            See `threepass.progress.Progress`; `evaluate` is counted in documents.
        """
        scores = self._evaluate(X, Y, ks, propensity, auc, progress)
        if scores.caution:
            warnings.warn(scores.caution, stacklevel=2)
        return scores

    def score(self, X: Any, y: Any = None) -> float:
        """P@1: how often the best label is right."""
        return float(self._evaluate(X, y, ks=(1,), auc=False)["p@1"])

    def _evaluate(
        self,
        X: Any,
        Y: Any,
        ks: Sequence[int],
        propensity: tuple[float, float] = (0.55, 1.5),
        auc: bool | Literal["all"] = True,
        progress: Progress | None = None,
    ) -> Scores:
        if isinstance(X, Corpus) and Y is not None:
            raise InputError(
                "A corpus holds its own labels. Found a second argument. Call evaluate(corpus) alone."
            )
        if not isinstance(X, Corpus) and Y is None:
            raise InputError(
                "Evaluation needs the true labels. Found a matrix alone. Pass Y too, or a corpus."
            )
        if isinstance(X, Corpus):
            check_like(X, self._fitted().text_, self.term_names_, self.label_names_)
        if not ks or min(ks) < 1:
            raise InputError(f"ks are depths of the ranking. Found {ks!r}. Pass some, as in (1, 3, 5).")
        head, n_docs, known = self._ranking_head(), _n_docs(X), self.training_documents_
        inverse = 1 / propensities(self.label_counts_, self.statistics_.n_docs, *propensity)
        evaluation = Evaluation(head, tuple(ks), inverse, sample_share(auc, n_docs, head.n_labels), known)
        parts = evaluation.over(self._documents(X, Y), n_docs, self.n_jobs, progress)
        scores, familiar = evaluation.finish(parts)
        within = known.within(X) if known is not None and isinstance(X, Corpus) else None
        said = relation(known, familiar, scores["n_docs"], within, self.statistics_.n_docs)
        scores["documents_are"], scores["familiar"] = said
        return scores

    def _ranking_head(self) -> Head:
        """The head that ranks as `tail_weight` asks."""
        head = self._fitted().head_
        if not self.tail_weight:
            return head
        inverse = 1 / propensities(self.label_counts_, self.statistics_.n_docs)
        return replace(head, emphasis=(inverse**self.tail_weight).astype(np.float32), plain=head)

    def _over_documents(
        self,
        X: Any,
        use: Callable[[Seen, SparseRows | None], Any],
        Y: Any = None,
        *,
        head: Head,
        told: Callable[[float], None] | None = None,
    ) -> Iterator[Any]:
        """`use(what the head sees, labels)` of some documents at a time, in order, on threads.

        `told` is called with each further number of documents that are done.
        """
        docs = self._documents(X, Y)

        def block(number: int) -> list[Any]:
            words, labels = docs.read(number)
            parts = []
            for start in range(0, max(1, words.n_rows), _DOCUMENTS):
                rows = start, min(start + _DOCUMENTS, words.n_rows)
                own = None if labels is None else labels.slice(*rows)
                check_wanted()
                parts.append(use(head.see(words.slice(*rows)), own))
                if told is not None:
                    told(rows[1] - rows[0])
            return parts

        at_a_time = 2 * (self.n_jobs or n_cpus())
        for first in range(0, docs.n_blocks, at_a_time):
            numbers = range(first, min(first + at_a_time, docs.n_blocks))
            with one_blas_thread():
                done = map_tasks(block, numbers, name="predict", n_threads=self.n_jobs)
            for parts in done:
                yield from parts

    def _documents(self, X: Any, Y: Any) -> Documents:
        if isinstance(X, Documents):
            return X
        if (texts := as_text_list(X)) is not None:
            return row_documents(self.text_encoder().rows([as_texts(texts)]), as_labels(as_label_matrix(Y)))
        if isinstance(X, Corpus):
            check_like(X, self.text_, self.term_names_, None)
        if is_plain(X):
            X, _ = validated(self, X)
        return documents(X, Y, self.n_features_in_)

    def text_encoder(self) -> TextEncoder:
        """What turns texts into words as it was done for the training documents.

        Raises
        ------
        InputError
            The model was not fitted to a corpus that was made of texts.
        """
        self._fitted()
        if getattr(self, "_encoder", None) is None:
            self._encoder = TextEncoder.of(self.text_, self.term_names_)
        assert self._encoder is not None
        return self._encoder

    def _fitted(self) -> MomentLabeler:
        check_is_fitted(self, "head_")
        return self

    # -- evidence -----------------------------------------------------------------------------------------

    def topics(self, n: int = 10) -> list[Topic]:
        """Every topic, heaviest first: weight, n most telling words, n most likely labels, and error bars.

        The error bars are those of `error_bars_`: of a topic before the head refines it.
        """
        head = self._fitted().head_
        return topic_list(head, self.error_bars_, self.term_names_, self.label_names_, n)

    def explain(self, document: Any, label: int | str, n: int = 10) -> Explanation:
        """Which words and which topics of a document speak for a label.

        Parameters
        ----------
        document
            A text, of which the words that the model knows are taken, as it was done for the training texts,
            or by name where there were none; or one row: a matrix of one row, a vector of words, or a corpus
            of one document, such as `corpus.head(1)`.
        label
            Its number or its name.
        n
            Words and topics to tell.
        """
        return explanation(self._fitted(), document, label, n)

    # -- trust --------------------------------------------------------------------------------------------

    def guarantee(self, delta: float = 0.05) -> Guarantee:
        """Theorem 1 of the paper for this corpus, and the error bars measured beside it.

        Both are about the topics as the moments give them, before a head refines them.
        """
        head = self._fitted().head_
        return guarantee(
            self.statistics_,
            self.self_pairs == "drop",
            self.eigenvalues_,
            topic_weights(self.tensor_eigenvalues_, self.prior),
            self.error_bars_,
            delta,
            head.is_refined,
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model as a zarr group; it appears at `path` only once it is whole."""
        from .files import save_model

        save_model(self._fitted(), Path(path), overwrite)

    @classmethod
    def load(cls, path: str | Path) -> MomentLabeler:
        """Read a saved model. Nothing in it is executed."""
        from .files import load_model

        return load_model(path)

    def _repr_html_inner(self) -> str:
        """scikit-learn's own view of the parameters, and what was learned."""
        html: str = estimator_html_repr(self)
        return html + fitted_table(self) if hasattr(self, "head_") else html

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_inner()}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


def _run_directory(
    folder: str | Path | None, corpus: Corpus, settings: Settings
) -> AbstractContextManager[RunDirectory]:
    """Where sums of exactly this corpus and these settings are kept."""
    if folder is None:
        return nullcontext(RunDirectory.none())
    what = {"corpus": corpus.fingerprint, "settings": asdict(settings)}
    return RunDirectory.at(Path(folder), what)


def _n_docs(X: Any) -> int:
    if isinstance(X, Corpus | str):
        return 1 if isinstance(X, str) else X.n_docs
    if isinstance(X, Documents):
        return X.n_docs
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _check_k(k: int) -> None:
    if not (isinstance(k, int | np.integer) and k > 0):
        raise InputError(f"k is a number of labels. Found {k!r}. Pass 1 or more.")
