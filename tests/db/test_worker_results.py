"""What workers write is what the server writes, bit by bit; through a pooler, on request, with a job's options."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, rows
from bare_server import bare_server, on_cluster
from common_folders import common_folder
from copies import POOLER, SBIN
from psycopg2.extensions import make_dsn, parse_dsn
from variants import wide
from workers import DAMAGED, another_role, kill, make_digits, start, stored, tables_only, until

import dbinfer
from dbinfer.base.errors import DataError
from dbinfer.score.options import FUNCTIONS
from dbinfer.score.shared import ending_with
from dbinfer.server import cluster
from dbinfer.server.account import server_account

ROWS = 600
IMAGE = tiny_models.file(tiny_models.picture(200, 10, 10))
# A model of each task, and the functions that workers score with it
MODELS = {
    "colours": ("classify", "classify_top", "classify_all", "predict", "predict_tensor"),
    "redness": ("segment",),
    "vector": ("embed",),
    "redbox": ("detect", "instances"),
    "lines": ("find_text",),
    "letters": ("read_line",),
}
MAIN = [("colours", "classify")]
FURTHER = [
    (model, each) for model, functions in MODELS.items() for each in functions if (model, each) not in MAIN
]


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    with bare_server() as dsn:
        yield dsn


@pytest.fixture(scope="module")
def irs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("irs")
    made = (tiny_models.colour_classifier, tiny_models.red_mask, tiny_models.colour_embedding)
    texts = (tiny_models.red_box, tiny_models.dark_lines, tiny_models.colour_reader)
    return [make(folder) for make in (*made, *texts)]


@pytest.fixture(scope="module")
def tables(bare: str, irs: list[Path]) -> Iterator[str]:
    with tables_only(bare) as dsn:
        for ir in irs:
            dbinfer.deploy(ir, dsn=dsn)
        make_digits(dsn, ROWS)
        yield dsn


@pytest.fixture(scope="module")
def full(dsn: str, irs: list[Path]) -> str:
    """The same in a database that scores by itself."""
    for ir in irs:
        dbinfer.deploy(ir, dsn=dsn)
    make_digits(dsn, ROWS)
    return dsn


def results(dsn: str, table: str) -> list[tuple[object, ...]]:
    """Return the rows with every column but the moment, each as the server writes it out."""
    with closing(psycopg2.connect(dsn)) as db:
        rows(db, "SET extra_float_digits = 3")
        return [
            rows(db, f"SELECT (to_jsonb(t) - %s)::text FROM {name} t ORDER BY id", moment)
            for name, moment in ((table, "scored_at"), (table + "_errors", "at"))
        ]


@pytest.mark.parametrize(
    ("model", "function"),
    [*MAIN, *wide(*FURTHER)],
)
def test_equal_bit_by_bit(tables: str, full: str, model: str, function: str) -> None:
    options = dbinfer.ScoreOptions(model=model, function=function, top=2)
    reports = [dbinfer.score("digits", f"of_{function}", options, dsn) for dsn in (tables, full)]
    bad = len(range(7, ROWS + 1, DAMAGED))
    assert [(one.rows, one.errors, one.state) for one in reports] == [(ROWS - bad, bad, "done")] * 2
    assert results(tables, f"of_{function}") == results(full, f"of_{function}")


def test_workers_know_all_functions_but_two(tables: str) -> None:
    known = {name for name, function in FUNCTIONS.items() if function.word}
    assert set(FUNCTIONS) - known == {"image_info", "profile"}
    assert known == {function for functions in MODELS.values() for function in functions}


@pytest.mark.wide
def test_a_uuid_as_key_loses_no_row(tables: str) -> None:
    """Greenplum 7 sorts uuids otherwise than it compares them, so a merge join would: docs/how-to/greenplum.md."""
    with closing(psycopg2.connect(tables)) as db, db:
        rows(db, "CREATE TABLE coded (k uuid PRIMARY KEY, img bytea)")
        rows(db, "INSERT INTO coded SELECT md5(id::text)::uuid, img FROM digits")
        rows(db, "INSERT INTO coded SELECT md5(id || 'again')::uuid, img FROM digits")
    merging = make_dsn(tables, options="-c enable_hashjoin=off")
    options = dbinfer.ScoreOptions(model="colours", key="k", batch=200)
    report = dbinfer.score("coded", "of_coded", options, merging)
    bad = 2 * len(range(7, ROWS + 1, DAMAGED))
    assert (report.rows, report.errors, report.state) == (2 * ROWS - bad, bad, "done")
    assert dbinfer.score("coded", "of_coded", options, merging).rows == 0
    assert dbinfer.worker("coded", "of_coded", options, dbinfer.WorkerOptions(), merging).rows == 0


@pytest.mark.in_backends("the engine has no part of a model to count")
@pytest.mark.wide
def test_a_worker_of_an_administrator_scores_beside_a_server_that_can(full: str) -> None:
    dbinfer.score("digits", "served", dbinfer.ScoreOptions(model="colours"), full)
    found = dbinfer.worker("digits", "worked", scoring=dbinfer.ScoreOptions(model="colours"), dsn=full)
    assert (found.rows + found.errors, found.state) == (ROWS, "done")
    assert results(full, "served") == results(full, "worked")


def test_where_the_server_scores_a_grant_shows_nobody_the_files(full: str) -> None:
    with closing(psycopg2.connect(full)) as db:
        db.autocommit = True
        rows(db, "CREATE ROLE curious")
        try:
            rows(db, "SET ROLE curious")
            said = refused(
                db, "42501", "SELECT dbinfer._model_files('colours', dbinfer._ask('dbinfer worker'))"
            )
            assert said.message_primary == 'permission denied for the files of model "colours"'
            refused(db, "42501", "SELECT dbinfer._model_files('colours', NULL)")
        finally:
            rows(db, "RESET ROLE")
            rows(db, "DROP ROLE curious")


@pytest.mark.wide
def test_options_of_a_job(tables: str) -> None:
    only = dbinfer.ScoreOptions(model="colours", where="id % 2 = 0", on_error="null", batch=50)
    report = dbinfer.score("digits", "even", only, tables)
    assert (report.rows, report.errors) == (ROWS // 2, 0)
    with pytest.raises(DataError, match="the PNG image is cut off"):
        dbinfer.score("digits", "strict", dbinfer.ScoreOptions(model="colours", on_error="error"), tables)
    with pytest.raises(DataError, match="more than --max-errors 1"):
        dbinfer.score(
            "digits", "few_bad", dbinfer.ScoreOptions(model="colours", max_errors=1, batch=20), tables
        )
    assert {job["state"] for job in dbinfer.jobs(2, tables).jobs} == {"failed"}
    with closing(psycopg2.connect(tables)) as db, db:
        rows(db, "UPDATE digits SET img = (SELECT img FROM digits WHERE id = 1) WHERE id = 207")
    again = dbinfer.ScoreOptions(model="colours", retry_errors=True)
    first = dbinfer.score("digits", "retried", dbinfer.ScoreOptions(model="colours"), tables)
    with closing(psycopg2.connect(tables)) as db, db:
        rows(db, "UPDATE digits SET img = (SELECT img FROM digits WHERE id = 1) WHERE id = 407")
    second = dbinfer.score("digits", "retried", again, tables)
    assert (first.errors, second.rows, second.errors) == (2, 1, 1)


@pytest.mark.wide
def test_a_key_of_two_columns_and_texts_that_need_care(tables: str) -> None:
    odd = ['a"b', "c\\d", "{e,f}", "NULL", "", "g'h", "i%j", "ü\n"]
    with closing(psycopg2.connect(tables)) as db, db:
        rows(db, 'CREATE TABLE odd (shop text, "no %" integer, img bytea, PRIMARY KEY (shop, "no %"))')
        for number, text in enumerate(odd):
            rows(db, "INSERT INTO odd VALUES (%s, %s, %s)", text, number, psycopg2.Binary(IMAGE))
    report = dbinfer.score("odd", "of_odd", dbinfer.ScoreOptions(key='shop,"no %"', batch=3), tables)
    assert report.rows == len(odd)
    with closing(psycopg2.connect(tables)) as db:
        assert {row[0] for row in rows(db, "SELECT shop FROM of_odd WHERE label = 'red'")} == set(odd)


def test_watching_and_cancelling(tables: str) -> None:
    with closing(psycopg2.connect(tables)) as db:
        db.autocommit = True
        rows(db, "CREATE TABLE fresh (id bigint PRIMARY KEY, img bytea)")
        worker = start(
            tables, "--table", "fresh", "--into", "of_fresh", "--model", "colours", "--watch", "0.2"
        )
        for number in range(2):
            rows(db, "INSERT INTO fresh VALUES (%s, %s)", number, psycopg2.Binary(IMAGE))
            until(lambda n=number: stored(tables, "of_fresh") == n + 1, "the new row is scored")  # type: ignore[misc]
        rows(db, "DELETE FROM fresh")
        (job,) = (one for one in dbinfer.jobs(dsn=tables).jobs if one["target"].endswith(".of_fresh"))
        assert job["state"] == "running"
        dbinfer.cancel_job(job["id"], tables)
        said = worker.communicate(timeout=60)[0]
        assert worker.returncode == 1, said
        assert ask(db, "SELECT state FROM dbinfer.jobs WHERE id = %s", job["id"]) == "cancelled"


@pytest.mark.wide
def test_usage_is_counted(tables: str) -> None:
    with closing(psycopg2.connect(tables)) as db:
        db.autocommit = True
        rows(db, "SELECT dbinfer.set_setting('usage', 'on')")
        dbinfer.score("digits", "counted", dbinfer.ScoreOptions(model="redness"), tables)
        assert ask(db, "SELECT rows FROM dbinfer.usage WHERE model = 'redness'") == ROWS
        rows(db, "SELECT dbinfer.set_setting('usage', 'off')")


JOB = ("--table", "digits", "--model", "colours", "--batch", "20", "--lease", "2")
HINDER = "DELETE FROM {0}; ALTER TABLE {0} ADD CONSTRAINT nothing CHECK (id IS NULL) NOT VALID"


def kill_a_job(dsn: str, table: str, *words: str) -> None:
    """Leave a job that a worker has begun."""
    begun = start(dsn, *JOB, "--into", table, *words)
    until(lambda: stored(dsn, table) > 0, "it scores")
    kill(begun)


@pytest.mark.wide
@pytest.mark.parametrize("command", [dbinfer.score, *wide(dbinfer.worker)])
def test_an_error_of_the_worker_ends_its_job(tables: str, command: Callable[..., object]) -> None:
    few = dbinfer.ScoreOptions(model="colours", where="id <= 20")
    with closing(psycopg2.connect(tables)) as db:
        db.autocommit = True
        command("digits", "barred", few, dsn=tables)
        rows(db, HINDER.format("barred"))
        with pytest.raises(DataError, match="violates check constraint"):
            command("digits", "barred", few, dsn=tables)
        (failed,) = dbinfer.jobs(1, tables).jobs
        assert (failed["state"], "violates check constraint" in failed["last_error"]) == ("failed", True)
        rows(db, "ALTER TABLE barred DROP CONSTRAINT nothing")
        command("digits", "barred", few, dsn=tables)
        assert stored(tables, "barred") == 20
        (done,) = dbinfer.jobs(1, tables).jobs
        assert (done["state"], done["id"] > failed["id"]) == ("done", True)
        rows(db, "DROP TABLE barred, barred_errors")


@pytest.mark.wide
def test_an_error_of_who_has_joined_ends_the_job_once_it_is_lost(tables: str) -> None:
    kill_a_job(tables, "joined", "--watch", "0.2")
    with closing(psycopg2.connect(tables)) as db:
        db.autocommit = True
        rows(db, HINDER.format("joined"))
        for state in ("running", "failed"):
            with pytest.raises(DataError, match="violates check constraint"):
                dbinfer.score("digits", "joined", dbinfer.ScoreOptions(model="colours"), tables)
            (job,) = (one for one in dbinfer.jobs(dsn=tables).jobs if one["target"].endswith(".joined"))
            assert job["state"] == state
            # nobody has worked on it for a while
            rows(db, "UPDATE dbinfer_private.job SET updated_at = updated_at - interval '1 minute'")


@pytest.mark.wide
def test_who_waits_for_a_job_is_told_why_it_has_failed(tables: str) -> None:
    watching = dbinfer.ScoreOptions(model="colours", watch=0.2)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(dbinfer.score, "digits", "awaited", watching, tables)
        until(lambda: stored(tables, "awaited") == ROWS, "it scores")
        (job,) = (one["id"] for one in dbinfer.jobs(dsn=tables).jobs if one["target"].endswith(".awaited"))
        with pytest.raises(DataError, match="no space left"), ending_with(job, tables):
            raise DataError("there is no space left")
        assert str(waiting.exception(60)) == "there is no space left"


@pytest.mark.wide
def test_a_job_that_cannot_be_written_stops_no_other(tables: str) -> None:
    with closing(psycopg2.connect(tables)) as db:
        db.autocommit = True
        kill_a_job(tables, "hindered", "--watch", "0.2")
        rows(db, HINDER.format("hindered"))
        kill_a_job(tables, "unhindered")
        # a step of each, the older one first
        worker = start(tables, "--concurrency", "1", "--lease", "2")
        until(lambda: stored(tables, "unhindered") == ROWS, "the other job is done")
        (number,) = (
            one["id"] for one in dbinfer.jobs(dsn=tables).jobs if one["target"].endswith(".hindered")
        )
        dbinfer.cancel_job(number, tables)
        assert worker.poll() is None
        worker.terminate()
        worker.communicate(timeout=60)


@pytest.fixture(scope="module")
def service(tables: str) -> Iterator[str]:
    """A worker for whatever comes, with the rights of the tables' owner."""
    worker = start(tables, "--concurrency", "1")
    yield tables
    worker.terminate()
    worker.communicate(timeout=60)


