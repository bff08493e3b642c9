"""The protocol of a part: one addend of a label's score, from the sums of a read to the answer.

A new part is one file with a `Part`, which learns, and a `Scorer`, which remains of it; and a line in
`threepass.parts.heads`. Blend, choice of weights, calibration, pruning, saving, planning and explaining know
nothing else of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from ..corpus.rows import SparseRows
from ..passes.cost import Cost
from ..passes.stages import Gatherer, Layout
from ..types import Array
from .terms import Side, Term
from .weighting import Scheme, Weighting

if TYPE_CHECKING:
    from ..corpus.store import Corpus
    from ..moments.method import MomentMethod
    from ..moments.topics import MomentTopics
    from .selection import Shortlists

Choice = Mapping[str, float]
"""Values of options, by their names; of all parts as `PART.OPTION`."""
G = TypeVar("G", bound=Gatherer)


class Scale(tuple[float, ...]):
    """Values of an option, in order, that may go on beyond either end."""

    _MOST = 16

    def beyond(self, chosen: float) -> float | None:
        """The value beyond the end that was chosen, as far away as the one before it; None for no end."""
        if chosen == self[-1] and len(self) < self._MOST:
            return self[-1] ** 2 / self[-2]
        positive = self[1:] if self[0] == 0 else self
        if chosen == positive[0] and len(self) < self._MOST:
            return positive[0] ** 2 / positive[1]
        return None


@dataclass(frozen=True)
class Words:
    """Documents as parts see them."""

    X: SparseRows
    """(n, D): counts."""
    weighting: Weighting

    @cached_property
    def weighted(self) -> SparseRows:
        """(n, D) float32: X~, weighted words with unit rows."""
        return self.weighting.of(self.X)

    def take(self, rows: Array) -> Words:
        """Some of the documents."""
        return Words(self.X.take(rows), self.weighting)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Reasons of a part for a label, for people to read."""

    topics: Sequence[tuple[int, float, float]] = ()
    """Topic, its probability for the document, and its share of what all topics say for the label."""
    words: Sequence[tuple[int, float]] = ()
    """Word, and what it adds to the margin of the label's own classifier."""


class Stored(Protocol):
    """Arrays of a part on disk, each checked as it is read."""

    def read(self, name: str, shape: tuple[int | None, ...], *dtypes: Any) -> Array:
        """An array of this shape, None for any length, and of one of these types."""

    def read_floats(self, name: str, shape: tuple[int | None, ...]) -> Array:
        """float32, in whatever precision it was saved."""

    def number(self, name: str, least: float, most: float) -> float:
        """A number between two others."""

    def damaged(self, name: str, how: str) -> Exception:
        """The error to raise for an array that cannot be right."""


class Scorer(ABC):
    """A part that has learned: everything that its share of a score takes."""

    name: ClassVar[str]
    described: ClassVar[str]
    """In words, the thing that labels are scored by."""
    halved: ClassVar[Sequence[str]] = ()
    """Arrays to be saved in half precision, where that loses nothing."""

    @property
    def rescored(self) -> int:
        """Best labels by all other parts that this one scores anew; 0 for an addend of every score."""
        return 0

    def bonus(self, X: SparseRows, labels: Array) -> Array:
        """(n, m) float32: what a part that scores anew adds for some labels of each document, X being X~."""
        raise NotImplementedError

    @property
    @abstractmethod
    def terms(self) -> Sequence[Term]:
        """Terms whose sum is this part's share of a score."""

    @abstractmethod
    def see(self, words: Words) -> Sequence[Side]:
        """Documents as each of the terms sees them, before any label."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """About the largest share of a score that there can be."""

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Arrays to save, by name."""

    def numbers(self) -> dict[str, float]:
        """Single numbers that are saved beside the arrays."""
        return {}

    @classmethod
    @abstractmethod
    def load(cls, stored: Stored, moments: MomentTopics) -> Self:
        """Read it back, for a model with these topics; whatever cannot be right is refused."""

    @abstractmethod
    def reordered(self, words: Array, moments: MomentTopics, n_threads: int | None = None) -> Self:
        """The same with words in another order, in place: word `i` is what word `words[i]` was.

        Parameters
        ----------
        moments
            The paper's topics, in that order already.
        """

    def evidence(self, words: Words, label: int) -> Evidence:
        """Reasons for a label of one document, beyond those of single words."""
        del words, label
        return Evidence()

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())


@dataclass(frozen=True, slots=True)
class PartSettings:
    """Settings that decide the parts, besides the corpus."""

    head: str = "posterior"
    scheme: Scheme = "log"
    dim: int | None = None
    """Features of the ridge regression; None for as many as pay."""
    refine_passes: int = 0
    smoothing: float | None = None
    """None: chosen, or 0.1 where nothing is chosen."""
    seed: int = 0


