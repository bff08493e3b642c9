from __future__ import annotations

import gzip
import hashlib
import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.web import Web, serve
from threepass.errors import InputError, StoreError
from threepass.ingest import download as module
from threepass.storage.destination import take_lock

CONTENT = bytes(range(256)) * 4000
download = partial(module.download, pauses=(0.001,) * 3)
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def web() -> Iterator[Web]:
    with serve({"data.bin": CONTENT}) as web:
        yield web


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


@pytest.mark.parametrize("sha256", [HASH, None])
def test_download__then_the_cache(web: Web, tmp_path: Path, sha256: str | None) -> None:
    told: list[tuple[str, float, float]] = []
    path = download(web.url("data.bin"), "x.bin", tmp_path, sha256, lambda *step: told.append(step))
    assert path == tmp_path / "x.bin"
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == {"x.bin"}
    assert told[-1] == ("get x.bin", len(CONTENT), len(CONTENT))
    download(web.url("data.bin"), "x.bin", tmp_path, sha256)
    assert len(web.asked) == 1


def test_download__goes_on_after_a_cut(web: Web, tmp_path: Path) -> None:
    web.cut_after = [300_000, 200_000]
    assert download(web.url("data.bin"), "x", tmp_path, HASH).read_bytes() == CONTENT
    ranges = [asked.get("Range") for asked in web.asked]
    assert ranges[0] is None
    starts = [int(asked.removeprefix("bytes=").removesuffix("-")) for asked in ranges[1:] if asked]
    assert len(starts) == 2
    assert 0 < starts[0] <= 300_000 < starts[1] <= 500_000
    assert web.asked[1]["If-Range"] == '"one"'


def test_download__gives_up__and_a_later_call_goes_on(web: Web, tmp_path: Path) -> None:
    web.cut_after = [100_000, 0, 0, 0]
    with pytest.raises(InputError, match=r"in 4 attempts\. [1-9][0-9,]* bytes came; .*again later"):
        download(web.url("data.bin"), "x", tmp_path, HASH)
    assert names(tmp_path) == {"x.part", "x.part.json"}
    arrived = (tmp_path / "x.part").stat().st_size
    assert download(web.url("data.bin"), "x", tmp_path, HASH).read_bytes() == CONTENT
    assert web.asked[-1]["Range"] == f"bytes={arrived}-"
    assert names(tmp_path) == {"x"}


def test_download__server_without_ranges__starts_over(web: Web, tmp_path: Path) -> None:
    web.ranges = False
    web.cut_after = [300_000]
    assert download(web.url("data.bin"), "x", tmp_path, HASH).read_bytes() == CONTENT
    assert len(web.asked) == 2


def test_download__no_version_told__never_joins(web: Web, tmp_path: Path) -> None:
    web.version = None
    web.cut_after = [300_000]
    assert download(web.url("data.bin"), "x", tmp_path, None).read_bytes() == CONTENT
    assert "Range" not in web.asked[1]


def test_download__weak_tag__never_joins(web: Web, tmp_path: Path) -> None:
    web.version = 'W/"one"'
    web.cut_after = [300_000]
    assert download(web.url("data.bin"), "x", tmp_path, None).read_bytes() == CONTENT
    assert "Range" not in web.asked[1]


def test_download__file_changed_meanwhile__halves_are_not_joined(web: Web, tmp_path: Path) -> None:
    web.cut_after = [300_000, 0, 0, 0]
    with pytest.raises(InputError):
        download(web.url("data.bin"), "x", tmp_path, None)
    web.files["data.bin"], web.version = CONTENT[::-1], '"two"'
    assert download(web.url("data.bin"), "x", tmp_path, None).read_bytes() == CONTENT[::-1]


def test_download__part_of_another_address__is_not_used(web: Web, tmp_path: Path) -> None:
    web.files["other.bin"] = CONTENT[::-1]
    web.cut_after = [300_000, 0, 0, 0]
    with pytest.raises(InputError):
        download(web.url("data.bin"), "x", tmp_path, None)
    assert download(web.url("other.bin"), "x", tmp_path, None).read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("damage", ["{", "[]", '{"url": 3}', "\xff"])
