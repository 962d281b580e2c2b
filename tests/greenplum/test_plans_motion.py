"""Images stay where they are: no Motion below the function carries img, and all segments score."""

from __future__ import annotations

from typing import Any

import pytest
from asking import rows
from psycopg2.extensions import connection as Connection

CALL = "dbinfer.predict(img, 'constant')"
LOCAL = {
    "SELECT": f"SELECT {CALL} FROM images",
    "SELECT id": f"SELECT id, {CALL} FROM images",
    "count": f"SELECT count({CALL}) FROM images",
    "INSERT SELECT": f"INSERT INTO results SELECT id, {CALL} FROM images",
    "CREATE TABLE AS": f"CREATE TABLE more AS SELECT id, {CALL} AS p FROM images DISTRIBUTED BY (id)",
    "UPDATE": "UPDATE results SET p = p WHERE id IN (SELECT id FROM images WHERE "
    "(dbinfer.predict(img, 'constant'))[1] = 7)",
    "WHERE": f"SELECT count(*) FROM images WHERE ({CALL})[1] > 0",
    "detect": "SELECT id, dbinfer.detect(img, 'redbox') FROM images",
    "detect, a row an object": "SELECT id, (d).label, (d).x FROM "
    "(SELECT id, unnest(dbinfer.detect(img, 'redbox')) AS d FROM images) s",
    "detect, counted": "SELECT count(*) FROM images WHERE cardinality(dbinfer.detect(img, 'redbox')) = 1",
    "draw": "SELECT id, octet_length(dbinfer.draw(img, dbinfer.detect(img, 'redbox'))) FROM images",
    "GROUP BY": f"SELECT ({CALL})[1], count(*) FROM images GROUP BY 1",
}


@pytest.fixture
def planned(session: Connection) -> Connection:
    rows(session, "DROP TABLE IF EXISTS results, more")
    rows(session, "CREATE TABLE results (id integer, p real[]) DISTRIBUTED BY (id)")
    return session


def motions(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the Motion nodes of a plan."""
    here = [node] if "Motion" in node.get("Node Type", "") else []
    return here + [found for child in node.get("Plans", []) for found in motions(child)]


@pytest.mark.parametrize("statement", LOCAL)
def test_no_motion_carries_images(planned: Connection, statement: str) -> None:
    query = LOCAL[statement]
    print("\n" + "\n".join(row[0] for row in rows(planned, f"EXPLAIN (VERBOSE, COSTS OFF) {query}")))
    plan = rows(planned, f"EXPLAIN (VERBOSE, FORMAT JSON) {query}")[0][0][0]["Plan"]
    for motion in motions(plan):
        carried = [column.rsplit(".")[-1] for column in motion.get("Output", [])]
        assert "img" not in carried, motion


def test_the_check_sees_images_that_move(planned: Connection) -> None:
    plan = rows(planned, "EXPLAIN (VERBOSE, FORMAT JSON) SELECT img FROM images")[0][0][0]["Plan"]
    assert any("img" in column for motion in motions(plan) for column in motion["Output"])


def test_objects_of_all_segments(planned: Connection) -> None:
    query = (
        "SELECT label, count(*), min((d).score), max((d).width) FROM "
        "(SELECT label, unnest(dbinfer.detect(img, 'redbox')) AS d FROM images) s GROUP BY label"
    )
    assert rows(planned, query) == [("red", 20, 1.0, 8.0)]
    drawn = "SELECT count(dbinfer.draw(img, dbinfer.detect(img, 'redbox'))) FROM images"
    assert rows(planned, drawn) == [(60,)]


def test_all_segments_score(planned: Connection) -> None:
    rows(planned, f"INSERT INTO results SELECT id, {CALL} FROM images")
    there = dict(rows(planned, "SELECT gp_segment_id, count(*) FROM images GROUP BY 1"))
    scored = dict(rows(planned, "SELECT gp_segment_id, count(p) FROM results GROUP BY 1"))
    assert scored == there
    loaded = rows(planned, "SELECT content, models::text FROM dbinfer.segments ORDER BY content")
    assert [content for content, _ in loaded] == sorted(there)
    assert all("constant@1" in models for _, models in loaded), loaded


def test_one_call_a_row_for_a_composite(session: Connection) -> None:
    query = (
        "SELECT (c).class, (c).label FROM "
        "(SELECT id, dbinfer.classify(img, 'colours') AS c FROM images OFFSET 0) s"
    )
    plan = "\n".join(row[0] for row in rows(session, f"EXPLAIN (VERBOSE, COSTS OFF) {query}"))
    print(plan)
    assert len(rows(session, query)) == 60
