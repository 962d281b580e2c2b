"""Messages between our processes, mostly over the engine's sockets: one request and one answer a connection, in steps
between which a cancel is noticed.

A row: HEAD and the image file; the answer: ANSWER and the result, or an error. Control messages are JSON.
"""

from __future__ import annotations

import _socket
import os
import struct
import time

from .. import errors, fastjson
from ..errors import PUBLIC, CancelledError, EngineError, RowError
from ..tasks import BYTEA, FUNCTIONS, REQUESTS
from . import interrupts

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    # id, image file, as the row of classify_table has them
    Row = Tuple[int, Optional[bytes]]

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


def look_for_cancel(until: float = FOREVER) -> None:
    """Raise if the statement was cancelled or the time is up."""
    if interrupts.cancelled():
        raise CancelledError("the statement was cancelled while it waited for the engine")
    if time.monotonic() > until:
        raise EngineError("the engine does not answer", hint="See its log, or end it: dbinfer engine stop")


def connect(connection: Any, path: str, until: float = FOREVER) -> None:
    """Connect, and check that the other end belongs to this user."""
    while True:
        try:
            connection.connect(path)
            break
        except BlockingIOError:  # the queue was full for a step
            look_for_cancel(until)
    pid, uid = peer(connection)
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
            look_for_cancel(until)
            continue
        rest -= sent
        if not rest:
            return
        # a large image goes in pieces
        parts = [memoryview(b"".join(parts))[sent:]]  # type: ignore[list-item]


def receive(connection: Any, most: int, until: float = FOREVER) -> bytes:
    """Return what has arrived, at least one byte; ClosedError if the other side has closed."""
    while True:
        try:
            block: bytes = connection.recv(most)
        except BlockingIOError:
            look_for_cancel(until)
            continue
        if not block:
            raise ClosedError
        return block


# task, kind of the image, kind of k, k, the request's own number, bytes that follow
HEAD = struct.Struct("<4sBBBq8sI")
MAGIC = b"DBE1"
ANSWER = struct.Struct("<4sBI")
LENGTH = struct.Struct("<I")
ROW = struct.Struct("<qi")
SIZE = struct.Struct("<i")  # -1: no result
NUMBER_OF = {**{name: function.number for name, function in FUNCTIONS.items()}, **REQUESTS}
NAME_OF = {number: name for name, number in NUMBER_OF.items()}
NOTHING, BYTES, TEXT, ERROR = range(4)
# Bounds of what the other side sends, because a worker that was taken over sends what it likes. No value of the server
# is larger
MOST_BYTES = 1 << 30
MOST_TEXT, MOST_VALUES, MOST_DEPTH, MOST_NUMBER = 1 << 16, 100, 4, 1 << 53

FIELDS = ("message", "detail", "hint", "sqlstate", "public")
# By the names of their classes, under which they travel
ERRORS = {
    kind.__name__: kind
    for kind in (
        errors.UdfError,
        errors.ImageError,
        errors.ModelError,
        errors.UsageError,
        errors.StoreError,
        EngineError,
        RowError,
    )
}


class ClosedError(Exception):
    """The other side has closed the connection, or what it sent is not one of our messages."""


class RemoteError(Exception):
    """Any other exception of a worker; a subclass of this has the name of its class."""


class RemoteTracebackError(Exception):
    """The traceback of a worker, as the cause of a RemoteError."""

    def __str__(self) -> str:
        """Return the text as it is."""
        return "\n" + str(self.args[0])


def pack_request(number: bytes, task: str, img: Optional[bytes], k: Any) -> List[bytes]:
    """Return the parts of a request; `k` is None or a number, or for `rows` (function, on_error is null, [Row])."""
    body = _rows(*k) if task == "rows" else img or b""
    kinds = (int(img is not None), int(isinstance(k, int)), k if isinstance(k, int) else 0)
    return [HEAD.pack(MAGIC, NUMBER_OF[task], *kinds, number, len(body)), body]


def _rows(function: str, null: bool, rows: Sequence[Row]) -> bytes:
    parts = [bytes([NUMBER_OF[function], null])]
    for row, img in rows:
        parts += [ROW.pack(row, -1 if img is None else len(img)), img or b""]
    return b"".join(parts)


def unpack_head(head: bytes) -> Tuple[int, int, int, int, bytes, int]:
    """Return task, kind of image, kind of k, k, the request's number and the bytes that follow."""
    if len(head) != HEAD.size or head[:4] != MAGIC:
        raise ClosedError
    found = HEAD.unpack(head)[1:]
    if found[0] not in NAME_OF:
        raise ClosedError
    return found


def unpack_rows(body: bytes) -> Tuple[str, bool, List[Row]]:
    """Return what `_rows` packed."""
    rows: List[Row] = []
    at = 2
    while at < len(body):
        row, size = ROW.unpack_from(body, at)
        at += ROW.size + max(size, 0)
        rows.append((row, None if size < 0 else body[at - size : at]))
    return NAME_OF[body[0]], bool(body[1]), rows


def pack_results(results: Sequence[Any]) -> bytes:
    """Return the results of many rows (texts, or bytes, and None) as one."""
    parts = []
    for found in results:
        data = found.encode() if isinstance(found, str) else found
        parts += [SIZE.pack(-1 if data is None else len(data)), data or b""]
    return b"".join(parts)


