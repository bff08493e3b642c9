"""From a file of texts to labels, on the command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.command import THREEPASS, check_one_line_error, threepass
from tests.model.test_texts import write_posts
from threepass import Corpus, MomentLabeler


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    write_posts(folder / "train.jsonl")
    write_posts(folder / "test.jsonl", 30, seed=1)
    run = threepass(
        "ingest", folder / "train.jsonl", folder / "train.zarr", "--text", "text", "--labels", "labels"
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "150 documents x" in run.stdout
    assert threepass("fit", folder / "train.zarr", folder / "m.zarr", "-k", 3, "-q").returncode == 0
    return folder


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def piped(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))


def test_guess__is_said_on_stderr(folder: Path, tmp_path: Path) -> None:
    run = threepass("ingest", folder / "train.jsonl", tmp_path / "c.zarr")
    assert run.stderr == f"threepass: {folder}/train.jsonl: took text from 'text', labels from 'labels'.\n"
    assert threepass("ingest", folder / "train.jsonl", tmp_path / "d.zarr", "-q").stderr == ""


def test_ingest__settings_of_the_tokenizer(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "stop").write_text("wind\n\nSTORM\n")
    settings = [
        "--bigrams",
        "--keep-case",
        "--strip-accents",
        "--min-length",
        3,
        "--stop-words",
        tmp_path / "stop",
    ]
    limits = ["--min-df", 3, "--max-df", 0.9, "--max-terms", 20]
    threepass("ingest", folder / "train.jsonl", tmp_path / "a.zarr", *settings, *limits)
    corpus = Corpus.open(tmp_path / "a.zarr")
    assert corpus.n_terms == 20
    said = corpus.tokenizer
    assert said is not None
    assert (said.bigrams, said.lower, said.accents, said.min_length) == (True, False, False, 3)
    assert said.stop_words == ("wind", "STORM")
    assert "wind" not in corpus.terms
    more = ["--hash-bits", 7, "--token-pattern", "[a-z]+", "--stop-words", "english"]
    threepass("ingest", folder / "train.jsonl", tmp_path / "b.zarr", *more)
    corpus = Corpus.open(tmp_path / "b.zarr")
    assert corpus.n_terms == 128
    assert corpus.tokenizer is not None
    assert "the" in corpus.tokenizer.stop_words


def test_like_and_evaluate(folder: Path, tmp_path: Path) -> None:
    run = threepass("ingest", folder / "test.jsonl", tmp_path / "t.zarr", "--like", folder / "train.zarr")
    assert (run.returncode, run.stderr) == (0, "")
    scores = json.loads(threepass("evaluate", folder / "m.zarr", tmp_path / "t.zarr", "--json", "-").stdout)
    assert scores["p@1"] > 0.8
    threepass("ingest", folder / "test.jsonl", tmp_path / "other.zarr", "--min-df", 9)
    check_one_line_error(threepass("evaluate", folder / "m.zarr", tmp_path / "other.zarr"), "--like")
    run = threepass(
        "ingest", folder / "test.jsonl", tmp_path / "u.zarr", "--like", folder / "train.zarr", "--bigrams"
    )
    check_one_line_error(run, "Leave one out")


def test_predict__from_a_file(folder: Path, tmp_path: Path) -> None:
    run = threepass("predict", folder / "m.zarr", folder / "test.jsonl", tmp_path / "out.jsonl", "--top", 2)
    assert run.stdout == f"{tmp_path}/out.jsonl: the 2 best labels of 30 documents\n"
    told = lines((tmp_path / "out.jsonl").read_text())
    assert [(line["document"], line["id"]) for line in told] == [(i, f"d{i}") for i in range(30)]
    model = MomentLabeler.load(folder / "m.zarr")
    texts = [row["text"] for row in lines((folder / "test.jsonl").read_text())]
    labels, scores = model.predict_topk(texts, k=2)
    for line, own, their in zip(told, labels, scores, strict=True):
        assert line["labels"] == [model.label_names_[i] for i in own]
        assert line["scores"] == pytest.approx(their.tolist(), abs=1e-5)
    assert (
        lines(threepass("predict", folder / "m.zarr", folder / "test.jsonl", "-", "--top", 2).stdout) == told
    )
    check_one_line_error(
        threepass("predict", folder / "m.zarr", folder / "test.jsonl", tmp_path / "out.jsonl"),
        "exists already",
    )
    check_one_line_error(
        threepass("predict", folder / "m.zarr", folder / "test.jsonl", tmp_path / "o.parquet"),
        "Found the suffix '.parquet'. Name it with one of .jsonl, .ndjson, .csv, .tsv, or ingest the texts",
    )


def test_predict__of_a_corpus_as_lines(folder: Path, tmp_path: Path) -> None:
    source = folder / "train.zarr"
    told = lines(threepass("predict", folder / "m.zarr", source, "--top", 1).stdout)
    assert [line["document"] for line in told] == list(range(150))
    threepass("predict", folder / "m.zarr", source, tmp_path / "out.jsonl", "--top", 1)
    assert lines((tmp_path / "out.jsonl").read_text()) == told


def test_predict__from_a_pipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, "rain and snow\n\nship, wave\nÊtre".encode())
    told = lines(threepass("predict", folder / "m.zarr", "-", "--top", 1).stdout)
    assert [(line["document"], line["labels"]) for line in told] == [
        (0, ["weather"]),
        (2, ["sea"]),
        (3, ["sea"]),
    ]
    piped(monkeypatch, b'{"id": 7, "text": "bread soup cake"}\n{broken\n{"id": 8, "text": "tide ship"}\n')
    run = threepass("predict", folder / "m.zarr", "-", "--top", 1)
    first, bad, last = lines(run.stdout)
    assert [(line["document"], line["id"], line["labels"]) for line in (first, last)] == [
        (0, 7, ["food"]),
        (2, 8, ["sea"]),
    ]
    assert bad["document"] == 1
    assert str(bad["error"]).startswith("not JSON")
    assert "1 row was given an error in place of labels: standard input, line 2: not JSON" in run.stderr
    piped(monkeypatch, b'{"text": "x"}\n{broken\n')
    run = threepass("predict", folder / "m.zarr", "-", "--strict")
    assert "standard input, line 2: not JSON" in run.stderr
    assert run.returncode == 1
    piped(monkeypatch, b'{"words": "x"}\n')
    check_one_line_error(
        threepass("predict", folder / "m.zarr", "-"), "no column 'text'. Columns found: words"
    )
    piped(monkeypatch, b'{"words": "rain storm"}\n')
    assert (
        lines(threepass("predict", folder / "m.zarr", "-", "--text", "words").stdout)[0]["labels"][0]
        == "weather"
    )  # type: ignore[index]
    piped(monkeypatch, b" \n")
    check_one_line_error(
        threepass("predict", folder / "m.zarr", "-"), "no document to label in standard input"
    )


def test_predict__into_head(folder: Path) -> None:
    command = subprocess.Popen(
        [*THREEPASS, "predict", str(folder / "m.zarr"), "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdin is not None
    assert command.stdout is not None
    assert command.stderr is not None
    # the first answer is there before the input ends
    command.stdin.write(b"rain and storm\n")
    command.stdin.flush()
    first = json.loads(command.stdout.readline())
    assert first["labels"][0] == "weather"
    command.stdout.close()  # as head does
    with suppress(BrokenPipeError):
        command.stdin.write(b"more rain\n" * 100_000)
    with suppress(BrokenPipeError):
        command.stdin.close()
    assert command.wait(60) in (0, 1)
    assert command.stderr.read() == b""
    command.stderr.close()


def test_predict__needs_a_model_of_texts(folder: Path, tmp_path: Path) -> None:
    threepass("synth", "delicious", tmp_path / "c.zarr", "--scale", "0.02")
    threepass("fit", tmp_path / "c.zarr", tmp_path / "m.zarr", "-k", 2, "-q", "--head", "posterior")
    run = threepass("predict", tmp_path / "m.zarr", folder / "test.jsonl")
    check_one_line_error(run, "was not fitted to texts")


def test_ingest__what_looks_wrong_is_loud(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,description\n1,some rain\n2,some snow\n")
    run = threepass("ingest", tmp_path / "a.csv", tmp_path / "a.zarr", "-q")
    assert run.returncode == 0
    assert run.stderr.startswith("threepass: warning: ")
    assert "the corpus will have no labels" in run.stderr
    assert threepass("ingest", tmp_path / "a.csv", tmp_path / "b.zarr", "-q", "--labels", "").stderr == ""


def test_ingest__a_librarys_table(tmp_path: Path) -> None:
    text = 'id,description,subject\n1,"regn på ön","väder;öar"\n2,bröd,mat\n'
    (tmp_path / "a.csv").write_bytes(text.encode("cp1252"))
    run = threepass("ingest", tmp_path / "a.csv", tmp_path / "a.zarr")
    assert "took text from 'description', labels from 'subject', labels separated by ';'." in run.stderr
    assert "a.csv is not UTF-8, and read as cp1252" in run.stderr
    assert Corpus.open(tmp_path / "a.zarr").labels == ["mat", "väder", "öar"]
    run = threepass("ingest", tmp_path / "a.csv", tmp_path / "b.zarr", "-q", "--encoding", "latin-1")
    assert run.stderr == ""
    assert Corpus.open(tmp_path / "b.zarr").labels == ["mat", "väder", "öar"]
    check_one_line_error(
        threepass("ingest", tmp_path / "a.csv", tmp_path / "c.zarr", "--encoding", "x"), "is not known"
    )


def test_predict__tables_with_rows_that_cannot_be_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("id,text\na,rain and snow\nb\nc,qqq\n")
    run = threepass("predict", folder / "m.zarr", tmp_path / "new.csv", tmp_path / "out.csv", "--top", 1)
    assert run.stdout == f"{tmp_path}/out.csv: the 1 best label of 2 documents\n"
    assert "1 row was given an error in place of labels" in run.stderr
    header, first, bad, none = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "document,id,labels,scores,error"
    assert first.startswith("0,a,weather,0.")
    assert bad == "1,,,,a row has 1 cell and the first 2: 'b'"
    assert none == "2,c,,,"
    run = threepass("predict", folder / "m.zarr", folder / "train.zarr", tmp_path / "c.csv", "--top", 2)
    assert run.stdout == f"{tmp_path}/c.csv: the 2 best labels of 150 documents\n"
    assert (tmp_path / "c.csv").read_text().startswith("document,id,labels,scores\n0,d0,")
    check_one_line_error(
        threepass("predict", folder / "m.zarr", folder / "train.zarr", tmp_path / "c.xlsx"),
        "Found the suffix '.xlsx'. Name it with one of .jsonl, .ndjson, .csv, .tsv, .parquet, .zarr.",
    )
    check_one_line_error(
        threepass("predict", folder / "m.zarr", tmp_path / "new.csv", "-", "--strict"), "record 2"
    )
