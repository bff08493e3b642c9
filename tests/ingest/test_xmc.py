from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests import naive
from threepass import Corpus, InputError
from threepass.ingest import compose, spool, xmc
from threepass.ingest.sizes import Sizes

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GOOD = b"4 6 3\n0,2 1:1 3:2.5\n1 5:1 0:3\n\n2 4:1\n"


# cuts even small files into many parts, slabs and pieces
ingest_xmc = partial(xmc.ingest_xmc, sizes=Sizes(part_bytes=97, piece_bytes=31))


def dense(corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """X with its source's column order, and Y."""
    X, Y = corpus.to_scipy()
    by_source = np.empty(corpus.shape)
    by_source[:, corpus.term_ids] = X.toarray()
    return by_source, Y.toarray()


def ingest_text(folder: Path, text: bytes, **options: object) -> Corpus:
    (folder / "source.txt").write_bytes(text)
    return ingest_xmc(folder / "source.txt", folder / "dest.zarr", overwrite=True, **options)  # type: ignore[arg-type]


def stored(X: np.ndarray) -> np.ndarray:
    """What a corpus holds of these values: whole numbers exactly, others in single precision."""
    return X if np.array_equal(X, np.floor(X)) else X.astype(np.float32)


def check_same(corpus: Corpus, X: np.ndarray, Y: np.ndarray) -> None:
    got_x, got_y = dense(corpus)
    np.testing.assert_array_equal(got_x, stored(X))
    np.testing.assert_array_equal(got_y, Y)
    assert corpus.term_ids.tolist() == naive.rank_terms(X)


def test_ingest__equals_the_naive_parser(tmp_path: Path) -> None:
    check_same(ingest_text(tmp_path, GOOD), *naive.parse_xmc(GOOD))


UGLY = {
    "crlf": GOOD.replace(b"\n", b"\r\n"),
    "tabs": b"1 4 2\n0,1\t0:1\t3:2\n",
    "trailing blanks": b"2 4 2  \n0,1 0:1   \n1 2:1\t \n",
    "byte order mark": b"\xef\xbb\xbf" + GOOD,
    "no labels, blank first": b"1 4 2\n 0:1 1:2\n",
    "no labels, feature first": b"1 4 2\n0:1 1:2\n",
    "no features": b"2 4 2\n0,1\n1 \n",
    "neither": b"3 4 2\n\n \n\t\r\n",
    "neither, no newline at the end": b"2 4 2\n0 1:1\n ",
    "unsorted": b"1 9 2\n1,0 7:1 3:2 5:3 0:1\n",
    "repeated features are summed": b"1 9 2\n0 7:1 3:2 7:3.5 3:0.25 3:1\n",
    "repeated labels count once": b"1 9 4\n3,0,3,3 7:1\n",
    "no newline at the end": b"2 4 2\n0 1:1\n1 2:1",
    "blank lines after the end": b"1 4 2\n0 1:1\n\n \n\n",
    "announced blank lines at the end": b"4 4 2\n0 1:1\n\n \n\n",
    "zeros are dropped": b"1 4 2\n0 0:0 1:-0.0 2:0e5 3:1\n",
    "numbers of all kinds": b"1 9 1\n0 0:1. 1:.5 2:1e2 3:1E-3 4:+2 5:007 6:12345678901234567890"
    b" 7:0.1000000000000000055 8:1e-30\n",
    "exact integers": b"1 4 1\n0 0:16777217 1:9007199254740991 2:9007199254740993 3:4294967295\n",
    "no labels at all": b"1 4 0\n0:1\n",
    "no features at all": b"1 0 4\n3\n",
}


@pytest.mark.parametrize("text", UGLY.values(), ids=UGLY.keys())
def test_ingest__accepts_what_real_files_contain(tmp_path: Path, text: bytes) -> None:
    check_same(ingest_text(tmp_path, text), *naive.parse_xmc(text))


def test_ingest__a_line_of_many_megabytes(tmp_path: Path) -> None:
    n = 1_000_000
    line = b"0 " + b" ".join(b"%d:%d" % (i, i % 7 + 1) for i in range(n))
    text = b"3 %d 1\n0 5:1\n" % n + line + b"\n0 6:1\n"
    corpus = ingest_text(tmp_path, text, sizes=Sizes(part_bytes=1_000_000, piece_bytes=100_000))
    assert [int(x) for x in np.diff(corpus.to_scipy()[0].indptr)] == [1, n, 1]
    X = corpus.to_scipy()[0][[1]].toarray().ravel()
    np.testing.assert_array_equal(X, corpus.term_ids % 7 + 1)


BAD = {
    "header of two numbers": (b"4 6\n", 1, "header"),
    "header with a word": (b"4 six 3\n", 1, "header"),
    "header missing": (b"0,2 1:1\n1 5:1\n", 1, "header"),
    "header negative": (b"-4 6 3\n", 1, "header"),
    "header absurd": (b"4 99999999999999999999 3\n", 1, "At most"),
    "header of no documents": (b"0 6 3\n", 1, "no documents"),
    "too few documents": (GOOD.replace(b"4 6 3", b"5 6 3"), 5, "announces 5 documents, found 4"),
    "too many documents": (GOOD.replace(b"4 6 3", b"3 6 3"), 5, "announces 3, found 4"),
    "feature id too large": (GOOD.replace(b"5:1", b"6:1"), 3, "not below D = 6. Found '6'"),
    "feature id huge": (GOOD.replace(b"5:1", b"99999999999999999999999:1"), 3, "not below D = 6"),
    "feature id negative": (GOOD.replace(b"5:1", b"-5:1"), 3, "negative. Found '-5'"),
    "feature id not a number": (GOOD.replace(b"5:1", b"x:1"), 3, "not a whole number. Found 'x'"),
    "label id too large": (GOOD.replace(b"\n2 4", b"\n3 4"), 5, "not below L = 3. Found '3'"),
    "label id negative": (GOOD.replace(b"\n2 4", b"\n-2 4"), 5, "negative. Found '-2'"),
    "label not a number": (GOOD.replace(b"\n2 4", b"\nspam 4"), 5, "not a whole number. Found 'spam'"),
    "label missing after a comma": (GOOD.replace(b"0,2", b"0,"), 2, "not a whole number"),
    "value NaN": (GOOD.replace(b"3:2.5", b"3:nan"), 2, "not finite"),
    "value infinite": (GOOD.replace(b"3:2.5", b"3:-inf"), 2, "negative"),
    "value too large": (GOOD.replace(b"3:2.5", b"3:1e39"), 2, "not finite"),
    "value negative": (GOOD.replace(b"3:2.5", b"3:-2.5"), 2, "negative. Found '-2.5'"),
    "value a word": (GOOD.replace(b"3:2.5", b"3:two"), 2, "not a number. Found 'two'"),
    "value with an underscore": (GOOD.replace(b"3:2.5", b"3:1_0"), 2, "not a plain number"),
    "value missing": (GOOD.replace(b"3:2.5", b"3:"), 2, "not a number. Found ''"),
    "colon missing": (GOOD.replace(b"3:2.5", b"3"), 2, "no colon. Found '3'"),
    "labels with blanks": (GOOD.replace(b"0,2", b"0, 2"), 2, "not a whole number"),
    "comments belong to svmlight": (GOOD.replace(b"3:2.5", b"3:2.5 # no"), 2, "no colon"),
}


@pytest.mark.parametrize(("text", "line", "why"), BAD.values(), ids=BAD.keys())
def test_ingest__bad_text_names_file_and_line(tmp_path: Path, text: bytes, line: int, why: str) -> None:
    with pytest.raises(naive.Refused):
        naive.parse_xmc(text)
    with pytest.raises(InputError) as caught:
        ingest_text(tmp_path, text)
    message = str(caught.value)
    assert f"source.txt, line {line}:" in message
    assert why in message
    assert "\n" not in message
    assert [path.name for path in tmp_path.iterdir()] == ["source.txt"]


def test_ingest__line_numbers_far_into_a_file(tmp_path: Path) -> None:
    lines = [b"%d %d:1" % (i % 3, i % 50) for i in range(400)]
    lines[271] += b" 50:1"
    for number, compress in enumerate((bytes, gzip.compress)):
        path = tmp_path / f"s{number}"
        path.write_bytes(compress(b"400 50 3\n" + b"\n".join(lines) + b"\n"))
        with pytest.raises(InputError, match=rf"s{number}, line 273: a feature id is not below D = 50"):
            ingest_xmc(path, tmp_path / "dest.zarr")


def test_ingest__not_text_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "late-zero").write_bytes(GOOD + b"\0")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "blank").write_bytes(b" \n\n")
    (tmp_path / "broken.gz").write_bytes(gzip.compress(GOOD * 50)[:-20])
    cases = {
        "binary": "not a text file",
        "late-zero": "not a text file",
        "empty": "is empty",
        "blank": "is empty",
        "nothing": "does not exist",
        "no-*-match": "No file matches",
        ".": "not a regular file",
        "broken.gz": "cannot be decompressed",
    }
    for name, why in cases.items():
        with pytest.raises(InputError, match=why):
            ingest_xmc(tmp_path / name, tmp_path / "dest.zarr")
    assert not list(tmp_path.glob("dest*"))


