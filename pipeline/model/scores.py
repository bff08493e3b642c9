"""What an evaluation found, as a dictionary that shows itself."""

from __future__ import annotations

from typing import Any

from pipeline.display import how_many, html_table

_RELIABILITY = ("probability", "labels", "predicted", "observed")


class Scores(dict[str, Any]):
    """Measures by name, `reliability` a list of rows; prints as tables.

    Examples
    --------
    >>> print(Scores(n_docs=10, n_unlabelled=0, **{"auc": 0.987654, "p@1": 0.75, "brier": 0.00012}))
    10 documents, 0 of them without labels
               auc 0.9877
               p@1 0.7500
             brier 0.00012
    """

    def __str__(self) -> str:
        lines = [self._counts, *(f"{name:>14} {value}" for name, value in self._measures)]
        if self._rows:
            lines += ["", "{:>14} {:>14} {:>10} {:>10}".format(*_RELIABILITY)]
            lines += ["{:>14} {:>14} {:>10} {:>10}".format(*row) for row in self._rows]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = html_table(self._counts, self._measures)
        return tables + (html_table("Reliability", self._rows, _RELIABILITY) if self._rows else "")

    @property
    def _counts(self) -> str:
        return f"{how_many(self['n_docs'], 'document')}, {self['n_unlabelled']:,} of them without labels"

    @property
    def _measures(self) -> list[tuple[str, str]]:
        return [(name, _rounded(value)) for name, value in self.items() if isinstance(value, float)]

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


def _rounded(value: float) -> str:
    return f"{value:,.4f}" if value >= 0.01 else f"{value:.4g}"
