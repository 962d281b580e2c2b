"""Keys of any type that has an order, and what is said where a job cannot begin: nothing half made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from variants import wide

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.platform import detect
from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score

COLOURS = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
IMAGES: list[bytes | None] = [tiny_models.file(tiny_models.picture(*colour)) for colour in COLOURS]


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture(autouse=True)
def images(db: Connection) -> Iterator[None]:
    make_images(db, "images", IMAGES, copies=30)
    yield
    rows(db, "DROP TABLE IF EXISTS keyed, keyed_results, keyed_results_errors CASCADE")
    rows(db, "DROP TABLE IF EXISTS predictions, predictions_errors, images, other CASCADE")


KEYS = {
    "uuid": ("md5(id::text)::uuid", "k uuid"),
    "text": ("'it''s % {' || id", 'k text COLLATE "C"'),
    "varchar": ("'no ' || id", "k varchar(20)"),
    "date": ("date '2020-01-01' + id", "k date"),
    "timestamptz": ("now() + id * interval '1 microsecond'", "k timestamptz"),
    "numeric": ("id / 7.0", "k numeric"),
    "composite": ("row(id % 3, 'a,b(' || id)::place", "k place"),
}


@pytest.mark.parametrize(
    ("kind", "index"),
    [
        ("uuid", True),
        ("text", False),
        *wide(*((kind, True) for kind in KEYS if kind != "uuid"), ("composite", False)),
    ],
)
def test_a_key_of_any_ordered_type(db: Connection, dsn: str, kind: str, index: bool) -> None:
    if kind == "composite" and detect(db).mpp:
        pytest.skip("Greenplum cannot spread rows by a composite type")
    value, column = KEYS[kind]
    rows(db, "DROP TYPE IF EXISTS place CASCADE; CREATE TYPE place AS (shelf integer, box text)")
    rows(db, f"CREATE TABLE keyed ({column}{' PRIMARY KEY' if index else ''}, img bytea)")
    rows(db, f"INSERT INTO keyed SELECT {value}, img FROM images")
    rows(db, "UPDATE keyed SET img = 'bad' WHERE k = (SELECT k FROM keyed ORDER BY k OFFSET 44 LIMIT 1)")
    report = score("keyed", "keyed_results", ScoreOptions(key="k", batch=16), dsn)
    assert (report.rows, report.errors) == (89, 1)
    joined = "SELECT count(*), count(DISTINCT k.k) FROM keyed k JOIN keyed_results r ON r.k = k.k"
    assert rows(db, joined) == [(89, 89)]
    assert ask(db, "SELECT count(*) FROM keyed k JOIN keyed_results_errors r ON r.k = k.k") == 1
    assert score("keyed", "keyed_results", ScoreOptions(key="k"), dsn).rows == 0


def test_a_key_of_several_columns(db: Connection, dsn: str) -> None:
    rows(db, 'CREATE TABLE keyed ("Shop" integer, number text, img bytea, PRIMARY KEY ("Shop", number))')
    rows(db, "INSERT INTO keyed SELECT id % 7, 'n' || id / 7, img FROM images")
    rows(db, "UPDATE keyed SET img = 'bad' WHERE \"Shop\" = 3 AND number = 'n2'")
    report = score("keyed", "keyed_results", ScoreOptions(key='"Shop", number', batch=16), dsn)
    assert (report.rows, report.errors) == (89, 1)
    assert rows(db, 'SELECT "Shop", number FROM keyed_results_errors') == [(3, "n2")]
    assert score("keyed", "keyed_results", ScoreOptions(key='"Shop",number'), dsn).rows == 0


def test_a_view_of_images(db: Connection, dsn: str) -> None:
    rows(db, "CREATE VIEW keyed_view AS SELECT id AS k, img AS photo FROM images WHERE id < 50")
    assert score("keyed_view", "keyed_results", ScoreOptions(key="k", column="photo"), dsn).rows == 50


@pytest.mark.parametrize(
    ("change", "call", "error", "message"),
    [
        ("", {"options": ScoreOptions(key="nothing")}, DataError, "no column 'nothing'"),
        ("", {"options": ScoreOptions(column="nothing")}, DataError, "no column 'nothing' with images"),
        ("", {"table": "nowhere"}, DataError, "public.nowhere does not exist"),
        ("INSERT INTO images VALUES (5, NULL)", {}, DataError, "not unique: 5 is in 2 rows"),
        ("INSERT INTO images VALUES (NULL, NULL)", {}, DataError, "1 rows of public.images have no key"),
        ("ALTER TABLE images ADD j json", {"options": ScoreOptions(key="j")}, DataError, "has no order"),
        (
            "ALTER TABLE images ADD label int",
            {"options": ScoreOptions(key="label")},
            DataError,
            "the name of",
        ),
        ("", {"options": ScoreOptions(model="unknown")}, DataError, 'model "unknown" does not exist'),
        ("", {"options": ScoreOptions(model="colours@9")}, DataError, "colours"),
        ("", {"options": ScoreOptions(function="segment")}, DataError, "colours"),
        ("", {"predictions": "images"}, UsageError, "table of images"),
        ("CREATE VIEW other AS SELECT 1 AS x", {"predictions": "other"}, DataError, "not a table"),
        ("CREATE TABLE other (id int)", {"predictions": "other"}, DataError, "no job has made it"),
        ("", {"options": ScoreOptions(where="nonsense =")}, DataError, "syntax error"),
        ("", {"options": ScoreOptions(retry_errors=True, atomic=True)}, UsageError, "retry_errors"),
        ("", {"options": ScoreOptions(batch=0)}, UsageError, "batch is 0"),
        ("", {"options": ScoreOptions(max_errors=-1)}, UsageError, "max_errors is -1"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_makes_nothing(
    db: Connection, dsn: str, change: str, call: dict[str, Any], error: type[Exception], message: str
) -> None:
    rows(db, change or "SELECT 1")
    before = ask(db, "SELECT count(*) FROM dbinfer.jobs")
    try:
        with pytest.raises(error, match=message) as caught:
            score(**call, dsn=dsn)
        assert "\n" not in getattr(caught.value, "message")  # noqa: B009 - mypy knows no Exception.message
        assert ask(db, "SELECT to_regclass('predictions')") is None
        assert ask(db, "SELECT count(*) FROM dbinfer.jobs") == before
    finally:
        rows(db, "DROP VIEW IF EXISTS other" if "VIEW" in change else "SELECT 1")


def test_a_table_of_another_shape(db: Connection, dsn: str) -> None:
    score(options=ScoreOptions(where="id < 3"), dsn=dsn)
    with pytest.raises(DataError, match="another shape: this job needs a column prediction"):
        score(options=ScoreOptions(function="predict"), dsn=dsn)
    rows(db, "ALTER TABLE predictions DROP CONSTRAINT predictions_pkey")
    with pytest.raises(DataError, match="no unique index"):
        score(dsn=dsn)


def test_a_table_of_0_1_0_is_completed_in_the_old_way(db: Connection, dsn: str) -> None:
    score(options=ScoreOptions(where="id < 3", atomic=True), dsn=dsn)
    assert ask(db, "SELECT count(*) FROM predictions") == 3
    report = score(options=ScoreOptions(append=True), dsn=dsn)
    assert (report.rows, report.version, report.job) == (87, None, None)


def test_too_many_bad_rows_stop_the_job_with_a_summary(db: Connection, dsn: str) -> None:
    rows(db, "UPDATE images SET img = 'bad' WHERE id % 2 = 0")
    with pytest.raises(DataError, match="11 rows are bad, more than --max-errors 10") as caught:
        score(options=ScoreOptions(max_errors=10, connections=1), dsn=dsn)
    assert "predictions_errors" in caught.value.hint
    state = "SELECT state, errors, last_error FROM dbinfer.jobs ORDER BY id DESC LIMIT 1"
    assert re.search("the last one: row [0-9]+: not an image", caught.value.message)
    assert rows(db, state)[0][:2] == ("failed", 11)
    with pytest.raises(DataError, match=r"^row [0-9]+: not an image"):
        score(options=ScoreOptions(on_error="error"), dsn=dsn)
    assert rows(db, "SELECT reason FROM predictions_errors WHERE reason LIKE 'row%%'") == []
    assert score(options=ScoreOptions(on_error="null"), dsn=dsn).nulls > 0
    assert (
        ask(db, "SELECT count(*) FROM predictions") + ask(db, "SELECT count(*) FROM predictions_errors") == 90
    )


@pytest.mark.postgres_only("read-only by default")
def test_a_server_that_takes_no_changes(dsn: str) -> None:
    with pytest.raises(DataError, match="takes no changes: default_transaction_read_only"):
        score(dsn=make_dsn(dsn, options="-c default_transaction_read_only=on"))


@pytest.mark.postgres_only("limits a role's connections")
def test_no_free_connection(db: Connection, dsn: str) -> None:
    rows(db, "CREATE ROLE few_connections LOGIN PASSWORD 'few' CONNECTION LIMIT 2")
    rows(db, "GRANT CREATE ON SCHEMA public TO few_connections")
    try:
        with pytest.raises(DataError, match="no free connection for this job, which needs three"):
            score(dsn=make_dsn(dsn, user="few_connections", password="few"))
    finally:
        rows(db, "DROP OWNED BY few_connections; DROP ROLE few_connections")


def test_a_role_without_rights(db: Connection, dsn: str) -> None:
    rows(db, "REVOKE ALL ON images FROM PUBLIC")
    with closing(psycopg2.connect(dsn)) as admin:
        admin.autocommit = True
        with role(admin) as name, pytest.raises(DataError, match="permission denied"):
            score(dsn=make_dsn(dsn, options=f"-c role={name}"))


def test_rows_that_went_or_changed_meanwhile_are_told(db: Connection, dsn: str) -> None:
    score(dsn=dsn)
    rows(db, "DELETE FROM images WHERE id < 5")
    rows(db, "UPDATE images SET img = NULL WHERE id IN (7, 8)")
    report = score(dsn=dsn)
    changed = 0 if ask(db, "SELECT version() ~ 'Greenplum'") else 2
    assert (report.rows, report.gone, report.changed) == (0, 5, changed)
