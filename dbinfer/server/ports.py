"""The port of the embedded server: the recorded one while it is free, else the first free one of a range."""

from __future__ import annotations

import socket

from dbinfer.errors import ServerError
from dbinfer.server.folders import Say
from dbinfer.state.record import State

# Below the ports that systems hand out to programs that ask for any
PORTS = range(15432, 15632)


def choose_port(state: State, say: Say) -> None:
    """Keep the recorded port while it is free; else record a free one and say so.

    Raises:
        ServerError: every port of the range is taken.
    """
    if state.port and port_is_free(state.port):
        return
    chosen = free_port()
    if chosen is None:
        raise ServerError(
            f"there is no free port between {PORTS[0]} and {PORTS[-1]} on 127.0.0.1",
            "Stop a program that listens on one of them.",
        )
    if state.port:
        say(f"port {state.port} is taken by another program; the embedded server now uses {chosen}.")
    state.port = chosen


def port_is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the server does: connections of a server just stopped linger for a minute, and hold the port
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(ports: range | None = None) -> int | None:
    """Return the first free port of the range (PORTS), which lies below the ports that systems hand out."""
    return next((port for port in ports or PORTS if port_is_free(port)), None)
