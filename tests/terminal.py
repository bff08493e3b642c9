"""A terminal for tests: a pseudo-terminal whose screen is kept as the bytes that were written to it."""

from __future__ import annotations

import os
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager


class Terminal:
    """Everything that was written to the terminal; whole once the block that made it has ended."""

    def __init__(self) -> None:
        self._master, self.fd = os.openpty()
        tty.setraw(self.fd)  # bytes arrive as they were written
        self._read: list[bytes] = []
        self._reader = threading.Thread(target=self._drain)
        self._reader.start()

    @property
    def screen(self) -> bytes:
        return b"".join(self._read)

    def _drain(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65_536)
            except OSError:  # the last writer has closed it
                return
            if not data:
                return
            self._read.append(data)

    def close(self) -> None:
        os.close(self.fd)
        self._reader.join()
        os.close(self._master)


@contextmanager
def terminal() -> Iterator[Terminal]:
    """A terminal to be written to in the block; its screen can be read afterwards."""
    made = Terminal()
    try:
        yield made
    finally:
        made.close()
