"""What fetches images, once it has shut itself in, and how many it holds for its session."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from test_engine_sandbox import read_library, shut_in

from dbinfer_udf.errors import ImageError, StoreError
from dbinfer_udf.host import protocol, sandbox
from dbinfer_udf.store import fetcher
from dbinfer_udf.store.declared import NUMBERS, Store

STORE = Store({"name": "s", "url": "http://localhost/a", "private": True, "seconds": 30})
LANDLOCK_TCP = 4


FORBIDDEN: dict[str, Callable[[], Any]] = {
    "a folder": lambda: os.listdir("/tmp"),
    "a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "a new file": lambda: os.open("/tmp/dbinfer-new", os.O_CREAT | os.O_WRONLY),
    "a program": lambda: os.execv("/bin/true", ["true"]),
    "a process": os.fork,
    "a signal to its session": lambda: os.kill(os.getppid(), signal.SIGTERM),
    "another's memory": lambda: sandbox.syscall(310, os.getppid(), None, 0, None, 0, 0),
    "a socket of the host": lambda: socket.socket(socket.AF_UNIX),
    "packets": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "IPv6": lambda: socket.socket(socket.AF_INET6),
    "its own port": lambda: socket.create_server(("127.0.0.1", 0)),
}


@pytest.mark.skipif(not sandbox.landlock_version(), reason="this kernel has no Landlock")
class TestTakenOver:
    """What a hostile server could do that has taken over the process which fetches from it."""

    @staticmethod
    def tried(act: Callable[[], Any], port: int = 9) -> str:
        return shut_in(lambda: fetcher._give_up([sys.base_prefix], port), act)

    @pytest.mark.parametrize("what", FORBIDDEN)
    def test_it_has_not(self, what: str) -> None:
        assert self.tried(FORBIDDEN[what]) == "PermissionError"

    def test_it_reads_libraries(self) -> None:
        assert self.tried(read_library) == "True"

    @pytest.mark.skipif(
        sandbox.landlock_version() < LANDLOCK_TCP, reason="this kernel's Landlock knows no TCP"
    )
    def test_it_reaches_its_gate_and_nothing_else(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as gate, socket.create_server(("127.0.0.1", 0)) as other:
            ports = [server.getsockname()[1] for server in (gate, other)]
            connect = [
                lambda port=port: socket.create_connection(("127.0.0.1", port), 5).close() for port in ports
            ]
            assert self.tried(connect[0], ports[0]) == "None"
            assert self.tried(connect[1], ports[0]) == "PermissionError"

    def test_nobody_looks_into_its_memory_and_it_leaves_no_core(self) -> None:
        import resource

        assert self.tried(lambda: resource.getrlimit(resource.RLIMIT_CORE)) == "(0, 0)"
        get_dumpable = 3
        assert self.tried(lambda: sandbox.prctl(get_dumpable, 0)) in ("0", "None")
        # the kernel gives the files of such a process to root
        assert self.tried(lambda: os.stat(f"/proc/{os.getpid()}/mem").st_uid) in ("0", "PermissionError")


class Slow:
    """Stands in for what fetches: a path says how many bytes its image has; `0` waits until it may go on."""

    def __init__(self) -> None:
        self.go_on, self.taken = threading.Event(), list[str]()

    def fetch(self, wanted: fetcher.Wanted, take: Callable[[int], None]) -> bytes:
        path = wanted.path
        if path == "bad":
            raise ImageError("no")
        if path == "0":
            self.go_on.wait()
        take(int(path))
        self.taken.append(path)
        return bytes(int(path))


def _serve(requests: socket.socket, slow: Slow) -> None:
    with suppress(SystemExit):
        fetcher.serve(requests, slow)


def answered(slow: Slow, *paths: str, before: Callable[[], None] = lambda: None) -> list[Any]:
    """Ask for images; return their sizes, or what is wrong with them, in the order of the answers."""
    ours, theirs = socket.socketpair()
    serving = threading.Thread(target=_serve, args=(theirs, slow), daemon=True)
    serving.start()
    for path in paths:
        asked = f'{{"path": "{path}", "etag": null, "known": null}}'.encode()
        ours.sendall(NUMBERS.pack(len(asked), 1 << 30) + asked)
    before()
    found: list[Any] = []
    with ours.makefile("rb") as answers:
        for _ in paths:
            magic, kind, size = protocol.ANSWER.unpack(answers.read(protocol.ANSWER.size))
            assert magic == protocol.MAGIC
            try:
                found.append(len(protocol.unpack_answer(kind, answers.read(size))))
            except ImageError as err:
                found.append(err.message)
    ours.close()
    serving.join()
    theirs.close()
    return found


@pytest.fixture(autouse=True)
def threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the thread that serves end with its session, in place of the process."""
    monkeypatch.setattr(fetcher, "_end", sys.exit)


def test_answers_come_in_the_order_of_the_requests() -> None:
    slow = Slow()

    def others_first() -> None:
        while sorted(slow.taken) != ["5", "7"]:
            time.sleep(0.01)
        slow.go_on.set()

    assert answered(slow, "0", "5", "bad", "7", before=others_first) == [0, 5, "no", 7]


def test_what_waits_for_the_session_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "ROOM", 100)
    slow = Slow()

    def one_has_room() -> None:
        while "60" not in slow.taken:
            time.sleep(0.01)
        assert "61" not in slow.taken
        slow.go_on.set()

    # the first one that is waited for has room in any case
    assert answered(slow, "0", "60", "61", "500", before=one_has_room) == [0, 60, 61, 500]


class _Kept(BaseHTTPRequestHandler):
    """A server that answers and keeps its connections, of which it counts the requests."""

    protocol_version = "HTTP/1.1"
    requests: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        self.requests.append(self.client_address[1])
        self.send_response(200)
        self.send_header("Content-Length", "1")
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.end_headers()
        self.wfile.write(b"x")

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


BUCKET = {
    "name": "s",
    "url": "s3://bucket",
    "private": True,
    "seconds": 10,
    "endpoint": "http://store:9000",
}


def test_a_connection_that_the_gate_closes_is_used_once() -> None:
    """A request that was given such a connection while it closed waited for nothing, for 30 seconds."""
    gate = ThreadingHTTPServer(("127.0.0.1", 0), _Kept)
    threading.Thread(target=gate.serve_forever, daemon=True).start()
    try:
        made = fetcher.Fetcher(Store(BUCKET), gate.server_address[:2], "token")
        for _ in range(3):
            made.fetch(fetcher.Wanted("1.png", None, None, 10), lambda size: None)
    finally:
        gate.shutdown()
        gate.server_close()
    assert len(set(_Kept.requests)) == 3


def test_a_host_without_the_library_says_where_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only workers score it is their hosts that need it, and no database host."""
    for module in ("obstore", "obstore.store"):
        monkeypatch.setitem(sys.modules, module, None)
    made = fetcher.Fetcher(Store(BUCKET), ("127.0.0.1", 9), "token")
    with pytest.raises(StoreError, match="has no obstore, which reads s3:// stores") as caught:
        made.fetch(fetcher.Wanted("1.png", None, None, 10), lambda size: None)
    assert "each database host, or each host of workers" in str(caught.value.hint)
