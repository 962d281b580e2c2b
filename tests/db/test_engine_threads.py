"""A model that asks for more threads than the host has cores is scored, and does not wait for tokens for ever."""

from __future__ import annotations

from pathlib import Path

import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.registry import DeployOptions, deploy

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))


def test_more_threads_than_cores(dsn: str, db: Connection, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 7), DeployOptions(isolation="always"), dsn=dsn)
    rows(db, "SELECT dbinfer.set_setting('threads', '64')")
    rows(db, "SET statement_timeout = '60s'")
    assert ask(db, "SELECT dbinfer.predict(%s, 'constant')", IMAGE) == [7, 7, 7]
