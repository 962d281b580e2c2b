"""The cluster's tests: a database with dbinfer, models and images spread over the segments, once a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import rows
from plans import PLANNERS
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

COLOURS = {"red": (250, 0, 0), "green": (0, 250, 0), "blue": (0, 0, 250)}
IMAGES = 60


@pytest.fixture(scope="module")
def cluster(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dsn of a database with models `colours`, `constant`, `redness`, `redbox`, a table images(id, img, label)."""
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    deploy(tiny_models.constant(folder, 7), dsn=dsn)
    deploy(tiny_models.red_mask(folder), dsn=dsn)
    deploy(tiny_models.red_box(folder), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        rows(connection, "CREATE TABLE images (id integer, img bytea, label text) DISTRIBUTED BY (id)")
        files = {name: tiny_models.file(tiny_models.picture(*colour)) for name, colour in COLOURS.items()}
        names = list(files)
        for number in range(IMAGES):
            label = names[number % len(names)]
            img = files[label] + number.to_bytes(4, "big")  # the same image again would be scored once
            rows(connection, "INSERT INTO images VALUES (%s, %s, %s)", number, img, label)
        rows(connection, "ANALYZE images")
    return dsn


@pytest.fixture(params=PLANNERS, ids=str)
def session(cluster: str, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A new session on the cluster, once with each planner; it must be usable at the end."""
    with closing(psycopg2.connect(cluster)) as connection:
        connection.autocommit = True
        try:
            rows(connection, f"SET optimizer = {PLANNERS[request.param]}")
        except psycopg2.errors.InvalidParameterValue as err:
            pytest.skip(str(err.diag.message_primary))  # the server was built without ORCA
        yield connection
        assert rows(connection, "SELECT count(dbinfer.classify(img, 'colours')) FROM images") == [(IMAGES,)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for this test's files."""
    return tmp_path
