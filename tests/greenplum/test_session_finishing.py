"""Segments that are told to finish, because the coordinator has all the rows it needs: no error, and no wrong answer.

From then on no query of a function finds a row there. LONG=1 runs 2,000 statements of each kind in place of 256.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import figures
import psycopg2
import pytest
import tiny_models
from asking import rows
from plans import PLANNERS
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from servers import ISOLATION

from dbinfer.install import InstallOptions, install
from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score

STATEMENTS = 500 if figures.long() else 64  # with each planner, in the backends and in the engine
JOBS = 10 if figures.long() else 1  # as often
SESSIONS = 4  # at a time
pytestmark = pytest.mark.timeout(7200)

CALLS = (
    "dbinfer.predict(img, 'colours')",
    "dbinfer.predict_tensor(img, 'constant')",
    "dbinfer.predict(img, 'two', output => 'largest')",
    "dbinfer.predict_tensor(img, 'two', output => 'mean')",
    "dbinfer.classify(img, 'colours')",
    "dbinfer.classify_top(img, 2, 'colours')",
    "dbinfer.segment(img, 'redness')",
    "dbinfer.embed(img, 'vector')",
    "dbinfer.detect(img, 'redbox')",
    "dbinfer.draw(img, dbinfer.detect(img, 'redbox'))",
    "dbinfer.draw(img, mask => dbinfer.segment(img, 'redness'))",
    "dbinfer.profile(img, 'constant')",
    "dbinfer.image_info(img)",
    "dbinfer.predict(img)",
    "dbinfer.predict(img, CASE WHEN id > 0 THEN 'colours' ELSE 'constant' END)",
)
INTERNAL = (
    "dbinfer._text_of_row('embed', id, img, dbinfer._resolve('vector', img IS NULL), 'error')",
    "dbinfer._take('classify', 'scan', id, img, dbinfer._resolve('colours', img IS NULL), 'error')",
    "dbinfer._rest('classify', 'scan', dbinfer._resolve('colours', img IS NULL), 'error')",
)
# behind the views of all segments, and behind `dbinfer cache`
LOOKS = (
    "dbinfer._full_status()",
    "dbinfer._status()",
    "dbinfer._full_engines('look')",
    "dbinfer._shown_engines()",
    "dbinfer._usage_of(dbinfer._ask('dbinfer usage', gpname IS NULL))",
    "dbinfer_private.cache_here(true)",
)
NOW, SOON = "finish_now({0})", "finish_within(0.15, {0})"


@pytest.fixture(scope="module")
def told(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The cluster's database with the functions that tell a segment to finish, and a table without rows."""
    folder = tmp_path_factory.mktemp("more")
    deploy(tiny_models.colour_embedding(folder), dsn=cluster)
    deploy(tiny_models.two_outputs(folder), dsn=cluster)
    with closing(psycopg2.connect(cluster)) as db:
        db.autocommit = True
        rows(db, Path(__file__).with_name("finish.sql").read_text())
        rows(db, "CREATE TABLE nothing (id integer) DISTRIBUTED BY (id)")
    return cluster


