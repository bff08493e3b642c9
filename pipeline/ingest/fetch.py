"""From the name of a public data set to two corpora on disk, with the counts compared."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ..corpus.describe import row_lengths
from ..corpus.store import Corpus
from ..errors import InputError, StoreError
from ..progress import Progress, begin
from ..storage.destination import temporary_folder
from .download import download, file_sha256
from .manifest import ROLES, DataFile, Difference, Format, Manifest, Role, find_manifest
from .mulan import ingest_mulan
from .sources import reading
from .spool import IngestKeywords
from .xmc import ingest_xmc

DATA_VARIABLE = "THREEPASS_DATA"
"""The environment variable that names a folder of data sets."""
_COMPRESSED = ("", ".xz", ".gz", ".bz2", ".zst")


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file that a data set was read from."""

    path: Path
    sha256: str | None
    """Told for files that were downloaded, or whose manifest states it."""
    pinned: bool
    """Whether the manifest states the hash."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What `fetch_dataset` did."""

    manifest: Manifest
    paths: Mapping[str, Path]
    """Where the corpora `train` and `test` are."""
    files: Mapping[Role, RawFile]
    counts: Mapping[str, float]
    """What was counted, under the names of the fields of `Counts`."""
    differences: list[Difference]
    """What is not as the manifest states; empty when all is well."""

    @property
    def train(self) -> Corpus:
        """The training documents."""
        return Corpus.open(self.paths["train"])

    @property
    def test(self) -> Corpus:
        """The test documents."""
        return Corpus.open(self.paths["test"])

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "name": self.manifest.name,
            "paths": {split: str(path) for split, path in self.paths.items()},
            "files": {
                role: {"path": str(file.path), "sha256": file.sha256, "pinned": file.pinned}
                for role, file in self.files.items()
            },
            "counts": dict(self.counts),
            "differences": [
                {"what": one.what, "expected": one.expected, "found": one.found} for one in self.differences
            ],
            "propensity": self.manifest.as_dict()["propensity"],
        }


def fetch_dataset(
    name: str,
    dest: str | Path = ".",
    *,
    source: str | Path | None = None,
    cache: str | Path | None = None,
    **options: Unpack[IngestKeywords],
) -> Fetched:
    """Get a public data set, ingest its training and test documents, and compare the counts.

    The files come from `source`; else from the folder that THREEPASS_DATA names, if they are there; else they
    are downloaded. A folder may hold a sub-folder with the data set's name or the files themselves: either
    the publisher's, or `train.txt` and `test.txt` (XMC text), with `features.txt` and `labels.txt` beside
    them if there are names; each plain or compressed.

    Parameters
    ----------
    name
        A data set of `list_datasets`, or the path of a manifest of your own, ending in `.toml`.
    dest
        The folder for `NAME-train.zarr` and `NAME-test.zarr`.
    source
        A folder to take the files from; then nothing is downloaded.
    cache
        Where downloads are kept; the user's cache folder if absent.
    **options
        `binary`, `block_bytes`, `overwrite`, `n_threads`, `progress`: see `IngestOptions`.

    Returns
    -------
    Fetched
        The corpora, and what differs from the manifest. Differences are not an error here: look at them.

    Raises
    ------
    InputError
        There is no such data set; its files are not in `source`, cannot be downloaded, have the wrong hash,
        or are not what their format says.
    StoreError
        A corpus exists already and `overwrite` was not given, or the disk refuses.
    """
    manifest = find_manifest(name)
    folder = Path(dest)
    paths = {split: folder / f"{manifest.name}-{split}.zarr" for split in ("train", "test")}
    for path in paths.values():  # before a long download, not after
        if os.path.lexists(path) and not options.get("overwrite"):
            raise StoreError(
                f"{path} exists already. Choose another --dest, or pass overwrite (--overwrite)."
            )
    kind, files = _find(manifest, source, cache, options.get("progress"))
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            unpacked = stack.enter_context(temporary_folder(f".{manifest.name}-", folder))
        except OSError as error:
            raise StoreError(
                f"{folder} cannot be written: {error.strerror}. Choose another --dest."
            ) from error
        begin(options.get("progress"), "unpack")
        texts = {role: _unpacked(manifest, role, file, unpacked) for role, file in files.items()}
        for split, path in paths.items():
            _ingest(kind, texts, split, path, options)
    train, test = (Corpus.open(paths[split]) for split in ("train", "test"))
    begin(options.get("progress"), "count")
    counts = count_splits(train, test)
    differences = manifest.counts.differences(counts)
    for what, first, second in (
        ("features of test documents", train.n_terms, test.n_terms),
        ("labels of test documents", train.n_labels, test.n_labels),
    ):
        if first != second:
            differences.append(Difference(what, first, second))
    return Fetched(manifest, paths, files, counts, differences)


def find_locally(manifest: Manifest, folder: Path) -> tuple[Format, dict[Role, Path]] | None:
    """The files of a data set in a folder, and their format; None when some are missing."""
    for place in (folder / manifest.name, folder):
        own = {role: _present(place / file.name) for role, file in manifest.files.items()}
        prepared = {role: _present(place / f"{role}.txt") for role in ROLES}
        if all(own.values()):
            return manifest.format, {role: path for role, path in own.items() if path}
        if prepared["train"] and prepared["test"]:
            return "xmc", {role: path for role, path in prepared.items() if path}
    return None


