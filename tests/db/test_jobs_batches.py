"""score in batches: the same results as in one statement, each row once, bad rows with their reasons."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import activate, deploy
from dbinfer.score import ScoreOptions, score

COLOURS = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
IMAGES: list[bytes | None] = [tiny_models.file(tiny_models.picture(*colour)) for colour in COLOURS]
SMALL_BATCHES = ScoreOptions(batch=40)


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for write in (tiny_models.colour_classifier, tiny_models.red_mask):
        deploy(write(folder), dsn=dsn)


@pytest.fixture(autouse=True)
def images(db: Connection) -> Iterator[None]:
    make_images(db, "images", IMAGES, copies=50)
    yield
    rows(db, "DROP TABLE IF EXISTS predictions, predictions_errors, images CASCADE")


def test_the_results_are_those_of_one_statement(db: Connection, dsn: str) -> None:
    report = score(options=SMALL_BATCHES, dsn=dsn)
    assert (report.rows, report.nulls, report.errors, report.version) == (150, 0, 0, 1)
    expected = "SELECT id, (c).* FROM (SELECT id, dbinfer.classify(img) c FROM images OFFSET 0) s ORDER BY id"
    assert rows(db, "SELECT id, class, label, score FROM predictions ORDER BY id") == rows(db, expected)
    assert rows(db, "SELECT DISTINCT model, version FROM predictions") == [("colours", 1)]
    assert ask(db, "SELECT count(*) FROM predictions_errors") == 0
    assert score(dsn=dsn).rows == 0


@pytest.mark.wide
def test_only_what_this_version_has_not_scored(db: Connection, dsn: str, tmp_path: object) -> None:
    assert score(options=ScoreOptions(where="id < 100"), dsn=dsn).rows == 100
    assert score(dsn=dsn).rows == 50
    rows(db, "INSERT INTO images SELECT 1000 + id, img FROM images WHERE id < 7")
    rows(db, "INSERT INTO images SELECT -1 - id, img FROM images WHERE id BETWEEN 0 AND 6")
    assert score(dsn=dsn).rows == 14


@pytest.mark.wide
def test_a_new_version_scores_all_rows_and_the_old_results_stay(
    db: Connection, dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    score(dsn=dsn)
    folder = tmp_path_factory.mktemp("second")
    deploy(tiny_models.colour_classifier(folder, labels=["r", "g", "b"]), dsn=dsn)
    try:
        assert score(dsn=dsn).rows == 150
        assert rows(
            db, "SELECT version, label, count(*) FROM predictions WHERE id % 3 = 0 GROUP BY 1, 2 ORDER BY 1"
        ) == [
            (1, "red", 50),
            (2, "r", 50),
        ]
    finally:
        activate("colours@1", dsn)


def test_bad_rows_have_reasons_and_are_tried_again_when_told(db: Connection, dsn: str) -> None:
    rows(db, "UPDATE images SET img = 'no image' WHERE id IN (3, 77)")
    rows(db, "UPDATE images SET img = NULL WHERE id = 5")
    report = score(options=SMALL_BATCHES, dsn=dsn)
    assert (report.rows, report.errors, report.nulls) == (148, 2, 1)
    found = rows(db, "SELECT id, model, version, reason FROM predictions_errors ORDER BY id")
    assert [row[:3] for row in found] == [(3, "colours", 1), (77, "colours", 1)]
    assert all(row[3].startswith("not an image") for row in found)
    assert ask(db, "SELECT class FROM predictions WHERE id = 5") is None
    assert score(dsn=dsn).errors == 0
    rows(db, "UPDATE images SET img = (SELECT img FROM images WHERE id = 0) WHERE id = 77")
    again = score(options=ScoreOptions(retry_errors=True), dsn=dsn)
    assert (again.rows, again.errors) == (1, 1)
    assert rows(db, "SELECT id FROM predictions_errors") == [(3,)]
    assert ask(db, "SELECT label FROM predictions WHERE id = 77") == "red"
