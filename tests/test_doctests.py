"""Examples in docstrings are true."""

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import threepass

MODULES = [module.name for module in walk_packages(threepass.__path__, "threepass.")]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0
