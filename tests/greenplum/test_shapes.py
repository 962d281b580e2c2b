"""Every plan shape gives right results or one clear error with both planners, and the session goes on."""

# ruff: noqa: E501 - a query reads best on one line

from __future__ import annotations

import pytest
from asking import refused, rows
from psycopg2.extensions import connection as Connection

CALL = "(dbinfer.classify(img, 'colours')).label"

RIGHT = {
    "plain": f"SELECT count(*) FROM images WHERE {CALL} = label",
    "LIMIT below": f"SELECT count(*) FROM (SELECT * FROM images LIMIT 60) s WHERE {CALL} = label",
    "ORDER BY LIMIT below": f"SELECT sum(({CALL} = label)::int) FROM (SELECT * FROM images ORDER BY id LIMIT 60) s",
    "CTE": f"WITH s AS (SELECT * FROM images ORDER BY id LIMIT 60) SELECT sum(({CALL} = label)::int) FROM s",
    "LATERAL": "SELECT count(*) FROM images i, LATERAL dbinfer.classify(i.img, 'colours') c WHERE c.label = i.label",
    "LATERAL above LIMIT": "SELECT count(*) FROM (SELECT * FROM images ORDER BY id LIMIT 60) i, "
    "LATERAL dbinfer.classify(i.img, 'colours') c WHERE c.label = i.label",
    "window": f"SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY id), {CALL} AS found, label FROM images) s "
    "WHERE found = label",
    "join": "SELECT count(*) FROM (SELECT (dbinfer.classify(i.img, 'colours')).label AS found, i.label "
    "FROM images i JOIN images j ON i.id = j.id) s "
    "WHERE found = label",
    "join with VALUES": f"SELECT count(*) FROM (SELECT {CALL} AS found, label FROM images JOIN (VALUES (1)) v(x) ON true) s"
    " WHERE found = label",
    "GROUP BY": f"SELECT sum(n) FROM (SELECT {CALL} AS found, count(*) AS n FROM images GROUP BY 1) s WHERE n = 20",
    "GROUP BY gp_segment_id": "SELECT sum(n) FROM (SELECT gp_segment_id, count(dbinfer.classify(img, 'colours')) AS n "
    "FROM images GROUP BY 1) s",
    "ORDER BY LIMIT": f"SELECT count(*) FROM (SELECT {CALL} AS found, label FROM images ORDER BY id LIMIT 60) s "
    "WHERE found = label",
    "CASE": f"SELECT sum(CASE WHEN id >= 0 THEN ({CALL} = label)::int END) FROM images",
    "two models": "SELECT count(*) FROM images WHERE (dbinfer.classify(img, 'colours')).label = label "
    "AND (dbinfer.predict(img, 'constant'))[1] = 7",
    "model from a column": "SELECT count(*) FROM images JOIN (VALUES ('colours'), ('colours@1')) v(m) ON true "
    "WHERE (dbinfer.classify(img, m)).label = label AND v.m = 'colours'",
    "model from a subquery": "SELECT count(*) FROM images "
    "WHERE (dbinfer.classify(img, (SELECT 'colours'::text))).label = label",
    "aggregate over an expression": "SELECT count(*) * 20 FROM (SELECT DISTINCT dbinfer.predict(img, 'colours') FROM images) s",
    "correlated subquery": "SELECT count(*) FROM images o WHERE "
    "(SELECT (dbinfer.classify(i.img, 'colours')).label FROM images i WHERE i.id = o.id) = o.label",
    "UNION ALL": f"SELECT count(*) FROM (SELECT {CALL} AS found, label FROM images WHERE id < 30 "
    f"UNION ALL SELECT {CALL}, label FROM images WHERE id >= 30) s WHERE found = label",
    "one value, no table": "SELECT count(dbinfer.classify(i.img, 'colours')) * 60 FROM (SELECT img FROM images LIMIT 1) i",
}


@pytest.mark.parametrize("shape", RIGHT)
def test_shape_is_right(session: Connection, shape: str) -> None:
    query = RIGHT[shape]
    print(f"\n{shape}: {query}")
    print("\n".join(row[0] for row in rows(session, f"EXPLAIN {query}")))
    found = rows(session, query)
    print(f"-> {found}")
    assert found[0][0] == 60


def test_prepared_statement_sees_a_new_version(session: Connection, folder: object) -> None:
    rows(session, "PREPARE p AS SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'constant'))[1] = 7")
    for _ in range(7):
        assert rows(session, "EXECUTE p") == [(60,)]


def test_view(session: Connection) -> None:
    rows(
        session,
        "CREATE OR REPLACE VIEW found AS SELECT id, label, dbinfer.classify(img, 'colours') AS c FROM images",
    )
    assert rows(session, "SELECT count(*) FROM found WHERE (c).label = label") == [(60,)]


def test_plpgsql(session: Connection) -> None:
    rows(
        session,
        "CREATE OR REPLACE FUNCTION right_ones() RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN "
        "SELECT count(*) INTO n FROM images WHERE (dbinfer.classify(img, 'colours')).label = label; RETURN n; END $$",
    )
    for _ in range(7):
        assert rows(session, "SELECT right_ones()") == [(60,)]


def test_plpgsql_loop_over_rows(session: Connection) -> None:
    rows(
        session,
        "CREATE OR REPLACE FUNCTION one_by_one() RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint := 0; r record; "
        "BEGIN FOR r IN SELECT dbinfer.classify(img, 'colours') AS c, label FROM images LOOP "
        "IF (r.c).label = r.label THEN n := n + 1; END IF; END LOOP; RETURN n; END $$",
    )
    assert rows(session, "SELECT one_by_one()") == [(60,)]


@pytest.mark.parametrize("source", ["images", "(SELECT * FROM images ORDER BY id LIMIT 60) s"])
def test_cursor(session: Connection, source: str) -> None:
    rows(session, "BEGIN")
    rows(session, f"DECLARE c CURSOR FOR SELECT {CALL} = label FROM {source}")
    found = [row for _ in range(6) for row in rows(session, "FETCH 10 FROM c")]
    rows(session, "COMMIT")
    assert found == [(True,)] * 60


def test_model_from_a_column_above_a_motion_is_one_error(session: Connection) -> None:
    query = (
        "SELECT dbinfer.classify(img, m) FROM (SELECT img, CASE WHEN id > 0 THEN 'colours' ELSE 'colours@1' END AS m "
        "FROM images ORDER BY id LIMIT 5) s"
    )
    diag = refused(session, "0A000", query)
    print(diag.message_primary)


def test_write_statements(session: Connection) -> None:
    rows(session, "DROP TABLE IF EXISTS results")
    rows(
        session, f"CREATE TABLE results AS SELECT id, label, {CALL} AS found FROM images DISTRIBUTED BY (id)"
    )
    assert rows(session, "SELECT count(*) FROM results WHERE found = label") == [(60,)]
    rows(session, f"INSERT INTO results SELECT id, label, {CALL} FROM images")
    assert rows(session, "SELECT count(*) FROM results WHERE found = label") == [(120,)]
    rows(session, "ALTER TABLE images ADD COLUMN found text")
    try:
        rows(session, f"UPDATE images SET found = {CALL}")
        assert rows(session, "SELECT count(*) FROM images WHERE found = label") == [(60,)]
    finally:
        rows(session, "ALTER TABLE images DROP COLUMN found")
