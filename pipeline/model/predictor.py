"""`Predictor`: a model that labels documents. It knows nothing of learning, and loads nothing for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..corpus.rows import SparseRows
from ..display import how_many
from ..errors import InputError
from ..metrics.scores import Scores
from ..moments.guarantee import Guarantee
from ..moments.posterior import TopicModel
from ..moments.topics import MomentTopics
from ..parts.blend import Blend, DocumentFeatures
from ..parts.scoring import all_scores, labels_above, top_labels
from ..progress import Progress, counted
from ..text.info import TextInfo
from ..types import Array
from ..warn import warn
from .evidence import Explanation, Topic, explanation, topic_list
from .inputs import SIZES, BatchSizes, number_of, over_documents
from .training_documents import TrainingDocuments

if TYPE_CHECKING:
    import scipy.sparse

    from .texts import TextEncoder


@dataclass(eq=False, repr=False)
class Predictor:
    """A fitted model, as far as it labels documents.

    Examples
    --------
    >>> import tempfile
    >>> from threepass import MomentLabeler, Predictor, ingest_shape
    >>> folder = tempfile.mkdtemp()
    >>> corpus = ingest_shape("bibtex", f"{folder}/corpus.zarr", scale=0.05)
    >>> MomentLabeler(5, head_dim=10).fit(corpus).save(f"{folder}/model.zarr")
    >>> labels, scores = Predictor.load(f"{folder}/model.zarr").predict_topk(corpus.head(5), k=3)
    >>> labels.shape, scores.shape
    ((5, 3), (5, 3))
    """

    moments: MomentTopics
    """The paper's topics, words in the order of the training matrix's columns, or of the source's ids."""
    blend: Blend
    """Everything that scores take, words in the same order."""
    term_names: list[str]
    label_names: list[str]
    label_counts: Array
    """(L,) int64: on how many training documents each label is."""
    text: TextInfo | None = None
    """Settings by which texts become words, where the training corpus was made of texts."""
    training_documents: TrainingDocuments | None = None
    """By which `evaluate` knows documents that the model has seen."""
    fit_stats: dict[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the estimator that made it."""
    n_passes: int = 3
    """Full reads of the corpus that it was made from."""
    n_threads: int | None = None
    """Threads of predictions; every processor when None."""
    feature_names: Any = None
    """(D,) names of the columns of a table that it was fitted to, as scikit-learn keeps them."""
    sizes: BatchSizes = SIZES

    @classmethod
    def load(cls, path: str | Path, n_threads: int | None = None) -> Predictor:
        """Read a saved model. Nothing in it is executed.

        Raises
        ------
        StoreError
            There is no whole model of a known version.
        """
        from .files import load_predictor

        predictor = load_predictor(path)
        predictor.n_threads = n_threads
        return predictor

    def __call__(self, texts: Any, k: int = 5) -> Any:
        """The k best labels of one text or several, as (name, score) pairs; none without known words.

        Parameters
        ----------
        texts
            A text gives a list of pairs; anything else that `predict_topk` takes, a list of such lists.
        """
        found: list[list[tuple[str, float]]] = []
        for labels, scores, has_words in self._stream_topk(texts, k):
            for own, values, known in zip(labels.tolist(), scores.tolist(), has_words.tolist(), strict=True):
                pairs = zip(own, values, strict=True) if known else ()
                found.append([(self.label_names[label], score) for label, score in pairs if label >= 0])
        return found[0] if isinstance(texts, str) else found

    @property
    def n_terms(self) -> int:
        return len(self.term_names)

    @property
    def n_labels(self) -> int:
        return len(self.label_names)

    @property
    def threshold(self) -> float | None:
        """The score from which on `predict` assigns a label: of the best micro-F1 on held-out documents.

        None where these were too few. `fit_stats["threshold"]` has that F1 too.
        """
        return self.blend.threshold

    @property
    def scores_mean(self) -> str:
        """Meaning of scores, in words."""
        return self.blend.meaning

    @property
    def tail_weight(self) -> float:
        """0 ranks labels by probability, 1 by probability over propensity, which favours rare labels."""
        return float(self.parameters.get("tail_weight", 0.0))

    def with_tail_weight(self, weight: float) -> Predictor:
        """The same that ranks with another `tail_weight`."""
        if weight == self.tail_weight:
            return self
        return replace(self, parameters={**self.parameters, "tail_weight": weight})

    # -- predicting ---------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """(n, K) float32: the probability of each of the paper's topics, for each document (equation 14)."""

        def shares(words: SparseRows) -> Array:
            return self.topic_model.posterior(words)

        return np.concatenate(list(over_documents(X, shares, self)))

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
            What `scores_mean` says; with a `tail_weight`, divided by that power of the label's propensity.
        """
        labels, scores = (np.concatenate(side) for side in zip(*self.stream_topk(X, k), strict=True))
        return labels, scores

    def stream_topk(
        self, X: Any, k: int = 5, progress: Progress | None = None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield `predict_topk` of some documents at a time: for predictions that are too many to hold."""
        for labels, scores, _ in self._stream_topk(X, k, progress):
            yield labels, scores

    def _stream_topk(
        self, X: Any, k: int, progress: Progress | None = None
    ) -> Iterator[tuple[Array, Array, Array]]:
        check_k(k)
        blend = self.ranking_blend
        told = None if progress is None else counted(progress, "predict", number_of(X))

        def best(words: SparseRows) -> tuple[Array, Array, Array]:
            seen = blend.see(words)
            return *top_labels(blend, seen, k), seen.has_words

        yield from over_documents(X, best, self, told)

    def predict_proba(self, X: Any) -> Array:
        """(n, L) float32: the probability of each label, dense; for large data see `predict_topk`.

        `scores_mean` says what these probabilities are of; `tail_weight` does not change them.
        """
        blend = self.blend

        def proba(words: SparseRows) -> Array:
            parts = [blend.probabilities(scores) for _, scores in all_scores(blend, blend.see(words))]
            return np.concatenate(parts) if parts else np.zeros((0, blend.n_labels), np.float32)

        return np.concatenate(list(over_documents(X, proba, self)))

    def predict(self, X: Any, k: int | None = None, threshold: float | None = None) -> scipy.sparse.csr_array:
        """(n, L) sparse indicator of the labels to assign; none to a document without a word that is known.

        When neither `k` nor `threshold` is given, labels are assigned from the model's own threshold on. A
        model without one (its training documents were too few) assigns as many as a training document has on
        average.

        Parameters
        ----------
        k
            The k best of each document.
        threshold
            All labels of at least this score; with `k`, at most k of them.
        """
        import scipy.sparse

        blend = self.ranking_blend
        if k is None and threshold is None:
            threshold = self.threshold
            if threshold is None:
                k = max(1, round(self.label_counts.sum() / max(1, self.moments.statistics.n_docs)))
            else:  # it is one of probabilities, whatever labels are ranked by
                blend = self.blend
        if k is not None:
            check_k(k)

        def chosen(words: SparseRows) -> scipy.sparse.csr_array:
            seen = blend.see(words)
            rows, own = _assigned(blend, seen, k, threshold)
            known = seen.has_words[rows]
            rows, own = rows[known], own[known]
            ones = np.ones(len(rows), np.int8)
            return scipy.sparse.csr_array((ones, (rows, own)), shape=(seen.n_docs, blend.n_labels))

        parts = list(over_documents(X, chosen, self))
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
        """Measure how well predicted rankings fit true labels, and how honest probabilities are.

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
        scores = self.measures(X, Y, ks=ks, propensity=propensity, auc=auc, progress=progress)
        if scores.caution:
            warn(scores.caution)
        return scores

    def measures(
        self, X: Any, Y: Any, *, ks: Sequence[int], progress: Progress | None = None, **settings: Any
    ) -> Scores:
        """Evaluate without a warning."""
        from .evaluation import Evaluation

        return Evaluation(self, ks, **settings).scores(X, Y, progress)

    @cached_property
    def topic_model(self) -> TopicModel:
        """The paper's topics, ready to find those of documents."""
        topics, smoothing = self.moments, self.parameters.get("smoothing")
        chosen = {} if smoothing is None else {"smoothing": smoothing}
        return TopicModel(topics.O, topics.Q, topics.pi, **chosen)

    @cached_property
    def ranking_blend(self) -> Blend:
        """The blend that ranks as `tail_weight` asks."""
        from ..metrics.measures import propensities

        if not self.tail_weight:
            return self.blend
        inverse = 1 / propensities(self.label_counts, self.moments.statistics.n_docs)
        return self.blend.emphasised(inverse**self.tail_weight)

    @cached_property
    def encoder(self) -> TextEncoder:
        """Encoder of texts as words, as it was done for the training documents.

        Raises
        ------
        InputError
            The model was not fitted to a corpus that was made of texts.
        """
        from .texts import TextEncoder

        return TextEncoder.of(self.text, self.term_names)

    # -- evidence -----------------------------------------------------------------------------------------

    def topics(self, n: int = 10) -> list[Topic]:
        """Every topic of the paper, heaviest first: weight, most telling words, likeliest labels, error bars.

        The topics are those that the moments give; a head that refines them keeps its own
        (`blend.parts`).
        """
        return topic_list(self.moments, self.term_names, self.label_names, n)

    def explain(self, document: Any, label: int | str, n: int = 10) -> Explanation:
        """Words and topics of a document that speak for a label.

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
        return explanation(self, document, label, n)

    def guarantee(self, delta: float = 0.05) -> Guarantee:
        """Theorem 1 of the paper for this corpus, and the error bars measured beside it.

        Both are about the topics as the moments give them (`topics`).
        """
        return self.moments.guarantee(delta)

    def __repr__(self) -> str:
        sizes = how_many(self.n_terms, "term"), how_many(self.n_labels, "label")
        return f"<Predictor: {', '.join(sizes)}, head {self.blend.head}>"

    def _repr_html_(self) -> str:
        from .summary import fitted_table

        return fitted_table(self)


def _assigned(
    blend: Blend, seen: DocumentFeatures, k: int | None, threshold: float | None
) -> tuple[Array, Array]:
    """Documents, and labels to assign to them."""
    if k is None:
        assert threshold is not None
        return labels_above(blend, seen, threshold)
    labels, scores = top_labels(blend, seen, min(k, blend.n_labels))
    keep = labels >= 0 if threshold is None else scores >= threshold
    return np.nonzero(keep)[0], labels[keep]


def check_k(k: int) -> None:
    """Refuse what is no number of labels."""
    if not (isinstance(k, int | np.integer) and k > 0):
        raise InputError(f"k is a number of labels. Found {k!r}. Pass 1 or more.")


def predictor_of(model: Any) -> Predictor:
    """The predictor of a fitted estimator, or the predictor that it is."""
    return model if isinstance(model, Predictor) else model.predictor_
