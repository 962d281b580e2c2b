"""Every plan shape gives right results with the planner that the test names, and the session goes on."""

# ruff: noqa: E501 - a query reads best on one line

from __future__ import annotations

import pytest
from asking import refused, rows
from plans import PLANNERS, Shape, asked_for, assert_planned, planner, shapes
from psycopg2.extensions import connection as Connection

CALL = "(dbinfer.predict(img, 'colours'))[1]"
REDNESS = "CASE label WHEN 'red' THEN 250 ELSE 0 END"
CASES = [
    pytest.param(name, shape, id=f"{name}-{shape.name}")
    for name in PLANNERS
    for shape in shapes()
    if shape.orca or name != "ORCA"
]


@pytest.mark.parametrize(("session", "shape"), CASES, indirect=["session"])
def test_shape_is_right(session: Connection, shape: Shape) -> None:
    assert_planned(session, shape.query)
    assert rows(session, shape.query) == [(shape.value,)]


@pytest.mark.parametrize("session", ["ORCA"], indirect=True)
@pytest.mark.parametrize("shape", [shape for shape in shapes() if not shape.orca], ids=lambda s: s.name)
def test_orca_leaves_it_to_the_other_planner(session: Connection, shape: Shape) -> None:
    """Where ORCA learns to plan one of them, its shape is to be tried with ORCA too: take the note away."""
    assert planner(session, shape.query) != asked_for(session)


@pytest.mark.parametrize("session", ["ORCA"], indirect=True)
def test_orca_loses_default_arguments_before_in(session: Connection) -> None:
    """A defect of Greenplum, with any function that has defaults; docs/how-to/greenplum.md says what to write."""
    query = f"SELECT count(*) FROM images WHERE {CALL} IN (SELECT {CALL} FROM (SELECT * FROM images ORDER BY id LIMIT 1) l)"
    diag = refused(session, "42704", query)
    assert "no value found for parameter" in diag.message_primary


def test_prepared_statement(session: Connection) -> None:
    query = "SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'constant'))[1] = 7"
    rows(session, f"PREPARE p AS {query}")
    assert_planned(session, query)
    for _ in range(7):
        assert rows(session, "EXECUTE p") == [(60,)]


def test_view(session: Connection) -> None:
    rows(session, f"CREATE OR REPLACE VIEW found AS SELECT id, label, {CALL} AS redness FROM images")
    query = f"SELECT count(*) FROM found WHERE redness = {REDNESS}"
    assert_planned(session, query)
    assert rows(session, query) == [(60,)]


def test_plpgsql(session: Connection) -> None:
    query = f"SELECT count(*) FROM images WHERE {CALL} = {REDNESS}"
    assert_planned(session, query)
    rows(
        session,
        "CREATE OR REPLACE FUNCTION right_ones() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN "
        f"RETURN ({query}); END $$",
    )
    for _ in range(7):
        assert rows(session, "SELECT right_ones()") == [(60,)]


def test_plpgsql_loop_over_rows(session: Connection) -> None:
    query = f"SELECT {CALL} AS redness, {REDNESS} AS wanted FROM images"
    assert_planned(session, query)
    rows(
        session,
        "CREATE OR REPLACE FUNCTION one_by_one() RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint := 0; r record; "
        f"BEGIN FOR r IN {query} LOOP n := n + (r.redness = r.wanted)::int; END LOOP; RETURN n; END $$",
    )
    assert rows(session, "SELECT one_by_one()") == [(60,)]


@pytest.mark.parametrize("source", ["images", "(SELECT * FROM images ORDER BY id LIMIT 60) s"])
def test_cursor(session: Connection, source: str) -> None:
    query = f"SELECT {CALL} = {REDNESS} FROM {source}"
    assert_planned(session, query)
    rows(session, "BEGIN")
    rows(session, f"DECLARE c CURSOR FOR {query}")
    found = [row for _ in range(6) for row in rows(session, "FETCH 10 FROM c")]
    rows(session, "COMMIT")
    assert found == [(True,)] * 60


def test_model_from_a_column_above_a_motion_is_one_error(session: Connection) -> None:
    query = (
        "SELECT dbinfer.predict(img, m) FROM (SELECT img, CASE WHEN id > 0 THEN 'colours' ELSE 'colours@1' END AS m "
        "FROM images ORDER BY id LIMIT 5) s"
    )
    assert_planned(session, query)
    diag = refused(session, "0A000", query)
    assert "multiple segworker groups" in diag.message_primary


def test_composites(session: Connection) -> None:
    """Where a field of a composite is taken, ORCA falls back: these run with the other planner."""
    query = "SELECT count(*) FROM images WHERE (dbinfer.classify(img, 'colours')).label = label"
    assert planner(session, query) == "PostgreSQL-based"
    assert rows(session, query) == [(60,)]
    inner = "SELECT label, dbinfer.classify(img, 'colours') AS c FROM images OFFSET 0"
    assert rows(session, f"SELECT count(*) FROM ({inner}) s WHERE (c).label = label") == [(60,)]


def test_write_statements(session: Connection) -> None:
    query = f"SELECT id, label, {CALL} AS redness FROM images"
    rows(session, "DROP TABLE IF EXISTS results")
    assert_planned(session, f"CREATE TABLE results AS {query} DISTRIBUTED BY (id)")
    rows(session, f"CREATE TABLE results AS {query} DISTRIBUTED BY (id)")
    right = f"SELECT count(*) FROM results WHERE redness = {REDNESS}"
    assert rows(session, right) == [(60,)]
    assert_planned(session, f"INSERT INTO results {query}")
    rows(session, f"INSERT INTO results {query}")
    assert rows(session, right) == [(120,)]
    rows(session, "ALTER TABLE images ADD COLUMN redness real")
    try:
        assert_planned(session, f"UPDATE images SET redness = {CALL}")
        rows(session, f"UPDATE images SET redness = {CALL}")
        assert rows(session, f"SELECT count(*) FROM images WHERE redness = {REDNESS}") == [(60,)]
    finally:
        rows(session, "ALTER TABLE images DROP COLUMN redness")
