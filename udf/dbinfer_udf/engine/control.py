"""Questions to a supervisor, from a backend or a command."""

from __future__ import annotations

import _socket
import time

from . import steps, wire

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict


class GoneError(Exception):
    """No engine listens there."""


def call(path: str, message: Dict[str, Any], seconds: float = steps.FOREVER) -> Dict[str, Any]:
    """Return a supervisor's answer.

    Args:
        path: of its socket.
        seconds: to wait at most.

    Raises:
        GoneError: nobody listens there, or it ended before it answered.
        EngineError: it belongs to another user, or says nothing.
        CancelledError: the statement was cancelled meanwhile.
    """
    until = time.monotonic() + seconds
    connection = steps.open_socket()
    try:
        steps.connect(connection, path, until)
        steps.send(connection, [wire.frame(message)], until)
        data, found = b"", None
        while found is None:
            data += steps.receive(connection, 1 << 16, until)
            found = wire.unframe(data)
        return found
    except (OSError, wire.ClosedError) as err:
        raise GoneError(str(err)) from err
    finally:
        connection.close()


def tell(path: str, message: Dict[str, Any]) -> None:
    """Send a message that needs no answer, if that is possible at once."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(path)
        connection.send(wire.frame(message), _socket.MSG_NOSIGNAL)
    except OSError:
        pass
    finally:
        connection.close()
