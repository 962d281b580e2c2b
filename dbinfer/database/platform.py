"""Which server answers, by its version string and its catalog, and what differs between PostgreSQL, Greenplum and
their relatives.

SQL files are valid on PostgreSQL as they stand. What is special on one platform stands in a comment like
`/* greenplum: DISTRIBUTED REPLICATED */`, which `adapt` opens on that platform. Greenplum 6 and 7, WarehousePG,
Greengage and Cloudberry are all `greenplum` to the SQL files. What Greenplum 6, a PostgreSQL 9.4, takes in place of
some text stands before that text: `/* greenplum6: instead */ text /* :greenplum6 */`. Without the end mark it is added.
In PL/Python the marks are lines: `# greenplum6: instead`, the text, `# :greenplum6`.

A database may have the tables alone (`dbinfer install --tables-only`): no PL/Python, and one role without further
rights owns everything. What it takes instead of some text is marked in the same way: `/* tables-only: instead */`. A
function in PL/Python without such a text says there that workers score.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

# A name as it stands before its version, in parentheses alone or with the version. The first that is found counts:
# a descendant of Greenplum may still name Greenplum as well
RELATIVES = (
    ("Apache Cloudberry", "cloudberry"),
    ("Cloudberry Database", "cloudberry"),
    ("Greengage Database", "greengage"),
    ("WarehousePG", "warehousepg"),
    ("Greenplum Database", "greenplum"),
)
# Speak PostgreSQL's protocol, but are other servers, which run no PL/Python 3
STRANGERS = {"cockroachdb": "CockroachDB", "redshift": "Amazon Redshift"}
# Have a version string of their own
OTHERS = (
    (r"^CockroachDB \S+ v(\S+)", "cockroachdb"),
    (r"\bRedshift (\S+)", "redshift"),
    (r"^PostgreSQL \S+?-YB-(\S+)", "yugabytedb"),
)
BRAND = re.compile(r"\(([A-Z][A-Za-z]*(?: [A-Za-z]+)*) v?([0-9][^\s)]*)[^)]*\)")


@dataclass(frozen=True)
class Product:
    """A server as it names itself.

    Attributes:
        name: postgresql, greenplum, warehousepg, greengage, cloudberry, cockroachdb, redshift or yugabytedb.
        version: of that product.
        brand: name and version of the vendor's build, where it has its own; "" without one.
    """

    name: str
    version: str
    brand: str = ""


def product(text: str) -> Product:
    """Return what `SELECT version()` names."""
    for pattern, name in OTHERS:
        found = re.search(pattern, text)
        if found:
            return Product(name, found.group(1).rstrip(","))
    for words, name in RELATIVES:
        found = re.search(rf"\({words}\)? ([^)\s]+)", text)
        if found:
            # WarehousePG names Greenplum with the version, and itself in the last word
            last = "warehousepg" if text.rstrip().endswith("WarehousePG") else name
            return Product(last, found.group(1), _brand(text))
    return Product("postgresql", text.split()[1], _brand(text))


def _brand(text: str) -> str:
    """Return the first name in parentheses that is not of the family."""
    # what follows " on " is about machine and compiler
    for name, version in BRAND.findall(text.partition(" on ")[0]):
        if all(name != words for words, _ in RELATIVES):
            return f"{name} {version}"
    return ""


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
# Tables and columns, because some of these servers have no to_regclass
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


# Whether a function that is in PL/Python where all of dbinfer is there is in another language
TABLES_ONLY_QUERY = """
SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc p
  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
  JOIN pg_catalog.pg_language l ON l.oid OPERATOR(pg_catalog.=) p.prolang
 WHERE n.nspname::pg_catalog.text OPERATOR(pg_catalog.=) 'dbinfer'
   AND p.proname::pg_catalog.text OPERATOR(pg_catalog.=) '_text'
   AND l.lanname::pg_catalog.text OPERATOR(pg_catalog.<>) 'plpython3u'
