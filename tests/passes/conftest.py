"""Rows, blocks, corpora and passes that tests of sums share."""

from __future__ import annotations

import atexit
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.rows import normal, ugly_matrices
from threepass import Corpus, ingest_matrices
from threepass.corpus.rows import SparseRows
from threepass.moments.labels import Directions, LabelPairs
from threepass.moments.pairs import Pairs, Sketch
from threepass.moments.triples import Triples
from threepass.moments.words import WordView
from threepass.parts.cross import Cross, CrossMoment
from threepass.parts.held_out import Gathered, SetAside, WithoutHeldOut
from threepass.parts.refined import Responsibilities
from threepass.parts.ridge import Basis, Features, WordDirections
from threepass.parts.training_words import EVERY, GatherWords, LabelCounts, RarestLabels, Sampling
from threepass.parts.weighting import Weighting
from threepass.passes.cost import Size
from threepass.passes.document_hashes import DocumentHashes
from threepass.passes.executors import Threads
from threepass.passes.runner import Runner
from threepass.passes.segments import segments
from threepass.passes.sums import Sums
from threepass.passes.tall import TallSum
from threepass.passes.work import JointPass, Pass, S

Dense = tuple[Corpus, np.ndarray, np.ndarray]
PARTS = ["whole", "head", "train", "test", "one document", "one empty row", "nothing"]


@pytest.fixture(scope="session")
def many_blocks(tmp_path_factory: pytest.TempPathFactory) -> Dense:
    """A corpus of many small blocks, with the dense X (columns as in the corpus) and Y it was made from."""
    X, Y = ugly_matrices(34, 17, 5, seed=2)
    corpus = ingest_matrices(X, Y, tmp_path_factory.mktemp("heads") / "many.zarr", block_bytes=300)
    X = X[:, corpus.term_ids]
    assert corpus.n_blocks > 4
    assert X.max() > 1
    for axis in (0, 1):
        assert (X.sum(axis=axis) == 0).any()
        assert (Y.sum(axis=axis) == 0).any()
    return corpus, X, Y


def chosen(many_blocks: Dense, part: str) -> Dense:
    """A view of the corpus, and the dense rows that are in it; some of its blocks are empty."""
    corpus, X, Y = many_blocks
    rows = {
        "one document": np.flatnonzero(X.any(axis=1) & Y.any(axis=1))[:1],
        "one empty row": np.flatnonzero(~X.any(axis=1))[:1],
        "nothing": np.zeros(0, np.int64),
    }
    if part in rows:
        view = Corpus(corpus.root, corpus.info, rows[part])
    else:
        views = {"whole": corpus, "head": corpus.head(19)}
        views["train"], views["test"] = corpus.split(test=0.3)
        view = views[part]
        assert part in ("whole", "train") or (view.block_rows == 0).any()
    return view, X[view.doc_ids], Y[view.doc_ids]


def run(work: Pass[S], corpus: Corpus, segment_bytes: int = 1) -> S:
    return Runner(Threads(1)).run(work, corpus, segments(corpus, segment_bytes))


def plain_sums(sums: Sums) -> dict[str, np.ndarray]:
    """What sums come to: arrays by their names, those with a row for each word made whole."""
    if isinstance(sums, TallSum):
        return {"": sums.finished().copy()}
    if isinstance(sums, CrossMoment):
        sums.settle()
        label = np.repeat(np.arange(sums.n_labels), np.diff(sums.indptr))
        moment = np.zeros((sums.n_labels, sums.n_terms))
        moment[label, sums.indices] = sums.values
        return {"": moment}
    if isinstance(sums, Gathered):
        joined = sums.joined(1, 1)
        sides = {f"{side} ": getattr(joined, side) for side in ("X", "Y")}
        return {f"{side}{key}": v for side, rows in sides.items() for key, v in rows_arrays(rows).items()}
    out: dict[str, np.ndarray] = {}
    for name, value in sums._entries():
        if isinstance(value, Sums):
            out |= {f"{name}/{key}": array for key, array in plain_sums(value).items()}
        else:
            out[name] = np.array(value)
    return out


def rows_arrays(rows: SparseRows) -> dict[str, np.ndarray]:
    arrays = {"indptr": rows.indptr, "indices": rows.indices}
    return arrays if rows.values is None else arrays | {"values": rows.values}


def assert_identical(one: Sums, other: Sums) -> None:
    """Equal to the last bit, down to what waits to be added."""
    assert type(one) is type(other)
    arrays, others = one.to_arrays(), other.to_arrays()
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(np.asarray(array), others[name], err_msg=name, strict=True)


@cache
def ingested(n: int, block_bytes: int, n_terms: int, n_labels: int) -> Corpus:
    """One of few corpora: many cuts of them are tried, and files take longer to write than to read."""
    folder = _folders.enter_context(tempfile.TemporaryDirectory())
    return ingest_matrices(
        *ugly_matrices(n, n_terms, n_labels, n), f"{folder}/corpus", block_bytes=block_bytes
    )


