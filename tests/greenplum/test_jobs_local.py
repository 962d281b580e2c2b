"""Results of a job lie where their images lie: its batches move neither images nor results, with both planners."""

from __future__ import annotations

from contextlib import closing

import psycopg2
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.platform import detect
from dbinfer.score import ScoreOptions, score
from dbinfer.score.plan import Range
from dbinfer.score.prepare import prepare


def test_a_batch_stays_on_its_segment(session: Connection, cluster: str) -> None:
    options = ScoreOptions(model="colours", batch=16)
    rows(session, "DROP TABLE IF EXISTS local_results, local_results_errors")
    assert score("images", "local_results", options, cluster).rows == 60
    away = (
        "SELECT count(*) FROM (SELECT id, gp_segment_id AS s FROM images) i "
        "JOIN (SELECT id, gp_segment_id AS s FROM local_results) r ON r.id = i.id AND r.s <> i.s"
    )
    assert ask(session, away) == 0
    with closing(psycopg2.connect(cluster)) as conn, conn.cursor() as cur:
        cur.execute(f"SET optimizer = {ask(session, 'SHOW optimizer')}")
        plan = prepare(cur, "images", "local_results", options, detect(conn))
        cur.execute("EXPLAIN (VERBOSE, COSTS OFF) " + plan.batch(Range(("3",), ("40",), 30)).as_string(cur))
        shown = "\n".join(row[0] for row in cur.fetchall())
        assert "Motion" not in shown, shown


def test_images_spread_by_another_column_stay_all_the_same(session: Connection, cluster: str) -> None:
    rows(session, "DROP TABLE IF EXISTS by_label, by_label_results, by_label_results_errors")
    rows(session, "CREATE TABLE by_label AS SELECT id, img, label AS shop FROM images DISTRIBUTED BY (shop)")
    rows(session, "ALTER TABLE by_label ALTER shop SET NOT NULL")
    options = ScoreOptions(model="colours")
    assert score("by_label", "by_label_results", options, cluster).rows == 60
    with closing(psycopg2.connect(cluster)) as conn, conn.cursor() as cur:
        cur.execute(f"SET optimizer = {ask(session, 'SHOW optimizer')}")
        plan = prepare(cur, "by_label", "by_label_results", options, detect(conn))
        cur.execute("EXPLAIN (VERBOSE, COSTS OFF) " + plan.batch(Range(None, ("40", "z"), 30)).as_string(cur))
        lines = [row[0] for row in cur.fetchall()]
    for number, line in enumerate(lines):
        if "Motion" in line:
            assert "img" not in lines[number + 1], "\n".join(lines)
