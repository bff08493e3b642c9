"""Compiled parser of sparse text lines. It leaves a few values to Python.

One line is one document: labels separated by commas, then `feature:value` pairs, separated by blanks::

    12,7 3:1 15:0.25 201:4

If the first token has a colon, the document has no labels. Whole numbers up to 2**53 are exact; all other
values are the nearest float32.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..types import CSR, Array

OK, BAD_LABEL, BAD_FEATURE, BAD_VALUE = range(4)


_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_HASH, _PLUS, _COMMA, _MINUS, _DOT, _COLON = (ord(c) for c in "#+,-.:")
_ZERO, _ONE, _NINE, _UPPER_E, _LOWER_E = (ord(c) for c in "019Ee")
_HUGE = 2**40
_POWERS = 10.0 ** np.arange(23)  # the powers of ten that a double holds exactly


class Parsed(NamedTuple):
    """Result of parsing: the rows of Y and X as written, or the place of an error."""

    status: int
    position: int
    """First byte of the offending token, when `status` is not OK."""
    n_docs: int
    y_indptr: Array
    y_indices: Array
    x_indptr: Array
    x_indices: Array
    values: Array
    """Values of X, 0 or more; `-1 - p` if the number at byte p needs `round_value`."""


def parse(text: bytes, n_terms: int, n_labels: int, svmlight: bool) -> Parsed:
    """Parse whole lines.

    Parameters
    ----------
    text
        Whole lines; the last may lack its newline.
    n_terms, n_labels
        Ids must be below these.
    svmlight
        Skip blank lines and everything after a `#`. Otherwise a blank line is an empty document.

    Cost: one look at each byte, about 100 MB/s a core; 20 bytes of output a feature.
    """
    n_lines = text.count(b"\n") + 1
    y_indptr, x_indptr = np.zeros(n_lines + 1, np.int64), np.zeros(n_lines + 1, np.int64)
    y_indices = np.empty(text.count(b",") + n_lines, np.int32)
    n_colons = text.count(b":")
    x_indices, values = np.empty(n_colons, np.int32), np.empty(n_colons, np.float64)
    status, position, n_docs = _parse(
        np.frombuffer(text, np.uint8),
        n_terms,
        n_labels,
        svmlight,
        (y_indptr, y_indices),
        (x_indptr, x_indices, values),
    )
    y_indptr, x_indptr = y_indptr[: n_docs + 1], x_indptr[: n_docs + 1]
    nnz = x_indptr[-1]
    return Parsed(
        status, position, n_docs, y_indptr, y_indices[: y_indptr[-1]], x_indptr, x_indices[:nnz], values[:nnz]
    )


def round_value(number: float) -> float:
    """Stored value of a number in a text; infinite if it is too large for float32."""
    if number <= 2**53 and number == math.floor(number):
        return number
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(number))


@jit
def _is_digit(byte: int) -> bool:
    return _ZERO <= byte <= _NINE


@jit
def _is_blank(byte: int) -> bool:
    return byte == _SPACE or byte == _TAB or byte == _RETURN


@jit
def _parse(
    text: Array,
    n_terms: int,
    n_labels: int,
    svmlight: bool,
    y: tuple[Array, Array],
    x: CSR,
) -> tuple[int, int, int]:
    """Write the rows of Y and X; returns status, position and documents of `Parsed`."""
    y_indptr, y_indices = y
    x_indptr, x_indices, values = x
    n = len(text)
    at = 0
    doc = y_nnz = x_nnz = 0
    comment = _HASH if svmlight else _NEWLINE  # a byte that ends the line's content, besides the newline
    while at < n:
        while at < n and _is_blank(text[at]):
            at += 1
        is_document = not svmlight or (at < n and text[at] != _NEWLINE and text[at] != comment)

        # labels: the first token, unless it has a colon
        end = at
        has_colon = False
        while end < n and not _is_blank(text[end]) and text[end] != _NEWLINE and text[end] != comment:
            has_colon |= text[end] == _COLON
            end += 1
        if end > at and not has_colon:
            while True:
                start = at
                label = 0
                while at < end and _is_digit(text[at]):
                    label = min(label * 10 + np.int64(text[at] - _ZERO), _HUGE)
                    at += 1
                if at == start or label >= n_labels or (at < end and text[at] != _COMMA):
                    return BAD_LABEL, start, doc
                y_indices[y_nnz] = label
                y_nnz += 1
                if at == end:
                    break
                at += 1

        # features
        while True:
            while at < n and _is_blank(text[at]):
                at += 1
            if at == n or text[at] == _NEWLINE or text[at] == comment:
                break
            start = at
            term = 0
            while at < n and _is_digit(text[at]):
                term = min(term * 10 + np.int64(text[at] - _ZERO), _HUGE)
                at += 1
            if at == start or term >= n_terms or at == n or text[at] != _COLON:
                return BAD_FEATURE, start, doc
            at += 1
            start = at
            at, value = _read_value(text, at)
            ends = at == n or _is_blank(text[at]) or text[at] == _NEWLINE or text[at] == comment
            if at == start or not ends:
                return BAD_VALUE, start, doc
            x_indices[x_nnz] = term
            values[x_nnz] = value
            x_nnz += 1

        while at < n and text[at] != _NEWLINE:  # the rest is a comment
            at += 1
        at += 1
        if is_document:
            doc += 1
            y_indptr[doc] = y_nnz
            x_indptr[doc] = x_nnz
    return OK, 0, doc


@jit
def _read_value(text: Array, at: int) -> tuple[int, float]:
    """Read a number. Returns the byte after it (its first byte if missing or negative) and its value."""
    n = len(text)
    start = at
    if text[at : at + 1].size and text[at] == _ONE and (at + 1 == n or text[at + 1] <= _SPACE):
        return at + 1, 1.0  # nearly every value of a binary corpus
    negative = False
    if at < n and (text[at] == _PLUS or text[at] == _MINUS):
        negative = text[at] == _MINUS
        at += 1

    # value = mantissa * 10**exponent, of at most 18 digits; `whole` unless a digit other than 0 was dropped
    mantissa = np.int64(0)
    exponent = 0
    n_digits = 0
    seen_digit = seen_dot = False
    whole = True
    while at < n and (_is_digit(text[at]) or (text[at] == _DOT and not seen_dot)):
        if text[at] == _DOT:
            seen_dot = True
        else:
            digit = np.int64(text[at] - _ZERO)
            seen_digit = True
            if n_digits < 18:
                mantissa = mantissa * 10 + digit
                n_digits += mantissa > 0
                exponent -= seen_dot
            else:
                whole = whole and digit == 0
                exponent += not seen_dot
        at += 1
    if not seen_digit:
        return start, 0.0
    if at < n and (text[at] == _UPPER_E or text[at] == _LOWER_E):
        at += 1
        sign = 1
        if at < n and (text[at] == _PLUS or text[at] == _MINUS):
            sign = -1 if text[at] == _MINUS else 1
            at += 1
        if at == n or not _is_digit(text[at]):
            return start, 0.0
        power = 0
        while at < n and _is_digit(text[at]):
            power = min(power * 10 + np.int64(text[at] - _ZERO), 100_000)
            at += 1
        exponent += sign * power

    if mantissa == 0 and whole:
        return at, 0.0
    if negative:
        return start, 0.0
    hard = -1.0 - start
    if not whole or exponent < -22 or exponent > 22:
        return at, hard
    if exponent < 0:
        value = np.float64(mantissa) / _POWERS[-exponent]
    else:
        value = np.float64(mantissa) * _POWERS[exponent]
    if mantissa <= 2**53:  # both factors are exact, so the result is correctly rounded
        if value == math.floor(value) and value <= 2**53:
            return at, value
        return at, np.float64(np.float32(value))
    # Off by up to two units in the last place: good enough for float32 unless near a tie or a whole number.
    scaled = math.frexp(value)[0] * 2**24
    near_tie = abs(scaled - math.floor(scaled) - 0.5) < 2.0**-26
    if near_tie or value >= 2**24 or value == math.floor(value):
        return at, hard
    return at, np.float64(np.float32(value))
