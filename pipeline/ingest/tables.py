"""Tables of texts in JSON lines, CSV or Parquet, read as batches of Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet

from ..errors import InputError
from .batches import Batch, ColumnSelection, Places
from .columns import Sample
from .csv_rows import CsvFile
from .encodings import UTF_8, guess_encoding
from .json_rows import JsonFields, flat, read_rows, struct_column
from .sizes import SIZES, Sizes
from .sources import LineReader, Part, cut_file, decompressed, reading

_PACKED = (".gz", ".bz2", ".xz", ".zst")
_KINDS = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
_SAMPLE_ROWS, _SAMPLE_BYTES = 200, 1_000_000
_BATCH_ROWS = 8192
_BOM = b"\xef\xbb\xbf"

BadRow = Callable[[Callable[[], str], str], None]
"""Called with a function that says where a row is, which may be slow, and with what is wrong with it."""
Advance = Callable[[float], None]
"""Called with the bytes of the file read since the last call."""


def table_kind(path: str | Path) -> str | None:
    """Kind of a table, by its name or first bytes: `jsonl`, `csv`, `parquet`, or None for anything else."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    if suffixes and suffixes[-1] in _KINDS:
        return _KINDS[suffixes[-1]]
    if not Path(path).is_file():
        return None
    with reading(Path(path)), Path(path).open("rb") as raw:
        start = decompressed(raw).read(1024)
    if start.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if start.removeprefix(_BOM).lstrip().startswith(b"{") else None


def take_sample(
    path: Path,
    kind: str,
    encoding: str | None = None,
    known: str | None = None,
    row_bytes: int = SIZES.row_bytes,
) -> Sample:
    """Read the first rows of a table, the names of its columns, and the encoding of its text.

    Parameters
    ----------
    encoding
        A result of `known_encoding`. None: UTF-8, or else `known`, or else a guess.

    Raises
    ------
    InputError
        The file is not a table of this kind, or it is empty.
    """
    if kind == "parquet":
        return _sample_parquet(path)
    with reading(path), path.open("rb") as raw:
        if is_guess := encoding is None:
            encoding = guess_encoding(decompressed(raw), str(path), known)
            is_guess = encoding not in (None, known)
        encoding = None if encoding == UTF_8 else encoding
        start = _beginning(decompressed(raw, encoding), row_bytes)
        if not start.strip():
            raise InputError(f"{path} is empty. Found no rows. Check that it was written completely.")
        if b"\0" in start[:_SAMPLE_BYTES]:
            raise InputError(
                f"{path} contains zero bytes. Is it UTF-16? Name its encoding, as with --encoding utf-16-le."
            )
    is_csv = kind == "csv"
    sample = _sample_csv(path, encoding, row_bytes) if is_csv else sample_lines(str(path), start)
    return replace(sample, encoding=encoding, is_guess=is_guess)


def _beginning(stream: IO[bytes], row_bytes: int) -> bytes:
    """Read the first lines. Skips a line that is too long for a document, which is left out later."""
    start = stream.read(_SAMPLE_BYTES).removeprefix(_BOM)
    while b"\n" not in start and (chunk := stream.read(_SAMPLE_BYTES)):
        start += chunk
        if len(start) > row_bytes:
            _, newline, rest = chunk.partition(b"\n")
            while not newline and (chunk := stream.read(_SAMPLE_BYTES)):
                _, newline, rest = chunk.partition(b"\n")
            return rest + stream.read(_SAMPLE_BYTES)
    return start


def sample_lines(path: str, start: bytes) -> Sample:
    """Make a sample from the beginning of JSON lines, of which the last may be cut."""
    if start.lstrip().startswith(b"["):
        raise InputError(
            f"{path} is one JSON list. Each line must be one object. "
            f"Rewrite it, as with: jq -c '.[]' {path} > rows.jsonl"
        )
    rows, wrong = [], ""
    lines = start.splitlines(keepends=True)
    for line in lines[:_SAMPLE_ROWS]:
        try:
            row = json.loads(line.decode("utf-8", "replace"))
            if isinstance(row, dict):
                rows.append(flat(row))
            elif line.strip():
                wrong = wrong or f"{line[:60]!r} is not an object with named fields"
        except (ValueError, RecursionError) as error:
            wrong = wrong or (
                f"{line[:60].decode('utf-8', 'replace')!r} is not JSON ({error})" if line.strip() else ""
            )
    if not rows:
        raise InputError(f"{path} has no row to begin with: {wrong}. Write one JSON object per line.")
    return Sample(path, _names_of(rows), rows)


