"""Slow, obvious versions of what the package does fast. Dense arrays, plain loops, no cleverness."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np

NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Refused(Exception):
    """The text is not in the format; `line` counts from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line


def parse_value(token: bytes, line: int) -> float:
    if not NUMBER.fullmatch(token):
        raise Refused(line, f"not a number: {token!r}")
    value = float(token)
    if value < 0:
        raise Refused(line, "negative")
    if value != math.inf and value == math.floor(value) and value <= 2**53:
        return value
    with np.errstate(over="ignore", under="ignore"):
        value = float(np.float32(value))
    if value == math.inf:
        raise Refused(line, "infinite")
    return value


def parse_id(token: bytes, limit: int, line: int) -> int:
    if not re.fullmatch(rb"[0-9]+", token):
        raise Refused(line, f"not an id: {token!r}")
    if int(token) >= limit:
        raise Refused(line, f"out of range: {token!r}")
    return int(token)


def parse_document(text: bytes, n_terms: int, n_labels: int, line: int) -> tuple[dict[int, float], set[int]]:
    tokens = re.findall(rb"[^ \t\r]+", text)
    labels: set[int] = set()
    if tokens and b":" not in tokens[0]:
        labels = {parse_id(token, n_labels, line) for token in tokens.pop(0).split(b",")}
    features: dict[int, float] = {}
    for token in tokens:
        if b":" not in token:
            raise Refused(line, "no colon")
        term, _, value = token.partition(b":")
        key = parse_id(term, n_terms, line)
        features[key] = features.get(key, 0.0) + parse_value(value, line)
    return {term: value for term, value in features.items() if value != 0}, labels


def parse_xmc(text: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Dense X and Y of a file with a header, or `Refused`."""
    if text.startswith(b"\xef\xbb\xbf"):
        text = text[3:]
    if b"\0" in text:
        raise Refused(1, "binary")
    lines = text.split(b"\n")
    header = lines[0].split()
    if len(header) != 3 or not all(re.fullmatch(rb"[0-9]+", number) for number in header):
        raise Refused(1, "no header")
    n_docs, n_terms, n_labels = map(int, header)
    rows = lines[1:-1] if lines[-1] == b"" else lines[1:]
    while len(rows) > n_docs and not rows[-1].strip(b" \t\r"):
        rows.pop()
    if n_docs == 0 or len(rows) != n_docs or max(n_terms, n_labels) > 2**27:
        raise Refused(1, "wrong number of documents")
    X, Y = np.zeros((n_docs, n_terms)), np.zeros((n_docs, n_labels))
    for i, row in enumerate(rows):
        features, labels = parse_document(row, n_terms, n_labels, i + 2)
        for term, value in features.items():
            X[i, term] = value
        Y[i, list(labels)] = 1
    return X, Y


def parse_svmlight(text: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Dense X and Y of a file without a header; comments and blank lines are skipped."""
    rows = [line.split(b"#")[0] for line in text.split(b"\n")]
    parsed = [parse_document(row, 2**27, 2**27, i + 1) for i, row in enumerate(rows) if row.strip(b" \t\r")]
    X = np.zeros((len(parsed), 1 + max((t for features, _ in parsed for t in features), default=-1)))
    Y = np.zeros((len(parsed), 1 + max((t for _, labels in parsed for t in labels), default=-1)))
    for i, (features, labels) in enumerate(parsed):
        for term, value in features.items():
            X[i, term] = value
        Y[i, list(labels)] = 1
    return X, Y


def rank_terms(X: np.ndarray) -> list[int]:
    """Source ids in the order of a corpus's columns: most frequent first, ties by id."""
    return sorted(range(X.shape[1]), key=lambda term: (-np.count_nonzero(X[:, term]), term))


def flaw_of_rows(indptr: list[int], indices: list[int], n_columns: int) -> int:
    """1: row starts, 2: a column out of range, 3: columns of a row not increasing; the first of these."""
    starts_wrong = indptr[0] != 0 or indptr[-1] != len(indices) or sorted(indptr) != indptr
    if starts_wrong:
        return 1
    if any(not 0 <= column < n_columns for column in indices):
        return 2
    rows = [indices[start:stop] for start, stop in itertools.pairwise(indptr)]
    return 3 if any(row != sorted(set(row)) for row in rows) else 0
