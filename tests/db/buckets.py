"""A server of S3 on loopback (moto's) behind a door that misbehaves when it is told to."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

from moto.server import ThreadedMotoServer

BUCKET = "pictures"
KEYS = '{"access_key_id": "test", "secret_access_key": "of-nobody"}'


class Door(ThreadingHTTPServer):
    """Passes requests on to the server of S3, but for names with a fault.

    Attributes:
        faults: a part of a name: what to do instead with the nth request (from 1) for it; None to pass it on.
        seen: requests per path.
        heads: the headers of the last one; answered: its status, where the server of S3 has answered it.
    """

    daemon_threads = True
    # each process of a parallel plan asks for 16 images at once, by a connection each; beyond the usual 5 that wait, a
    # connection is tried again only after a second
    request_queue_size = 128

    def __init__(self, behind: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        self.faults: dict[str, Callable[[_Handler, int], bool | None]] = {}
        self.seen = Counter[str]()
        self.heads: dict[str, str] = {}
        self.answered = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that the other side has closed."""

    def put(self, key: str, data: bytes) -> str:
        """Store an object; return its ETag."""
        status, etag = self._ask("PUT", quote(f"/{BUCKET}/{key}"), data)
        assert status == 200
        return etag

    def _ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.behind, timeout=20)
        with contextlib.closing(connection):
            # everybody may read it without a key, but for what lies below `locked`
            acl = "private" if "locked" in path else "public-read"
            connection.request(method, path, body, {"Authorization": "AWS test:x", "x-amz-acl": acl})
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.getheader("ETag") or ""


class _Handler(BaseHTTPRequestHandler):
    server: Door
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        self.server.seen[self.path] += 1
        self.server.heads = dict(self.headers.items())
        for name, fault in self.server.faults.items():
            if name in self.path and fault(self, self.server.seen[self.path]):
                self.close_connection = True
                return
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", self.path, headers=dict(self.headers.items()))
            answer = connection.getresponse()
            self.server.answered = answer.status
            self.answer(answer.status, answer.read(), ETag=answer.getheader("ETag") or "", **_dated(answer))

    def answer(self, status: int, body: bytes = b"", size: int | None = None, **headers: str) -> None:
        """Answer with a body, of which `Content-Length` may say something else."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        self.wfile.write(body)


def _dated(answer: http.client.HTTPResponse) -> dict[str, str]:
    found = answer.getheader("Last-Modified")
    return {"Last_Modified": found} if found else {}


def refusing(status: int, times: int = 1000) -> Callable[[_Handler, int], bool]:
    """Answer the first requests with a status."""

    def fault(handler: _Handler, number: int) -> bool:
        if number <= times:
            handler.answer(status, b"<Error/>")
        return number <= times

    return fault


def cutting(handler: _Handler, _number: int) -> bool:
    """Send half of what was promised."""
    handler.answer(200, b"x" * 1000, size=2000, ETag='"cut"', Last_Modified="Wed, 21 Oct 2015 07:28:00 GMT")
    handler.connection.close()
    return True


def slow(handler: _Handler, _number: int) -> bool:
    """Answer long after anybody would wait."""
    time.sleep(30)
    handler.answer(200, b"late")
    return True


def elsewhere(url: str) -> Callable[[_Handler, int], bool]:
    """Answer with a redirect."""

    def fault(handler: _Handler, _number: int) -> bool:
        handler.answer(302, Location=url)
        return True

    return fault


@contextmanager
def bucket() -> Iterator[Door]:
    """Run the two servers, with an empty bucket."""
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    door = Door(moto.get_host_and_port()[1])
    thread = threading.Thread(target=door.serve_forever, daemon=True)
    thread.start()
    try:
        # buckets are the process's, and outlive the server of the module before
        assert door._ask("POST", "/moto-api/reset")[0] == 200
        assert door._ask("PUT", f"/{BUCKET}")[0] == 200
        yield door
    finally:
        door.shutdown()
        door.server_close()
        moto.stop()
