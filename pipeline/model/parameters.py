"""Checks of the estimator's parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import InputError
from ..parts.heads import HEADS
from ..parts.weighting import SCHEMES
from ..tasks import n_cpus

CHOICES: dict[str, tuple[str, ...]] = {
    "weighting": SCHEMES,
    "whitening": ("auto", "exact", "sketch"),
    "tensor": ("orthogonal", "power"),
    "self_pairs": ("keep", "drop"),
    "words": ("binary", "counts"),
    "prior": ("eigenvalues", "uniform"),
}


_MOST_THREADS = 4096
"""More are a mistake, or a forged model."""
NAMES = (
    "head",
    *CHOICES,
    *("n_components", "head_dim", "refine_passes", "tail_weight", "smoothing", "error_bars"),
    *("memory_limit", "n_jobs", "random_state"),
)


def check_parameters(given: Mapping[str, Any]) -> None:
    """Refuse what cannot be, with what can.

    Raises
    ------
    KeyError
        A parameter is missing.
    """
    for name, choices in {"head": ("auto", *HEADS), **CHOICES}.items():
        if given[name] not in choices:
            raise InputError(
                f"{name} is not known. Found {given[name]!r}. Choose one of: {', '.join(choices)}."
            )
    for name, ok, what, otherwise in _RULES:
        if not ok(given[name]):
            raise InputError(f"{name} {what}. Found {given[name]!r}. {otherwise}.")
    if given["refine_passes"] and given["head"] != "auto" and not HEADS[given["head"]].refines:
        others = " or ".join(f"head='{name}'" for name, head in HEADS.items() if head.refines)
        raise InputError(
            f"refine_passes refines topics, which head={given['head']!r} does not use. "
            f"Found refine_passes={given['refine_passes']}. Choose {others}."
        )


def bytes_of(limit: str | int) -> int:
    """A size as users write it, such as "4GB"."""
    from dask.utils import parse_bytes

    return int(parse_bytes(limit))


def threads_of(n_jobs: int | None) -> int | None:
    """Number of threads; None for every processor. Below 0 counts from all of them down, as in joblib."""
    if n_jobs is None or n_jobs == -1:
        return None
    return int(n_jobs) if n_jobs > 0 else max(1, n_cpus() + 1 + int(n_jobs))


def _is_whole(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _is_real(x: Any) -> bool:
    return isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool)


def _is_size(x: Any) -> bool:
    try:
        return x is None or bytes_of(x) > 0
    except (ValueError, AttributeError, TypeError):
        return False


def _is_random_state(x: Any) -> bool:
    known = x is None or isinstance(x, np.random.Generator | np.random.RandomState)
    return known or (_is_whole(x) and x >= 0)


_RULES: tuple[tuple[str, Callable[[Any], bool], str, str], ...] = (
    ("n_components", lambda x: _is_whole(x) and x >= 1, "is a number of topics", "Pass 1 or more"),
    (
        "smoothing",
        lambda x: x is None or (_is_real(x) and 0 < x < 1),
        "lies between 0 and 1",
        "Leave it out to have it chosen",
    ),
    (
        "head_dim",
        lambda x: x is None or (_is_whole(x) and x >= 1),
        "is a number of features",
        "Leave it out to have it chosen",
    ),
    ("refine_passes", lambda x: _is_whole(x) and x >= 0, "is a number of reads", "Pass 0 or more"),
    ("tail_weight", lambda x: _is_real(x) and 0 <= x <= 1, "lies between 0 and 1", "Leave it out for 0"),
    ("memory_limit", _is_size, "is not a size", "Write it as in '4GB'"),
    (
        "n_jobs",
        lambda x: x is None or (_is_whole(x) and x != 0 and x <= _MOST_THREADS),
        "is a number of threads, or -1 for all",
        "Leave it out for all",
    ),
    ("random_state", _is_random_state, "is a seed", "Pass 0 or more, None, or numpy's generators"),
)
"""Parameters with what they have to be; the rule in words, and what to do."""
