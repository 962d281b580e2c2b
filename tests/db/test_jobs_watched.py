"""Jobs that are watched, ended, gone through in Python, and that wait for new rows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, refused, rows
from psycopg2.extensions import connection as Connection
from typer.testing import CliRunner

import dbinfer
from dbinfer.base.errors import DataError
from dbinfer.base.progress import Progress
from dbinfer.cli.app import app
from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, Scoring, cancel_job, jobs, score

IMAGE = tiny_models.file(tiny_models.picture(200, 0, 0))
PAGE, ARRIVING = (
    Path(__file__).parents[2] / "docs" / "how-to" / name for name in ("nightly.md", "arriving.md")
)
PATIENCE = 60.0


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture(autouse=True)
def images(db: Connection) -> Iterator[None]:
    make_images(db, "images", [IMAGE], copies=100)
    yield
    rows(db, "DROP TABLE IF EXISTS predictions, predictions_errors, images CASCADE")


def until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def stored(db: Connection) -> int:
    there = ask(db, "SELECT to_regclass('predictions_errors')")
    return 0 if there is None else int(ask(db, "SELECT count(*) FROM predictions"))


def test_the_callback_sees_rows_total_and_errors(db: Connection, dsn: str) -> None:
    rows(db, "UPDATE images SET img = 'bad' WHERE id = 50")
    told: list[Progress] = []
    score(options=ScoreOptions(batch=10, connections=1), dsn=dsn, progress=told.append)
    scoring = [progress for progress in told if progress.step == "scoring"]
    assert [progress.done for progress in scoring] == list(range(10, 101, 10))
    assert (scoring[-1].total, scoring[-1].errors) == (100, 1)


def test_going_through_a_job_gives_one_item_a_row(db: Connection, dsn: str) -> None:
    job = Scoring(options=ScoreOptions(batch=30), dsn=dsn)
    assert len(job) == 100
    assert sum(1 for _ in job) == 100
    assert job.report is not None
    assert job.report.rows == 100


def test_leaving_the_loop_ends_the_job_after_its_batch(db: Connection, dsn: str) -> None:
    job = iter(Scoring(options=ScoreOptions(batch=10, connections=1), dsn=dsn))
    next(job)
    job.close()  # type: ignore[attr-defined]
    assert 10 <= stored(db) < 100
    assert jobs(1, dsn).jobs[0]["state"] == "cancelled"
    assert score(dsn=dsn).rows + stored(db) >= 100


def test_json_lines_and_the_list_of_jobs(dsn: str) -> None:
    found = CliRunner().invoke(app, ["score", "--batch", "25", "--json-lines", "--dsn", dsn])
    assert found.exit_code == 0, found.output
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert {"done", "total", "percent", "rate", "seconds_left", "errors"} <= set(lines[1])
    assert (lines[-2]["percent"], lines[-1]["rows"]) == (100.0, 100)
    listed = CliRunner().invoke(app, ["jobs", "--json", "--dsn", dsn])
    job = json.loads(listed.stdout)[0]
    assert (job["state"], job["target"], job["done"], job["model"]) == (
        "done",
        "public.predictions",
        100,
        "colours",
    )
    assert "public.images > public.predictions" in CliRunner().invoke(app, ["jobs", "--dsn", dsn]).stdout
    # nothing is left to do
    score(dsn=dsn)
    last = CliRunner().invoke(app, ["jobs", "--limit", "1", "--dsn", dsn], env={"COLUMNS": "200"}).stdout
    assert " 0/0 " in last, last


def test_others_see_and_end_their_own_jobs_alone(db: Connection, dsn: str) -> None:
    score(dsn=dsn)
    number = jobs(1, dsn).jobs[0]["id"]
    with pytest.raises(DataError, match=f"job {number} is not running: it is done"):
        cancel_job(number, dsn)
    with pytest.raises(DataError, match="there is no job 999999 of yours"):
        cancel_job(999_999, dsn)
    names = ("source", "target", "function", "model")
    facts = json.dumps(dict.fromkeys(names, "public.predictions") | {"version": 1, "connections": 1})
    rows(db, "CREATE ROLE jobs_other LOGIN")
    try:
        with closing(psycopg2.connect(dsn)) as other:
            other.autocommit = True
            rows(other, "SET SESSION AUTHORIZATION jobs_other")
            assert rows(other, "SELECT * FROM dbinfer.jobs") == []
            refused(other, "42704", "SELECT dbinfer.cancel_job(%s)", number)
            tell = "SELECT dbinfer._tell_job(%s, 0, 0, 0, 'x', 'failed', dbinfer._ask('dbinfer score'))"
            assert ask(other, tell, number) is None
            # whoever may not write into a table keeps nobody from it
            begin = "SELECT dbinfer._begin_job(%s, dbinfer._ask('dbinfer score'))"
            assert ask(other, begin, facts) > number
            assert score(dsn=dsn).rows == 0
    finally:
        rows(db, "DROP ROLE jobs_other")


class watching:  # noqa: N801 - reads like a statement
    """A job that waits for new rows, in a thread of its own; cancelled at the end."""

    def __init__(self, dsn: str, seconds: float) -> None:
        self.dsn = dsn
        options = ScoreOptions(watch=seconds, connections=1)
        self.reports: list[Any] = []
        run = lambda: self.reports.append(score(options=options, dsn=dsn))  # noqa: E731
        self.thread = threading.Thread(target=run)

    def __enter__(self) -> watching:
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        cancel_job(jobs(1, self.dsn).jobs[0]["id"], self.dsn)
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def test_new_rows_are_scored_as_they_come_by_polling(db: Connection, dsn: str) -> None:
    with watching(dsn, 0.2) as job:
        until(lambda: stored(db) == 100)
        rows(db, "INSERT INTO images SELECT 500 + id, img FROM images")
        until(lambda: stored(db) == 200)
        rows(db, "INSERT INTO images SELECT -1 - id, img FROM images WHERE id < 100")
        until(lambda: stored(db) == 300)
    assert (job.reports[0].state, job.reports[0].rows) == ("cancelled", 300)


@pytest.mark.postgres_only("triggers")
@pytest.mark.wide
def test_the_trigger_of_the_page_wakes_a_job(db: Connection, dsn: str) -> None:
    (recipe,) = re.findall(r"^(CREATE FUNCTION images_came.*?)```", ARRIVING.read_text(), re.DOTALL | re.M)
    rows(db, recipe.replace("ON inbox", "ON images"))
    # so long that only the NOTIFY can have woken it
    with watching(dsn, 10 * PATIENCE):
        until(lambda: stored(db) == 100)
        # the pass that follows LISTEN may find these
        rows(db, "INSERT INTO images SELECT 500 + id, img FROM images")
        until(lambda: stored(db) == 200)
        rows(db, "INSERT INTO images SELECT 5000 + id, img FROM images WHERE id < 500")
        until(lambda: stored(db) == 300)
    rows(db, "DROP FUNCTION images_came CASCADE")


@pytest.mark.wide
def test_the_line_for_cron_works(db: Connection, dsn: str, tmp_path: Path) -> None:
    (line,) = re.findall(r"```crontab\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
    command = " ".join(line.split()[5:])
    assert command.startswith("dbinfer score")
    command = command.replace(" --model digits", "")
    # as cron runs it: a bare environment, and the words of the line
    wrapper = tmp_path / "dbinfer"
    code = f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}; from dbinfer.cli import main; main()"
    wrapper.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code.replace(chr(39), chr(34))}' \"$@\"\n")
    wrapper.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "DBINFER_DSN": dsn, "HOME": str(tmp_path)}
    done = subprocess.run(["/bin/sh", "-c", command], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert stored(db) == 100


def test_the_public_names() -> None:
    assert {"Scoring", "jobs", "cancel_job", "score"} <= set(dbinfer.__all__)
