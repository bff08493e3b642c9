"""Choices made on held-out documents: options of the parts, the calibration, and a threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..corpus.rows import SparseRows
from ..tasks import map_tasks
from ..types import Array
from .calibration import FEWEST_HITS, Calibration
from .part import Choice, Part, Scale, Words
from .selection import Shortlists, best_threshold, goodness, means

At = Mapping[str, Mapping[str, Array]]
"""By part, what its trial says of each pair of the shortlists."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Trials of all parts on the same shortlists."""

    lists: Shortlists
    at: At

    @classmethod
    def of(
        cls, parts: Sequence[Part], documents: Words, Y: SparseRows, seed: int, n_threads: int | None
    ) -> Tried:
        """Score documents by sums that they are no part of.

        Parameters
        ----------
        Y
            (n, L): their own labels.
        """
        trials = [part.trial(documents) for part in parts]
        lists = Shortlists.of(Y, lambda rows: [trial.dense(rows) for trial in trials], seed, n_threads)
        return cls(lists, {part.name: trial.at(lists) for part, trial in zip(parts, trials, strict=True)})

    @classmethod
    def joined(cls, folds: Sequence[Tried]) -> Tried:
        """The same of several sets of documents, each scored by sums of its own."""
        if len(folds) == 1:
            return folds[0]
        first = folds[0].at
        at = {
            part: {
                name: np.concatenate([fold.at[part][name] for fold in folds], axis=-1) for name in first[part]
            }
            for part in first
        }
        return cls(Shortlists.joined([fold.lists for fold in folds]), at)

    def scores(self, parts: Sequence[Part], choice: Choice, pairs: slice = slice(None)) -> Array:
        """(pairs,) float32: the blend that a choice gives, at all pairs or some."""
        at = {part.name: {n: some[..., pairs] for n, some in self.at[part.name].items()} for part in parts}
        total, *others = (part.pair_scores(at[part.name], own(choice, part)) for part in parts)
        total = np.array(total, np.float32)
        for scores in others:
            total += scores
        return total


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice, and how good it is on the documents it was made on."""

    choice: Choice
    calibration: Calibration | None = None
    threshold: float | None = None
    """The score from which on labels are assigned, by micro-F1."""
    stats: dict[str, Any] = field(default_factory=dict)


def defaults(parts: Sequence[Part]) -> dict[str, float]:
    """The choice where there is nothing to choose by."""
    return {f"{part.name}.{name}": value for part in parts for name, value in part.defaults.items()}


def own(choice: Choice, part: Part) -> dict[str, float]:
    """A part's share of a choice."""
    start = f"{part.name}."
    return {name.removeprefix(start): value for name, value in choice.items() if name.startswith(start)}


def choose(parts: Sequence[Part], tried: Tried, is_calibrated: bool) -> Chosen:
    """The best options, the map from scores to probabilities, and the threshold of the best micro-F1.

    Parameters
    ----------
    is_calibrated
        Whether scores are to become probabilities.
    """
    lists, choice, stats = tried.lists, defaults(parts), {}
    for part in parts:
        options = _named(part, part.own_options())
        if options:
            contest = Contest(lists, partial(tried.scores, [part]))
            # a part alone: its weight among others makes no difference to its own ranking
            choice, measured = contest.best_of_all(choice, options)
            stats[f"held_out_{part.name}"] = measured
    options = {name: some for part in parts for name, some in _named(part, part.options()).items()}
    if options:
        weights_first = dict(sorted(options.items(), key=lambda option: not option[0].endswith(".weight")))
        choice = Contest(lists, partial(tried.scores, parts)).climb(choice, weights_first)
    scores = tried.scores(parts, choice)
    stats["held_out"] = lists.measures(scores)
    return finished(Chosen(choice, stats=stats), lists, scores, is_calibrated)


def finished(chosen: Chosen, lists: Shortlists, scores: Array, is_calibrated: bool) -> Chosen:
    """A choice with the calibration of its scores (pairs,), and a threshold."""
    chosen = replace(chosen, calibration=None, threshold=None)
    if is_calibrated:
        calibration = Calibration.fitted(scores, lists.hits, lists.weights)
        if calibration is None:
            return chosen
        chosen, scores = replace(chosen, calibration=calibration), calibration.apply(scores)
    if lists.hits.sum() < FEWEST_HITS:
        return chosen
    threshold, f1 = best_threshold(scores, lists.hits, lists.weights)
    stats = {**chosen.stats, "threshold": {"value": threshold, "micro_f1": f1}}
    return replace(chosen, threshold=threshold, stats=stats)


Options = Mapping[str, Sequence[float]]


def _named(part: Part, options: Options) -> dict[str, Sequence[float]]:
    return {f"{part.name}.{name}": values for name, values in options.items()}


