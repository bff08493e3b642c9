"""Fitted estimators: learned attributes, predictions, evidence, files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from ..metrics.scores import Scores
from ..moments.guarantee import Guarantee
from ..progress import Progress
from ..types import Array
from .evidence import Explanation, Topic
from .inputs import is_plain, is_texts
from .parameters import threads_of
from .predictor import Predictor
from .summary import fitted_table
from .training import validated

if TYPE_CHECKING:
    import scipy.sparse

_LEARNED = {
    "moments_": "moments",
    "word_topics_": "moments.O",
    "label_topics_": "moments.Q",
    "topic_weights_": "moments.pi",
    "whitening_": "moments.W",
    "eigenvalues_": "moments.eigenvalues",
    "tensor_eigenvalues_": "moments.tensor_eigenvalues",
    "tensor_residual_": "moments.tensor_residual",
    "error_bars_": "moments.error_bars",
    "statistics_": "moments.statistics",
    "training_documents_": "training_documents",
    "n_passes_": "n_passes",
    "text_": "text",
    "fit_stats_": "fit_stats",
    "label_counts_": "label_counts",
    "label_names_": "label_names",
    "term_names_": "term_names",
    "threshold_": "threshold",
    "scores_mean_": "scores_mean",
}
"""Learned attributes, and where the predictor has them."""


class FittedEstimator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator as it is once it was fitted; all of this is its predictor's."""

    predictor_: Predictor
    tail_weight: float
    n_jobs: int | None

    # -- what was learned ---------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Look up a learned attribute, by the name that scikit-learn's users expect."""
        if name in _LEARNED and "predictor_" in self.__dict__:
            value: Any = self.predictor_
            for step in _LEARNED[name].split("."):
                value = getattr(value, step)
            return value
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def classes_(self) -> Array:
        """(L,): the columns of Y, which `predict_proba` has too."""
        return np.arange(self.predictor_.n_labels)

    @property
    def threads(self) -> int | None:
        """Number of threads that `n_jobs` asks for; None for every processor."""
        return threads_of(self.n_jobs)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(_LEARNED if "predictor_" in self.__dict__ else ())]

    # -- predicting ---------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """(n, K) float32: the probability of each of the paper's topics, for each document (equation 14)."""
        return self._fitted().transform(self._checked(X))

    def predict_topk(self, X: Any, k: int = 5) -> tuple[Array, Array]:
        """The k best labels of each document, and their probabilities; as `Predictor.predict_topk`."""
        return self._fitted().predict_topk(self._checked(X), k)

    def stream_topk(
        self, X: Any, k: int = 5, progress: Progress | None = None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield `predict_topk` of some documents at a time: for predictions that are too many to hold."""
        return self._fitted().stream_topk(self._checked(X), k, progress)

    def predict_proba(self, X: Any) -> Array:
        """(n, L) float32: the probability of each label; as `Predictor.predict_proba`."""
        return self._fitted().predict_proba(self._checked(X))

    def predict(self, X: Any, k: int | None = None, threshold: float | None = None) -> scipy.sparse.csr_array:
        """(n, L) sparse indicator of the labels to assign; as `Predictor.predict`."""
        return self._fitted().predict(self._checked(X), k, threshold)

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
        """Measure how well documents are labelled; as `Predictor.evaluate`."""
        return self._fitted().evaluate(
            self._checked(X), Y, ks=ks, propensity=propensity, auc=auc, progress=progress
        )

    def score(self, X: Any, y: Any = None) -> float:
        """P@1: how often the best label is right."""
        return float(self._fitted().measures(self._checked(X), y, ks=(1,), auc=False)["p@1"])

    def _checked(self, X: Any) -> Any:
        """X, by scikit-learn's own rules where it understands it."""
        if is_plain(X) and not is_texts(X):
            X, _ = validated(self, X)
        return X

    def _fitted(self) -> Predictor:
        """The predictor, as the parameters are now; one that others may hold is left as it is."""
        check_is_fitted(self, "predictor_")
        predictor = self.predictor_.with_tail_weight(self.tail_weight)
        if predictor.n_threads != self.threads:
            predictor = replace(predictor, n_threads=self.threads)
        self.predictor_ = predictor
        return predictor

    # -- evidence and trust -------------------------------------------------------------------------------

    def topics(self, n: int = 10) -> list[Topic]:
        """Every topic of the paper, heaviest first; as `Predictor.topics`."""
        return self._fitted().topics(n)

    def explain(self, document: Any, label: int | str, n: int = 10) -> Explanation:
        """Words and topics of a document that speak for a label; as `Predictor.explain`."""
        return self._fitted().explain(document, label, n)

    def guarantee(self, delta: float = 0.05) -> Guarantee:
        """Theorem 1 of the paper for this corpus, and the error bars measured beside it."""
        return self._fitted().guarantee(delta)

    # -- files and views ----------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model as a zarr group; it appears at `path` only once it is whole.

        Its parameters are those of the fit, but for a `tail_weight` that was set since.
        """
        from .files import save_predictor

        names = getattr(self, "feature_names_in_", None)
        save_predictor(replace(self._fitted(), feature_names=names), Path(path), overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a saved model. Nothing in it is executed."""
        return cls.of(Predictor.load(path))

    @classmethod
    def of(cls, predictor: Predictor) -> Self:
        """The estimator that a predictor was made by."""
        model = cls(**predictor.parameters)
        model.predictor_ = predictor
        model.n_features_in_ = predictor.n_terms
        if predictor.feature_names is not None:
            model.feature_names_in_ = predictor.feature_names
        return model

    def _repr_html_inner(self) -> str:
        """scikit-learn's own view of the parameters, and what was learned."""
        html: str = estimator_html_repr(self)
        return html + fitted_table(self.predictor_) if "predictor_" in self.__dict__ else html

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