def asked(dsn: str, *arguments: object) -> str | None:
    """Ask for one row and wait for the answer, as an application does."""
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        holes = ", ".join(["%s"] * len(arguments))
        number = ask(db, f"SELECT dbinfer.request({holes})", *arguments)
        found: str | None = ask(db, "SELECT dbinfer.answer(%s, 60)", number)
        return found


def test_one_row_on_request(bare: str, service: str) -> None:
    img = psycopg2.Binary(IMAGE)
    assert (asked(service, img, "colours") or "").startswith("(0,")
    assert (asked(service, img, "colours", "classify_top") or "").startswith("{")
    assert (asked(service, img, "redness") or "").startswith("\\x89504e47")
    with another_role(bare, service) as other:
        # an owner's worker answers everybody who may use the model
        assert asked(other, img, "colours") == asked(service, img, "colours")
    with closing(psycopg2.connect(service)) as db:
        db.autocommit = True
        number = ask(db, "SELECT dbinfer.request(%s)", psycopg2.Binary(b"no image"))
        assert "not an image" in str(
            refused(db, "22P03", "SELECT dbinfer.answer(%s, 60)", number).message_primary
        )
        number = ask(db, "SELECT dbinfer.request(%s, NULL, 'nothing')", img)
        said = refused(db, "22P03", "SELECT dbinfer.answer(%s, 60)", number).message_primary
        assert "there is no function nothing()" in str(said)
        if not on_cluster():  # where a row does not say which transaction has written it
            refused(db, "55000", "SELECT dbinfer.answer(dbinfer.request(%s))", img)
        refused(db, "42704", "SELECT dbinfer.answer(0)")
        assert ask(db, "SELECT dbinfer.request(NULL)") is None
        assert ask(db, "SELECT dbinfer.answer(NULL)") is None
        with another_role(bare, service) as other, closing(psycopg2.connect(other)) as theirs:
            theirs.autocommit = True
            refused(theirs, "42704", "SELECT dbinfer.answer(%s, 0)", number)


