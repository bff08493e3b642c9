from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web import Web, serve
from threepass import InputError, StoreError, fetch_dataset
from threepass.ingest.fetch import DATA_VARIABLE

TRAIN = b"3 6 3\n0,2 1:1 3:2\n1 5:1 0:3\n2 4:1\n"
TEST = b"1 6 3\n1 2:1\n"
COUNTS = {
    "train_documents": 3,
    "test_documents": 1,
    "features": 6,
    "labels": 3,
    "mean_features": 1.5,
    "median_features": 1.5,
    "mean_labels": 1.25,
    "median_labels": 1,
}
ARFF = "@attribute a numeric\n@attribute b numeric\n@attribute t {0,1}\n@data\n"
XML = b'<labels xmlns="http://mulan.sourceforge.net/labels"><label name="t"/></labels>'


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data folder and no cache of the user's."""
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def web() -> Iterator[Web]:
    with serve({"train.txt": TRAIN, "test.txt.gz": gzip.compress(TEST)}) as web:
        yield web


def manifest(
    folder: Path, files: dict[str, dict[str, str]], kind: str = "xmc", **changed: float | str
) -> str:
    """Write a manifest `tiny`; the path to it."""
    counts = {name: changed.get(name, value) for name, value in COUNTS.items()}
    lines = ['title = "Tiny"', 'home = "http://127.0.0.1/"', 'licence = "CC0"', f'format = "{kind}"']
    if "manual" in changed:
        lines.append(f'manual = "{changed["manual"]}"')
    lines += ["[propensity]", "A = 0.5", "B = 0.4", "[counts]"]
    lines += [f"{name} = {value}" for name, value in counts.items()]
    for role, file in files.items():
        lines += [f"[files.{role}]", *(f'{key} = "{value}"' for key, value in file.items())]
    (folder / "tiny.toml").write_text("\n".join(lines))
    return str(folder / "tiny.toml")


def online(web: Web, **extra: dict[str, str]) -> dict[str, dict[str, str]]:
    names = {"train": "train.txt", "test": "test.txt.gz"}
    return {role: {"name": name, "url": web.url(name), **extra.get(role, {})} for role, name in names.items()}


BY_HAND = {"train": {"name": "tiny_train.txt"}, "test": {"name": "tiny_test.txt"}}


