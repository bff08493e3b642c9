"""Text files, plain or compressed: search, opening, and cutting into parts of whole lines."""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import sys
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from .encodings import as_utf8
from .sizes import Sizes

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_BLANK = b" \t\r\n"
_MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstd.ZstdError)

Paths = str | Path | Sequence[str | Path]


def find_files(sources: Paths) -> list[Path]:
    """Files that paths and glob patterns name. The files of a pattern are in alphabetical order."""
    paths: list[Path] = []
    for source in _as_paths(sources):
        if _exists(source) or not glob.has_magic(str(source)):
            paths.append(Path(source))
            continue
        found = sorted(map(Path, glob.glob(str(source), recursive=True)))  # noqa: PTH207  (also absolute patterns)
        if not found:
            raise InputError(f"No file matches {str(source)[:200]}. Check the pattern.")
        paths.extend(found)
    if not paths:
        raise InputError("No source was given. Name at least one file.")
    for path in paths:
        if not _exists(path):
            raise InputError(f"{str(path)[:200]} does not exist. Check the path.")
        if not path.is_file():
            raise InputError(
                f"{path} is not a regular file. Name a file, or a pattern such as '{path}/*.txt'."
            )
    return paths


_WRITE_TABLE = "Write texts and labels to a file, as with df.to_parquet('posts.parquet'), and name that file."


def _as_paths(sources: Paths) -> list[str | Path]:
    """List of the sources. Refuses texts and tables in memory."""
    if not isinstance(sources, str | Path | list | tuple):
        kind = type(sources).__name__
        raise InputError(f"File names are needed. Found data of type {kind}. {_WRITE_TABLE}")
    paths = [sources] if isinstance(sources, str | Path) else list(sources)
    for path in paths:
        if not isinstance(path, str | Path):
            kind = type(path).__name__
            raise InputError(f"File names are needed. Found data of type {kind}. {_WRITE_TABLE}")
        suffix = Path(path).suffix
        if len(str(path).split()) > 1 and (not suffix or " " in suffix) and not _exists(path):
            raise InputError(f"File names are needed. Found the text {str(path)[:40]!r}. {_WRITE_TABLE}")
    return paths


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """File names, with their directories if names repeat."""
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # it is too long, or has a zero byte
        return False


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors in reading a source file into an `InputError` that names it."""
    try:
        yield
    except _BROKEN as error:
        raise InputError(
            f"{path} cannot be decompressed: {error}. The file is damaged or cut short. Get it again."
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}. Check the file.") from error


def compression_of(raw: IO[bytes]) -> str | None:
    """Compression by the first bytes, not the name: `gz`, `bz2`, `xz`, `zst`, or None for plain files."""
    raw.seek(0)
    start = raw.read(6)
    raw.seek(0)
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


def decompressed(raw: IO[bytes], encoding: str | None = None) -> IO[bytes]:
    """Content of an open file, as UTF-8 if an encoding is named; the file itself if it is plain."""
    openers: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open, "zst": zstd.open}
    kind = compression_of(raw)
    stream: IO[bytes] = raw if kind is None else openers[kind](raw)
    return stream if encoding is None else as_utf8(stream, encoding)


def read_names(path: str | Path) -> list[str]:
    """Read one name per line. Files that are not UTF-8 are read as Latin-1, which accepts every byte."""
    (file,) = find_files(path)
    with reading(file), file.open("rb") as raw:
        content = decompressed(raw).read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    names = text.split("\n")
    if names and not names[-1]:
        names.pop()
    return [name.rstrip("\r") for name in names]


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of a file that start at `start` or after, and before `end`."""

    path: Path
    start: int
    end: int | None
    """None: the end of the file."""
    mid_file: bool
    """Whether `start` may be inside a line, which then belongs to the part before."""
    encoding: str | None = None
    """None: UTF-8. In other encodings, positions are those after conversion to UTF-8."""


def cut_file(path: Path, start: int, part_bytes: int, encoding: str | None = None) -> list[Part]:
    """Cut a plain file into parts of about `part_bytes`. Compressed and non-UTF-8 files stay whole."""
    with reading(path), path.open("rb") as raw:
        whole = compression_of(raw) is not None or encoding is not None
        # No part may begin after the last line with content, so that one part has all blank lines at the end.
        end = start if whole else _content_end(raw)
    if end - start <= part_bytes:
        return [Part(path, start, None, False, encoding)]
    cuts = [*range(start, end, part_bytes)]
    ends: list[int | None] = [*cuts[1:], None]
    return [Part(path, a, b, a > start) for a, b in zip(cuts, ends, strict=True)]


