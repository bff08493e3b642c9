"""What the estimator's parameters may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from dask.utils import parse_bytes

from ..errors import InputError
from ..parts.weighting import SCHEMES
from ..tasks import n_cpus

if TYPE_CHECKING:
    from .labeler import MomentLabeler

CHOICES: dict[str, tuple[str, ...]] = {
    "head": ("auto", "posterior", "refined", "ridge", "blend"),
    "weighting": SCHEMES,
    "whitening": ("auto", "exact", "sketch"),
    "tensor": ("orthogonal", "power"),
    "self_pairs": ("keep", "drop"),
    "words": ("binary", "counts"),
    "prior": ("eigenvalues", "uniform"),
}


def check_parameters(model: MomentLabeler) -> None:
    """Refuse what cannot be, with what can."""
    for name, choices in CHOICES.items():
        if getattr(model, name) not in choices:
            raise InputError(
                f"{name} is not known. Found {getattr(model, name)!r}. Choose one of: {', '.join(choices)}."
            )
    if not isinstance(model.n_components, int | np.integer) or model.n_components < 1:
        raise InputError(f"n_components is a number of topics. Found {model.n_components!r}. Pass 1 or more.")
    if model.smoothing is not None and not (_is_real(model.smoothing) and 0 < model.smoothing < 1):
        raise InputError(
            f"smoothing lies between 0 and 1. Found {model.smoothing!r}. Leave it out to have it chosen."
        )
    if model.head_dim is not None and not (
        isinstance(model.head_dim, int | np.integer) and model.head_dim >= 1
    ):
        raise InputError(
            f"head_dim is a number of features. Found {model.head_dim!r}. Leave it out to have it chosen."
        )
    if not isinstance(model.refine_passes, int | np.integer) or model.refine_passes < 0:
        raise InputError(
            f"refine_passes is a number of reads. Found {model.refine_passes!r}. Pass 0 or more."
        )
    if model.refine_passes and model.head in ("posterior", "ridge"):
        raise InputError(
            f"refine_passes refines topics, which head={model.head!r} does not use. "
            f"Found refine_passes={model.refine_passes}. Choose head='refined' or head='blend'."
        )
    if not (_is_real(model.tail_weight) and 0 <= model.tail_weight <= 1):
        raise InputError(
            f"tail_weight lies between 0 and 1. Found {model.tail_weight!r}. Leave it out for 0."
        )
    try:
        enough = model.memory_limit is None or parse_bytes(model.memory_limit) > 0
    except (ValueError, AttributeError, TypeError):
        enough = False
    if not enough:
        raise InputError(f"memory_limit is not a size. Found {model.memory_limit!r}. Write it as in '4GB'.")
    if model.n_jobs is not None and not (_is_whole(model.n_jobs) and model.n_jobs != 0):
        raise InputError(
            f"n_jobs is a number of threads, or -1 for all. Found {model.n_jobs!r}. Leave it out for all."
        )
    _check_random_state(model.random_state)


def _check_random_state(state: Any) -> None:
    drawn_from = np.random.Generator | np.random.RandomState
    if state is not None and not isinstance(state, drawn_from) and not (_is_whole(state) and state >= 0):
        raise InputError(
            f"random_state is a seed. Found {state!r}. Pass 0 or more, None, or numpy's generators."
        )


def threads_of(n_jobs: int | None) -> int | None:
    """Number of threads; None for every processor. Below 0 counts from all of them down, as in joblib."""
    if n_jobs is None or n_jobs == -1:
        return None
    return int(n_jobs) if n_jobs > 0 else max(1, n_cpus() + 1 + int(n_jobs))


def _is_whole(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _is_real(x: Any) -> bool:
    return isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool)