def test_ingest__an_endless_line_is_refused(tmp_path: Path) -> None:
    sizes = Sizes(part_bytes=97, piece_bytes=31, line_bytes=1000)
    with pytest.raises(InputError, match="a line of more than 1,000 bytes"):
        ingest_text(tmp_path, b"1 6 3\n" + b"1 " * 5000, sizes=sizes)


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd.compress,
    "gz in two members": lambda text: gzip.compress(text[:9]) + gzip.compress(text[9:]),
    "zst in two frames": lambda text: zstd.compress(text[:9]) + zstd.compress(text[9:]),
}


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_ingest__compressed_files_whatever_their_name(tmp_path: Path, kind: str) -> None:
    (tmp_path / "train.dat").write_bytes(COMPRESSORS[kind](GOOD))
    check_same(ingest_xmc(tmp_path / "train.dat", tmp_path / "d"), *naive.parse_xmc(GOOD))


def test_ingest__several_files(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"2 6 3\n0 1:1\n1 2:1")
    (tmp_path / "a.txt").write_bytes(GOOD)
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"1 6 3\n2 5:7\n"))
    corpus = ingest_xmc(str(tmp_path / "*.txt*"), tmp_path / "d")
    texts = [GOOD, b"2 6 3\n0 1:1\n1 2:1", b"1 6 3\n2 5:7\n"]
    X, Y = (np.concatenate(side) for side in zip(*map(naive.parse_xmc, texts), strict=True))
    check_same(corpus, X, Y)
    reordered = ingest_xmc([tmp_path / "b.txt", tmp_path / "a.txt"], tmp_path / "e")
    assert reordered.n_docs == 6
    (tmp_path / "z.txt").write_bytes(b"1 7 3\n2 5:7\n")
    with pytest.raises(InputError, match=r"do not belong together.*7 and 6 features"):
        ingest_xmc(str(tmp_path / "*.txt"), tmp_path / "f")


