"""A job whose client is killed five times and whose server crashes once: each row once, as without any of it."""

from __future__ import annotations

import random
import signal
import time
from contextlib import closing

import killing
import psycopg2
import pytest
from asking import rows
from killing import KILLS, PATIENCE, ROWS, client, stored, wait_for
from variants import wide

from dbinfer.base.errors import DataError
from dbinfer.score import ScoreOptions, Scoring, jobs, score

pytestmark = pytest.mark.postgres_only(
    "crashes the server; a cluster's processes are killed in tests/greenplum"
)


@pytest.fixture(scope="module")
def digits(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    killing.make_digits(dsn, tmp_path_factory.mktemp("irs"))
    return dsn


@pytest.mark.wide
def test_killed_at_random_each_row_is_there_once(digits: str) -> None:
    chance = random.Random(14)
    for kill in range(KILLS + 1):
        more = chance.randrange(1, ROWS // (2 * KILLS + 4))
        if kill == KILLS // 2:
            killing.killed_at(digits, more, lambda _: killing.kill_backend(digits))
        else:
            killing.killed_at(digits, more, killing.kill_client)
    killing.finish(digits, KILLS + 1)


@pytest.mark.wide
def test_killed_with_reuse_no_picture_is_scored_twice(digits: str) -> None:
    """But for those of the batches that were under way."""
    with closing(psycopg2.connect(digits)) as db:
        db.autocommit = True
        rows(db, "DROP TABLE IF EXISTS killed, killed_errors, anew, anew_errors")
        (pictures,) = rows(
            db, "SELECT count(DISTINCT img), count(*) FROM digits WHERE octet_length(img) > 40"
        )[0][:1]
        rows(db, "SELECT dbinfer.set_setting('usage', 'on')")
        running = client(digits, 20, "--reuse", "--connections", "2")
        wait_for(digits, ROWS // 3, running)
        killing.kill_client(running)
        running.communicate(timeout=PATIENCE)
        report = score("digits", "killed", ScoreOptions(reuse=True, connections=2), digits)
        assert 0 < report.rows < ROWS
        assert report.reused > 0
        counted = rows(db, "SELECT sum(rows) FROM dbinfer.usage")[0][0]
        rows(db, "SELECT dbinfer.set_setting('usage', 'off')")
        score("digits", "anew", ScoreOptions(), digits)
        anew, own = ("SELECT id, class, label, score FROM " + name for name in ("anew", "killed"))
        assert rows(db, f"({anew} EXCEPT ALL {own}) UNION ALL ({own} EXCEPT ALL {anew})") == []
        # a damaged one is tried in its batch and alone
        bad = rows(db, "SELECT count(*) FROM killed_errors")[0][0]
        assert pictures <= counted <= pictures + 2 * 20 + 3 * bad
        rows(db, "DROP TABLE killed, killed_errors, anew, anew_errors")


@pytest.mark.parametrize("how", [signal.SIGINT, *wide(signal.SIGTERM)])
def test_a_client_that_is_told_to_end_says_so(digits: str, how: signal.Signals) -> None:
    with closing(psycopg2.connect(digits)) as db:
        db.autocommit = True
        rows(db, "DROP TABLE IF EXISTS killed, killed_errors")
        # a row a batch: on a quiet machine the job was over before it was told
        running = client(digits, 1)
        wait_for(digits, 1, running)
        running.send_signal(how)
        printed = running.communicate(timeout=PATIENCE)[0]
        assert (running.returncode, printed) == (128 + how, "")
        (job,) = jobs(1, digits).jobs
        assert job["state"] == "cancelled"
        assert 0 < job["done"] < job["total"] == ROWS


def test_what_was_written_since_the_last_look_counts(digits: str) -> None:
    """A client that ended just after its first batch left a job that had done nothing, beside a stored row."""
    with closing(psycopg2.connect(digits)) as db:
        db.autocommit = True
        rows(db, "DROP TABLE IF EXISTS killed, killed_errors")
        batches = Scoring("digits", "killed", ScoreOptions(batch=1, connections=1), digits).batches()
        next(progress for progress in batches if progress.done)
        # the job goes on while its user looks away
        seen = stored(digits)
        until = time.monotonic() + PATIENCE
        while stored(digits) < seen + 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        batches.close()
        (job,) = jobs(1, digits).jobs
        assert (job["state"], job["done"]) == ("cancelled", stored(digits))


@pytest.mark.wide
def test_a_second_client_says_that_the_first_is_at_work(digits: str) -> None:
    with closing(psycopg2.connect(digits)) as db:
        db.autocommit = True
        rows(db, "DROP TABLE IF EXISTS killed, killed_errors")
        running = client(digits)
        wait_for(digits, 1, running)
        with pytest.raises(DataError, match="is already scoring into") as caught:
            score("digits", "killed", dsn=digits)
        assert "dbinfer jobs cancel" in caught.value.hint
        running.communicate(timeout=PATIENCE)
        assert stored(digits) == ROWS
        (job,) = jobs(1, digits).jobs
        assert (job["state"], job["done"], job["total"]) == ("done", ROWS, ROWS)
