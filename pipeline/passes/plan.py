"""Plan of a fit before anything is read: bytes and work, and what is given up when that is too much.

The plan walks the fit's own list of stages without doing them (`stages.Stage.pretend`). To stay below a
limit, fewer tasks run at a time, which leaves the model as it is; then sketch and features get narrower; at
last sums lie in mapped files, which is slow. What changes the model depends on the corpus and the limit
alone, never on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from ..tasks import n_cpus
from .segments import ACCUMULATORS_BYTES
from .stages import Gatherer, Layout, Price, Stage
from .work import array_bytes

OVERSAMPLING = 100
PARTS_BYTES = 2_000_000_000
"""Bytes that the parts of the score may take, where users do not say."""
BASE_BYTES = 470_000_000
"""Interpreter, libraries and kernels, the first time with their compiler."""
SLOWER_THAN_LIMIT = 1.5
"""Empirical ratio of actual to modelled time."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The stages of a fit that has not begun, and all that holds what they hand on."""

    stages: Sequence[Stage]
    holders: Sequence[Gatherer]
    """Holders of arrays from one stage to the next."""
    details: Mapping[str, Any]
    """Numbers that a plan tells."""

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return array_bytes([part for holder in self.holders for part in holder.held()])


@dataclass(frozen=True, slots=True)
class Plan:
    """Layout and prices of a fit."""

    prices: tuple[Price, ...]
    """Of each stage, in their order."""
    layout: Layout
    details: Mapping[str, Any]
    """Numbers of the fit that depend on the layout, by the names that statistics have for them."""

    @property
    def peak(self) -> int:
        """Bytes of a process that does nothing else, at the worst moment."""
        return BASE_BYTES + max(price.nbytes for price in self.prices)

    def as_dict(self) -> dict[str, Any]:
        layout = self.layout
        rows = [{**price.as_dict(), "bytes": BASE_BYTES + price.nbytes} for price in self.prices]
        return {
            "peak_bytes": self.peak,
            "memory_limit": layout.memory_limit,
            "tasks_at_a_time": layout.at_a_time,
            "oversampling": layout.oversampling,
            "spill": layout.spill,
            **self.details,
            "stages": rows,
        }


def make_plan(
    planned: Callable[[Layout], Planned], memory_limit: int | None = None, n_threads: int | None = None
) -> Plan:
    """The most that fits into the limit; with no limit, what is best for corpora of any size.

    Parameters
    ----------
    planned
        Builds the stages of a fit that is run in a given way.

    Raises
    ------
    InputError
        Nothing fits: says what the least would take.
    """
    most = n_threads or n_cpus()
    smallest: Plan | None = None
    for level in _levels(memory_limit):
        # whether a level fits is asked for one task, so that the answer does not depend on the threads
        smallest = priced(planned(level), level)
        if memory_limit is None or smallest.peak <= memory_limit:
            layouts = [replace(level, at_a_time=n) for n in range(1 if level.spill else most, 0, -1)]
            plans = (priced(planned(layout), layout) for layout in layouts)
            return next(plan for plan in plans if memory_limit is None or plan.peak <= memory_limit)
    assert smallest is not None
    assert memory_limit is not None
    worst = max(smallest.prices, key=lambda price: price.nbytes)
    raise InputError(
        f"The fit does not fit into memory_limit={gigabytes(memory_limit)}. Found that even with one task "
        f"at a time, the narrowest sketch, the fewest features and sums on disk the stage '{worst.name}' "
        f"takes {gigabytes(smallest.peak)}, {gigabytes(BASE_BYTES)} of it before anything is read. "
        f"Raise memory_limit to {gigabytes(1.04 * smallest.peak)}, ask for fewer topics (n_components), "
        "or leave out rare words when the corpus is ingested."
    )


def priced(planned: Planned, layout: Layout) -> Plan:
    """The plan of a fit that is run in this way."""
    prices = []
    for stage in planned.stages:
        price = stage.price(layout, planned.held)
        stage.pretend(layout)
        more = max(0, planned.held - price.nbytes)  # what is left may be more than what it took
        prices.append(replace(price, held=price.held + more))
    return Plan(tuple(prices), layout, planned.details)


def _levels(memory_limit: int | None) -> Iterator[Layout]:
    if memory_limit is None:
        yield Layout(1, OVERSAMPLING, PARTS_BYTES, ACCUMULATORS_BYTES)
        return
    for spill in (False, True):
        for oversampling, share in ((100, 2), (100, 4), (50, 4), (50, 8), (20, 16), (20, 64)):
            # a single segment needs no second accumulator to be merged into
            for accumulators_bytes in (0,) if spill else (ACCUMULATORS_BYTES, 0):
                parts_bytes = max(0, memory_limit - BASE_BYTES) // share
                yield Layout(1, oversampling, parts_bytes, accumulators_bytes, spill, memory_limit)


def gigabytes(nbytes: float) -> str:
    return f"{nbytes / 1e9:.2f}GB"
