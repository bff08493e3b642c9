"""Compilation of kernels, and a cache of compiled code on disk.

The cache is in the user's cache directory (`$XDG_CACHE_HOME/threepass` or `~/.cache/threepass` on Linux), or
in `NUMBA_CACHE_DIR` if that is set. If nothing can be written there, kernels are compiled in memory, and a
warning says so once. With numba's own cache, their import would fail.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import platformdirs

from .warn import warn

_SEAL = hashlib.sha256().digest_size
_warned = threading.Lock()
"""Acquired by the first warning and never released."""


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a kernel so that it runs without the GIL. Every kernel has this decorator.

    Parameters
    ----------
    **options
        Options of `numba.njit`, such as `fastmath`.
    """
    if function is None:
        return partial(jit, **options)
    kernel = numba.njit(nogil=True, **options)(function)
    kernel._cache = _KernelCache(function)
    # numba's extensions add types that no kernel takes; they are loaded still before one is compiled
    kernel._compilation_chain_init_hook = _no_extensions
    return kernel


@contextmanager
def telling_of_compilation(tell: Callable[[bool], None]) -> Iterator[None]:
    """Within, `tell(True)` is called when a kernel is compiled, and `tell(False)` when none is any more."""
    from numba.core import event

    lock, running = threading.Lock(), 0

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, _: Any) -> None:
            change(1)

        def on_end(self, _: Any) -> None:
            change(-1)

    def change(by: int) -> None:
        nonlocal running
        with lock:
            running += by
            tell(running > 0)

    with event.install_listener("numba:compile", Listener()):
        yield


def _no_extensions() -> None:
    """Import no extension, such as `sparse`, in a process that has nothing to compile."""


class _KernelCache:
    """Numba's cache interface for one kernel, with a file for each compiled signature.

    A file gets its name only when it is complete, so several processes may write the same one. A file that is
    damaged, or was compiled from other source code, counts as absent and is replaced. If the cache fails, the
    kernel still runs.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._source = Path(function.__code__.co_filename).absolute()

    @property
    def cache_path(self) -> str:
        """Folder of the cache files."""
        from numba.core import config

        own = hashlib.sha256(str(self._source.parent).encode()).hexdigest()[:16]
        return str(Path(config.CACHE_DIR or _user_folder(), f"{self._source.parent.name}-{own}"))

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Load the code compiled for a signature; None if there is none to use."""
        try:
            from numba.core.compiler import CompileResult
            from numba.core.runtime import rtsys

            # what compiled code calls; `context.refresh()` would load the compiler too, and scipy.linalg
            rtsys.initialize(context)
            data = self._path(signature, context.codegen()).read_bytes()
            if data[:_SEAL] != self._seal(data[_SEAL:]):
                return None
            return CompileResult._rebuild(context, *pickle.loads(data[_SEAL:]))
        except Exception:  # numba then compiles it
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Save the code compiled for a signature, if possible."""
        try:
            from numba.core.serialize import dumps

            if compiled.library.has_dynamic_globals:
                return
            data = dumps(compiled._reduce())
            path = self._path(signature, compiled.codegen)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, self._seal(data) + data)
        except Exception as error:
            _warn_once(error)

    def flush(self) -> None:
        """Do nothing: newly compiled code replaces old files."""

    def _path(self, signature: Any, codegen: Any) -> Path:
        versions = sys.implementation.cache_tag, numba.__version__, np.__version__
        key = hashlib.sha256(repr((signature, codegen.magic_tuple(), versions)).encode()).hexdigest()
        return Path(self.cache_path, f"{self._source.stem}.{self._function.__qualname__}-{key[:32]}.nbc")

    def _seal(self, data: bytes) -> bytes:
        """Checksum of compiled code, its source and the constants it uses."""
        names = self._function.__globals__
        constants = sorted((name, value) for name, value in names.items() if isinstance(value, int | float))
        sources = _package_kernels() + self._source.read_bytes()
        return hashlib.sha256(b"".join([sources, repr(constants).encode(), data])).digest()


@cache
def _package_kernels() -> bytes:
    """Checksum of all kernels of the package, because one may inline code of another."""
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


def _warn_once(error: Exception) -> None:
    """Warn once. Worker processes stay silent, because the process that started them warns."""
    if multiprocessing.parent_process() is None and _warned.acquire(blocking=False):
        warn(
            f"Compiled code cannot be kept, so every process compiles it again. Found: {error}. "
            "Set NUMBA_CACHE_DIR to a writable directory.",
        )