@pytest.fixture(params=["auto", "always"])
def isolated(told: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The same, where fast models run in the backends, and where all run in the host's engine."""
    before = os.environ.get(ISOLATION, "auto")
    install(InstallOptions(isolation=request.param), told)
    yield told
    install(InstallOptions(isolation=before), told)


@contextmanager
def fresh(dsn: str, planner: str) -> Iterator[Connection]:
    """Yield a new session, whose processes on the segments are new, too."""
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        rows(db, f"SET optimizer = {PLANNERS[planner]}")
        yield db


def telling(call: str, how: str) -> str:
    """Return a statement whose segments are told to finish before, or while, they call the function first."""
    return f"SELECT {how.format('img IS NULL')}, {call} FROM images"


@pytest.mark.parametrize("planner", PLANNERS)
def test_new_processes_that_are_told_before_they_resolve(told: str, planner: str) -> None:
    for call in CALLS + INTERNAL:
        with fresh(told, planner) as db:
            assert {answer for _, answer in rows(db, telling(call, NOW))} <= {None}, call
    for look in LOOKS:
        with fresh(told, planner) as db:
            query = f"SELECT {NOW.format('gpname IS NULL')}, {look} FROM gp_dist_random('gp_id')"
            assert {answer for _, answer in rows(db, query)} <= {None, "[]"}, look


def test_used_processes_that_are_told_before_they_resolve(session: Connection, told: str) -> None:
    every = ", ".join(f"count({call})" for call in CALLS)
    right = rows(session, f"SELECT {every} FROM images")
    assert right == [(60,) * len(CALLS)]
    for call in CALLS + INTERNAL:
        assert {answer for _, answer in rows(session, telling(call, NOW))} <= {None}, call
    for look in LOOKS:
        rows(session, f"SELECT {NOW.format('gpname IS NULL')}, {look} FROM gp_dist_random('gp_id')")
    assert rows(session, f"SELECT {every} FROM images") == right


# what brings a segment into the states in which it meets the statement: new, new to us, or with another model
BEFORE = (
    (),
    ("SELECT count(*) FROM images",),
    ("SELECT count(*) FROM images", "SELECT {call} FROM images WHERE id = 3"),
    ("SELECT dbinfer.image_info(img) FROM images",),
    ("SELECT dbinfer.predict(img, 'constant') FROM images",),
)
EARLY = (
    "SELECT {call} IS NOT NULL FROM images LIMIT 1",
    "SELECT EXISTS (SELECT 1 FROM images WHERE {call} IS NOT NULL)",
    "SELECT {call} IS NOT NULL FROM images WHERE EXISTS (SELECT 1 FROM images WHERE {call} IS NOT NULL) LIMIT 1",
    "SELECT count(r) = 0 FROM (SELECT id, {call} AS r FROM images OFFSET 0) s JOIN nothing USING (id)",
    "SELECT r IS NOT NULL FROM (SELECT id, {call} AS r FROM images OFFSET 0) s JOIN images i USING (id) LIMIT 1",
    "BEGIN; DECLARE c CURSOR FOR SELECT {call} IS NOT NULL FROM images; FETCH 1 FROM c",
    "SELECT pid > 0 FROM dbinfer.segments LIMIT 1",
    "SELECT count(*) >= 0 FROM (SELECT pid FROM dbinfer.engines LIMIT 1) s",
    "SELECT count(*) = 0 FROM dbinfer.usage u JOIN nothing n ON n.id = u.version",
    "SELECT count(*) >= 0 FROM (SELECT id FROM dbinfer.jobs LIMIT 1) s",
    "SELECT name <> '' FROM dbinfer.models LIMIT 1",
    "SELECT id >= 0 FROM dbinfer.predict_table('images', 'colours') LIMIT 1",
    "SELECT dbinfer.classify_into('results', 'images', 'colours') = 60",
)


@contextmanager
def busy() -> Iterator[None]:
    """Keep all cores at work."""
    spin = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


class Script(NamedTuple):
    """Statements for one session; the last column of the last one's rows has nothing but right answers."""

    statements: tuple[str, ...]
    right: set[object]


def problem(dsn: str, planner: str, script: Script) -> str | None:
    """Run a script in a new session; return its error, or its wrong answers."""
    *before, last = script.statements
    with fresh(dsn, planner) as db:
        try:
            for statement in before:
                rows(db, statement)
            wrong = {row[-1] for row in rows(db, last)} - script.right
            return f"{wrong} from {script.statements}" if wrong else None
        except psycopg2.Error as err:
            return f"{err.diag.sqlstate} {err} from {script.statements}"


def problems(dsn: str, planner: str, scripts: Iterable[Script]) -> list[str]:
    """Run scripts, some at a time, while all cores are busy; return what went wrong."""
    with busy(), ThreadPoolExecutor(SESSIONS) as pool:
        found = list(pool.map(lambda script: problem(dsn, planner, script), scripts))
    print(f"{planner}: {sum(map(bool, found))} problems in {len(found)} statements")
    return [one for one in found if one]


def drawn(*parts: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return so many combinations of the parts: each as often as any other, in a random order."""
    every = list(itertools.product(*parts))
    random.shuffle(every)
    return list(itertools.islice(itertools.cycle(every), STATEMENTS))


@pytest.mark.parametrize("planner", PLANNERS)
def test_statements_that_are_over_early_on_a_busy_cluster(isolated: str, planner: str) -> None:
    with fresh(isolated, planner) as db:
        rows(db, "DROP TABLE IF EXISTS results")
        rows(
            db, "CREATE TABLE results (id bigint, class integer, label text, score real) DISTRIBUTED BY (id)"
        )
    scripts = [
        Script(tuple(statement.format(call=call) for statement in (*before, early)), {True})
        for call, before, early in drawn(CALLS, BEFORE, EARLY)
    ]
    assert problems(isolated, planner, scripts) == []


@pytest.mark.parametrize("planner", PLANNERS)
def test_segments_that_are_told_at_any_moment(isolated: str, planner: str) -> None:
    """Rows have their answers, and the one at which a segment was told may have none."""
    named = {
        call: f"id || ' ' || ({f'length({call}::text) > 0' if 'profile' in call else call})::text"
        for call in CALLS
    }
    with fresh(isolated, planner) as db:
        right = {
            call: {None, *(row[0] for row in rows(db, f"SELECT {named[call]} FROM images"))} for call in CALLS
        }
    scripts = [
        Script(
            (*(statement.format(call=call) for statement in before), telling(named[call], SOON)), right[call]
        )
        for call, before in drawn(CALLS, BEFORE)
    ]
    assert problems(isolated, planner, scripts) == []


@pytest.mark.parametrize("planner", PLANNERS)
def test_jobs_whose_condition_scores(isolated: str, planner: str) -> None:
    """EXISTS is over at the first row, in each statement and session of a job; each row is scored once all the same."""
    dsn = make_dsn(isolated, options=f"-c optimizer={PLANNERS[planner]}")
    where = "EXISTS (SELECT FROM images i WHERE (dbinfer.predict(i.img, 'constant'))[1] = 7)"
    options = ScoreOptions(model="colours", batch=20, where=where)
    query = "SELECT count(*), count(DISTINCT id), count(score) FROM early"
    with busy():
        for _ in range(JOBS):
            with fresh(isolated, planner) as db:
                rows(db, "DROP TABLE IF EXISTS early, early_errors")
                report = score("images", "early", options, dsn)
                assert (report.rows, report.errors, report.nulls) == (60, 0, 0)
                assert rows(db, query) == [(60, 60, 60)]
