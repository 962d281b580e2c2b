"""Asks the engines of a database's hosts what they hold, and tells them to start or to go."""

from __future__ import annotations

import json
from typing import Any

from psycopg2.extensions import connection as Connection

from dbinfer.connection import one
from dbinfer.platform import detect

# A database of an older version has no such function
MAY_ASK = (
    "SELECT pg_catalog.has_function_privilege(f.oid, 'EXECUTE') "
    "FROM (SELECT pg_catalog.to_regprocedure('dbinfer._full_engines(text)')::oid) f (oid)"
)


def may_ask(conn: Connection) -> bool:
    """Return whether this role sees hosts and models, and may start and stop engines."""
    with conn.cursor() as cur:
        cur.execute(MAY_ASK)
        return bool(one(cur))


def ask(conn: Connection, action: str) -> list[dict[str, Any]]:
    """Return the engines of all hosts as dbinfer_udf.engines has them, after `look`, `start`, `stop` or `replace`."""
    queries = ["SELECT t FROM dbinfer._hosts_engines(%s) t"]
    # Greenplum's coordinator scores what needs no table, and its host may hold no segment.
    # A statement of its own: while segments work, the coordinator reads no table
    if detect(conn).mpp and may_ask(conn):
        queries.append("SELECT dbinfer._full_engines(%s)")
    found: list[dict[str, Any]] = []
    with conn.cursor() as cur:
        for query in queries:
            cur.execute(query, (action,))
            found += [facts for (text,) in cur.fetchall() for facts in json.loads(text)]
    # The segments of a host see the same engines
    each = {(facts.get("host"), facts.get("pid"), facts["digest"]): facts for facts in found}
    return [facts for _, facts in sorted(each.items(), key=lambda item: str(item[0]))]
