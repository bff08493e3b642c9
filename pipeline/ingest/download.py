"""Download of single files; a transfer that was cut resumes where it stopped.

A transfer goes into `NAME.part`. `NAME.part.json` beside it records the address and the version of the file,
so that a later call never joins parts of two versions.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError, StoreError
from ..progress import Progress
from ..storage.destination import take_lock

_TIMEOUT = (15, 60)  # seconds to connect, and between two packets
_CHUNK = 2**16


def download(
    url: str,
    name: str,
    folder: Path,
    sha256: str | None,
    progress: Progress | None = None,
    pauses: Sequence[float] = (1.0, 2.0, 4.0),
) -> Path:
    """Fetch a file into `folder`, unless it is there already with the right hash.

    Parameters
    ----------
    url
        Its address; http or https.
    name
        Its name in `folder`. Nothing has this name before it is whole and its hash is right.
    sha256
        The hash it must have; None accepts any file.
    pauses
        Seconds before each further attempt at a transfer that broke off.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        The server has no such file, the transfer broke off too often (a later call resumes it), or the hash
        is wrong (then nothing of it is kept).
    StoreError
        The folder cannot be written, or another process is downloading into it.
    """
    file, part = folder / name, _Part(folder / f"{name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone_in(folder):
            if file.exists() and sha256 in (None, file_sha256(file)):
                return file
            _transfer(url, part, progress, pauses)
            found = file_sha256(part.path)
            if sha256 not in (None, found):
                part.discard()
                raise InputError(
                    f"{url} is not the file that the manifest describes. Its sha256 is {found}, expected "
                    f"{sha256}. Get the right file elsewhere, and give its folder with --from."
                )
            part.path.replace(file)
            part.discard()
            return file
    except OSError as error:
        raise StoreError(
            f"{folder} cannot hold the download: {error.strerror or error}. "
            "Check the disk and the permissions, or choose another folder with --cache."
        ) from error


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Part:
    """The bytes of a file that have arrived, with a note of its address and version."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._note = path.with_name(path.name + ".json")

    def arrived(self, url: str) -> tuple[int, str]:
        """Number of bytes that can be built upon, and the version of the file; 0 where it is unknown."""
        try:
            note = json.loads(self._note.read_text())
            if note["url"] == url and note["version"]:
                return self.path.stat().st_size, str(note["version"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return 0, ""

    def record(self, url: str, version: str | None) -> None:
        self._note.write_text(json.dumps({"url": url, "version": version}))

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


def _transfer(url: str, part: _Part, progress: Progress | None, pauses: Sequence[float]) -> None:
    """Fetch the file into `part`, in several attempts if need be."""
    import requests  # imported here, because only downloads need it
    import urllib3

    for pause in (0.0, *pauses):
        time.sleep(pause)
        try:
            return _request_rest(url, part, progress)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            failure = error
    came = part.path.stat().st_size if part.path.exists() else 0
    raise InputError(
        f"{url} could not be downloaded in {1 + len(pauses)} attempts. {came:,} bytes came; then: {failure}. "
        "Run the same command again later: it resumes the download if the server allows it."
    ) from failure


def _request_rest(url: str, part: _Part, progress: Progress | None) -> None:
    """Request the missing bytes once; a `requests` or `urllib3` error means that another attempt may help."""
    import requests

    start, version = part.arrived(url)
    # no compression on the way: lengths and ranges are those of the file itself
    headers = {"Accept-Encoding": "identity", "User-Agent": "threepass"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
        is_rest = answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        said = f"the server answered {answer.status_code} {answer.reason}"
        if answer.status_code == 200:
            start = 0
            tag = answer.headers.get("ETag", "")
            # a weak tag promises the same meaning, not the same bytes
            part.record(url, answer.headers.get("Last-Modified") if tag[:2] in ("", "W/") else tag)
        elif not (answer.status_code == 206 and is_rest):
            if answer.status_code in (206, 416):  # what has arrived is no part of the server's file
                part.discard()
            elif answer.status_code < 500:
                raise InputError(
                    f"{url} cannot be downloaded: {said}. "
                    "Look for the file on the data set's home page, and give its folder with --from."
                )
            raise requests.HTTPError(said)
        length = answer.headers.get("Content-Length", "")
        done, total = start, start + int(length) if length.isdigit() else 0
        with part.path.open("ab" if start else "wb") as file:
            # raw: a server that marks a .gz file as "Content-Encoding: gzip" must not have it unpacked
            for chunk in answer.raw.stream(_CHUNK, decode_content=False):
                file.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(f"get {part.path.stem}", done, max(done, total))


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    lock = take_lock(folder)
    if lock is None:
        raise StoreError(
            f"Another process is downloading into {folder}. Wait for it to end, or pass another --cache."
        )
    try:
        yield
    finally:
        os.close(lock)
