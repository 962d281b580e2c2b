"""The supervisor's control connections: each brings one question, in pieces, and gets one answer."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Any, Callable, Dict, List

from . import kernel, wire

MESSAGE_SECONDS = 5.0  # until a question is there as a whole
MOST_MESSAGE = 64 << 20


class Question:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.data = b""
        self.until = time.monotonic() + MESSAGE_SECONDS

    def given_up(self) -> bool:
        """Return whether who asked has gone: its statement was cancelled, for example."""
        return kernel.hung_up(self.connection.fileno())

    def answer(self, message: Dict[str, Any]) -> None:
        """Send the answer and close; who has gone gets none."""
        with contextlib.suppress(OSError):
            self.connection.settimeout(1.0)
            self.connection.sendall(wire.frame(message))
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Questions:
    """Those that are not there as a whole.

    Args:
        supervisor: whose loop watches them.
        listener: the control socket.
        reply: takes a question and its message.
    """

    def __init__(
        self, supervisor: Any, listener: socket.socket, reply: Callable[[Question, Dict[str, Any]], None]
    ) -> None:
        self._supervisor, self._listener, self._reply = supervisor, listener, reply
        self._open: List[Question] = []
        listener.setblocking(False)
        supervisor.watch(listener, self._accept)

    def stop(self) -> None:
        """Take no more."""
        self._supervisor.forget(self._listener)
        self._listener.close()

    def tick(self) -> None:
        """Drop those that never end."""
        now = time.monotonic()
        for question in [one for one in self._open if now > one.until]:
            self._drop(question)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            connection = self._listener.accept()[0]
            if wire.peer(connection)[1] != os.geteuid():
                connection.close()
                return
            connection.setblocking(False)
            question = Question(connection)
            self._open.append(question)
            self._supervisor.watch(connection, lambda: self._read(question))

    def _read(self, question: Question) -> None:
        try:
            block = question.connection.recv(1 << 20)
            question.data += block
            message = wire.unframe(question.data)
        except BlockingIOError:
            return
        except (OSError, ValueError, wire.ClosedError):
            self._drop(question)
            return
        if message is not None:
            self._supervisor.forget(question.connection)
            self._open.remove(question)
            self._reply(question, message)
        elif not block or len(question.data) > MOST_MESSAGE:
            self._drop(question)

    def _drop(self, question: Question) -> None:
        self._open.remove(question)
        self._supervisor.forget(question.connection)
        question.close()
