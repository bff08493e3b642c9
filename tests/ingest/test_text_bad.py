"""What is wrong with a table of texts is said in a line, or counted and left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from threepass import InputError, Limits, MomentLabeler, Tokenizer, ingest_text
from threepass.ingest.sizes import Sizes

GOOD = [
    {"title": f"Post {i}", "body": f"some rain w{i % 5}", "tags": ["a", "b"][: 1 + i % 2]} for i in range(40)
]


def write(path: Path, *rows: Any) -> Path:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def refused(path: Path, tmp_path: Path, **options: Any) -> str:
    """The one line that says why a table was refused; nothing is left behind."""
    with pytest.raises(InputError) as error:
        ingest_text(path, tmp_path / "refused.zarr", **options)
    assert not list(tmp_path.glob("refused.zarr*"))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_column__those_there_are(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", *GOOD)
    assert "Columns found: title, body, tags. Did you mean 'title'?" in refused(
        source, tmp_path, text="titel"
    )
    assert "Pass one of them as --labels" in refused(source, tmp_path, labels="zzz")
    other = write(tmp_path / "b.jsonl", {"body": "x"})
    assert "b.jsonl has no column 'title'" in refused([source, other], tmp_path)  # type: ignore[arg-type]
    (tmp_path / "c.csv").write_text("a,b,c\nx y,z w,v u\n")
    assert "not clear which column holds the text. Columns found: a, b, c" in refused(
        tmp_path / "c.csv", tmp_path
    )


def test_nested__names_what_is_inside(tmp_path: Path) -> None:
    rows = [{"body": {"main": f"some text {i}", "x": 1}, "meta": {"tags": ["a", "b"][i:]}} for i in range(3)]
    source = write(tmp_path / "a.jsonl", *rows)
    assert "It holds body.main, body.x. Name one" in refused(source, tmp_path, text="body")
    corpus = ingest_text(source, tmp_path / "c.zarr", text="body.main", labels="meta.tags", limits=Limits(2))
    assert (corpus.terms, corpus.labels) == (["some", "text"], ["a", "b"])


def test_bad_rows__are_counted_and_shown(tmp_path: Path) -> None:
    bad = [
        {**GOOD[0], "body": {"x": 1}},
        {**GOOD[0], "body": [{"x": 1}]},
        {**GOOD[0], "tags": [{"name": "a"}]},
        {**GOOD[0], "tags": {"name": "a"}},
        b"[1, 2]",
        b"{broken",
        b'"text"',
        b"[" * 100_000,
    ]
    odd = [{**GOOD[0], "body": 5}, {**GOOD[0], "body": ["one", "two"]}, {**GOOD[0], "tags": "b"}, {}]
    source = write(tmp_path / "a.jsonl", *GOOD, b"", *bad, *odd)
    with pytest.warns(UserWarning, match="left out|no text") as told:
        corpus = ingest_text(source, tmp_path / "c.zarr", text=["title", "body"], labels="tags")
    assert corpus.n_docs == 44
    assert corpus.info.source["rows_left_out"] == 8
    message = str(told[0].message)
    assert message.startswith("8 rows were left out: ")
    assert "a.jsonl, line 42: the text 'body' is an object with the fields x" in message
    for row in bad:
        path = write(tmp_path / "one.jsonl", *GOOD, row)
        assert "one.jsonl, line 41: " in refused(path, tmp_path, strict=True)


def test_bad_rows__of_csv(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("body,tags\nrain and wind,a\nonly one cell\nsnow,b,more\nsnow and rain,b\n")
    with pytest.warns(
        UserWarning,
        match="2 rows were left out: .*a.csv, record 2: a row has 1 cell and the first 2: 'only one cell'",
    ):
        corpus = ingest_text(source, tmp_path / "c.zarr")
    assert corpus.n_docs == 2
    assert "record 2: a row has 1 cell" in refused(source, tmp_path, strict=True)


def test_broken_utf8__is_counted(tmp_path: Path) -> None:
    line = b'{"title": "x\xff\xferain", "body": "\xc3(", "tags": ["caf\xe9"]}'
    good = json.dumps({**GOOD[0], "body": "some naïve rain, été, Ångström, œuvre"}, ensure_ascii=False)
    source = write(tmp_path / "a.jsonl", *GOOD[1:], good.encode(), line)
    with pytest.warns(UserWarning, match="1 document is not UTF-8"):
        corpus = ingest_text(source, tmp_path / "c.zarr")
    assert corpus.labels == ["a", "b", "caf\ufffd"]
    assert corpus.terms[corpus.terms.index("rain")] == "rain"
    assert "1 text is not UTF-8" in refused(source, tmp_path, strict=True)
    (tmp_path / "b.jsonl").write_bytes('{"text": "x"}\n'.encode("utf-16-le"))
    assert "Is it UTF-16?" in refused(tmp_path / "b.jsonl", tmp_path)


@pytest.mark.parametrize("first", [True, False])
def test_long_line__is_left_out(tmp_path: Path, first: bool) -> None:
    sizes = Sizes(row_bytes=1_500_000)
    long = b'{"title": "' + b"x y " * 800_000 + b'", "tags": ["a"]}'
    source = write(tmp_path / "a.jsonl", *([long, *GOOD] if first else [*GOOD, long]))
    with pytest.warns(UserWarning, match=r"the row has 3,200,028 bytes; at most 1,500,000 are allowed"):
        corpus = ingest_text(source, tmp_path / "c.zarr", sizes=sizes)
    assert corpus.n_docs == 40
    (tmp_path / "a.csv").write_text("text,tags\n" + '"' + "x y " * 800_000 + '",a\n' + "x,b\n" * 3)
    assert "has a row of more than 1,500,000 bytes" in refused(tmp_path / "a.csv", tmp_path, sizes=sizes)


def test_nothing_left(tmp_path: Path) -> None:
    assert "has no row to begin with: 'nope" in refused(write(tmp_path / "a.jsonl", b"nope"), tmp_path)
    empty = [{**row, "title": "", "body": " \n"} for row in GOOD]
    said = refused(write(tmp_path / "b.jsonl", *empty), tmp_path)
    assert "Found 40 rows with nothing in title, body. Name another column" in said
    (tmp_path / "c.jsonl").write_text("\n \n")
    assert "is empty" in refused(tmp_path / "c.jsonl", tmp_path)
    (tmp_path / "c.csv").write_text("text,tags\n")
    assert "No document is left" in refused(tmp_path / "c.csv", tmp_path)
    said = refused(write(tmp_path / "d.jsonl", {"text": "a b c"}, {"text": "! ?"}), tmp_path, labels="")
    assert "There are no words in 2 documents" in said


def test_vocabulary__emptied_by_limits(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", *GOOD)
    said = refused(source, tmp_path, limits=Limits(min_df=1000))
    assert "The most frequent one is in 40 documents, and min_df is 1,000. Lower --min-df." in said
    said = refused(source, tmp_path, limits=Limits(min_df=1, max_df=0.001))
    assert "Raise --max-df" in said


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
@pytest.mark.parametrize(
    ("tags", "told"), [(["only"], "one label only, 'only'"), (["x", "y"], "the same labels")]
)
def test_labels__that_tell_nothing_apart_can_still_be_fitted(
    tmp_path: Path, tags: list[str], told: str
) -> None:
    source = write(tmp_path / "a.jsonl", *({**row, "tags": tags} for row in GOOD))
    with pytest.warns(UserWarning, match=told):
        corpus = ingest_text(source, tmp_path / "c.zarr")
    model = MomentLabeler(n_components=2).fit(corpus)
    labels, _ = model.predict_topk("some rain", k=3)
    assert sorted(labels[0, : len(tags)].tolist()) == list(range(len(tags)))
    assert model.evaluate(corpus)["p@1"] == 1


def test_files__that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(GOOD))
    assert "is one JSON list. Each line must be one object" in refused(tmp_path / "a.json", tmp_path)
    (tmp_path / "a.parquet").write_text("hello")
    assert "cannot be read as Parquet" in refused(tmp_path / "a.parquet", tmp_path)
    (tmp_path / "a.txt").write_text("hello")
    assert "is not a known kind of table" in refused(tmp_path / "a.txt", tmp_path)
    (tmp_path / "a.csv").write_text("text,text\nx,y\n")
    assert "two columns have the same name" in refused(tmp_path / "a.csv", tmp_path)
    (tmp_path / "b.csv").write_text("text,tags\nx y,\"['a' 'b']\"\n")
    assert "are lists in an unknown form" in refused(tmp_path / "b.csv", tmp_path)
    (tmp_path / "c.csv").write_text('text,tags\n"never closed,a\nx,b\n')
    assert "No document is left" in refused(tmp_path / "c.csv", tmp_path)
    (tmp_path / "d.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00broken")
    assert "cannot be decompressed" in refused(tmp_path / "d.jsonl.gz", tmp_path)


def test_parquet__with_columns_of_other_types(tmp_path: Path) -> None:
    table = pa.table(
        {"text": ["ab"], "tags": pa.array([[{"n": {"m": "a"}}]]), "map": pa.array([{"x": {"y": 1}}])}
    )
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    said = refused(tmp_path / "a.parquet", tmp_path, labels="tags.n")
    assert "The labels are neither texts, numbers nor lists" in said
    assert "is nested. It holds map.x.y" in refused(tmp_path / "a.parquet", tmp_path, text="map", labels="")
    assert "neither text nor a list of texts" in refused(
        tmp_path / "a.parquet", tmp_path, text="tags.n", labels=""
    )


def test_parquet__cut_short(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"text": ["some words"] * 1000}), tmp_path / "a.parquet")
    raw = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(raw[:200])
    assert "cannot be read as Parquet" in refused(tmp_path / "a.parquet", tmp_path)


def test_stop_words__may_leave_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", {"text": "the the", "tags": ["a"]})
    said = refused(source, tmp_path, tokenizer=Tokenizer(stop_words=("the",)))
    assert "There are no words" in said