_folders = ExitStack()
atexit.register(_folders.close)


@dataclass(frozen=True)
class Cut:
    """Documents, a view of them, and the size of their blocks."""

    n: int
    block_bytes: int
    accumulator_bytes: int
    rows: str
    where: float
    share: float

    def corpora(self, n_terms: int, n_labels: int) -> tuple[Corpus, Corpus]:
        """The same view of the same documents in one block and in many."""
        whole = ingested(self.n, 10**6, n_terms, n_labels)
        assert whole.n_blocks == 1
        return self._view(whole), self._view(ingested(self.n, self.block_bytes, n_terms, n_labels))

    def _view(self, corpus: Corpus) -> Corpus:
        if self.rows == "all":
            return corpus
        if self.rows == "head":
            return corpus.head(round(self.where * self.n))
        return corpus.split(test=self.where, seed=self.n)[self.rows == "test"]


cuts = st.builds(
    Cut,
    n=st.sampled_from([1, 7, 24]),
    block_bytes=st.sampled_from([1, 150, 400]),
    accumulator_bytes=st.sampled_from([1, 10**9]),
    rows=st.sampled_from(["all", "head", "train", "test"]),
    where=st.floats(0, 1),
    share=st.sampled_from([0.0, 0.3, 1.0]),
)


# -- every pass -------------------------------------------------------------------------------------------


def whole_numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """float32 that add and multiply without rounding."""
    return np.random.default_rng([*shape, seed]).integers(-3, 4, shape).astype(np.float32)


@dataclass(frozen=True)
class Tried:
    """A pass, and what holds for its sums."""

    work: Pass[Any]
    is_exact: bool = True
    """Sums of whole numbers, which do not round in whatever order they are made."""
    is_counted: bool = True
    """`needs` counts its bytes: not so for passes that hold few documents."""


def every_pass(D: int, L: int, sizes: bool = False) -> dict[str, Tried]:
    """All passes of the moments and of the parts, by a name, for D words and L labels.

    Parameters
    ----------
    sizes
        Weigh words by many orders of magnitude: sums then round, otherwise in every other order.
    """
    K, view, drop = 3, WordView(), WordView(counts=True, drop_self_pairs=True)
    scale = np.float32(10) ** np.linspace(-8, 8, D, dtype=np.float32)[:, None] if sizes else np.float32(1)
    W = whole_numbers(D, K) * scale
    sketch = Sketch(whole_numbers(D, 4).astype(np.int16), np.ones(4, np.float32))
    if sizes:
        sketch = Sketch.of(np.float32(1e3) * W, np.arange(D), D)
    U = np.roll(np.eye(K), 1, axis=0) if not sizes else np.linalg.qr(normal(K, K))[0]
    labels = LabelPairs(drop, W, Directions.of(W, U, drop), L, Directions.of(W, -U, drop))
    weighting = Weighting(1 + np.random.default_rng(1).random(D, np.float32))
    basis = Basis(normal(D, K) * scale, normal(K, 2), normal(2))
    log_O, log_pi = 3 * normal(D, K), np.log([0.2, 0.3, 0.5])
    cross = Cross(weighting, L, expected_entries=D * L)
    passes = {
        "pairs": Tried(Pairs(drop, D)),
        "sketched pairs": Tried(Pairs(view, D, sketch)),
        "triples": Tried(Triples(drop, W)),
        "triples without products": Tried(Triples(view, W, error_bars=False)),
        "labels": Tried(labels),
        "document hashes": Tried(DocumentHashes(np.arange(D, dtype=np.int32)[::-1], 9), is_counted=False),
        "cross": Tried(cross, is_exact=False),
        "word directions": Tried(WordDirections(weighting, normal(D, K) * scale), is_exact=False),
        "features": Tried(Features(weighting, basis, L), is_exact=False),
        "responsibilities": Tried(Responsibilities(drop, log_O, log_pi, L), is_exact=False),
        "refined": Tried(Responsibilities(view, log_O, log_pi, L, normal(L, K)), is_exact=False),
        "gather words": Tried(GatherWords(weighting, EVERY, 10**6, Size(200, 2000, 400)), is_counted=False),
        "gather few words": Tried(
            GatherWords(weighting, Sampling(1 + 3 * np.arange(L), 3.0), 10**6, Size(200, 2000, 400)),
            is_counted=False,
        ),
        "label counts": Tried(LabelCounts(L)),
        "rarest labels": Tried(RarestLabels(Sampling(1 + 3 * np.arange(L)))),
        "set aside": Tried(SetAside(0.3), is_counted=False),
        "without held out": Tried(WithoutHeldOut(Pairs(view, D, sketch), 0.3)),
        "together": Tried(JointPass((Triples(drop, W), SetAside(0.5), cross)), is_exact=False),
    }
    if D > 1000:  # all pairs of words would take a while
        del passes["pairs"]
    return passes


PASSES = tuple(every_pass(7, 3))
"""Their names."""