@pytest.mark.wide
def test_a_model_that_is_dropped_meanwhile(bare: str, irs: list[Path]) -> None:
    with tables_only(bare) as dsn, closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        dbinfer.deploy(irs[0], dsn=dsn)
        number = ask(db, "SELECT dbinfer.request(%s)", psycopg2.Binary(IMAGE))
        dbinfer.drop("colours", force=True, dsn=dsn)
        worker = start(dsn, "--concurrency", "1")
        said = refused(db, "22P03", "SELECT dbinfer.answer(%s, 60)", number).message_primary
        assert "was dropped before" in str(said)
        worker.terminate()
        worker.communicate(timeout=60)


def test_a_request_is_taken_over_though_the_clock_was_set_back(service: str) -> None:
    """By more than a day: another worker took it until a moment that lies ten years ahead then, and was killed."""
    with closing(psycopg2.connect(service)) as db:
        # in one transaction, before any worker sees it
        number = ask(db, "SELECT dbinfer.request(%s, 'colours')", psycopg2.Binary(IMAGE))
        taken = (
            "UPDATE dbinfer_private.request SET token = %s, until = now() + interval '10 years' WHERE id = %s"
        )
        rows(db, taken, "0" * 32, number)
        db.commit()
        assert ask(db, "SELECT dbinfer.answer(%s, 60)", number).startswith("(0,")