def test_download__damaged_note_beside_the_part(web: Web, tmp_path: Path, damage: str) -> None:
    (tmp_path / "x.part").write_bytes(b"rubbish")
    (tmp_path / "x.part.json").write_text(damage, "latin-1")
    assert download(web.url("data.bin"), "x", tmp_path, None).read_bytes() == CONTENT


@pytest.mark.parametrize("wrong", ["shift", "too long"])
def test_download__range_that_does_not_fit__starts_over(web: Web, tmp_path: Path, wrong: str) -> None:
    if wrong == "shift":
        web.cut_after, web.shift = [300_000], 1
    else:  # a part that is longer than the file: 416
        (tmp_path / "x.part").write_bytes(CONTENT + b"more")
        (tmp_path / "x.part.json").write_text(f'{{"url": "{web.url("data.bin")}", "version": "\\"one\\""}}')
    assert download(web.url("data.bin"), "x", tmp_path, HASH).read_bytes() == CONTENT
    assert "Range" in web.asked[-2]
    assert "Range" not in web.asked[-1]


def test_download__chunked_and_cut(web: Web, tmp_path: Path) -> None:
    web.length = False
    web.cut_after = [300_000]
    assert download(web.url("data.bin"), "x", tmp_path, HASH).read_bytes() == CONTENT
    assert len(web.asked) == 2


def test_download__packed_file_that_is_called_encoded__stays_packed(web: Web, tmp_path: Path) -> None:
    """Some servers mark files that end in .gz so."""
    web.files["data.gz"] = packed = gzip.compress(os.urandom(500_000))
    web.encoding, web.cut_after = "gzip", [300_000]
    sha256 = hashlib.sha256(packed).hexdigest()
    assert download(web.url("data.gz"), "x.gz", tmp_path, sha256).read_bytes() == packed
    assert "Range" in web.asked[1]


def test_download__server_trouble__is_tried_again(web: Web, tmp_path: Path) -> None:
    web.fail_with = [503, 500]
    assert download(web.url("data.bin"), "x", tmp_path, HASH).read_bytes() == CONTENT


def test_download__server_trouble__keeps_what_came(web: Web, tmp_path: Path) -> None:
    web.cut_after = [300_000, 0, 0, 0]
    with pytest.raises(InputError):
        download(web.url("data.bin"), "x", tmp_path, HASH)
    web.fail_with = [503]
    download(web.url("data.bin"), "x", tmp_path, HASH)
    assert "Range" in web.asked[-1]


def test_download__wrong_hash__keeps_nothing(web: Web, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"not the file that the manifest describes.*{HASH}"):
        download(web.url("data.bin"), "x", tmp_path, "0" * 64)
    assert names(tmp_path) == set()


def test_download__file_in_the_cache_has_the_wrong_hash__is_replaced(web: Web, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    assert download(web.url("data.bin"), "x", tmp_path, HASH).read_bytes() == CONTENT


def test_download__no_such_file__is_not_tried_again(web: Web, tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"absent cannot be downloaded: the server answered 404 Not Found\. Look for the file",
    ):
        download(web.url("absent"), "x", tmp_path, None)
    assert len(web.asked) == 1
    assert names(tmp_path) == set()


def test_download__nobody_there(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound and not listening: refuses
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(InputError, match=r"in 4 attempts\. 0 bytes came"):
            download(f"http://127.0.0.1:{taken.getsockname()[1]}/x", "x", tmp_path, None)


def test_download__two_at_a_time(web: Web, tmp_path: Path) -> None:
    lock = take_lock(tmp_path)
    assert lock is not None
    try:
        with pytest.raises(StoreError, match="Another process"):
            download(web.url("data.bin"), "x", tmp_path, None)
    finally:
        os.close(lock)
    download(web.url("data.bin"), "x", tmp_path, None)


def test_download__folder_that_cannot_be(web: Web, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot hold the download.*--cache"):
        download(web.url("data.bin"), "x", tmp_path / "file" / "cache", None)
