"""Names for types that every room uses."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
CSR = tuple[Array, Array, Array]
"""Row starts, column ids and values of a sparse matrix; see `SparseRows`."""
