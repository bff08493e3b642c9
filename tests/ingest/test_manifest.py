from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from threepass import SHAPES, InputError, find_manifest, list_datasets
from threepass.ingest.manifest import Counts, DataFile, Manifest, read_manifest

FOLDER = Path(__file__).parents[2] / "data_manifests"
GOOD = """
title = "Tiny"
home = "https://example.org/tiny"
licence = "CC0"
format = "xmc"

[propensity]
A = 0.5
B = 0.4

[counts]
train_documents = 3
test_documents = 1
features = 6
labels = 3
mean_features = 1.50
median_labels = 1

[files.train]
name = "tiny.zip"
url = "https://example.org/tiny.zip"
sha256 = "{hash}"
member = "Tiny/train.txt"

[files.test]
name = "test.txt.gz"
url = "https://example.org/test.txt.gz"
""".format(hash="ab" * 32)


def parse(folder: Path, text: str) -> Manifest:
    (folder / "tiny.toml").write_text(text)
    return read_manifest(folder / "tiny.toml")


def test_read_manifest__everything(tmp_path: Path) -> None:
    manifest = parse(tmp_path, GOOD)
    assert manifest.name == "tiny"
    assert manifest.files["train"] == DataFile(
        "tiny.zip", "https://example.org/tiny.zip", "ab" * 32, "Tiny/train.txt"
    )
    assert manifest.files["test"].sha256 is None
    assert manifest.propensity == (0.5, 0.4)
    assert manifest.is_downloadable
    assert manifest.counts == Counts(3, 1, 6, 3, mean_features=Decimal("1.50"), median_labels=Decimal(1))
    assert manifest.counts.as_dict() == {
        "train_documents": 3,
        "test_documents": 1,
        "features": 6,
        "labels": 3,
        "mean_features": 1.5,
        "median_labels": 1,
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Tiny"\n', "", "'title' is missing"),
        ('title = "Tiny"', "title = 3", "'title' is not text. Found 3"),
        ('title = "Tiny"', 'title = " "', "'title' is empty"),
        ('title = "Tiny"', 'title = "a\\u001b[2J"', "'title' is empty or not plain text"),
        ('licence = "CC0"', 'licens = "CC0"', "unknown key 'licens'. Did you mean 'licence'?"),
        (
            'format = "xmc"',
            'format = "csv"',
            "'format' is 'csv', which is not known. Choose one of: xmc, mulan",
        ),
        ('format = "xmc"', 'format = "mulan"', "[files]: format 'mulan' needs a file 'labels'"),
        ('https://example.org/tiny"', 'ftp://example.org"', "'home' is not a web address"),
        ("A = 0.5", "A = -1", "[propensity]: 'A' is -1"),
        ("A = 0.5", "A = inf", "[propensity]: 'A' is"),
        ("A = 0.5", "A = true", "[propensity]: 'A' is not a number"),
        ("B = 0.4\n", "", "[propensity]: 'B' is missing"),
        ("labels = 3", "labels = 3.5", "[counts]: 'labels' is not a whole number"),
        ("labels = 3", "labels = 0", "[counts]: 'labels' is 0"),
        ("labels = 3\n", "", "[counts]: 'labels' is missing"),
        ("mean_features", "mean_feature", "[counts]: unknown key 'mean_feature'. Did you mean"),
        ('"tiny.zip"', '"../tiny.zip"', "[files.train]: 'name' is not a plain file name"),
        ('"tiny.zip"', '".bashrc"', "[files.train]: 'name' is not a plain file name"),
        ('"tiny.zip"', '"a/b"', "[files.train]: 'name' is not a plain file name"),
        ('"Tiny/train.txt"', '"../../x"', "[files.train]: 'member' leads out of the archive"),
        ('"Tiny/train.txt"', '"/etc/passwd"', "[files.train]: 'member' leads out of the archive"),
        ('"Tiny/train.txt"', "'a\\..\\b'", "[files.train]: 'member' leads out of the archive"),
        ("ab" * 32, "AB" * 32, "[files.train]: 'sha256' is not a hash"),
        ("https://example.org/tiny.zip", "file:///etc/passwd", "[files.train]: 'url' is not a web address"),
        ("https://example.org/tiny.zip", "https:///x", "[files.train]: 'url' is not a web address"),
        ('url = "https://example.org/tiny.zip"\n', "", "files.train has no url and there is no 'manual'"),
        ("[files.test]", "[files.validation]", "[files]: unknown key 'validation'"),
        ("[files.test]", "[files.features]", "[files]: format 'xmc' needs a file 'test'"),
        ("[counts]", "[counts", "is not TOML. "),
    ],
)
def test_read_manifest__refuses(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        parse(tmp_path, GOOD.replace(old, new, 1))
    assert str(tmp_path / "tiny.toml") in str(refused.value)
    assert "\n" not in str(refused.value)


def test_read_manifest__files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_manifest(tmp_path / "absent.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not TOML"):
        read_manifest(tmp_path / "bytes.toml")
    (tmp_path / "a b.toml").write_text(GOOD)
    with pytest.raises(InputError, match="'a b' is no name for a data set"):
        read_manifest(tmp_path / "a b.toml")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, []),
        ({"train_documents": 4}, ["train documents: expected 3, found 4"]),
        ({"features": 1_234_567}, ["features: expected 6, found 1,234,567"]),
        # a mean may be rounded or cut: less than one unit of its last digit away
        ({"mean_features": 1.509}, []),
        ({"mean_features": 1.4901}, []),
        ({"mean_features": 1.51234567}, ["mean features: expected 1.5, found 1.5123"]),
        ({"mean_features": 1.48}, ["mean features: expected 1.5, found 1.48"]),
        ({"median_labels": 1.5}, ["median labels: expected 1, found 1.5"]),
        # what is not stated is not compared
        ({"mean_labels": 99.0}, []),
        (
            {"labels": 2, "test_documents": 2},
            ["test documents: expected 1, found 2", "labels: expected 3, found 2"],
        ),
    ],
)
def test_counts__differences(changed: dict[str, float], told: list[str]) -> None:
    counts = Counts(3, 1, 6, 3, mean_features=Decimal("1.50"), median_labels=Decimal(1))
    found: dict[str, Any] = {**counts.as_dict(), "mean_labels": 1.0, "median_features": 2.0} | changed
    assert [str(difference) for difference in counts.differences(found)] == told