def unpack_results(body: bytes, function: str, rows: int) -> List[Any]:
    """Return the results of so many rows that `pack_results` packed, as the function returns them.

    Raises:
        EngineError: the bytes are something else.
    """
    found: List[Any] = []
    at, binary = 0, FUNCTIONS[function].result == BYTEA
    try:
        while at < len(body):
            (size,) = SIZE.unpack_from(body, at)
            at += SIZE.size + max(size, 0)
            data = None if size < 0 else body[at - size : at]
            found.append(data if data is None or binary else data.decode())
    except (ValueError, struct.error) as err:
        raise no_answer() from err
    if at != len(body) or len(found) != rows:
        raise no_answer()
    return found


def no_answer() -> EngineError:
    """Return the error of a worker that did not give what it must."""
    problem = "a worker of the engine answered what is no result"
    return EngineError(
        problem, hint="If it happens again, the model or an image may be hostile.", public=PUBLIC
    )


def pack_answer(value: Any) -> bytes:
    """Return the message of a result: bytes, text or None."""
    if isinstance(value, str):
        kind, body = TEXT, value.encode()
    else:
        kind, body = (NOTHING, b"") if value is None else (BYTES, bytes(value))
    return ANSWER.pack(MAGIC, kind, len(body)) + body


def pack_error(err: BaseException) -> bytes:
    """Return the message of an exception."""
    body = fastjson.dumps(describe_error(err)).encode()
    return ANSWER.pack(MAGIC, ERROR, len(body)) + body


def unpack_answer(kind: int, body: bytes) -> Any:
    """Return what an answer holds, or raise it; EngineError where it holds neither."""
    try:
        text_or_error = body.decode() if kind in (TEXT, ERROR) else ""
        fields = fastjson.loads(text_or_error) if kind == ERROR else None
    except (ValueError, RecursionError) as err:
        raise no_answer() from err
    if kind == ERROR:
        raise rebuild_error(fields)
    if kind > ERROR:
        raise no_answer()
    return text_or_error if kind == TEXT else body if kind == BYTES else None


def unpack_warmth(answer: Any) -> Dict[str, Any]:
    """Return what a worker says of a warmed model; EngineError if it says something else."""
    try:
        found = bounded(fastjson.loads(answer))
    except (ValueError, TypeError, AttributeError, RecursionError, ClosedError) as err:
        raise no_answer() from err
    if not isinstance(found, dict) or not isinstance(found.get("milliseconds"), (int, float)):
        raise no_answer()
    return found


def describe_error(err: BaseException) -> Dict[str, str]:
    """Return an exception as a dictionary for JSON."""
    if isinstance(err, errors.UdfError):
        kind = next(c.__name__ for c in type(err).__mro__ if c.__name__ in ERRORS)
        values = {name: getattr(err, name) for name in FIELDS}
        return dict(values, kind=kind)
    import traceback

    text = "".join(traceback.format_exception(type(err), err, err.__traceback__))
    return {"other": type(err).__name__, "message": str(err), "traceback": text}


def bounded_error(fields: Any) -> Dict[str, str]:
    """Return what another process sent as an error, reduced to what `describe_error` can return."""
    said = fields if isinstance(fields, dict) else {}
    if "other" in said:
        name = (
            said["other"] if isinstance(said["other"], str) and said["other"].isidentifier() else "Exception"
        )
        return {
            "other": name[:100],
            **{key: harmless_text(said.get(key)) for key in ("message", "traceback")},
        }
    found = {key: harmless_text(said.get(key)) for key in FIELDS}
    state = found["sqlstate"]
    known = len(state) == 5 and all("0" <= sign <= "9" or "A" <= sign <= "Z" for sign in state)
    kind = said.get("kind") if said.get("kind") in tuple(ERRORS) else "EngineError"
    return dict(found, kind=str(kind), sqlstate=state if known else "XX000")


def harmless_text(value: Any) -> str:
    """Return a text of another process without what controls a terminal; "" if it is not a text."""
    found = value[:MOST_TEXT] if isinstance(value, str) else ""
    return (
        found if found.isprintable() else "".join(s if s.isprintable() or s in "\n\t" else "?" for s in found)
    )


def bounded(value: Any, depth: int = 0) -> Any:
    """Return a value of another process's JSON if it is bounded: numbers that fit SQL, short texts, few values.

    Raises:
        ClosedError: it is not.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return harmless_text(value)
    # false also of what is no number
    if isinstance(value, (int, float)) and -MOST_NUMBER <= value <= MOST_NUMBER:
        return value
    if isinstance(value, (dict, list)) and len(value) <= MOST_VALUES and depth < MOST_DEPTH:
        if isinstance(value, list):
            return [bounded(one, depth + 1) for one in value]
        return {harmless_text(name): bounded(one, depth + 1) for name, one in value.items()}
    raise ClosedError


def rebuild_error(fields: Any) -> Exception:
    """Return the exception that `describe_error` took apart."""
    fields = bounded_error(fields)
    if "other" in fields:
        kind = type(fields["other"], (RemoteError,), {})
        err: Exception = kind(fields["message"])
        err.__cause__ = RemoteTracebackError(fields["traceback"])
        return err
    values = [fields[name] for name in FIELDS]
    return ERRORS[fields["kind"]](*values)


def frame(message: Dict[str, Any]) -> bytes:
    """Return a control message."""
    body = fastjson.dumps(message).encode()
    return LENGTH.pack(len(body)) + body


def unframe(data: bytes) -> Optional[Dict[str, Any]]:
    """Return the control message, None where it is incomplete; ClosedError where it is not one."""
    if len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
        return None
    try:
        found = fastjson.loads(data[LENGTH.size :].decode())
    except (ValueError, RecursionError) as err:
        raise ClosedError from err
    if not isinstance(found, dict):
        raise ClosedError
    return found


def peer(connection: Any) -> Tuple[int, int]:
    """Return pid and user id of the process at the other end."""
    found = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("=iii", found)
    return pid, uid
