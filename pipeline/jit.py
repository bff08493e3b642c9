"""How kernels are compiled, and where compiled code is kept from one process to the next.

It lies in the user's cache directory (`$XDG_CACHE_HOME/threepass` or `~/.cache/threepass` on Linux), or in
`NUMBA_CACHE_DIR` where that is set. Where nothing can be written, kernels are compiled in memory, and a
warning says so once; numba's own cache would refuse to import them.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
import sys
import threading
import uuid
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import platformdirs

from .warn import warn

_SEAL = hashlib.sha256().digest_size
_told = threading.Lock()
"""Taken by the first to warn, and never released."""


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A compiled kernel that runs without the interpreter's lock; the decorator of every kernel.

    Parameters
    ----------
    **options
        As `numba.njit` takes them, such as `fastmath`.
    """
    if function is None:
        return partial(jit, **options)
    kernel = numba.njit(nogil=True, **options)(function)
    kernel._cache = _KernelCache(function)
    return kernel


class _KernelCache:
    """Compiled forms of a kernel on disk, in a file for each signature; what numba asks of a cache.

    Files appear whole under their names, so processes may write the same one at a time. One that is damaged,
    or was made of other source code, counts as absent and is written anew. No failure here is a failure of
    the kernel.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._source = Path(function.__code__.co_filename).absolute()

    @property
    def cache_path(self) -> str:
        """The folder of the files."""
        from numba.core import config

        own = hashlib.sha256(str(self._source.parent).encode()).hexdigest()[:16]
        return str(Path(config.CACHE_DIR or _user_folder(), f"{self._source.parent.name}-{own}"))

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What was compiled for a signature; None where there is nothing to be used."""
        try:
            from numba.core.compiler import CompileResult

            context.refresh()
            data = self._path(signature, context.codegen()).read_bytes()
            if data[:_SEAL] != self._seal(data[_SEAL:]):
                return None
            return CompileResult._rebuild(context, *pickle.loads(data[_SEAL:]))
        except Exception:  # it is compiled
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for a signature, where that is possible."""
        try:
            from numba.core.serialize import dumps

            if compiled.library.has_dynamic_globals:
                return
            data = dumps(compiled._reduce())
            path = self._path(signature, compiled.codegen)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, self._seal(data) + data)
        except Exception as error:
            _tell(error)

    def flush(self) -> None:
        """Do nothing: what is compiled anew takes the place of old files."""

    def _path(self, signature: Any, codegen: Any) -> Path:
        versions = sys.implementation.cache_tag, numba.__version__, np.__version__
        key = hashlib.sha256(repr((signature, codegen.magic_tuple(), versions)).encode()).hexdigest()
        return Path(self.cache_path, f"{self._source.stem}.{self._function.__qualname__}-{key[:32]}.nbc")

    def _seal(self, data: bytes) -> bytes:
        """A checksum of compiled code together with the source and the constants that it was made of."""
        names = self._function.__globals__
        constants = sorted((name, value) for name, value in names.items() if isinstance(value, int | float))
        sources = _package_kernels() + self._source.read_bytes()
        return hashlib.sha256(b"".join([sources, repr(constants).encode(), data])).digest()


@cache
def _package_kernels() -> bytes:
    """A checksum of all kernels of the package: one may contain code of another."""
    paths = sorted(Path(__file__).parent.rglob("*kernels.py"))
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in paths)).digest()


def _user_folder() -> Path:
    folder = platformdirs.user_cache_path("threepass", appauthor=False)
    if not folder.is_absolute():
        raise OSError(f"{folder}: There is no home directory")
    return folder


def _write(path: Path, data: bytes) -> None:
    partial_path = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        partial_path.write_bytes(data)
        partial_path.replace(path)
    except BaseException:
        partial_path.unlink(missing_ok=True)
        raise


def _tell(error: Exception) -> None:
    """Warn once; workers leave it to the process that started them."""
    if multiprocessing.parent_process() is None and _told.acquire(blocking=False):
        warn(
            f"Compiled code cannot be kept, so that every process compiles anew. Found: {error}. "
            "Set NUMBA_CACHE_DIR to a directory that can be written."
        )
