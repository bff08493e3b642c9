"""Download of single files that goes on where it broke off.

pooch looks after the cache and the hash; the transfer itself is ours, because pooch's own begins anew each
time. What has arrived lies in `NAME.part`, and beside it which version of the file it is, so that a later
call never joins halves of two versions.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pooch
import requests
import urllib3

from ..errors import InputError, StoreError, ThreepassError
from ..progress import Progress
from ..storage.destination import take_lock

ATTEMPTS = 4
"""How often a transfer that breaks off is taken up again before we give up."""
PAUSE_SECONDS = 1.0
"""Before the second attempt; twice as long before each further one."""
_TIMEOUT = (15, 60)  # seconds to connect, and between two packets
_CHUNK = 2**16


def download(url: str, name: str, folder: Path, sha256: str | None, progress: Progress | None = None) -> Path:
    """Fetch a file into `folder`, unless it is there already with the right hash.

    Parameters
    ----------
    url
        Where it is; http or https.
    name
        What to call it in `folder`. Nothing has this name before it is whole and its hash is right.
    sha256
        What its hash must be; None takes whatever comes.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        The server has no such file, the transfer broke off too often (a later call goes on where it was), or
        the hash is wrong (then nothing of it is kept).
    StoreError
        The folder cannot be written, or another process is downloading into it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone_in(folder), _quiet_pooch():
            transfer = _Transfer(folder / f"{name}.part", progress)
            known = None if sha256 is None else f"sha256:{sha256}"
            return Path(pooch.retrieve(url, known, fname=name, path=folder, downloader=transfer))
    except ThreepassError:
        raise
    except ValueError as error:  # how pooch says that the hash is wrong
        raise InputError(f"{url} is not the file that the manifest describes. {error}") from error
    except OSError as error:
        raise StoreError(
            f"{folder} cannot hold the download: {error.strerror or error}. "
            "Check the disk and the permissions, or choose another folder with --cache."
        ) from error


class _Transfer:
    """What pooch calls to get the bytes of a URL into a file."""

    def __init__(self, part: Path, progress: Progress | None) -> None:
        self._part = part
        self._version = part.with_name(part.name + ".json")
        self._progress = progress

    def __call__(self, url: str, output_file: str, _: object) -> None:
        pause = PAUSE_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._go_on(url)
                break
            except (_BrokenOffError, requests.RequestException, urllib3.exceptions.HTTPError) as error:
                if attempt == ATTEMPTS:
                    raise self._gave_up(url, error) from error
            time.sleep(pause)
            pause *= 2
        self._part.replace(output_file)
        self._version.unlink(missing_ok=True)

    def _go_on(self, url: str) -> None:
        """One request for what is still missing."""
        start, version = self._arrived(url)
        # no compression on the way: lengths and ranges are those of the file itself
        headers = {"Accept-Encoding": "identity", "User-Agent": "threepass"}
        if start and version:
            headers |= {"Range": f"bytes={start}-", "If-Range": version}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            goes_on = answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            if answer.status_code == 206 and goes_on:
                mode = "ab"
            elif answer.status_code == 200:
                start, mode = 0, "wb"
                self._remember(url, answer)
            else:
                said = f"the server answered {answer.status_code} {answer.reason}"
                if answer.status_code in (206, 416):  # what we have is no part of what the server has
                    self._forget()
                    raise _BrokenOffError(said)
                if answer.status_code >= 500:
                    raise _BrokenOffError(said)
                raise InputError(
                    f"{url} cannot be downloaded: {said}. "
                    "Look for the file on the data set's home page, and give its folder with --from."
                )
            length = answer.headers.get("Content-Length", "")
            self._store(answer, start, start + int(length) if length.isdigit() else None, mode)

    def _store(self, answer: requests.Response, start: int, total: int | None, mode: str) -> None:
        done = start
        with self._part.open(mode) as file:
            for chunk in answer.raw.stream(_CHUNK, decode_content=False):
                file.write(chunk)
                done += len(chunk)
                if self._progress is not None:
                    self._progress(f"get {self._part.stem}", done, total or done)
        if total is not None and done != total:
            raise _BrokenOffError(f"{done:,} of {total:,} bytes came")

    def _arrived(self, url: str) -> tuple[int, str | None]:
        """Bytes that came before, and which version of the file they are of; 0 where that is not known."""
        try:
            known = json.loads(self._version.read_text())
            version = known["version"] if known["url"] == url else None
            return (self._part.stat().st_size, str(version)) if version else (0, None)
        except (OSError, ValueError, KeyError, TypeError):
            return 0, None

    def _remember(self, url: str, answer: requests.Response) -> None:
        tag = answer.headers.get("ETag", "")
        # a weak tag promises the same meaning, not the same bytes
        version = answer.headers.get("Last-Modified") if not tag or tag.startswith("W/") else tag
        self._version.write_text(json.dumps({"url": url, "version": version}))

    def _forget(self) -> None:
        self._part.unlink(missing_ok=True)
        self._version.unlink(missing_ok=True)

    def _gave_up(self, url: str, error: Exception) -> InputError:
        came = self._part.stat().st_size if self._part.exists() else 0
        return InputError(
            f"{url} could not be downloaded in {ATTEMPTS} attempts. {came:,} bytes came; then: {error}. "
            "Run the same command again later: it goes on where it was if the server lets it."
        )


class _BrokenOffError(Exception):
    """A transfer ended too early; worth another attempt."""


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


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """pooch tells of every file on stderr; what is to be told, we tell."""
    logger: Any = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
