"""Looks for hosts whose processor lacks the instructions of a precision that a deployed model runs at."""

from __future__ import annotations

from psycopg2.extensions import connection as Connection

from dbinfer.backends import Check

MODELS = "SELECT name, precision FROM dbinfer.models WHERE precision OPERATOR(pg_catalog.<>) 'f32' ORDER BY 1"
SEGMENTS = "SELECT content, host, precisions FROM dbinfer.segments ORDER BY 1"
CURE = "Deploy it again with --precision f32, which every host computes."


def slow_hosts(conn: Connection) -> Check:
    """Return the check of all hosts and active models: results are right everywhere, but slow on some."""
    with conn.cursor() as cur:
        cur.execute(MODELS)
        models = cur.fetchall()
        # two statements: on Greenplum segments must not be asked while the coordinator reads tables
        cur.execute(SEGMENTS)
        hosts = [(host or _place(content), precisions) for content, host, precisions in cur.fetchall()]
    # None: the runtime of an older version
    slow = [
        f"{model} computes in {name}, for which {host} has no instructions"
        for model, name in models
        for host in sorted({host for host, able in hosts if able is not None and name not in able})
    ]
    if slow:
        return Check("precision", False, "; ".join(slow), CURE)
    return Check("precision", True, "every host has the instructions that the models want")


def _place(content: int | None) -> str:
    return "this server" if content is None else f"segment {content}"
