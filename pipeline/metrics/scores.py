"""Results of an evaluation, as a dictionary that prints as tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..display import how_many, html_table
from ..types import Array

_REMEMBERS = "the scores say how well the model remembers them, not how well it does on new documents"
_CAUTION = {
    "training": f"These are the documents that the model was trained on: {_REMEMBERS}.",
    "part of training": f"These documents are among those that the model was trained on: {_REMEMBERS}.",
    "overlapping": "About {share} of these documents are also among the training documents: expect lower "
    "scores on new ones.",
}
_MENTIONED = 0.005
"""Smallest share of unseen documents like a training document that is mentioned."""


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Documents in which each label is true, predicted, or both; (L,) each."""

    true: Array
    found: Array
    """Documents that have the label, and have it among their best."""
    predicted: Array
    """All documents that have the label among their best."""


class Scores(dict[str, Any]):
    """Measures by name, with `reliability` as a list of rows. Prints as tables.

    Examples
    --------
    >>> print(Scores(n_docs=10, n_unlabelled=0, **{"auc": 0.987654, "p@1": 0.75, "brier": 0.00012}))
    10 documents, 0 of them without labels
               auc 0.9877
               p@1 0.7500
             brier 0.00012
    """

    by_label: LabelCounts | None = None
    """Counts of each label at the largest cut-off; not part of the dictionary."""

    def __str__(self) -> str:
        about = [self.documents] if self.documents else []
        lines = [self._counts, *about, *(f"{name:>14} {value}" for name, value in self._measures)]
        if self._rows:
            lines += ["", "{:>14} {:>14} {:>10} {:>10}".format(*self._head)]
            lines += ["{:>14} {:>14} {:>10} {:>10}".format(*row) for row in self._rows]
        if self.get("calibrated") is False:
            lines.append("These scores are uncalibrated: labels come true more or less often than they say.")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = html_table(f"{self._counts}. {self.documents}".strip(), self._measures)
        if not self._rows:
            return tables
        title = "Reliability" if self["calibrated"] else "Reliability of uncalibrated scores"
        return tables + html_table(title, self._rows, self._head)

    @property
    def caution(self) -> str | None:
        """Warning that the model has seen some or all of the documents; None if it has not."""
        are = self.get("documents_are")
        if are not in _CAUTION:
            return None
        said = _CAUTION[are].format(share=percent(self["familiar"]))
        return f"{said} Evaluate on documents that were set aside before the fit."

    @property
    def documents(self) -> str:
        """Sentence on whether the model has seen the documents; empty if that was not checked."""
        are, share = self.get("documents_are"), self.get("familiar")
        if are == "unknown":
            return "Whether the model has seen these documents cannot be told."
        if are != "unseen":
            return self.caution or ""
        if share is None or share < _MENTIONED:
            return "The model has not seen these documents."
        alike = f"about {percent(share)} of them have the words and labels of a training document"
        return f"The model has not seen these documents; {alike}."

    @property
    def sampled(self) -> str:
        """Sample behind AUC, Brier and reliability, in words; empty if all documents were used."""
        return f"on a sample of {self['n_sampled']:,} documents" if "n_sampled" in self else ""

    def measure(self, name: str) -> str:
        """A measure as text, with its standard error if it was measured on a sample."""
        error = self.get(f"{name}_se")
        return _rounded(self[name]) + ("" if error is None else f" ± {error:.1g}, {self.sampled}")

    @property
    def _counts(self) -> str:
        return f"{how_many(self['n_docs'], 'document')}, {self['n_unlabelled']:,} of them without labels"

    @property
    def _measures(self) -> list[tuple[str, str]]:
        told = [name for name in self if not name.endswith("_se") and name != "familiar"]
        return [(name, self.measure(name)) for name in told if isinstance(self[name], float)]

    @property
    def _head(self) -> tuple[str, ...]:
        return ("probability" if self["calibrated"] else "score"), "labels", "predicted", "observed"

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                f"{row['from']:g} - {row['to']:g}",
                f"{row['pairs']:,}",
                f"{row['predicted']:.4f}",
                f"{row['observed']:.4f}",
            )
            for row in self.get("reliability", [])
        ]


def percent(share: float) -> str:
    """A share as text: `3 %`, or `less than 1 %` and `more than 99 %` near 0 and 1."""
    if 0 < share < 0.01:
        return "less than 1 %"
    return "more than 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def _rounded(value: float) -> str:
    return f"{value:,.4f}" if value >= 0.01 else f"{value:.4g}"
