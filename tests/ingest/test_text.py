from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests import naive_text
from threepass import Corpus, InputError, Limits, Tokenizer, check, ingest_text, ingest_xmc
from threepass.ingest.columns import ColumnChoice
from threepass.ingest.sizes import Sizes

Row = dict[str, Any]


def posts(n: int = 120, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    words = [
        "Rain",
        "spain",
        "it's",
        "Été",
        "naïve",
        "snow",
        "wind;",
        "sea,",
        "x",
        '"quoted"',
        "中文",
        "a\nb",
    ]
    return [
        {
            "id": i,
            "title": " ".join(rng.choice(words, rng.integers(0, 4))),
            "body": " ".join(rng.choice(words, rng.integers(0, 20)) if i % 9 else []),
            "tags": [f"tag {j}" for j in rng.integers(0, 5, rng.integers(0, 4)).tolist()],
        }
        for i in range(n)
    ]


def write_jsonl(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def write_csv(path: Path, rows: list[Row], delimiter: str = ",") -> Path:
    import csv

    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(rows[0])
        writer.writerows([*list(row.values())[:-1], " ; ".join(row["tags"])] for row in rows)
    return path


def documents(corpus: Corpus) -> list[tuple[dict[str, float], set[str]]]:
    """Every document as words with counts, and labels."""
    X, Y = corpus.to_scipy()
    return [
        (
            {corpus.terms[j]: float(v) for j, v in zip(*_row(X, i), strict=True)},
            {corpus.labels[j] for j in _row(Y, i)[0]},
        )
        for i in range(corpus.n_docs)
    ]


def _row(matrix: Any, i: int) -> tuple[list[int], list[float]]:
    part = slice(matrix.indptr[i], matrix.indptr[i + 1])
    return matrix.indices[part].tolist(), matrix.data[part].tolist()


def expected(
    rows: list[Row], tokenizer: Tokenizer, keep: Callable[[str, int], bool] = lambda *_: True
) -> Any:
    """What `documents` has to say of rows."""
    counted = [naive_text.terms([row["title"].encode(), row["body"].encode()], tokenizer) for row in rows]
    df = Counter(term for terms in counted for term in terms)
    return [
        ({term: float(n) for term, n in terms.items() if keep(term, df[term])}, set(row["tags"]))
        for terms, row in zip(counted, rows, strict=True)
    ]


@pytest.mark.parametrize("tokenizer", [Tokenizer(), Tokenizer(bigrams=True, lower=False, accents=False)])
def test_jsonl__as_counted_by_hand(tmp_path: Path, tokenizer: Tokenizer) -> None:
    rows = posts()
    source = write_jsonl(tmp_path / "posts.jsonl", rows)
    with pytest.warns(UserWarning, match="documents have no text"):
        corpus = ingest_text(source, tmp_path / "c.zarr", tokenizer=tokenizer, block_bytes=2000)
    assert corpus.n_blocks > 3
    assert documents(corpus) == expected(rows, tokenizer)
    assert corpus.labels == sorted(set().union(*(row["tags"] for row in rows)))
    assert [corpus.terms[i] for i in np.argsort(corpus.term_ids)] == sorted(corpus.terms)
    assert check(tmp_path / "c.zarr").is_whole
    assert corpus.tokenizer == tokenizer
    assert corpus.info.text is not None
    assert corpus.info.text.columns.text == ("title", "body")


@pytest.mark.filterwarnings("ignore:.*no text")
def test_formats__give_the_same_corpus(tmp_path: Path) -> None:
    rows = posts()
    plain = write_jsonl(tmp_path / "posts.jsonl", rows)
    csv = write_csv(tmp_path / "posts.csv", rows)
    sources = [plain, csv, write_csv(tmp_path / "posts.tsv", rows, "\t")]
    for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        for source in (plain, csv):
            sources.append(tmp_path / (source.name + suffix))
            sources[-1].write_bytes(pack(source.read_bytes()))
    sources.append(tmp_path / "bom.ndjson")
    sources[-1].write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    sources.append(tmp_path / "no_suffix")
    sources[-1].write_bytes(plain.read_bytes())
    sources.append(tmp_path / "posts.parquet")
    pa.parquet.write_table(pa.Table.from_pylist(rows), sources[-1], row_group_size=17)
    wanted = expected(rows, Tokenizer())
    prints = set()
    for i, source in enumerate(sources):
        corpus = ingest_text(source, tmp_path / f"{i}.zarr")
        assert documents(corpus) == wanted, source
        prints.add(corpus.fingerprint)
    assert len(prints) == 1


@pytest.mark.filterwarnings("ignore:.*no text")
def test_result__does_not_depend_on_parts_threads_or_runs(tmp_path: Path) -> None:
    rows = posts(400)
    source = write_jsonl(tmp_path / "posts.jsonl", rows)
    for name, some in (("a", rows[:150]), ("b", rows[150:])):
        write_jsonl(tmp_path / f"part-{name}.jsonl", some)
    tokenizer = Tokenizer(bigrams=True)
    whole = documents(ingest_text(source, tmp_path / "whole.zarr", tokenizer=tokenizer, n_threads=1))
    several = ingest_text(str(tmp_path / "part-?.jsonl"), tmp_path / "several.zarr", tokenizer=tokenizer)
    assert documents(several) == whole
    # many runs, merged in many shares
    sizes = Sizes(table_part_bytes=5000, piece_bytes=700, run_terms=20)
    cut = ingest_text(source, tmp_path / "cut.zarr", tokenizer=tokenizer, block_bytes=1500, sizes=sizes)
    assert documents(cut) == whole
    assert cut.terms == several.terms


@pytest.mark.filterwarnings("ignore:.*no text")
def test_limits__by_document_frequency(tmp_path: Path) -> None:
    rows = posts()
    source = write_jsonl(tmp_path / "posts.jsonl", rows)
    tokenizer = Tokenizer(bigrams=True)
    limits = Limits(min_df=5, max_df=0.5)
    corpus = ingest_text(source, tmp_path / "a.zarr", tokenizer=tokenizer, limits=limits)
    assert documents(corpus) == expected(rows, tokenizer, lambda _, df: 5 <= df <= 60)
    assert corpus.info.source["terms_left_out"] > 0
    few = ingest_text(source, tmp_path / "b.zarr", tokenizer=tokenizer, limits=Limits(max_terms=7))
    every = ingest_text(source, tmp_path / "c.zarr", tokenizer=tokenizer)
    assert few.terms == every.terms[:7]
    for wrong in ({"min_df": 0}, {"max_df": 0.0}, {"max_df": 2.0}, {"max_terms": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Limits(**wrong)  # type: ignore[arg-type]


def test_limits__rare_words_are_left_out_of_many_documents() -> None:
    assert (Limits().least(999), Limits().least(1000), Limits(min_df=7).least(10**6)) == (1, 2, 7)


@pytest.mark.filterwarnings("ignore:.*no text")
def test_hash_bits__as_dask_ml_hashes(tmp_path: Path) -> None:
    from dask_ml.feature_extraction.text import HashingVectorizer

    rows = posts()
    tokenizer = Tokenizer(bigrams=True, hash_bits=5)  # few columns, so that words fall together
    source = write_jsonl(tmp_path / "posts.jsonl", rows)
    corpus = ingest_text(source, tmp_path / "c.zarr", tokenizer=tokenizer)
    peer = HashingVectorizer(
        n_features=32,
        alternate_sign=False,
        norm=None,
        analyzer=lambda row: list(
            naive_text.terms([row["title"].encode(), row["body"].encode()], tokenizer).elements()
        ),
    )
    X = corpus.to_scipy()[0].toarray()
    np.testing.assert_array_equal(X, peer.transform(rows).toarray()[:, corpus.term_ids])
    assert corpus.shape == (120, 32)
    assert check(tmp_path / "c.zarr").is_whole


@pytest.mark.filterwarnings("ignore:.*no text")
@pytest.mark.parametrize("tokenizer", [Tokenizer(bigrams=True), Tokenizer(hash_bits=6)])
def test_like__has_the_columns_of_another_corpus(tmp_path: Path, tokenizer: Tokenizer) -> None:
    rows, others = posts(60), posts(50, seed=1)
    others[3]["tags"] = ["never seen", "tag 1", "never seen"]
    others[4]["tags"] = ["tag 1", "other"]
    train = ingest_text(write_jsonl(tmp_path / "a.jsonl", rows), tmp_path / "a.zarr", tokenizer=tokenizer)
    with pytest.warns(UserWarning, match=r"2 labels are not .* Left out 3 times: never seen, other\."):
        test = ingest_text(
            write_csv(tmp_path / "b.csv", others), tmp_path / "b.zarr", like=tmp_path / "a.zarr"
        )
    assert test.labels == train.labels
    assert (test.n_terms, test.tokenizer) == (train.n_terms, tokenizer)
    if tokenizer.hash_bits is None:
        assert sorted(test.terms) == sorted(train.terms)
        others[3]["tags"], others[4]["tags"] = ["tag 1"], ["tag 1"]
        known = set(train.terms)
        assert documents(test) == expected(others, tokenizer, lambda term, _: term in known)
        # by source ids, which is how models see them, columns are the same
        same = np.argsort(test.term_ids)
        assert [test.terms[i] for i in same] == [train.terms[i] for i in np.argsort(train.term_ids)]
    with pytest.raises(InputError, match="Leave one out"):
        ingest_text(tmp_path / "a.jsonl", tmp_path / "c.zarr", like=train, tokenizer=tokenizer)


def test_like__needs_a_corpus_of_texts(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("1 2 2\n0 1:1\n")
    other = ingest_xmc(tmp_path / "x.txt", tmp_path / "x.zarr")
    assert other.tokenizer is None
    source = write_jsonl(tmp_path / "a.jsonl", posts(5))
    with pytest.raises(InputError, match="was not made of texts"):
        ingest_text(source, tmp_path / "c.zarr", like=other)


@pytest.mark.parametrize(
    ("labels", "separator", "found"),
    [
        ([["a", " b ", "a", "", None]], None, {"a", "b"}),
        (["a; b;;a"], None, {"a", "b"}),
        (["a|b, c"], None, {"a", "b, c"}),
        (["a, b"], None, {"a", "b"}),
        (["a, b"], "", {"a, b"}),
        (["a/b;c"], "/", {"a", "b;c"}),
        ([7], None, {"7"}),
        ([7.0, 7], None, {"7"}),
        ([[1, "x", True, 2.5]], None, {"1", "x", "true", "2.5"}),
        ([["café"], None], None, {"café"}),
        ([["x"], "y;z"], None, {"x", "y", "z"}),
    ],
)
def test_labels__of_many_kinds(
    tmp_path: Path, labels: list[Any], separator: str | None, found: set[str]
) -> None:
    rows = [{"text": "some words", "labels": value} for value in labels]
    rows.append({"text": "other words", "labels": ["unrelated"] if isinstance(labels[0], list) else None})
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    with (
        pytest.warns(UserWarning, match="label")
        if len(found) == 1 and rows[-1]["labels"] is None
        else _quiet()
    ):
        corpus = ingest_text(source, tmp_path / "c.zarr", label_separator=separator)
    assert set(corpus.labels) - {"unrelated"} == found


def _quiet() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def test_parquet__types_of_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array(["Red rain", None, "blue"]).dictionary_encode(),
            "parts": pa.array([["one", "two"], [], None]),
            "number": pa.array([1234, 5, 67]),
            "meta": pa.array([{"tag": "a", "x": "deep"}, {"tag": "b", "x": "er"}, None]),
            "raw": pa.array([b"caf\xc3\xa9", b"\xff", b""]),
        }
    )
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    columns = ["text", "parts", "number", "meta.x", "raw"]
    with pytest.warns(UserWarning, match="1 document is not UTF-8"):
        corpus = ingest_text(tmp_path / "t.parquet", tmp_path / "c.zarr", text=columns, labels="meta.tag")
    assert documents(corpus) == [
        (dict.fromkeys(["red", "rain", "one", "two", "1234", "deep", "café"], 1.0), {"a"}),
        ({"er": 1.0}, {"b"}),
        ({"blue": 1.0, "67": 1.0}, set()),
    ]


def test_guess__is_told(tmp_path: Path) -> None:
    from threepass.ingest.text import Tables

    source = write_jsonl(tmp_path / "a.jsonl", [{"Headline": "x", "Content": "y", "Genre": "a|b", "n": 1}])
    tables_ = Tables.look_at(source, ColumnChoice())
    assert (tables_.columns.text, tables_.columns.labels) == (("Headline", "Content"), "Genre")
    assert tables_.guess is not None
    assert "text from 'Headline' and 'Content', labels from 'Genre', labels separated by '|'" in tables_.guess
    only = write_jsonl(tmp_path / "b.jsonl", [{"id": "7", "utterance": "hello there", "n": 1}])
    with pytest.warns(UserWarning, match="the corpus will have no labels.*Columns found: id, utterance, n"):
        guessed = Tables.look_at(only, ColumnChoice())
    assert guessed.columns.text == ("utterance",)
    assert "no labels" in str(guessed.guess)
    assert Tables.look_at(only, ColumnChoice(["utterance"], "")).guess is None


def test_long_first_line__columns_are_still_found(tmp_path: Path) -> None:
    rows = [{"text": "word " * 500_000, "labels": ["a"]}, {"text": "more", "labels": ["b"]}]
    corpus = ingest_text(write_jsonl(tmp_path / "a.jsonl", rows), tmp_path / "c.zarr")
    assert documents(corpus) == [({"word": 500_000.0}, {"a"}), ({"more": 1.0}, {"b"})]
