"""A command imports what it needs, and help next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.command import threepass
from threepass.cli import options
from threepass.ingest.spool import BLOCK_BYTES
from threepass.ingest.synthetic import SHAPES
from threepass.passes.cluster.workers import DASHBOARD

HEAVY = {"numpy", "numba", "zarr", "dask", "distributed", "scipy", "sklearn", "sparse", "pyarrow", "pandas"}
HEAVY |= {"pooch", "cryptography", "jinja2", "pydantic"}
IMPORTED = """
import sys
sys.argv[0] = "threepass"
from threepass.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("words", ["--help", "--version", "fit --help", "ingest --help", "data fetch --help"])
def test_help__imports_nothing_heavy(words: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", IMPORTED, *words.split()], capture_output=True, text=True, check=True
    )
    assert "threepass" in run.stdout
    imported = {name.split(".")[0] for name in run.stderr.split()}
    assert {"threepass", "typer"} <= imported
    assert not imported & HEAVY


def test_usage__imports_nothing_heavy() -> None:
    command = [sys.executable, "-c", IMPORTED, "fit", "c.zarr"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert not {name.split(".")[0] for name in run.stderr.split()} & (HEAVY - {"pydantic"})


def test_help__names_what_the_library_has() -> None:
    """Values that the help shows, and that would take seconds to import."""
    assert options.block_bytes(options.DEFAULT_BLOCK) == BLOCK_BYTES
    for name in SHAPES:
        assert name in threepass("synth", "--help").stdout
    assert DASHBOARD in threepass("fit", "--help").stdout
