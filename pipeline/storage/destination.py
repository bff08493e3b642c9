"""Whole or nothing: a directory appears under its final name only once it is complete.

Work happens in `DEST.partial`, beside the destination and on the same disk, and is renamed at the end.
An advisory lock inside it distinguishes a writer that is alive from one that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import StoreError

LOCK = ".lock"
"""Lock file of a directory that a process works in."""
_unfinished: set[Path] = set()
"""Partial files and folders of this process, abandoned ones included."""
_REMOVALS = 20
"""Attempts to remove a folder that a thread may still write into."""
_finished: list[Path] = []
"""File or folder that this process finished last."""


def partial_path(dest: Path) -> Path:
    """Path of the unfinished `dest`."""
    return dest.with_name(dest.name + ".partial")


@contextmanager
def new_directory(dest: Path, *, overwrite: bool, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield an empty directory that becomes `dest` when the block ends without an exception.

    Parameters
    ----------
    dest
        The final name.
    overwrite
        Replace an existing `dest`, once the new directory is complete.
    is_ours
        Whether this package wrote what is at a path; nothing else is ever replaced.

    Raises
    ------
    StoreError
        `dest` exists and may not be replaced, another process is writing it, or the disk refuses.
    """
    _refuse_existing(dest, overwrite, is_ours)
    partial = partial_path(dest)
    try:
        partial.mkdir(mode=0o700, exist_ok=True)
        lock = take_lock(partial)
    except OSError as error:
        raise _disk_error(dest, error) from error
    if lock is None:
        raise StoreError(
            f"{dest} is being written by another process. Its unfinished files are in {partial}. "
            "Wait for it to end, or choose another name."
        )
    try:
        _unfinished.add(partial)
        try:
            empty(partial)
            yield partial
            _publish(partial, dest, overwrite, is_ours)
            _note_finished(partial, dest)
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if isinstance(error, OSError):
                raise _disk_error(dest, error) from error
            raise
    finally:
        os.close(lock)


@contextmanager
def new_file(dest: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a path to write a single file at; it becomes `dest` when the block ends without an exception."""
    if dest.is_dir():
        raise StoreError(f"{dest} is a directory. Choose the name of a file.")
    _refuse_existing(dest, overwrite, Path.is_file)
    partial = dest.with_name(f".{dest.name}.{os.getpid()}.partial")
    _unfinished.add(partial)
    try:
        partial.unlink(missing_ok=True)
        # no other user may read it before it is complete
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield partial
        _refuse_existing(dest, overwrite, Path.is_file)
        partial.chmod(0o666 & ~_umask())
        partial.replace(dest)
        _note_finished(partial, dest)
    except OSError as error:
        raise _disk_error(dest, error) from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def temporary_folder(prefix: str = "threepass-", parent: Path | None = None) -> Iterator[Path]:
    """Yield a new directory, and remove it when the block ends."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _unfinished.add(folder)
        yield folder
        _unfinished.discard(folder)


def _note_finished(partial: Path, dest: Path) -> None:
    _unfinished.discard(partial)
    _finished[:] = [dest]


def last_finished() -> Path | None:
    """File or folder that this process finished last; None if it no longer exists."""
    return next((dest for dest in _finished if os.path.lexists(dest)), None)


def remove_unfinished() -> None:
    """Remove all unfinished files, for a process that exits without waiting for its threads."""
    for partial in list(_unfinished):
        for _ in range(_REMOVALS):  # a thread that still writes may make it again
            shutil.rmtree(partial, ignore_errors=True)
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            if not os.path.lexists(partial):
                break


def take_lock(folder: Path) -> int | None:
    """Lock a directory until the returned descriptor is closed; None where another process holds the lock.

    The system frees the lock of a process that is killed.

    Raises
    ------
    OSError
        The directory cannot be written, or its file system has no locks.
    """
    path = folder / LOCK
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    is_taken = False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # the last owner may have moved or removed the directory since the file was opened
        is_taken = os.path.samestat(path.stat(), os.fstat(lock))
    except (BlockingIOError, PermissionError, FileNotFoundError):  # a network file system may say EACCES
        pass
    finally:
        if not is_taken:
            os.close(lock)
    return lock if is_taken else None


def _refuse_existing(dest: Path, overwrite: bool, is_ours: Callable[[Path], bool]) -> None:
    if not os.path.lexists(dest):
        return
    if not overwrite:
        raise StoreError(f"{dest} exists already. Choose another name, or pass overwrite (--overwrite).")
    if not is_ours(dest):
        raise StoreError(
            f"{dest} exists and was not written by threepass, so it is not replaced. "
            "Choose another name, or remove it yourself."
        )


def empty(folder: Path) -> None:
    """Delete everything in a folder but its lock file."""
    for entry in folder.iterdir():
        if entry.name == LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _publish(partial: Path, dest: Path, overwrite: bool, is_ours: Callable[[Path], bool]) -> None:
    _refuse_existing(dest, overwrite, is_ours)  # it may have appeared while we worked
    (partial / LOCK).unlink()
    partial.chmod(0o777 & ~_umask())
    if not os.path.lexists(dest):
        partial.rename(dest)
        return
    old = dest.with_name(dest.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    dest.rename(old)
    partial.rename(dest)
    shutil.rmtree(old)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _disk_error(dest: Path, error: OSError) -> StoreError:
    short_write = error.errno is None  # numpy's way to say that the disk took only part of an array
    if short_write or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        free = shutil.disk_usage(dest.parent).free
        why = os.strerror(errno.ENOSPC) if short_write else error.strerror
        return StoreError(
            f"{dest} could not be written: {why}. {free / 1e9:.2f} GB are free beside it. "
            "Free some space, or choose another disk. Anything that was there before is unchanged."
        )
    if error.errno == errno.ENOENT and not dest.parent.is_dir():
        return StoreError(f"{dest} could not be written: there is no directory {dest.parent}. Make it first.")
    return StoreError(
        f"{dest} could not be written: {error.strerror or error}"
        f"{f' ({error.filename})' if error.filename else ''}. Check the path and its permissions."
    )
