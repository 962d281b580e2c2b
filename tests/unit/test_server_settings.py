"""The settings file is sized for the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbinfer.database.state import Home, State
from dbinfer.server.cluster import Size, render


def settings(size: Size, socket_dir: str = "/s") -> dict[str, str]:
    text = render(Home(Path("/srv/x")), State(port=15432, socket_dir=socket_dir), size)
    pairs = (line.split(" = ", 1) for line in text.splitlines() if not line.startswith("#"))
    return dict(pair for pair in pairs if len(pair) == 2)


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 1), (8, 7), (64, 63)])
def test_leader_and_workers_make_one_process_a_core(cores: int, workers: int) -> None:
    made = settings(Size(cores, 8192))
    assert int(made["max_parallel_workers_per_gather"]) == workers
    assert int(made["max_parallel_workers"]) == cores
    assert int(made["max_worker_processes"]) >= cores + 8


@pytest.mark.parametrize(
    ("memory", "buffers"), [(128, "32MB"), (512, "64MB"), (4096, "512MB"), (1 << 20, "2048MB")]
)
def test_shared_buffers_follow_the_memory_modestly(memory: int, buffers: str) -> None:
    assert settings(Size(2, memory))["shared_buffers"] == buffers


def test_it_listens_on_loopback_only() -> None:
    assert settings(Size(2, 4096))["listen_addresses"] == "'127.0.0.1'"


@pytest.mark.parametrize(
    ("path", "written"), [("/it's", "'\"/it''s\"'"), ('/a"b', '\'"/a""b"\''), ("/a, b", "'\"/a, b\"'")]
)
def test_quotes_and_commas_in_the_path_are_safe(path: str, written: str) -> None:
    assert settings(Size(2, 4096), path)["unix_socket_directories"].split("  #")[0] == written
