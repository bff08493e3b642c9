"""A new part in one file: how long a document is says what labels it has.

Everything that a part takes part in is done with it: reads, choices, planning, saving, pruning, explaining,
resuming. Nothing else knows of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from threepass import Corpus, MomentLabeler, StoreError, ingest_matrices
from threepass.corpus.rows import SparseRows
from threepass.corpus.store import Block
from threepass.model import fitting
from threepass.model.predictor import Predictor
from threepass.moments.topics import MomentTopics
from threepass.parts.blend import ScoringSizes
from threepass.parts.heads import HEADS, Head
from threepass.parts.memory import MemoryPart
from threepass.parts.part import Choice, Context, Evidence, Making, Part, Scorer, Stored, Trial, Words
from threepass.parts.scoring import pruning_pays
from threepass.parts.selection import Shortlists
from threepass.parts.terms import Dense, Side, Term
from threepass.passes.cost import Cost, Needs, Size
from threepass.passes.sums import Sums
from threepass.passes.work import Pass, hollow

# -- the part -------------------------------------------------------------------------------------------

_MOST = 100
"""Longer documents count as of this length."""
_BUCKETS = 4
_SMOOTHINGS = (1.0, 1000.0)
_WEIGHTS = (0.0, 1.0, 4.0)


def lengths_of(X: SparseRows) -> np.ndarray:
    """(n,): distinct words of each document."""
    return np.minimum(np.diff(X.indptr), _MOST)


def shares_of(X: SparseRows, edges: np.ndarray) -> np.ndarray:
    """(n, _BUCKETS) float32: a one for the bucket of each document's length."""
    return np.eye(_BUCKETS, dtype=np.float32)[np.searchsorted(edges, lengths_of(X))]


@dataclass
class LengthSums(Sums):
    documents: np.ndarray
    """(_MOST + 1,) float64: documents of each length."""


@dataclass(frozen=True)
class Lengths(Pass[LengthSums]):
    """Read 1: how long documents are."""

    name = "lengths"

    def needs(self, size: Size) -> Needs:
        return Needs(8 * (_MOST + 1), 8 * (_MOST + 1), cost=Cost(gathered=16 * size.n_docs))

    def zero(self) -> LengthSums:
        return LengthSums(np.zeros(_MOST + 1))

    def add(self, sums: LengthSums, block: Block) -> None:
        sums.documents += np.bincount(lengths_of(block.X), minlength=_MOST + 1)


@dataclass
class BucketSums(Sums):
    labels: np.ndarray
    """(L, _BUCKETS) float64: documents with each label, by their length."""
    documents: np.ndarray
    """(_BUCKETS,) float64."""


@dataclass(frozen=True)
class Buckets(Pass[BucketSums]):
    """Read 2: labels by the length of their documents."""

    edges: np.ndarray
    n_labels: int
    name = "buckets"

    def needs(self, size: Size) -> Needs:
        sums = 8 * _BUCKETS * (self.n_labels + 1)
        return Needs(sums, sums, block_document=4 * _BUCKETS, cost=Cost(gathered=16 * size.y_nnz))

    def zero(self) -> BucketSums:
        return BucketSums(np.zeros((self.n_labels, _BUCKETS)), np.zeros(_BUCKETS))

    def add(self, sums: BucketSums, block: Block) -> None:
        shares = shares_of(block.X, self.edges)
        sums.labels += block.Y.to_scipy().T @ shares
        sums.documents += shares.sum(axis=0)


@dataclass(frozen=True)
class LengthScorer(Scorer):
    """Labels by the length of a document: b S R', the weighted rates of its bucket."""

    edges: np.ndarray
    rates: np.ndarray
    """(L, _BUCKETS) float32: the weighted share of a bucket's documents that carry each label."""
    weight: float
    name = "length"
    described = "the length of the document"
    halved = ("rates",)

    @property
    def terms(self) -> Sequence[Term]:
        return [Dense(self.rates, is_nonnegative=True)]

    def see(self, words: Words) -> Sequence[Side]:
        return [shares_of(words.X, self.edges)]

    @property
    def largest(self) -> float:
        return self.weight

    def arrays(self) -> dict[str, np.ndarray]:
        return {"edges": self.edges, "rates": self.rates}

    def numbers(self) -> dict[str, float]:
        return {"weight": self.weight}

    @classmethod
    def load(cls, stored: Stored, moments: MomentTopics) -> Self:
        edges = stored.read("edges", (_BUCKETS - 1,), np.float64)
        rates = stored.read_floats("rates", (len(moments.Q), _BUCKETS))
        if rates.min(initial=0) < 0:
            raise stored.damaged("rates", "they are below 0")
        return cls(edges, rates, stored.number("weight", 0, 100))

    def reordered(self, words: np.ndarray, moments: MomentTopics, n_threads: int | None = None) -> Self:
        return self  # words are only counted

    def evidence(self, words: Words, label: int) -> Evidence:
        bucket = int(np.searchsorted(self.edges, lengths_of(words.X)[0]))
        return Evidence([(bucket, 1.0, float(self.rates[label, bucket]) / self.weight)])