def test_ingest__names(tmp_path: Path) -> None:
    (tmp_path / "features").write_text("\ufeffa\nb\r\nc\nd\ne\nfünf\n")
    (tmp_path / "labels.gz").write_bytes(gzip.compress("x\ny\nzé".encode("latin-1")))
    corpus = ingest_text(
        tmp_path, GOOD, feature_names=tmp_path / "features", label_names=tmp_path / "labels.gz"
    )
    assert corpus.labels == ["x", "y", "zé"]
    assert corpus.terms == [["a", "b", "c", "d", "e", "fünf"][i] for i in corpus.term_ids]
    with pytest.raises(InputError, match="Found 2 names for 3 labels"):
        ingest_text(tmp_path, GOOD, label_names=["x", "y"])


def test_ingest__binary_and_block_bytes(tmp_path: Path) -> None:
    X, Y = naive.parse_xmc(GOOD)
    corpus = ingest_text(tmp_path, GOOD, binary=True, block_bytes=40)
    assert corpus.is_binary
    assert corpus.n_blocks == 4
    got_x, got_y = dense(corpus)
    np.testing.assert_array_equal(got_x, X > 0)
    np.testing.assert_array_equal(got_y, Y)


def test_ingest__the_same_store_for_any_number_of_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [
        b"%d " % rng.integers(9) + b" ".join(b"%d:1" % t for t in rng.integers(0, 80, 12)) for _ in range(300)
    ]
    text = b"300 80 9\n" + b"\n".join(lines)
    prints = {ingest_text(tmp_path, text, n_threads=n, block_bytes=9000).fingerprint for n in (1, 2, 5)}
    assert len(prints) == 1


