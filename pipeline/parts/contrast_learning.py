"""Learning of contrast: look-alikes of each document, a classifier for each label, and choices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..corpus.rows import SparseRows
from ..passes.cost import Cost, corpus_size
from ..passes.ranges import Ranges
from ..passes.runner import Runner
from ..passes.stages import Gatherer, Layout, Price, Stage
from ..passes.work import hollow
from ..types import Array
from .choosing import Chosen, Contest, finished
from .contrast import Classifiers, Contrast, LookAlikes, bonus_of, word_labels
from .contrast_kernels import margins, pairs_by_label, places_by_score
from .cross import MOST_ENTRIES
from .neighbours import MOST_WORDS as MOST_KNOWN
from .neighbours import known_documents
from .part import Choice, Context, Scale, half
from .selection import Shortlists
from .training_words import FEWEST_ALIKE, MOST_PRODUCTS, TrainingWords

COSTS = (0.3, 1.0, 3.0)
"""Values of C to try where there is little to solve."""
_COST = 1.0
WEIGHTS = Scale((0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4))
WIDTHS = (10, 15, 20)
MOST_ALIKE = 30
"""Look-alikes of a document, at most: fewer where there are many words."""
MOST_WEIGHTS = 50_000_000
"""Weights of all classifiers: 400 MB."""
_FEW_PRODUCTS = 20_000_000
"""Up to so many, several values of C are tried."""
_RANGES = 64
"""Ranges of documents or labels that tasks work on, at most."""
_LEAST_WORDS, _LEAST_PAIRS = 30_000, 30_000
"""Words of documents, or pairs of labels, in a range: some milliseconds of work."""
_LITTLE = 0.02
"""A smaller share of the documents is not given back to the classifiers: nothing would be gained."""
_FINAL = -1
"""Group of no document: of the classifiers that a model keeps."""


@dataclass(frozen=True)
class Judged:
    """Documents to choose on, which the other parts have scored by sums that they are no part of."""

    lists: Shortlists
    scores: Array
    """(pairs,) float32: by all other parts, as chosen."""
    X: SparseRows
    """(n, D) float32: X~ of the documents."""
    ends: Array
    """Documents of group g are those from `ends[g]` to `ends[g + 1]`."""
    groups: Array
    """(gathered documents,) int: the group that each one is of; -1 for those that are not judged."""


class ContrastLearning(Gatherer):
    """Contrast while it learns, after all other parts have."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.training = context.share(TrainingWords)
        size = corpus_size(context.corpus)
        self.n_docs = max(1, round(size.n_docs * self.training.share))
        affordable = MOST_PRODUCTS / max(1, self.training.n_words) - size.y_nnz / max(1, size.n_docs)
        self.n_alike = round(max(FEWEST_ALIKE, min(MOST_ALIKE, affordable)))
        limit = context.layout.memory_limit
        self.most_weights = (
            MOST_WEIGHTS if limit is None else min(MOST_WEIGHTS, context.layout.parts_bytes // 32)
        )
        self.judged: Judged | None = None
        self.lists: dict[int, Array] = {}
        """(n, m): look-alikes of each document, for each group that is judged, and for the final ones."""
        self.learned: Array | None = None
        """Hollow, like the classifiers, once making them was pretended."""

    @property
    def reordering(self) -> int:
        """Bytes that putting the words of classifiers in another order takes."""
        return 0 if self.learned is None else self.learned.nbytes // 2

    def held(self) -> Sequence[Any]:
        return [*self.training.held(), *self.lists.values(), self.learned]

    def details(self) -> dict[str, Any]:
        """Numbers that plans and statistics tell."""
        return {"look_alikes": self.n_alike, "contrast_share": round(self.training.share, 4)}

    def tell(self) -> None:
        """Note where not all documents are learned from."""
        if self.training.share < 1:
            self.context.stats.setdefault("notes", []).append(
                f"Contrast learns from documents with about {self.training.share:.0%} of all words: "
                "all those with rare labels, and a sample of the others."
            )

    # -- look-alikes ----------------------------------------------------------------------------------------

    def find(self, runner: Runner) -> None:
        """Find the look-alikes of all documents.

        Documents that are judged speak for nobody's look-alikes: their labels would become those that their
        neighbours are told not to carry.
        """
        judged = self.judged
        if judged is None:
            return
        for group in range(len(judged.ends) - 1):
            self.lists[group] = self._look_alikes(runner, judged.groups == group)
        if len(judged.ends) > 2:  # folds: all documents are judged
            self.lists[_FINAL] = self._look_alikes(runner)

    def _look_alikes(self, runner: Runner, left_out: Array | None = None) -> Array:
        """(n, m): look-alikes of all documents, by those that are not left out."""
        block = self.training.joined()
        n = block.X.n_rows
        known, rows = known_documents(block, left_out)
        own = np.full(n, -1, np.int32)
        own[rows] = np.arange(len(rows), dtype=np.int32)
        postings = word_labels(known, self.context.n_threads)
        work = LookAlikes(block.X, own, known, known.index, postings, self.n_alike)
        ranges = _ranges(np.diff(block.X.indptr) + 1, _LEAST_WORDS)
        return runner.run(work, ranges, ranges.segments()).joined("lists")

    # -- classifiers, and choices ---------------------------------------------------------------------------

    def solve(self, runner: Runner, group: int, cost: float) -> tuple[SparseRows, Array]:
        """Weights (L, D) and biases of all classifiers; the documents of the group are no part of them."""
        assert self.judged is not None
        block = self.training.joined()
        L = block.Y.n_columns
        lists = self.lists.get(group, self.lists[0])
        skip = np.zeros(len(lists), bool) if group == _FINAL else self.judged.groups == group
        indptr, docs = pairs_by_label(lists, (block.Y.indptr, block.Y.indices), skip, L)
        ranges = _ranges(np.diff(indptr) + 1, _LEAST_PAIRS)
        most = max(1, self.most_weights // len(ranges.segments()))
        work = Classifiers(block.X, indptr, docs, cost, self.context.settings.seed, most)
        found = runner.run(work, ranges, ranges.segments())
        starts = np.concatenate([[0], np.cumsum(found.joined("lengths"))])
        weights = half(found.joined("weights"))
        W = SparseRows(starts.astype(np.int64), found.joined("words"), weights, block.X.n_columns)
        return W, half(found.joined("biases"))

    def finish(self, runner: Runner, chosen: Chosen) -> tuple[Contrast | None, Chosen]:
        """Choose, and make the scorer; None where it helps nothing."""
        judged = self.judged
        if judged is None or not len(judged.groups):
            return None, chosen
        words = np.diff(self.training.joined().X.indptr)
        products = float(((self.lists[0] >= 0).sum(axis=1) * words).sum())
        costs = COSTS if products <= _FEW_PRODUCTS else (_COST,)
        solved: dict[float, list[tuple[SparseRows, Array]]] = {}
        found: dict[float, Array] = {}
        places = places_by_score(judged.lists.indptr, judged.scores)
        for cost in costs:
            solved[cost], found[cost] = self._judge(runner, judged, places, cost)
        started = time.perf_counter()
        trial = _ContrastTrial(judged, found, places)
        choice = trial.chosen()
        self.context.stats["choice_seconds"] += time.perf_counter() - started
        if not choice["weight"]:
            return None, chosen
        scores = trial.scores(choice)
        stats = {
            "held_out": judged.lists.measures(scores),
            "held_out_before_contrast": chosen.stats["held_out"],
        }
        named = {f"contrast.{name}": value for name, value in choice.items()}
        chosen = replace(chosen, choice={**chosen.choice, **named}, stats={**chosen.stats, **stats})
        chosen = finished(chosen, judged.lists, scores, is_calibrated=True)
        skipped = judged.groups >= 0
        cost = choice["cost"]
        if len(judged.ends) == 2 and skipped.mean() <= _LITTLE:
            ((W, biases),) = solved[cost]
        else:
            solved.clear()
            W, biases = self.solve(runner, _FINAL, cost)
        return Contrast(W, biases, choice["weight"], int(choice["width"])), chosen

    def _judge(
        self, runner: Runner, judged: Judged, places: Array, cost: float
    ) -> tuple[list[tuple[SparseRows, Array]], Array]:
        """Classifiers for each group of documents that have not seen it, and margins of foremost pairs."""
        lists, X = judged.lists, judged.X
        labels = np.where(places < max(WIDTHS), lists.labels, -1).astype(np.int32)
        all_solved, found = [], np.empty(len(lists.labels), np.float32)
        for group, (first, last) in enumerate(zip(judged.ends[:-1], judged.ends[1:], strict=True)):
            W, biases = self.solve(runner, group, cost)
            some = slice(lists.indptr[first], lists.indptr[last])
            pairs = lists.indptr[first : last + 1] - lists.indptr[first], labels[some]
            own = X.slice(int(first), int(last))
            margins(own.csr(), (*W.csr(), biases), pairs, X.n_columns, found[some])
            all_solved.append((W, biases))
        return all_solved, found


def _ranges(work: Array, least: int) -> Ranges:
    """Ranges with about as much work each, and so much at least."""
    return Ranges.of_work(work, max(1, min(_RANGES, int(work.sum()) // least)))


@dataclass(frozen=True)
class _ContrastTrial:
    judged: Judged
    margins: dict[float, Array]
    """(pairs,) float32, by C."""
    places: Array
    """(pairs,) int32: place of each pair's label among those of its document."""

    def scores(self, choice: Choice, pairs: slice = slice(None)) -> Array:
        """(pairs,) float32: of all parts together."""
        bonus = bonus_of(self.margins[choice["cost"]][pairs], choice["weight"])
        bonus[self.places[pairs] >= choice["width"]] = 0
        bonus += self.judged.scores[pairs]
        return bonus

    def chosen(self) -> dict[str, float]:
        """The best weight, width and C; the weight is 0 where none is better."""
        costs = tuple(self.margins)
        start = {"weight": 0.0, "width": float(WIDTHS[0]), "cost": _COST}
        options = {"weight": WEIGHTS, "width": tuple(map(float, WIDTHS)), "cost": costs}
        contest = Contest(self.judged.lists, self.scores)
        choice = contest.climb(start, options)
        return contest.likeliest(choice, "weight", WEIGHTS[1:], start) if choice["weight"] else choice


class FindLookAlikes(Stage):
    """The labels that documents look like."""

    name = "look-alikes"

    def __init__(self, contrast: ContrastLearning) -> None:
        self._contrast = contrast

    def run(self, runner: Runner) -> None:
        self._contrast.find(runner)

    def pretend(self, layout: Layout) -> None:
        self._contrast.lists[0] = hollow(self._contrast.n_docs, self._contrast.n_alike, dtype=np.int32)

    def price(self, layout: Layout, held: int) -> Price:
        contrast, corpus = self._contrast, self._contrast.context.corpus
        size, words = corpus_size(corpus), min(MOST_KNOWN, contrast.training.n_words)
        lists = 2 * 4 * contrast.n_docs * contrast.n_alike
        known = 12 * words  # these documents, and their index
        # what words say of labels: weights, their sums with some slack, by word, and scaled
        said = 4 * words + 30 * round(min(MOST_ENTRIES, words * size.y_nnz / max(1, size.n_docs)))
        tasks = layout.at_a_time * 4 * (corpus.n_labels + corpus.n_terms + contrast.n_docs)
        work = Cost(gathered=contrast.n_docs * 12 * 8_000)
        return Price(self.name, held + lists + known + said, working=tasks, cost=work)


class SolveContrast(Stage):
    """A classifier for each label, and the choice of their weight."""

    name = "contrast"

    def __init__(self, contrast: ContrastLearning, keep: Any) -> None:
        self._contrast, self._keep = contrast, keep

    def run(self, runner: Runner) -> None:
        self._keep(runner)

    def pretend(self, layout: Layout) -> None:
        contrast = self._contrast
        contrast.lists.clear()
        contrast.training.let_go()
        contrast.learned = hollow(self._learned_bytes, dtype=np.uint8)

    @property
    def _learned_bytes(self) -> int:
        """A word has a weight in nearly as many classifiers as it is in documents, times labels."""
        contrast = self._contrast
        size = corpus_size(contrast.context.corpus)
        each = 1 + size.y_nnz / max(1, size.n_docs)
        return round(8 * min(contrast.training.n_words * (contrast.n_alike + each), contrast.most_weights))

    def price(self, layout: Layout, held: int) -> Price:
        contrast, corpus = self._contrast, self._contrast.context.corpus
        size = corpus_size(corpus)
        pairs = contrast.n_docs * (contrast.n_alike + size.y_nnz / max(1, size.n_docs))
        words = contrast.training.n_words / max(1, contrast.n_docs)
        made = round(8 * pairs) + 2 * self._learned_bytes
        working = layout.at_a_time * 4 * corpus.n_terms
        return Price(self.name, held + made, working=working, cost=Cost(gathered=12 * 8 * pairs * words))
