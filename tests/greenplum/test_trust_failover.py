"""A primary is killed while it scores: the statement fails, the next one finds all it needs on the mirror."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import figures
import killing
import mirrored
import psycopg2
import pytest
from asking import rows
from psycopg2.extensions import connection as Connection

from dbinfer.database.backends import Check
from dbinfer.install import InstallOptions, install
from dbinfer.install.doctor import doctor
from dbinfer.models import models

pytestmark = mirrored.NEEDED
SLOW = (
    "SELECT count(dbinfer.predict(img || int4send(n), 'constant')) FROM images, generate_series(1, 50000) n"
)
NEXT = "SELECT id, (dbinfer.predict(img, 'constant'))[1] FROM images WHERE dbinfer.classify(img, 'colours') IS NOT NULL"
ALL = sorted((number, 7.0) for number in range(60))


@pytest.fixture
def breakable(dsn: str) -> Iterator[str]:
    """A cluster in order, which is in order again afterwards."""
    mirrored.require_mirrors(dsn)
    yield dsn
    mirrored.recover(dsn)


@pytest.mark.parametrize("isolation", ["never", "always"])
def test_killed_while_a_statement_scores(cluster: str, breakable: str, isolation: str) -> None:
    install(InstallOptions(isolation=isolation), cluster)
    before = models(cluster)
    with closing(psycopg2.connect(cluster)) as db:
        db.autocommit = True
        assert sorted(rows(db, NEXT)) == ALL
        _killed_in_the_middle(db, cluster)
        assert sorted(_next(db)) == ALL, "the session goes on"
    with closing(psycopg2.connect(cluster)) as db:
        assert sorted(rows(db, NEXT)) == ALL
    assert models(cluster) == before
    _doctor_names_the_mirror(cluster)
    figures.record(f"kill -9 of a primary, isolation {isolation}", faults=1)


def test_killed_while_a_job_scores(
    dsn: str, breakable: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    killing.make_digits(dsn, tmp_path_factory.mktemp("irs"))

    def deed(_: subprocess.Popen[str]) -> None:
        mirrored.kill_primary(dsn)

    printed = killing.killed_at(dsn, killing.ROWS // 4, deed)
    print(printed)
    assert "Traceback" not in printed
    killing.finish(dsn, 1)
    _doctor_names_the_mirror(dsn)
    figures.record("a job whose primary was killed", faults=1, rows=killing.ROWS)


def test_all_is_well_again(cluster: str) -> None:
    mirrored.require_mirrors(cluster)
    assert _wrong(cluster) == []
    with closing(psycopg2.connect(cluster)) as db:
        assert sorted(rows(db, NEXT)) == ALL


def _killed_in_the_middle(db: Connection, dsn: str) -> None:
    timer = threading.Timer(1, mirrored.kill_primary, (dsn,))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(psycopg2.Error) as caught:
        rows(db, SLOW)
    timer.join()
    print(f"after {time.monotonic() - begin:.0f} s the statement ended with: {caught.value}")


def _next(db: Connection) -> list[tuple[object, ...]]:
    """Return the answer of the next statement that finds the cluster at work again."""
    end = time.monotonic() + mirrored.PATIENCE
    while True:
        try:
            return rows(db, NEXT)
        except psycopg2.Error as err:
            print(f"not yet: {str(err).strip().splitlines()[0]}")
            assert not db.closed
            assert time.monotonic() < end
            time.sleep(1)


def _wrong(dsn: str) -> list[Check]:
    return [check for check in doctor(dsn).checks if not check.ok]


def _doctor_names_the_mirror(dsn: str) -> None:
    (check,) = _wrong(dsn)
    print(check)
    assert check.name == "mirrors"
    assert "segment 0: its mirror on" in check.detail
    assert "is down" in check.detail
    assert check.hint.startswith("gprecoverseg")
