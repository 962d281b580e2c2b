"""score --follow: killed -9 while rows come, change and go, it has each row once, as a job that nothing disturbs."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from contextlib import closing

import killing
import psycopg2
import pytest
from asking import ask, rows
from following import until
from killing import BATCH, KILLS, PATIENCE, client, kill_client
from psycopg2.extensions import connection as Connection

import dbinfer

# Some images are mended and some damaged, some rows go and some come
CHANGES = (
    "UPDATE digits SET img = sample.img FROM sample WHERE n = (id + 1) % 1797 AND id % 3 = {turn} % 3",
    "UPDATE digits SET img = substring(img FOR 40) WHERE id % 50 = {turn}",
    "DELETE FROM digits WHERE id % 40 = {turn}",
    "INSERT INTO digits SELECT (SELECT max(id) FROM digits) + 1 + n, img FROM sample WHERE n < 50",
)


@pytest.fixture(scope="module")
def digits(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    killing.make_digits(dsn, tmp_path_factory.mktemp("irs"))
    return dsn


@pytest.fixture(autouse=True)
def fresh(digits: str) -> Iterator[None]:
    yield
    with closing(psycopg2.connect(digits)) as db, db:
        tables = "killed, killed_errors, killed_queue, undisturbed, undisturbed_errors"
        rows(db, f"DROP TABLE IF EXISTS {tables} CASCADE")
        rows(db, "DROP FUNCTION IF EXISTS killed_queue() CASCADE")


def scored_since(db: Connection, moment: str, running: subprocess.Popen[str]) -> int:
    """Return how many results and reasons a client has written that is still at work."""
    assert running.poll() is None, running.communicate()[0]
    if ask(db, "SELECT to_regclass('killed_errors')") is None:
        return 0
    since = f"WHERE {{}} > '{moment}'"
    good, bad = f"FROM killed {since.format('scored_at')}", f"FROM killed_errors {since.format('at')}"
    return int(ask(db, f"SELECT (SELECT count(*) {good}) + (SELECT count(*) {bad})"))


QUEUED = pytest.param(True, marks=pytest.mark.postgres_only("triggers that write"), id="queued")


@pytest.mark.wide
@pytest.mark.parametrize("queued", [pytest.param(False, id="looking"), QUEUED])
def test_killed_while_rows_change_it_has_each_row_once(digits: str, queued: bool) -> None:
    chance = random.Random(25)
    with closing(psycopg2.connect(digits)) as db:
        db.autocommit = True
        if queued:
            dbinfer.follow("digits", "killed", dsn=digits)
        for turn in range(KILLS + 1):
            moment, least = ask(db, "SELECT clock_timestamp()::text"), chance.randrange(1, 300)
            running = client(digits, BATCH, "--follow")
            until(lambda: scored_since(db, moment, running) >= least)  # noqa: B023
            kill_client(running)
            running.communicate(timeout=PATIENCE)
            for change in CHANGES:
                rows(db, change.format(turn=turn))
        last = client(digits, BATCH, "--follow")
        printed = last.communicate(timeout=PATIENCE * 5)[0]
        assert last.returncode == 0, printed
        following = dbinfer.ScoreOptions(follow=True)
        dbinfer.score("digits", "undisturbed", following, digits)
        for query in ("SELECT id, class, label, score FROM {}", "SELECT id, reason FROM {}_errors"):
            killed, undisturbed = (
                rows(db, query.format(name) + " ORDER BY id") for name in ("killed", "undisturbed")
            )
            assert killed == undisturbed
        again = dbinfer.score("digits", "killed", following, digits)
        assert (again.rows, again.errors, again.outdated, again.removed) == (0, 0, 0, 0)
