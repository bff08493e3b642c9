"""The one way to warn: at the line of the user's own code that led here."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_OWN = {
    __name__.partition(".")[0],
    *("concurrent", "contextlib", "dask", "joblib", "numba", "sklearn", "threading"),
}
"""This package, and what calls it on behalf of users."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside of this package that is on the way here.

    Where there is none, as in a task's own thread, the line that calls this is named.
    """
    level, frame = 1, sys._getframe(1)
    here: FrameType | None = frame
    while here is not None and _is_own(here):
        here, level = here.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1 if here is not None else 2)


def _is_own(frame: FrameType) -> bool:
    """Whether the frame is of this package, or of what it is called through."""
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in _OWN
