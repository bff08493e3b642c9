from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import random_matrices
from threepass.errors import InputError
from threepass.ingest.mulan import ingest_mulan

LABELS = '<?xml version="1.0"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">{}</labels>'


def xml(*names: str) -> str:
    return LABELS.format("".join(f'<label name="{name}"></label>' for name in names))


def write(folder: Path, arff: str, *labels: str) -> tuple[Path, Path]:
    (folder / "a.arff").write_text(arff)
    (folder / "a.xml").write_text(xml(*labels))
    return folder / "a.arff", folder / "a.xml"


def in_source_order(corpus: object, X: np.ndarray) -> np.ndarray:
    dense = np.zeros_like(X)
    dense[:, corpus.term_ids] = X  # type: ignore[attr-defined]
    return dense


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_ingest_mulan__labels_anywhere_among_the_attributes(
    tmp_path: Path, sparse: bool, packed: bool
) -> None:
    X, Y = random_matrices(30, 9, 4)
    both = np.hstack([X, Y])[:, (order := np.random.default_rng(1).permutation(13))]
    names = [f"w{i}" for i in range(9)] + [f"t{i}" for i in range(4)]
    lines = ["% made here", "@relation x", ""]
    lines += [f"@ATTRIBUTE {names[column]} {{0,1}}" for column in order]
    lines += ["", "@data"]
    for row in both.tolist():
        pairs = ", ".join(f"{i} {value}" for i, value in enumerate(row) if value)
        lines.append(f"{{{pairs}}}" if sparse else ",".join(map(str, row)))
    arff, labels = write(tmp_path, "\n".join(lines) + "\n", "t2", "t0", "t3", "t1")
    if packed:
        arff.write_bytes(gzip.compress(arff.read_bytes()))
    corpus = ingest_mulan(arff, labels, tmp_path / "a.zarr")
    found_X, found_Y = (side.toarray() for side in corpus.to_scipy())
    features = [column for column in order if column < 9]
    np.testing.assert_array_equal(in_source_order(corpus, found_X), X[:, features])
    np.testing.assert_array_equal(found_Y, Y[:, [2, 0, 3, 1]])
    assert list(corpus.labels) == ["t2", "t0", "t3", "t1"]


def test_ingest_mulan__quoted_names_and_escapes(tmp_path: Path) -> None:
    head = "@attribute 'two words' numeric\n@attribute \"it's\" real\n@attribute dise\\~no {0,1}\n"
    arff, labels = write(
        tmp_path, f"{head}@attribute 'l\\'x' {{0,1}}\n@data\n0.5,2,1,0\n", "dise\\~no", "l'x"
    )
    corpus = ingest_mulan(arff, labels, tmp_path / "a.zarr")
    assert list(corpus.labels) == ["dise\\~no", "l'x"]
    assert sorted(corpus.terms) == ["it's", "two words"]


HEAD = "@attribute a numeric\n@attribute b {0,1}\n@data\n"


@pytest.mark.parametrize(
    ("arff", "message"),
    [
        ("", "is not ARFF"),
        ("@data\n1,1\n", "is not ARFF"),
        ("@attribute\n@data\n", "line 1: an attribute has no name"),
        (HEAD, "no documents after"),
        (HEAD + "1,1\n1\n", "line 5: not 2 numbers"),
        (HEAD + "1,?\n", "line 4: not 2 numbers"),
        (HEAD + "{0 1, 1\n", "line 4: not 2 numbers"),
        (HEAD + "{0 1, 1}\n", "line 4: not 2 numbers"),
        (HEAD + "{2 1}\n", "line 4: a column is not below 2"),
        (HEAD + "{-1 1}\n", "line 4: a column is not below 2"),
        ("@attribute a numeric\n@data\n1\n", "do not belong together. The label 'b'"),
    ],
)
def test_ingest_mulan__bad_arff(tmp_path: Path, arff: str, message: str) -> None:
    files = write(tmp_path, arff, "b")
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        ingest_mulan(*files, tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize("content", ["", "<labels/>", "<labels><label/></labels>", xml("b", "b"), "{}"])
def test_ingest_mulan__bad_labels(tmp_path: Path, content: str) -> None:
    arff, labels = write(tmp_path, HEAD + "1,1\n")
    labels.write_text(content)
    with pytest.raises(InputError, match=r"a\.xml"):
        ingest_mulan(arff, labels, tmp_path / "a.zarr")
