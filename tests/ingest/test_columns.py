"""Which columns hold texts and labels, and labels in all the ways that tables hold them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from threepass import Corpus, InputError, ingest_text
from threepass.ingest.columns import ColumnChoice
from threepass.ingest.labels import listed_labels
from threepass.ingest.text import Tables
from threepass.text.info import Columns

TEXTS = ["Rain and wind over the coast.", "A ship on the high sea.", "Bread and soup for a cold day."]


def write_csv(path: Path, header: str, *rows: list[str]) -> Path:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    path.write_text(f"{header}\n{out.getvalue()}", encoding="utf-8")
    return path


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def labels_of(corpus: Corpus) -> list[set[str]]:
    Y = corpus.to_scipy()[1]
    return [
        {corpus.labels[j] for j in Y.indices[Y.indptr[i] : Y.indptr[i + 1]]} for i in range(corpus.n_docs)
    ]


def chosen(path: Path) -> Columns:
    return Tables.look_at(path, ColumnChoice()).columns


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("id,description,subject", "subject"),
        ("id,description,Subjects", "Subjects"),
        ("id,description,KEYWORD", "KEYWORD"),
        ("id,description,keywords", "keywords"),
        ("\ufeffid , Description, Topics ", "Topics"),
        ("id,description,genre", "genre"),
        ("id,dc.description,dc.subject[sv]", "dc.subject[sv]"),
    ],
)
def test_library__subjects_are_labels(tmp_path: Path, header: str, name: str) -> None:
    rows = [[str(i), text, ["storms;coast", "ships", "food;winter"][i]] for i, text in enumerate(TEXTS)]
    source = write_csv(tmp_path / "a.csv", header, *rows)
    corpus = ingest_text(source, tmp_path / "a.zarr")
    assert labels_of(corpus) == [{"storms", "coast"}, {"ships"}, {"food", "winter"}]
    assert corpus.info.text is not None
    assert corpus.info.text.columns.labels == name
    assert corpus.info.text.columns.text[0].lower() in ("description", "dc.description")
    assert "id" not in corpus.terms


def test_library__subjects_of_one_heading_each_that_repeat(tmp_path: Path) -> None:
    headings = ["Finnish literature in Swedish", "History of the Baltic", "Church music of Finland"]
    rows = [["A title", TEXTS[i % 3], headings[i % 3]] for i in range(30)]
    columns = chosen(write_csv(tmp_path / "a.csv", "title,abstract,subject", *rows))
    assert (columns.text, columns.labels, columns.separator) == (("title", "abstract"), "subject", "")


def test_mail__subject_is_a_title(tmp_path: Path) -> None:
    subjects = [
        "Re: the meeting on Tuesday, again",
        "Your invoice for March is here",
        "Lunch tomorrow at noon?",
    ]
    rows = [[subject, text, folder] for subject, text, folder in zip(subjects, TEXTS, "xyx", strict=True)]
    columns = chosen(write_csv(tmp_path / "a.csv", "subject,body,category", *rows))
    assert (columns.text, columns.labels) == (("subject", "body"), "category")
    with pytest.warns(UserWarning, match="will have no labels.*Columns found: subject, body, category"):
        Tables.look_at(tmp_path / "a.csv", ColumnChoice(["category"]))


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["a;b", "b", "c"], ";"),
        (["a ; b", "b", "c ;"], ";"),
        (["a | b", "b", "c"], "|"),
        (["a||b", "b", "c"], "||"),
        (["a || b", "b", "c"], "||"),
        (["a, b", "b", "c"], ","),
        (["a\nb", "b", "c\n"], "\n"),
        (['["a", "b"]', '["b"]', '["c"]'], "[]"),
        (["['a', 'b']", "['b', 'b']", "['c']"], "[]"),
        (["['a','b']", "['b']", " "], "[]"),
    ],
)
def test_separators__are_guessed(tmp_path: Path, cells: list[str], separator: str) -> None:
    rows = [[text, cell] for text, cell in zip(TEXTS, cells, strict=True)]
    source = write_csv(tmp_path / "a.csv", "text,tags", *rows)
    corpus = ingest_text(source, tmp_path / "a.zarr")
    wanted = [{"a", "b"}, {"b"}, {"c"} if cells[2].strip() else set()]
    assert labels_of(corpus) == wanted
    assert chosen(source).separator == separator
    # the same texts in JSON lines
    rows_ = [{"text": text, "tags": cell} for text, cell in zip(TEXTS, cells, strict=True)]
    again = ingest_text(write_jsonl(tmp_path / "a.jsonl", rows_), tmp_path / "b.zarr")
    assert labels_of(again) == wanted


def test_separators__a_mark_in_one_label_of_many_is_part_of_it(tmp_path: Path) -> None:
    rows = [[TEXTS[0], "rain, wind"] for _ in range(60)] + [[TEXTS[1], "ships; boats"]]
    assert chosen(write_csv(tmp_path / "a.csv", "text,tags", *rows)).separator == ","


def test_lists_in_cells__one_that_is_broken_is_left_out(tmp_path: Path) -> None:
    rows = [[TEXTS[0], '["a", "b"]']] * 210 + [
        [TEXTS[1], '["a", '],
        [TEXTS[2], "['x' 'y']"],
        [TEXTS[2], '["b"]'],
    ]
    source = write_csv(tmp_path / "a.csv", "text,tags", *rows)
    with pytest.warns(
        UserWarning, match=r"2 rows were left out: .*a.csv, record 211: the labels are not a list"
    ):
        corpus = ingest_text(source, tmp_path / "a.zarr")
    assert labels_of(corpus)[-1] == {"b"}
    assert corpus.n_docs == 211
    assert corpus.origins.of(corpus.doc_ids).rows.tolist()[-2:] == [209, 212]


@pytest.mark.parametrize(
    "text",
    ["a", "{}", '{"a": 1}', "[[1]]", "['a' 'b']", "[a, b]", "('a', 'b')", "[True]", "[" * 5000, "['a'"],
)
def test_listed_labels__what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="the labels are not a list of names"):
        listed_labels(text)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("labels", [None, "tags", "tags.label"])
def test_objects__their_names_are_labels(tmp_path: Path, kind: str, labels: str | None) -> None:
    tags = [[{"id": 1, "label": "a"}, {"id": 2, "label": "b"}], [], [{"id": 2, "label": "b"}]]
    rows = [{"text": text, "tags": own} for text, own in zip(TEXTS, tags, strict=True)]
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        write_jsonl(path, rows)
    else:
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    corpus = ingest_text(path, tmp_path / "a.zarr", labels=labels)
    assert labels_of(corpus) == [{"a", "b"}, set(), {"b"}]
    assert corpus.info.text is not None
    assert corpus.info.text.columns.labels == "tags.label"


@pytest.mark.parametrize("column", ["subject", "tags"])
def test_objects__in_cells(tmp_path: Path, column: str) -> None:
    cells = ['[{"id": 1, "label": "a"}, {"id": 2, "label": "b"}]', "[]", '{"id": 2, "label": "b"}']
    rows = [[text, cell] for text, cell in zip(TEXTS, cells, strict=True)]
    corpus = ingest_text(write_csv(tmp_path / "a.csv", f"text,{column}", *rows), tmp_path / "a.zarr")
    assert labels_of(corpus) == [{"a", "b"}, set(), {"b"}]
    nameless = write_csv(tmp_path / "b.csv", f"text,{column}", *([text, '[{"x": 1}]'] for text in TEXTS))
    with pytest.raises(InputError, match=r"not a list of names: .*Write them as JSON"):
        ingest_text(nameless, tmp_path / "b.zarr")


def test_objects__without_a_name_are_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": "some words", "tags": [{"x": 1, "y": 2}]}])
    with pytest.raises(InputError, match=r"'tags' is nested. It holds tags.x, tags.y. Name one of them"):
        ingest_text(source, tmp_path / "a.zarr", labels="tags")
    with pytest.warns(UserWarning, match="no labels"):
        ingest_text(source, tmp_path / "a.zarr")


def test_one_hot__is_refused_with_what_works(tmp_path: Path) -> None:
    rows = [
        [str(i), text, *bits] for i, (text, bits) in enumerate(zip(TEXTS, ["100", "011", "000"], strict=True))
    ]
    source = write_csv(tmp_path / "a.csv", "id,comment_text,toxic,rude,threat", *map(list, rows))
    with pytest.raises(InputError, match="3 columns of 0 and 1: toxic, rude, threat") as error:
        ingest_text(source, tmp_path / "a.zarr", text="comment_text")
    code = str(error.value).partition("as with pandas: ")[2].partition("; or pass")[0]
    names: dict[str, Any] = {"df": pd.read_csv(source)}
    exec(code.replace("rows.jsonl", str(tmp_path / "rows.jsonl")), names)
    corpus = ingest_text(tmp_path / "rows.jsonl", tmp_path / "b.zarr", text="comment_text")
    assert labels_of(corpus) == [{"toxic"}, {"rude", "threat"}, set()]
    assert ingest_text(source, tmp_path / "c.zarr", text="comment_text", labels="").n_labels == 0


@pytest.mark.parametrize("values", [["true", "false", "true"], ["True", "", "False"]])
def test_booleans__are_no_labels(tmp_path: Path, values: list[str]) -> None:
    rows = [[text, value] for text, value in zip(TEXTS, values, strict=True)]
    source = write_csv(tmp_path / "a.csv", "text,label", *rows)
    with pytest.raises(InputError, match="'label' are false and true, which are not names"):
        ingest_text(source, tmp_path / "a.zarr")
    typed = [{"text": text, "label": value == "true"} for text, value in zip(TEXTS, values, strict=True)]
    with pytest.raises(InputError, match="which are not names"):
        ingest_text(write_jsonl(tmp_path / "a.jsonl", typed), tmp_path / "a.zarr")
    late = [{"text": text, "label": "x"} for text in TEXTS] * 100 + [{"text": "late", "label": True}]
    with pytest.warns(UserWarning, match="1 row was left out.*the labels 'label' are true|one label only"):
        ingest_text(write_jsonl(tmp_path / "b.jsonl", late), tmp_path / "b.zarr")


def doubts(tmp_path: Path, labels: list[str], **options: Any) -> Any:
    rows = [[f"{TEXTS[i % 3]} word{i % 7}", label] for i, label in enumerate(labels)]
    source = write_csv(tmp_path / "a.csv", "text,tags", *rows)
    return ingest_text(source, tmp_path / "a.zarr", overwrite=True, **options)


def test_doubts__blanks_between_labels(tmp_path: Path) -> None:
    tags = ["rain", "wind", "snow", "ship", "wave", "tide", "bread", "soup", "cake"]
    labels = [f"{tags[i % 9]} {tags[i // 9 % 9]}" for i in range(100)]
    with pytest.warns(UserWarning, match=r"several in one: 81 .* 9 words.*pass --label-separator ' '"):
        doubts(tmp_path, labels)
    assert doubts(tmp_path, labels, label_separator=" ").n_labels == 9


def test_doubts__a_label_of_its_own_for_each_document(tmp_path: Path) -> None:
    labels = [f"shelf-{i}" for i in range(60)]
    with pytest.warns(
        UserWarning, match="a label of its own: 60 labels on 60 documents, 60 of them on one only"
    ):
        doubts(tmp_path, labels)
    doubts(tmp_path, [f"shelf-{i // 4}" for i in range(100)])
    doubts(tmp_path, [f"own-{i};all-{i % 3}" for i in range(60)])


def test_doubts__a_column_without_labels(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="No document has a label: the column 'tags' is empty"):
        doubts(tmp_path, [""] * 30)