def _content_end(raw: IO[bytes]) -> int:
    """Start of the blanks at the end of a file."""
    end = raw.seek(0, 2)
    while end > 0:
        start = max(0, end - 2**16)
        raw.seek(start)
        content = len(raw.read(end - start).rstrip(_BLANK))
        if content:
            return start + content
        end = start
    return 0


class LineReader:
    """Iterator over a part's text, in slabs of whole lines.

    No slab holds the blank lines at the very end of the file. `blank_tail` counts them afterwards.
    """

    def __init__(self, part: Part, sizes: Sizes) -> None:
        self.part = part
        self.blank_tail = 0
        self.lines_before = 0
        """Lines of this part before the current slab."""
        self.first_byte = part.start
        """Start of the part's first line."""
        self.file_position = 0
        """Bytes of this part read from disk so far; for progress."""
        self._sizes = sizes

    def __iter__(self) -> Iterator[bytes]:
        for slab in self._slabs():
            yield slab
            self.lines_before += slab.count(b"\n")

    def _slabs(self) -> Iterator[bytes]:
        end = self.part.end
        position = self.part.start - self.part.mid_file
        skipping = self.part.mid_file
        pending: list[bytes] = []  # a line not yet complete, or blank lines with nothing after them yet
        for raw in self._chunks():
            chunk = raw
            if skipping:
                newline = chunk.find(b"\n")
                position += len(chunk) if newline < 0 else newline + 1
                if newline < 0:
                    continue
                self.first_byte = position
                if end is not None and position >= end:
                    return
                chunk = chunk[newline + 1 :]
                skipping = False
            if b"\0" in chunk:
                raise InputError(
                    f"{self.part.path} is not a text file: it contains zero bytes. "
                    "Give a text file, plain or compressed with gzip, bzip2, xz or zstd."
                )
            start, position = position, position + len(chunk)
            if end is not None and position >= end:
                newline = chunk.find(b"\n", max(end - 1 - start, 0))
                if newline >= 0:
                    yield b"".join([*pending, chunk[: newline + 1]])
                    return
            content = len(chunk.rstrip(_BLANK))
            cut = chunk.find(b"\n", content) if content else -1
            if content and cut < 0:
                cut = chunk.rfind(b"\n", 0, content)
            if cut >= 0:
                yield b"".join([*pending, chunk[: cut + 1]])
                pending = []
            pending.append(chunk[cut + 1 :])
            if sum(map(len, pending)) > self._sizes.line_bytes:
                raise InputError(
                    f"{self.part.path} has a line of more than {self._sizes.line_bytes:,} bytes. "
                    "Is it a text file with one document per line?"
                )
        rest = b"".join(pending)
        line = rest.rstrip(_BLANK)
        if line:
            yield line + b"\n"
        tail = rest[len(line) :].split(b"\n")[bool(line) :]
        self.blank_tail = len(tail) - (tail[-1:] == [b""])

    def _chunks(self) -> Iterator[bytes]:
        with reading(self.part.path), self.part.path.open("rb") as raw:
            stream = decompressed(raw, self.part.encoding)
            # `mid_file`: a newline just before `start` means that a line starts there
            stream.seek(self.part.start - self.part.mid_file)
            offset = self.part.start if self.part.mid_file else 0
            with ThreadPoolExecutor(1) as ahead:  # the next chunk is decompressed while this one is parsed
                following = ahead.submit(stream.read, self._sizes.piece_bytes)
                while chunk := following.result():
                    self.file_position = raw.tell() - offset
                    following = ahead.submit(stream.read, self._sizes.piece_bytes)
                    yield chunk

    def line_number(self, slab: bytes, position: int) -> int:
        """Line number in the whole file, from 1, of a byte of the current slab."""
        return self.number_of_line(slab.count(b"\n", 0, position))

    def number_of_line(self, line: int) -> int:
        """Line number in the whole file, from 1, of a line of the current slab, from 0."""
        lines = self.lines_before + line
        with reading(self.part.path), self.part.path.open("rb") as raw:
            stream = decompressed(raw, self.part.encoding)
            left = self.first_byte
            while left > 0 and (chunk := stream.read(min(left, 2**20))):
                lines += chunk.count(b"\n")
                left -= len(chunk)
        return lines + 1
