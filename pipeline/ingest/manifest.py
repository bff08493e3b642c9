"""Data manifests: where a public data set is, what its files are, and the counts it must have.

A manifest is a TOML file, `data_manifests/NAME.toml`; the README beside them describes every key. Reading is
strict: an unknown key, a wrong type or a file name that could lead out of its folder is refused by name.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from ..errors import InputError

Role = Literal["train", "test", "features", "labels"]
Format = Literal["xmc", "mulan"]
ROLES: tuple[Role, ...] = get_args(Role)
FORMATS: tuple[Format, ...] = get_args(Format)
_NEEDED: Mapping[Format, frozenset[Role]] = {
    "xmc": frozenset({"train", "test"}),
    "mulan": frozenset({"train", "test", "labels"}),
}
_TOP = ("title", "home", "licence", "format", "manual", "files", "counts", "propensity")
_FILE = ("name", "url", "sha256", "member")
_NUMBERS = ("train_documents", "test_documents", "features", "labels")
_AVERAGES = ("mean_features", "median_features", "mean_labels", "median_labels")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_KINDS: Mapping[type, str] = {str: "text", int: "a whole number", dict: "a table", Decimal: "a number"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a data set, as its publisher names it."""

    name: str
    url: str | None = None
    """None: it has no stable address, and is fetched by hand."""
    sha256: str | None = None
    """None: not known; whatever is downloaded is taken, and its hash is told."""
    member: str | None = None
    """The file to take out, when `name` is a zip or tar archive."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A number that is not what the manifest states."""

    what: str
    expected: float
    found: float

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected:,}, found {_rounded(self.found):,}"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a data set must have. Means and medians are over its training and test documents together."""

    train_documents: int
    test_documents: int
    features: int
    labels: int
    mean_features: Decimal | None = None
    median_features: Decimal | None = None
    mean_labels: Decimal | None = None
    median_labels: Decimal | None = None

    def differences(self, found: Mapping[str, float]) -> list[Difference]:
        """Compare with what was counted, under the names of the fields.

        Whole numbers and medians must be equal. A mean may be off by less than one unit of its last stated
        digit, because some publishers round and others cut.
        """
        differing = []
        for name, stated in self._stated():
            slack = Decimal(1).scaleb(_exponent(stated)) if name.startswith("mean_") else Decimal(0)
            off = abs(Decimal(found[name]) - stated)
            if off and off >= slack:
                differing.append(Difference(name.replace("_", " "), _plain(stated), found[name]))
        return differing

    def as_dict(self) -> dict[str, float]:
        """What is stated, ready for JSON."""
        return {name: _plain(stated) for name, stated in self._stated()}

    def _stated(self) -> list[tuple[str, Decimal]]:
        return [(name, Decimal(value)) for name, value in asdict(self).items() if value is not None]


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is known beforehand about a public data set."""

    name: str
    title: str
    home: str
    licence: str
    format: Format
    """`xmc`: the XMC repository's text. `mulan`: ARFF, with an XML file that names the labels."""
    files: Mapping[Role, DataFile]
    counts: Counts
    propensity: tuple[float, float]
    """A and B of the propensity model that the data set's published results use."""
    manual: str | None = None
    """What to do by hand, where files have no address."""

    @property
    def is_downloadable(self) -> bool:
        """Whether every file has an address."""
        return all(file.url for file in self.files.values())

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "home": self.home,
            "licence": self.licence,
            "format": self.format,
            "manual": self.manual,
            "files": {role: asdict(file) for role, file in self.files.items()},
            "counts": self.counts.as_dict(),
            "propensity": {"A": self.propensity[0], "B": self.propensity[1]},
        }


def list_datasets() -> list[Manifest]:
    """The manifests that come with the package, by name.

    Examples
    --------
    >>> [data.name for data in list_datasets()][:2]
    ['amazoncat-13k', 'bibtex']
    """
    return [read_manifest(path) for path in _shipped()]


def find_manifest(name: str) -> Manifest:
    """The manifest of a data set that comes with the package, or of your own when `name` ends in `.toml`.

    Examples
    --------
    >>> data = find_manifest("bibtex")
    >>> data.counts.train_documents, data.propensity
    (4880, (0.55, 1.5))
    """
    if name.endswith(".toml"):
        return read_manifest(Path(name))
    known = {path.stem: path for path in _shipped()}
    if name.lower() in known:
        return read_manifest(known[name.lower()])
    close = difflib.get_close_matches(name.lower(), known, n=1)
    advice = f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}."
    raise InputError(f"There is no manifest of a data set '{name}'. {advice}")


