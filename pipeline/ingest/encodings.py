"""Detection of encodings other than UTF-8, and conversion to UTF-8."""

from __future__ import annotations

import codecs
import io
import re
from typing import IO, Any

from ..errors import InputError

_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
UTF_8 = "utf-8"
_WESTERN = "cp1252"
_MOST_ACCENTS = 0.3
"""Largest share of letters beyond ASCII in a Western European text."""
_CHUNK, _MOST_LOOKED_AT = 2**20, 2**28


def known_encoding(name: str | None) -> str | None:
    """Python's name of an encoding; None if none is given.

    Raises
    ------
    InputError
        There is no such encoding.
    """
    if name is None:
        return None
    try:
        b"x".decode(name, "replace")  # an empty text could be decoded by any name
        known = codecs.lookup(name).name
    except (LookupError, ValueError, TypeError) as error:
        raise InputError(
            f"The encoding is not known. Found {str(name)[:60]!r}. Name one such as utf-8, cp1252 or utf-16."
        ) from error
    return UTF_8 if known in ("utf-8", "ascii", "utf-8-sig") else known


def guess_encoding(stream: IO[bytes], where: str, known: str | None = None) -> str | None:
    """Guess the encoding of a text by its byte order mark or first bytes beyond ASCII; None for UTF-8.

    Parameters
    ----------
    known
        Encoding of the text if it is not UTF-8; None if unknown.

    Raises
    ------
    InputError
        It is neither UTF-8 nor, by its share of letters beyond ASCII, Western European.
    """
    chunk = stream.read(_CHUNK)
    for mark, name in _BOMS.items():
        if chunk.startswith(mark):
            return name
    seen = len(chunk)
    while chunk and chunk.isascii() and seen < _MOST_LOOKED_AT:
        chunk = stream.read(_CHUNK)
        seen += len(chunk)
    if chunk.isascii():
        return None
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(chunk)  # the end may be cut
    broken = len(re.findall("[\udc80-\udcff]", text))
    if broken == 0 or len(re.findall("[^\0-\x7f\udc80-\udcff]", text)) >= broken:
        return None  # UTF-8 with broken bytes here and there
    if known is not None:
        return known
    plain = len(re.findall("[A-Za-z]", text))
    if broken > _MOST_ACCENTS * (plain + broken):
        raise InputError(
            f"{where} is not UTF-8, and its encoding cannot be guessed. Found {broken:,} bytes "
            f"beyond ASCII and {plain:,} letters. Name it, as with --encoding cp1251 or --encoding gb18030."
        )
    return _WESTERN


class _AsUtf8(io.RawIOBase):
    """A stream converted to UTF-8. What cannot be decoded becomes bytes that are not UTF-8."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(_BROKEN)
        self._pending = b""
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a byte by reading everything before it."""
        if whence != 0:
            raise io.UnsupportedOperation("only from the start")
        self._stream.seek(0)
        self._decoder.reset()
        self._pending, self._position = b"", 0
        while self._position < offset and self.read(min(_CHUNK, offset - self._position)):
            pass
        return self._position

    def readinto(self, buffer: Any) -> int:
        while not self._pending:
            raw = getattr(self._stream, "read1", self._stream.read)(_CHUNK)
            self._pending = self._decoder.decode(raw, not raw).encode("utf-8", "surrogateescape")
            if not raw:
                break
        n = min(len(buffer), len(self._pending))
        buffer[:n], self._pending = self._pending[:n], self._pending[n:]
        self._position += n
        return n


def as_utf8(stream: IO[bytes], encoding: str) -> IO[bytes]:
    """Convert a stream in another encoding to UTF-8."""
    return io.BufferedReader(_AsUtf8(stream, encoding), _CHUNK)


def _broken(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


_BROKEN = "threepass-broken"
codecs.register_error(_BROKEN, _broken)
