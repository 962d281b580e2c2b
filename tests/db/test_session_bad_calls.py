"""Calls with wrong arguments: one clear sentence with SQLSTATE and HINT each."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import RegistryError, ServerError
from dbinfer.models import deploy, models

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))


@pytest.fixture(scope="module", autouse=True)
def deployed(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        diag = refused(connection, "42704", "SELECT dbinfer.predict(%s)", IMAGE)
        assert diag.message_primary == "no model is deployed yet"
        assert "dbinfer deploy" in (diag.message_hint or "")
        diag = refused(connection, "42704", "SELECT dbinfer.predict(%s, 'x')", IMAGE)
        assert diag.message_primary == 'model "x" does not exist'
        assert "dbinfer deploy" in (diag.message_hint or "")
        assert ask(connection, "SELECT (dbinfer.image_info(%s)).format", IMAGE) == "PNG"
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder, "colours"), dsn=dsn)
    deploy(tiny_models.red_mask(folder, "redness"), dsn=dsn)
    deploy(tiny_models.colour_embedding(folder, "vector"), dsn=dsn)
    deploy(tiny_models.constant(folder, 1, "numbers"), dsn=dsn)


def test_a_model_of_another_task(db: Connection, subtests: pytest.Subtests) -> None:
    for call, task, needed in [
        ("segment(%s, 'colours')", "classification", "segmentation"),
        ("embed(%s, 'colours')", "classification", "embedding"),
        ("classify(%s, 'redness')", "segmentation", "classification"),
        ("classify_top(%s, 3, 'vector')", "embedding", "classification"),
        ("segment(%s, 'numbers')", "tensor", "segmentation"),
        ("classify(%s, 'numbers')", "tensor", "classification"),
    ]:
        with subtests.test(call=call, task=task, needed=needed):
            diag = refused(db, "22023", f"SELECT dbinfer.{call}", IMAGE)
            assert f"is for {task}" in (diag.message_primary or "")
            assert f"needs {needed}" in (diag.message_primary or "")
            assert "dbinfer.models" in (diag.message_hint or "")


def test_a_model_of_another_task_is_no_bad_image(db: Connection) -> None:
    refused(db, "22023", "SELECT dbinfer.segment(%s, 'colours', 'null')", IMAGE)
    refused(db, "42704", "SELECT dbinfer.predict(%s, 'nobody', 'null')", IMAGE)


def test_a_wrong_on_error(db: Connection, subtests: pytest.Subtests) -> None:
    for call, value in itertools.product(
        ["predict(%s, 'colours', {})", "segment(%s, 'redness', {})"], ["NULL", "'ERROR'", "'ignore'", "''"]
    ):
        with subtests.test(call=call, value=value):
            diag = refused(db, "22023", f"SELECT dbinfer.{call.format(value)}", IMAGE)
            assert "must be 'error' or 'null'" in (diag.message_primary or "")


@pytest.mark.parametrize("k", ["0", "-1", "NULL"])
def test_a_wrong_k(db: Connection, k: str) -> None:
    diag = refused(db, "22023", f"SELECT dbinfer.classify_top(%s, {k}, 'colours')", IMAGE)
    assert "must be at least 1" in (diag.message_primary or "")
    refused(db, "22023", f"SELECT dbinfer.classify_top(%s, {k}, 'colours', 'null')", IMAGE)


def test_an_unknown_model_names_those_that_exist(db: Connection) -> None:
    diag = refused(db, "42704", "SELECT dbinfer.predict(%s, 'colors')", IMAGE)
    assert diag.message_primary == 'model "colors" does not exist'
    assert diag.message_hint == "Deployed models: colours, numbers, redness, vector."


def test_an_unknown_version(db: Connection, subtests: pytest.Subtests) -> None:
    for suffix in ["2", "0", "999999999", "99999999999999", "production", "-1", "1.5", " 1"]:
        with subtests.test(suffix=suffix):
            diag = refused(db, "42704", "SELECT dbinfer.predict(%s, %s)", IMAGE, f"colours@{suffix}")
            assert diag.message_primary == f'model "colours" has no version or alias "{suffix}"'
            assert diag.message_hint == "Versions: colours@1."


def test_odd_names(db: Connection, subtests: pytest.Subtests) -> None:
    for name in ["'; DROP TABLE x; --", "%s", "é", "a" * 5000, "colours\\", '"colours"']:
        with subtests.test(name=name):
            diag = refused(db, "42704", "SELECT dbinfer.predict(%s, %s)", IMAGE, name)
            assert name[:40] in (diag.message_primary or "")


@pytest.mark.wide
def test_two_hundred_failing_statements_leave_the_session_well(db: Connection) -> None:
    for number in range(200):
        with db.cursor() as cursor, pytest.raises(psycopg2.Error):
            cursor.execute("SELECT dbinfer.predict(%s, %s)", (IMAGE, f"nobody{number}"))
    assert ask(db, "SELECT dbinfer.predict(%s, 'colours')", IMAGE) == pytest.approx([200, 30, 10])


def test_many_models_in_one_transaction(db: Connection) -> None:
    with db.cursor() as cursor:
        cursor.execute("BEGIN")
        for _ in range(300):
            cursor.execute("SELECT dbinfer.predict(%s, 'colours')", (IMAGE,))
        cursor.execute("SELECT (dbinfer.predict(%s, 'colours@1'))[1]", (IMAGE,))
        assert cursor.fetchone() == (200.0,)
        cursor.execute("COMMIT")


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="cannot connect"):
        models("host=127.0.0.1 port=1 user=nobody connect_timeout=2")
    with pytest.raises(ServerError, match="cannot parse the connection string"):
        models("this is no dsn")
    with pytest.raises(ServerError, match="cannot connect"):
        models(f"host={tmp_path} user=nobody")


def test_a_database_without_dbinfer(server_dsn: str) -> None:
    with pytest.raises(RegistryError, match="not installed"):
        models(psycopg2.extensions.make_dsn(server_dsn, dbname="template1"))
