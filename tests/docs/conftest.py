"""The documentation's tests: a database as it is after `make demo`, with tiny models under the demo's names."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import rows
from servers import db, dsn, empty_dsn, server, server_dsn, session_env, venv

from dbinfer.registry import DeployOptions, deploy

__all__ = ["db", "dsn", "empty_dsn", "server", "server_dsn", "session_env", "venv"]


@pytest.fixture(scope="module")
def demo(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dsn of a database with models `digits` and `strokes` and tables `images` and `strokes`."""
    folder: Path = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder, "digits"), dsn=dsn)
    deploy(tiny_models.red_mask(folder, "strokes"), DeployOptions(name="strokes"), dsn=dsn)
    image = tiny_models.file(tiny_models.picture(250, 0, 0))
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        for table in ("images", "strokes"):
            rows(connection, f"CREATE TABLE {table} (id serial, path text, label text, img bytea)")
            for number in range(3):
                values = (f"{number}.png", "red", image)
                rows(connection, f"INSERT INTO {table} (path, label, img) VALUES (%s, %s, %s)", *values)
    return dsn