"""

FAMILY = ("greenplum", "warehousepg", "greengage", "cloudberry")
RUN = ("postgresql", "greenplum")
PARALLEL_SINCE = 90600
# Greenplum 6 is a PostgreSQL 9.4, Greenplum 7 a PostgreSQL 12; between them there is nothing that we know
GREENPLUM7 = 120000

# In place of a text in SQL, in place of lines of PL/Python, and in addition to a text
GREENPLUM6_MARKS = (
    re.compile(r"/\* greenplum6:((?:(?!\*/).)*)\*/(?:(?!/\* greenplum6:).)*?/\* :greenplum6 \*/", re.DOTALL),
    re.compile(r"# greenplum6: ([^\n]*)\n.*?# :greenplum6", re.DOTALL),
    re.compile(r"/\* greenplum6: (.*?) \*/", re.DOTALL),
)
# Words that came later, and what stands in their place where no mark can: nearly every function says PARALLEL, hints
# and comments are literals, and upgrades are frozen
GREENPLUM6_WORDS = {
    " PARALLEL SAFE": "",
    " PARALLEL RESTRICTED": "",
    " PARALLEL UNSAFE": "",
    ", PARALLEL = SAFE": "",
    " => ": " := ",
    "dbinfer_private.version_id AS integer": "dbinfer_private.version_id",
    "a.grantee::regrole::text": "pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee))",
}


@dataclass(frozen=True)
class Platform:
    """The server that a connection talks to.

    Attributes:
        name: as the version string has it: postgresql, greenplum, warehousepg, greengage or cloudberry; or of a server
            that is none of these.
        version: of the product, as it names itself.
        kernel: server_version_num of the PostgreSQL inside; 0 of servers that have none.
        segments: number of primary segments; 0 on PostgreSQL.
        brand: another product named in the version string, such as a fork.
        features: of Greenplum, which the catalog shows whatever the name is.
        tables_only: dbinfer is (or is to be) there without PL/Python: workers score.
    """

    name: str
    version: str
    kernel: int
    segments: int
    brand: str = ""
    features: Features = field(default_factory=Features)
    tables_only: bool = False

    @property
    def mpp(self) -> bool:
        """Return whether rows lie on segments."""
        return self.segments > 0

    @property
    def warning(self) -> str:
        """Return what is unusual about this server, in one sentence; "" for those on which dbinfer was run."""
        if self.mpp and self.name == "postgresql":
            named = f"{self.brand or 'no name that we know'}"
            return f"the catalog is a relative of Greenplum's, with {named}; it has {self.features}"
        if self.name in FAMILY and not self.features.family:
            return f"the server calls itself {self.name}, but has none of Greenplum's catalog"
        if self.name not in RUN:
            return f"nobody has run dbinfer on {self.name} yet"
        return ""

    def __str__(self) -> str:
        words = f"{self.name} {self.version}"
        if not self.features.family:
            return words
        brand = f" ({self.brand})" if self.brand else ""
        nodes = "a single node" if self.features.single_node else f"{self.segments} segments"
        return f"{words}{brand}, kernel {_release(self.kernel)}, {nodes}"

    def adapt(self, sql: str) -> str:
        """Return a SQL file's text as this platform takes it."""
        mark = "greenplum" if self.mpp else "postgresql"
        sql = re.sub(r"/\* " + mark + r": (.*?) \*/", r"\1", sql, flags=re.DOTALL)
        sql = _for_tables_only(sql) if self.tables_only else sql
        return _for_greenplum6(sql) if self.mpp and self.kernel < GREENPLUM7 else sql

    def host_settings(self, cur: Any) -> dict[str, str]:
        """Return the settings `segments@HOST`: how many segments score at once on each host."""
        if not self.mpp or self.tables_only:
            return {}
        # gp_id has one row on each segment, so this runs once on every one of them
        cur.execute("SELECT dbinfer_private.place() FROM gp_dist_random('gp_id')")
        hosts = [str(row[0]).split()[0] for row in cur.fetchall()]
        return {f"segments@{host}": str(hosts.count(host)) for host in set(hosts)}


