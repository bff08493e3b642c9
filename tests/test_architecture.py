"""The house has an order: imports only ever point up it, and kernels know nothing of Dask."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import threepass
from threepass.cli.app import app

ROOT = Path(__file__).parent.parent / "pipeline"
# Data flows down this list; a module may import only from its own room and from rooms above it.
ROOMS = [
    "types",
    "errors",
    "warn",
    "progress",
    "display",
    "jit",
    "storage",
    "tasks",
    "text",
    "corpus",
    "ingest",
    "linalg",
    "passes",
    "moments",
    "metrics",
    "parts",
    "model",
    "report",
    "cli",
]
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def imports(path: Path) -> set[str]:
    """Names of all modules that a file imports, its own package's as `threepass.ROOM.MODULE`."""
    names: set[str] = set()
    folder = ["threepass", *path.relative_to(ROOT).parts[:-1]] if path.is_relative_to(ROOT) else []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names


def rooms_imported(path: Path) -> set[str]:
    parts = [name.split(".") for name in imports(path)]
    return {part[1] for part in parts if part[0] == "threepass" and len(part) > 1} & set(ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports__point_up_the_house(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert own in ROOMS, f"{own} has no place in the house yet"
    for room in rooms_imported(path):
        assert ROOMS.index(room) <= ROOMS.index(own), f"{path.name} imports {room}, which lies below it"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports__are_relative(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert (node.module or "").split(".")[0] not in ("threepass", "pipeline")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports__for_one_command_are_made_where_they_are_used(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        roots = {name.split(".")[0] for name in names}
        assert not roots & {"cryptography", "jinja2", "markupsafe", "requests", "urllib3"}


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.stem.endswith("kernels")], ids=lambda p: p.stem
)
def test_kernels__import_no_dask_and_no_files(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & {"dask", "distributed", "zarr", "pathlib"}


Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, Function]]:
    """All functions of a module, and those within them, with their `__qualname__`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            name = within + getattr(child, "name", "<lambda>")
            yield name, child
            yield from functions(child, f"{name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{within}{child.name}.")
        else:
            yield from functions(child, within)


def too_long(tree: ast.Module, public: set[str], commands: set[str]) -> list[str]:
    """Functions with more than six parameters.

    Keyword-only parameters of `public` functions, and of public classes' methods, do not count: a user writes
    the few that matter. `commands` have a parameter for each option of the command line.
    """
    found = []
    for name, function in functions(tree):
        head, _, method = name.partition(".")
        is_hidden = "<" in method or (method.startswith("_") and method != "__init__")
        is_public = head in public and not is_hidden
        given = function.args
        counted = [*given.posonlyargs, *given.args, given.vararg]
        if not is_public:
            counted += [*given.kwonlyargs, given.kwarg]
        n = sum(parameter is not None and parameter.arg not in ("self", "cls") for parameter in counted)
        if n > 6 and name not in commands:
            found.append(name)
    return found


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT.parent))
)
def test_functions__have_six_parameters_at_most(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    public = {name for name, home in threepass._HOMES.items() if home == module}
    callbacks = [
        command.callback
        for commands in (app, *(group.typer_instance for group in app.registered_groups))
        for command in commands.registered_commands
    ]
    commands = {
        function.__name__ for function in callbacks if function.__module__ == f"{threepass.__name__}.{module}"
    }
    assert not too_long(ast.parse(path.read_text()), public, commands), (
        "pass a dataclass, or to a kernel a tuple or a NamedTuple"
    )


SIX = "a, b, c, d, e, f"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (f"def f({SIX}): ...", []),
        (f"def f({SIX}, g): ...", ["f"]),
        (f"def f(z, /, {SIX}): ...", ["f"]),
        (f"def f({SIX}, *args): ...", ["f"]),
        (f"def f({SIX}, **options): ...", ["f"]),
        ("def f(a, *, b, c, d, e, f, g): ...", ["f"]),
        (f"async def f({SIX}, g): ...", ["f"]),
        (f"f = lambda {SIX}, g: 0", ["<lambda>"]),
        (f"def f():\n def public({SIX}, *, g): ...", ["f.<locals>.public"]),
        (f"def public():\n def f({SIX}, *, g): ...", ["public.<locals>.f"]),
        (f"if True:\n def f({SIX}, g): ...", ["f"]),
        (f"class C:\n def f(self, {SIX}): ...\n def g(self, {SIX}, g): ...", ["C.g"]),
        (f"def public({SIX}, *, g, h, **options): ...", []),
        (f"def public({SIX}, g): ...", ["public"]),
        (f"class Public:\n def __init__(self, {SIX}, *, g): ...\n def f(self, {SIX}, *, g): ...", []),
        (f"class Public:\n def __init__(self, {SIX}, g): ...", ["Public.__init__"]),
        (f"class Public:\n def _f(self, {SIX}, *, g): ...", ["Public._f"]),
        (f"def command({SIX}, g): ...", []),
        (f"def other({SIX}, g): ...", ["other"]),
    ],
)
def test_too_long__finds_functions_with_seven(source: str, found: list[str]) -> None:
    assert too_long(ast.parse(source), {"public", "Public"}, {"command"}) == found


def test_dask__is_scheduled_in_one_place() -> None:
    for path in MODULES:
        if path != ROOT / "tasks.py":
            assert ".compute(" not in path.read_text(), (
                f"{path.name} computes; hand the work to threepass.tasks"
            )


def test_kernels__are_compiled_in_one_place() -> None:
    for path in [*MODULES, *(ROOT.parent / "benchmarks").rglob("*.py")]:
        if path.stem != "jit":
            assert "numba" not in imports(path), (
                f"{path.name} compiles; decorate kernels with threepass.jit.jit"
            )


def test_packages__are_all_installed() -> None:
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent for path in ROOT.rglob("*.py")} | {ROOT / "data_manifests"}
    names = {".".join(["threepass", *folder.relative_to(ROOT).parts]) for folder in folders}
    assert set(settings["packages"]) == names


def test_public_names__are_all_loaded_on_demand() -> None:
    (checked,) = [
        node
        for node in ast.parse((ROOT / "__init__.py").read_text()).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    homes = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == threepass._HOMES
    assert sorted(homes) == sorted(threepass.__all__)
    for name in threepass.__all__:
        assert getattr(threepass, name) is not None
    assert set(threepass.__all__) <= set(dir(threepass))
