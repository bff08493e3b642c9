"""How texts became the words of a corpus; stored with it and with its models, so that new texts do likewise.

Nothing of it is ever executed. A token pattern is run by RE2, whose time grows with the length of the text
alone: a pattern from a stranger's store cannot run away with the machine, as one of Python's `re` could.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import InputError

MAX_HASH_BITS = 26
MAX_CHARACTERS = 100
"""Longer runs of letters are no words: keys, pictures, and the like."""
_MAX_STOP_WORDS = 100_000
_MAX_PATTERN = 1000
_MAX_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """What a word is.

    Texts are brought to Unicode's form NFC first. Then a word is a run of letters, digits and marks of any
    script, with single apostrophes inside kept: `it's` is a word, and so is `naïve`; `snake_case` is two.

    Parameters
    ----------
    lower
        Take capital letters as small ones, each character by itself.
    accents
        Keep accents; False takes `é` as `e`.
    min_length
        Characters of the shortest word that counts. More than 100 are never a word.
    bigrams
        Also count pairs of words that follow each other, in one column and after stop words are gone.
    stop_words
        Words that are left out, as they are after `lower` and `accents`.
    pattern
        A regular expression for a word, in place of the rule above, in RE2's syntax: `\\p{L}` is a letter of
        any script, and there is no looking ahead. It sees the text after `lower` and `accents`.
    hash_bits
        Hash words to 2**hash_bits columns in place of a vocabulary. None: a vocabulary.
    """

    lower: bool = True
    accents: bool = True
    min_length: int = 2
    bigrams: bool = False
    stop_words: tuple[str, ...] = ()
    pattern: str | None = None
    hash_bits: int | None = None

    def __post_init__(self) -> None:
        for name in ("lower", "accents", "bigrams"):
            _check(isinstance(getattr(self, name), bool), name, getattr(self, name), "Pass True or False.")
        _check(_whole(self.min_length, 1, MAX_CHARACTERS), "min_length", self.min_length, "Pass 1 to 100.")
        words = self.stop_words
        _check(
            isinstance(words, tuple)
            and len(words) <= _MAX_STOP_WORDS
            and all(isinstance(word, str) and _encodes(word) for word in words),
            "stop_words",
            words,
            f"Pass at most {_MAX_STOP_WORDS:,} words.",
        )
        _check(
            self.hash_bits is None or _whole(self.hash_bits, 1, MAX_HASH_BITS),
            "hash_bits",
            self.hash_bits,
            f"Pass 1 to {MAX_HASH_BITS}.",
        )
        if self.pattern is not None:
            _check_pattern(self.pattern)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> Tokenizer:
        """From what a store says; raises ValueError, TypeError or KeyError for what nobody wrote."""
        return cls(**{**said, "stop_words": tuple(said["stop_words"])})


@dataclass(frozen=True, slots=True)
class Columns:
    """Where texts and labels are found in a table."""

    text: tuple[str, ...]
    """Names of columns; dots lead into nested ones, as in `body.main`."""
    labels: str | None = None
    """None: documents have no labels."""
    separator: str | None = None
    """What stands between labels in one text; the empty text where each is one label, None for lists, and
    `[]` for lists written as text."""
    encoding: str | None = None
    """What files that are not UTF-8 are read with; None for UTF-8."""


@dataclass(frozen=True, slots=True)
class TextInfo:
    """How texts became words: what a corpus says of it."""

    tokenizer: Tokenizer
    columns: Columns

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"tokenizer": self.tokenizer.as_dict(), "columns": asdict(self.columns)}

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> TextInfo:
        """From what a store says; raises ValueError, TypeError or KeyError for what nobody wrote."""
        columns = Columns(**{**said["columns"], "text": tuple(said["columns"]["text"])})
        names = (*columns.text, columns.labels or "", columns.separator or "", columns.encoding or "")
        if not 0 < len(columns.text) <= _MAX_COLUMNS or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{str(names)[:50]!r} are not names of columns")
        if not _is_encoding(columns.encoding):
            raise ValueError(f"{str(columns.encoding)[:50]!r} is not an encoding of text")
        return cls(Tokenizer.from_dict(said["tokenizer"]), columns)


def _check_pattern(pattern: object) -> None:
    name, remedy = "pattern", "Write RE2 syntax, as in [\\p{L}\\p{N}]+ for runs of letters and digits."
    _check(isinstance(pattern, str) and 0 < len(pattern) <= _MAX_PATTERN, name, pattern, remedy)
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        _check(False, name, f"{pattern} ({error})", remedy)


def _check(good: bool, name: str, value: object, remedy: str) -> None:
    if not good:
        shown = f"{str(value)[:200]}…" if len(str(value)) > 200 else str(value)
        raise InputError(f"The tokenizer's {name} is not usable. Found {shown}. {remedy}")


def _whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_encoding(name: str | None) -> bool:
    try:
        return name is None or isinstance(b"x".decode(name, "replace"), str)
    except (LookupError, ValueError):
        return False


def _encodes(word: str) -> bool:
    try:
        return 0 < len(word.encode()) <= 4 * MAX_CHARACTERS
    except UnicodeEncodeError:
        return False
