"""Finds hosts on which more threads score at once than there are cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg2.extensions import connection as Connection
from psycopg2.extensions import quote_ident

from dbinfer.backends import Check
from dbinfer.platform import Platform

# Threads on a core: up to so many take turns and lose little; beyond it memory and start-up grow with each, for nothing
TOO_MANY = 2.0
PLACES = "SELECT host, cores, threads FROM dbinfer.segments"
# The leader scores, too; a server may start fewer workers than a plan asks for
PROCESSES = """
SELECT 1 + least(pg_catalog.current_setting('max_parallel_workers_per_gather')::pg_catalog.int4,
                 pg_catalog.current_setting('max_parallel_workers')::pg_catalog.int4,
                 pg_catalog.current_setting('max_worker_processes')::pg_catalog.int4)
"""
ENGINE = "dbinfer install --isolation always: one engine a host keeps within its cores"
CLUSTER = f"Have fewer segments on a host (gpexpand to more hosts), or {ENGINE}"
SINGLE = "ALTER DATABASE {} SET max_parallel_workers_per_gather = {}; then dbinfer install --threads auto"


@dataclass(frozen=True)
class Host:
    """A host: how many processes score there at once, with how many threads each, on how many cores."""

    name: str
    processes: int
    threads: int
    cores: int

    @property
    def load(self) -> float:
        """Return the threads that score at once for each core."""
        return self.processes * self.threads / self.cores

    def __str__(self) -> str:
        each = "1 thread each" if self.threads == 1 else f"{self.threads} threads each"
        return f"{self.name}: {self.processes} processes score at once, {each}, on {self.cores} cores"


def crowded_hosts(conn: Connection, platform: Platform, settings: Mapping[str, str]) -> list[Check]:
    """Return the check of all hosts; none where this role is not told which segments share one.

    Args:
        settings: of the database, as far as this role may read them.
    """
    if platform.mpp:
        hosts = _cluster(conn)
        return [check(hosts, CLUSTER, settings)] if hosts else []
    server = _server(conn)
    name = quote_ident(conn.info.dbname, conn)
    return [check([server], SINGLE.format(name, max(0, server.cores - 1)), settings)]


def check(hosts: list[Host], cure: str, settings: Mapping[str, str]) -> Check:
    """Return what to say of the hosts: named above one thread a core, wrong above TOO_MANY."""
    worst = max(hosts, key=lambda host: host.load)
    if settings.get("isolation") == "always":
        return Check("load", True, f"{worst}; the engine keeps within the cores")
    crowded = sorted((host for host in hosts if host.load > 1), key=lambda host: host.load, reverse=True)
    if not crowded:
        return Check("load", True, str(worst))
    return Check("load", worst.load <= TOO_MANY, "; ".join(map(str, crowded)), cure)


def _cluster(conn: Connection) -> list[Host]:
    with conn.cursor() as cur:
        cur.execute(PLACES)
        rows = cur.fetchall()
    places = [row for row in rows if row[0] is not None]
    return [
        Host(name, len(here), max(threads for _, _, threads in here), here[0][1])
        for name in sorted({host for host, _, _ in places})
        if (here := [row for row in places if row[0] == name])
    ]


def _server(conn: Connection) -> Host:
    with conn.cursor() as cur:
        cur.execute(PROCESSES)
        (processes,) = cur.fetchone() or (1,)
        cur.execute(PLACES)
        _, cores, threads = cur.fetchone() or (None, 1, 1)
    return Host("this server", processes, threads, cores)
