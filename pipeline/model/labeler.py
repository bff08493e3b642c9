"""`MomentLabeler`: a scikit-learn style estimator that learns labels from three reads of a corpus."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ..corpus.store import Corpus
from ..errors import InputError
from ..moments.method import DEFAULT_TOPICS, MomentSettings
from ..moments.words import WordView
from ..parts.heads import HEADS
from ..parts.part import PartSettings
from ..passes.checkpoints import RunDirectory, description_of
from ..passes.executors import Executor, Threads
from ..passes.plan import Plan
from ..passes.runner import Runner
from ..progress import Progress
from ..tasks import one_blas_thread
from ..warn import warn
from .fitted import FittedEstimator
from .fitting import Clock, Fit, FitSettings, Save, start, with_clock
from .inputs import is_plain, is_texts
from .parameters import bytes_of, check_parameters
from .predictor import Predictor
from .training import training_corpus, validated
from .training_documents import TrainingDocuments


class MomentLabeler(FittedEstimator):
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
        together. `sharp`: the blend with the votes of a document's nearest training documents, and with a
        classifier for each label that tells its documents from those that look alike; it keeps words of
        training documents. `auto` is `sharp`, and `posterior` where no document has a label.
    head_dim
        Features of the ridge regression; None for as many as memory and time allow. When given, all of them
        are directions in word space.
    weighting
        How often a word occurs counts as 1 + `log` c, as `counts` c, or not at all (`binary`) in the weighted
        words of all parts but topics, which have `words` for that.
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
        Threads of the passes; every processor when None or -1, all but one when -2, and so on.
    random_state
        Seed of the whitening sketch and of the decomposition's start; or whatever else scikit-learn takes for
        one: None, a `RandomState` or a `Generator`, of which a seed is drawn. A killed fit goes on with the
        seed that was drawn for None; a generator has to draw the same one again.

    Attributes
    ----------
    predictor_ : Predictor
        Everything that labelling documents takes; it works without the estimator.
    moments_ : MomentTopics
        The paper's topics, and how far they can be trusted. The next attributes are of these, whatever the
        head.
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
    training_documents_ : TrainingDocuments or None
        By which `evaluate` knows documents that the model has seen.
    n_passes_ : int
        Full reads of the corpus: 3, and `refine_passes`.
    text_ : TextInfo or None
        How texts become words, where the training corpus was made of texts.
    fit_stats_ : dict
        Seconds of each stage, and what the process had held at most by its end (`peak_bytes`); the plan; the
        corpus; the eigenvalues after the first K (`further_eigenvalues`), share of the corpus that a sample
        read once more, choices made and by what (`choice`), how good they are on the held-out training
        documents (`held_out`), seconds that choices took (`choice_seconds`, within those of their stages),
        bytes of the model and of its parts, and `notes`: sentences about what was learned, none of which
        asks for anything to be done.

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
        head: Literal["auto", "posterior", "refined", "ridge", "blend", "sharp"] = "auto",
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
        random_state: Any = 0,
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
        y: Any = None,
        *,
        client: Any = None,
        progress: Progress | None = None,
        run_dir: str | Path | None = None,
        Y: Any = None,
    ) -> MomentLabeler:
        """Learn from a corpus, from texts and their labels, or from matrices of words and labels.

        Parameters
        ----------
        X
            A `Corpus`; or texts, or a matrix (documents, words): scipy, pydata/sparse, dense or Dask.
        y
            With texts, a list of label names for each of them; with a matrix, a matrix (documents, labels),
            of which whatever is not zero is a label.
        client
            A `distributed.Client` to run the passes on; local threads when None. Workers must reach the
            corpus by its path or URL, and `run_dir`, or without one the temporary directory.
        progress
            See `threepass.progress.Progress`; reads of the corpus are counted in documents.
        run_dir
            A directory in which sums are kept while they are made. When a fit is killed, the same call goes
            on from there; a directory of another corpus or other parameters is not used. Remove it once the
            model is saved, or let `fit_to` do all of that.
        Y
            Another name of `y`.
        """
        labels = _either(y, Y)
        check_parameters(self.get_params())
        source = X
        if is_plain(X) and is_plain(labels) and not is_texts(X):
            X, labels = validated(self, X, labels)
        with training_corpus(X, labels, self.threads) as corpus:
            self._fit(corpus, client, progress, run_dir)
        if is_plain(source) and not is_texts(source):  # only now: a refused fit leaves the last one as it was
            validate_data(self, source, skip_check_array=True)
        return self

    def _fit(
        self,
        corpus: Corpus,
        client: Any,
        progress: Progress | None,
        run_dir: str | Path | None,
        save: Callable[[Predictor], None] | None = None,
    ) -> None:
        if corpus.n_labels == 0 or corpus.n_terms == 0:
            raise InputError(
                f"There is nothing to learn. Found {corpus.n_terms} terms and {corpus.n_labels} labels. "
                "Give documents with words, and labels for them."
            )
        settings = self._settings(corpus, run_dir)
        view = settings.moments.view
        if view.counts and view.drop_self_pairs and corpus.info.values.startswith("float"):
            raise InputError(
                "self_pairs='drop' with words='counts' needs whole-number counts. Found fractions. "
                "Use words='binary', or self_pairs='keep'."
            )
        with _run_directory(run_dir, corpus, settings) as files:
            fit, runner = start(corpus, settings, Runner(_executor(self.threads, client), progress, files))
            fit.run(runner)
        self._keep(fit)
        if save is not None:
            clock = Clock(self.fit_stats_, progress)
            with_clock(clock, Save(fit, lambda: save(self.predictor_)), runner)

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
        from .files import saving

        check_parameters(self.get_params())
        path = Path(path)
        folder = path.with_name(f"{path.name}.run") if run_dir is None else Path(run_dir)
        with (
            saving(path, overwrite, folder, None if run_log is None else Path(run_log)) as save,
            one_blas_thread(),
        ):
            self._fit(corpus, client, progress, folder, save)
        return self

    def plan(self, corpus: Corpus) -> Plan:
        """Plan of fitting and saving: bytes and work of each stage. Nothing is read for it.

        Raises
        ------
        InputError
            `memory_limit` is less than the least that a fit takes.
        """
        check_parameters(self.get_params())
        return self._settings(corpus).plan(corpus, self.threads)

    def _settings(self, corpus: Corpus, run_dir: str | Path | None = None) -> FitSettings:
        seed = _kept_seed(run_dir) if self.random_state is None else None
        if seed is None:
            seed = _seed(self.random_state)
        view = WordView(counts=self.words == "counts", drop_self_pairs=self.self_pairs == "drop")
        moments = MomentSettings(
            int(self.n_components), self.whitening, self.tensor, self.prior, view, self.error_bars, seed
        )
        memory = None if self.memory_limit is None else bytes_of(self.memory_limit)
        return FitSettings(moments, self._part_settings(corpus, seed), memory)

    def _part_settings(self, corpus: Corpus, seed: int) -> PartSettings:
        labelled = any(block.y_nnz for block in corpus.info.blocks)
        head = self.head if self.head != "auto" else "sharp" if labelled else "posterior"
        refine_passes = int(self.refine_passes) if HEADS[head].refines else 0
        dim = None if self.head_dim is None else int(self.head_dim)
        return PartSettings(head, self.weighting, dim, refine_passes, self.smoothing, seed)

    def _keep(self, fit: Fit) -> None:
        """Take over what was learned."""
        corpus = fit.corpus
        terms = corpus.terms
        assert fit.moments is not None
        assert fit.blend is not None
        assert fit.hashes is not None
        assert fit.method.label_counts is not None
        if not fit.stats["tensor_converged"]:
            warn(
                "The tensor's decomposition did not converge: topics are the best found so far. "
                "Ask for fewer topics (n_components), or choose the other tensor method.",
                ConvergenceWarning,
            )
        self.predictor_ = Predictor(
            fit.moments,
            fit.blend,
            [terms[i] for i in np.argsort(corpus.term_ids).tolist()],
            corpus.labels,
            fit.method.label_counts,
            corpus.info.text,
            TrainingDocuments.of(corpus, fit.hashes.hashes),
            fit.stats,
            self.get_params(),
            fit.n_reads,
            self.threads,
        )
        self.n_features_in_ = corpus.n_terms
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit


def _executor(n_threads: int | None, client: Any) -> Executor:
    """Choose where the passes run."""
    if client is None:
        return Threads(n_threads)
    from ..passes.cluster.executor import Cluster

    return Cluster(client, n_threads)


def _run_directory(
    folder: str | Path | None, corpus: Corpus, settings: FitSettings
) -> AbstractContextManager[RunDirectory]:
    """Open the directory for sums of exactly this corpus and these settings."""
    if folder is None:
        return nullcontext(RunDirectory.none())
    what = {"corpus": corpus.fingerprint, "settings": asdict(settings)}
    return RunDirectory.at(Path(folder), what)


def _either(y: Any, Y: Any) -> Any:
    if y is not None and Y is not None:
        raise InputError("Labels are given once. Found both y and Y. Pass one of them.")
    return Y if y is None else y


def _kept_seed(run_dir: str | Path | None) -> int | None:
    """Seed of the fit that a run directory is of, if any."""
    with suppress(KeyError, TypeError):
        seed = None if run_dir is None else description_of(Path(run_dir))["settings"]["moments"]["seed"]
        if isinstance(seed, int) and seed >= 0:
            return seed
    return None


def _seed(random_state: Any) -> int:
    """A seed of whatever scikit-learn takes for one."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return int(check_random_state(random_state).randint(2**31 - 1))
