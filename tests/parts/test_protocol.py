"""What every part of the registry promises to all who know the protocol alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from tests.parts.learned import Learned, context_of, labelled_by_words, learned, words_of
from tests.rows import block_of, dense_rows, sparse_rows, summed
from threepass.corpus.rows import SparseRows
from threepass.parts.blend import Blend
from threepass.parts.heads import HEADS
from threepass.parts.memory import MemoryPart
from threepass.parts.neighbours import NeighboursPart
from threepass.parts.part import Part, Scorer
from threepass.parts.refined import RefinedPart
from threepass.parts.terms import Dense, Sparse
from threepass.parts.tiles import Tiles
from threepass.passes.work import array_bytes

PARTS = list(dict.fromkeys(part for head in HEADS.values() for part in head.parts))
every_part = pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.name)
refined_twice = pytest.mark.parametrize("refine_passes", [0, 2])
N, SEED = 200, 3


def part_of(kind: type[Part], X: np.ndarray, Y: np.ndarray, **settings: Any) -> Part:
    return kind(context_of(X, Y, dim=40, **settings))


@pytest.fixture(scope="module")
def documents() -> tuple[np.ndarray, np.ndarray]:
    return labelled_by_words(N)


@pytest.fixture(scope="module")
def finished(documents: tuple[np.ndarray, np.ndarray]) -> dict[str, tuple[Learned, Scorer]]:
    """Every part that has learned, and what it became."""
    ready = [learned(part_of(kind, *documents), *documents) for kind in PARTS]
    return {one.part.name: (one, one.finished()) for one in ready}


def naive_scores(scorer: Scorer, context: Any, X: np.ndarray) -> np.ndarray:
    """(n, L): its terms in double precision, from dense matrices."""
    total = np.zeros((len(X), context.corpus.n_labels))
    for term, side in zip(scorer.terms, scorer.see(words_of(context, X)), strict=True):
        if isinstance(term, Dense):
            assert isinstance(side, np.ndarray)
            product = side.astype(float) @ term.labels.T.astype(float)
            total += term.root_weight * np.sqrt(product) if term.root_weight else product
        else:
            assert isinstance(side, SparseRows)
            total += dense_rows(side) @ dense_rows(term.postings)
    return total


def blend_of(scorer: Scorer, context: Any) -> Blend:
    return Blend("blend", (scorer,), context.weighting, context.corpus.n_labels)


# -- scores ---------------------------------------------------------------------------------------------


@every_part
def test_scores__are_the_sum_of_its_terms(
    finished: dict[str, tuple[Learned, Scorer]], kind: type[Part]
) -> None:
    one, scorer = finished[kind.name]
    X = labelled_by_words(60, SEED)[0]
    ref = naive_scores(scorer, one.context, X)
    blend = blend_of(scorer, one.context)
    seen = blend.see(sparse_rows(X, np.float32))
    assert abs(ref).max() > 1e-3
    np.testing.assert_allclose(blend.scores(seen, slice(0, 60), slice(0, 30)), ref, atol=1e-5)
    np.testing.assert_allclose(blend.scores(seen, slice(7, 9), slice(11, 14)), ref[7:9, 11:14], atol=1e-5)
    np.testing.assert_allclose(blend.share(scorer, seen, slice(0, 60), slice(3, 4)), ref[:, 3:4], atol=1e-5)
    some = seen.take(np.array([50, 3]))
    np.testing.assert_allclose(blend.scores(some, slice(0, 2), slice(0, 30)), ref[[50, 3]], atol=1e-5)


@every_part
def test_bounds__of_tiles_bound_its_dense_terms(
    finished: dict[str, tuple[Learned, Scorer]], kind: type[Part]
) -> None:
    one, scorer = finished[kind.name]
    X = labelled_by_words(60, SEED)[0]
    dense = [term for term in scorer.terms if isinstance(term, Dense)]
    sides = [side for side in scorer.see(words_of(one.context, X)) if isinstance(side, np.ndarray)]
    index = Tiles.of(dense, one.context.corpus.n_labels, 4)
    bounds = index.bounds(sides, 60)
    total = np.zeros((60, one.context.corpus.n_labels))
    for term, side in zip(dense, sides, strict=True):
        product = side.astype(float) @ term.labels.T.astype(float)
        total += term.root_weight * np.sqrt(product) if term.root_weight else product
    for tile in range(index.count):
        own = index.order[4 * tile : 4 * tile + 4]
        assert (bounds[:, [tile]] >= total[:, own].astype(np.float32)).all()


@every_part
def test_largest__is_about_what_it_gives_at_most(
    finished: dict[str, tuple[Learned, Scorer]], kind: type[Part]
) -> None:
    one, scorer = finished[kind.name]
    assert 0 < naive_scores(scorer, one.context, labelled_by_words(60, SEED)[0]).max() < 1.5 * scorer.largest


# -- learning -------------------------------------------------------------------------------------------


@every_part
@refined_twice
def test_give_back__then_finish_is_learning_from_all_documents(
    documents: tuple[np.ndarray, np.ndarray], kind: type[Part], refine_passes: int
) -> None:
    X, Y = documents
    kept = np.arange(N) % 5 > 0
    one = learned(part_of(kind, X, Y, refine_passes=refine_passes), X[kept], Y[kept])
    twin = copy.deepcopy(one)
    one.give_back(X[~kept], Y[~kept])
    assert (not one.sums) == kind.knows_held_out
    for gatherer, work, sums in twin.sums:  # the same passes, of all documents at once
        if any(held is sums for held in gatherer.held()):  # others were of use between the reads alone
            sums.restore(summed(work, block_of(X, Y)).to_arrays())
    ours, theirs = one.finished(), twin.finished()
    assert ours.numbers() == theirs.numbers()
    if not kind.knows_held_out:
        without = learned(part_of(kind, X, Y, refine_passes=refine_passes), X[kept], Y[kept]).finished()
        Z = labelled_by_words(40, SEED)[0]
        comp, ref, less = (naive_scores(scorer, one.context, Z) for scorer in (ours, theirs, without))
        np.testing.assert_allclose(comp, ref, atol=1e-3)
        assert abs(comp - less).max() > 0.01


@every_part
@refined_twice
def test_fold__learns_from_what_it_is_given(
    documents: tuple[np.ndarray, np.ndarray], kind: type[Part], refine_passes: int
) -> None:
    if kind.knows_held_out:
        pytest.skip("is not judged in folds")
    X, Y = documents
    settings: dict[str, Any] = {"refine_passes": refine_passes}
    context = context_of(X, Y, dim=40, **settings)
    object.__setattr__(context, "keeps_documents", True)
    whole = learned(kind(context), X, Y)
    others = np.arange(N) % 5 > 0
    fold = whole.part.fold(context_of(X, Y, dim=40, **settings))
    assert type(fold) is kind
    comp = learned(fold, X[others], Y[others]).finished().arrays()
    ref = learned(part_of(kind, X, Y, **settings), X[others], Y[others]).finished().arrays()
    for name, array in comp.items():
        np.testing.assert_array_equal(array, ref[name], err_msg=name)
    whole_arrays = whole.finished().arrays()
    assert any(
        array.shape != whole_arrays[name].shape or (array != whole_arrays[name]).any()
        for name, array in comp.items()
    )


@every_part
def test_trial__says_what_the_scorer_would(
    documents: tuple[np.ndarray, np.ndarray], kind: type[Part]
) -> None:
    """By the defaults: no shortlist and no choice is by other scores than those that labels get."""
    X = labelled_by_words(60, SEED)[0]
    one = learned(part_of(kind, *documents, is_alone=kind.knows_held_out), *documents)
    trial = one.part.trial(words_of(one.context, X))
    dense = np.vstack([trial.dense(slice(0, 25)), trial.dense(slice(25, 60))])
    scorer = one.finished()
    ref = naive_scores(scorer, one.context, X)
    if any(isinstance(term, Dense) and term.root_weight for term in scorer.terms):
        ref = (ref / scorer.largest) ** 2  # shortlists go by the shares themselves
    np.testing.assert_allclose(dense, ref, atol=2e-3)


# -- saving ---------------------------------------------------------------------------------------------


class Stored:
    """Arrays as a file would give them: of these types, and those that may be halved in half precision."""

    def __init__(self, scorer: Scorer) -> None:
        self.arrays = {
            name: array.astype(np.float16) if name in scorer.halved else array.copy()
            for name, array in scorer.arrays().items()
        }
        self.numbers = scorer.numbers()
        self.asked: set[str] = set()

    def read(self, name: str, shape: tuple[int | None, ...], *dtypes: Any) -> np.ndarray:
        array = self.arrays[name]
        assert array.dtype in [np.dtype(kind) for kind in dtypes]
        assert all(wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True))
        self.asked.add(name)
        return array

    def read_floats(self, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
        return self.read(name, shape, np.float16, np.float32).astype(np.float32)

    def number(self, name: str, least: float, most: float) -> float:
        assert least <= self.numbers[name] <= most
        self.asked.add(name)
        return self.numbers[name]

    def damaged(self, name: str, how: str) -> Exception:
        return ValueError(f"{name}: {how}")


@every_part
def test_arrays__come_back_bitwise(finished: dict[str, tuple[Learned, Scorer]], kind: type[Part]) -> None:
    one, scorer = finished[kind.name]
    assert kind.scorer is type(scorer)
    assert kind.name == scorer.name
    assert scorer.described
    stored = Stored(scorer)
    moments: Any = one.context.moments
    back = kind.scorer.load(stored, moments)
    assert stored.asked == {*stored.arrays, *stored.numbers}
    for name, array in scorer.arrays().items():
        np.testing.assert_array_equal(back.arrays()[name], array, err_msg=name)
    assert back.numbers() == scorer.numbers()
    assert back.nbytes == scorer.nbytes == array_bytes(list(scorer.arrays().values()))
    X = labelled_by_words(20, SEED)[0]
    np.testing.assert_array_equal(naive_scores(back, one.context, X), naive_scores(scorer, one.context, X))


@pytest.mark.parametrize(
    ("name", "array", "change"),
    [
        ("memory", "labels", lambda labels: labels * 0 + 99),
        ("refined", "word_topics", lambda O: O - 1),
        ("refined", "topic_weights", lambda pi: -pi),
    ],
)
def test_load__refuses_what_cannot_be_right(
    finished: dict[str, tuple[Learned, Scorer]], name: str, array: str, change: Any
) -> None:
    one, scorer = finished[name]
    stored = Stored(scorer)
    stored.arrays[array] = change(stored.arrays[array])
    moments: Any = one.context.moments
    with pytest.raises(ValueError, match=array):
        type(scorer).load(stored, moments)


@every_part
def test_reordered__says_the_same_of_words_in_another_order(
    documents: tuple[np.ndarray, np.ndarray], kind: type[Part]
) -> None:
    one = learned(part_of(kind, *documents), *documents)
    scorer = one.finished()
    X = labelled_by_words(40, SEED)[0]
    ref = naive_scores(scorer, one.context, X)
    order = np.random.default_rng(0).permutation(X.shape[1])
    moments: Any = copy.copy(one.context.moments)
    moments.O = moments.O[order]
    other = context_of(X[:, order], np.zeros((40, 30), int))
    object.__setattr__(other, "weighting", type(one.context.weighting)(one.context.weighting.idf[order]))
    comp = naive_scores(scorer.reordered(order, moments), other, X[:, order])
    np.testing.assert_allclose(comp, ref, atol=1e-5)
    assert abs(ref).max() > 1e-3


# -- planning -------------------------------------------------------------------------------------------


@every_part
@refined_twice
def test_pretend__leaves_what_the_reads_do(
    documents: tuple[np.ndarray, np.ndarray], kind: type[Part], refine_passes: int
) -> None:
    """Passes of the same names and shapes in every read, and as many bytes in the end."""
    real, hollow = (part_of(kind, *documents, refine_passes=refine_passes) for _ in range(2))

    def shapes(part: Part, read: int) -> list[Any]:
        works = part.passes(read)
        return [(work.name, [array.shape for array in work.inputs()]) for work in works]

    for read in range(1, 4 + refine_passes):
        assert real.prepares(read) == hollow.prepares(read)
        if real.prepares(read):
            real.prepare(read)
            hollow.pretend(read)
            assert hollow.preparing(read).nbytes >= 0
        assert shapes(real, read) == shapes(hollow, read)
        for part in (real, hollow):
            for gatherer in [*part.context.shared.values(), part]:
                works = gatherer.passes(read)
                sums = [work.zero() for work in works]
                for work, own in zip(works, sums, strict=True):
                    work.add(own, block_of(*documents))
                if works:
                    gatherer.take(read, sums)
    scorer = real.finish(real.defaults)
    assert scorer is not None
    remains = sum(array.nbytes for array in hollow.remains())
    exact = isinstance(scorer.terms[0], Dense)
    assert remains == scorer.nbytes or (remains > scorer.nbytes and not exact)
    assert hollow.finishing().nbytes > 0


@every_part
def test_finish__lets_go_of_its_sums(documents: tuple[np.ndarray, np.ndarray], kind: type[Part]) -> None:
    one = learned(part_of(kind, *documents), *documents)
    one.finished()
    assert array_bytes(list(one.part.held())) == 0


@pytest.mark.parametrize("kind", [MemoryPart, RefinedPart, NeighboursPart], ids=lambda kind: kind.name)
def test_weight_zero__leaves_the_part_out(documents: tuple[np.ndarray, np.ndarray], kind: type[Part]) -> None:
    one = learned(part_of(kind, *documents), *documents)
    assert one.part.finish({**one.part.defaults, "weight": 0.0}) is None


def test_terms__are_of_the_two_kinds_that_pruning_knows(finished: dict[str, tuple[Learned, Scorer]]) -> None:
    for _, scorer in finished.values():
        assert all(isinstance(term, Dense | Sparse) for term in scorer.terms)