@dataclass(frozen=True)
class LengthTrial(Trial):
    shares: np.ndarray
    rates: list[np.ndarray]

    def dense(self, rows: slice) -> np.ndarray:
        return np.asarray(self.shares[rows] @ self.rates[0].T)

    def at(self, lists: Shortlists) -> dict[str, np.ndarray]:
        return {"shares": np.stack([lists.products(self.shares, rates) for rates in self.rates])}


class LengthPart(Part):
    """Rates of labels by length, while they are learned."""

    name = "length"
    scorer = LengthScorer

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.work: Buckets | None = None
        self.lengths: LengthSums | None = None
        self.sums: BucketSums | None = None

    def held(self) -> Sequence[Any]:
        return [self.work, self.lengths, self.sums]

    def passes(self, read: int) -> Sequence[Pass[Any]]:
        if read == 1:
            return [Lengths()]
        return [self.work] if read == 2 and self.work is not None else ()

    def take(self, read: int, sums: Sequence[Any]) -> None:
        if read == 1:
            (self.lengths,) = sums
        else:
            (self.sums,) = sums

    def give_back(self, held_out: Block) -> None:
        assert self.work is not None
        assert self.sums is not None
        self.work.add(self.sums, held_out)

    def prepares(self, read: int) -> str | None:
        return "length buckets" if read == 2 else None

    def prepare(self, read: int) -> None:
        assert self.lengths is not None
        up_to = np.cumsum(self.lengths.documents)
        places = np.searchsorted(up_to, up_to[-1] * np.arange(1, _BUCKETS) / _BUCKETS)
        self.work, self.lengths = Buckets(places.astype(float), self.context.corpus.n_labels), None

    def pretend(self, read: int) -> None:
        edges = hollow(_BUCKETS - 1, dtype=np.float64)
        self.work, self.lengths = Buckets(edges, self.context.corpus.n_labels), None

    def preparing(self, read: int) -> Making:
        return Making(16 * _MOST)

    @property
    def defaults(self) -> Choice:
        return {"weight": 1.0, "smoothing": 1.0}

    def own_options(self) -> Mapping[str, Sequence[float]]:
        return {"smoothing": _SMOOTHINGS}

    def options(self) -> Mapping[str, Sequence[float]]:
        return {} if self.context.is_alone else {"weight": _WEIGHTS}

    def rates(self, smoothing: float) -> np.ndarray:
        assert self.sums is not None
        return np.asarray(self.sums.labels / (self.sums.documents + smoothing), np.float32)

    def trial(self, documents: Words) -> Trial:
        assert self.work is not None
        return LengthTrial(shares_of(documents.X, self.work.edges), [self.rates(s) for s in _SMOOTHINGS])

    def pair_scores(self, at: Mapping[str, np.ndarray], choice: Choice) -> np.ndarray:
        shares = at["shares"][_SMOOTHINGS.index(choice["smoothing"])]
        return np.asarray(np.float32(choice["weight"]) * shares)

    def finish(self, choice: Choice) -> Scorer | None:
        assert self.work is not None
        rates = np.float32(choice["weight"]) * self.rates(choice["smoothing"])
        edges, self.work, self.sums = self.work.edges, None, None
        return LengthScorer(edges, rates, choice["weight"]) if choice["weight"] else None

    def finishing(self) -> Making:
        return Making(8 * _BUCKETS * self.context.corpus.n_labels)

    def remains(self) -> Sequence[np.ndarray]:
        return [hollow(_BUCKETS - 1, dtype=np.float64), hollow(self.context.corpus.n_labels, _BUCKETS)]


# -- what is done with it -------------------------------------------------------------------------------

