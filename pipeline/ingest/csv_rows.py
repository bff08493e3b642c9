"""CSV rows, read by Arrow. Places count records, without the header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ..errors import InputError
from ..types import Array
from .batches import Batch, ColumnSelection, Places, Refused
from .sizes import SIZES
from .sources import decompressed, reading

_BOM = b"\xef\xbb\xbf"
_DELIMITERS = "\t,;|"


class CsvFile:
    """An open CSV file. Column names are stripped of blanks."""

    def __init__(self, path: Path, raw: IO[bytes], encoding: str | None, row_bytes: int) -> None:
        self.path = path
        self.raw = raw
        self._encoding = encoding
        self._row_bytes = row_bytes
        self._stream = decompressed(raw, encoding)
        self._wrong: list[str] = []
        header, self._delimiter = self._header()
        self._names = {_clean(name): name for name in reversed(header)}
        self.n_columns = len(header)

    @classmethod
    @contextmanager
    def open(cls, path: Path, encoding: str | None, row_bytes: int = SIZES.row_bytes) -> Iterator[CsvFile]:
        """Open a file. Errors in it become an `InputError`."""
        with reading(path), path.open("rb") as raw:
            try:
                yield cls(path, raw, encoding, row_bytes)
            except pa.ArrowInvalid as error:
                raise _bad_csv(path, error, row_bytes) from error

    @property
    def names(self) -> list[str]:
        return [*reversed(self._names)]

    def batches(self, wanted: ColumnSelection) -> Iterator[Batch]:
        """Read all rows, in order. Refuse rows with more or fewer cells than the header."""
        first, told = 0, 0
        bad: Array | None = None
        for table in self.tables(wanted.names):
            if self._wrong and bad is None:
                bad = self._misshapen()
            rows = _places(first, table.num_rows, bad)
            last = int(rows[-1]) + 1 if len(rows) else first
            refused = self._refused(bad, told, last)
            told += len(refused)
            found = {name: table.column(self._names[name]) for name in wanted.names}
            refused = [Refused(row.row - first, row.why) for row in refused]
            yield wanted.batch(found, Places(rows - first, last - first, refused))
            first = last
        if self._wrong:
            bad = self._misshapen() if bad is None else bad
            refused = [Refused(row.row - first, row.why) for row in self._refused(bad, told, None)]
            none = {name: pa.array([], pa.binary()) for name in wanted.names}
            n_rows = refused[-1].row + 1 if refused else 0
            yield wanted.batch(none, Places(np.zeros(0, np.int64), n_rows, refused))
            if len(bad) != len(self._wrong):
                raise InputError(
                    f"{self.path} cannot be read as CSV: {len(bad):,} or {len(self._wrong):,} rows have "
                    "more or fewer cells than the first, depending on how quotes are read. Check its quotes."
                )

    def tables(self, names: Sequence[str] | None = None) -> Any:
        """Arrow batches of some columns, or of all. Every cell is binary."""
        chosen = None if names is None else [self._names[name] for name in names]
        self._stream.seek(0)
        self._wrong = []
        options = pa.csv.ConvertOptions(
            include_columns=chosen,
            column_types=dict.fromkeys(chosen or self._names.values(), pa.binary()),
            strings_can_be_null=False,
        )
        return pa.csv.open_csv(
            self._stream,
            pa.csv.ReadOptions(block_size=self._row_bytes),
            pa.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=self._skip
            ),
            options,
        )

    def _skip(self, row: Any) -> str:
        # Arrow's callback cannot raise
        found = " ".join(row.text.split())[:60]
        cells = "1 cell" if row.actual_columns == 1 else f"{row.actual_columns} cells"
        self._wrong.append(f"a row has {cells} and the first {row.expected_columns}: {found!r}")
        return "skip"

    def _refused(self, bad: Array | None, told: int, before: int | None) -> list[Refused]:
        """Refused rows before a record, without the first `told`. Places count records."""
        rows = [] if bad is None else bad[told:].tolist()
        reasons = zip(rows, self._wrong[told:], strict=False)
        return [Refused(row, why) for row, why in reasons if before is None or row < before]

    def _misshapen(self) -> Array:
        """Numbers of the records with more or fewer cells than the header, which Arrow does not report."""
        csv.field_size_limit(2**31 - 1)
        with self.path.open("rb") as raw:
            text = io.TextIOWrapper(decompressed(raw, self._encoding), "latin-1", newline="")
            records = (record for record in csv.reader(text, delimiter=self._delimiter) if record)
            next(records, None)
            bad = [number for number, record in enumerate(records) if len(record) != self.n_columns]
        return np.array(bad, np.int64)

    def _header(self) -> tuple[list[str], str]:
        """Column names, and the delimiter: the most frequent of four characters."""
        start = self._stream.read(2**16).removeprefix(_BOM).decode("utf-8", "replace").lstrip("\r\n")
        delimiter = max(_DELIMITERS, key=start.partition("\n")[0].count)
        names = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
        clean = [_clean(name) for name in names]
        if len(set(clean)) < len(clean):
            raise InputError(
                f"{self.path}: two columns have the same name. Found {', '.join(clean)[:200]}. "
                "Does the first row hold the column names? Give each column its own."
            )
        return names, delimiter


def _clean(name: str) -> str:
    return name.strip().strip("\ufeff").strip()


def _places(first: int, n: int, bad: Array | None) -> Array:
    """(n,) int64: first n records from `first` on that are not bad."""
    good = np.arange(first, first + n)
    if bad is None:
        return good
    ahead = bad[bad >= first]
    return good + np.searchsorted(ahead - np.arange(len(ahead)), good, side="right")


def _bad_csv(path: Path, error: Exception, row_bytes: int) -> InputError:
    if "straddling" in str(error):
        return InputError(
            f"{path} has a row of more than {row_bytes:,} bytes. Is a quote not closed? "
            "Fix or shorten that row."
        )
    reason = " ".join(str(error).split()).rstrip(".")[:200]
    return InputError(f"{path} cannot be read as CSV: {reason}. Check its quotes and its first row.")
