"""REFRESH MATERIALIZED VIEW with our functions works where any function that reads a table at plan time does."""

from __future__ import annotations

import psycopg2
import pytest
from asking import ask, rows
from psycopg2.extensions import connection as Connection

CONTROL = """
CREATE TABLE read_at_plan_time (v integer) DISTRIBUTED REPLICATED;
INSERT INTO read_at_plan_time VALUES (7);
CREATE FUNCTION at_plan_time() RETURNS integer LANGUAGE plpgsql STABLE AS
  'BEGIN RETURN (SELECT v FROM read_at_plan_time); END';
CREATE MATERIALIZED VIEW control AS SELECT id, at_plan_time() AS v FROM images DISTRIBUTED BY (id);
CREATE MATERIALIZED VIEW scored AS
  SELECT id, (dbinfer.predict(img, 'constant'))[1] AS v FROM images DISTRIBUTED BY (id)"""
CANNOT = "the server refreshes no view whose function reads a table at plan time"
CLEAR = """
DROP MATERIALIZED VIEW IF EXISTS control, scored;
DROP FUNCTION IF EXISTS at_plan_time();
DROP TABLE IF EXISTS read_at_plan_time"""


def test_refresh_works_where_the_server_can(session: Connection) -> None:
    """The server gives the new table's oid to the next query that segments get; at plan time it is the function's."""
    rows(session, CLEAR)
    rows(session, CONTROL)
    try:
        assert ask(session, "SELECT count(*) FROM scored WHERE v = 7") == 60
        try:
            rows(session, "REFRESH MATERIALIZED VIEW control")
        except psycopg2.InternalError as err:
            pytest.skip(f"{CANNOT}: {err.diag.message_primary}")
        rows(session, "REFRESH MATERIALIZED VIEW scored")
        assert ask(session, "SELECT count(*) FROM scored WHERE v = 7") == 60
    finally:
        rows(session, CLEAR)
