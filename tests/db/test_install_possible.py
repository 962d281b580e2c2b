"""Servers that cannot have dbinfer get one sentence: without PL/Python, of a managed service, of another kind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest
from asking import ask, rows
from bare_server import bare_server
from psycopg2.extensions import make_dsn

from dbinfer.base.errors import InstallError
from dbinfer.install import install
from dbinfer.install.steps import SERVICES

pytestmark = pytest.mark.postgres_only("it starts a PostgreSQL of its own")
MANAGED = "docs/explanation/platforms.md#managed-services"


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    with bare_server() as dsn:
        yield dsn


@contextmanager
def somebody(dsn: str, *groups: str) -> Iterator[str]:
    """Yield the dsn of a role that is no superuser but a member of the groups, which are made, too."""
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        rows(connection, "CREATE ROLE somebody LOGIN CREATEROLE CREATEDB")
        for group in groups:
            rows(connection, f"CREATE ROLE {group} NOLOGIN")
            rows(connection, f"GRANT {group} TO somebody")
        try:
            yield make_dsn(dsn, options="-c role=somebody")
        finally:
            rows(connection, f"DROP ROLE {', '.join((*groups, 'somebody'))}")


def refusal(dsn: str) -> InstallError:
    with pytest.raises(InstallError) as caught:
        install(dsn=dsn)
    return caught.value


def test_a_server_without_pl_python(bare: str) -> None:
    with closing(psycopg2.connect(bare)) as connection:
        major = ask(connection, "SELECT current_setting('server_version_num')::int / 10000")
        assert ask(connection, "SELECT count(*) FROM pg_available_extensions WHERE name = 'plpython3u'") == 0
        assert ask(connection, "SELECT count(*) FROM pg_available_extensions WHERE name = 'plpgsql'") == 1
    found = refusal(bare)
    assert found.message == "the server does not have PL/Python (language plpython3u)"
    assert found.hint.endswith(f"apt-get install postgresql-plpython3-{major}")


@pytest.mark.parametrize("sign", SERVICES)
def test_a_managed_service_without_it_is_named(bare: str, sign: str) -> None:
    """It used to say: connect as a superuser, which nobody there is."""
    with somebody(bare, sign) as dsn:
        found = refusal(dsn)
    assert found.message == (
        f"{SERVICES[sign]} (its role {sign!r} is here) does not offer PL/Python (language plpython3u), "
        "in which dbinfer runs"
    )
    assert MANAGED in found.hint


def test_a_role_without_rights_where_the_language_is_missing_too(bare: str) -> None:
    with somebody(bare) as dsn:
        found = refusal(dsn)
    assert found.message.startswith(
        "role 'somebody' is not a superuser, and the server does not have PL/Python"
    )
    assert MANAGED in found.hint


def test_a_service_that_lists_the_language(empty_dsn: str) -> None:
    with somebody(empty_dsn, "rds_superuser") as dsn:
        found = refusal(dsn)
    assert found.message == (
        "role 'somebody' is not a superuser, and Amazon RDS or Aurora (its role 'rds_superuser' is here) "
        "does not make anyone a superuser"
    )
    assert MANAGED in found.hint


def test_no_service_and_no_superuser(empty_dsn: str) -> None:
    with somebody(empty_dsn) as dsn:
        found = refusal(dsn)
    assert found.message.startswith("role 'somebody' is not a superuser, and creating functions in PL/Python")
    assert found.hint.startswith("Connect as a superuser.")
    assert "--tables-only" in found.hint


def test_on_the_command_line(bare: str) -> None:
    command = [Path(sys.executable).with_name("dbinfer"), "install", "--dsn", bare]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "220"}
    )
    assert done.returncode == 1
    assert "does not have PL/Python" in done.stderr
    assert "Traceback" not in done.stderr