def data_folder(given: str | Path | None = None) -> Path | None:
    """The folder that was given, else the one that THREEPASS_DATA names, else None; it must exist."""
    if given is None and not os.environ.get(DATA_VARIABLE):
        return None
    folder = Path(os.environ[DATA_VARIABLE] if given is None else given)
    if not folder.is_dir():
        whence = DATA_VARIABLE if given is None else "--from"
        raise InputError(f"{folder} is not a folder. {whence} names it. Name a folder that holds data sets.")
    return folder


def count_splits(train: Corpus, test: Corpus) -> dict[str, float]:
    """What a manifest states, counted; means and medians are over both splits together."""
    words, labels = (
        np.concatenate([row_lengths(corpus, side) for corpus in (train, test)]) for side in ("X", "Y")
    )
    return {
        "train_documents": train.n_docs,
        "test_documents": test.n_docs,
        "features": train.n_terms,
        "labels": train.n_labels,
        "mean_features": float(words.mean()),
        "median_features": float(np.median(words)),
        "mean_labels": float(labels.mean()),
        "median_labels": float(np.median(labels)),
    }


def _find(
    manifest: Manifest, source: str | Path | None, cache: str | Path | None, progress: Progress | None
) -> tuple[Format, dict[Role, RawFile]]:
    """Every file of the data set, from a folder or from the net."""
    folder = data_folder(source)
    local = find_locally(manifest, folder) if folder else None
    if local:
        kind, paths = local
        return kind, {role: _checked(manifest.files.get(role), path) for role, path in paths.items()}
    if source is not None:
        names = ", ".join(file.name for file in manifest.files.values())
        raise InputError(
            f"The files of '{manifest.name}' are neither in {folder} nor in its sub-folder "
            f"{manifest.name}. Looked for {names}; or train.txt and test.txt. "
            f"{manifest.manual or 'Leave out --from to download them.'}"
        )
    if not manifest.is_downloadable:
        raise InputError(
            f"'{manifest.name}' cannot be downloaded by itself. {manifest.manual} "
            f"Home page: {manifest.home}. Put the files in a folder, and pass it with --from."
        )
    from platformdirs import user_cache_path  # imported here, because only downloads need it

    place = Path(cache or user_cache_path("threepass", appauthor=False)) / manifest.name
    files = {}
    for role, file in manifest.files.items():
        assert file.url is not None  # is_downloadable
        path = download(file.url, file.name, place, file.sha256, progress)
        files[role] = RawFile(path, file.sha256 or file_sha256(path), file.sha256 is not None)
    return manifest.format, files


def _present(path: Path) -> Path | None:
    """The file, or a compressed copy of it."""
    candidates = (path.with_name(path.name + suffix) for suffix in _COMPRESSED)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _checked(stated: DataFile | None, path: Path) -> RawFile:
    """A local file; its hash must be right where the manifest states one of a file with this very name."""
    if stated is None or stated.sha256 is None or stated.name != path.name:
        return RawFile(path, None, False)
    with reading(path):
        found = file_sha256(path)
    if found != stated.sha256:
        raise InputError(
            f"{path} is not the file that the manifest describes. Its sha256 is {found}, expected "
            f"{stated.sha256}. Get it again."
        )
    return RawFile(path, found, True)


def _unpacked(manifest: Manifest, role: Role, file: RawFile, folder: Path) -> Path:
    """The file itself, or the member of an archive, taken out into `folder`."""
    stated = manifest.files.get(role)
    if stated is None or stated.member is None or stated.name != file.path.name:
        return file.path
    taken = folder / role
    with reading(file.path):
        if zipfile.is_zipfile(file.path):
            _take_from_zip(file.path, stated.member, taken)
        elif tarfile.is_tarfile(file.path):
            _take_from_tar(file.path, stated.member, taken)
        else:
            raise InputError(f"{file.path} is neither a zip nor a tar archive. Get it again.")
    return taken


def _take_from_zip(path: Path, member: str, taken: Path) -> None:
    # one member, to a name of our own: where its name leads, or what it links to, never matters
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream, taken.open("wb") as out:
            shutil.copyfileobj(stream, out)
    except KeyError as error:
        raise _no_member(path, member) from error
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is a damaged archive: {error}. Get it again.") from error


def _take_from_tar(path: Path, member: str, taken: Path) -> None:
    try:
        with tarfile.open(path) as archive:
            info = archive.getmember(member)
            if not info.isreg():
                raise KeyError(member)
            stream = archive.extractfile(info)
            assert stream is not None  # a regular file has content
            with stream, taken.open("wb") as out:
                shutil.copyfileobj(stream, out)
    except KeyError as error:
        raise _no_member(path, member) from error
    except tarfile.TarError as error:
        raise InputError(f"{path} is a damaged archive: {error}. Get it again.") from error


def _no_member(path: Path, member: str) -> InputError:
    return InputError(f"{path} has no file '{member}' in it. Mend 'member' in the manifest.")


def _ingest(
    kind: Format, files: Mapping[Role, Path], split: str, dest: Path, options: IngestKeywords
) -> None:
    text = files["train" if split == "train" else "test"]
    if kind == "mulan":
        ingest_mulan(text, files["labels"], dest, **options)
    else:
        feature_names, label_names = files.get("features"), files.get("labels")
        ingest_xmc(text, dest, feature_names=feature_names, label_names=label_names, **options)
