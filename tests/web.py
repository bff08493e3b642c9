"""A web server on 127.0.0.1 that can misbehave in the ways that servers do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Web:
    """What is served, how, and what was asked for."""

    files: dict[str, bytes]
    """Path, without the leading slash, and content."""
    cut_after: list[int] = field(default_factory=list)
    """For each coming answer: close the connection after this many bytes of the body."""
    fail_with: list[int] = field(default_factory=list)
    """For each coming answer, before any is cut: this status and nothing else."""
    ranges: bool = True
    """Whether Range is understood."""
    version: str | None = '"one"'
    """The ETag, or None for no ETag."""
    shift: int = 0
    """By how much the server is wrong about where a range starts."""
    stalled: threading.Event | None = None
    """When an answer is cut: keep the connection open, and silent, until this is set."""
    encoding: str | None = None
    """The Content-Encoding that answers claim, or None for none."""
    length: bool = True
    """Whether Content-Length is told; False sends the body in chunks."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """The headers of every request."""
    port: int = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


@contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Web]:
    """Serve files until the block ends."""
    web = Web(files)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            web.asked.append(dict(self.headers))
            content = web.files.get(self.path.lstrip("/"))
            status = web.fail_with.pop(0) if web.fail_with else 200 if content is not None else 404
            if content is None or status != 200:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._send(content)

        def _send(self, content: bytes) -> None:
            asked, start = self.headers.get("Range"), 0
            current = self.headers.get("If-Range") in (None, web.version)
            if asked and web.ranges and current:
                start = int(asked.removeprefix("bytes=").split("-")[0])
                if start >= len(content):
                    self.send_response(416)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206)
                first = start + web.shift
                self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            if web.version:
                self.send_header("ETag", web.version)
            if web.encoding:
                self.send_header("Content-Encoding", web.encoding)
            body = content[start:]
            cut = web.cut_after.pop(0) if web.cut_after else len(body)
            if web.length:
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[:cut])
            else:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"%x\r\n%s\r\n" % (cut, body[:cut]) if cut else b"")
                if cut == len(body):
                    self.wfile.write(b"0\r\n\r\n")
            if cut < len(body):
                self.close_connection = True
                if web.stalled is not None:
                    self.wfile.flush()
                    web.stalled.wait(60)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