def test_svmlight__header_comments_and_blank_lines(tmp_path: Path) -> None:
    text = b"# a comment\n1,3 0:1 7:2 # why\n\n 2:1\n0\n5 3:1#tight\n"
    check_same(ingest_text(tmp_path, text, header=False), *naive.parse_svmlight(text))
    with pytest.raises(InputError, match="line 6: a feature id is too large"):
        ingest_text(tmp_path, text.replace(b"3:1#", b"999999999999:1#"), header=False)


def test_svmlight__nothing_but_comments(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no documents"):
        ingest_text(tmp_path, b"# a\n\n# b\n", header=False)


def test_svmlight__names_may_widen_the_matrix(tmp_path: Path) -> None:
    corpus = ingest_text(tmp_path, b"1 0:1\n", header=False, feature_names=["a", "b", "c"])
    assert corpus.shape == (1, 3)


IDS = st.integers(0, 12)
VALUES = st.one_of(
    st.integers(0, 300).map(str),
    st.floats(0, 1e38, allow_nan=False).map(repr),
    st.decimals(0, 10**30, allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"\A[+]?[0-9]{0,25}\.?[0-9]{1,25}([eE][+-]?[0-9]{1,3})?\Z"),
)
BLANKS = st.sampled_from([" ", "  ", "\t", " \t "])


@st.composite
def documents(draw: st.DrawFn) -> str:
    labels = ",".join(map(str, draw(st.lists(st.integers(0, 4), max_size=4))))
    features = [f"{draw(IDS)}:{draw(VALUES)}" for _ in range(draw(st.integers(0, 5)))]
    tokens = [labels, *features]
    return draw(BLANKS).join(tokens) + draw(st.sampled_from(["", " ", "\r", "\t"]))


@st.composite
def files(draw: st.DrawFn) -> bytes:
    rows = draw(st.lists(documents(), min_size=1, max_size=8))
    header = f"{len(rows)} 13 5"
    return "\n".join([header, *rows]).encode() + draw(st.sampled_from([b"", b"\n"]))


@st.composite
def mutated_files(draw: st.DrawFn) -> bytes:
    text = bytearray(draw(files()))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 3))
        text[at : at + cut] = draw(
            st.sampled_from(
                [
                    b"",
                    b":",
                    b",",
                    b" ",
                    b"\n",
                    b"-",
                    b"9",
                    b".",
                    b"e",
                    b"x",
                    b"\r",
                    b"#",
                    b"1:1",
                    b"\0",
                    b"\xff",
                    b"+",
                ]
            )
        )
    return bytes(text)


