"""docker/worker: containers that score for a database without PL/Python, whose host they reach by the network alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from containers import Project, docker
from outside import facts, write_colours
from projects import Database, worker_project
from psycopg2.extensions import make_dsn

TOLD_TO_END = "143"


@dataclass(frozen=True)
class Shop:
    """The database, as it is reached from outside, and the project of its workers."""

    dsn: str
    workers: Project


@pytest.fixture(scope="module")
def shop(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A database of a role that may create schemas in it, and nothing else; its workers start before it has a name."""
    with closing(psycopg2.connect(database.dsn)) as db:
        db.autocommit = True
        rows(db, "CREATE ROLE keeper LOGIN PASSWORD 'secret'")
        rows(db, "CREATE DATABASE shop")
        rows(db, "GRANT CREATE ON DATABASE shop TO keeper")
    known = {"user": "keeper", "password": "secret", "dbname": "shop"}
    dsn, folder = make_dsn(database.dsn, **known), tmp_path_factory.mktemp("shop")
    assert facts(dsn, "install", "--tables-only")["changed"]
    with closing(psycopg2.connect(dsn)) as db, db:
        rows(db, "CREATE SCHEMA keeper")
    facts(dsn, "deploy", str(tiny_models.colour_classifier(folder)))
    loaded = facts(
        dsn, "load", str(write_colours(folder / "images", 5)), "--table", "scans", "--label-from", "folder"
    )
    assert loaded["loaded"] == 15
    workers = worker_project(make_dsn(host="database", **known))
    workers.build("worker")
    try:
        workers.up()
        server = database.project.container("database")
        docker("network", "connect", "--alias", "database", f"{workers.name}_default", server)
        yield Shop(dsn, workers)
        docker("network", "disconnect", f"{workers.name}_default", server)
    finally:
        workers.down()


def asked(dsn: str) -> str:
    """Return the label of one row, scored on request."""
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        number = ask(db, "SELECT dbinfer.request(img, 'colours') FROM scans WHERE label = 'green' LIMIT 1")
        return str(ask(db, "SELECT (dbinfer.answer(%s, 120)::dbinfer.classification).label", number))


def test_a_container_answers_requests(shop: Shop) -> None:
    assert asked(shop.dsn) == "green"


def test_a_table_is_scored_in_containers(shop: Shop) -> None:
    words = ("dbinfer", "score", "--table", "scans", "--predictions", "answers", "--model", "colours")
    report = shop.workers.ask("worker", *words)
    assert (report["rows"], report["state"]) == (15, "done")
    with closing(psycopg2.connect(shop.dsn)) as db:
        equal = "SELECT count(*) FROM answers a JOIN scans s USING (id) WHERE a.label = s.label"
        assert ask(db, equal) == 15


def test_more_of_them_and_their_end(shop: Shop) -> None:
    shop.workers.compose("up", "-d", "--no-build", "--scale", "worker=2")
    both = shop.workers.container("worker").split()
    assert len(both) == 2
    assert asked(shop.dsn) == "green"
    shop.workers.compose("stop")
    ended = [docker("inspect", "-f", "{{.State.ExitCode}} {{.State.OOMKilled}}", one).split() for one in both]
    assert ended == [[TOLD_TO_END, "false"]] * 2