def test_without_a_worker_there_is_no_answer_and_a_bound(bare: str, irs: list[Path]) -> None:
    with tables_only(bare) as dsn, closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        dbinfer.deploy(irs[0], dsn=dsn)
        number = ask(db, "SELECT dbinfer.request(%s)", psycopg2.Binary(IMAGE))
        assert ask(db, "SELECT dbinfer.answer(%s, 0.1)", number) is None
        many = "SELECT dbinfer.request(%s) FROM generate_series(1, 1000)"
        refused(db, "54000", many, psycopg2.Binary(IMAGE))


@contextmanager
def pooler(dsn: str, folder: Path) -> Iterator[str]:
    """Yield the dsn of a pgbouncer in transaction mode with two connections to the server."""
    account, listen, values = server_account(), cluster.free_port(), parse_dsn(dsn)
    account.own_folder(folder, 0o755)
    config = folder / "pgbouncer.ini"
    names = {name: values[name] for name in ("host", "port", "dbname", "user")}
    config.write_text(POOLER.format(**names, password="none", listen=listen, size=2, folder=folder))
    process = subprocess.Popen([shutil.which("pgbouncer", path=SBIN) or "", "-u", account.name, str(config)])
    pooled = make_dsn(host="127.0.0.1", port=listen, dbname="bounced", user="anybody")

    def answers() -> bool:
        try:
            psycopg2.connect(pooled).close()
        except psycopg2.OperationalError:
            return False
        return True

    try:
        until(answers, "the pooler answers")
        yield pooled
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.skipif(shutil.which("pgbouncer", path=SBIN) is None, reason="pgbouncer is not installed")
def test_through_a_pooler(bare: str, irs: list[Path]) -> None:
    """In transaction mode: no transaction finds the session of the last one; requests are heard of by looking."""
    with common_folder("pooler") as folder, tables_only(bare) as dsn, pooler(dsn, folder / "own") as pooled:
        dbinfer.deploy(irs[0], dsn=pooled)
        make_digits(pooled, ROWS)
        report = dbinfer.score("digits", "answers", dbinfer.ScoreOptions(connections=2), pooled)
        assert (report.state, report.rows + report.errors, stored(dsn)) == ("done", ROWS, ROWS)
        worker = start(pooled, "--concurrency", "1")
        try:
            assert (asked(pooled, psycopg2.Binary(IMAGE)) or "").startswith("(0,")
        finally:
            worker.terminate()
            worker.communicate(timeout=60)
