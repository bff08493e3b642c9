from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import naive_text
from threepass import InputError, Tokenizer
from threepass.text.terms import TermTable
from threepass.text.words import WordFinder, as_texts, strings_of

# characters that fold, join, compose or decompose in their own ways, and bytes that are no UTF-8
UGLY = "abcABC12_-. \n'’éÉİßΣςǅﬁ\u0301\u0345\u0327각ᄀ\u1161\u11a8中हिं\U0001d400\U000e0100\x02\x03\x00"
texts = st.one_of(
    st.text(UGLY, max_size=30).map(str.encode),
    st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=20),
    st.lists(
        st.sampled_from([b"a", b"\xe2", b"\x80", b"\xc3", b"'", b"\xf4", b"\x90", b"\xed", b"\xa0"])
    ).map(b"".join),
)
tokenizers = st.builds(
    Tokenizer,
    lower=st.booleans(),
    accents=st.booleans(),
    min_length=st.integers(1, 3),
    bigrams=st.booleans(),
    stop_words=st.sampled_from([(), ("ab", "a", "é")]),
    pattern=st.sampled_from([None, None, "[a-zé]+", "a|b c"]),
)


def counted(
    documents: list[tuple[bytes, ...]], tokenizer: Tokenizer, table: TermTable
) -> list[dict[str, int]]:
    """The terms of each document, as the compiled loops have them."""
    width = len(documents[0]) if documents else 1
    columns = [pa.array([row[i] for row in documents], pa.binary()) for i in range(width)]
    found = WordFinder(tokenizer).find(columns)
    indptr, indices, values = table.count(found, tokenizer.bigrams, learn=True)
    names = [name.decode() for name in table.names(np.arange(table.n_terms))]
    return [
        {names[i]: v for i, v in zip(indices[a:b].tolist(), values[a:b].tolist(), strict=True)}
        for a, b in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)
    ]


@given(st.lists(st.tuples(texts, texts), max_size=4), tokenizers)
@example([(b"It's na\xc3\xafve, isn't it?", b"Don''t 'quote' e\xcc\x81te\xcc\x81")], Tokenizer(bigrams=True))
def test_terms__as_re_and_unicodedata_find_them(
    documents: list[tuple[bytes, bytes]], tokenizer: Tokenizer
) -> None:
    ref = [dict(naive_text.terms(list(row), tokenizer)) for row in documents]
    table = TermTable()
    assert counted(documents, tokenizer, table) == ref
    # a second batch goes on in the same table, and documents are counted once for each term
    assert counted(documents, tokenizer, table) == ref
    for name, count in zip(table.names(np.arange(table.n_terms)), table.counts.tolist(), strict=True):
        assert count == 2 * sum(name.decode() in terms for terms in ref)


@given(st.lists(texts, max_size=3))
def test_find__tells_what_is_broken_and_what_is_empty(documents: list[bytes]) -> None:
    found = WordFinder(Tokenizer()).find([pa.array(documents, pa.large_binary())])
    replaced = [raw.decode("utf-8", "replace") for raw in documents]
    assert found.broken.tolist() == [
        text.encode() != raw for text, raw in zip(replaced, documents, strict=True)
    ]
    assert found.empty.tolist() == [all(byte <= 32 for byte in raw) for raw in documents]


def test_count__grows_over_many_terms() -> None:
    rows = [(" ".join(f"w{i * j}" for i in range(400)).encode(),) for j in range(200)]
    tokenizer = Tokenizer(bigrams=True)
    ref = [dict(naive_text.terms(list(row), tokenizer)) for row in rows]
    table = TermTable()
    assert counted(rows, tokenizer, table) == ref
    assert table.n_terms > 2**15  # more than it had room for at first


def test_of_names__finds_each_under_its_number() -> None:
    names = ["b", "a b", "é", "a", "b"]
    table = TermTable.of_names(names).reader()
    found = WordFinder(Tokenizer(min_length=1, bigrams=True)).find([as_texts(["a b É x", ""])])
    indptr, indices, values = table.count(found, True, learn=False)
    assert indptr.tolist() == [0, 4, 4]
    assert sorted(indices.tolist()) == [0, 1, 2, 3]
    assert values.tolist() == [1, 1, 1, 1]


def test_words__too_long_for_one_are_none() -> None:
    found = WordFinder(Tokenizer()).find([as_texts(["x" * 101 + " " + "y" * 100])])
    assert strings_of(found, bigrams=False) == [["y" * 100]]


def test_words__lone_surrogates_are_no_letters() -> None:
    found = WordFinder(Tokenizer()).find([as_texts(["ab\ud800cd"])])
    assert strings_of(found, bigrams=False) == [["ab", "cd"]]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"min_length": 0}, "min_length"),
        ({"pattern": "("}, "missing )"),
        ({"pattern": "a" * 2000}, "pattern"),
        ({"pattern": r"(?=a)"}, "RE2 syntax"),
        ({"hash_bits": 40}, "Pass 1 to 26"),
        ({"stop_words": ["a"]}, "stop_words"),
        ({"stop_words": ("\ud800",)}, "stop_words"),
        ({"lower": 1}, "True or False"),
    ],
)
def test_tokenizer__refuses(settings: dict[str, object], found: str) -> None:
    with pytest.raises(InputError, match="not usable") as refusal:
        Tokenizer(**settings)  # type: ignore[arg-type]
    assert found in str(refusal.value)


def test_pattern__that_would_run_for_years_in_re_is_done_at_once() -> None:
    found = WordFinder(Tokenizer(pattern="(a+)+b")).find([as_texts(["a" * 50_000])])
    assert strings_of(found, bigrams=False) == [[]]


@given(
    document=st.text("abAB12_-. '\n", max_size=40),
    pattern=st.sampled_from(
        [
            r"\p{L}[\p{L}\p{N}_]+",
            r"[^\pN]{2,}",
            r"(?i)[a-k]+",
            r"(?-i:b)|\PL+",
            r"\x{3b1}?[a-z]+",
            r"\x{e9}?[a-z]+",
            r"[a-é]+",
            "bé?1",
        ]
    ),
    lower=st.booleans(),
)
def test_pattern__finds_the_same_beside_other_scripts(document: str, pattern: str, lower: bool) -> None:
    """A batch of nothing but ASCII is read in another way."""
    finder = WordFinder(Tokenizer(pattern=pattern, lower=lower, min_length=1))
    alone, *_ = strings_of(finder.find([as_texts([document])]), bigrams=False)
    beside, *_ = strings_of(finder.find([as_texts([document, "é中"])]), bigrams=False)
    assert alone == beside


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=4), st.integers(0, 2))
def test_find__the_same_words_in_texts_of_python_and_of_arrow(rows: list[tuple[str, str]], skip: int) -> None:
    finder = WordFinder(Tokenizer(min_length=1))
    ours = [as_texts([row[i] for row in rows]) for i in range(2)]
    raw = [[b"before"] * skip + [row[i].encode("utf-8", "replace") for row in rows] for i in range(2)]
    theirs = [pa.array(column, pa.binary())[skip:] for column in raw]  # begins within its buffers
    ref = strings_of(finder.find(theirs), bigrams=False)
    assert strings_of(finder.find(ours), bigrams=False) == ref
    assert strings_of(finder.find([ours[0], theirs[1]]), bigrams=False) == ref
    assert len(ref) == len(ours[0]) == len(rows)
