"""What passes hold: the sums of the tasks that run, one sum of all that is done, and a few blocks."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from tests.passes.conftest import assert_identical, every_pass
from threepass import Corpus, ingest_matrices
from threepass.moments.pairs import Pairs
from threepass.moments.words import WordView
from threepass.passes.checkpoints import RunDirectory
from threepass.passes.cost import Size
from threepass.passes.executors import Threads
from threepass.passes.runner import Runner
from threepass.passes.segments import ACCUMULATORS_BYTES, segments
from threepass.passes.work import Pass


def repeated(path: Path, n_blocks: int, n_terms: int, rows: int) -> Corpus:
    """A corpus of about as many equal blocks."""
    one = scipy.sparse.random_array((rows, n_terms), density=20 / n_terms, rng=1, format="csr")
    labels = scipy.sparse.random_array((rows, 9), density=0.2, rng=2, format="csr")
    size = 8 * (one.nnz + labels.nnz) + 16 * rows
    X, Y = (scipy.sparse.vstack([part] * n_blocks, format="csr") for part in (one, labels))
    corpus = ingest_matrices(X, Y, path, binary=True, block_bytes=size)
    assert n_blocks <= corpus.n_blocks <= 1.25 * n_blocks
    return corpus


def peak(work: Pass[Any], corpus: Corpus, segment_bytes: int = 1, n_threads: int = 1) -> int:
    """Bytes held at most during one pass, of three: by chance, a block is read just when most is held."""
    cut = segments(corpus, segment_bytes)
    Runner(Threads(n_threads)).run(work, corpus, cut)  # compiled and warm
    peaks = []
    for _ in range(3):
        tracemalloc.start()
        try:
            Runner(Threads(n_threads)).run(work, corpus, cut)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)


@pytest.mark.parametrize(
    "name",
    [
        "triples",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("pairs", "sketched pairs", "labels")),
    ],
)
def test_memory__of_a_pass_does_not_grow_with_the_blocks(tmp_path: Path, name: str) -> None:
    # blocks of 1 MB: beside them the tasks themselves, which are as many as segments, are nothing
    few, many = (repeated(tmp_path / str(n), n, 40, rows=5_000) for n in (4, 12))
    work = every_pass(40, 9)[name].work
    reference = peak(work, few, 10**12)
    for segment_bytes in (1, 10**12):
        assert peak(work, many, segment_bytes) <= 1.5 * reference


@pytest.mark.parametrize("n_threads", [1, 3])
def test_memory__large_sums_are_merged_as_they_come(tmp_path: Path, n_threads: int) -> None:
    """Those of the tasks that run, and the sum of all that are done, however many segments there are."""
    D = 1000
    work = Pairs(WordView(), D)
    sums = work.needs(Size(0, 0, 0)).sums
    assert sums >= 8 * D * D
    working = 15 * 200 * 20 * 8 * n_threads + 500_000  # and the tasks themselves
    assert working < sums / 3  # or one more would not be seen
    corpus = repeated(tmp_path / "c", 16, D, rows=200)
    assert len(segments(corpus, 1)) >= 8
    assert peak(work, corpus, 1, n_threads) <= (n_threads + 1) * sums + working
    assert peak(work, corpus, ACCUMULATORS_BYTES // 2, n_threads) <= 2 * sums + working


def test_run__large_sums_in_files_are_the_same(tmp_path: Path) -> None:
    corpus = repeated(tmp_path / "c", 6, 1500, rows=50)
    cut = segments(corpus, ACCUMULATORS_BYTES // 2)
    assert len(cut) == 2
    work = Pairs(WordView(), 1500)
    assert work.needs(Size(0, 0, 0)).sums > 16_000_000
    plain = Runner(Threads(1)).run(work, corpus, cut)
    in_files = Runner(Threads(2), spill=True).run(work, corpus, cut)
    assert isinstance(in_files.pairs, np.memmap)
    assert not isinstance(plain.pairs, np.memmap)
    assert not isinstance(in_files.term_totals, np.memmap)  # not worth a file
    assert_identical(in_files, plain)
    with RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
        Runner(Threads(1), spill=True, files=files).run(work, corpus, cut)
    with RunDirectory.at(tmp_path / "run", {}, share=1e9) as files:
        again = Runner(Threads(1), spill=True, files=files).run(work, corpus, cut)
        assert files.reused == 2
    assert isinstance(again.pairs, np.memmap)  # what was kept lies in files again
    assert_identical(again, plain)