def test_fetch__downloads_ingests_compares(web: Web, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(TRAIN).hexdigest()
    path = manifest(tmp_path, online(web, train={"sha256": sha256}))
    fetched = fetch_dataset(path, tmp_path / "out")
    assert fetched.differences == []
    assert fetched.counts == COUNTS
    assert fetched.paths["train"] == tmp_path / "out" / "tiny-train.zarr"
    assert fetched.train.shape == (3, 6)
    assert fetched.test.shape == (1, 6)
    assert fetched.files["train"].path == tmp_path / "cache" / "threepass" / "tiny" / "train.txt"
    assert (fetched.files["train"].sha256, fetched.files["train"].pinned) == (sha256, True)
    packed = hashlib.sha256(web.files["test.txt.gz"]).hexdigest()
    assert (fetched.files["test"].sha256, fetched.files["test"].pinned) == (packed, False)
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == [
        "tiny-test.zarr",
        "tiny-train.zarr",
    ]
    # the cache serves the second time
    fetch_dataset(path, tmp_path / "again")
    assert len(web.asked) == 2


def test_fetch__cut_transfer(web: Web, tmp_path: Path) -> None:
    web.cut_after = [10]
    fetched = fetch_dataset(manifest(tmp_path, online(web)), tmp_path, cache=tmp_path / "kept")
    assert fetched.differences == []
    assert web.asked[1]["Range"] == "bytes=10-"
    assert (tmp_path / "kept" / "tiny" / "train.txt").read_bytes() == TRAIN


def test_fetch__wrong_hash(web: Web, tmp_path: Path) -> None:
    path = manifest(tmp_path, online(web, test={"sha256": "0" * 64}))
    with pytest.raises(InputError, match=r"test\.txt\.gz is not the file that the manifest describes"):
        fetch_dataset(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_fetch__wrong_counts__writes_and_says(web: Web, tmp_path: Path) -> None:
    path = manifest(tmp_path, online(web), train_documents=4880, mean_labels=1.3)
    fetched = fetch_dataset(path, tmp_path)
    assert list(map(str, fetched.differences)) == ["train documents: expected 4,880, found 3"]
    assert fetched.train.n_docs == 3


def test_fetch__splits_that_do_not_belong_together(web: Web, tmp_path: Path) -> None:
    web.files["test.txt.gz"] = b"1 7 4\n1 2:1\n"
    fetched = fetch_dataset(manifest(tmp_path, online(web)), tmp_path)
    assert list(map(str, fetched.differences)) == [
        "features of test documents: expected 6, found 7",
        "labels of test documents: expected 3, found 4",
    ]


def test_fetch__existing_corpus__is_noticed_before_the_download(web: Web, tmp_path: Path) -> None:
    path = manifest(tmp_path, online(web))
    (tmp_path / "tiny-test.zarr").mkdir()
    with pytest.raises(StoreError, match=r"tiny-test\.zarr exists already"):
        fetch_dataset(path, tmp_path)
    assert web.asked == []
    (tmp_path / "tiny-test.zarr").rmdir()
    fetch_dataset(path, tmp_path)
    fetch_dataset(path, tmp_path, overwrite=True)


@pytest.mark.parametrize("sub_folder", [True, False])
@pytest.mark.parametrize("names", [("train.txt", "test.txt"), ("tiny_train.txt.gz", "tiny_test.txt")])
@pytest.mark.parametrize("variable", [True, False])
def test_fetch__local_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sub_folder: bool,
    names: tuple[str, str],
    variable: bool,
) -> None:
    place = tmp_path / "data" / "tiny" if sub_folder else tmp_path / "data"
    place.mkdir(parents=True)
    for name, content in zip(names, (TRAIN, TEST), strict=True):
        (place / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    (place / "labels.txt").write_text("one\ntwo\nthree\n")
    path = manifest(tmp_path, BY_HAND, manual="Ask for it.")
    if variable:
        monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    fetched = fetch_dataset(path, tmp_path, source=None if variable else tmp_path / "data")
    assert fetched.differences == []
    assert fetched.files["train"].path == place / names[0]
    assert list(fetched.train.labels)[:1] == (["one"] if names[0] == "train.txt" else ["0"])


def test_fetch__local_file_with_the_wrong_hash(tmp_path: Path) -> None:
    files = {role: {**file, "sha256": "0" * 64} for role, file in BY_HAND.items()}
    path = manifest(tmp_path, files, manual="Ask.")
    (tmp_path / "tiny_train.txt").write_bytes(TRAIN)
    (tmp_path / "tiny_test.txt").write_bytes(TEST)
    with pytest.raises(InputError, match=r"tiny_train\.txt is not the file.* expected 0{64}"):
        fetch_dataset(path, tmp_path, source=tmp_path)


def test_fetch__by_hand__says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = manifest(tmp_path, BY_HAND, manual="Write to the authors.")
    with pytest.raises(InputError, match=r"'tiny' cannot be .*\. Write to the authors\. Home page: .*--from"):
        fetch_dataset(path, tmp_path)
    (tmp_path / "tiny_train.txt").write_bytes(TRAIN)  # one of two
    with pytest.raises(InputError, match=r"Looked for tiny_train\.txt, tiny_test\.txt; .*Write to the"):
        fetch_dataset(path, tmp_path, source=tmp_path)
    # a data folder without this set is no obstacle, one that is not there is
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match="cannot be downloaded by itself"):
        fetch_dataset(path, tmp_path)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(InputError, match=r"absent is not a folder\. THREEPASS_DATA names it"):
        fetch_dataset(path, tmp_path)


def test_fetch__folder_given__never_downloads(web: Web, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Leave out --from to download them"):
        fetch_dataset(manifest(tmp_path, online(web)), tmp_path, source=tmp_path)
    assert web.asked == []


def zipped(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def tarred(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


MEMBERS = {"Tiny/train.txt": TRAIN, "Tiny/test.txt": TEST, "../evil": b"x"}


@pytest.mark.parametrize("archive", [zipped(MEMBERS), tarred(MEMBERS), tarred(MEMBERS, "w:xz")])
def test_fetch__archive__is_downloaded_once(web: Web, tmp_path: Path, archive: bytes) -> None:
    web.files["tiny.archive"] = archive
    one = {"name": "tiny.archive", "url": web.url("tiny.archive")}
    files = {role: {**one, "member": f"Tiny/{role}.txt"} for role in ("train", "test")}
    fetched = fetch_dataset(manifest(tmp_path, files), tmp_path / "out")
    assert fetched.differences == []
    assert len(web.asked) == 1
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == [
        "tiny-test.zarr",
        "tiny-train.zarr",
    ]
    assert not list(tmp_path.rglob("evil"))


def linked() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        info = tarfile.TarInfo("Tiny/train.txt")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    return content.getvalue()


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (zipped({"other": b""}), "has no file 'Tiny/train.txt' in it"),
        (tarred({"other": b""}), "has no file 'Tiny/train.txt' in it"),
        (linked(), "has no file 'Tiny/train.txt' in it"),
        (b"plain", "neither a zip nor a tar archive"),
        (tarred(MEMBERS)[:-20], "tiny.archive"),
        (zipped(MEMBERS).replace(TRAIN, TRAIN[::-1]), "damaged archive"),
    ],
    ids=["zip without", "tar without", "tar link", "no archive", "cut tar", "zip with wrong checksum"],
)
def test_fetch__bad_archive(tmp_path: Path, archive: bytes, message: str) -> None:
    (tmp_path / "tiny.archive").write_bytes(archive)
    files = {role: {"name": "tiny.archive", "member": f"Tiny/{role}.txt"} for role in ("train", "test")}
    with pytest.raises(InputError, match=message):
        fetch_dataset(manifest(tmp_path, files, manual="Ask."), tmp_path / "out", source=tmp_path)
    assert list((tmp_path / "out").iterdir()) == []


def test_fetch__mulan(web: Web, tmp_path: Path) -> None:
    web.files = {
        "a.arff": f"{ARFF}{{0 1,1 2,2 1}}\n{{1 1}}\n".encode(),
        "b.arff": f"{ARFF}1,0,1\n".encode(),
        "l.xml": XML,
    }
    roles = zip(("train", "test", "labels"), web.files, strict=True)
    files = {role: {"name": name, "url": web.url(name)} for role, name in roles}
    path = manifest(tmp_path, files, "mulan", train_documents=2, features=2, labels=1, mean_features=1.333)
    fetched = fetch_dataset(path, tmp_path)
    assert [one.what for one in fetched.differences] == ["median features", "mean labels"]
    assert list(fetched.train.labels) == ["t"]


def test_fetch__text_that_is_wrong__names_the_file(web: Web, tmp_path: Path) -> None:
    web.files["train.txt"] = b"3 6 3\n0 1:1\n"
    with pytest.raises(InputError, match=r"train\.txt, line 2: the file ends too early"):
        fetch_dataset(manifest(tmp_path, online(web)), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
