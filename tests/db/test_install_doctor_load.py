"""doctor counts what scores at once on this server against its cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from asking import ask, rows
from psycopg2.extensions import make_dsn

from dbinfer.database.backends import Check
from dbinfer.install.doctor import doctor

pytestmark = [
    pytest.mark.postgres_only("a cluster has segments in place of parallel workers"),
    pytest.mark.in_backends("the engine keeps within the cores whatever the plans ask for"),
]


@pytest.fixture
def workers(dsn: str) -> Iterator[str]:
    """Let every statement of this database ask for more workers than the machine has cores; a dsn of it."""
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        name = ask(connection, "SELECT quote_ident(current_database())")
        rows(connection, f"ALTER DATABASE {name} SET max_parallel_workers_per_gather = 1000")
        try:
            yield dsn
        finally:
            rows(connection, f"ALTER DATABASE {name} RESET max_parallel_workers_per_gather")


def load(dsn: str) -> Check:
    (found,) = [check for check in doctor(dsn).checks if check.name == "load"]
    return found


def test_the_embedded_server_fits_its_machine(dsn: str) -> None:
    found = load(dsn)
    assert found.ok, found
    assert "processes score at once" in found.detail


def test_more_workers_than_cores_are_named(workers: str) -> None:
    """As many as the server starts count, not as many as a plan may ask for."""
    with closing(psycopg2.connect(workers)) as connection:
        started = min(
            int(ask(connection, f"SELECT current_setting('{name}')"))
            for name in ("max_parallel_workers", "max_worker_processes")
        )
        cores = ask(connection, "SELECT cores FROM dbinfer.segments")
    found = load(workers)
    assert found.detail == (
        f"this server: {1 + started} processes score at once, 1 thread each, on {cores} cores"
    )
    assert found.ok is (1 + started <= 2 * cores)
    if 1 + started > cores:
        assert f"SET max_parallel_workers_per_gather = {cores - 1}" in found.hint


def test_a_session_with_other_settings_is_not_the_database(workers: str) -> None:
    other = make_dsn(workers, options="-c max_parallel_workers_per_gather=0")
    assert load(other).detail.startswith("this server: 1 processes score at once, ")
    assert os.cpu_count()
