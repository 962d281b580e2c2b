"""The port of the embedded server."""

from __future__ import annotations

import socket

from dbinfer.server import ports


def test_a_port_in_use_is_not_offered() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not ports.port_is_free(port)
        assert ports.free_port(range(port, port + 1)) is None
        assert ports.free_port(range(port, port + 50)) not in (None, port)
