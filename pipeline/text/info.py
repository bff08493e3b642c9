"""Settings that turn texts into words, stored with a corpus and its models for use on new texts.

Nothing in them is executed. RE2 runs the token pattern, in time that grows only with the length of the text.
So a pattern from an untrusted store cannot hang the machine, as it could with Python's `re`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import InputError

MAX_HASH_BITS = 26
MAX_CHARACTERS = 100
"""Most characters of a word. Longer runs of letters are keys, encoded images and the like."""
_MAX_STOP_WORDS = 100_000
_MAX_PATTERN = 1000
_MAX_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Definition of a word.

    Texts are first normalised to Unicode's form NFC. A word is then a run of letters, digits and marks of any
    script. It may contain single apostrophes: `it's` is a word, and so is `naïve`; `snake_case` is two.

    Parameters
    ----------
    lower
        Convert to lower case, each character by itself.
    accents
        Keep accents. False turns `é` into `e`.
    min_length
        Fewest characters of a word. The most are always 100.
    bigrams
        Also count pairs of consecutive words, within a column and after stop words are removed.
    stop_words
        Words to leave out, as spelled after `lower` and `accents`.
    pattern
        Regular expression for a word, instead of the rule above, in RE2's syntax: `\\p{L}` is a letter of any
        script, and there is no lookahead. It is applied after `lower` and `accents`.
    hash_bits
        Hash words to 2**hash_bits columns, without a vocabulary. None: use a vocabulary.
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
        """Dictionary that is ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> Tokenizer:
        """Tokenizer from a store's metadata. Raises ValueError, TypeError or KeyError if it is malformed."""
        return cls(**{**said, "stop_words": tuple(said["stop_words"])})


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a table that hold texts and labels."""

    text: tuple[str, ...]
    """Column names; dots lead into nested columns, as in `body.main`."""
    labels: str | None = None
    """None: documents have no labels."""
    separator: str | None = None
    """Separator between labels in one string; empty if each string is one label, None for lists, and `[]` for
    lists written as strings."""
    encoding: str | None = None
    """Encoding of files that are not UTF-8; None if all are."""


@dataclass(frozen=True, slots=True)
class TextInfo:
    """Tokenizer and columns of a corpus of texts."""

    tokenizer: Tokenizer
    columns: Columns

    def as_dict(self) -> dict[str, Any]:
        """Dictionary that is ready for JSON."""
        return {"tokenizer": self.tokenizer.as_dict(), "columns": asdict(self.columns)}

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> TextInfo:
        """Settings from a store's metadata. Raises ValueError, TypeError or KeyError if it is malformed."""
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
        pc.match_substring_regex(pa.nulls(1, pa.string()), pattern=pattern)  # pa.array would load pandas
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