def read_manifest(path: Path) -> Manifest:
    """Read and validate one manifest; its file's name is the name of the data set.

    Raises
    ------
    InputError
        The file cannot be read, or something in it is not as it must be; the message names the key.
    """
    try:
        with path.open("rb") as file:
            # decimals keep how many digits are stated
            content = tomllib.load(file, parse_float=Decimal)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. Check the path.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML. {str(error).rstrip('.')}. Mend it there.") from error
    top = _Table(path, "", content, _TOP)
    if not _SAFE_NAME.fullmatch(path.stem):
        raise top.wrong(f"'{path.stem}' is no name for a data set", "Use letters, digits and - _ + .")
    given = top.text("format")
    kind = next((known for known in FORMATS if known == given), None)
    if kind is None:
        raise top.wrong(f"'format' is '{given}', which is not known", f"Choose one of: {', '.join(FORMATS)}")
    propensity = top.table("propensity", ("A", "B"))
    manifest = Manifest(
        name=path.stem,
        title=top.text("title"),
        home=_web_address(top, "home", top.text("home")),
        licence=top.text("licence"),
        format=kind,
        files=_read_files(top.table("files", ROLES), kind),
        counts=_read_counts(top.table("counts", (*_NUMBERS, *_AVERAGES))),
        propensity=(float(propensity.number("A")), float(propensity.number("B"))),
        manual=top.optional_text("manual"),
    )
    if manifest.manual is None and not manifest.is_downloadable:
        without = next(role for role, file in manifest.files.items() if not file.url)
        raise top.wrong(
            f"files.{without} has no url and there is no 'manual'", "Say under 'manual' what to do by hand"
        )
    return manifest


def _read_files(files: _Table, kind: Format) -> dict[Role, DataFile]:
    found = {role: _read_file(files.table(role, _FILE)) for role in ROLES if role in files.content}
    missing = sorted(_NEEDED[kind] - set(found))
    if missing:
        raise files.wrong(f"format '{kind}' needs a file '{missing[0]}'", f"Add [files.{missing[0]}]")
    return found


def _read_file(table: _Table) -> DataFile:
    name, member = table.text("name"), table.optional_text("member")
    url, sha256 = table.optional_text("url"), table.optional_text("sha256")
    if not _SAFE_NAME.fullmatch(name):
        raise table.wrong(
            f"'name' is not a plain file name. Found '{name}'", "Use letters, digits and - _ + . only"
        )
    if member is not None:
        path = PurePosixPath(member)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in member:
            raise table.wrong(
                f"'member' leads out of the archive. Found '{member}'", "Name a file within the archive"
            )
    if sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise table.wrong(f"'sha256' is not a hash. Found '{sha256}'", "Write 64 lower-case hex digits")
    return DataFile(name, None if url is None else _web_address(table, "url", url), sha256, member)


def _read_counts(table: _Table) -> Counts:
    stated: dict[str, Any] = {key: table.count(key) for key in _NUMBERS}
    stated |= {key: table.number(key) for key in _AVERAGES if key in table.content}
    return Counts(**stated)


def _web_address(table: _Table, key: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        raise table.wrong(
            f"'{key}' is not a web address. Found '{url}'", "Write it as in https://host/file.txt"
        )
    return url


class _Table:
    """A TOML table whose keys are all known; values are taken out by kind."""

    def __init__(self, path: Path, where: str, content: dict[str, Any], keys: Sequence[str]) -> None:
        self.path, self.where, self.content = path, where, content
        for key in content:
            if key not in keys:
                close = difflib.get_close_matches(key, keys, n=1)
                known = f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(keys)}."
                raise self.wrong(f"unknown key '{key}'", known.rstrip("."))

    def wrong(self, what: str, advice: str) -> InputError:
        place = f"{self.path}, [{self.where}]" if self.where else str(self.path)
        return InputError(f"{place}: {what}. {advice}.")

    def text(self, key: str) -> str:
        text = str(self._take(key, str)).strip()
        if not text or not text.isprintable():
            raise self.wrong(f"'{key}' is empty or not plain text", "Write it in one line")
        return text

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if key in self.content else None

    def count(self, key: str) -> int:
        number = int(self._take(key, int))
        if number < 1:
            raise self.wrong(f"'{key}' is {number}", "Write a whole number above 0")
        return number

    def number(self, key: str) -> Decimal:
        number = Decimal(self._take(key, Decimal))
        if not (number.is_finite() and number > 0):
            raise self.wrong(f"'{key}' is {number}", "Write a number above 0")
        return number

    def table(self, key: str, keys: Sequence[str]) -> _Table:
        where = f"{self.where}.{key}" if self.where else key
        return _Table(self.path, where, self._take(key, dict), keys)

    def _take(self, key: str, kind: type) -> Any:
        if key not in self.content:
            raise self.wrong(f"'{key}' is missing", f"Add it as {_KINDS[kind]}")
        value = self.content[key]
        kinds = (int, Decimal) if kind is Decimal else (kind,)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise self.wrong(f"'{key}' is not {_KINDS[kind]}. Found {value!r}", "Mend it")
        return value


def _shipped() -> list[Path]:
    # `pipeline/data_manifests` is a link to the top-level folder, and in a wheel a copy of it
    folder = Path(str(resources.files("threepass"))) / "data_manifests"
    return sorted(folder.glob("*.toml"))


def _plain(number: Decimal) -> float:
    return int(number) if _exponent(number) >= 0 else float(number)


def _exponent(number: Decimal) -> int:
    return int(number.as_tuple().exponent)


def _rounded(number: float) -> float:
    return number if number == int(number) else round(number, 4)
