"""docker/database with another PostgreSQL than its own, from the distribution that has it."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest
from asking import ask
from containers import need
from outside import facts
from projects import database_project
from psycopg2.extensions import make_dsn


@pytest.mark.parametrize(("version", "base"), [("17", "debian:trixie-slim")])
def test_the_version_is_an_argument(compose: None, version: str, base: str) -> None:
    need(base, "")
    chosen = {"POSTGRES_VERSION": version, "DBINFER_BASE_IMAGE": base}
    project = database_project(DBINFER_DATABASE_IMAGE=f"dbinfer-database:test-{version}", **chosen)
    project.build("database")
    try:
        project.up("database")
        password = project.execute("database", "cat", "/var/lib/dbinfer/password").stdout.strip()
        port = project.values["DBINFER_PORT"]
        dsn = make_dsn(host="127.0.0.1", port=port, user="dbinfer", dbname="dbinfer", password=password)
        with closing(psycopg2.connect(dsn)) as db:
            assert str(ask(db, "SHOW server_version")).split(".")[0] == version
        assert facts(dsn, "doctor")["ok"]
    finally:
        project.down()
