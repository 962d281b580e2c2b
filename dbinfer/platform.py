"""What differs between PostgreSQL and Greenplum, decided here and detected from the server, never from an option.

SQL files are valid on PostgreSQL as they stand. What is special on one platform stands in a comment like
`/* greenplum: DISTRIBUTED REPLICATED */`, which `adapt` opens on that platform. Greenplum 6 and 7, WarehousePG and
Cloudberry are all `greenplum` to the SQL files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

MPP_NAMES = (("Cloudberry", "cloudberry"), ("WarehousePG", "warehousepg"), ("Greenplum", "greenplum"))
# Greenplum 6 is a PostgreSQL 9.4, which has no parallel plans and does not know the word
PARALLEL_SINCE = 90600


@dataclass(frozen=True)
class Platform:
    """The server that a connection talks to.

    Attributes:
        name: postgresql, greenplum, warehousepg or cloudberry.
        version: of the product, as it names itself.
        kernel: server_version_num of the PostgreSQL inside.
        segments: number of primary segments; 0 on PostgreSQL.
    """

    name: str
    version: str
    kernel: int
    segments: int

    @property
    def mpp(self) -> bool:
        """Return whether rows lie on segments."""
        return self.segments > 0

    def adapt(self, sql: str) -> str:
        """Return a SQL file's text as this platform takes it."""
        mark = "greenplum" if self.mpp else "postgresql"
        sql = re.sub(r"/\* " + mark + r": (.*?) \*/", r"\1", sql, flags=re.DOTALL)
        if self.kernel < PARALLEL_SINCE:
            sql = re.sub(r"(, )?\bPARALLEL (= )?(SAFE|RESTRICTED|UNSAFE)\b", "", sql)
        return sql

    def host_settings(self, cur: Any) -> dict[str, str]:
        """Return the settings `segments@HOST`: how many segments score at once on each host."""
        if not self.mpp:
            return {}
        # gp_id has one row on each segment, so this runs once on every one of them
        cur.execute("SELECT dbinfer_private.place() FROM gp_dist_random('gp_id')")
        hosts = [str(row[0]).split()[0] for row in cur.fetchall()]
        return {f"segments@{host}": str(hosts.count(host)) for host in set(hosts)}


def detect(conn: Any) -> Platform:
    """Return the platform of a connection."""
    with conn.cursor() as cur:
        cur.execute(
            "SELECT pg_catalog.version(), pg_catalog.current_setting('server_version_num')::pg_catalog.int4"
        )
        text, kernel = cur.fetchone()
        # The catalog decides: in the text of its version each fork names itself in its own way
        cur.execute("SELECT pg_catalog.to_regclass('pg_catalog.gp_segment_configuration')")
        catalog = cur.fetchone()[0]
        if catalog is None:
            return Platform("postgresql", text.split()[1], kernel, 0)
        cur.execute(
            "SELECT pg_catalog.count(*) FROM pg_catalog.gp_segment_configuration "
            # Mirrors do not score, and content -1 is the coordinator
            "WHERE role OPERATOR(pg_catalog.=) 'p' AND content OPERATOR(pg_catalog.>=) 0"
        )
        segments = cur.fetchone()[0]
    for word, name in MPP_NAMES:
        found = re.search(word + r"(?: Database)? ([^)\s]+)", text)
        if found:
            return Platform(name, found.group(1), kernel, segments)
    return Platform("greenplum", text.split()[1], kernel, segments)
