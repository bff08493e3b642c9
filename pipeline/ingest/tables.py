"""Tables of texts, in files of JSON lines, CSV or Parquet, as batches of Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from pipeline.corpus.text_info import Columns
from pipeline.errors import InputError
from pipeline.ingest.columns import Labels, Sample, read_labels
from pipeline.ingest.json_rows import MAX_ROW_BYTES, JsonFields, flat, read_rows, struct_column
from pipeline.ingest.sources import LineReader, Part, cut_file, decompressed, reading
from pipeline.ingest.spool import PIECE_BYTES

_PACKED = (".gz", ".bz2", ".xz", ".zst")
_KINDS = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
_SAMPLE_ROWS, _SAMPLE_BYTES = 200, 1_000_000
_BATCH_ROWS = 8192
_PART_BYTES = 8_000_000
_BOM = b"\xef\xbb\xbf"

BadRow = Callable[[Callable[[], str], str], None]
"""Called with what tells where a row is, which may take a while, and what is wrong with it."""
Advance = Callable[[float], None]
"""Called with bytes of the file that were read since the last call."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some documents."""

    texts: list[Any]
    """For each text column an Arrow array of binary values, without nulls."""
    labels: Labels
    ids: list[Any] | None
    """Values of the id column, ready for JSON."""

    @property
    def n_documents(self) -> int:
        return len(self.texts[0])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read of a table."""

    columns: Columns
    labels: bool = True
    id: str | None = None

    @property
    def names(self) -> list[str]:
        others = (self.columns.labels if self.labels else None, self.id)
        return [*self.columns.text, *(name for name in others if name is not None)]

    def batch(self, found: dict[str, Any]) -> Batch:
        """From the columns of a table, by name."""
        texts = [_texts(found[name], name) for name in self.columns.text]
        labels = Labels.none(len(texts[0]))
        if self.labels and self.columns.labels is not None:
            labels = read_labels(found[self.columns.labels], self.columns.separator)
        return Batch(texts, labels, None if self.id is None else _ids(found[self.id]))


def table_kind(path: str | Path) -> str | None:
    """`jsonl`, `csv` or `parquet`, by the name of a file, or by how it begins; None for anything else."""
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


def take_sample(path: Path, kind: str) -> Sample:
    """The first rows of a table, and the names of its columns.

    Raises
    ------
    InputError
        It is not such a table, or it is empty.
    """
    if kind == "parquet":
        return _sample_parquet(path)
    with reading(path), path.open("rb") as raw:
        start = _beginning(decompressed(raw))
        if not start.strip():
            raise InputError(f"{path} is empty. Found no rows. Check that it was written completely.")
        if b"\0" in start[:_SAMPLE_BYTES]:
            raise InputError(
                f"{path} contains zero bytes. Is it UTF-16? Convert it, as with: iconv -f UTF-16 -t UTF-8"
            )
        raw.seek(0)
        return _sample_csv(path, decompressed(raw)) if kind == "csv" else sample_lines(str(path), start)


def _beginning(stream: IO[bytes]) -> bytes:
    """The first lines; a line that is too long for a document is passed over, for it is left out later."""
    start = stream.read(_SAMPLE_BYTES).removeprefix(_BOM)
    while b"\n" not in start and (chunk := stream.read(_SAMPLE_BYTES)):
        start += chunk
        if len(start) > MAX_ROW_BYTES:
            _, newline, rest = chunk.partition(b"\n")
            while not newline and (chunk := stream.read(_SAMPLE_BYTES)):
                _, newline, rest = chunk.partition(b"\n")
            return rest + stream.read(_SAMPLE_BYTES)
    return start


def sample_lines(path: str, start: bytes) -> Sample:
    """A sample from the beginning of JSON lines; the last line may be cut."""
    if start.lstrip().startswith(b"["):
        raise InputError(
            f"{path} is one JSON list. Wanted is an object on each line. "
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
        raise InputError(f"{path} has no row to begin with: {wrong}. Write one JSON object a line.")
    names = dict.fromkeys(name for row in rows for name in row)
    return Sample(path, list(names), rows)


def _sample_csv(path: Path, stream: IO[bytes]) -> Sample:
    with _csv(path, stream, None, []) as reader:
        names = reader.schema.names
        try:
            rows = reader.read_next_batch().slice(0, _SAMPLE_ROWS).to_pylist()
        except StopIteration:
            rows = []
    return Sample(str(path), names, rows)


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
    """A run of rows of one file that a task reads by itself."""

    path: Path
    kind: str
    n_bytes: int
    lines: Part | None = None
    row_groups: tuple[int, ...] = ()

    def batches(self, wanted: Wanted, sample: Sample, bad_row: BadRow, advance: Advance) -> Iterator[Batch]:
        """All rows, in order."""
        if self.kind == "jsonl":
            return self._json_batches(wanted, sample, bad_row, advance)
        if self.kind == "csv":
            return self._csv_batches(wanted, bad_row, advance)
        return self._parquet_batches(wanted, advance)

    def _json_batches(
        self, wanted: Wanted, sample: Sample, bad_row: BadRow, advance: Advance
    ) -> Iterator[Batch]:
        assert self.lines is not None
        reader = LineReader(self.lines, PIECE_BYTES)
        fields = JsonFields.guess(wanted.columns, wanted.labels, wanted.id, sample.rows)
        done = 0
        for slab in reader:

            def complain(position: int, why: str, slab: bytes = slab) -> None:
                bad_row(lambda: f"{self.path}, line {reader.line_number(slab, position)}", why)

            yield wanted.batch(read_rows(slab, fields, complain))
            advance(reader.file_position - done)
            done = reader.file_position

    def _csv_batches(self, wanted: Wanted, bad_row: BadRow, advance: Advance) -> Iterator[Batch]:
        done = 0
        wrong: list[str] = []

        def complain() -> None:
            while wrong:
                bad_row(lambda: str(self.path), wrong.pop(0))

        with (
            reading(self.path),
            self.path.open("rb") as raw,
            _csv(self.path, decompressed(raw), wanted.names, wrong) as reader,
        ):
            try:
                for batch in reader:
                    complain()
                    yield wanted.batch({name: batch.column(name) for name in wanted.names})
                    advance(raw.tell() - done)
                    done = raw.tell()
            except pa.ArrowInvalid as error:
                raise _bad_csv(self.path, error) from error
            complain()

    def _parquet_batches(self, wanted: Wanted, advance: Advance) -> Iterator[Batch]:
        file = _parquet(self.path)
        n_rows = sum(file.metadata.row_group(i).num_rows for i in self.row_groups)
        top = list(dict.fromkeys(_outer(name, file.schema_arrow.names) for name in wanted.names))
        try:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=list(self.row_groups), columns=top):
                table = pa.Table.from_batches([batch])
                yield wanted.batch({name: struct_column(table, name) for name in wanted.names})
                advance(self.n_bytes * batch.num_rows / max(1, n_rows))
        except (pa.ArrowException, OSError) as error:
            raise _not_parquet(self.path, error) from error


def cut_table(path: Path, kind: str) -> list[TablePart]:
    """Cut a file into parts that can be read by themselves. CSV stays whole, for cells may hold newlines."""
    size = path.stat().st_size
    if kind == "csv":
        return [TablePart(path, kind, size)]
    if kind == "jsonl":
        with reading(path), path.open("rb") as raw:
            start = len(_BOM) if decompressed(raw).read(3) == _BOM else 0
        lines = cut_file(path, start, _PART_BYTES)
        return [TablePart(path, kind, size // len(lines), lines=part) for part in lines]
    metadata = _parquet(path).metadata
    parts, groups, n_bytes = [], [], 0
    for number in range(metadata.num_row_groups):
        groups.append(number)
        n_bytes += metadata.row_group(number).total_byte_size
        if n_bytes >= _PART_BYTES or number == metadata.num_row_groups - 1:
            parts.append(TablePart(path, kind, n_bytes, row_groups=tuple(groups)))
            groups, n_bytes = [], 0
    return parts


# -- Arrow's readers ----------------------------------------------------------------------------------------


def _csv(path: Path, stream: IO[bytes], names: Sequence[str] | None, wrong: list[str]) -> Any:
    """Arrow's reader of a CSV file; all cells are binary.

    What is wrong with rows that are left out goes to `wrong`: where Arrow calls us nothing can be raised.
    """

    def skip(row: Any) -> str:
        found = " ".join(row.text.split())[:60]
        wrong.append(f"a row has {row.actual_columns} cells and the first {row.expected_columns}: {found!r}")
        return "skip"

    header, delimiter = _csv_header(stream, path)
    stream.seek(0)
    options = pa.csv.ConvertOptions(
        include_columns=names,
        column_types=dict.fromkeys(names or header, pa.binary()),
        strings_can_be_null=False,
    )
    try:
        return pa.csv.open_csv(
            stream,
            pa.csv.ReadOptions(block_size=MAX_ROW_BYTES),
            pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
            options,
        )
    except pa.ArrowInvalid as error:
        raise _bad_csv(path, error) from error


def _csv_header(stream: IO[bytes], path: Path) -> tuple[list[str], str]:
    """The names of the columns, and what separates them: the most frequent of four marks."""
    line = stream.read(2**16).removeprefix(_BOM).partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    delimiter = max("\t,;|", key=line.count)
    names = [name.strip('"') for name in line.split(delimiter)]
    if len(set(names)) < len(names):
        raise InputError(
            f"{path}: two columns have the same name. Found {', '.join(names)[:200]}. "
            "Is the first row the names of the columns? Give each its own."
        )
    return names, delimiter


def _bad_csv(path: Path, error: Exception) -> InputError:
    if "straddling" in str(error):
        return InputError(
            f"{path} has a row of more than {MAX_ROW_BYTES:,} bytes. Is a quote not closed? "
            "Mend or shorten that row."
        )
    return InputError(
        f"{path} cannot be read as CSV: {_one_line(error)}. Check its quotes and its first row."
    )


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


def _texts(column: Any, name: str) -> Any:
    """A column as binary values without nulls."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_list(column.type) and _is_text(column.type.value_type):
        column = pc.binary_join(column, " ")
    if pa.types.is_nested(column.type):
        raise InputError(
            f"The text {name!r} is neither text nor a list of texts. Found the type {column.type}. "
            "Name a column inside, as in --text body.main."
        )
    if pa.types.is_null(column.type) or not _is_text(column.type):
        column = column.cast(pa.large_string())
    return pc.fill_null(column.cast(pa.large_binary()), b"")


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: Any) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def _ids(column: Any) -> list[Any]:
    values = column if isinstance(column, list) else column.to_pylist()
    return [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