TABLES_ONLY_MARKS = (
    re.compile(
        r"/\* tables-only:((?:(?!\*/).)*)\*/(?:(?!/\* tables-only:).)*?/\* :tables-only \*/", re.DOTALL
    ),
    re.compile(r"/\* tables-only: (.*?) \*/", re.DOTALL),
)
IN_PYTHON = re.compile(r"LANGUAGE plpython3u\b([^$]*)AS \$\$.*?\$\$", re.DOTALL)
WORKERS_SCORE = """LANGUAGE plpgsql\\1AS $$
BEGIN
  RAISE feature_not_supported USING MESSAGE = 'this database scores by workers, not in its own processes',
    HINT = 'Run dbinfer score or dbinfer worker, or SELECT dbinfer.request(img). '
      'Where there is PL/Python, a superuser can install the rest: dbinfer install.';
END $$"""
# The role that installs owns everything and administers: no role is made
OWNER = "r.oid = (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'dbinfer')"
TABLES_ONLY_WORDS = {
    r"(?:CREATE|COMMENT ON) ROLE dbinfer_owner (?:NOLOGIN|IS '[^']*');": "NULL;",
    r"(?:SET LOCAL ROLE dbinfer_owner|RESET ROLE);": "",
    r"AUTHORIZATION dbinfer_owner\b": "",
    r"\bTO (?:dbinfer_owner|dbinfer_admin);": "TO CURRENT_USER;",
    r"r\.rolname = 'dbinfer_admin'": OWNER,
    r"r\.rolname IN \('dbinfer_admin', 'pg_monitor'\)": f"({OWNER} OR r.rolname = 'pg_monitor')",
}


def _for_tables_only(sql: str) -> str:
    """Return a text as a database without PL/Python takes it, for a role that may create schemas."""
    for mark in TABLES_ONLY_MARKS:
        sql = mark.sub(r"\1", sql)
    sql = IN_PYTHON.sub(WORKERS_SCORE, sql)
    for words, instead in TABLES_ONLY_WORDS.items():
        sql = re.sub(words, instead, sql)
    return sql


def _for_greenplum6(sql: str) -> str:
    """Return a text as a PostgreSQL 9.4 takes it."""
    for mark in GREENPLUM6_MARKS:
        sql = mark.sub(r"\1", sql)
    for word, instead in GREENPLUM6_WORDS.items():
        sql = sql.replace(word, instead)
    return sql


def detect(conn: Any) -> Platform:
    """Return the platform of a connection: its name as the server says it, everything else as the catalog shows it."""
    with conn.cursor() as cur:
        # Alone: servers that only speak the protocol may refuse what else is asked
        cur.execute("SELECT pg_catalog.version()")
        named = product(cur.fetchone()[0])
        if named.name in STRANGERS:
            return Platform(named.name, named.version, 0, 0, named.brand)
        cur.execute("SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4")
        kernel = int(cur.fetchone()[0])
        cur.execute(TABLES_ONLY_QUERY)
        tables_only = bool(cur.fetchone()[0])
        # The catalog decides: in the text of its version each fork names itself in its own way
        features = probe(cur)
        segments = _segments(cur) if features.family and not features.single_node else 0
    return Platform(
        name=named.name,
        version=named.version,
        kernel=kernel,
        segments=segments,
        brand=named.brand,
        features=features,
        tables_only=tables_only,
    )


def _segments(cur: Any) -> int:
    cur.execute(
        "SELECT pg_catalog.count(*) FROM pg_catalog.gp_segment_configuration "
        # Mirrors do not score, and content -1 is the coordinator
        "WHERE role OPERATOR(pg_catalog.=) 'p' AND content OPERATOR(pg_catalog.>=) 0"
    )
    return int(cur.fetchone()[0])


def _release(kernel: int) -> str:
    """Return the release of PostgreSQL as people say it: 9.4, 12."""
    return f"{kernel // 10000}.{kernel // 100 % 100}" if kernel < 100000 else str(kernel // 10000)
