"""install, again, with other settings, where it cannot be, and what a failed one leaves: nothing."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, role, rows
from catalog import another_database, own_sql, snapshot
from psycopg2.extensions import make_dsn
from variants import wide

from dbinfer.base.errors import InstallError
from dbinfer.base.version import __version__
from dbinfer.install import InstallOptions, ensure, install, uninstall, upgrade
from dbinfer.install.content import Content
from dbinfer.models import deploy


def test_nothing_is_there_before(empty_dsn: str) -> None:
    assert uninstall(empty_dsn).changed is False
    with pytest.raises(InstallError, match="not installed") as caught:
        upgrade(dsn=empty_dsn)
    assert "dbinfer install" in caught.value.hint


def test_a_second_install_says_so_and_changes_nothing(dsn: str) -> None:
    before = snapshot(dsn)
    again = install(dsn=dsn)
    assert (again.changed, again.version) == (False, __version__)
    assert "already installed; nothing changed" in again.message
    assert upgrade(dsn=dsn).changed is False
    assert ensure(dsn).changed is False
    assert snapshot(dsn) == before


def test_settings_that_are_named_are_changed(dsn: str) -> None:
    outcome = install(InstallOptions(max_models=2), dsn)
    assert outcome.changed
    assert "max_models = 2" in outcome.message
    assert install(InstallOptions(max_models=2), dsn).changed is False
    with closing(psycopg2.connect(dsn)) as connection:
        assert ask(connection, "SELECT value FROM dbinfer_private.setting WHERE name = 'max_models'") == "2"


def test_a_venv_that_backends_cannot_use_is_not_kept(dsn: str, tmp_path: Path) -> None:
    """The check said FAIL and the setting was stored all the same: no new session could score any more."""
    query = "SELECT name, value FROM dbinfer_private.setting ORDER BY 1"
    with closing(psycopg2.connect(dsn)) as connection:
        before = rows(connection, query)
    with pytest.raises(InstallError, match=f"{tmp_path}.*; the setting venv stays "):
        install(InstallOptions(venv=str(tmp_path), max_models=7, engine_dir="/x"), dsn)
    with closing(psycopg2.connect(dsn)) as connection:
        assert rows(connection, query) == before


def test_version_and_upgrades_are_recorded(dsn: str) -> None:
    with closing(psycopg2.connect(dsn)) as connection:
        done = dict(rows(connection, "SELECT name, sha256 FROM dbinfer_private.upgrade"))
        settings = dict(rows(connection, "SELECT name, value FROM dbinfer_private.setting"))
    assert done == {step.name: step.digest for step in Content().upgrades}
    assert settings["version"] == __version__
    assert settings["runtime_digest"] == Content().runtime_digest


def test_every_public_object_has_a_comment(dsn: str) -> None:
    ours = "(SELECT oid FROM pg_namespace WHERE nspname LIKE 'dbinfer%')"
    functions = f"SELECT proname, obj_description(oid, 'pg_proc') FROM pg_proc WHERE pronamespace IN {ours}"
    relations = f"SELECT relname, obj_description(oid, 'pg_class') FROM pg_class WHERE relnamespace IN {ours}"
    with closing(psycopg2.connect(dsn)) as connection:
        found = rows(connection, functions) + rows(connection, f"{relations} AND relkind IN ('r', 'v')")
    assert len(found) > 40
    silent = [name for name, comment in found if not comment]
    assert silent == []


def test_a_role_without_superuser_is_refused(server_dsn: str, dsn: str) -> None:
    with closing(psycopg2.connect(server_dsn)) as connection:
        connection.autocommit = True
        with role(connection) as name:
            own = make_dsn(dsn, options=f"-c role={name}")
            for command in (install, upgrade, uninstall):
                with pytest.raises(InstallError, match=r"permission denied|superuser") as caught:
                    command(dsn=own)
                assert "superuser" in caught.value.message + caught.value.hint


@pytest.mark.parametrize("broken", ["CREATE NONSENSE", *wide("SELECT 1/0")])
def test_a_failed_install_leaves_nothing(
    server_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    copy = own_sql(tmp_path, monkeypatch)
    (copy / "views" / "zz_broken.sql").write_text(broken)
    with another_database(server_dsn) as other:
        before = snapshot(other)
        with pytest.raises(InstallError, match=r"sql/views/zz_broken\.sql failed: "):
            install(dsn=other)
        assert snapshot(other) == before


def test_a_schema_of_somebody_else_is_left_alone(server_dsn: str) -> None:
    with another_database(server_dsn) as other:
        with closing(psycopg2.connect(other)) as connection:
            connection.autocommit = True
            rows(connection, "CREATE SCHEMA dbinfer; CREATE TABLE dbinfer.mine (n integer)")
        before = snapshot(other)
        with pytest.raises(
            InstallError, match="schema dbinfer already exists and does not belong to dbinfer"
        ):
            install(dsn=other)
        assert snapshot(other) == before


@pytest.mark.wide
def test_two_installs_at_once_end_with_one(server_dsn: str, venv: Path) -> None:
    with another_database(server_dsn) as other:
        outcomes: list[object] = []

        def run() -> None:
            try:
                outcomes.append(install(InstallOptions(venv=str(venv)), other).changed)
            except InstallError as err:
                outcomes.append(err.message)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert True in outcomes
        assert upgrade(dsn=other).changed is False


@pytest.mark.wide
def test_a_database_with_an_odd_name(server_dsn: str, venv: Path, tmp_path: Path) -> None:
    with another_database(server_dsn, 'Odd "name" 1') as other:
        install(InstallOptions(venv=str(venv)), other)
        deploy(tiny_models.constant(tmp_path, 3), dsn=other)
        with closing(psycopg2.connect(other)) as connection:
            image = tiny_models.file(tiny_models.picture(1, 2, 3))
            assert ask(connection, "SELECT dbinfer.predict(%s)", image) == [3, 3, 3]