@dataclass(frozen=True, slots=True)
class Contest:
    """Choices compared document by document, on as many documents as it takes to be certain."""

    lists: Shortlists
    scores: Callable[[Choice, slice], Array]
    """Scores of some pairs by a choice."""

    def best_of_all(self, choice: Choice, options: Options) -> tuple[dict[str, float], dict[str, float]]:
        """The best of all combinations, the first of equal ones; and its measures."""
        choices = [dict(choice)]
        for name, some in options.items():
            choices = [{**known, name: value} for known in choices for value in some]
        measured = self._measured(choices, slice(0, self.lists.n_docs))
        best = max(range(len(choices)), key=lambda i: _mean(goodness(measured[i])))
        named = dict(zip(("auc", "p@1", "p@3", "p@5"), means(measured[best]), strict=True))
        return choices[best], named

    def climb(self, choice: Choice, options: Options) -> dict[str, float]:
        """The choice that changing one option at a time leads to, until nothing is better for certain.

        One that is worse for certain on some documents is not tried on all of them. One is better if its
        mean over all documents is, by more than `_SURE` standard errors of the difference. A `Scale` goes on
        beyond the end that was chosen, as long as that is better.
        """
        every = slice(0, self.lists.n_docs)
        some = slice(0, min(_FIRST, self.lists.n_docs))
        choice, previous, options = dict(choice), None, dict(options)
        (best,) = self._goodness([choice], every)

        def try_all(name: str, values: Sequence[float]) -> None:
            nonlocal best, choice
            candidates = [{**choice, name: value} for value in values if value != choice[name]]
            if some != every:
                gains = [_gain(found, best[some]) for found in self._goodness(candidates, some)]
                candidates = [
                    candidate
                    for candidate, (gain, error) in zip(candidates, gains, strict=True)
                    if gain > -_OUT * error
                ]
            most, leader = 0.0, None
            for candidate, found in zip(candidates, self._goodness(candidates, every), strict=True):
                gain, error = _gain(found, best)
                if gain > max(most, _SURE * error):
                    most, leader = gain, (candidate, found)
            if leader is not None:
                choice, best = leader

        while choice != previous:
            previous = choice
            for name in options:
                try_all(name, options[name])
                while (further := _beyond(options[name], choice[name])) is not None:
                    options[name] = Scale(sorted((*options[name], further)))
                    try_all(name, [further])
        return choice

    def likeliest(
        self, choice: Choice, name: str, values: Sequence[float], without: Choice
    ) -> dict[str, float]:
        """Of choices that are not worse for certain, the one whose probabilities fit best.

        What is right among the first few labels is a matter of chance where documents are few. The likelihood
        of all pairs is less so, but is not what users look at: so it decides only between equals.

        Parameters
        ----------
        without
            A choice that must not be better.
        """
        every = slice(0, self.lists.n_docs)
        candidates = [dict(choice), *({**choice, name: value} for value in values if value != choice[name])]
        (least,) = self._goodness([without], every)
        found = self._goodness(candidates, every)
        gains = [_gain(one, found[0]) for one in found]
        fair = [
            candidates[i]
            for i, (gain, error) in enumerate(gains)
            if gain >= -_SURE * error and (i == 0 or _gain(found[i], least)[0] > 0)
        ]
        losses = map_tasks(self._loss, fair, name="choose", n_threads=self.lists.n_threads)
        return fair[int(np.argmin(losses))]

    def _loss(self, choice: Choice) -> float:
        """Log loss of calibrated scores, over all pairs that the shortlists stand for."""
        lists = self.lists
        scores = self.scores(choice, slice(None))
        calibration = Calibration.fitted(scores, lists.hits, lists.weights)
        if calibration is None:
            return 0.0
        p = np.clip(calibration.apply(scores).astype(np.float64), 1e-9, 1 - 1e-9)
        return -float((lists.weights * np.log(np.where(lists.hits, p, 1 - p))).sum())

    def _goodness(self, choices: Sequence[Choice], rows: slice) -> list[Array]:
        return [goodness(measured) for measured in self._measured(choices, rows)]

    def _measured(self, choices: Sequence[Choice], rows: slice) -> list[Array]:
        lists = self.lists

        def of(choice: Choice) -> Array:
            return lists.by_document(self.scores(choice, lists.pairs_of(rows)), rows)

        return map_tasks(of, choices, name="choose", n_threads=lists.n_threads)


_FIRST = 1000
"""Documents on which a candidate may be found out to be worse."""
_OUT = 2.0
"""Standard errors by which it is worse then."""
_SURE = 1.0
"""Standard errors by which a choice is better; what is better by less may be so by chance."""


def _beyond(values: Sequence[float], chosen: float) -> float | None:
    return values.beyond(chosen) if isinstance(values, Scale) else None


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0


def _gain(found: Array, best: Array) -> tuple[float, float]:
    """Mean difference over documents, and its standard error."""
    difference = found - best
    difference = difference[~np.isnan(difference)]
    if len(difference) < 2:
        return 0.0, 0.0
    return float(difference.mean()), float(difference.std() / np.sqrt(len(difference)))
