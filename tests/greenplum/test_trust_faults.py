"""Faults on a cluster: caches and the venv go, statements are cancelled; afterwards all is as before."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import figures
import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows, without_timeout
from breakable import ORPHANED_PARTS, REGISTRY, lose_venv, outcome, until
from costly_models import slow_model
from psycopg2.extensions import connection as Connection

from dbinfer.install import InstallOptions, install
from dbinfer.models import deploy

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
ROWS = 60
SEVEN = "SELECT count(*) FROM many WHERE (dbinfer.predict(img, 'seven'))[1] = 7"
ABOVE = "SELECT count(*) FROM (SELECT * FROM many ORDER BY id LIMIT 9) s WHERE (dbinfer.predict(img, 'seven'))[1] = 7"
LONG = "SELECT count(dbinfer.predict(img || int4send(n), 'slow')) FROM many, generate_series(1, 1000) n"
SHORT = "SELECT count(dbinfer.predict(img, 'slow')) FROM many WHERE id < 6"
# Damages the cache of the process that runs it, and says what it found there.
SPOIL = """
CREATE OR REPLACE FUNCTION spoil(how text) RETURNS text LANGUAGE plpython3u VOLATILE AS $$
import glob, shutil
found = glob.glob("CACHE/*/model.bin")
if how == "cut":
    for path in found: open(path, "r+b").truncate(1)
elif how == "remove": shutil.rmtree("CACHE", ignore_errors=True)
return ",".join(glob.glob("CACHE/*/*.tmp") + glob.glob("CACHE/*.tmp"))
$$"""


@pytest.fixture(scope="module")
def broken(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dsn of a database with a quick and a slow model, images on every segment, and a cache of its own."""
    folder = tmp_path_factory.mktemp("irs")
    cache = f"/var/tmp/dbinfer-trust-{uuid.uuid4().hex}"  # on each host, made by the first who needs it
    install(InstallOptions(cache_dir=cache), dsn)
    for model in (tiny_models.constant(folder, 7, "seven"), slow_model(folder, 20_000)):
        deploy(model, dsn=dsn)
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        make_images(db, "many", [IMAGE], ROWS)
        rows(db, SPOIL.replace("CACHE", cache))
        yield dsn
        everywhere(db, "spoil('remove')")


