"""The page of `dbinfer label` answers its own script alone, by token, name and origin; no text of a row is HTML."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from labelling import Page

from dbinfer.base.errors import DataError, UsageError
from dbinfer.label import LabelOptions
from dbinfer.label.options import check_label
from dbinfer.label.serving import FILES, PAGE, PageServer
from dbinfer.label.tables import Row
from dbinfer.label.values import LABEL
from dbinfer.label.work import Answer, Work

EVIL = "<script>alert(1)</script>"


class Rows(SimpleNamespace):
    """What the server needs of the work; no database."""

    rows = (Row(("1",), EVIL, 0.5),)
    tables = SimpleNamespace(source=SimpleNamespace(table=EVIL), into=EVIL, value=LABEL)
    who, classes, open = EVIL, (EVIL, "cat"), True
    given: dict[int, str]

    def answer(self, number: int) -> Answer | None:
        return None

    def give(self, number: int, given: Any) -> Answer:
        self.given[number] = label = self.tables.value.check(given, None)
        return Answer(label, "anna", "now")

    def image(self, number: int) -> bytes:
        return b"<html>"


@pytest.fixture
def rows() -> Rows:
    return Rows(given={})


@pytest.fixture
def page(rows: Rows) -> Iterator[Page]:
    with PageServer(cast(Work, rows), ("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield Page(server.url)
        server.shutdown()
        thread.join()


ASKED: list[tuple[str, Any]] = [
    ("/api/work", None),
    ("/api/row/0", None),
    ("/api/image/0", None),
    ("/api/row/0", {"label": "cat"}),
    ("/api/finish", {}),
]


def test_nothing_is_answered_without_the_token(page: Page, rows: Rows, subtests: pytest.Subtests) -> None:
    for said in (
        None,
        "Bearer ",
        "Bearer x",
        page.token,
        f"Basic {page.token}",
        f"Bearer {page.token}x",
        "Bearer \xe9",
    ):
        for path, body in ASKED:
            with subtests.test(said=said, path=path):
                assert page.ask(path, body, Authorization=said).status == 403
    for path in ("/", *FILES):
        assert page.ask(path).status == 403
        assert page.ask(f"{path}?token=x").status == 403
        assert page.ask(f"{path}?token={page.token}", Authorization=None).status == 200
    # a token in the address is not enough where something is told or changed: a link could hold it
    assert page.ask(f"/api/row/0?token={page.token}", {"label": "cat"}, Authorization=None).status == 403
    assert rows.given == {}
    assert page.ask("/api/row/0", {"label": "cat"}).status == 200
    assert rows.given == {0: "cat"}


def test_a_name_that_was_made_to_lead_here_is_refused(page: Page) -> None:
    port = page.base.rpartition(":")[2]
    for host in (
        "evil.example",
        f"evil.example:{port}",
        f"127.0.0.1.evil.example:{port}",
        "127.0.0.2",
        "",
        "[::1",
        "@127.0.0.1",
    ):
        assert page.ask("/api/work", Host=host).status == 403, host
        assert page.ask(f"/?token={page.token}", Host=host).status == 403, host
    # through ssh -L the port is another one
    for host in (f"127.0.0.1:{port}", "localhost:1234", "[::1]:80"):
        assert page.ask("/api/work", Host=host).status == 200, host


def test_a_request_of_another_page_is_refused(page: Page, rows: Rows) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", page.base.replace("http", "https")):
        assert page.ask("/api/row/0", {"label": "cat"}, Origin=origin).status == 403, origin
    assert rows.given == {}
    assert page.ask("/api/row/0", {"label": "cat"}, Origin=page.base).status == 200
    # the browser asks this before it sends our header from another page
    assert page.ask("/api/row/0", method="OPTIONS", Origin="http://evil.example").status == 501


def test_every_answer_forbids_what_the_page_does_not_need(page: Page) -> None:
    for path in (f"/?token={page.token}", f"/label.js?token={page.token}", "/api/work", "/api/nothing"):
        found = page.ask(path).headers
        assert found["Cache-Control"] == "no-store"
        assert found["Content-Security-Policy"].startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'"
        )
        assert "frame-ancestors 'none'" in found["Content-Security-Policy"]
        assert (found["X-Content-Type-Options"], found["Referrer-Policy"]) == ("nosniff", "no-referrer")
        assert found["Server"] == "dbinfer"
        assert "Access-Control-Allow-Origin" not in found
        assert "Set-Cookie" not in found


def test_texts_of_the_database_are_never_part_of_the_html(page: Page) -> None:
    """They come as JSON, and the script sets them as text."""
    html = page.ask(f"/?token={page.token}").body.decode()
    assert EVIL not in html
    assert html == (PAGE / "label.html").read_text().replace("TOKEN", page.token)
    for path in ("/api/work", "/api/row/0"):
        said = page.ask(path)
        assert said.headers["Content-Type"] == "application/json"
        assert EVIL in str(said.json)
    for file in PAGE.glob("*.js"):
        assert not {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("} & {
            word for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
            if word in file.read_text()
        }  # fmt: skip


def test_a_file_that_is_no_image_reaches_no_browser(page: Page) -> None:
    said = page.ask("/api/image/0")
    assert (said.status, said.headers["Content-Type"]) == (422, "application/json")
    assert said.json["problem"].startswith("not an image")


def test_what_cannot_be_understood_is_refused(page: Page, rows: Rows, subtests: pytest.Subtests) -> None:
    for path, body, status in [
        ("/api/row/1", None, 404),
        ("/api/row/-1", None, 404),
        ("/api/row/99999999999", None, 404),
        ("/api/../label.js", None, 404),
        ("/label.py", None, 404),
        ("/api/row/0", b"", 400),
        ("/api/row/0", b"[]", 400),
        ("/api/row/0", b"[" * 60_000, 400),
        ("/api/row/0", {}, 422),
        ("/api/row/0", {"label": 3}, 422),
        ("/api/row/0", {"label": " "}, 422),
        ("/api/row/0", {"label": "a\0"}, 422),
        ("/api/row/0", {"label": "a" * 201}, 422),
    ]:
        with subtests.test(path=path, body=body and repr(body)[:20]):
            said = page.ask(path, body)
            assert (said.status, next(iter(said.json))) == (status, "problem")
    head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {page.token}\r\n".encode()
    for raw, said in [
        (b"GET\r\n\r\n", b"the request cannot be read"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"the request cannot be read"),
        (b"BREW / HTTP/1.1\r\n\r\n", b"the request cannot be read"),
        (b"GET http://[ HTTP/1.1\r\n" + head + b"\r\n", b"there is no such page"),
        (
            b"POST /api/row/0 HTTP/1.1\r\n" + head + b"Content-Length: 65537\r\n\r\n",
            b"one of more than 65536 bytes",
        ),
        (
            b"POST /api/row/0 HTTP/1.1\r\n" + head + b"Content-Length: -1\r\n\r\n",
            b"the request has no length",
        ),
        (
            b"POST /api/row/0 HTTP/1.1\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n",
            b"the request has no length",
        ),
    ]:
        with socket.create_connection(("127.0.0.1", int(page.base.rpartition(":")[2])), timeout=60) as client:
            client.sendall(raw)
            assert said in b"".join(iter(lambda: client.recv(4096), b"")), raw
    assert rows.given == {}
    assert page.ask("/api/work").status == 200


def test_no_other_machine_can_be_let_in(subtests: pytest.Subtests) -> None:
    for listen in (
        "0.0.0.0:80",
        "[::]:80",
        "10.0.0.1:80",
        "example.com:80",
        ":80",
        "127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:65536",
    ):
        with (
            subtests.test(listen=listen),
            pytest.raises(UsageError, match="must be an address of this machine alone"),
        ):
            LabelOptions(listen=listen)
    for listen, address in [
        ("localhost:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("127.1.2.3:65535", ("127.1.2.3", 65535)),
    ]:
        assert LabelOptions(listen=listen).address() == address


def test_a_port_that_is_taken_is_one_sentence(page: Page, rows: Rows) -> None:
    port = int(page.base.rpartition(":")[2])
    with pytest.raises(DataError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
        PageServer(cast(Work, rows), ("127.0.0.1", port))


def test_labels_are_texts_of_some_length() -> None:
    assert check_label("a" * 200) == "a" * 200
    with pytest.raises(UsageError, match="a label is '', but must be a text of 1 to 200 signs"):
        LabelOptions(classes=("a", ""))


def test_who_finishes_while_the_server_closes_learns_no_more_than_that() -> None:
    """The tests' own page: a request that nobody has read is reset, which is no URLError."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        done = pool.submit(Page(f"http://127.0.0.1:{server.getsockname()[1]}/?token=x").finish)
        with server.accept()[0] as connection:
            while not (sent := connection.recv(4096, socket.MSG_PEEK)).endswith(b"{}"):
                assert sent, "the request was not sent whole"
        assert done.result(60) is None
