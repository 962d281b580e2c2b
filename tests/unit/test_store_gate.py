"""Where the gate lets a connection go, and what a reference means."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import socket

import pytest

from dbinfer_udf.errors import ImageError, StoreError
from dbinfer_udf.store.declared import Store, declared, endpoints, find
from dbinfer_udf.store.gate import Gate, allowed


@pytest.mark.parametrize(
    ("address", "public", "private"),
    [
        ("93.184.216.34", True, True),
        ("2606:2800:220:1::1", True, True),
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("10.1.2.3", False, True),
        ("192.168.0.1", False, True),
        ("fd00::1", False, True),
        ("100.64.0.1", False, False),
        ("169.254.169.254", False, False),
        ("fe80::1%eth0", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("::ffff:127.0.0.1", False, True),
        ("::ffff:93.184.216.34", True, True),
        ("64:ff9b::a9fe:a9fe", False, False),
        ("2002:a9fe:a9fe::1", False, False),
        ("0.0.0.0", False, False),
        ("::", False, False),
        ("224.0.0.1", False, False),
        ("240.0.0.1", False, False),
        ("255.255.255.255", False, False),
    ],
)
def test_which_addresses_may_be_reached(address: str, public: bool, private: bool) -> None:
    assert (allowed(address, False), allowed(address, True)) == (public, private)


def store(name: str, url: str, **facts: object) -> dict[str, object]:
    return {"name": name, "url": url, "private": False, "seconds": 30, **facts}


def stores(*facts: dict[str, object]) -> list[Store]:
    return declared({"stores": json.dumps(facts)})


KNOWN = stores(
    store("photos", "s3://bucket/photos"),
    store("inner", "s3://bucket/photos/inner"),
    store("root", "gs://bucket"),
    store("web", "https://pictures.example:8443/a/b", private=True),
    store("own", "s3://b", endpoint="http://[fd00::5]:9000"),
    store("cloud", "az://c/d", endpoint="https://me.blob.core.windows.net"),
    store("disk", "file:///srv/photos"),
)


@pytest.mark.parametrize(
    ("reference", "name", "key"),
    [
        ("photos/1.jpg", "photos", "photos/1.jpg"),
        ("s3://bucket/photos/1.jpg", "photos", "photos/1.jpg"),
        ("s3://bucket/photos/inner/1.jpg", "inner", "photos/inner/1.jpg"),
        ("root/a b/%2e%2e/ü?#.jpg", "root", "a b/%2e%2e/ü?#.jpg"),
        ("https://pictures.example:8443/a/b/c.png", "web", "a/b/c.png"),
        ("disk/x/y", "disk", "/srv/photos/x/y"),
    ],
)
def test_what_a_reference_means(reference: str, name: str, key: str) -> None:
    found, path = find(KNOWN, reference)
    assert (found.name, found.key(path)) == (name, key)


@pytest.mark.parametrize(
    "reference", ["s3://bucket/other/1.jpg", "s3://bucket/photosx/1", "x/1", "https://h/a", ""]
)
def test_a_reference_into_no_store(reference: str) -> None:
    with pytest.raises(StoreError, match="you may read no store with"):
        find(KNOWN, reference)


@pytest.mark.parametrize(
    "path", ["", "..", "a/..", "../a", "./a", "a//b", "/a", "a/", "a\\..\\b", "a\x00", "ä" * 600]
)
def test_a_path_that_leaves_its_store(path: str) -> None:
    with pytest.raises(ImageError):
        find(KNOWN, f"photos/{path}")


def test_the_servers_that_stores_need() -> None:
    found = {store.name: endpoints(store) for store in KNOWN if store.scheme != "file"}
    assert found == {
        "photos": [("s3.us-east-1.amazonaws.com", 443, False)],
        "inner": [("s3.us-east-1.amazonaws.com", 443, False)],
        "root": [("storage.googleapis.com", 443, False), ("oauth2.googleapis.com", 443, False)],
        "web": [("pictures.example", 8443, True)],
        "own": [("fd00::5", 9000, False)],
        "cloud": [("me.blob.core.windows.net", 443, False)],
    }


TOKEN = "the token"
PROOF = b"Proxy-Authorization: Basic " + base64.b64encode(b"gate:" + TOKEN.encode())


async def _told(request: bytes, endpoint: tuple[str, int, bool]) -> bytes:
    """Return what a gate with one endpoint answers."""
    gate = Gate([endpoint], TOKEN)
    server = await asyncio.start_server(gate.serve, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(request)
        answer = await reader.read()
        writer.close()
    return answer


def told(request: str, proof: bytes = PROOF, private: bool = True, closed: bool = False) -> bytes:
    """Ask a gate to whose only endpoint, a server that says hello, `request` may name as PORT."""

    async def run() -> bytes:
        async def hello(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            writer.close()

        behind = await asyncio.start_server(hello, "127.0.0.1", 0)
        port = behind.sockets[0].getsockname()[1]
        if closed:
            behind.close()
        text = request.replace("PORT", str(port)).encode() + b" HTTP/1.1\r\n" + proof + b"\r\n\r\n"
        async with behind:
            return await _told(text, ("localhost", port, private))

    return asyncio.run(run())


def test_it_connects_to_what_is_declared() -> None:
    assert told("CONNECT localhost:PORT") == b"HTTP/1.1 200 Connection established\r\n\r\nhello"
    assert told("GET http://localhost:PORT/a") == b"hello"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("CONNECT 127.0.0.1:PORT", 421),  # the same server under another name
        ("CONNECT localhost:1", 421),
        ("GET http://other/a", 421),
        ("GET ftp://localhost:PORT/a", 400),
        ("GET /elsewhere", 400),
    ],
)
def test_and_to_nothing_else(request_line: str, status: int) -> None:
    assert told(request_line).startswith(b"HTTP/1.1 %d " % status)


def test_only_for_who_knows_the_token() -> None:
    for proof in (b"X: y", PROOF + b"x", b"Proxy-Authorization: Basic"):
        assert told("CONNECT localhost:PORT", proof).startswith(b"HTTP/1.1 407 ")


def test_a_name_with_a_private_address_needs_a_private_store() -> None:
    assert told("CONNECT localhost:PORT", private=False).startswith(b"HTTP/1.1 421 ")


def test_a_server_that_is_not_there() -> None:
    assert told("CONNECT localhost:PORT", closed=True).startswith(b"HTTP/1.1 502 ")


def test_an_answer_to_who_has_sent_its_end() -> None:
    """Neither end of the connection is watched then for a moment, and the collector of garbage may come."""

    async def run() -> bytes:
        async def late(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _reader.read()
            gc.collect()
            await asyncio.sleep(0.05)
            writer.write(b"hello")
            writer.close()

        behind = await asyncio.start_server(late, "127.0.0.1", 0)
        port = behind.sockets[0].getsockname()[1]
        gate = Gate([("localhost", port, True)], TOKEN)
        server = await asyncio.start_server(gate.serve, "127.0.0.1", 0)
        async with behind, server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"GET http://localhost:%d/a HTTP/1.1\r\n%s\r\n\r\n" % (port, PROOF))
            writer.write_eof()
            answer = await reader.read()
            writer.close()
        return answer

    assert asyncio.run(run()) == b"hello"


def test_it_connects_to_the_address_that_it_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers otherwise the second time leads nowhere: the name is asked for once."""
    asked = list[object]()
    real = socket.getaddrinfo

    def once(host: object, *more: object, **named: object) -> object:
        if host == "localhost":
            asked.append(host)
        return real(host, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", once)
    assert told("CONNECT localhost:PORT").endswith(b"hello")
    assert asked == ["localhost"]
