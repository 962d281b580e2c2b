"""The page of `dbinfer label`, asked as its script asks: with urllib, and the token of the address that was printed."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Queue
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import dbinfer

OPENER = build_opener(ProxyHandler({}))  # whatever the environment says: the page is on this machine


@dataclass
class Said:
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Page:
    """A page that is open, and what `dbinfer label` returned when it has ended."""

    url: str
    reports: list[dbinfer.LabelReport] = field(default_factory=list)

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.url).query)["token"][0]

    @property
    def base(self) -> str:
        return f"http://{urlsplit(self.url).netloc}"

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str | None) -> Said:
        """Ask as the script does; a header that is None is left out, `_` stands for the hyphen of its name."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        sent: dict[str, str | None] = {"Authorization": f"Bearer {self.token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(self.base + path, data, method=method)
        for name, value in sent.items():
            if value is not None:
                request.add_header(name, value)
        try:
            with OPENER.open(request, timeout=60) as found:
                return Said(found.status, dict(found.headers), found.read())
        except HTTPError as err:
            with err:
                return Said(err.code, dict(err.headers), err.read())

    def give(self, number: int, label: str) -> Said:
        return self.ask(f"/api/row/{number}", {"label": label})

    def finish(self) -> None:
        """Finish it, also if it has ended, or does so now: a server that closes resets who waits for it."""
        with suppress(URLError, ConnectionError):
            self.ask("/api/finish", {})


def address(said: str) -> str:
    """Return the address in the sentence that `dbinfer label` says first."""
    found = re.search(r"http://\S+", said)
    assert found, said
    return found[0]


@contextmanager
def opened(table: str, dsn: str, **options: Any) -> Iterator[Page]:
    """Yield the page of a `dbinfer.label` that runs in a thread; it is finished at the end."""
    told: Queue[str | BaseException] = Queue()
    reports: list[dbinfer.LabelReport] = []

    def run() -> None:
        try:
            reports.append(dbinfer.label(table, dbinfer.LabelOptions(on_page=told.put, **options), dsn))
        except BaseException as err:
            told.put(err)

    thread = threading.Thread(target=run)
    thread.start()
    said = told.get(timeout=60)
    if isinstance(said, BaseException):
        raise said
    page = Page(address(said), reports)
    try:
        yield page
    finally:
        page.finish()  # the test may have done it
        thread.join(60)
        assert not thread.is_alive(), "dbinfer.label has not ended"
