"""Files that are not UTF-8, and scripts that put no blanks between words."""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.test_texts import write_posts
from threepass import Corpus, InputError, MomentLabeler, Tokenizer, ingest_text, predict_texts
from threepass.ingest.encodings import as_utf8, guess_encoding
from threepass.model.text_predictions import TextReading, stream_predictions

ROWS = [
    {"id": 1, "text": "Räksmörgås på ön, café naïve", "tags": "mat;hav"},
    {"id": 2, "text": "ångbåtar och sjöar – en översikt", "tags": "hav"},
    {"id": 3, "text": "plain rows here", "tags": "övrigt"},
] * 4
WORDS = {"räksmörgås", "på", "ön", "café", "naïve", "ångbåtar", "och", "sjöar", "en", "översikt"}


def table(kind: str, rows: list[dict[str, Any]] = ROWS) -> str:
    if kind == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return "id,text,tags\n" + "".join(f'{row["id"]},"{row["text"]}",{row["tags"]}\n' for row in rows)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-32"])
def test_guess__is_said_and_used(tmp_path: Path, kind: str, encoding: str, pack: Any) -> None:
    source = tmp_path / f"a.{kind}"
    source.write_bytes(pack(table(kind).encode(encoding)))
    with pytest.warns(UserWarning, match=f"a.{kind} is not UTF-8, and read as {encoding}. .*--encoding"):
        corpus = ingest_text(source, tmp_path / "a.zarr")
    assert set(corpus.terms) >= WORDS
    assert corpus.labels == ["hav", "mat", "övrigt"]
    assert corpus.info.text is not None
    assert corpus.info.text.columns.encoding == encoding
    # named, nothing is warned of
    assert ingest_text(source, tmp_path / "b.zarr", encoding=encoding).terms == corpus.terms
    # what is read like it is read so as well, and what is UTF-8 as such
    if encoding == "cp1252":
        assert ingest_text(source, tmp_path / "c.zarr", like=corpus).info.nnz("X") == corpus.info.nnz("X")
        (tmp_path / f"u.{kind}").write_text(table(kind), encoding="utf-8")
        other = ingest_text(tmp_path / f"u.{kind}", tmp_path / "d.zarr", like=corpus)
        assert other.info.nnz("X") == corpus.info.nnz("X")
        assert other.info.text is not None
        assert other.info.text.columns.encoding is None


def test_guess__far_into_the_file(tmp_path: Path) -> None:
    rows = [{"id": 0, "text": "plain words " * 200, "tags": "x"}] * 500 + ROWS
    (tmp_path / "a.jsonl").write_bytes(table("jsonl", rows).encode("cp1252"))
    with pytest.warns(UserWarning, match="read as cp1252"):
        assert set(ingest_text(tmp_path / "a.jsonl", tmp_path / "a.zarr").terms) >= WORDS


def test_guess__not_where_nothing_tells(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "Дождь и ветер у берега моря", "tags": "море"}]
    (tmp_path / "a.jsonl").write_bytes(table("jsonl", rows).encode("cp1251"))
    with pytest.raises(InputError, match=r"its encoding cannot be guessed\. .*--encoding cp1251"):
        ingest_text(tmp_path / "a.jsonl", tmp_path / "a.zarr")
    with pytest.warns(UserWarning, match="one label only"):
        corpus = ingest_text(tmp_path / "a.jsonl", tmp_path / "a.zarr", encoding="windows-1251")
    assert "дождь" in corpus.terms
    for name in ("nonsense", "base64", "rot13", ""):
        with pytest.raises(InputError, match=r"The encoding is not known\. Found"):
            ingest_text(tmp_path / "a.jsonl", tmp_path / "b.zarr", encoding=name)


def test_named__bytes_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,tags\ncaf\x81 rain,a\nr\xe5n snow,b\n")  # 0x81 is nothing in it
    with pytest.warns(UserWarning, match="1 document is not UTF-8 throughout"):
        corpus = ingest_text(tmp_path / "a.csv", tmp_path / "a.zarr", encoding="cp1252")
    assert set(corpus.terms) == {"caf", "rain", "rån", "snow"}
    (tmp_path / "b.csv").write_text("text,tags\nrån snow,a\ncafé,b\n", encoding="utf-8")
    assert "rån" in ingest_text(tmp_path / "b.csv", tmp_path / "b.zarr", encoding="UTF8").terms


