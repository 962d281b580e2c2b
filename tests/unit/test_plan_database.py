"""What a plan takes of a database: cores, segments as far as the role is told them, and processes of a PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest

from dbinfer.base.errors import UsageError
from dbinfer.database.platform import Platform
from dbinfer.install.balance import PROCESSES
from dbinfer.plan import PlanOptions
from dbinfer.plan.find import HOSTS, hosts

CLUSTER, SERVER = Platform("greenplum", "7.1", 120012, 4), Platform("postgresql", "15.20", 150020, 0)
TWO_HOSTS = [("sdw1", 16), ("sdw1", 16), ("sdw1", 16), ("sdw2", 8)]


class Database:
    """Answers which hosts there are, and how many processes a statement has."""

    def __init__(self, rows: list[tuple[str | None, int]], processes: int = 0) -> None:
        self.answers: dict[str, list[Any]] = {HOSTS: list(rows), PROCESSES: [(processes,)]}
        self.rows: list[Any] = []

    def cursor(self) -> Database:
        return self

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def execute(self, query: str) -> None:
        self.rows = self.answers[query]

    def fetchall(self) -> list[Any]:
        return self.rows

    def fetchone(self) -> Any:
        return self.rows[0]


def asked(platform: Platform, database: Database, **values: Any) -> tuple[int, int]:
    return hosts(database, platform, PlanOptions(images=1.0, **values))  # type: ignore[arg-type]


def test_the_smallest_host_and_the_fullest_one() -> None:
    assert asked(CLUSTER, Database(TWO_HOSTS)) == (8, 3)


def test_what_is_said_counts_before_what_is_there() -> None:
    assert asked(CLUSTER, Database(TWO_HOSTS), segments=6) == (8, 6)
    assert asked(CLUSTER, Database(TWO_HOSTS), cores=32) == (32, 32)
    assert asked(CLUSTER, Database(TWO_HOSTS), cores=32, segments=6) == (32, 6)


def test_a_role_that_is_not_told_the_hosts_says_how_many_segments_they_have() -> None:
    """The whole cluster counted as one host."""
    hidden: list[tuple[str | None, int]] = [(None, cores) for _, cores in TWO_HOSTS]
    with pytest.raises(UsageError, match="your role is not told which segments share a host") as raised:
        asked(CLUSTER, Database(hidden))
    assert "--segments" in raised.value.cure
    assert asked(CLUSTER, Database(hidden), segments=3) == (8, 3)


def test_processes_are_those_that_the_server_can_start() -> None:
    """The query is the doctor's: it was max_parallel_workers_per_gather alone, whatever the server may start."""
    assert asked(SERVER, Database([(None, 8)], processes=3)) == (8, 3)
    assert asked(SERVER, Database([(None, 8)], processes=3), segments=5) == (8, 5)
    for name in ("max_parallel_workers_per_gather", "max_parallel_workers", "max_worker_processes"):
        assert f"'{name}'" in PROCESSES
