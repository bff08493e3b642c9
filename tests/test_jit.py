"""Compiled kernels are kept where users keep caches, and work where nothing can be kept."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from numba.core import config

from threepass import jit

ROOT = Path(jit.__file__).parent
SOURCE = """
from threepass.jit import jit
STEP = {step}

@jit
def inner(x):
    return x + {constant}

@jit(fastmath={{"reassoc", "contract"}})
def outer(x):
    return inner(x) * STEP
"""


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, which does not exist yet; nobody has been warned."""
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(jit, "_warned", threading.Lock())
    return tmp_path / "caches"


def kernels(folder: Path, constant: int = 1, step: str = "2") -> ModuleType:
    """A module with two kernels, as a new process would import it."""
    path = folder / "own_kernels.py"
    path.write_text(SOURCE.format(constant=constant, step=step))
    spec = importlib.util.spec_from_file_location("own_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(path.read_text(), path, "exec"), module.__dict__)  # no bytecode of earlier text
    return module


def n_compiled(module: ModuleType) -> int:
    return sum(kernel.stats.cache_misses.total() for kernel in (module.inner, module.outer))


def files(caches: Path) -> list[Path]:
    return sorted(path for path in caches.rglob("*") if path.is_file())


def test_jit__keeps_compiled_code_in_the_users_cache(tmp_path: Path, caches: Path) -> None:
    first = kernels(tmp_path)
    assert not caches.exists()
    assert first.outer(3) == 8
    kept = files(caches / "threepass")
    assert len(kept) == n_compiled(first) == 2
    second = kernels(tmp_path)
    assert second.outer(3) == 8
    assert n_compiled(second) == 0
    assert second.outer(0.5) == 3  # another type
    assert len(files(caches)) == 4
    assert [path.name for path in tmp_path.iterdir() if path != caches] == ["own_kernels.py"]


def test_jit__numbas_own_setting_comes_first(
    tmp_path: Path, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "numba"))
    assert kernels(tmp_path).outer(3) == 8
    assert len(files(tmp_path / "numba")) == 2
    assert not caches.exists()


def test_jit__compiles_anew_what_has_changed(tmp_path: Path, caches: Path) -> None:
    assert kernels(tmp_path).outer(3) == 8
    assert kernels(tmp_path, constant=2).outer(3) == 10
    assert kernels(tmp_path, constant=2, step="int('5')").outer(3) == 25
    assert len(files(caches)) == 2


def test_jit__constants_of_other_modules_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = "__import__('os').STEP"
    monkeypatch.setattr(os, "STEP", 2, raising=False)
    assert kernels(tmp_path, step=step).outer(3) == 8
    monkeypatch.setattr(os, "STEP", 3)
    assert kernels(tmp_path, step=step).outer(3) == 12


@pytest.mark.parametrize("damage", ["empty", "half", "bit", "other", "folder"])
def test_jit__damaged_files_are_written_anew(tmp_path: Path, caches: Path, damage: str) -> None:
    assert kernels(tmp_path).outer(3) == 8
    whole = {path: path.read_bytes() for path in files(caches)}
    for path, data in whole.items():
        if damage == "folder":
            path.unlink()
            continue
        middle = len(data) // 2
        others = [other for of, other in whole.items() if of != path]
        path.write_bytes(
            {
                "empty": b"",
                "half": data[:middle],
                "bit": data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :],
                "other": others[0][:40] + data[40:],
            }[damage]
        )
    if damage == "folder":
        shutil.rmtree(caches)
    again = kernels(tmp_path)
    assert again.outer(3) == 8
    assert n_compiled(again) == 2
    last = kernels(tmp_path)
    assert last.outer(3) == 8
    assert n_compiled(last) == 0


@pytest.mark.parametrize("obstacle", ["file", "no home"])
def test_jit__compiles_in_memory_where_nothing_can_be_written(
    tmp_path: Path, caches: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if obstacle == "file":
        caches.touch()
    else:  # a container's user without a name
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
    module = kernels(tmp_path)
    with pytest.warns(UserWarning, match=r"cannot be kept.*NUMBA_CACHE_DIR") as told:
        assert module.outer(3) == 8
    assert len(told) == 1
    assert "\n" not in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert module.outer(0.5) == 3
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_jit__first_calls_of_many_threads(tmp_path: Path, caches: Path) -> None:
    modules = [kernels(tmp_path), kernels(tmp_path)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: modules[i % 2].outer(i), range(16)))
    assert results == [2 * (i + 1) for i in range(16)]
    assert len(files(caches)) == 2
    last = kernels(tmp_path)
    assert last.outer(3) == 8
    assert n_compiled(last) == 0


def test_jit__kept_code_runs_without_what_compiles_it(tmp_path: Path) -> None:
    """All kernels between a text and its row; arrays and tuples of them go in and out."""
    code = (
        "import sys; from threepass import Tokenizer; from threepass.corpus.encode import encode; "
        "from threepass.text.terms import TermTable; from threepass.text.words import WordFinder, as_texts; "
        "found = WordFinder(Tokenizer()).find([as_texts(['Rain in Spain'])]); "
        "rows = encode(found, TermTable.of_names(['rain', 'spain']), Tokenizer(), 2); "
        "print(rows.indices.tolist(), 'numba.np.arraymath' in sys.modules)"
    )

    def run() -> str:
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout

    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    assert run() == "[0, 1] True\n"
    assert run() == "[0, 1] False\n"


def test_package__installed_and_home_read_only(tmp_path: Path) -> None:
    """Files stand where folders would have to be made, which stops a superuser too."""
    copy, nowhere = tmp_path / "installed" / "threepass", tmp_path / "nowhere"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    nowhere.touch()
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    code = (
        "import numpy as np, threepass; from threepass.corpus.rows import SparseRows; "
        "rows = SparseRows(np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32), 1); "
        "print(threepass.__file__, rows.flaw(), rows.take(np.array([0])).n_rows)"
    )
    where = {"HOME": str(nowhere), "XDG_CACHE_HOME": str(nowhere), "PYTHONPATH": str(copy.parent)}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **where},
        cwd=copy.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.split() == [str(copy / "__init__.py"), "None", "1"], run.stderr
    assert run.stderr.count("Compiled code cannot be kept") == 1
