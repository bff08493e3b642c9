"""The smallest hashes of a corpus' documents: the same however it is cut, by words and labels alone."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.passes.conftest import PARTS, Dense, chosen, run
from tests.rows import sparse_rows, ugly_matrices
from threepass.corpus.rows import SparseRows
from threepass.passes.document_hashes import DocumentHashes, document_hashes

WRAP = 2**64 - 1


def mixed(z: int) -> int:
    z = (z + 0x9E3779B97F4A7C15) & WRAP
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WRAP
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WRAP
    return z ^ (z >> 31)


def naive_row_hash(row: np.ndarray) -> int:
    """Of a dense row of counts."""
    words = np.flatnonzero(row).tolist()
    bits = (struct.unpack("<I", struct.pack("<f", row[word]))[0] for word in words)
    total = sum(mixed(word << 32 | value) for word, value in zip(words, bits, strict=True)) & WRAP
    return mixed(total) >> 1 if words else -1


def naive_hash(row: np.ndarray, labels: np.ndarray) -> int:
    """Of a document's dense words and labels."""
    own = naive_row_hash(row)
    return -1 if own < 0 else (own + naive_row_hash(labels)) % 2**63


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_hashes__naive(dtype: type) -> None:
    X, Y = ugly_matrices(60, 23, 3)
    expected = [naive_hash(*document) for document in zip(X, Y, strict=True)]
    assert document_hashes(sparse_rows(X, dtype), sparse_rows(Y)).tolist() == expected
    assert -1 in expected
    expected = [naive_hash(*document) for document in zip(X > 0, Y, strict=True)]
    assert document_hashes(sparse_rows((X > 0) * 1), sparse_rows(Y)).tolist() == expected


def test_hashes__the_order_of_words_does_not_matter_and_counts_do() -> None:
    def of(columns: list[int], values: list[float], labels: list[int]) -> int:
        ends = np.array([0, len(columns)])
        rows = SparseRows(ends, np.array(columns, np.int32), np.array(values, np.float32), 9)
        own = SparseRows(np.array([0, len(labels)]), np.array(labels, np.int32), None, 9)
        return int(document_hashes(rows, own)[0])

    assert of([3, 5], [1, 2], [7]) == of([5, 3], [2, 1], [7])
    others = [([3, 5], [2, 1]), ([3], [1]), ([5], [1]), ([3, 5], [1, 1]), ([3, 5], [1, 2])]
    assert len({of(*document, labels) for document in others for labels in ([], [7], [8], [7, 8])}) == 20


@pytest.mark.parametrize("part", PARTS)
def test_pass__by_the_words_of_the_source(many_blocks: Dense, part: str) -> None:
    corpus, X, Y = chosen(many_blocks, part)
    in_source = np.zeros_like(X)
    in_source[:, corpus.term_ids] = X
    expected = sorted({naive_hash(row, own) for row, own in zip(in_source, Y, strict=True) if row.any()})
    for most in (1, 5, 1000):
        found = run(DocumentHashes(corpus.term_ids, most), corpus)
        assert found.hashes.tolist() == expected[:most]
        assert found.nbytes == 8 * len(expected[:most])
