"""Results of a job lie where their images lie: its batches move neither images nor results, with both planners."""

from __future__ import annotations

import re
from contextlib import closing

import psycopg2
from asking import ask, rows
from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.progress import Progress
from dbinfer.database.platform import detect
from dbinfer.score import ScoreOptions, score
from dbinfer.score.reuse import Pictures
from dbinfer.score.statements import Range
from dbinfer.score.tables import prepare


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
        assert plan.grouped
        in_groups, one_by_one = plan.batches(Range(("3",), ("40",), 30))
        assert "Motion" not in "\n".join(explain(cur, one_by_one))
        # of whole batches of images the results move, if anything
        no_image_moves(explain(cur, in_groups))


def explain(cur: Cursor, statement: sql.Composed) -> list[str]:
    """Return the lines of a statement's plan."""
    cur.execute("EXPLAIN (VERBOSE, COSTS OFF) " + statement.as_string(cur))
    return [row[0] for row in cur.fetchall()]


def no_image_moves(plan: list[str]) -> None:
    """Fail where a Motion's output names the column of images."""
    for number, line in enumerate(plan):
        if "Motion" in line:
            assert "img" not in plan[number + 1], "\n".join(plan)


def test_images_spread_by_another_column_stay_all_the_same(session: Connection, cluster: str) -> None:
    rows(session, "DROP TABLE IF EXISTS by_label, by_label_results, by_label_results_errors")
    rows(session, "CREATE TABLE by_label AS SELECT id, img, label AS shop FROM images DISTRIBUTED BY (shop)")
    rows(session, "ALTER TABLE by_label ALTER shop SET NOT NULL")
    options = ScoreOptions(model="colours")
    assert score("by_label", "by_label_results", options, cluster).rows == 60
    with closing(psycopg2.connect(cluster)) as conn, conn.cursor() as cur:
        cur.execute(f"SET optimizer = {ask(session, 'SHOW optimizer')}")
        plan = prepare(cur, "by_label", "by_label_results", options, detect(conn))
        for statement in plan.batches(Range(None, ("40", "z"), 30)):
            no_image_moves(explain(cur, statement))


def test_digests_move_where_pictures_are_scored_once_and_images_do_not(
    session: Connection, cluster: str
) -> None:
    rows(session, "DROP TABLE IF EXISTS once_results, once_results_errors")
    options = ScoreOptions(model="colours", reuse=True, batch=16)
    assert score("images", "once_results", options, cluster).rows == 60
    with closing(psycopg2.connect(cluster)) as conn, conn.cursor() as cur:
        cur.execute(f"SET optimizer = {ask(session, 'SHOW optimizer')}")
        plan = prepare(cur, "images", "once_results", options, detect(conn))
        keys, pictures = Range(("3",), ("40",), 30), Pictures(cur, plan)
        digested = [re.sub(r"sha256\([^)]*\)", "digest", line) for line in explain(cur, plan.open_rows(keys))]
        no_image_moves(digested)
        pictures.note(keys, "")
        for statement in pictures.statements():
            no_image_moves(explain(cur, statement))


def test_groups_of_images_give_what_single_ones_give(session: Connection, cluster: str) -> None:
    rows(session, "DROP TABLE IF EXISTS mixed, mixed_results, mixed_results_errors")
    rows(
        session,
        "CREATE TABLE mixed AS SELECT n AS id, CASE WHEN n % 50 = 7 THEN 'bad'::bytea WHEN n % 50 <> 9 THEN img END "
        "AS img FROM generate_series(1, 600) n JOIN images i ON i.id = n % 60 DISTRIBUTED BY (id)",
    )
    report = score("mixed", "mixed_results", ScoreOptions(model="colours", batch=200), cluster)
    assert (report.rows, report.errors, report.nulls) == (588, 12, 12)
    expected = (
        "SELECT id, (c).* FROM (SELECT id, dbinfer.classify(img, 'colours', 'null') c FROM mixed OFFSET 0) s "
    )
    own = "SELECT id, class, label, score FROM mixed_results ORDER BY id"
    assert rows(session, own) == rows(session, expected + "WHERE id % 50 <> 7 ORDER BY id")


def test_a_segment_keeps_its_processes_from_batch_to_batch(cluster: str) -> None:
    seen: list[set[tuple[int, int]]] = []
    with closing(psycopg2.connect(cluster)) as conn:
        conn.autocommit = True
        rows(conn, "DROP TABLE IF EXISTS kept_results, kept_results_errors")
        look = (
            "SELECT s, (a).pid FROM (SELECT gp_segment_id AS s, pg_stat_get_activity(NULL) AS a "
            "FROM gp_dist_random('gp_id')) x "
            "WHERE (a).datid = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )

        def progress(event: Progress) -> None:
            if event.step == "scoring":
                seen.append(set(rows(conn, look)))

        score(
            "images",
            "kept_results",
            ScoreOptions(model="colours", batch=20, connections=1),
            cluster,
            progress,
        )
    assert len(seen) == 3
    assert seen[0] <= seen[1] <= seen[2]
