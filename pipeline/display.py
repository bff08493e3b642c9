"""Counts in words, and small HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_TABLE = "border-collapse:collapse;margin:.4em 0"
_CELL = "text-align:left;padding:.15em 1em .15em 0"


def how_many(n: int, one: str, many: str | None = None) -> str:
    """A count with its noun. Pass `many` for a plural that is not just an added s.

    Examples
    --------
    >>> how_many(1, "document"), how_many(1200, "document"), how_many(2, "row was", "rows were")
    ('1 document', '1,200 documents', '2 rows were')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def html_table(title: str, rows: Iterable[Iterable[object]], head: Iterable[object] = ()) -> str:
    """HTML of a table with a title, with every cell escaped.

    Examples
    --------
    >>> html_table("Corpus", [("documents", 2)])  # doctest: +ELLIPSIS
    '<div><strong>Corpus</strong><table ...><tr><td ...>documents</td>...2</td></tr></table></div>'
    """
    cells = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows)
    heading = _cells(head, "th")
    heading = f"<tr>{heading}</tr>" if heading else ""
    return f'<div><strong>{escape(title)}</strong><table style="{_TABLE}">{heading}{cells}</table></div>'


def _cells(values: Iterable[object], tag: str) -> str:
    return "".join(f'<{tag} style="{_CELL}">{escape(str(value))}</{tag}>' for value in values)
