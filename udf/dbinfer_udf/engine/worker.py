"""A worker: takes one connection after another, scores its row with the code of a backend, and answers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from typing import Any, Dict, NamedTuple, Optional, Sequence

from ..errors import RowError
from ..host import protocol, sandbox
from ..image import heif
from ..model.functions import RUNS
from ..model.trial import Limits
from ..model.trial_process import SHORT_OF_MEMORY
from .slots import Permits, Slot

# Filters of system calls, the strictest first: a network that cannot run under one is tried with the next. The last is
# that of its trial, which it has passed: a hostile network must not be able to do without any
FILTERS = NO_THREADS, THREADS, AS_TRIED = "no new threads", "threads", "as when it was tried"
FIRST_BYTES = 1 << 16
CLIENT_SECONDS = struct.pack("@ll", 5, 0)  # for a client that stops sending or reading


class FinishError(Exception):
    """The worker is told to go while it waits for a connection."""


class Request(NamedTuple):
    """What a worker is asked to do."""

    number: bytes
    task: str
    img: Optional[bytes]
    k: Any


class Worker:
    """Scores rows of one model.

    Args:
        wanted: what the model was opened with.
        listener: the model's socket.
        seconds: that a request may take.
    """

    def __init__(
        self, model: Any, wanted: Dict[str, Any], listener: socket.socket, slot: Slot, seconds: float
    ) -> None:
        self._model = model
        self._listener = listener
        self._slot = slot
        self._permits = Permits(wanted["semaphore"], wanted.get("permits", 1))
        bounds = Limits.from_settings(wanted["spec"]["settings"])
        self._memory = bounds.memory_bytes
        self._seconds = seconds
        self._user = os.geteuid()
        self._waits = False

    def run(self) -> None:
        """Score until told to finish, and then what waits in the queue."""
        signal.signal(signal.SIGTERM, self._finish)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with contextlib.suppress(FinishError, BlockingIOError):
            while True:
                self._serve(self._next())

    def _finish(self, *_: Any) -> None:
        # the loader has made the listener non-blocking: the queue is emptied, and its end is an error
        if self._waits:
            self._waits = False
            raise FinishError

    def _next(self) -> Any:
        # while it waits, the signal to finish raises; while it scores, the next accept does not block
        self._waits = True
        try:
            fd = self._listener._accept()[0]  # type: ignore[attr-defined]
        except FinishError:
            fd = self._listener._accept()[0]  # type: ignore[attr-defined]
        self._waits = False
        return socket.SocketType(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)

    def _serve(self, connection: Any) -> None:
        try:
            # a stranger, or one that was cancelled before it was its turn, gets nothing
            with contextlib.suppress(OSError, protocol.ClosedError):
                if protocol.peer(connection)[1] == self._user:
                    self._answer(connection)
        finally:
            connection.close()

    def _answer(self, connection: Any) -> None:
        data = _first_block(connection)
        task, has_image, has_k, k, number, size = protocol.unpack_head(data[: protocol.HEAD.size])
        body = data[protocol.HEAD.size :]
        if len(body) < size:
            body += _read(connection, size - len(body))
        self._permits.take()
        try:
            # a client that closed the connection while it waited for its turn needs no answer
            if _has_closed(connection):
                return
            self._slot.begin(number)
            # SIGALRM's default action ends this process even within C code; the loader says why
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
            request = Request(
                number, protocol.NAME_OF[task], body if has_image else None, k if has_k else None
            )
            answer = self._score(request)
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            self._permits.give()
        if len(answer) > 1 << 16:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, CLIENT_SECONDS)
        try:
            connection.sendall(answer, socket.MSG_NOSIGNAL)
        finally:
            self._slot.end()

    def _score(self, request: Request) -> bytes:
        self._slot.requests += 1
        try:
            if request.task == "rows":
                return protocol.pack_answer(self._whole(request.img or b""))
            return protocol.pack_answer(RUNS[request.task](self._model, request.img, request.k))  # type: ignore[arg-type]
        except Exception as err:
            self._slot.errors += 1
            return protocol.pack_error(self._short_of_memory(err))

    def _whole(self, body: bytes) -> bytes:
        return protocol.pack_results(self._model.rows(*protocol.unpack_rows(body)))

    def _short_of_memory(self, err: Exception) -> Exception:
        short = isinstance(err, MemoryError) or (
            isinstance(err, RuntimeError) and any(word in str(err) for word in SHORT_OF_MEMORY)
        )
        if not short:
            return err
        return RowError(
            "scoring this image needs more than %d MB of memory" % (self._memory >> 20),
            hint="If the model is right, allow more: dbinfer install --max-model-mb NUMBER",
            sqlstate="54000",
        )


def _first_block(connection: Any) -> bytes:
    """Return the head of a request and what came with it; ClosedError where nothing comes in time."""
    data = b""
    # most requests are there when their connection is
    with contextlib.suppress(BlockingIOError):
        data = connection.recv(FIRST_BYTES, socket.MSG_DONTWAIT)
    return (
        data if len(data) >= protocol.HEAD.size else data + _read(connection, protocol.HEAD.size - len(data))
    )


def _read(connection: Any, size: int) -> bytes:
    """Return that many bytes; ClosedError where they do not come in time."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, CLIENT_SECONDS)
    data = b""
    while len(data) < size:
        block = connection.recv(size - len(data), socket.MSG_WAITALL)
        if not block:
            raise protocol.ClosedError
        data += block
    return data


def _has_closed(connection: Any) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def filters() -> Sequence[str]:
    """Return the filters to try on this host: what decodes HEIC starts a thread for each image."""
    return FILTERS[1:] if heif.library() is not None else FILTERS


def shut_in(semaphore: int, filters: str = NO_THREADS, drivers: bool = False) -> Dict[str, Any]:
    """Take all rights from this process but to compute and to answer; return what the kernel granted.

    `files`: none can be opened; `seccomp`: the filter holds; `problem`: what is missing.

    Args:
        semaphore: number of the permits' set, the only one that it may touch.
        filters: one of FILTERS.
        drivers: the last of them lets it command drivers of the kernel.
    """
    problems, closed, filtered = [], False, False
    # Landlock holds for this thread and what it starts; those that OpenVINO has started keep the loader's rights
    alone = sandbox.count_threads() == 1
    try:
        sandbox.restrict_files()
        closed = alone
    except OSError as err:
        problems.append("no Landlock: %s" % err.strerror)
    try:
        if filters == AS_TRIED:
            sandbox.forbid_apart(os.getpid(), alone, drivers=drivers)
            problems.append("a wider filter of system calls: with the strict one the network does not run")
        else:
            sandbox.restrict_calls(os.getpid(), semaphore, alone, filters == THREADS)
        filtered = True
    except OSError as err:
        problems.append("no filter of system calls: %s" % err.strerror)
    strict = filtered and filters != AS_TRIED
    found: Dict[str, Any] = {"files": closed or strict, "seccomp": filtered, "filter": filters}
    return dict(found, problem="; ".join(problems)) if problems else found