N_LABELS = 40
HEADS_OF_IT = {
    "length": Head((LengthPart,), is_calibrated=False),
    "length and memory": Head((LengthPart, MemoryPart), is_calibrated=True),
    "memory and length": Head((MemoryPart, LengthPart), is_calibrated=True),
    "all": Head((LengthPart, *HEADS["blend"].parts), is_calibrated=True),
}
every_head = pytest.mark.parametrize("head", list(HEADS_OF_IT))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, head in HEADS_OF_IT.items():
        monkeypatch.setitem(HEADS, name, head)


def labelled_by_length(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The first ten labels come with the length of a document, the others with words."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n, N_LABELS)) < 0.02
    X = (rng.random((n, 60)) < rng.choice([0.05, 0.1, 0.3, 0.7], n)[:, None]) * rng.integers(1, 4, (n, 60))
    X[::50] = 0
    long = (X > 0).sum(axis=1) > 12
    Y[long, rng.integers(5, size=long.sum())] = True
    Y[~long, 5 + rng.integers(5, size=(~long).sum())] = True
    X[:, 20:] |= Y[:, :40] * (rng.random((n, 40)) < 0.3)
    return X, Y * 1


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return ingest_matrices(
        *labelled_by_length(1300), tmp_path_factory.mktemp("toy") / "c.zarr", block_bytes=20_000
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus so small that choices are made in folds."""
    return ingest_matrices(*labelled_by_length(300), tmp_path_factory.mktemp("toy") / "s.zarr")


@pytest.fixture(scope="module")
def models(corpus: Corpus) -> Iterator[dict[str, MomentLabeler]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, head in HEADS_OF_IT.items():
            patch.setitem(HEADS, name, head)
        yield {name: labeler(name).fit(corpus) for name in HEADS_OF_IT}


def labeler(head: str, **settings: Any) -> MomentLabeler:
    return MomentLabeler(3, head=head, head_dim=30, **settings)  # type: ignore[arg-type]


def part_of(model: MomentLabeler) -> LengthScorer:
    (part,) = [part for part in model.predictor_.blend.parts if isinstance(part, LengthScorer)]
    return part


@every_head
def test_fit__learns_from_all_documents(models: dict[str, MomentLabeler], head: str) -> None:
    """Held-out ones too: they were given back."""
    part, (X, Y) = part_of(models[head]), labelled_by_length(1300)
    stats = models[head].fit_stats_
    assert stats["chosen_on"] == "held-out training documents"
    buckets = np.searchsorted(part.edges, np.minimum((X > 0).sum(axis=1), _MOST))
    own = [Y[buckets == bucket] for bucket in range(_BUCKETS)]
    smoothing = stats["choice"]["length.smoothing"]
    rates = np.array([some.sum(axis=0) / (len(some) + smoothing) for some in own]).T
    np.testing.assert_allclose(part.rates, stats["choice"].get("length.weight", 1.0) * rates, rtol=1e-5)
    assert stats["choice"]["length.smoothing"] == 1.0
    assert stats["choice"].get("length.weight", 1.0) > 0


def test_fit__it_is_of_use(models: dict[str, MomentLabeler], corpus: Corpus) -> None:
    X, Y = labelled_by_length(600, seed=1)
    found = models["length"].evaluate(X, Y)
    rates = labelled_by_length(1300)[1].mean(axis=0)  # the same labels for everybody
    popular = Y[:, np.argsort(-rates)[:5]].sum() / (5 * len(Y))
    assert found["p@5"] > popular + 0.03
    held_out = models["length and memory"].fit_stats_
    assert held_out["held_out"]["auc"] >= held_out["held_out_length"]["auc"] - 0.02


@pytest.mark.parametrize("head", ["length", "all"])
def test_fit__folds_of_a_small_corpus(small: Corpus, head: str) -> None:
    model = labeler(head).fit(small)
    assert model.fit_stats_["chosen_on"] == "5 folds of the training documents"
    assert model.fit_stats_["choice"]["length.smoothing"] in _SMOOTHINGS
    if head != "length":
        assert model.predictor_.blend.is_calibrated


@pytest.mark.parametrize(
    ("size", "head"), [("small", "length"), ("large", "memory and length"), ("large", "all")]
)
def test_plan__is_what_is_done(
    corpus: Corpus, small: Corpus, head: str, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = corpus if size == "large" else small
    done: list[str] = []
    plain = fitting.Clock.mark
    monkeypatch.setattr(fitting.Clock, "mark", lambda self, stage: done.append(stage) or plain(self, stage))
    model = labeler(head)
    planned = model.plan(own).as_dict()
    model.fit_to(own, tmp_path / "m.zarr")
    assert [stage["stage"] for stage in planned["stages"]] == done
    assert "length buckets" in done
    assert all(stage["held_bytes"] > 0 for stage in planned["stages"][1:])


@every_head
def test_save__comes_back_bitwise(models: dict[str, MomentLabeler], head: str, tmp_path: Path) -> None:
    models[head].save(tmp_path / "m.zarr")
    back = Predictor.load(tmp_path / "m.zarr")
    X = labelled_by_length(100, seed=1)[0]
    np.testing.assert_array_equal(back.predict_proba(X), models[head].predict_proba(X))
    for ours, theirs in zip(back.predict_topk(X), models[head].predict_topk(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert str(back.explain(X[5], 3)) == str(models[head].explain(X[5], 3))


def test_save__is_refused_where_nobody_knows_the_part(
    models: dict[str, MomentLabeler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models["length"].save(tmp_path / "m.zarr")
    monkeypatch.delitem(HEADS, "length")
    with pytest.raises(StoreError, match="'length'"):
        Predictor.load(tmp_path / "m.zarr")


@every_head
def test_predict__with_pruning_as_by_all_scores(models: dict[str, MomentLabeler], head: str) -> None:
    X = labelled_by_length(200, seed=1)[0]
    predictor = models[head].predictor_
    assert not pruning_pays(predictor.blend, 4)
    labels, scores = predictor.predict_topk(X, k=4)
    always = ScoringSizes(fewest_labels=1, labels_per_rank=1, most_scored=3.0)
    pruning = replace(predictor, blend=replace(predictor.blend, sizes=always))
    pruned, shown = pruning.predict_topk(X, k=4)
    np.testing.assert_allclose(shown, scores, rtol=1e-5, atol=1e-6)
    differ = np.argwhere((pruned != labels).any(axis=1))[:, 0]
    assert len(differ) < 20  # near ties may swap
    P = predictor.predict_proba(X)
    np.testing.assert_allclose(np.take_along_axis(P, pruned.astype(int), 1), shown, rtol=1e-5, atol=1e-6)


@every_head
def test_explain__tells_its_share_and_its_evidence(models: dict[str, MomentLabeler], head: str) -> None:
    X = labelled_by_length(100, seed=1)[0]
    model, part = models[head], part_of(models[head])
    told = model.explain(X[5], 3)
    bucket = int(np.searchsorted(part.edges, (X[5] > 0).sum()))
    assert dict(told.parts)["length"] == pytest.approx(float(part.rates[3, bucket]), rel=1e-5)
    assert [name for name, _ in told.parts] == [own.name for own in model.predictor_.blend.parts]
    assert (bucket, 1.0, pytest.approx(part.rates[3, bucket] / part.weight)) in told.topics


@pytest.mark.parametrize("head", ["length", "all"])
def test_fit__threads_do_not_change_a_bit(corpus: Corpus, head: str) -> None:
    X = labelled_by_length(100, seed=1)[0]
    one, two = (labeler(head, n_jobs=n).fit(corpus) for n in (1, 2))
    assert one.fit_stats_["choice"] == two.fit_stats_["choice"]
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


class Interrupted(Exception):
    """As a user would."""


@pytest.mark.parametrize("stage", ["length buckets", "head"])
def test_fit__goes_on_after_an_interruption(
    corpus: Corpus, models: dict[str, MomentLabeler], stage: str, tmp_path: Path
) -> None:
    def interrupt(name: str, done: float, total: float) -> None:
        if name == stage and done >= total:
            raise Interrupted

    with pytest.raises(Interrupted):
        labeler("all").fit(corpus, run_dir=tmp_path / "run", progress=interrupt)
    model = labeler("all").fit(corpus, run_dir=tmp_path / "run")
    assert model.fit_stats_["run"]["segments_reused"] > 0
    X = labelled_by_length(100, seed=1)[0]
    np.testing.assert_array_equal(model.predict_proba(X), models["all"].predict_proba(X))


def test_refine_passes__are_refused_where_nothing_is_refined(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match=r"refine_passes.*'length'.*head='all'"):
        labeler("length", refine_passes=1).fit(corpus)
    assert labeler("all", refine_passes=1).fit(corpus).n_passes_ == 4
