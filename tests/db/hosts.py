"""What lies in the host caches, asked of the server: it may be a cluster, whose folders no test can look into."""

from __future__ import annotations

import contextlib
import time
from contextlib import closing
from typing import Any

import psycopg2
from asking import ask, rows

FOLDERS = ("dbinfer_cache", "dbinfer_entry")
# missing_ok, without . and ..
LIST = "SELECT {where}, '{folder}/' || pg_ls_dir('{folder}', true, false){on}"
# Greenplum 6 has no missing_ok
LIST_9_4 = (
    "SELECT x.n, x.f || '/' || pg_ls_dir(x.f) "
    "FROM (SELECT {where} AS n, pg_ls_dir('.') AS f{on}) x WHERE x.f = '{folder}'"
)
STAY = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
PATIENCE = 60


def cached(dsn: str) -> set[tuple[Any, ...]]:
    """Return (segment, folder/name) of what lies in the caches of all hosts, and of the coordinator's handover."""
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        text = LIST_9_4 if db.server_version < 90500 else LIST
        asked = [text.format(where=-1, folder=folder, on="") for folder in FOLDERS]
        if ask(db, "SELECT version() LIKE '%%Greenplum%%'"):
            segments = " FROM gp_dist_random('gp_id')"
            asked += [text.format(where="gp_segment_id", folder=folder, on=segments) for folder in FOLDERS]
        return {row for query in asked for row in rows(db, query)}


def others_test(dsn: str) -> bool:
    """Return whether the server has a database of another run of the tests."""
    with closing(psycopg2.connect(dsn)) as db:
        return bool(ask(db, "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%%'"))


def leave_hosts(dsn: str) -> None:
    """Remove what a database that is to be dropped has put on the hosts, as uninstall does; nothing without dbinfer."""
    with closing(psycopg2.connect(dsn)) as db, contextlib.suppress(psycopg2.Error):
        db.autocommit = True
        end = time.monotonic() + PATIENCE
        # a session that is being ended may still use what lies there
        while ask(db, STAY) and time.monotonic() < end:
            time.sleep(0.05)
        rows(db, "SELECT dbinfer_private.leave_here()")
        rows(db, "SELECT dbinfer_private.leave_here() FROM gp_dist_random('gp_id')")
