"""The house has an order: imports only ever point up it, and kernels know nothing of Dask."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "pipeline"
# Data flows down this list; a module may import only from its own room and from rooms above it.
ROOMS = [
    "_startup",
    "errors",
    "stages",
    "display",
    "jit",
    "_dask_compat",
    "destination",
    "tasks",
    "cluster_tasks",
    "corpus",
    "text",
    "ingest",
    "passes",
    "decompose",
    "metrics_kernels",
    "metrics",
    "model",
    "predict",
    "predict_text",
    "verify",
    "report",
    "demo",
    "progress",
    "cluster",
    "cli_interrupt",
    "cli_options",
    "cli_data",
    "cli_fit",
    "cli_report",
    "cli_demo",
    "cli_ingest",
    "cli_predict",
    "cli",
]
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def room(name: str) -> str:
    return name.split(".")[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports__point_up_the_house(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert own in ROOMS, f"{own} has no place in the house yet"
    for name in imports(path):
        if (
            name.startswith("pipeline.")
            and (ROOT / room(name)).exists() | (ROOT / f"{room(name)}.py").exists()
        ):
            assert ROOMS.index(room(name)) <= ROOMS.index(own), (
                f"{path.name} imports {name}, which lies below it"
            )


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.stem.endswith("kernels")], ids=lambda p: p.stem
)
def test_kernels__import_no_dask_and_no_files(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & {"dask", "distributed", "zarr", "pathlib"}


def test_dask__is_scheduled_in_one_place() -> None:
    for path in MODULES:
        if path.stem != "tasks":
            assert ".compute(" not in path.read_text(), (
                f"{path.name} computes; hand the work to pipeline.tasks"
            )


def test_kernels__are_compiled_in_one_place() -> None:
    for path in [*MODULES, *(ROOT.parent / "benchmarks").rglob("*.py")]:
        if path.stem != "jit":
            assert "numba" not in imports(path), (
                f"{path.name} compiles; decorate kernels with pipeline.jit.jit"
            )
