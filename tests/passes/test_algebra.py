"""The algebra that all passes follow: zero, add, merge, settle, spill, and sums as arrays and files.

Whatever the documents, however they are cut into blocks and these into segments, and in whatever tree that
keeps their order segments are merged: the sums are those of all documents at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.conftest import PASSES, Tried, assert_identical, every_pass, plain_sums
from tests.rows import assert_close, sparse_rows, ugly_matrices
from threepass.corpus.store import Block
from threepass.passes.cost import Size
from threepass.passes.kept_sums import read_partial, write_partial
from threepass.passes.sums import Sums
from threepass.passes.tall import RANKS

L, NARROW, WIDE = 3, 7, RANKS.frequent + 300
_SLACK = 3000
"""Bytes of counts and small arrays that no plan looks at, and of what waits of a few documents."""
STAMP = {"read": "some"}


@cache
def documents(n: int, D: int, seed: int) -> Block:
    """Counts with empty and unlabelled rows; of many words, those in use are frequent, rare or both."""
    X, Y = ugly_matrices(n, NARROW, L, seed)
    if D > NARROW:
        places = np.sort(np.random.default_rng(seed).choice(D, NARROW, replace=False))
        wide = np.zeros((n, D))
        wide[:, places] = X
        X = wide
    return Block(0, 0, sparse_rows(X, np.float32), sparse_rows(Y))


@cache
def tried(name: str, D: int) -> Tried:
    return every_pass(D, L)[name]


@dataclass(frozen=True)
class Cut:
    """How documents are summed."""

    n: int
    D: int
    seed: int
    bounds: tuple[int, ...]
    """Ends of blocks; equal ones make empty blocks."""
    segments: tuple[bool, ...]
    """Whether a block begins a segment."""
    tree: tuple[int, ...]
    """Which neighbours are merged next."""
    detours: tuple[str, ...]
    """What is done to the sums of a segment besides adding and merging."""

    def blocks(self) -> list[list[Block]]:
        """The blocks of each segment."""
        whole, out = documents(self.n, self.D, self.seed), [[]]
        bounds = [0, *sorted(min(bound, self.n) for bound in self.bounds), self.n]
        for number, (start, stop) in enumerate(pairwise(bounds)):
            if number and self.segments[number % len(self.segments)]:
                out.append([])
            X, Y = whole.X.slice(start, stop), whole.Y.slice(start, stop)
            out[-1].append(Block(number, start, X, Y))
        return out


cuts = st.builds(
    Cut,
    n=st.sampled_from([1, 9, 24]),
    D=st.sampled_from([NARROW, WIDE]),
    seed=st.integers(0, 3),
    bounds=st.lists(st.integers(0, 24), max_size=6).map(tuple),
    segments=st.lists(st.booleans(), min_size=1, max_size=6).map(tuple),
    tree=st.lists(st.integers(0, 5), min_size=6, max_size=6).map(tuple),
    detours=st.lists(
        st.sampled_from(["", "file", "spilled from the start", "spilled"]), min_size=1, max_size=4
    ).map(tuple),
)


def summed(work: Any, cut: Cut, folder: Path | None = None) -> Sums:
    """The sums of the cut; with detours where there is a folder for them."""

    def detour(sums: Any, kind: str) -> Any:
        if kind == "file" and folder is not None:
            write_partial(folder / "sums", sums, STAMP)
            return read_partial(folder / "sums", work.zero, STAMP)
        if kind == "spilled":
            sums.spill(empty=False, least=1)
        return sums

    kinds = cut.detours if folder is not None else ("",)
    done = []
    for number, segment in enumerate(cut.blocks()):
        sums, kind = work.zero(), kinds[number % len(kinds)]
        if kind == "spilled from the start":
            sums.spill(least=1)
        add = work.adder(number)
        for block in segment:
            add(sums, block)
        sums.settle()
        done.append(detour(sums, kind))
    for step, which in enumerate(cut.tree):
        if len(done) == 1:
            break
        first = which % (len(done) - 1)
        done[first].merge(done.pop(first + 1))
        done[first] = detour(done[first], kinds[step % len(kinds)])
    while len(done) > 1:
        done[0].merge(done.pop(1))
    return done[0]


def check(name: str, cut: Cut, folder: Path) -> None:
    given = tried(name, cut.D if name != "pairs" else NARROW)
    if name == "pairs":
        cut = Cut(
            cut.n, NARROW, *(getattr(cut, f) for f in ("seed", "bounds", "segments", "tree", "detours"))
        )
    whole = documents(cut.n, cut.D, cut.seed)
    expected = given.work.zero()
    given.work.add(expected, whole)
    expected = plain_sums(expected)
    plain, round_about = summed(given.work, cut), summed(given.work, cut, folder)
    assert_identical(round_about, plain)
    found = plain_sums(plain)
    if given.is_exact:
        assert found.keys() == expected.keys()
        for key, array in expected.items():
            np.testing.assert_array_equal(found[key], array, err_msg=key, strict=True)
    else:
        assert_close(found, expected)


@pytest.mark.parametrize("name", PASSES)
@given(cut=cuts)
@settings(max_examples=20)
def test_sums__do_not_depend_on_cuts_orders_and_detours(
    name: str, cut: Cut, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(name, cut, tmp_path_factory.getbasetemp())


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PASSES)
@given(cut=cuts)
@settings(max_examples=400)
def test_sums__do_not_depend_on_cuts_orders_and_detours__long(
    name: str, cut: Cut, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(name, cut, tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("name", PASSES)
def test_sums__of_long_blocks(name: str) -> None:
    """Of two slabs and more, cut in the middle of one, after an odd number of documents."""
    given = tried(name, NARROW)
    whole = documents(9001, NARROW, 0)
    one, other = given.work.zero(), given.work.zero()
    given.work.add(one, whole)
    for number, (start, stop) in enumerate(pairwise([0, 3001, 9001])):
        given.work.add(other, Block(number, start, whole.X.slice(start, stop), whole.Y.slice(start, stop)))
    one, other = plain_sums(one), plain_sums(other)
    if given.is_exact:
        for key, array in one.items():
            np.testing.assert_array_equal(other[key], array, err_msg=key)
    else:
        assert_close(other, one)


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("D", [NARROW, WIDE])
def test_zero__is_of_no_documents(name: str, D: int) -> None:
    if name == "pairs" and D == WIDE:
        pytest.skip("all pairs of words would take a while")
    work = tried(name, D).work
    sums, whole = work.zero(), documents(9, D, 0)
    work.add(sums, Block(0, 0, whole.X.slice(0, 0), whole.Y.slice(0, 0)))
    assert not any(array.any() for array in plain_sums(sums).values())
    work.add(sums, whole)
    assert any(array.any() for array in plain_sums(sums).values())


@pytest.mark.parametrize("D", [NARROW, 900, WIDE])
@pytest.mark.parametrize("name", PASSES)
def test_needs__bound_what_is_held(name: str, D: int) -> None:
    """The sums of a segment and those of the whole; and about what they are, so that plans are not afraid."""
    if name == "pairs" and D == WIDE:
        pytest.skip("all pairs of words would take a while")
    given = tried(name, D)
    whole = documents(24, D, 1)
    nothing, half = given.work.needs(Size(0, 0, 0)), given.work.needs(Size(24, whole.X.nnz, whole.Y.nnz))
    segments = [given.work.zero() for _ in range(2)]
    for sums in segments:
        given.work.add(sums, whole)
        sums.settle()
        documents_held = 24 * 40 * 3 + whole.X.nbytes + whole.Y.nbytes if name == "together" else 0
        if given.is_counted:
            assert sums.nbytes <= half.segment + _SLACK + documents_held
        assert sums.__sizeof__() == sums.nbytes
    segments[0].merge(segments[1])
    plain_sums(segments[0])
    if given.is_counted:
        assert segments[0].nbytes <= nothing.sums + _SLACK + 2 * documents_held
        if name not in ("cross", "together"):  # which may be sparse
            assert nothing.sums <= segments[0].nbytes
    else:
        assert name.startswith("gather") or nothing == half
        assert segments[0].nbytes <= 2 * (8 * 25 * 2 + whole.X.nbytes + whole.Y.nbytes)


@pytest.mark.parametrize("name", PASSES)
def test_add__changes_neither_the_pass_nor_the_block(name: str) -> None:
    work, whole = tried(name, NARROW).work, documents(24, NARROW, 2)
    arrays = [
        *work.inputs(),
        whole.X.indptr,
        whole.X.indices,
        whole.X.values,
        whole.Y.indptr,
        whole.Y.indices,
    ]
    kept = [array.copy() for array in arrays]
    sums = work.zero()
    work.add(sums, whole)
    before = {key: array.copy() for key, array in sums.to_arrays().items()}
    other = work.zero()
    work.add(other, whole)
    sums.merge(other)
    again = work.zero()
    work.add(again, whole)  # the sums of one task are no other's
    for array, copy in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(array, copy)
    found = again.to_arrays()
    for key, array in before.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)


@pytest.mark.parametrize("name", PASSES)
def test_restore__refuses_what_is_of_other_sums(name: str) -> None:
    work = tried(name, NARROW).work
    sums = work.zero()
    work.add(sums, documents(24, NARROW, 0))
    sums.settle()
    arrays = sums.to_arrays()
    for key, array in arrays.items():
        rest = {other: value for other, value in arrays.items() if other != key}
        if array.ndim > 1:
            with pytest.raises((ValueError, KeyError)):
                work.zero().restore({**rest, key: array[:, :-1]})
        if key.split("/")[-1] not in ("Z", "X values"):  # which sums may be without
            with pytest.raises((ValueError, KeyError)):
                work.zero().restore(rest)
