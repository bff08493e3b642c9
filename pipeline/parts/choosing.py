"""Choices made on held-out documents: options of the parts, the calibration, and a threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..corpus.rows import SparseRows
from ..types import Array
from .calibration import FEWEST_HITS, Calibration
from .part import Choice, Part, Scale, Words
from .selection import Shortlists, best_threshold, objective

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

    def scores(self, parts: Sequence[Part], choice: Choice) -> Array:
        """(pairs,) float32: the blend that a choice gives."""
        total, *others = (part.pair_scores(self.at[part.name], own(choice, part)) for part in parts)
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
            values = _values(tried, [part])
            # a part alone: its weight among others makes no difference to its own ranking
            choice, measured = _best_of_all(choice, options, values)
            stats[f"held_out_{part.name}"] = measured
    options = {name: some for part in parts for name, some in _named(part, part.options()).items()}
    if options:
        weights_first = dict(sorted(options.items(), key=lambda option: not option[0].endswith(".weight")))
        choice = climb(choice, weights_first, _values(tried, parts))
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


Measures = dict[str, float]
Options = Mapping[str, Sequence[float]]


def _named(part: Part, options: Options) -> dict[str, Sequence[float]]:
    return {f"{part.name}.{name}": values for name, values in options.items()}


def _values(tried: Tried, parts: Sequence[Part]) -> Callable[[Sequence[Choice]], list[Measures]]:
    def of(choices: Sequence[Choice]) -> list[Measures]:
        return tried.lists.measures_of([partial(tried.scores, parts, choice) for choice in choices])

    return of


def _best_of_all(
    choice: dict[str, float], options: Options, values: Callable[[Sequence[Choice]], list[Measures]]
) -> tuple[dict[str, float], Measures]:
    """The best of all combinations, the first of equal ones."""
    choices = [choice]
    for name, some in options.items():
        choices = [{**known, name: value} for known in choices for value in some]
    measured = values(choices)
    best = max(range(len(choices)), key=lambda i: objective(measured[i]))
    return choices[best], measured[best]


def climb(
    choice: dict[str, float], options: Options, values: Callable[[Sequence[Choice]], list[Measures]]
) -> dict[str, float]:
    """The best choice that changing one option at a time leads to, until nothing gets better.

    A `Scale` goes on beyond the end that was chosen, as long as that is better.
    """
    (found,) = values([choice])
    best, previous = objective(found), None
    options = dict(options)

    def best_of(name: str, some: Sequence[float]) -> None:
        nonlocal best, choice
        candidates = [{**choice, name: value} for value in some if value != choice[name]]
        for candidate, measured in zip(candidates, values(candidates), strict=True):
            if objective(measured) > best:
                best, choice = objective(measured), candidate

    while choice != previous:
        previous = choice
        for name in options:
            some = options[name]
            best_of(name, some)
            while isinstance(some, Scale) and (further := some.beyond(choice[name])) is not None:
                options[name] = some = Scale(sorted((*some, further)))
                best_of(name, [further])
    return choice
