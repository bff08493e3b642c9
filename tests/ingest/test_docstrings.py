"""Docstrings of installed packages as a corpus: found without importing, labelled, and not too easy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from threepass import InputError
from threepass.ingest.docstrings import STANDARD_LIBRARY, documented_objects, ingest_docstrings

SOURCE = '''"""A package that says what it is for, in some words."""
import antigravity_of_the_tests  # importing this file fails

def public(axis, out=None):
    """public(axis, out=None)

    Make something out of nothing at all.

    Parameters
    ----------
    axis : int
        Where to look for what is made.
    out, where : array, optional
        What is filled, and what is left alone.

    Returns
    -------
    made : array
        What there was none of before.

    Examples
    --------
    >>> public(hidden_in_code)
    hidden_in_output
    """

def _private():
    """Nobody outside should ever read these words."""

def short():
    """Too short."""

class Thing(ValueError):
    """A thing with members that somebody may use."""

    @property
    def size(self):
        """How large this thing is, in square metres."""

    @classmethod
    def make(cls):
        """Make one of these without knowing how to.

        :param str colour: what it shall look like
        """

    async def wait(self):
        """Wait until the thing has come to rest somewhere."""

    def again(self):
        """Wait until the thing has come to rest somewhere."""
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "of_the_tests"
    (folder / "inner" / "_hidden").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "__init__.py").write_text(SOURCE)
    (folder / "inner" / "part.py").write_text('def f():\n    """Say something about this inner part."""\n')
    (folder / "inner" / "_hidden" / "deep.py").write_text(
        'def g():\n    """Say something of a deeper part."""\n'
    )
    (folder / "tests" / "test_part.py").write_text(
        'def t():\n    """Say something that tests alone say."""\n'
    )
    (folder / "broken.py").write_text("def (:\n")
    (folder / "bytes.py").write_bytes(b'"""\xff\xfe is not UTF-8, and says so."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    return "of_the_tests"


def test_objects__names_kinds_places_and_parameters(package: str) -> None:
    found = {documented.name: documented for documented in documented_objects([package])}
    labels = {name.removeprefix(f"{package}."): documented.labels for name, documented in found.items()}
    assert labels == {
        package: (package, "module"),
        "public": (package, "function", "takes axis", "takes out", "takes where"),
        "Thing": (package, "exception"),
        "Thing.size": (package, "property"),
        "Thing.make": (package, "class method", "takes colour"),
        "Thing.wait": (package, "coroutine"),
        "inner.part.f": (package, f"{package}.inner", f"{package}.inner.part", "function"),
        "inner._hidden.deep.g": (package, f"{package}.inner", "function"),
    }
    assert package not in sys.modules


def test_objects__text_does_not_give_labels_away(package: str) -> None:
    (text,) = (made.text for made in documented_objects([package]) if made.name == f"{package}.public")
    for part in ("public", "axis", "optional", "hidden_in_code", "hidden_in_output", "Parameters", "---"):
        assert part not in text
    for part in ("Make something", "Where to look", "What is filled", "What there was none of"):
        assert part in text


def test_objects__compiled_ones_are_looked_at() -> None:
    found = {documented.name: documented for documented in documented_objects(["numpy"])}
    assert {"numpy", "ufunc"} <= set(found["numpy.hypot"].labels)
    assert "x1, x2" not in found["numpy.hypot"].text
    assert {"numpy", "method"} <= set(found["numpy.ndarray.sort"].labels)
    assert {"numpy.linalg", "function", "takes a"} <= set(found["numpy.linalg._linalg.pinv"].labels)


def test_objects__standard_library_is_not_imported() -> None:
    code = (
        "import sys\n"
        "from threepass.ingest.docstrings import documented_objects\n"
        "found = documented_objects(['stdlib'])\n"
        "names = {documented.name for documented in found}\n"
        "assert len(found) > 2000, len(found)\n"
        "assert {'tkinter.Misc.after', 'textwrap.wrap', 'builtins.sorted'} <= names\n"
        "assert not {'tkinter', 'antigravity', 'this', 'idlelib', 'turtle'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


def test_ingest__is_the_same_every_time(package: str, tmp_path: Path) -> None:
    corpora = [ingest_docstrings(tmp_path / f"{i}.zarr", ["zarr", package, "no_such_package"]) for i in "ab"]
    (corpus, objects), (other, same) = corpora
    assert objects == same
    assert corpus.fingerprint == other.fingerprint
    assert corpus.n_docs == len(objects)
    assert {"zarr", "method"} <= set(corpus.labels)
    Y = corpus.to_scipy()[1]
    row = next(i for i, documented in enumerate(objects) if documented.labels[0] == "zarr")
    kept = {corpus.labels[label] for label in Y[[row]].indices.tolist()}
    assert kept == set(objects[row].labels) & set(corpus.labels)
    assert min(corpus.label_counts) >= 3


def test_ingest__nothing_found_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"no_such_package.*{STANDARD_LIBRARY}"):
        ingest_docstrings(tmp_path / "d.zarr", ["no_such_package"])
