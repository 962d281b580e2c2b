"""Snapshots of a database's catalog, and copies of the SQL files that a test may change."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from asking import rows
from hosts import leave_hosts
from psycopg2.extensions import make_dsn

from dbinfer.database import sql


def snapshot(dsn: str) -> list[str]:
    """Return one line for each object of the database that an installation could make or leave."""
    query = Path(__file__).with_name("snapshot.sql").read_text()
    with closing(psycopg2.connect(dsn)) as connection:
        return [row[0] for row in rows(connection, query)]


def own_sql(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this test install from a copy of the SQL files, and return the copy's folder."""
    copy = Path(shutil.copytree(sql.root(), folder / "sql"))
    monkeypatch.setattr(sql, "root", lambda: copy)
    return copy


class another_database:  # noqa: N801 - reads like a statement
    """A database of a test's own, made with some `words` more; `tidy`: what it put on the hosts goes with it."""

    def __init__(
        self, server_dsn: str, name: str = "test_install_other", words: str = "", tidy: bool = True
    ) -> None:
        self.server_dsn, self.name, self.words, self.tidy = server_dsn, name, words, tidy

    def _run(self, command: str, words: str = "") -> None:
        with closing(psycopg2.connect(self.server_dsn)) as connection:
            connection.autocommit = True
            quoted = '"' + self.name.replace('"', '""') + '"'
            rows(connection, f"{command} {quoted} {words}")

    def __enter__(self) -> str:
        self._run("CREATE DATABASE", self.words)
        return make_dsn(self.server_dsn, dbname=self.name)

    def __exit__(self, *exc: object) -> None:
        if self.tidy:
            leave_hosts(make_dsn(self.server_dsn, dbname=self.name))
        self._run("DROP DATABASE")
