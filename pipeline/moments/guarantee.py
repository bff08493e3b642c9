"""Theorem 1 of the paper, evaluated for a corpus, and the error bars that were measured beside it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..types import Array
from .error_bars import ErrorBars
from .pairs import Statistics


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Bounds that Theorem 1 promises with probability 1 - delta, and measured errors.

    The bounds are on the Euclidean distance of a topic's word and label distributions, and on its weight. Two
    distributions are never further apart than sqrt(2), and weights than 1: a larger bound says nothing.
    The theorem gives n_1 to n_3 only up to constants; they are evaluated with these set to 1.

    All of it is about the topics as the moments give them. A head that refines topics labels documents by
    others.
    """

    delta: float
    n_docs: int
    n_components: int
    sigma_1: float
    sigma_k: float
    d2s: float
    d3s: float
    dls: float
    epsilon_1: float
    epsilon_2: float
    bound_words: float
    bound_labels: float
    bound_weights: float
    n_1: float
    n_2: float
    n_3: float
    measured_words: float
    """Median over topics of the measured L1 error of a topic's word distribution."""
    measured_labels: float
    """The same for label distributions."""

    @property
    def says_something(self) -> bool:
        """Whether the theorem applies, and any of its bounds is smaller than what holds anyway."""
        return self._enough_documents and self._small_bound

    @property
    def _enough_documents(self) -> bool:
        return self.n_docs >= max(self.n_1, self.n_2, self.n_3)

    @property
    def _small_bound(self) -> bool:
        return self.bound_words < math.sqrt(2) or self.bound_labels < math.sqrt(2) or self.bound_weights < 1

    @property
    def sentence(self) -> str:
        """The verdict in plain words."""
        if self.says_something:
            verdict = (
                f"Theorem 1 holds with probability {1 - self.delta:g}: topics are within "
                f"{self.bound_words:.3g} (words) and {self.bound_labels:.3g} (labels), "
                f"weights within {self.bound_weights:.3g}."
            )
        elif self._small_bound:
            verdict = (
                f"Theorem 1 says nothing at N = {self.n_docs:,}: it asks for about "
                f"{max(self.n_1, self.n_2, self.n_3):.1e} documents, up to a constant."
            )
        else:
            # bounds fall as 1 / sqrt(N)
            factor = min(self.bound_words**2 / 2, self.bound_labels**2 / 2, self.bound_weights**2)
            verdict = (
                f"Theorem 1 says nothing at N = {self.n_docs:,}: its best bound would need about "
                f"{self.n_docs * factor:.1e} documents before it says more than 'errors are below 2'."
            )
        if math.isnan(self.measured_words):
            return f"{verdict} No error bars were measured."
        return (
            f"{verdict} Measured on half of the documents: the typical topic is off by about "
            f"{self.measured_words:.2g} in its words and {self.measured_labels:.2g} in its labels "
            "(L1 distance; 0 is exact, 2 is nothing in common)."
        )

    def as_dict(self) -> dict[str, Any]:
        """All numbers and the sentence; ready for JSON."""
        return {**asdict(self), "says_something": self.says_something, "sentence": self.sentence}


def guarantee(
    statistics: Statistics,
    drop_self_pairs: bool,
    sigma: Array,
    pi: Array,
    bars: ErrorBars,
    delta: float,
) -> Guarantee:
    """Evaluate Theorem 1.

    Parameters
    ----------
    sigma
        (K,): the largest eigenvalues of M2, descending.
    pi
        (K,): the topics' weights as the tensor's eigenvalues give them.
    delta
        Probability with which the bounds may fail.
    """
    if not 0 < delta < 1:
        raise InputError(f"delta is a probability. Found {delta}. Pass a number between 0 and 1, as in 0.05.")
    s = statistics
    # the theorem's own averages, with self-pairs, whatever the moments were
    n2 = s.pairs + s.words if drop_self_pairs else s.pairs
    n3 = s.triples + 3 * n2 - 2 * s.words if drop_self_pairs else s.triples
    n2y = s.label_pairs + s.label_words if drop_self_pairs else s.label_pairs
    N, K = s.n_docs, len(sigma)
    d2, d3, dl = n2 / N, n3 / N, n2y / N
    s1, sk = float(sigma[0]), float(sigma[-1])
    e1, e2 = 1 + math.sqrt(math.log(1 / delta) / 2), 1 + math.sqrt(math.log(2 / delta) / 2)
    root = math.sqrt(N)
    words = (
        160 * math.sqrt(s1) / (d2 * sk**2.5)
        + 32 * math.sqrt(2 * s1) / (d3 * sk**1.5)
        + 4 * math.sqrt(s1) / (d2 * sk)
    ) * (e1 / root)
    labels = (
        160 / (d2 * sk**3.5) + 32 * math.sqrt(2) / (d3 * sk**2.5) + (2 + 2 * math.sqrt(2)) / (d2 * sk**2)
    ) * (2 * e1 / root) + (8 * e2 / (dl * sk * root) if dl > 0 else math.inf)
    weights = (200 / sk**2.5 + 40 * math.sqrt(2) / sk**1.5) * e1 / (d3 * root)
    inner = math.log(K * math.sqrt(pi.max() / pi.min()))
    return Guarantee(
        delta=delta,
        n_docs=N,
        n_components=K,
        sigma_1=s1,
        sigma_k=sk,
        d2s=d2,
        d3s=d3,
        dls=dl,
        epsilon_1=e1,
        epsilon_2=e2,
        bound_words=words,
        bound_labels=labels,
        bound_weights=weights,
        n_1=math.log(K) + (math.log(inner) if inner > 0 else 0.0),
        n_2=(e1 / (d2 * sk)) ** 2,
        n_3=K**2 * (10 / (d2 * sk**2.5) + 2 * math.sqrt(2) / (d3 * sk**1.5)) ** 2 * e1**2,
        measured_words=_median(bars.words),
        measured_labels=_median(bars.labels),
    )


def _median(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan
