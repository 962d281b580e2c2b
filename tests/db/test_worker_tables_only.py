"""dbinfer without PL/Python and superuser: what is there, what says so, whose rights count, what comes later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, rows
from bare_server import bare_server, on_cluster
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn, parse_dsn
from typer.testing import CliRunner
from workers import another_role, as_superuser, shop, tables_only

import dbinfer
from dbinfer.base.errors import DataError, InstallError
from dbinfer.cli.app import app
from dbinfer.install import InstallOptions, install

IMAGE = tiny_models.file(tiny_models.picture(200, 10, 10))
WAY_OUT = "dbinfer worker"


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    with bare_server() as dsn:
        yield dsn


@pytest.fixture(scope="module")
def tables(bare: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with two models, one of them nobody's yet."""
    with tables_only(bare) as dsn:
        folder = tmp_path_factory.mktemp("irs")
        dbinfer.deploy(tiny_models.colour_classifier(folder), dsn=dsn)
        dbinfer.deploy(tiny_models.constant(folder, 7), dbinfer.DeployOptions(private=True), dsn=dsn)
        yield dsn


@pytest.fixture
def db(tables: str) -> Iterator[Connection]:
    with closing(psycopg2.connect(tables)) as connection:
        connection.autocommit = True
        yield connection


def test_it_needs_the_right_to_create_schemas_and_nothing_else(tables: str, db: Connection) -> None:
    role = rows(db, "SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user")
    assert role == [(False, False, False)]
    assert ask(db, "SELECT count(*) FROM pg_language WHERE lanname = 'plpython3u'") == 0
    if not on_cluster():  # which others share
        assert ask(db, "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'dbinfer%%'") == 0
    assert [check.name for check in dbinfer.doctor(dsn=tables).checks if not check.ok] == []
    assert not dbinfer.upgrade(dsn=tables).changed
    assert not install(InstallOptions(tables_only=True), tables).changed


def test_registry_and_commands_work_as_anywhere(tables: str, db: Connection) -> None:
    assert [one["name"] for one in dbinfer.models(tables).models] == ["colours", "constant"]
    dbinfer.alias("colours@1", "best", dsn=tables)
    dbinfer.activate("colours@1", tables)
    assert dbinfer.jobs(dsn=tables).jobs == ()
    assert {one["rows"] for one in dbinfer.usage(dsn=tables).usage} == {0}
    assert ask(db, "SELECT name FROM dbinfer.models WHERE is_default") == "colours"
    rows(db, "SELECT dbinfer.set_setting('max_image_scans', '300')")


def test_deploy_says_what_works_there(tables: str, tmp_path: Path) -> None:
    ir = tiny_models.constant(tmp_path, 8, "scored")
    said = CliRunner().invoke(app, ["deploy", str(ir), "--dsn", tables]).output.splitlines()
    assert said[-1] == "  try: dbinfer score --table images --model scored"
    asked = ["deploy", "cascade:colours+colours", "--sure", "99", "--name", "twice", "--dsn", tables]
    assert "deployed twice@1 (classification, " in CliRunner().invoke(app, asked).output
    for name in ("scored", "twice"):
        dbinfer.drop(name, force=True, dsn=tables)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT dbinfer.classify(%s, 'colours')",
        "SELECT dbinfer.image_info(%s)",
        "SELECT dbinfer.problem(%s)",
        "SELECT count(*) FROM dbinfer.segments WHERE %s IS NOT NULL",
    ],
)
def test_what_cannot_be_there_says_the_way_out(db: Connection, query: str) -> None:
    said = refused(db, "0A000", query, psycopg2.Binary(IMAGE))
    # a cluster adds the segment
    message = "this database scores by workers, not in its own processes"
    assert str(said.message_primary).startswith(message)
    assert said.message_hint is not None
    assert WAY_OUT in said.message_hint


def test_a_note_is_its_role_s_alone_and_of_its_transaction(bare: str, tables: str, db: Connection) -> None:
    """What stands in for the process's memory where there is no PL/Python."""
    with another_role(bare, tables) as other, closing(psycopg2.connect(other)) as theirs:
        theirs.autocommit = True
        own = ask(db, "SELECT note FROM dbinfer._asker")
        # in another session, and in another transaction of the same one
        for session in (theirs, db):
            refused(session, "42501", "SELECT dbinfer._shared_jobs(%s)", own)
        refused(theirs, "42501", "SELECT secret FROM dbinfer_private.asking")
        # a function of another role acts as that role, whoever calls it
        name = ask(theirs, "SELECT current_user")
        rows(
            theirs,
            f"CREATE FUNCTION {name}.mine() RETURNS text LANGUAGE sql SECURITY DEFINER AS "
            "$$ SELECT dbinfer._model_files('constant', dbinfer._ask('dbinfer worker')) $$",
        )
        rows(theirs, f"GRANT USAGE ON SCHEMA {name} TO PUBLIC")
        refused(db, "42501", f"SELECT {name}.mine()")


def test_grants_decide_who_may_have_a_model(bare: str, tables: str) -> None:
    with another_role(bare, tables) as other, closing(psycopg2.connect(other)) as theirs:
        theirs.autocommit = True
        files = "SELECT dbinfer._model_files(%s, dbinfer._ask('dbinfer worker'))"
        assert ask(theirs, files, "colours") is not None
        refused(theirs, "42501", files, "constant")
        refused(theirs, "42501", "SELECT dbinfer.request(%s, 'constant')", psycopg2.Binary(IMAGE))
        rows(theirs, "CREATE TABLE scans AS SELECT 1 AS id, %s::bytea AS img", psycopg2.Binary(IMAGE))
        with pytest.raises(DataError, match='permission denied for model "constant"'):
            dbinfer.score("scans", "found", dbinfer.ScoreOptions(model="constant"), other)
        with pytest.raises(Exception, match="permission denied"):
            dbinfer.activate("colours@1", other)
        dbinfer.grant("constant", parse_dsn(other)["user"], tables)
        assert dbinfer.score("scans", "found", dbinfer.ScoreOptions(model="constant"), other).rows == 1
        # nobody works for another role's jobs: they run what that role wrote
        with closing(psycopg2.connect(tables)) as owner:
            assert rows(owner, "SELECT dbinfer._shared_jobs(dbinfer._ask('dbinfer worker'))") == []
            assert ask(owner, "SELECT count(*) FROM dbinfer.jobs WHERE state = 'done'") >= 1
        dbinfer.revoke("constant", parse_dsn(other)["user"], tables)


def test_what_needs_a_server_that_scores_is_refused_in_a_sentence(tables: str, db: Connection) -> None:
    rows(
        db, "CREATE TABLE few AS SELECT 1 AS id, %s::bytea AS img, 'x'::text AS path", psycopg2.Binary(IMAGE)
    )
    for options, words in (
        (dbinfer.ScoreOptions(atomic=True), "no table at once"),
        (dbinfer.ScoreOptions(function="image_info"), "within a server alone"),
        (dbinfer.ScoreOptions(column="id"), "images are bytea"),
        (dbinfer.ScoreOptions(model="nothing"), 'model "nothing" does not exist'),
    ):
        with pytest.raises(DataError, match=words):
            dbinfer.score("few", "found_few", options, tables)


def test_without_the_right_to_create_schemas_it_says_which(bare: str) -> None:
    with shop(bare) as dsn:
        values = parse_dsn(dsn)
        as_superuser(bare, f"REVOKE CREATE ON DATABASE {values['dbname']} FROM {values['user']}")
        with pytest.raises(InstallError, match="may not create schemas") as caught:
            install(InstallOptions(tables_only=True), dsn)
        assert f"GRANT CREATE ON DATABASE {values['dbname']} TO {values['user']}" in caught.value.hint
        with pytest.raises(InstallError) as caught:
            install(dsn=dsn)
        assert "--tables-only" in caught.value.hint


def test_only_the_owner_upgrades_and_uninstalls(bare: str) -> None:
    with tables_only(bare) as dsn, another_role(bare, dsn) as other:
        for change in (dbinfer.upgrade, dbinfer.uninstall):
            with pytest.raises(InstallError):
                change(dsn=other)
        dbinfer.uninstall(dsn=dsn)
        with closing(psycopg2.connect(dsn)) as db:
            assert ask(db, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'dbinfer%%'") == 0


@pytest.mark.wide
def test_a_superuser_brings_the_rest_later(empty_dsn: str, venv: Path, tmp_path: Path) -> None:
    """What is deployed and granted stays; from then on the server scores."""
    with closing(psycopg2.connect(empty_dsn)) as db:
        db.autocommit = True
        rows(db, "CREATE ROLE tables_keeper")
        rows(db, f"GRANT CREATE ON DATABASE {parse_dsn(empty_dsn)['dbname']} TO tables_keeper")
        try:
            keeper = make_dsn(empty_dsn, options="-c role=tables_keeper")
            assert install(InstallOptions(tables_only=True), keeper).changed
            dbinfer.deploy(tiny_models.colour_classifier(tmp_path), dsn=keeper)
            assert install(InstallOptions(venv=str(venv)), empty_dsn).changed
            assert not dbinfer.upgrade(dsn=empty_dsn).changed
            assert ask(db, "SELECT (dbinfer.classify(%s)).label", psycopg2.Binary(IMAGE)) == "red"
            assert [check.name for check in dbinfer.doctor(dsn=empty_dsn).checks if not check.ok] == []
            owners = "SELECT count(*) FROM pg_proc p JOIN pg_roles r ON r.oid = proowner AND NOT rolsuper "
            spaces = "JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname LIKE 'dbinfer%%'"
            assert ask(db, owners + spaces) == 0
            dbinfer.uninstall(dsn=empty_dsn)
        finally:
            rows(db, "DROP OWNED BY tables_keeper CASCADE")
            rows(db, "DROP ROLE tables_keeper")