def read_in_parts(path: Path, slab: int, part: int) -> tuple[np.ndarray, np.ndarray]:
    """Stage 1 of the ingest alone, cut as finely as asked."""
    sizes = Sizes(part_bytes=part, piece_bytes=slab)
    file = xmc._SourceFile.look_at(path, header=True)
    pieces = spool.Spool(path.parent, spool.IngestOptions(n_threads=1, block_bytes=50, sizes=sizes))
    writers = xmc._read_files([file], file.shape, True, pieces)
    widths = (file.shape.n_terms or 0, file.shape.n_labels or 0)
    X, Y = compose._load([piece for writer in writers for piece in writer.pieces], *widths)
    return X.to_scipy(np.float64).toarray(), Y.to_scipy().toarray()


def check_parsers_agree(text: bytes, folder: Path, slab: int, part: int) -> None:
    """Both parsers give the same matrices, or both refuse."""
    path = folder / "source.txt"
    path.write_bytes(text)
    try:
        X, Y = naive.parse_xmc(text)
    except naive.Refused:
        with pytest.raises(InputError):
            read_in_parts(path, slab, part)
    else:
        got_x, got_y = read_in_parts(path, slab, part)
        np.testing.assert_array_equal(got_x, X)
        np.testing.assert_array_equal(got_y, Y)


SIZES = st.integers(1, 60)


@settings(max_examples=100)
@given(text=files(), slab=SIZES, part=SIZES)
def test_parser__any_file_any_cutting(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, slab: int, part: int
) -> None:
    check_parsers_agree(text, tmp_path_factory.mktemp("parser"), slab, part)


@settings(max_examples=80)
@given(text=mutated_files(), slab=SIZES, part=SIZES)
@example(text=b"1 13 5\n0 1:1\n\n\n", slab=1, part=1)
@example(text=b"3 13 5\n0 1:1\n\n\n", slab=1, part=1)
def test_parser__mutated_files(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, slab: int, part: int
) -> None:
    check_parsers_agree(text, tmp_path_factory.mktemp("parser"), slab, part)


@pytest.mark.exhaustive
@settings(max_examples=1000, deadline=None)
@given(text=mutated_files(), slab=SIZES, part=SIZES)
def test_parser__many_mutated_files(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, slab: int, part: int
) -> None:
    check_parsers_agree(text, tmp_path_factory.mktemp("parser"), slab, part)


@settings(max_examples=1000)
@given(token=VALUES)
@example(token="0.50000002980232238769531250")
@example(token="4503599627370497.25")
@example(token="33554433.000000001")
def test_parser__numbers(token: str) -> None:
    from threepass.ingest.parser_kernels import OK, parse, round_value

    raw = token.encode()
    parsed = parse(b"0 3:" + raw + b"\n", 4, 1, False)
    assert parsed.status == OK
    value = parsed.values[0]
    if value < 0:
        value = round_value(float(raw))
    try:
        expected = naive.parse_value(raw, 1)
    except naive.Refused:
        assert value == np.inf
    else:
        assert value == expected


def test_progress__reaches_the_total(tmp_path: Path) -> None:
    seen: dict[str, list[tuple[float, float]]] = {}
    ingest_text(
        tmp_path,
        GOOD * 1,
        progress=lambda stage, done, total: seen.setdefault(stage, []).append((done, total)),
    )
    assert list(seen) == ["read", "write"]
    for steps in seen.values():
        done = [step[0] for step in steps]
        assert done == sorted(done)
        assert steps[-1][0] == steps[-1][1]


def test_spool__blocks_are_cut_by_bytes(tmp_path: Path) -> None:
    pieces = [spool.Piece(tmp_path, 1, nbytes) for nbytes in (5, 5, 20, 1, 1, 9, 3)]
    groups = compose._blocks(pieces, 10)
    assert [[piece.nbytes for piece in group] for group in groups] == [[5, 5], [20], [1, 1], [9], [3]]
