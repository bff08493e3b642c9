"""Words and counts the slow way: Python's `re` and `unicodedata`."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import unicodedata
from collections import Counter

from threepass.text.info import Tokenizer


def fold(text: str, tokenizer: Tokenizer) -> str:
    if tokenizer.lower:
        text = "".join(c.lower() for c in text)
    if not tokenizer.accents:
        text = "".join(
            unicodedata.normalize(
                "NFC", "".join(d for d in unicodedata.normalize("NFD", c) if unicodedata.category(d) != "Mn")
            )
            for c in text
        )
    return text.replace("’", "'")


def words(raw: bytes, tokenizer: Tokenizer) -> list[str]:
    text = unicodedata.normalize("NFC", raw.decode("utf-8", "replace"))
    if tokenizer.pattern is not None:
        found = re.findall(tokenizer.pattern, fold(text, tokenizer))
    else:
        # as long as the text: letters, digits and marks are w, apostrophes stay, the rest is blank
        kinds = "".join(
            "w" if unicodedata.category(c)[0] in "LNM" else "'" if c in "'’" else " " for c in text
        )
        matches = re.finditer("w+(?:'w+)*", kinds)
        found = [fold(text[match.start() : match.end()], tokenizer) for match in matches]
    return [
        word
        for word in found
        if tokenizer.min_length <= len(word) <= 100 and word not in tokenizer.stop_words
    ]


def terms(texts: list[bytes], tokenizer: Tokenizer) -> Counter[str]:
    """What one document has: its texts are columns."""
    counted: Counter[str] = Counter()
    for raw in texts:
        found = words(raw, tokenizer)
        counted.update(found)
        if tokenizer.bigrams:
            counted.update(f"{a} {b}" for a, b in itertools.pairwise(found))
    return counted


def csv_records(raw: bytes) -> tuple[list[tuple[int, list[str]]], list[int]]:
    """The records of CSV with as many cells as the header, by number, and the numbers of the others."""
    header, *records = (row for row in csv.reader(io.StringIO(raw.decode(), newline="")) if row)
    good = [(i, row) for i, row in enumerate(records) if len(row) == len(header)]
    return good, [i for i, row in enumerate(records) if len(row) != len(header)]


def json_rows(raw: bytes) -> tuple[list[tuple[int, str]], list[int]]:
    """The texts of lines of JSON by the number of the line, and the numbers of lines that cannot be read."""
    good: list[tuple[int, str]] = []
    bad = []
    for i, line in enumerate(raw.split(b"\n")):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        text = row.get("text") if isinstance(row, dict) else {}
        if text in (None, [None]):
            text = ""
        if isinstance(text, str):
            good.append((i, text))
        else:
            bad.append(i)
    return good, bad
