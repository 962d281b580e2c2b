"""The settings file is sized for the machine, and the port is free."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dbinfer.base.errors import ServerError
from dbinfer.database.state import Home, State
from dbinfer.server import cluster
from dbinfer.server.cluster import Size, render


def settings(size: Size, socket_dir: str = "/s") -> dict[str, str]:
    text = render(Home(Path("/srv/x")), State(port=15432, socket_dir=socket_dir), size)
    pairs = (line.split(" = ", 1) for line in text.splitlines() if not line.startswith("#"))
    return dict(pair for pair in pairs if len(pair) == 2)


def test_leader_and_workers_make_one_process_a_core(subtests: pytest.Subtests) -> None:
    for cores, workers in [(1, 1), (2, 1), (8, 7), (64, 63)]:
        with subtests.test(cores=cores, workers=workers):
            made = settings(Size(cores, 8192))
            assert int(made["max_parallel_workers_per_gather"]) == workers
            assert int(made["max_parallel_workers"]) == cores
            assert int(made["max_worker_processes"]) >= cores + 8


def test_shared_buffers_follow_the_memory_modestly(subtests: pytest.Subtests) -> None:
    for memory, buffers in [(128, "32MB"), (512, "64MB"), (4096, "512MB"), (1 << 20, "2048MB")]:
        with subtests.test(memory=memory, buffers=buffers):
            assert settings(Size(2, memory))["shared_buffers"] == buffers


def test_it_listens_on_loopback_only() -> None:
    assert settings(Size(2, 4096))["listen_addresses"] == "'127.0.0.1'"


@pytest.mark.parametrize(
    ("path", "written"), [("/it's", "'\"/it''s\"'"), ('/a"b', '\'"/a""b"\''), ("/a, b", "'\"/a, b\"'")]
)
def test_quotes_and_commas_in_the_path_are_safe(path: str, written: str) -> None:
    assert settings(Size(2, 4096), path)["unix_socket_directories"].split("  #")[0] == written


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
