"""uninstall: exactly what install made, or nothing where something of somebody else depends on it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import rows
from catalog import another_database, snapshot

from dbinfer.base.errors import InstallError
from dbinfer.install import InstallOptions, install, uninstall
from dbinfer.models import deploy


def run(dsn: str, *commands: str) -> None:
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        for command in commands:
            rows(connection, command)


def test_nothing_is_left(server_dsn: str, venv: Path, tmp_path: Path) -> None:
    with another_database(server_dsn) as other:
        before = snapshot(other)
        install(InstallOptions(venv=str(venv)), other)
        deploy(tiny_models.constant(tmp_path, 5), dsn=other)
        outcome = uninstall(other)
        assert outcome.changed
        after = snapshot(other)
        # roles are the cluster's: other databases of this run may need them, or have left them
        assert [line for line in after if line not in before and not line.startswith("role|")] == []
        assert [line for line in before if line not in after and not line.startswith("role|")] == []
        assert uninstall(other).changed is False
        install(InstallOptions(venv=str(venv)), other)
        assert uninstall(other).changed


def test_the_role_stays_while_another_database_needs_it(server_dsn: str, dsn: str) -> None:
    with another_database(server_dsn) as other:
        install(dsn=other)
        uninstall(other)
    assert "role|dbinfer_admin" in snapshot(dsn)


@pytest.mark.wide
def test_plpython_that_was_there_before_stays(server_dsn: str) -> None:
    with another_database(server_dsn) as other:
        run(other, "CREATE EXTENSION IF NOT EXISTS plpython3u")
        before = snapshot(other)
        install(dsn=other)
        uninstall(other)
        assert [line for line in snapshot(other) if not line.startswith("role")] == [
            line for line in before if not line.startswith("role")
        ]


@pytest.mark.wide
def test_plpython_that_somebody_uses_meanwhile_stays(server_dsn: str) -> None:
    with another_database(server_dsn) as other:
        install(dsn=other)
        run(other, "CREATE FUNCTION public.mine() RETURNS integer LANGUAGE plpython3u AS 'return 1'")
        uninstall(other)
        left = snapshot(other)
        assert "extension|plpython3u" in left
        assert any("mine()" in line for line in left)


@pytest.mark.parametrize(
    ("mine", "name"),
    [
        ("CREATE VIEW public.mine AS SELECT dbinfer.predict(NULL::bytea)", "mine"),
        ("CREATE VIEW public.mine AS SELECT * FROM dbinfer.models", "mine"),
        ("CREATE TABLE public.mine (c dbinfer.classification)", "mine"),
        ("CREATE TABLE dbinfer.mine (n integer)", "dbinfer"),
        ("CREATE FUNCTION dbinfer.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'", "dbinfer"),
        ("CREATE VIEW dbinfer.mine AS SELECT 1 AS n", "dbinfer"),
    ],
)
@pytest.mark.wide
def test_what_depends_on_it_is_never_dropped(server_dsn: str, mine: str, name: str) -> None:
    with another_database(server_dsn) as other:
        install(dsn=other)
        run(other, mine)
        before = snapshot(other)
        with pytest.raises(InstallError, match="other objects depend on dbinfer") as caught:
            uninstall(other)
        assert name in caught.value.message
        assert snapshot(other) == before
