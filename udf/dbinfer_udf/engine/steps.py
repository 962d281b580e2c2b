"""A socket of a backend: whatever waits returns every 20 ms, so that a cancel of the statement is seen."""

from __future__ import annotations

import _socket
import os
import struct
import time

from .. import interrupts
from . import wire
from .errors import PUBLIC, CancelledError, EngineError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, List

STEP = 0.02  # seconds
TIMES = struct.pack("@ll", 0, int(STEP * 1e6))
FOREVER = float("inf")


def open_socket() -> Any:
    """Return a socket whose calls raise BlockingIOError after a step."""
    # the class beneath socket.socket: every row makes one, and the module costs every session milliseconds
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, TIMES)
    connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, TIMES)
    return connection


def look(until: float = FOREVER) -> None:
    """Raise where the statement was cancelled, or the time is over."""
    if interrupts.cancelled():
        raise CancelledError("the statement was cancelled while it waited for the engine")
    if time.monotonic() > until:
        raise EngineError("the engine does not answer", hint="See its log, or end it: dbinfer engine stop")


def connect(connection: Any, path: str, until: float = FOREVER) -> None:
    """Connect, and see that the other end is this user's."""
    while True:
        try:
            connection.connect(path)
            break
        except BlockingIOError:  # the queue was full for a step
            look(until)
    pid, uid = wire.peer(connection)
    if pid == 0:  # a signal in the middle of connect leaves the socket as it was
        raise ConnectionResetError("not connected")
    if uid != os.geteuid():
        raise EngineError(
            "the engine's socket belongs to user id %d, process %d" % (uid, pid),
            hint="Remove it, or choose another folder: dbinfer install --engine-dir FOLDER",
            public=PUBLIC,
        )


def send(connection: Any, parts: List[bytes], until: float = FOREVER) -> None:
    """Send all parts."""
    rest = sum(map(len, parts))
    while True:
        try:
            sent = connection.sendmsg(parts, [], _socket.MSG_NOSIGNAL)
        except BlockingIOError:
            look(until)
            continue
        rest -= sent
        if not rest:
            return
        # a large image goes in pieces
        parts = [memoryview(b"".join(parts))[sent:]]  # type: ignore[list-item]


def receive(connection: Any, most: int, until: float = FOREVER) -> bytes:
    """Return what came, at least one byte; ClosedError where the other side has closed."""
    while True:
        try:
            block: bytes = connection.recv(most)
        except BlockingIOError:
            look(until)
            continue
        if not block:
            raise wire.ClosedError
        return block
