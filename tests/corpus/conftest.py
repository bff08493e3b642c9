"""A corpus to damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import random_matrices
from threepass import ingest_matrices


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "c.zarr"
    names = {"feature_names": [f"wört{i}" for i in range(23)], "label_names": [f"ü{i}" for i in range(7)]}
    X, Y = random_matrices(60, 23, 7)
    ingest_matrices(X, Y, path, block_bytes=700, **names)
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A corpus to damage."""
    return Path(shutil.copytree(whole, tmp_path / "c.zarr"))
