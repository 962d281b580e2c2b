"""classify_table and its sisters are local on every segment with both planners: results move, and no image does."""

from __future__ import annotations

import re

import pytest
from asking import ask, refused, rows
from psycopg2.extensions import connection as Connection

BATCH = 32
CALL = "dbinfer.classify_table('images', 'colours')"
SCAN = "SELECT dbinfer._scan_query(%s, 'classify', 'images', 'colours', 'error', 'id', 'img')"


def new_scan(session: Connection) -> str:
    return str(ask(session, "SELECT dbinfer._new_scan()"))


def test_results_are_those_of_the_rows(session: Connection) -> None:
    labels = dict(rows(session, "SELECT id, label FROM images"))
    assert dict(rows(session, f"SELECT id, label FROM {CALL}")) == labels
    assert rows(session, f"SELECT label, count(*) FROM {CALL} WHERE score > 200 GROUP BY 1 ORDER BY 1") == [
        ("blue", 20),
        ("green", 20),
        ("red", 20),
    ]


@pytest.mark.parametrize("into", ["", "INSERT INTO kept "])
def test_rows_are_scored_below_the_motion(session: Connection, into: str) -> None:
    """The one Motion carries results; in EXPLAIN, brackets around _take(...) stand for a value from below."""
    rows(session, "DROP TABLE IF EXISTS kept")
    rows(session, "CREATE TABLE kept (id bigint, result text, file bytea) DISTRIBUTED BY (id)")
    query = into + ask(session, SCAN, new_scan(session))
    plan = [row[0].strip() for row in rows(session, f"EXPLAIN (VERBOSE, COSTS OFF) {query}")]
    print("\n" + "\n".join(plan))
    motions = [i for i, line in enumerate(plan) if "Motion" in line]
    called = [i for i, line in enumerate(plan) if re.search(r"[^(]dbinfer\._take\(", line)]
    assert len(motions) == len(called) == 1
    assert called[0] > motions[0]
    assert "img" not in plan[motions[0] + 1]


def test_each_segment_scores_what_it_has_left(session: Connection) -> None:
    rows(session, "DROP TABLE IF EXISTS more")
    rows(
        session,
        "CREATE TABLE more AS SELECT n AS id, img FROM generate_series(1, 500) n, images i WHERE i.id = n % 60",
    )
    scan = new_scan(session)
    whole = rows(session, ask(session, SCAN, scan).replace("FROM images", "FROM more"))
    assert len(whole) % BATCH == 0
    rest = rows(session, ask(session, "SELECT dbinfer._rest_query(%s, 'classify', 'colours', 'error')", scan))
    each = [row[0] for row in rows(session, "SELECT count(*) FROM more GROUP BY gp_segment_id")]
    assert len(whole) == sum(count // BATCH * BATCH for count in each) == sum(row[3] for row in rest)
    assert sorted(len(row[0]) for row in rest) == sorted(count % BATCH for count in each)
    found = sorted([row[0] for row in whole] + [number for row in rest for number in row[0]])
    assert found == list(range(1, 501))


def test_a_view_that_the_coordinator_reads(session: Connection) -> None:
    rows(
        session,
        "CREATE OR REPLACE VIEW few AS SELECT n AS id, (SELECT img FROM images WHERE id = 1) AS img "
        "FROM generate_series(1, 40) n",
    )
    rows(session, "CREATE OR REPLACE VIEW first AS SELECT id, img FROM images ORDER BY id LIMIT 40")
    for view in ("few", "first"):
        assert len(rows(session, f"SELECT * FROM dbinfer.classify_table('{view}', 'colours')")) == 40
    rows(session, "DROP VIEW few, first")


def test_results_go_into_a_table(session: Connection) -> None:
    rows(session, "DROP TABLE IF EXISTS kept")
    rows(session, "CREATE TABLE kept (id bigint, class integer, label text, score real) DISTRIBUTED BY (id)")
    assert ask(session, "SELECT dbinfer.classify_into('kept', 'images', 'colours')") == 60
    assert rows(session, "SELECT count(*) FROM kept k JOIN images i USING (id) WHERE k.label = i.label") == [
        (60,)
    ]


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT count(*) FROM {CALL} c JOIN images i USING (id)",
        f"CREATE TABLE never AS SELECT * FROM {CALL} DISTRIBUTED BY (id)",
    ],
)
def test_in_other_statements_it_says_what_to_do(session: Connection, query: str) -> None:
    diag = refused(session, "0A000", query)
    assert "cannot read a table from within this statement" in diag.message_primary
    assert "dbinfer.classify_into" in diag.message_hint


def test_a_bad_row_on_a_segment_is_one_error(session: Connection) -> None:
    rows(session, "DROP TABLE IF EXISTS spoilt")
    rows(
        session,
        "CREATE TABLE spoilt AS SELECT id, CASE id WHEN 44 THEN 'no image'::bytea ELSE img END AS img FROM images",
    )
    diag = refused(session, "22P03", "SELECT * FROM dbinfer.classify_table('spoilt', 'colours')")
    assert "dbinfer" in diag.message_primary
    query = "SELECT id FROM dbinfer.classify_table('spoilt', 'colours', 'null') WHERE class IS NULL"
    assert rows(session, query) == [(44,)]
