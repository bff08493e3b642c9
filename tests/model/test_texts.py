"""Models that were fitted to texts take texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from sklearn.preprocessing import MultiLabelBinarizer

from tests import naive_text
from threepass import (
    Corpus,
    InputError,
    MomentLabeler,
    StoreError,
    Tokenizer,
    check,
    ingest_matrices,
    ingest_text,
)
from threepass.storage.marks import ATTRIBUTE, write_mark
from threepass.text.info import TextInfo

KINDS = {
    "weather": "Rain snow wind sun's storm",
    "sea": "ship Wave fish tide Être",
    "food": "bread fish cake soup it's",
}
TOKENIZERS = {
    "words": Tokenizer(),
    "pairs": Tokenizer(bigrams=True, accents=False, stop_words=("it's",)),
    "hashed": Tokenizer(hash_bits=8),
    "pattern": Tokenizer(pattern="[a-zé]{3,}"),
}


def write_posts(path: Path, n: int = 150, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        for i in range(n):
            kinds = rng.choice(list(KINDS), rng.integers(1, 3), replace=False)
            words = [rng.choice(KINDS[kind].split()) for kind in kinds for _ in range(6)]
            row = {"id": f"d{i}", "text": " ".join(words), "labels": list(kinds)}
            file.write(json.dumps(row) + "\n")
    return path


@pytest.fixture(scope="module", params=TOKENIZERS)
def fitted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Corpus, MomentLabeler]:
    folder = tmp_path_factory.mktemp("texts")
    corpus = ingest_text(
        write_posts(folder / "posts.jsonl"), folder / "c.zarr", tokenizer=TOKENIZERS[request.param]
    )
    model = MomentLabeler(n_components=3).fit(corpus)
    model.save(folder / "model.zarr")
    return folder, corpus, model


@pytest.mark.filterwarnings("ignore:.*the model was trained on:UserWarning")
def test_texts__are_labelled_as_their_corpus_is(fitted: tuple[Path, Corpus, MomentLabeler]) -> None:
    folder, corpus, model = fitted
    texts = [json.loads(line)["text"] for line in (folder / "posts.jsonl").read_text().splitlines()]
    labels, scores = model.predict_topk(corpus, k=2)
    loaded = MomentLabeler.load(folder / "model.zarr")
    assert loaded.text_ == model.text_ == corpus.info.text
    for some in (model, loaded):
        for given in (texts, tuple(texts), np.array(texts), np.array(texts, object)):
            again, same = some.predict_topk(given, k=2)
            np.testing.assert_array_equal(again, labels)
            # words are added up in another order, and calibration is steep in places
            np.testing.assert_allclose(same, scores, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(model.predict_topk(texts[3], k=2)[0], labels[3:4])
    Y = corpus.to_scipy()[1]
    assert model.evaluate(texts, Y)["p@1"] == model.evaluate(corpus)["p@1"]
    assert model.predict_proba(["!"]).shape == (1, 3)  # no words at all


@pytest.mark.filterwarnings("ignore:.*also among the training documents:UserWarning")
def test_like__is_what_evaluation_wants(fitted: tuple[Path, Corpus, MomentLabeler]) -> None:
    folder, corpus, model = fitted
    source = write_posts(folder / "other.jsonl", 40, seed=1)
    test = ingest_text(source, folder / "like.zarr", like=corpus, overwrite=True)
    assert model.evaluate(test)["p@1"] > 0.8
    texts = [json.loads(line)["text"] for line in source.read_text().splitlines()]
    np.testing.assert_array_equal(model.predict_topk(test)[0], model.predict_topk(texts)[0])
    alone = ingest_text(source, folder / "alone.zarr", tokenizer=Tokenizer(min_length=3), overwrite=True)
    for use in (model.evaluate, model.predict_topk):
        with pytest.raises(InputError, match=r"other terms or labels than the model.*--like"):
            use(alone)


def test_evaluate__refuses_other_labels(fitted: tuple[Path, Corpus, MomentLabeler]) -> None:
    folder, corpus, model = fitted
    renamed = folder / "renamed.jsonl"
    renamed.write_text((folder / "posts.jsonl").read_text().replace('"sea"', '"shore"'))
    other = ingest_text(renamed, folder / "renamed.zarr", tokenizer=corpus.tokenizer, overwrite=True)
    model.predict_topk(other)  # the terms are the same
    with pytest.raises(InputError, match="other terms or labels"):
        model.evaluate(other)


def test_explain__takes_the_words_of_a_text(fitted: tuple[Path, Corpus, MomentLabeler]) -> None:
    _, _, model = fitted
    assert model.text_ is not None
    tokenizer = model.text_.tokenizer
    text = "RAIN, rain and sun's être zzz"
    said = model.explain(text, "weather", n=20)
    terms = set(naive_text.terms([text.encode()], tokenizer))
    told = {part for name, _ in said.words for part in name.split(" / ")}
    if tokenizer.hash_bits is None:
        assert told == terms & set(model.term_names_)
        words = naive_text.words(text.encode(), tokenizer)
        assert set(said.unknown) == set(words) - set(model.term_names_)
    else:
        assert (told, said.unknown) == (terms, [])
    assert said.score == pytest.approx(
        model.predict_proba(text)[0, model.label_names_.index("weather")], abs=1e-5
    )


def test_texts__for_a_model_that_knows_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = MomentLabeler(n_components=2).fit(rng.poisson(1, (40, 6)), rng.integers(0, 2, (40, 3)))
    assert model.text_ is None
    with pytest.raises(InputError, match="was not fitted to texts"):
        model.predict_topk(["some text"])
    assert model.explain("3 4 x", 0).unknown == ["x"]


# -- what a store says of its tokenizer is not believed -----------------------------------------------------


def forge(path: Path, change: Any) -> None:
    """Change what the mark says of texts, and make its checksum match."""
    root = zarr.open_group(path)
    mark = dict(root.attrs[ATTRIBUTE])  # type: ignore[arg-type]
    del mark["checksum"]
    change(mark)
    write_mark(root, mark.pop("format"), mark.pop("version"), mark)


FORGERIES = [
    lambda text: text["tokenizer"].update(pattern="(" * 900),
    lambda text: text["tokenizer"].update(pattern="(x{1000}){1000}"),
    lambda text: text["tokenizer"].update(hash_bits=9),
    lambda text: text["tokenizer"].update(min_length="2"),
    lambda text: text["tokenizer"].update(lower=None),
    lambda text: text["tokenizer"].update(stop_words=5),
    lambda text: text["tokenizer"].update(stop_words=[1]),
    lambda text: text["tokenizer"].update(run="rm"),
    lambda text: text["tokenizer"].pop("stop_words"),
    lambda text: text["columns"].update(text=[]),
    lambda text: text["columns"].update(text=[5]),
    lambda text: text["columns"].update(labels=7),
    lambda text: text.pop("columns"),
    lambda text: text.update(tokenizer=[]),
]


@pytest.mark.parametrize("number", range(len(FORGERIES)))
def test_forged_settings__are_refused(tmp_path: Path, number: int) -> None:
    corpus = ingest_text(write_posts(tmp_path / "p.jsonl", 30), tmp_path / "c.zarr")
    model = MomentLabeler(n_components=2, head="posterior").fit(corpus)
    model.save(tmp_path / "m.zarr")
    for name in ("c.zarr", "m.zarr"):
        forge(tmp_path / name, lambda mark: FORGERIES[number](mark["text"]))
    with pytest.raises(StoreError, match="damaged"):
        Corpus.open(tmp_path / "c.zarr")
    with pytest.raises(StoreError, match="damaged"):
        MomentLabeler.load(tmp_path / "m.zarr")


def test_forged_hashing__never_leads_beyond_the_columns(tmp_path: Path) -> None:
    corpus = ingest_text(write_posts(tmp_path / "p.jsonl", 30), tmp_path / "c.zarr")
    assert 8 < corpus.n_terms < 16  # of 2**4 that could be addressed
    MomentLabeler(n_components=2, head="posterior").fit(corpus).save(tmp_path / "m.zarr")
    for name in ("c.zarr", "m.zarr"):
        forge(tmp_path / name, lambda mark: mark["text"]["tokenizer"].update(hash_bits=4))
    with pytest.raises(StoreError, match="4 bits"):
        Corpus.open(tmp_path / "c.zarr")
    with pytest.raises(StoreError, match="4 bits"):
        MomentLabeler.load(tmp_path / "m.zarr")


def test_corpora_from_before__open(tmp_path: Path) -> None:
    corpus = ingest_matrices(np.eye(6), np.eye(6, 2), tmp_path / "c.zarr")
    assert corpus.tokenizer is None
    forge(tmp_path / "c.zarr", lambda mark: mark.pop("text"))
    assert check(tmp_path / "c.zarr").is_whole
    assert Corpus.open(tmp_path / "c.zarr").tokenizer is None


@pytest.mark.parametrize("encoding", ["base64", "nonsense", "", 7, ["utf-8"]])
def test_columns__a_strangers_encoding_is_refused(encoding: Any) -> None:
    said = {"tokenizer": Tokenizer().as_dict(), "columns": {"text": ["text"], "encoding": encoding}}
    with pytest.raises((ValueError, TypeError)):
        TextInfo.from_dict(said)


def test_memory__what_cannot_be_used_says_what_can(
    fitted: tuple[Path, Corpus, MomentLabeler], tmp_path: Path
) -> None:
    folder, _, model = fitted
    texts = [json.loads(line)["text"] for line in (folder / "posts.jsonl").read_text().splitlines()]
    tags = [["a"], ["a", "b"]] * 75
    df = pd.DataFrame({"text": texts, "tags": tags})
    with pytest.raises(InputError, match=r"a table with text, tags. .*df\['text'\]"):
        MomentLabeler(3).fit(df, tags)
    with pytest.raises(InputError, match=r"1 texts and 150 labels"):
        MomentLabeler(3).fit(texts[0], tags)
    for given in (texts, df, df["text"], texts[0], np.array(texts), [Path("x"), 7]):
        with pytest.raises(InputError, match=r"File names are needed. Found .*as with df.to_parquet"):
            ingest_text(given, tmp_path / "c.zarr")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"does not exist"):
        ingest_text("x" * 5000, tmp_path / "c.zarr")
    with pytest.raises(InputError, match=r"a table with text, tags. .*df\['text'\]"):
        model.predict_topk(df)
    with pytest.raises(InputError, match=r"Not all of the 3 texts are texts. Found nan at 1.*fillna"):
        model.predict_topk(pd.Series(["rain", float("nan"), "snow"]))
    np.testing.assert_array_equal(model.predict_topk(df["text"], k=1)[0], model.predict_topk(texts, k=1)[0])
    # what the message says works
    df.to_parquet(tmp_path / "posts.parquet")
    assert ingest_text(tmp_path / "posts.parquet", tmp_path / "posts.zarr").labels == ["a", "b"]


def test_memory__names_of_labels_are_refused_with_what_makes_columns_of_them(
    fitted: tuple[Path, Corpus, MomentLabeler],
) -> None:
    folder, corpus, model = fitted
    rows = [json.loads(line) for line in (folder / "posts.jsonl").read_text().splitlines()]
    texts, tags = [row["text"] for row in rows], [row["labels"] for row in rows]
    n = len(rows)
    X, Y = np.ones((n, 4)), np.ones((n, 2))
    of_matrix = MomentLabeler(1, head="posterior").fit(X, Y)
    table = pd.DataFrame({"tags": tags})
    for names in (tags, table["tags"], table, [["a", "b"]] * n, ["a"] * n, [{"a"}] * n):
        for call in (of_matrix.fit, of_matrix.evaluate, of_matrix.score):
            with pytest.raises(InputError, match=r"a column for each label is wanted. .*MultiLabelBinarizer"):
                call(X, names)
    for names in (table, ["a"] * n):
        with pytest.raises(InputError, match=r"with classes=model.label_names_"):
            model.evaluate(texts, names)
    # what the message says works
    binarizer = MultiLabelBinarizer(classes=model.label_names_)
    assert model.score(texts, binarizer.fit_transform(tags)) == model.score(corpus)
    for names in (tags, table["tags"], [set(own) for own in tags], [tuple(own) for own in tags]):
        assert model.score(texts, names) == model.score(corpus)
    with pytest.warns(UserWarning, match=r"does not know are left out. Found 1, such as 'unheard of'"):
        assert model.score(texts, [[*own, "unheard of"] for own in tags]) == model.score(corpus)
    with pytest.raises(InputError, match="as many rows"):
        model.score(texts, tags[1:])
    of_matrix.fit(X, pd.DataFrame(Y > 0))
