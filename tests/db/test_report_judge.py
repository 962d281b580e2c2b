"""judge: average precision of a query's boxes, and queries that do not do."""

from __future__ import annotations

import json

import psycopg2
import pytest
from typer.testing import CliRunner

import dbinfer
from dbinfer.base.errors import DataError
from dbinfer.cli.app import app

CAT = {"label": "cat", "x": 0, "y": 0, "width": 10, "height": 10}
DOG = {"label": "dog", "x": 20, "y": 20, "width": 10, "height": 10}
QUERY = "SELECT boxes, found FROM judged"


@pytest.fixture(scope="module")
def judged(empty_dsn: str) -> str:
    """One cat found exactly, one by six tenths of its box, one dog taken for a cat, and an image without a result."""
    rows = [
        ([CAT, DOG], [{**CAT, "score": 0.9, "class": 0}, {**DOG, "score": 0.3, "label": "cat"}]),
        ([CAT], [{**CAT, "height": 6.01, "score": 0.8}]),
        ([], None),
    ]
    with psycopg2.connect(empty_dsn) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE judged (boxes jsonb, found json)")
        for true, found in rows:
            values = json.dumps(true), None if found is None else json.dumps(found)
            cursor.execute("INSERT INTO judged VALUES (%s, %s)", values)
    connection.close()
    return empty_dsn


def test_the_mean_over_classes(judged: str) -> None:
    report = dbinfer.judge(QUERY + ";", judged)
    assert (report.images, report.true, report.found) == (3, 3, 3)
    assert report.map50 == pytest.approx(0.5)  # all cats, no dog
    # From 0.65 on only the first cat counts: recall 0.5, 51 of COCO's 101 points
    assert report.map50_95 == pytest.approx((3 + 7 * 51 / 101) / 10 / 2)


def test_the_command(judged: str) -> None:
    shown = CliRunner().invoke(app, ["judge", QUERY, "--dsn", judged])
    assert shown.exit_code == 0, shown.output
    assert "0.5000" in shown.output
    given = CliRunner().invoke(app, ["judge", QUERY, "--dsn", judged, "--json"])
    assert json.loads(given.output)["map50"] == pytest.approx(0.5)


def test_a_model_without_labels_tells_numbers(judged: str) -> None:
    true = '[{"label": "7", "x": 1, "y": 1, "width": 5, "height": 5}]'
    found = '[{"label": null, "class": 7, "score": 1, "x": 1, "y": 1, "width": 5, "height": 5}]'
    assert dbinfer.judge(f"SELECT '{true}'::jsonb, '{found}'::jsonb", judged).map50 == pytest.approx(1)


def test_a_query_that_does_not_do(judged: str, subtests: pytest.Subtests) -> None:
    for query, message in [
        (
            "SELECT boxes FROM judged",
            "the query returns the columns boxes, but must return true and found boxes",
        ),
        ("SELECT NULL::jsonb, found FROM judged", "the true boxes of row 0 are NULL"),
        ("SELECT boxes, boxes FROM judged", r"a found box of row \d of the query has no score"),
        ("SELECT found, found FROM judged WHERE false", "no image has a true box"),
        (
            "SELECT 'cat'::text, found FROM judged",
            'the boxes of row 0 of the query are "cat", but must be a list',
        ),
        ("SELECT boxes, '[1]'::json FROM judged", "box 1 of row 0 of the query is 1, but must be an object"),
        ("DELETE FROM judged", "syntax error"),
        ("SELECT boxes, found FROM nowhere", 'relation "nowhere" does not exist'),
    ]:
        with subtests.test(query=query, message=message), pytest.raises(DataError, match=message):
            dbinfer.judge(query, judged)