def test_find_manifest__by_name_path_and_mistake(tmp_path: Path) -> None:
    assert find_manifest("Wiki10-31K").name == "wiki10-31k"
    assert parse(tmp_path, GOOD) == find_manifest(str(tmp_path / "tiny.toml"))
    with pytest.raises(InputError, match=r"no manifest of a data set 'bibtx'\. Did you mean 'bibtex'\?"):
        find_manifest("bibtx")
    with pytest.raises(InputError, match=r"'zzz'\. Known: amazoncat-13k, bibtex, "):
        find_manifest("zzz")


def test_list_datasets__is_the_folder_at_the_top() -> None:
    names = [manifest.name for manifest in list_datasets()]
    assert names == sorted(path.stem for path in FOLDER.glob("*.toml"))
    assert set(names) >= {
        *("bibtex", "delicious", "nytimes", "wiki10-31k", "amazoncat-13k", "wikilshtc-325k"),
        *("eurlex-4k", "mediamill", "reuters21578-all", "reuters21578-r90", "yso-finna-en"),
    }


@pytest.mark.parametrize("manifest", list_datasets(), ids=lambda manifest: manifest.name)
def test_shipped_manifest__downloads_are_encrypted_and_fixed(manifest: Manifest) -> None:
    for file in manifest.files.values():
        if file.url is not None:
            assert file.url.startswith("https://")
            # without a hash, the address itself must name one version
            assert file.sha256 or re.search(r"/[0-9a-f]{40}/", file.url)


SHAPE_OF = {
    "bibtex": "bibtex",
    "delicious": "delicious",
    "nytimes": "nytimes",
    "wiki10-31k": "wiki31k",
    "amazoncat-13k": "amazoncat",
    "wikilshtc-325k": "wikilshtc",
}


def test_shipped_manifests__agree_with_the_synthetic_shapes() -> None:
    assert set(SHAPE_OF.values()) == set(SHAPES)
    for name, shape in SHAPE_OF.items():
        counts, model = find_manifest(name).counts, SHAPES[shape]
        assert (counts.train_documents, counts.features, counts.labels) == (
            model.n_docs,
            model.n_terms,
            model.n_labels,
        )
        stated = (counts.mean_features, counts.median_features, counts.mean_labels, counts.median_labels)
        planted = (model.words.mean, model.words.median, model.labels.mean, model.labels.median)
        assert tuple(map(float, filter(None, stated))) == planted