@pytest.fixture(autouse=True)
def as_before(broken: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """After a fault: the registry is unchanged, no temporary file lies about, a new session scores everywhere."""
    with closing(fresh(broken)) as db:
        before = registry(db)
    yield
    figures.record(request.node.name, faults=1)
    until(lambda: answers(broken), "the cluster answers again")
    with closing(fresh(broken)) as db:
        assert rows(db, SEVEN) == [(ROWS,)]
        assert rows(db, ABOVE) == [(9,)]
        assert registry(db) == before
        assert ask(db, ORPHANED_PARTS) == 0
        assert set(everywhere(db, "spoil('no')")) == {""}


def fresh(dsn: str) -> Connection:
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    return connection


def answers(dsn: str) -> bool:
    try:
        with closing(fresh(dsn)) as db:
            return rows(db, SEVEN) == [(ROWS,)]
    except psycopg2.Error as err:
        print(f"not yet: {str(err).strip().splitlines()[0]}")
        time.sleep(1)
        return False


def registry(db: Connection) -> dict[str, list[str]]:
    text = "SELECT md5(t::text) FROM dbinfer_private.{} t ORDER BY 1"
    return {table: [row[0] for row in rows(db, text.format(table))] for table in REGISTRY}


def everywhere(db: Connection, call: str) -> list[str]:
    """Call a function on every segment and on the coordinator; return the values."""
    return [
        row[0] for row in rows(db, f"SELECT {call}") + rows(db, f"SELECT {call} FROM gp_dist_random('gp_id')")
    ]


def test_the_caches_may_go_under_a_session(broken: str) -> None:
    with closing(fresh(broken)) as db:
        for query in (SEVEN, ABOVE, SHORT):
            rows(db, query)
        everywhere(db, "spoil('remove')")
        assert rows(db, SEVEN) == [(ROWS,)]
        assert rows(db, ABOVE) == [(9,)]
        with closing(fresh(broken)) as other:
            assert rows(other, ABOVE) == [(9,)]
            assert rows(other, SEVEN) == [(ROWS,)]
            assert ask(other, SHORT) == 6


def test_files_that_were_cut_off_are_fetched_again(broken: str) -> None:
    """Not under a session: OpenVINO reads weights where they lie, so who edits a file edits what is loaded."""
    with closing(fresh(broken)) as db:
        for query in (SEVEN, ABOVE):
            rows(db, query)
        everywhere(db, "spoil('cut')")
    with closing(fresh(broken)) as db:
        assert rows(db, ABOVE) == [(9,)]
        assert rows(db, SEVEN) == [(ROWS,)]


def test_the_caches_may_go_while_a_statement_runs(broken: str) -> None:
    with closing(fresh(broken)) as db, closing(fresh(broken)) as other:
        timer = threading.Timer(0.5, everywhere, (other, "spoil('remove')"))
        timer.start()
        found, diag = outcome(db, "SELECT count(dbinfer.predict(img, 'slow')) FROM many")
        timer.join()
        # gone between admission and compilation: one error, which says that the next statement mends it
        assert (
            found == [(ROWS,)] if diag is None else "no longer in the host cache" in diag.message_primary
        ), diag and (diag.sqlstate, diag.message_primary)
        assert ask(db, SHORT) == 6


def test_without_the_venv_one_error_and_with_it_all_works(broken: str, venv: Path) -> None:
    lose_venv(broken)
    try:
        with closing(fresh(broken)) as db:
            for query in (SEVEN, ABOVE):
                found, diag = outcome(db, query)
                assert not found
                assert diag.sqlstate == "58P01", diag.message_primary
                assert "/nowhere/venv" in diag.message_primary
            install(InstallOptions(venv=str(venv)), broken)
            assert rows(db, SEVEN) == [(ROWS,)]
    finally:
        install(InstallOptions(venv=str(venv)), broken)


# from 5 on: in one millisecond no SET reaches all segments, and the session would never be without a timeout again
@pytest.mark.parametrize("milliseconds", [5, 10, 40, 160, 640, 1500])
def test_a_timeout_in_a_cold_session_is_one_error_and_the_session_goes_on(
    broken: str, milliseconds: int
) -> None:
    with closing(fresh(broken)) as db:
        everywhere(db, "spoil('remove')")
        rows(db, f"SET statement_timeout = {milliseconds}")
        for _ in range(3):
            found, diag = past_interrupt(db)
            assert found == [(6,)] if diag is None else diag.sqlstate == "57014", (
                diag and diag.message_primary
            )
        without_timeout(db)
        assert past_interrupt(db)[0] == [(6,)]


def past_interrupt(db: Connection) -> tuple[list[tuple[int, ...]], Any]:
    """Return the outcome of SHORT, repeated where an interrupt was left over: see test_session_cancel."""
    found, diag = outcome(db, SHORT)
    left_over = diag is not None and diag.message_primary.startswith("KeyboardInterrupt")
    return outcome(db, SHORT) if left_over else (found, diag)


def test_how_long_a_cancel_takes(broken: str) -> None:
    with closing(fresh(broken)) as db:
        assert ask(db, SHORT) == 6
        slowest = 0.0
        for _ in range(3):
            sent: list[float] = []
            timer = threading.Timer(1, lambda sent=sent: (sent.append(time.monotonic()), db.cancel()))
            timer.start()
            with pytest.raises(psycopg2.errors.QueryCanceled):
                rows(db, LONG)
            slowest = max(slowest, time.monotonic() - sent[0])
            timer.join()
            assert ask(db, SHORT) == 6
    figures.record("cancel on a cluster", cancel_s=round(slowest, 2))
