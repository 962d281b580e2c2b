"""score in one transaction: a table of results beside a table of images, made in one parallel statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from variants import wide

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.platform import detect
from dbinfer.images.load import LoadOptions, load
from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score
from dbinfer.score.scoring import _Job

COLOURS = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
IMAGES: list[bytes | None] = [tiny_models.file(tiny_models.picture(*colour)) for colour in COLOURS]


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for write in (
        tiny_models.colour_classifier,
        tiny_models.red_mask,
        tiny_models.red_box,
        tiny_models.colour_embedding,
        tiny_models.dark_lines,
        tiny_models.colour_reader,
    ):
        deploy(write(folder), dsn=dsn)


@pytest.fixture(autouse=True)
def images(db: Connection) -> Iterator[None]:
    make_images(db, "images", IMAGES)
    yield
    rows(db, "DROP TABLE IF EXISTS predictions, predictions_errors, images CASCADE")


def test_classes_of_all_rows(db: Connection, dsn: str) -> None:
    report = score(options=ScoreOptions(atomic=True), dsn=dsn)
    assert (report.into, report.function, report.rows, report.nulls) == (
        "public.predictions",
        "classify",
        3,
        0,
    )
    found = rows(db, "SELECT * FROM predictions ORDER BY id")
    assert found == [(0, 0, "red", 200), (1, 1, "green", 200), (2, 2, "blue", 200)]


@pytest.mark.parametrize(
    ("function", "model", "column"),
    [
        ("predict", "colours", "prediction"),
        ("segment", "redness", "mask"),
        *wide(
            ("predict_tensor", "colours", "tensor"),
            ("classify_top", "colours", "classes"),
            ("classify_all", "colours", "classes"),
            ("embed", "vector", "embedding"),
            ("instances", "redbox", "instances"),
            ("find_text", "lines", "lines"),
            ("read_line", "letters", "text"),
            ("image_info", None, "width"),
            ("profile", "colours", "microseconds"),
        ),
    ],
)
def test_each_function(db: Connection, dsn: str, function: str, model: str | None, column: str) -> None:
    assert score(options=ScoreOptions(function=function, model=model), dsn=dsn).rows == 3
    assert ask(db, f"SELECT count({column}) FROM predictions") == 3


def test_the_task_of_the_model_chooses_the_function(dsn: str) -> None:
    assert score(options=ScoreOptions(model="redness"), dsn=dsn).function == "segment"


def test_where(db: Connection, dsn: str) -> None:
    score(options=ScoreOptions(where="id > 0 AND '{x} 100%' <> '' -- the last two"), dsn=dsn)
    assert rows(db, "SELECT id FROM predictions ORDER BY id") == [(1,), (2,)]


def test_an_existing_table_is_refused_replaced_or_completed(db: Connection, dsn: str) -> None:
    score(options=ScoreOptions(where="id < 2", atomic=True), dsn=dsn)
    with pytest.raises(DataError, match="exists") as caught:
        score(options=ScoreOptions(atomic=True), dsn=dsn)
    assert "--replace" in caught.value.hint
    rows(db, "UPDATE predictions SET label = 'mine'")
    assert score(options=ScoreOptions(append=True), dsn=dsn).rows == 1
    assert rows(db, "SELECT label FROM predictions ORDER BY id") == [("mine",), ("mine",), ("blue",)]
    assert score(options=ScoreOptions(append=True), dsn=dsn).rows == 0
    assert score(options=ScoreOptions(replace=True), dsn=dsn).rows == 3
    assert rows(db, "SELECT label FROM predictions ORDER BY id") == [("red",), ("green",), ("blue",)]
    assert ask(db, "SELECT count(*) FROM pg_class WHERE relname LIKE 'dbinfer_score%%'") == 0


def test_a_job_goes_on_in_a_table_of_one_transaction(db: Connection, dsn: str) -> None:
    score(options=ScoreOptions(where="id < 2", atomic=True), dsn=dsn)
    assert score(dsn=dsn).rows == 1
    assert rows(db, "SELECT id, model, version FROM predictions ORDER BY 1") == [
        (number, "colours", 1) for number in range(3)
    ]


def test_append_makes_a_missing_table(db: Connection, dsn: str) -> None:
    assert score(options=ScoreOptions(append=True), dsn=dsn).rows == 3
    assert ask(db, "SELECT count(*) FROM predictions") == 3


def test_a_bad_image_stops_or_has_no_result(db: Connection, dsn: str) -> None:
    rows(db, "INSERT INTO images VALUES (3, 'no image')")
    with pytest.raises(DataError, match="not an image") as caught:
        score(options=ScoreOptions(atomic=True), dsn=dsn)
    assert "--on-error null" in caught.value.hint
    assert "=>" not in caught.value.hint, "the words of a shell, not of SQL"
    assert ask(db, "SELECT to_regclass('predictions')") is None
    report = score(options=ScoreOptions(on_error="null", atomic=True), dsn=dsn)
    assert (report.rows, report.nulls) == (4, 1)
    assert rows(db, "SELECT class, label, score FROM predictions WHERE id = 3") == [(None, None, None)]


@pytest.mark.parametrize("atomic", [False, True])
def test_a_column_of_no_images_is_named_with_its_type(db: Connection, dsn: str, atomic: bool) -> None:
    rows(db, "ALTER TABLE images ADD COLUMN p integer")
    with pytest.raises(DataError) as caught:
        score(options=ScoreOptions(column="p", atomic=atomic), dsn=dsn)
    assert (
        caught.value.message
        == "column 'p' of public.images is of type integer, but images are bytea, or references to them text"
    )
    assert "--column" in caught.value.hint
    assert ask(db, "SELECT to_regclass('predictions')") is None


def test_a_domain_of_images_is_scored(db: Connection, dsn: str) -> None:
    rows(db, "CREATE DOMAIN photo AS bytea; ALTER TABLE images ALTER img TYPE photo")
    assert score(dsn=dsn).rows == 3
    assert score(predictions="again", options=ScoreOptions(atomic=True), dsn=dsn).rows == 3
    rows(db, "DROP TABLE again; DROP DOMAIN photo CASCADE")


def test_what_is_wrong_is_one_sentence(db: Connection, dsn: str, subtests: pytest.Subtests) -> None:
    for call, error, message in [
        ({"table": "nowhere"}, DataError, "nowhere"),
        ({"options": ScoreOptions(column="nothing")}, DataError, "nothing"),
        ({"options": ScoreOptions(key="nothing")}, DataError, "nothing"),
        ({"options": ScoreOptions(where="nonsense =")}, DataError, "syntax error"),
        ({"options": ScoreOptions(model="unknown")}, DataError, "unknown"),
        ({"options": ScoreOptions(function="segment", model="colours")}, DataError, "colours"),
        ({"predictions": "images"}, UsageError, "table of images"),
        ({"predictions": "a_view"}, DataError, "not a table"),
        ({"options": ScoreOptions(function="drop_model")}, UsageError, "drop_model"),
        ({"options": ScoreOptions(replace=True, append=True)}, UsageError, "cannot be used together"),
        ({"options": ScoreOptions(on_error="perhaps")}, UsageError, "perhaps"),
    ]:
        with subtests.test(call=call, error=error, message=message):
            rows(db, "CREATE OR REPLACE VIEW a_view AS SELECT 1 AS x")
            with pytest.raises(error, match=message) as caught:
                score(**call, dsn=dsn)
            assert "\n" not in getattr(caught.value, "message")  # noqa: B009 - mypy knows no Exception.message
            assert ask(db, "SELECT to_regclass('predictions')") is None


def test_a_view_on_the_old_results_stops_replacing(db: Connection, dsn: str) -> None:
    score(options=ScoreOptions(where="id = 0"), dsn=dsn)
    rows(db, "CREATE VIEW reds AS SELECT id FROM predictions WHERE label = 'red'")
    with pytest.raises(DataError, match="cannot be replaced"):
        score(options=ScoreOptions(replace=True), dsn=dsn)
    assert ask(db, "SELECT count(*) FROM predictions") == 1


def test_a_role_without_rights(db: Connection, dsn: str) -> None:
    rows(db, "REVOKE ALL ON images FROM PUBLIC")
    with closing(psycopg2.connect(dsn)) as admin:
        admin.autocommit = True
        with role(admin) as name, pytest.raises(DataError, match="permission denied"):
            score(
                "images",
                "pg_temp.mine",
                ScoreOptions(atomic=True),
                dsn=make_dsn(dsn, options=f"-c role={name}"),
            )


@pytest.mark.postgres_only("parallel workers")
@pytest.mark.parametrize("append", [False, True])
def test_the_plan_of_a_loaded_table_is_parallel(
    db: Connection, dsn: str, tmp_path: Path, append: bool
) -> None:
    for number in range(200):
        (tmp_path / f"{number}.png").write_bytes(IMAGES[number % 3] or b"")
    load([tmp_path], LoadOptions("loaded"), dsn)
    try:
        rows(db, "SET max_parallel_workers_per_gather = 2")
        if append:
            score("loaded", options=ScoreOptions(where="id < 10", atomic=True), dsn=dsn)
        with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cur:
            cur.execute("SET max_parallel_workers_per_gather = 2")
            job = _Job(cur, "loaded", "predictions", ScoreOptions(append=append), detect(conn))
            cur.execute("EXPLAIN (VERBOSE) " + job.statement().as_string(cur))
            plan = "\n".join(row[0] for row in cur.fetchall())
        above, _, below = plan.partition("Gather")
        shared = below.partition("Workers Planned")[2]
        assert "_text(" in shared, plan
        assert "_text(" not in above, plan
        assert shared.count("_text(") == 1, plan
    finally:
        rows(db, "DROP TABLE loaded")
