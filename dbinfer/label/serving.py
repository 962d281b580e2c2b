"""The page's server: the standard library's, on loopback, for requests that bear the token and come from the page."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import cv2

from dbinfer.base.errors import DataError, DbinferError
from dbinfer.base.options import address_text
from dbinfer.label.options import LabelOptions
from dbinfer.label.work import GoneError, TakenError, Work, facts
from dbinfer.report import pictures
from dbinfer_udf.errors import UdfError

PAGE = Path(__file__).parent / "page"
# Colours and cards are those of the reports
FILES = {
    "/boxes.js": (PAGE / "boxes.js", "text/javascript"),
    "/label.css": (PAGE / "label.css", "text/css"),
    "/label.js": (PAGE / "label.js", "text/javascript"),
    "/page.css": (Path(pictures.__file__).parent / "templates" / "page.css", "text/css"),
}
SIDE = 1600  # pixels; a larger image is shown smaller
MOST_BODY = 1 << 16
SECONDS = 60  # after which a connection that says nothing is closed
HOSTS = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def serve(work: Work, options: LabelOptions) -> None:
    """Serve the page until the person has finished, or presses Ctrl-C.

    Raises:
        DataError: nobody can listen on the address.
    """
    with PageServer(work, options.address()) as server:
        options.on_page(f"{len(work.rows)} rows of {work.tables.source.predictions} to label: {server.url}")
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            return  # what was answered is committed


class PageServer(ThreadingHTTPServer):
    """Listens on loopback; whoever has the token may ask for the page and give labels."""

    daemon_threads = True

    def __init__(self, work: Work, address: tuple[str, int]) -> None:
        self.work, self.token, self.ended = work, secrets.token_urlsafe(32), False
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        try:
            super().__init__(address, Handler)
        except OSError as err:
            raise DataError(
                f"cannot listen on {address_text(*address)}: {err.strerror or err}",
                "Choose another port with --listen.",
            ) from err

    @property
    def url(self) -> str:
        """Return the address of the page, with the token."""
        return f"http://{address_text(str(self.server_address[0]), self.server_port)}/?token={self.token}"

    def server_close(self) -> None:
        """Listen no more, and answer nothing more on the connections that are open."""
        self.ended = True
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class RefusedError(Exception):
    """A request that is not answered: status and sentence."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.body = status, {"problem": message, **more}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection of a browser."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = SECONDS

    def version_string(self) -> str:
        """Return the server's name; its version is nobody's business."""
        return "dbinfer"

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log: addresses have the token."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what the standard library cannot read."""
        self.close_connection = True
        self._send_json(code, {"problem": "the request cannot be read"})

    def do_GET(self) -> None:
        """Answer with the page, its files, a row or its image."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Write a label, take one back, or end."""
        self._answer(self._post)

    def _answer(self, answer: Callable[[], None]) -> None:
        try:
            if self.server.ended:
                raise RefusedError(503, "dbinfer label has ended; start it again to go on")
            self.sent = self._read()
            self._check_host()
            answer()
        except RefusedError as err:
            self.close_connection = True
            self._send_json(err.status, err.body)
        except TakenError as err:
            self._send_json(409, {"problem": err.message, "answer": vars(err.answer)})
        except DbinferError as err:
            self._send_json(
                410 if isinstance(err, GoneError) else 422, {"problem": err.message, "hint": err.hint}
            )

    def _check_host(self) -> None:
        """Refuse a name that leads here although it is not ours: a stranger's page may have made it do so."""
        name = re.sub(r":\d{1,5}$", "", self.headers.get("Host", ""))
        if name not in (*HOSTS, self.server.server_address[0]):
            raise RefusedError(
                403, "this is no name of this machine; use the address that dbinfer label prints"
            )

    def _check_token(self, said: str) -> None:
        if not hmac.compare_digest(said.encode(), self.server.token.encode()):
            raise RefusedError(
                403, "the token is missing or wrong; use the address that dbinfer label prints"
            )

    def _get(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/" or path in FILES:
            self._check_token(parse_qs(query).get("token", [""])[-1])
            self._send_file(path)
            return
        self._check_caller()
        if path == "/api/work":
            self._send_json(200, facts(self.server.work))
        elif found := re.fullmatch(r"/api/(row|image)/(\d{1,9})", path):
            {"row": self._send_row, "image": self._send_image}[found[1]](self._number(found[2]))
        else:
            raise RefusedError(404, "there is no such page")

    def _check_caller(self) -> None:
        """Let only the page's script pass: no form, link or image of another page can send this header."""
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        self._check_token(token if kind == "Bearer" else "")
        origin = self.headers.get("Origin")
        if origin not in (None, f"http://{self.headers.get('Host')}"):
            raise RefusedError(403, "another page has sent the request")

    def _number(self, text: str) -> int:
        number = int(text)
        if number >= len(self.server.work.rows):
            raise RefusedError(404, f"there is no row {number}")
        return number

    def _send_file(self, path: str) -> None:
        if path in FILES:
            file, kind = FILES[path]
            self._send(200, file.read_bytes(), f"{kind}; charset=utf-8")
            return
        html = (PAGE / "label.html").read_text(encoding="utf-8").replace("TOKEN", self.server.token)
        self._send(200, html.encode(), "text/html; charset=utf-8")

    def _send_row(self, number: int) -> None:
        work = self.server.work
        row = work.rows[number]
        found = work.answer(number)
        told = {"key": ", ".join(row.key), "proposal": row.proposal, "score": row.score}
        self._send_json(200, {**told, "answer": vars(found) if found else None})

    def _send_image(self, number: int) -> None:
        data = self.server.work.image(number)
        try:
            whole = pictures.decode(data, "BGR", None)
        except (UdfError, cv2.error) as err:
            raise DataError(str(err).splitlines()[0]) from err
        # made anew: nothing of the file reaches the browser as it is
        size = {"X-Image-Height": str(whole.shape[0]), "X-Image-Width": str(whole.shape[1])}
        data, kind = pictures.compressed(pictures.shrunk(whole, SIDE))
        self._send(200, data, kind, size)

    def _post(self) -> None:
        self._check_caller()
        body = self._body()
        if self.path == "/api/finish":
            self._send_json(200, {})
            self.server.shutdown()
        elif found := re.fullmatch(r"/api/row/(\d{1,9})", self.path):
            self._send_json(200, self._write(self._number(found[1]), body))
        else:
            raise RefusedError(404, "there is no such page")

    def _write(self, number: int, body: dict[str, Any]) -> dict[str, Any]:
        work = self.server.work
        if isinstance(body.get("undo"), str):
            work.take_back(number, body["undo"])
            return {}
        return vars(work.give(number, body.get(work.tables.value.column)))

    def _read(self) -> bytes:
        """Return the body, also of what is refused: a connection that closes before it may lose the answer."""
        length = self.headers.get("Content-Length", "0")
        known = length.isascii() and length.isdecimal() and "Transfer-Encoding" not in self.headers
        if not known or int(length) > MOST_BODY:
            raise RefusedError(413, f"the request has no length, or one of more than {MOST_BODY} bytes")
        return self.rfile.read(int(length))

    def _body(self) -> dict[str, Any]:
        try:
            body = json.loads(self.sent)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise RefusedError(400, "the request is no JSON object")
        return body

    def _send_json(self, status: int, body: dict[str, Any]) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str, more: Mapping[str, str] = HEADERS) -> None:
        self.send_response(status)
        for name, value in {
            **HEADERS,
            **more,
            "Content-Type": kind,
            "Content-Length": str(len(data)),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
