"""Corpora whose files or metadata are damaged, or made to do harm: refused in a line that says where."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zarr.abc.codec
import zarr.registry

from tests.corpus.damage import refused, use
from tests.damage import edit, edit_mark
from threepass import Corpus, StoreError

ARRAYS = [
    "X/00002/indptr",
    "X/00002/indices",
    "X/00002/data",
    "Y/00002/indptr",
    "Y/00002/indices",
    "term_ids",
    "term_counts",
    "label_counts",
    "names/terms/bytes",
    "names/terms/offsets",
    "names/labels/bytes",
    "names/labels/offsets",
]


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "append", "remove chunk", "remove"])
def test_files__damage_is_named(store: Path, name: str, damage: str) -> None:
    chunk = store / name / "c/0"
    content = bytearray(chunk.read_bytes())
    if damage == "flip":
        content[-3] ^= 1
        chunk.write_bytes(content)
    elif damage == "truncate":
        chunk.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        chunk.write_bytes(b"")
    elif damage == "append":
        chunk.write_bytes(content + b"\0")
    elif damage == "remove chunk":
        chunk.unlink()
    else:
        shutil.rmtree(store / name)
    where = (
        name.rpartition("/")[0] if name[0] in "XY" else name
    )  # of a block, which of its arrays is not known
    refused(store, f"damaged at {where}.*Ingest the source again")


def test_files__other_blocks_can_be_read(store: Path) -> None:
    shutil.rmtree(store / "X/00002")
    corpus = Corpus.open(store)
    corpus.block(1)
    with pytest.raises(StoreError, match=r"X/00002/indptr: it is missing"):
        corpus.block(2)


def test_files__swapped_blocks(store: Path) -> None:
    for side in "XY":
        (store / side / "00001").rename(store / "aside")
        (store / side / "00002").rename(store / side / "00001")
        (store / "aside").rename(store / side / "00002")
    refused(store, "damaged at X/0000[12]")


@pytest.mark.parametrize("name", ["zarr.json", "term_ids/zarr.json", "X/00001/indices/zarr.json"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        b"[" * 900 + b"]" * 900,
        b'{"node_type": "array"}',
        b'"a"',
    ],
    ids=lambda content: content[:10].decode(errors="replace"),
)
def test_files__metadata_that_is_none(store: Path, name: str, content: bytes) -> None:
    (store / name).write_bytes(content)
    refused(store, name)


@pytest.mark.parametrize(
    "name", ["zarr.json", "term_ids/c/0", "X/00001/indices", "X/00001/indptr/c", "names"]
)
def test_links__out_of_the_store_are_refused(store: Path, tmp_path: Path, name: str) -> None:
    shutil.move(store / name, tmp_path / "outside")
    (store / name).symlink_to(tmp_path / "outside")
    refused(store, "a link that leads out of the store")


def test_links__within_the_store_and_to_it_are_fine(store: Path, whole: Path, tmp_path: Path) -> None:
    shutil.move(store / "term_ids", store / "ids")
    (store / "term_ids").symlink_to("ids")
    (tmp_path / "link").symlink_to(store)
    assert use(tmp_path / "link") == use(whole)


def test_links__in_a_circle(store: Path) -> None:
    (store / "term_ids/c/0").unlink()
    (store / "term_ids/c/0").symlink_to("0")
    refused(store, "term_ids")


@pytest.mark.parametrize("name", ["zarr.json", "term_ids/c/0"])
def test_files__a_pipe_is_not_waited_for(store: Path, name: str) -> None:
    (store / name).unlink()
    os.mkfifo(store / name)
    refused(store, "it is not a file")


# -- metadata of arrays -----------------------------------------------------------------------------------


def blosc(**changes: Any) -> list[dict[str, Any]]:
    own = {"typesize": 4, "cname": "zstd", "clevel": 1, "shuffle": "shuffle", "blocksize": 2**20}
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    return [little, {"name": "blosc", "configuration": {**own, **changes}}]


@pytest.mark.parametrize("name", ["term_ids", "X/00002/indices"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shape", [10**12]),
        ("shape", [2**26]),
        ("shape", [-1]),
        ("shape", []),
        ("shape", [1.5]),
        ("shape", [[5]]),
        ("shape", None),
        ("data_type", "int64"),
        ("data_type", "uint32"),
        ("data_type", "string"),
        ("data_type", {"name": "struct"}),
        ("data_type", None),
        ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [10**12]}}),
        ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [1]}}),
        ("chunk_grid", None),
        ("chunk_key_encoding", {"name": "v2", "configuration": {"separator": "."}}),
        ("codecs", []),
        ("codecs", None),
        ("codecs", [{"name": "bytes", "configuration": {"endian": "little"}}]),
        ("codecs", [{"name": "bytes", "configuration": {"endian": "big"}}, blosc()[1]]),
        ("codecs", [blosc()[0], {"name": "gzip", "configuration": {"level": 1}}]),
        ("codecs", [{"name": "numcodecs.pickle", "configuration": {}}]),
        ("codecs", blosc(cname="lz4")),
        ("codecs", blosc(typesize=1)),
        ("codecs", [*blosc(), {"name": "crc32c"}]),
        ("storage_transformers", [{"name": "x"}]),
        ("fill_value", "NaN"),
        ("fill_value", float("nan")),
        ("fill_value", 2**70),
        ("fill_value", True),
        ("fill_value", None),
        ("zarr_format", 2),
        ("node_type", "group"),
    ],
    ids=str,
)
def test_metadata__only_what_is_written_is_read(store: Path, name: str, key: str, value: Any) -> None:
    edit(store / name / "zarr.json", lambda metadata: metadata.update({key: value}))
    refused(store, f"damaged at {name}")


@pytest.mark.parametrize("key", ["shape", "data_type", "codecs", "fill_value", "chunk_grid", "node_type"])
def test_metadata__what_is_left_out(store: Path, key: str) -> None:
    edit(store / "X/00002/indices/zarr.json", lambda metadata: metadata.pop(key))
    refused(store, "damaged at X/00002/indices")


def test_metadata__no_foreign_codec_is_ever_made(store: Path) -> None:
    made = []

    class Foreign(zarr.abc.codec.BytesBytesCodec):
        @classmethod
        def from_dict(cls, data: Any) -> Any:
            made.append(data)
            raise AssertionError("it was made")

    zarr.registry.register_codec("foreign", Foreign)
    codecs = [*blosc(), {"name": "foreign"}]
    edit(store / "X/00002/indices/zarr.json", lambda metadata: metadata.update(codecs=codecs))
    refused(store, "damaged at X/00002/indices")
    # nor by way of the root, which may hold the metadata of all arrays
    shutil.copy(store / "X/00002/indices/zarr.json", store / "term_ids/zarr.json")
    held = {"kind": "inline", "must_understand": False}
    held |= {"metadata": {"term_ids": json.loads((store / "term_ids/zarr.json").read_text())}}
    edit(store / "zarr.json", lambda metadata: metadata.update(consolidated_metadata=held))
    refused(store, "consolidated")
    assert made == []


@pytest.mark.parametrize("n", [2**26, 10**9, 10**12])
def test_metadata__absurd_sizes_take_no_memory(store: Path, n: int) -> None:
    """Everything agrees on them: the root, the metadata of the array, and the header of its chunk."""

    def grow(metadata: dict[str, Any]) -> None:
        metadata["shape"] = [n]
        metadata["chunk_grid"]["configuration"]["chunk_shape"] = [min(n, 2**27)]

    for name in ("X/00002/indices", "X/00002/data"):
        edit(store / name / "zarr.json", grow)
        chunk = bytearray((store / name / "c/0").read_bytes())
        chunk[4:8] = min(2**32 - 1, min(n, 2**27) * (4 if "ind" in name else 1)).to_bytes(4, "little")
        (store / name / "c/0").write_bytes(chunk)
    edit_mark(store, lambda mark: mark.update(n_terms=23, n_docs=n + mark["n_docs"]))
    edit_mark(store, lambda mark: mark["blocks"][2].update(n_docs=n + mark["blocks"][2]["n_docs"], x_nnz=n))
    tracemalloc.start()
    refused(store, "damaged at X/00002")
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_metadata__a_chunk_that_unpacks_into_more(store: Path) -> None:
    chunk = store / "X/00002/indices/c/0"
    content = bytearray(chunk.read_bytes())
    content[4:8] = (2**30).to_bytes(4, "little")
    chunk.write_bytes(content)
    refused(store, "X/00002/indices/c/0: .* hold 1,073,741,824")


def test_metadata__a_chunk_packed_by_another_codec(store: Path) -> None:
    chunk = store / "X/00002/indices/c/0"
    content = bytearray(chunk.read_bytes())
    content[2] = (content[2] & 31) | 1 << 5  # LZ4
    chunk.write_bytes(content)
    refused(store, "X/00002/indices/c/0: it was not packed by")
