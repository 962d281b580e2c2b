"""The port of the embedded server."""

from __future__ import annotations

import socket

import pytest

from dbinfer.base.errors import ServerError
from dbinfer.database.state import State
from dbinfer.server import cluster


def test_a_port_in_use_is_not_offered() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not cluster.port_is_free(port)
        assert cluster.free_port(range(port, port + 1)) is None
        assert cluster.free_port(range(port, port + 50)) not in (None, port)


def test_a_full_range_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "free_port", lambda: None)
    first, last = cluster.PORTS[0], cluster.PORTS[-1]
    with pytest.raises(
        ServerError, match=rf"^there is no free port between {first} and {last} on 127\.0\.0\.1"
    ):
        cluster.choose_port(State(), print)
