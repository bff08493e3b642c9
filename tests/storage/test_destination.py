from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from threepass import Corpus, StoreError, ingest_matrices
from threepass.storage.destination import (
    last_finished,
    new_directory,
    new_file,
    partial_path,
    remove_unfinished,
    take_lock,
    temporary_folder,
)

ONE = (np.eye(2), np.eye(2))


def test_overwrite__only_when_asked_and_only_ours(tmp_path: Path) -> None:
    ingest_matrices(*ONE, tmp_path / "d")
    with pytest.raises(StoreError, match="exists already"):
        ingest_matrices(*ONE, tmp_path / "d")
    assert ingest_matrices(np.eye(3), np.eye(3), tmp_path / "d", overwrite=True).n_docs == 3
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/photo").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("precious", "file"):
        with pytest.raises(StoreError, match="not written by threepass"):
            ingest_matrices(*ONE, tmp_path / name, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "file", "precious"]


def test_overwrite__the_old_one_stays_when_the_new_one_fails(tmp_path: Path) -> None:
    ingest_matrices(*ONE, tmp_path / "d")
    with pytest.raises(ValueError, match="negative"):
        ingest_matrices(-np.eye(3), np.eye(3), tmp_path / "d", overwrite=True)
    assert Corpus.open(tmp_path / "d").n_docs == 2
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_new_directory__a_second_writer_is_refused(tmp_path: Path) -> None:
    dest = tmp_path / "d"
    with new_directory(dest, overwrite=False, is_ours=lambda _: False) as partial:
        (partial / "content").write_text("first")
        with pytest.raises(StoreError, match="another process"):  # noqa: SIM117
            with new_directory(dest, overwrite=False, is_ours=lambda _: False):
                pass
    assert (dest / "content").read_text() == "first"
    assert not partial_path(dest).exists()


def test_new_directory__what_a_killed_writer_left_is_replaced(tmp_path: Path) -> None:
    left = partial_path(tmp_path / "d")
    (left / "X").mkdir(parents=True)
    (left / ".lock").touch()
    (left / "rubbish").write_text("x")
    ingest_matrices(*ONE, tmp_path / "d")
    assert Corpus.open(tmp_path / "d").n_docs == 2
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
    assert not (tmp_path / "d/rubbish").exists()


def test_new_directory__appeared_while_working(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="exists already"):  # noqa: SIM117
        with new_directory(tmp_path / "d", overwrite=False, is_ours=lambda _: False):
            (tmp_path / "d").mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_new_directory__no_such_place(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no directory .*nowhere"):
        ingest_matrices(*ONE, tmp_path / "nowhere/d")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_new_directory__no_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="permissions"):
        ingest_matrices(*ONE, tmp_path / "d")


def test_new_directory__a_file_that_may_not_grow_is_a_full_disk(tmp_path: Path) -> None:
    """A real failed write: the process may not write files of more than 1,000 bytes."""
    program = (
        "import resource, sys, numpy as np\n"
        "from threepass import ingest_matrices, StoreError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "X = np.random.default_rng(0).random((50, 50))\n"
        "try:\n"
        "    ingest_matrices(X, X, sys.argv[1])\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "d")], capture_output=True, text=True, check=True
    )
    assert "could not be written" in run.stdout
    assert "Free some space" in run.stdout
    assert not list(tmp_path.iterdir())


def test_unfinished__is_removed_though_it_was_written_again(tmp_path: Path) -> None:
    dest, file = tmp_path / "dest", tmp_path / "file"
    with pytest.raises(KeyboardInterrupt), new_directory(dest, overwrite=False, is_ours=lambda _: True):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), new_file(file, overwrite=False) as partial:
        raise KeyboardInterrupt
    partial.touch()
    with pytest.raises(KeyboardInterrupt), temporary_folder(parent=tmp_path) as folder:
        raise KeyboardInterrupt
    folder.mkdir()
    (partial_path(dest) / "part").mkdir(parents=True)  # as a task does that was not told in time
    remove_unfinished()
    assert list(tmp_path.iterdir()) == []


def test_finished__stays_and_is_told(tmp_path: Path) -> None:
    with new_file(tmp_path / "file", overwrite=False) as partial:
        partial.write_text("whole")
    assert last_finished() == tmp_path / "file"
    remove_unfinished()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    (tmp_path / "file").unlink()
    assert last_finished() is None


def test_lock__is_freed_when_its_process_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from threepass.storage.destination import take_lock\n"
        "lock = take_lock(Path(sys.argv[1])); print(lock, flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() != b"None\n"
        assert take_lock(tmp_path) is None
        holder.kill()
    lock = take_lock(tmp_path)
    assert lock is not None
    os.close(lock)


@pytest.mark.parametrize("change", [shutil.rmtree, lambda folder: folder.rename(folder.parent / "moved")])
def test_lock__directory_that_its_last_owner_moved_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    (tmp_path / "d").mkdir()
    flock = fcntl.flock

    def late(lock: int, operation: int) -> None:
        change(tmp_path / "d")
        flock(lock, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert take_lock(tmp_path / "d") is None


def test_lock__file_system_without_locks__is_not_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match="could not be written: No locks available"):
        ingest_matrices(*ONE, tmp_path / "d")


def test_lock__file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        take_lock(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
