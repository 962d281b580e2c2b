"""Asks a server's catalog what it has of Greenplum, whatever it calls itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# What dbinfer stands on where rows lie on segments, and the columns that show it
NEEDED = {
    "segments in a catalog": ("gp_segment_configuration.content", "gp_segment_configuration.role"),
    "replicated tables": ("gp_distribution_policy.policytype",),
    "tables on some of the segments": ("gp_distribution_policy.numsegments",),
    "one row on every segment": ("gp_id.ctid",),
    "EXECUTE ON ALL SEGMENTS": ("pg_proc.proexeclocation",),
}
COLUMNS = tuple(column for columns in NEEDED.values() for column in columns)
SETTINGS = ("gp_internal_is_singlenode", "gp_role", "optimizer")
# Tables and columns, because a server without to_regclass is asked, too
COLUMN_QUERY = """
SELECT pg_catalog.textcat(pg_catalog.textcat(c.relname::pg_catalog.text, '.'), a.attname::pg_catalog.text)
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) a.attrelid
  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
 WHERE n.nspname OPERATOR(pg_catalog.=) 'pg_catalog'
   AND c.relname::pg_catalog.text OPERATOR(pg_catalog.=) ANY (%s)
"""
SETTING_QUERY = """
SELECT name, setting FROM pg_catalog.pg_settings
 WHERE name::pg_catalog.text OPERATOR(pg_catalog.=) ANY (%s)
"""
ORCA_QUERY = (
    "SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc "
    "WHERE proname::pg_catalog.text OPERATOR(pg_catalog.=) 'gp_opt_version'"
)


@dataclass(frozen=True)
class Features:
    """What was found.

    Attributes:
        found: names of NEEDED that the catalog shows; none on PostgreSQL.
        lacking: the others.
        orca: on, off, or "" without that planner.
        role: dispatch; or utility where the session talks to one node alone; "" on PostgreSQL.
        single_node: a server of the family without segments, as Cloudberry has it.
    """

    found: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    orca: str = ""
    role: str = ""
    single_node: bool = False

    @property
    def family(self) -> bool:
        """Return whether the catalog is that of Greenplum or a relative."""
        return bool(self.found)

    def __str__(self) -> str:
        planner = f"the planner ORCA ({self.orca})" if self.orca else "no ORCA"
        return ", ".join((*self.found, planner, *(f"no {name}" for name in self.lacking)))


def probe(cur: Any) -> Features:
    """Return the features of the server behind a cursor; one query on PostgreSQL."""
    cur.execute(COLUMN_QUERY, (sorted({column.partition(".")[0] for column in COLUMNS}),))
    there = {row[0] for row in cur.fetchall()}
    if not any(column.startswith("gp_") for column in there):
        return Features()
    settings = _settings(cur)
    cur.execute(ORCA_QUERY)
    orca = settings.get("optimizer", "") if cur.fetchone()[0] else ""
    has = {name: there.issuperset(columns) for name, columns in NEEDED.items()}
    return Features(
        tuple(name for name in NEEDED if has[name]),
        tuple(name for name in NEEDED if not has[name]),
        orca,
        settings.get("gp_role", ""),
        settings.get("gp_internal_is_singlenode") == "on",
    )


def _settings(cur: Any) -> dict[str, str]:
    cur.execute(SETTING_QUERY, (list(SETTINGS),))
    return dict(cur.fetchall())
