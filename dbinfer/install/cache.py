"""cache: the model files that lie on the database's hosts, and how to remove those that no version uses."""

from __future__ import annotations

import json
from dataclasses import dataclass

from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import RegistryError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import one, session
from dbinfer.database.platform import detect

MAY_ASK_COORDINATOR = (
    "SELECT pg_catalog.has_schema_privilege('dbinfer_private', 'USAGE') "
    "AND pg_catalog.has_function_privilege('dbinfer_private.cache_here(boolean)', 'EXECUTE')"
)


@dataclass(frozen=True)
class CacheOptions:
    """What to do with the caches.

    Attributes:
        prune: remove the models that no version of this database names and that nobody used in the last hour.
    """

    prune: bool = False


@dataclass(frozen=True)
class HostCache:
    """The cache of one segment, or of a PostgreSQL server.

    Attributes:
        content: the segment's number; -1 for Greenplum's coordinator, None on PostgreSQL.
        models: how many have a folder there, those of other databases included.
        removed, removed_bytes: what this call has pruned.
    """

    content: int | None
    host: str
    folder: str
    models: int
    used_bytes: int
    free_bytes: int
    removed: int
    removed_bytes: int


@dataclass(frozen=True)
class CacheReport(Report):
    """The caches of all hosts.

    Attributes:
        caches: one for each segment; on Greenplum a superuser sees that of the coordinator, too.
    """

    caches: tuple[HostCache, ...]


def cache(
    options: CacheOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> CacheReport:
    """Return what lies in the host caches; prune them first if the options say so.

    Raises:
        RegistryError: this role may not, or a folder cannot be used.
    """
    prune = (options or CacheOptions()).prune
    progress(Progress("pruning the caches" if prune else "looking at the caches"))
    with session(dsn, error=RegistryError, catalog_only=True) as conn:
        found = [HostCache(**json.loads(text)) for text in _ask(conn, prune)]
    return CacheReport(tuple(sorted(found, key=lambda cache: (cache.content or 0, cache.host))))


def _ask(conn: Connection, prune: bool) -> list[str]:
    with conn.cursor() as cur:
        cur.execute("SELECT t FROM dbinfer._cache(%s) t", (prune,))
        found = [str(row[0]) for row in cur.fetchall()]
        if detect(conn).mpp:
            cur.execute(MAY_ASK_COORDINATOR)
            # a statement of its own: while segments work, the coordinator reads no table
            if one(cur):
                cur.execute("SELECT dbinfer_private.cache_here(%s)", (prune,))
                found.append(str(one(cur)))
    return found
