"""The same image again, in one statement, is scored once: its fields, conditions and columns share an answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import connection as Connection
from test_image_bad_input import BAD, GOOD

from dbinfer.models import DeployOptions, deploy

COUNTED = "SELECT coalesce(sum(rows), 0)::integer FROM dbinfer.usage WHERE model = 'colours'"
IMAGES = 12
RED, BLUE = (tiny_models.file(tiny_models.picture(*rgb)) for rgb in ((255, 0, 0), (0, 0, 255)))


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for made in (tiny_models.colour_classifier, tiny_models.red_mask):
        deploy(made(folder), dsn=dsn)


@pytest.fixture(autouse=True)
def images(db: Connection) -> Iterator[None]:
    make_images(db, "images", [RED, BLUE], copies=IMAGES // 2)
    rows(db, "SELECT dbinfer.set_setting('usage', 'on')")
    yield
    rows(db, "SELECT dbinfer.set_setting('usage', 'off')")


def passes(db: Connection, query: str) -> int:
    """Return how many times a query ran the network."""
    before = ask(db, COUNTED)
    rows(db, query)
    return int(ask(db, COUNTED)) - int(before)


LABEL, SCORE = (f"(dbinfer.classify(img, 'colours')).{field}" for field in ("label", "score"))
ONE_EACH = {
    "two fields": f"SELECT {LABEL}, {SCORE} FROM images",
    "a condition and a column": f"SELECT {SCORE} FROM images WHERE {LABEL} IN ('red', 'blue')",
    "all fields of a star": "SELECT (dbinfer.classify(img, 'colours')).* FROM images",
    "another function between": f"SELECT {LABEL}, dbinfer.segment(img, 'redness'), {SCORE} FROM images",
    "CASE": f"SELECT CASE WHEN {LABEL} = 'red' THEN {SCORE} ELSE -{SCORE} END FROM images",
    "a subquery that is pulled up": f"SELECT c.label, c.score FROM (SELECT {LABEL}, {SCORE} FROM images) c",
    "LATERAL": "SELECT c.label, c.score FROM images, LATERAL (SELECT (dbinfer.classify(img, 'colours')).*) c",
    "a join that repeats a row": f"SELECT {LABEL} FROM images CROSS JOIN LATERAL generate_series(id, id + 2) n",
}


@pytest.mark.parametrize("shape", ONE_EACH)
def test_one_pass_for_each_image(db: Connection, shape: str) -> None:
    assert passes(db, ONE_EACH[shape]) == IMAGES


def test_the_answers_are_those_of_one_call(db: Connection) -> None:
    """Each field, beside a call of its own in another statement."""
    both = rows(db, f"SELECT id, {LABEL}, {SCORE} FROM images ORDER BY id")
    alone = [rows(db, f"SELECT {field} FROM images ORDER BY id") for field in (LABEL, SCORE)]
    assert [row[1:] for row in both] == [label + score for label, score in zip(*alone, strict=True)]
    assert [label for _, label, _ in both] == ["red", "blue"] * (IMAGES // 2)


def test_another_question_is_another_pass(db: Connection) -> None:
    query = "SELECT {}, {}, {} FROM images".format(
        "dbinfer.classify_top(img, 1, 'colours')",
        "dbinfer.classify_top(img, 2, 'colours')",
        "dbinfer.predict(img, 'colours')",
    )
    assert passes(db, query) == 3 * IMAGES
    ((one, two),) = rows(
        db,
        "SELECT array_length(dbinfer.classify_top(img, 1, 'colours'), 1), "
        "array_length(dbinfer.classify_top(img, 2, 'colours'), 1) FROM images LIMIT 1",
    )
    assert (one, two) == (1, 2)


def test_bad_ones_give_null_twice_and_an_error_each_time(db: Connection) -> None:
    make_images(db, "images", [RED, BAD["text"][0], BLUE, None], copies=3)
    null = "(dbinfer.classify(img, 'colours', 'null'))"
    found = rows(db, f"SELECT {null}.label, {null}.score > 0.5 FROM images")
    assert sorted(map(str, found)) == sorted(
        map(str, 3 * [("red", True), ("blue", True), (None, None), (None, None)])
    )
    # first NULL, then the error, from one image
    mixed = f"SELECT {null}.label, {LABEL} FROM images"
    with pytest.raises(Exception, match="not an image") as caught:
        rows(db, mixed)
    assert "on_error" in str(caught.value.diag.message_hint)  # type: ignore[attr-defined]


def test_a_version_that_is_activated_between_statements_counts_at_once(
    db: Connection, dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("versions")
    deploy(tiny_models.constant(folder, 1, name="number"), dsn=dsn)
    deploy(tiny_models.constant(folder, 2, name="number"), DeployOptions(activate=False), dsn=dsn)
    rows(db, "BEGIN")
    try:
        query = "SELECT (dbinfer.predict(%s, 'number'))[1], (dbinfer.predict(%s, 'number'))[2]"
        assert rows(db, query, GOOD, GOOD) == [(1, 1)]
        rows(db, "SELECT dbinfer.activate('number', 2)")
        assert rows(db, query, GOOD, GOOD) == [(2, 2)]
    finally:
        rows(db, "ROLLBACK")
    assert rows(db, query, GOOD, GOOD) == [(1, 1)]
