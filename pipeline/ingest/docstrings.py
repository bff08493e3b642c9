"""A corpus that every machine has: the docstrings of its installed Python libraries.

A document is the docstring of a public object. Its labels are the object's package and modules, its kind
(class, function, method, ...) and the parameters that its docstring describes. Sources are parsed, not run:
importing a module of the standard library may open a browser or a window. Only compiled objects, which have
no source, are imported, from modules that are safe to import.

Some text would give the labels away, and is left out: the object's own name and signature, code, and the
lines that introduce a parameter. The description of the parameter stays.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from ..corpus.store import Corpus
from ..errors import InputError
from ..progress import Progress, counted
from ..storage.destination import temporary_folder
from ..text.info import Tokenizer
from .spool import IngestKeywords
from .text import ingest_text
from .vocabulary import Limits

STANDARD_LIBRARY = "stdlib"
PACKAGES = (
    *("numpy", "scipy", "sklearn", "pandas", "dask", "distributed", "dask_ml", "zarr", STANDARD_LIBRARY),
    *(
        "bokeh",
        "cryptography",
        "fsspec",
        "joblib",
        "llvmlite",
        "numba",
        "pyarrow",
        "rich",
        "sparse",
        "tornado",
    ),
)
"""Libraries that threepass depends on, and the larger ones among their own dependencies."""
_COMPILED = {
    "numpy": ("numpy", "numpy.random"),
    "scipy": ("scipy.special",),
    STANDARD_LIBRARY: (
        "builtins",
        "math",
        "cmath",
        "itertools",
        "time",
        "operator",
        "functools",
        "collections",
    ),
}
"""Modules with many compiled objects that are safe to import."""
_FEWEST_WORDS = 5
_FEWEST_DOCUMENTS = 3
_MOST_TERMS = 20_000
_NOT_SHIPPED_TO_USERS = {"test", "tests", "testing", "conftest", "idlelib", "lib2to3", "site-packages"}
_WORD = re.compile(r"[^\W\d_]\w+")
_TOKEN = r"\p{L}[\p{L}\p{N}_]+"
"""The same pattern for the tokenizer; names such as `n_samples` stay whole."""
_SIGNATURE = re.compile(r"[\w.]+\s*\(.*")
_PARAMETER = re.compile(r"(\*{0,2}[A-Za-z_]\w*(?:\s*,\s*\*{0,2}[A-Za-z_]\w*)*)\s*:(?!:)")
_FIELD = re.compile(r":(?:param|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+):")
_UNDERLINE = re.compile(r"(-{3,}|={3,}|~{3,})\s*")
_CODE = (">>>", "In [", ".. ")
_PARAMETER_SECTIONS = {"Parameters", "Other Parameters"}


@dataclass(frozen=True, slots=True)
class DocumentedObject:
    """A public object: its qualified name, the text of its docstring, and its labels."""

    name: str
    text: str
    labels: tuple[str, ...]


def documented_objects(
    packages: Sequence[str] = PACKAGES, progress: Progress | None = None
) -> list[DocumentedObject]:
    """Public objects of some packages that have their own docstrings, in the order of their names.

    Parameters
    ----------
    packages
        Names of installed packages, and `stdlib`. Packages that are not installed are skipped.
    progress
        See `threepass.progress.Progress`; `read` is counted in packages.
    """
    found: dict[str, DocumentedObject] = {}
    seen: set[str] = set()
    advance = counted(progress, "read", len(packages))
    for package in packages:
        for found_object in (*_parsed(package), *_compiled(package)):
            made = _documented(package, *found_object)
            if made is not None and made.name not in found and made.text not in seen:
                found[made.name] = made
                seen.add(made.text)
        advance(1)
    return [found[name] for name in sorted(found)]


def ingest_docstrings(
    dest: str | Path, packages: Sequence[str] = PACKAGES, **options: Unpack[IngestKeywords]
) -> tuple[Corpus, list[DocumentedObject]]:
    """Turn the docstrings of installed packages into a corpus on disk.

    Parameters
    ----------
    dest
        Path of the new corpus.
    packages
        See `documented_objects`.
    **options
        `binary`, `block_bytes`, `overwrite`, `n_threads`, `progress`: see `IngestOptions`.

    Returns
    -------
    Corpus
        Words are in lower case. Words and labels in fewer than 3 documents are left out, and so are English
        function words.
    list of DocumentedObject
        The documents, in the order of the corpus.

    Examples
    --------
    >>> import tempfile
    >>> corpus, objects = ingest_docstrings(tempfile.mkdtemp() + "/zarr.zarr", ["zarr"])
    >>> corpus.n_docs == len(objects)
    True
    """
    objects = documented_objects(packages, options.get("progress"))
    if not objects:
        raise InputError(
            f"No docstring was found. Packages asked for: {', '.join(packages)}. "
            f"Name some that are installed, or {STANDARD_LIBRARY}."
        )
    return _ingest(objects, dest, options), objects


def _ingest(objects: list[DocumentedObject], dest: str | Path, options: IngestKeywords) -> Corpus:
    least = 1 if len(objects) < 10 * _FEWEST_DOCUMENTS else _FEWEST_DOCUMENTS
    counts = Counter(label for documented in objects for label in documented.labels)
    tokenizer = Tokenizer(stop_words=tuple(sorted(ENGLISH_STOP_WORDS)), pattern=_TOKEN)
    with temporary_folder() as folder:
        path = folder / "docstrings.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for documented in objects:
                labels = [label for label in documented.labels if counts[label] >= least]
                file.write(json.dumps({"text": documented.text, "labels": labels}) + "\n")
        return ingest_text(
            path,
            dest,
            text="text",
            labels="labels",
            tokenizer=tokenizer,
            limits=Limits(least, max_terms=_MOST_TERMS),
            **options,
        )


# -- search ------------------------------------------------------------------------------------------------

RawDocstring = tuple[str, str, str, str]
"""Module, qualified name, kind and docstring."""


def _parsed(package: str) -> Iterator[RawDocstring]:
    """All objects in the sources of a package."""
    for module, path in _sources(package):
        try:
            with warnings.catch_warnings():  # about odd escapes in other people's strings
                warnings.simplefilter("ignore")
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            continue  # a template, or a file for another version of Python
        docstring = ast.get_docstring(tree)
        if docstring:
            yield module, module, "module", docstring
        yield from _members(tree, module, module)


def _members(node: ast.Module | ast.ClassDef, module: str, prefix: str) -> Iterator[RawDocstring]:
    for member in node.body:
        if not isinstance(member, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if member.name.startswith("_"):
            continue
        name = f"{prefix}.{member.name}"
        docstring = ast.get_docstring(member)
        if docstring:
            yield module, name, _kind(member, in_class=isinstance(node, ast.ClassDef)), docstring
        if isinstance(member, ast.ClassDef):
            yield from _members(member, module, name)


def _kind(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, in_class: bool) -> str:
    if isinstance(node, ast.ClassDef):
        bases = {base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases}
        return (
            "exception"
            if any(base.endswith(("Error", "Exception", "Warning")) for base in bases)
            else "class"
        )
    if isinstance(node, ast.AsyncFunctionDef):
        return "coroutine"
    if not in_class:
        return "function"
    decorators = {
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in node.decorator_list
        if isinstance(part, ast.Attribute | ast.Name)
    }
    if decorators & {"property", "cached_property", "cache_readonly", "setter"}:
        return "property"
    return "class method" if decorators & {"classmethod", "staticmethod"} else "method"


def _sources(package: str) -> Iterator[tuple[str, Path]]:
    """Module names and their files, in order, without importing the modules."""
    roots = sorted(sys.stdlib_module_names) if package == STANDARD_LIBRARY else [package]
    for root in roots:
        if root.startswith("_") or root in _NOT_SHIPPED_TO_USERS:
            continue
        try:
            spec = importlib.util.find_spec(root)
        except (ImportError, ValueError):
            continue
        if spec is None:
            continue
        if spec.submodule_search_locations is None:
            if spec.origin and spec.origin.endswith(".py"):
                yield root, Path(spec.origin)
            continue
        for folder in map(Path, spec.submodule_search_locations):
            for path in sorted(folder.rglob("*.py")):
                parts = path.relative_to(folder).with_suffix("").parts
                if not _NOT_SHIPPED_TO_USERS.isdisjoint(parts):
                    continue
                yield ".".join([root, *(part for part in parts if part != "__init__")]), path


def _compiled(package: str) -> Iterator[RawDocstring]:
    """Compiled objects of a few modules."""
    for module_name in _COMPILED.get(package, ()):
        module = importlib.import_module(module_name)
        for name, value in _public(module):
            kind = _compiled_kind(value)
            if kind is None:
                continue
            yield module_name, f"{module_name}.{name}", kind, _docstring(value)
            for member, part in _public(value) if kind == "class" else ():
                if inspect.isgetsetdescriptor(part) or inspect.ismethoddescriptor(part):
                    part_kind = "property" if inspect.isgetsetdescriptor(part) else "method"
                    yield module_name, f"{module_name}.{name}.{member}", part_kind, _docstring(part)


def _docstring(value: Any) -> str:
    return value.__doc__ if isinstance(value.__doc__, str) else ""


def _public(owner: ModuleType | type) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(owner).items()):
        if not name.startswith("_"):
            yield name, value


def _compiled_kind(value: Any) -> str | None:
    if isinstance(value, np.ufunc):
        return "ufunc"
    if inspect.isbuiltin(value):
        return "function"
    if inspect.isclass(value) and not any(inspect.isfunction(part) for part in vars(value).values()):
        return "exception" if issubclass(value, BaseException) else "class"
    return None


# -- text and labels ---------------------------------------------------------------------------------------


def _documented(package: str, module: str, name: str, kind: str, docstring: str) -> DocumentedObject | None:
    text, parameters = _prose(name, docstring)
    if len(_WORD.findall(text)) < _FEWEST_WORDS:
        return None
    labels = dict.fromkeys([package, *_places(package, module), kind])
    labels |= dict.fromkeys(f"takes {parameter}" for parameter in parameters)
    return DocumentedObject(name, text, tuple(labels))


def _places(package: str, module: str) -> Iterable[str]:
    """A module and those that contain it, down to the last public one, without the package itself."""
    place = ""
    for part in module.split("."):
        if part.startswith("_"):
            return
        place = f"{place}.{part}" if place else part
        if place != package:
            yield place


def _prose(name: str, docstring: str) -> tuple[str, list[str]]:
    """Docstring without code and without the names of the object and its parameters; and the parameters."""
    lines = inspect.cleandoc(docstring).splitlines()
    if lines and _SIGNATURE.fullmatch(lines[0].strip()):
        opened = np.cumsum([line.count("(") - line.count(")") for line in lines])
        lines = lines[int(np.argmax(opened <= 0)) + 1 :]
    parameters, kept, section = _FIELD.findall(docstring), [], ""
    in_code = False
    for i, line in enumerate(lines):
        stripped = line.strip()
        in_code = bool(stripped) and (in_code or stripped.startswith(_CODE))  # to the next empty line
        if in_code or _UNDERLINE.fullmatch(stripped):
            continue
        if i + 1 < len(lines) and _UNDERLINE.fullmatch(lines[i + 1].strip()):
            section = stripped
            continue
        introduced = _PARAMETER.match(line) if section in _PARAMETER_SECTIONS else None
        if introduced is not None:
            parameters += [part.strip().lstrip("*") for part in introduced[1].split(",")]
            continue
        kept.append(_FIELD.sub("", line))
    text = "\n".join(kept).replace(name, "").strip()
    own = name.rsplit(".", 1)[-1]
    return re.sub(rf"(?<![\w.]){re.escape(own)}(?=\()", "", text), parameters