@dataclass(frozen=True)
class Context:
    """Everything that parts are made from, and the gatherers that they share."""

    settings: PartSettings
    corpus: Corpus
    moments: MomentMethod
    layout: Layout
    weighting: Weighting
    n_threads: int | None
    is_alone: bool
    """Whether there is only one part: its score is then the answer itself, and no addend."""
    keeps_documents: bool = False
    """Whether all documents are kept, to be learned from again in folds."""
    stats: dict[str, Any] = field(default_factory=dict)
    shared: dict[type[Gatherer], Gatherer] = field(default_factory=dict)

    def share(self, kind: type[G]) -> G:
        """The one gatherer of this kind, for all parts that need its sums."""
        if kind not in self.shared:
            self.shared[kind] = kind(self)  # type: ignore[call-arg]
        return self.shared[kind]  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Making:
    """Memory and work of making something."""

    nbytes: int = 0
    cost: Cost = field(default_factory=Cost)


class Trial(ABC):
    """A part's scores of held-out documents, by sums that they are no part of."""

    @abstractmethod
    def dense(self, rows: slice) -> Array:
        """(s, L) float32: scores of all labels by the defaults, for shortlists."""

    @abstractmethod
    def at(self, lists: Shortlists) -> dict[str, Array]:
        """Arrays for `Part.pair_scores`, with the pairs of the shortlists along the last axis."""


class Part(Gatherer):
    """One addend of a label's score, while it learns.

    Held-out documents are in none of its sums until all choices are made; then they are added to the sums of
    every pass that it has taken, and `finish` makes a scorer of them.
    """

    name: ClassVar[str]
    scorer: ClassVar[type[Scorer]]
    knows_held_out: ClassVar[bool] = False
    """Whether it has learned from the held-out documents, too."""
    refines: ClassVar[bool] = False
    """Whether it learns from further reads (`refine_passes`)."""

    def __init__(self, context: Context) -> None:
        self.context = context

    # -- before a read --------------------------------------------------------------------------------------

    def prepares(self, read: int) -> str | None:
        """Name of the stage before a read in which it makes something for that read; None for nothing."""
        del read
        return None

    def prepare(self, read: int) -> None:
        """Make it."""

    def pretend(self, read: int) -> None:
        """Leave behind what `prepare` would, without memory."""

    def preparing(self, read: int) -> Making:
        """Memory and work of `prepare`."""
        del read
        return Making()

    # -- after the last read --------------------------------------------------------------------------------

    @property
    def defaults(self) -> Choice:
        """Values of its options where there is nothing to choose by."""
        return {}

    def own_options(self) -> Mapping[str, Sequence[float]]:
        """Values to try of options that are chosen by this part's own ranking, before it is blended."""
        return {}

    def options(self) -> Mapping[str, Sequence[float]]:
        """Values to try of options that are chosen by the ranking of all parts together."""
        return {}

    @abstractmethod
    def trial(self, documents: Words) -> Trial:
        """Its scores of documents that are in none of its sums."""

    @abstractmethod
    def pair_scores(self, at: Mapping[str, Array], choice: Choice) -> Array:
        """(pairs,) float32: what a trial says for one choice."""

    @abstractmethod
    def finish(self, choice: Choice) -> Scorer | None:
        """Make the scorer, with the choices made and the held-out documents in the sums; let go of the sums.

        None where the choice leaves the part out. What parts share is let go once all of them are finished.
        """

    @abstractmethod
    def finishing(self) -> Making:
        """Memory and work of `finish`."""

    @abstractmethod
    def remains(self) -> Sequence[Array]:
        """Hollow arrays, like those of the scorer that `finish` makes."""

    @property
    def reordering(self) -> int:
        """Bytes that putting its words in another order takes."""
        return 0

    def fold(self, context: Context) -> Part:
        """A new one of its kind, to learn from some of the documents that are held in memory."""
        return type(self)(context)

    def details(self) -> dict[str, Any]:
        """Numbers that plans and statistics tell of it."""
        return {}

    def tell(self) -> None:
        """Warn or log, before anything is read."""


def half(matrix: Array) -> Array:
    """Round to what half precision holds, in which models are saved, in place; what is too large stays."""
    from ..passes import kernels

    largest = max(matrix.max(initial=0), -matrix.min(initial=0))
    if largest <= np.finfo(np.float16).max:
        kernels.round_to_half(matrix.reshape(-1))
    return matrix