def test_predict__reads_as_training_did(tmp_path: Path) -> None:
    posts = write_posts(tmp_path / "posts.jsonl").read_text()
    (tmp_path / "train.jsonl").write_bytes(posts.replace("storm", "Storm å").encode("cp1252"))
    raw = '{"text": "Être"}\n{"text": "rain"}\n'.encode("cp1252")
    (tmp_path / "new.jsonl").write_bytes(raw)
    model = MomentLabeler(3).fit(
        ingest_text(tmp_path / "train.jsonl", tmp_path / "c.zarr", encoding="cp1252")
    )
    model.save(tmp_path / "m.zarr")
    loaded = MomentLabeler.load(tmp_path / "m.zarr")
    assert loaded.text_ == model.text_
    found = [json.loads(line) for line in predict_texts(loaded, tmp_path / "new.jsonl", k=1)]
    assert [record["labels"] for record in found] == [["sea"], ["weather"]]
    assert list(stream_predictions(loaded.predictor_, io.BytesIO(raw), k=1).records) == found
    utf_16 = io.BytesIO(raw.decode("cp1252").encode("utf-16"))
    how = TextReading(encoding="utf-16")
    assert list(stream_predictions(loaded.predictor_, utf_16, how, k=1).records) == found
    # a model that knows nothing of it
    plain = MomentLabeler(3).fit(ingest_text(write_posts(tmp_path / "p.jsonl"), tmp_path / "p.zarr"))
    with pytest.warns(UserWarning, match="Standard input is not UTF-8, and read as cp1252"):
        records = list(stream_predictions(plain.predictor_, io.BytesIO(raw), k=1).records)
    assert [record["labels"] for record in records] == [["sea"], ["weather"]]


@given(
    st.text(max_size=60), st.sampled_from(["cp1252", "utf-16", "utf-16-be", "shift_jis", "utf-7"]), st.data()
)
def test_as_utf8__in_pieces_of_any_size(text: str, encoding: str, data: Any) -> None:
    raw = text.encode(encoding, "replace")
    ref = raw.decode(encoding).encode("utf-8", "surrogatepass")
    stream = as_utf8(io.BytesIO(raw), encoding)
    found = b""
    while piece := stream.read(data.draw(st.integers(1, 9))):
        found += piece
    assert found == ref
    at = data.draw(st.integers(0, len(ref)))
    assert stream.seek(at) == at
    assert stream.read() == ref[at:]


def test_guess__of_utf_8_with_broken_bytes_is_none() -> None:
    good = "Räksmörgås på ön".encode()
    for raw in (good, good + b"\xff", good[:2], b"plain", b"", "中文字".encode() * 10 + b"\xe4"):
        assert guess_encoding(io.BytesIO(raw), "x") is None


ZH = "机器学习是人工智能的一个分支。它研究计算机怎样模拟或实现人类的学习行为,以获取新的知识或技能。"
TH = "การเรียนรู้ของเครื่องเป็นสาขาหนึ่งของปัญญาประดิษฐ์ที่ศึกษาการสร้างระบบที่เรียนรู้จากข้อมูล"


@pytest.mark.parametrize("text", [ZH, TH, f"{ZH} Machine learning"])
def test_no_blanks__are_warned_of_with_what_works(tmp_path: Path, text: str) -> None:
    rows = [{"text": text[i:], "labels": ["a", "b"][i % 2]} for i in range(20)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(UserWarning, match="hardly any blanks between words") as told:
        ingest_text(tmp_path / "a.jsonl", tmp_path / "a.zarr")
    options = shlex.split(re.findall(r"--token-pattern .* --min-length 1 --bigrams", str(told[0].message))[0])
    tokenizer = Tokenizer(pattern=options[1], min_length=int(options[3]), bigrams=True)
    corpus = ingest_text(tmp_path / "a.jsonl", tmp_path / "b.zarr", tokenizer=tokenizer)
    letters = {letter for letter in text if letter.isalpha() and not letter.isascii()}
    starts = {term[0] for term in corpus.terms}
    assert letters <= starts
    assert all(len(term) <= 9 for term in corpus.terms if not term.isascii())
    assert corpus.n_terms > 60


@pytest.mark.parametrize(
    "text", ["机器 学习 是 人工 智能 的 一个 分支", "a 学 plain text of words", "한국어는 띄어쓰기가 있다"]
)
def test_no_blanks__not_where_there_are(tmp_path: Path, text: str) -> None:
    rows = [{"text": f"{text} {i}", "labels": ["a", "b"][i % 2]} for i in range(20)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert isinstance(ingest_text(tmp_path / "a.jsonl", tmp_path / "a.zarr"), Corpus)
