"""The runtime's compiled code in the registry: sessions start from it, and from the sources where it is not theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from catalog import another_database

from dbinfer.database.backends import check_backends
from dbinfer.database.platform import detect
from dbinfer.install import InstallOptions, install, uninstall, upgrade
from dbinfer.install.content import Content
from dbinfer.models import deploy

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))


@pytest.fixture
def other(server_dsn: str, venv: Path, tmp_path: Path) -> Iterator[str]:
    with another_database(server_dsn) as other:
        install(InstallOptions(venv=str(venv)), other)
        deploy(tiny_models.constant(tmp_path, 5), dsn=other)
        yield other
        # its models must not stay in the host cache
        uninstall(other)


def compiled(dsn: str) -> bool:
    """Return whether a fresh session starts from compiled code, and see that it scores."""
    with closing(psycopg2.connect(dsn)) as connection:
        assert ask(connection, "SELECT dbinfer.predict(%s)", IMAGE) == [5, 5, 5]
        return bool(ask(connection, "SELECT bool_and(compiled) FROM dbinfer.segments"))


def change(dsn: str, sql: str) -> None:
    with closing(psycopg2.connect(dsn)) as connection, connection:
        rows(connection, sql)


def test_sessions_start_from_the_code_of_the_registry(other: str) -> None:
    assert compiled(other)
    with closing(psycopg2.connect(other)) as connection:
        assert rows(
            connection, "SELECT digest, python = dbinfer_private.python() FROM dbinfer_private.runtime_code"
        ) == [(Content().runtime_digest, True)]


@pytest.mark.parametrize("what", ["python = 'cpython-38 550d0d0a'", "digest = 'of another runtime'"])
@pytest.mark.wide
def test_code_that_is_not_theirs_is_left_alone_until_an_upgrade_mends_it(other: str, what: str) -> None:
    change(other, f"UPDATE dbinfer_private.runtime_code SET {what}, code = 'not even code'")
    assert not compiled(other)
    with closing(psycopg2.connect(other)) as connection:
        checks = check_backends(connection, detect(connection), {})
    # one of each process that was asked
    hints = {check.hint for check in checks if not check.ok and "compiled" in check.name}
    assert len(hints) == 1
    assert "dbinfer upgrade" in hints.pop()
    report = upgrade(dsn=other)
    assert (report.changed, "compiled again" in report.message) == (True, True)
    assert compiled(other)
    assert not upgrade(dsn=other).changed


@pytest.mark.wide
def test_an_upgrade_compiles_the_new_runtime(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = Content().modules
    changed["model.functions"] += "\n# another\n"
    monkeypatch.setattr(Content, "modules", changed)
    assert upgrade(dsn=other).changed
    assert compiled(other)


@pytest.mark.wide
def test_sources_that_do_not_compile_do_not_stop_an_installation(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as those of this release would not in a server whose Python is too old
    changed = Content().modules
    changed["train"] = "def"
    monkeypatch.setattr(Content, "modules", changed)
    assert upgrade(dsn=other).changed
    assert not compiled(other)
