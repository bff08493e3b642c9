"""Labels of tables of texts can be joined back to their rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zarr
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests import naive_text
from tests.model.test_texts import write_posts
from threepass import Corpus, InputError, MomentLabeler, check, ingest_text, predict_texts
from threepass.ingest.batches import ColumnSelection
from threepass.ingest.csv_rows import CsvFile
from threepass.ingest.sizes import Sizes
from threepass.model.predictions import corpus_records, predict_to_file
from threepass.model.text_predictions import stream_predictions
from threepass.text.info import Columns

Record = dict[str, Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> MomentLabeler:
    folder = tmp_path_factory.mktemp("rows")
    corpus = ingest_text(write_posts(folder / "posts.jsonl"), folder / "c.zarr")
    return MomentLabeler(n_components=3).fit(corpus)


def told(model: MomentLabeler, *sources: Path, k: int = 1, **options: Any) -> list[Record]:
    return [json.loads(line) for line in predict_texts(model, list(sources), k=k, **options)]


LINES = [
    '{"id": "a", "text": "rain and snow", "labels": []}',
    "",
    '{"id": "b", "text": {"x": 1}}',
    "{broken",
    '{"id": "c", "text": "ship wave"}',
    "  ",
    '{"id": "d", "text": "qqqq zzzz"}',
    "[1]",
    '{"id": "e", "text": ""}',
    '{"id": "f", "text": "bread soup"}',
    "",
]


def check_lines(records: list[Record]) -> None:
    """That records are those of LINES."""
    assert [(record["document"], record.get("id")) for record in records] == [
        *((0, "a"), (2, "b"), (3, None), (4, "c"), (6, "d"), (7, None), (8, "e"), (9, "f")),
    ]
    assert [record.get("labels") for record in records] == [
        *(["weather"], None, None, ["sea"], [], None, [], ["food"]),
    ]
    assert [record.get("known_words") for record in records] == [*(None,) * 4, 0, None, 0, None]
    errors = [record.get("error", "") for record in records]
    assert errors[1] == "the text 'text' is an object with the fields x"
    assert errors[2].startswith("not JSON")
    assert errors[5] == "not an object with named fields, but a list"
    assert [bool(error) for error in errors] == ["labels" not in record for record in records]


@pytest.mark.filterwarnings("ignore:.*no text", "ignore:. rows were given an error")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("piece", [10, 60, 8_000_000])
def test_json_lines__rows_keep_their_numbers(
    model: MomentLabeler, tmp_path: Path, pack: Any, piece: int
) -> None:
    source = tmp_path / "new.jsonl"
    source.write_bytes(pack("\n".join(LINES).encode()))
    sizes = Sizes(piece_bytes=piece, table_part_bytes=2 * piece)
    check_lines(told(model, source, sizes=sizes))


@pytest.mark.filterwarnings("ignore:.*no text", "ignore:. rows were given an error")
def test_pipe__rows_keep_their_numbers(model: MomentLabeler) -> None:
    stream = io.BytesIO("\n".join(LINES).encode())
    check_lines(list(stream_predictions(model.predictor_, stream, k=1).records))
    # a line at a time, the first of them blank or broken

    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return self.readline()

    slow = Slow(("\n \n{broken\n" + "\n".join(LINES)).encode())
    first, *others = stream_predictions(model.predictor_, slow, k=1).records
    assert (first["document"], first["error"][:8]) == (2, "not JSON")
    check_lines([{**record, "document": record["document"] - 3} for record in others])


def test_pipe__plain_lines(model: MomentLabeler) -> None:
    stream = io.BytesIO(b"\n\nrain snow\r\n\n ship \n")
    records = list(stream_predictions(model.predictor_, stream, k=1).records)
    assert [(record["document"], record["labels"]) for record in records] == [(2, ["weather"]), (4, ["sea"])]


CSV = 'id,text\na,"rain\n\nand snow"\n\nonly\nc,ship wave\nd,one,two\ne,"say ""bread"", soup"\nf,x,\n'


def test_csv__rows_are_records(model: MomentLabeler, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(CSV)
    with pytest.warns(
        UserWarning, match=r"3 rows were given an error in place of labels: .*new\.csv, record 2: "
    ):
        records = told(model, tmp_path / "new.csv")
    assert [(record["document"], record.get("id")) for record in records] == [
        *((0, "a"), (1, None), (2, "c"), (3, None), (4, "e"), (5, None)),
    ]
    assert [record.get("labels") for record in records] == [["weather"], None, ["sea"], None, ["food"], None]
    assert records[1]["error"] == "a row has 1 cell and the first 2: 'only'"
    rows = list(csv.DictReader(io.StringIO(CSV)))
    assert [rows[record["document"]]["id"] for record in records if "id" in record] == ["a", "c", "e"]
    with pytest.raises(InputError, match=r"record 2: a row has 1 cell.*Fix the row"):
        told(model, tmp_path / "new.csv", strict=True)


cells = st.text('ab",;\n\r ', max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.lists(cells, min_size=1, max_size=4), max_size=12), st.sampled_from(["\n", "\r\n"]))
@example([["a", "b"], ["c"], ["d", "e"], ["f"], ["g"], ["h", "i"]], "\n")
def test_csv__places_are_those_of_the_csv_module(tmp_path: Path, rows: list[list[str]], newline: str) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=newline).writerows([["one", "two"], *rows])
    raw = text.getvalue().encode()
    (tmp_path / "a.csv").write_bytes(raw)
    columns = ColumnSelection(Columns(("one", "two")), labels=False)
    good, bad, first = [], [], 0
    with CsvFile.open(tmp_path / "a.csv", None, row_bytes=64) as file:
        for batch in file.batches(columns):
            texts = zip(*(column.to_pylist() for column in batch.texts), strict=True)
            good += [
                (first + row, [cell.decode() for cell in own])
                for row, own in zip(batch.rows.tolist(), texts, strict=True)
            ]
            bad += [first + row.row for row in batch.refused]
            first += batch.n_rows
    assert (good, bad) == naive_text.csv_records(raw)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_several_files__each_counts_its_own(model: MomentLabeler, tmp_path: Path, kind: str) -> None:
    paths = []
    for name, texts in (("one", ["rain", "ship"]), ("two", ["soup", "snow", "wave"])):
        rows = [{"text": text} for text in texts]
        paths.append(tmp_path / f"{name}.{kind}")
        if kind == "jsonl":
            paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif kind == "csv":
            paths[-1].write_text("\n".join(["text", *texts]))
        else:
            pa.parquet.write_table(pa.Table.from_pylist(rows), paths[-1], row_group_size=2)
    records = told(model, *paths)
    assert [(record["file"], record["document"]) for record in records] == [
        *((f"one.{kind}", 0), (f"one.{kind}", 1)),
        *((f"two.{kind}", 0), (f"two.{kind}", 1), (f"two.{kind}", 2)),
    ]
    assert "file" not in told(model, paths[0])[0]


def rounded(records: list[Record]) -> list[Record]:
    return [{**record, "scores": pytest.approx(record["scores"], abs=2e-6)} for record in records]


def gaps(path: Path, n: int = 40, first: int = 0) -> Path:
    """Posts with lines between them that are blank or broken."""
    lines = []
    for i, line in enumerate(write_posts(path, n, seed=first).read_text().splitlines()):
        lines += [line.replace(f'"d{i}"', str(first + i)), *(["", "{broken"] if i % 7 == 3 else [])]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.filterwarnings("ignore:.*left out", "ignore:.*were given an error")
@pytest.mark.parametrize("n_files", [1, 2])
def test_corpus__documents_are_rows_of_their_files(
    model: MomentLabeler, tmp_path: Path, n_files: int
) -> None:
    sizes = Sizes(table_part_bytes=1500, piece_bytes=700)
    like = ingest_text(write_posts(tmp_path / "train.jsonl"), tmp_path / "train.zarr", sizes=sizes)
    paths = [gaps(tmp_path / f"part-{i}.jsonl", first=100 * i) for i in range(n_files)]
    corpus = ingest_text(paths, tmp_path / "new.zarr", like=like, block_bytes=2000, sizes=sizes)
    assert corpus.n_docs == 40 * n_files
    assert check(tmp_path / "new.zarr").is_whole
    from_texts = [record for record in told(model, *paths, k=2, sizes=sizes) if "error" not in record]
    assert list(corpus_records(model.predictor_, corpus, 2)) == rounded(from_texts)
    test = corpus.split(test=0.3, seed=1)[1].head(7)
    wanted = [from_texts[i] for i in test.doc_ids.tolist()]
    assert list(
        corpus_records(model.predictor_, Corpus.open(tmp_path / "new.zarr").split(0.3, 1)[1].head(7), 2)
    ) == rounded(wanted)
    predict_to_file(model, test, tmp_path / "out.parquet", k=2)
    found = pa.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["document"], row.get("file"), row["id"], row["names"]) for row in found] == [
        (row["document"], row.get("file"), str(row["id"]), row["labels"]) for row in wanted
    ]


def test_corpus__without_gaps_and_ids_has_no_origins(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,tags\nrain,a\nsnow,b\n")
    corpus = ingest_text(tmp_path / "a.csv", tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr/origins").exists()
    assert list(corpus.origins.of(np.array([1])).records()) == [{"document": 1}]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_csv_out__can_be_split_again(model: MomentLabeler, tmp_path: Path, suffix: str) -> None:
    like = ingest_text(write_posts(tmp_path / "train.jsonl", 30), tmp_path / "train.zarr")
    predict_to_file(model, like, tmp_path / f"out.{suffix}", k=2)
    with (tmp_path / f"out.{suffix}").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t" if suffix == "tsv" else ","))
    wanted = list(corpus_records(model.predictor_, like, 2))
    assert list(rows[0]) == ["document", "id", "labels", "scores"]
    for row, record in zip(rows, wanted, strict=True):
        assert (int(row["document"]), row["id"]) == (record["document"], record["id"])
        assert row["labels"].split(";") == record["labels"]
        assert [float(score) for score in row["scores"].split(";")] == record["scores"]


@pytest.mark.parametrize("name", ["out.txt", "out.json", "out.xlsx", "out.csv.gz"])
def test_out__other_suffixes_are_refused(model: MomentLabeler, tmp_path: Path, name: str) -> None:
    corpus = ingest_text(write_posts(tmp_path / "train.jsonl", 10), tmp_path / "train.zarr")
    with pytest.raises(
        InputError, match=r"Name it with one of .jsonl, .ndjson, .csv, .tsv, .parquet, .zarr\."
    ):
        predict_to_file(model, corpus, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_no_known_words__no_labels_in_any_format(model: MomentLabeler, tmp_path: Path) -> None:
    like = ingest_text(write_posts(tmp_path / "train.jsonl", 150), tmp_path / "train.zarr")
    (tmp_path / "new.csv").write_text("text,labels\nqqq,sea\nrain,sea\n")
    corpus = ingest_text(tmp_path / "new.csv", tmp_path / "new.zarr", like=like)
    predict_to_file(model, corpus, tmp_path / "p.zarr", k=1)
    labels = zarr.open_group(tmp_path / "p.zarr", mode="r")["labels"][:]
    assert labels.ravel().tolist() == [-1, model.label_names_.index("weather")]
    predict_to_file(model, corpus, tmp_path / "p.parquet", k=1)
    assert pa.parquet.read_table(tmp_path / "p.parquet")["names"].to_pylist() == [[], ["weather"]]
    predict_to_file(model, corpus, tmp_path / "p.jsonl", k=1)
    first, second = map(json.loads, (tmp_path / "p.jsonl").read_text().splitlines())
    assert (first["labels"], first["scores"], first["known_words"]) == ([], [], 0)
    assert "known_words" not in second