def _names_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Column names, without lists that are empty while other rows have objects in them."""
    names = dict.fromkeys(name for row in rows for name in row)
    nested = {name.rpartition(".")[0] for name in names}
    return [name for name in names if name not in nested or any(row.get(name) for row in rows)]


def _sample_csv(path: Path, encoding: str | None, row_bytes: int) -> Sample:
    with CsvFile.open(path, encoding, row_bytes) as file:
        names = file.names
        for table in file.tables():
            rows = table.slice(0, _SAMPLE_ROWS).rename_columns(names).to_pylist()
            return Sample(str(path), names, [_decoded(row) for row in rows])
    return Sample(str(path), names)


def _decoded(row: dict[str, bytes]) -> dict[str, Any]:
    return {name: value.decode("utf-8", "replace") for name, value in row.items()}


def _sample_parquet(path: Path) -> Sample:
    file = _parquet(path)
    rows: list[dict[str, Any]] = []
    for batch in file.iter_batches(batch_size=_SAMPLE_ROWS):
        rows = [flat(row) for row in batch.to_pylist()]
        break
    names = dict.fromkeys([*file.schema_arrow.names, *(name for row in rows for name in row)])
    nested = {name.split(".")[0] for name in names if "." in name and name not in file.schema_arrow.names}
    return Sample(str(path), [name for name in names if name not in nested], rows)


# -- parts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TablePart:
    """A run of rows of one file, read by one task."""

    path: Path
    kind: str
    n_bytes: int
    sizes: Sizes
    lines: Part | None = None
    row_groups: tuple[int, ...] = ()

    def batches(
        self, wanted: ColumnSelection, sample: Sample, bad_row: BadRow, advance: Advance
    ) -> Iterator[Batch]:
        """Read all rows, in order."""
        if self.kind == "jsonl":
            return self._json_batches(wanted, sample, bad_row, advance)
        if self.kind == "csv":
            return self._csv_batches(wanted, sample, bad_row, advance)
        return self._parquet_batches(wanted, advance)

    def _json_batches(
        self, wanted: ColumnSelection, sample: Sample, bad_row: BadRow, advance: Advance
    ) -> Iterator[Batch]:
        assert self.lines is not None
        reader = LineReader(self.lines, self.sizes)
        fields = JsonFields.guess(wanted.columns, wanted.labels, wanted.id, sample.rows)
        done = 0
        for slab in reader:
            batch = wanted.batch(*read_rows(slab, fields, self.sizes.row_bytes))
            for row in batch.refused:
                bad_row(partial(self._line, reader, row.row), row.why)
            yield batch
            advance(reader.file_position - done)
            done = reader.file_position

    def _csv_batches(
        self, wanted: ColumnSelection, sample: Sample, bad_row: BadRow, advance: Advance
    ) -> Iterator[Batch]:
        done = first = 0
        with CsvFile.open(self.path, sample.encoding, self.sizes.row_bytes) as file:
            for batch in file.batches(wanted):
                for row in batch.refused:
                    bad_row(partial(self._record, first + row.row), row.why)
                yield batch
                first += batch.n_rows
                advance(file.raw.tell() - done)
                done = file.raw.tell()

    def _line(self, reader: LineReader, line: int) -> str:
        return f"{self.path}, line {reader.number_of_line(line)}"

    def _record(self, number: int) -> str:
        return f"{self.path}, record {number + 1:,}"

    def _parquet_batches(self, wanted: ColumnSelection, advance: Advance) -> Iterator[Batch]:
        file = _parquet(self.path)
        n_rows = sum(file.metadata.row_group(i).num_rows for i in self.row_groups)
        top = list(dict.fromkeys(_outer(name, file.schema_arrow.names) for name in wanted.names))
        try:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=list(self.row_groups), columns=top):
                table = pa.Table.from_batches([batch])
                found = {name: struct_column(table, name) for name in wanted.names}
                yield wanted.batch(found, Places.all(batch.num_rows))
                advance(self.n_bytes * batch.num_rows / max(1, n_rows))
        except (pa.ArrowException, OSError) as error:
            raise _not_parquet(self.path, error) from error


def cut_table(path: Path, kind: str, encoding: str | None, sizes: Sizes) -> list[TablePart]:
    """Cut a file into parts for separate tasks. CSV stays whole, because cells may hold newlines."""
    size = path.stat().st_size
    if kind == "csv":
        return [TablePart(path, kind, size, sizes)]
    if kind == "jsonl":
        with reading(path), path.open("rb") as raw:
            start = len(_BOM) if decompressed(raw, encoding).read(3) == _BOM else 0
        lines = cut_file(path, start, sizes.table_part_bytes, encoding)
        return [TablePart(path, kind, size // len(lines), sizes, lines=part) for part in lines]
    metadata = _parquet(path).metadata
    parts, groups, n_bytes = [], [], 0
    for number in range(metadata.num_row_groups):
        groups.append(number)
        n_bytes += metadata.row_group(number).total_byte_size
        if n_bytes >= sizes.table_part_bytes or number == metadata.num_row_groups - 1:
            parts.append(TablePart(path, kind, n_bytes, sizes, row_groups=tuple(groups)))
            groups, n_bytes = [], 0
    return parts


def _parquet(path: Path) -> Any:
    try:
        return pa.parquet.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise _not_parquet(path, error) from error


def _not_parquet(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path} cannot be read as Parquet: {_one_line(error)}. Get it again, or write it again; "
        "Parquet files are compressed inside, not as a whole."
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:200]


def _outer(name: str, there: Sequence[str]) -> str:
    return name if name in there else name.split(".")[0]
