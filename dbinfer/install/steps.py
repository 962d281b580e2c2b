"""The steps of install and upgrade: what the server must offer, then in one transaction objects of others, roles, SQL
files, runtime and settings.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import psycopg2
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import InstallError
from dbinfer.base.version import __version__
from dbinfer.database.connection import Installed, one, sentence, session
from dbinfer.database.platform import STRANGERS, Platform
from dbinfer.database.sql import read
from dbinfer.install.content import Content, Upgrade

# The role in which each service keeps what it leaves of a superuser, and its name
SERVICES = {
    "rds_superuser": "Amazon RDS or Aurora",
    "alloydbsuperuser": "Google AlloyDB",
    "cloudsqlsuperuser": "Google Cloud SQL",
    "azure_pg_admin": "Azure Database for PostgreSQL",
    "supabase_admin": "Supabase",
    "neon_superuser": "Neon",
    "avnadmin": "Aiven",
    "doadmin": "DigitalOcean",
    "tsdbadmin": "Timescale",
}
# Upgrades and functions use what PostgreSQL 12 brought; Greenplum 6 gets other text (database/platform.py)
OLDEST = 120000
APART = (
    "Run a PostgreSQL of your own beside it, which reads the images there: "
    "docs/explanation/platforms.md#managed-services"
)
BESIDE = (
    "Install the tables alone, and score by workers outside: dbinfer install --tables-only "
    "(docs/explanation/platforms.md#managed-services)."
)
ROLE_QUERY = "SELECT rolname, rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user"
LANGUAGE_QUERY = (
    "SELECT (SELECT count(*) FROM pg_catalog.pg_language WHERE lanname = 'plpython3u')"
    " + (SELECT count(*) FROM pg_catalog.pg_available_extensions WHERE name = 'plpython3u')"
)
SERVICE_QUERY = "SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = ANY (%s)"


@dataclass(frozen=True)
class Offer:
    """What a server offers to the role that asks.

    Attributes:
        role: its name; superuser: whether it is one.
        python: whether PL/Python 3 is there, or can be made.
        service: the managed service that the roles of the server point to; "" without one.
        sign: the role that points to it.
    """

    role: str
    superuser: bool
    python: bool
    service: str = ""
    sign: str = ""


def check_server(platform: Platform) -> None:
    """Refuse servers on which nothing of dbinfer could run, and sessions that see one node of a cluster alone.

    Raises:
        InstallError: another kind of server, one that is too old, a relative of Greenplum that lacks something, or
            utility mode.
    """
    if platform.name in STRANGERS:
        raise InstallError(f"{STRANGERS[platform.name]} {platform.version} has no PL/Python 3", APART)
    if not platform.mpp:
        if platform.kernel < OLDEST:
            raise InstallError(
                f"{platform} is too old: dbinfer needs a server that is PostgreSQL 12 or newer inside",
                "Upgrade the server; docs/explanation/platforms.md says on which ones dbinfer was run.",
            )
        return
    if platform.features.lacking:
        missing = ", ".join(platform.features.lacking)
        raise InstallError(
            f"{platform.name} {platform.version} lacks what dbinfer needs on a cluster: {missing}",
            "Use a newer release; docs/explanation/platforms.md says which servers have it.",
        )
    if platform.features.role == "utility":
        raise InstallError(
            "this session is in utility mode (gp_role), which reaches one node of the cluster alone",
            "Connect to the coordinator without gp_role=utility in $PGOPTIONS and in the connection string.",
        )


def note(platform: Platform) -> str:
    """Return what is unusual about the server, as a sentence that follows another; "" for most."""
    return f" Note: {platform.warning}." if platform.warning else ""


def check_offer(cur: Cursor, platform: Platform) -> None:
    """Refuse a role and a server with which no function in PL/Python can be made.

    Raises:
        InstallError: no superuser, or no PL/Python.
    """
    found = offer(cur)
    if not (found.superuser and found.python):
        raise refusal(found, platform)


def offer(cur: Cursor) -> Offer:
    """Ask the catalog; nothing is tried, because a refused statement would abort the transaction."""
    cur.execute(ROLE_QUERY)
    role, superuser = cur.fetchone() or ("", False)
    cur.execute(LANGUAGE_QUERY)
    python = bool(one(cur))
    cur.execute(SERVICE_QUERY, (list(SERVICES),))
    signs = {row[0] for row in cur.fetchall()}
    sign = next((name for name in SERVICES if name in signs), "")
    return Offer(role, superuser, python, SERVICES.get(sign, ""), sign)


def refusal(found: Offer, platform: Platform) -> InstallError:
    """Return the error for an offer that is not enough."""
    if found.service and not found.superuser:
        service = f"{found.service} (its role {found.sign!r} is here)"
        if found.python:
            message = (
                f"role {found.role!r} is not a superuser, and {service} does not make anyone a superuser"
            )
        else:
            message = f"{service} does not offer PL/Python (language plpython3u), in which dbinfer runs"
        return InstallError(message, BESIDE)
    if found.superuser:
        return InstallError("the server does not have PL/Python (language plpython3u)", _hint(platform))
    if found.python:
        return InstallError(
            f"role {found.role!r} is not a superuser, and creating functions in PL/Python takes one",
            f"Connect as a superuser. {BESIDE}",
        )
    return InstallError(
        f"role {found.role!r} is not a superuser, and the server does not have PL/Python (language plpython3u)",
        f"{BESIDE} Where you can have both: {_hint(platform)}",
    )


def _hint(platform: Platform) -> str:
    if platform.features.family:
        return (
            "Install the PL/Python 3 of that server on all of its hosts; "
            "docs/explanation/platforms.md says where it comes from."
        )
    return f"Install it on the server's host: apt-get install postgresql-plpython3-{platform.kernel // 10000}"


SHOWN = 5


def check_tables_offer(cur: Cursor, platform: Platform) -> None:
    """Refuse a role that cannot make schemas, and a server in which tables alone are not enough.

    Raises:
        InstallError: names what is missing.
    """
    if platform.kernel < OLDEST:
        raise InstallError(
            f"{platform} is too old for tables alone, which need what a PostgreSQL 12 has",
            "Install with PL/Python, as a superuser: dbinfer install",
        )
    cur.execute(
        "SELECT current_user, current_database(), has_database_privilege(current_database(), 'CREATE')"
    )
    role, database, may = cur.fetchone() or ("", "", False)
    if not may:
        raise InstallError(
            f"role {role!r} may not create schemas in the database {database!r}",
            f"Let its owner run: GRANT CREATE ON DATABASE {database} TO {role}",
        )


def check_foreign(cur: Cursor, platform: Platform, content: Content) -> None:
    """Refuse a database whose schemas hold what is not ours.

    Raises:
        InstallError: names what was found.
    """
    cur.execute(
        platform.adapt(read("install/foreign.sql")),
        {"functions": content.functions, "relations": content.relations},
    )
    found = [str(name) for (name,) in cur.fetchall()]
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise InstallError(
            f"the schemas of dbinfer hold what is not ours: {', '.join(found[:SHOWN])}{more}",
            "It would run with your rights. Look at it, then drop it or move it elsewhere.",
        )


def act_as_owner(cur: Cursor, platform: Platform) -> None:
    """Let the rest of the transaction run as the role that owns the tables, if they are all there is.

    Raises:
        InstallError: this role is neither that one nor a member of it.
    """
    if not platform.tables_only:
        return
    cur.execute("SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'dbinfer_private'")
    owner = one(cur)
    try:
        cur.execute("SELECT pg_catalog.set_config('role', %s, true)", (owner,))
    except psycopg2.Error as err:
        raise InstallError(
            f"dbinfer belongs to the role {owner!r} in this database, and only that role may change it",
            f"Connect as {owner}, or as a member of it.",
        ) from err


ADMIN = "dbinfer_admin"
ADMIN_COMMENT = "dbinfer: its members deploy and manage models, and may do nothing else"
OLD_OWNER = "dbinfer_owner"
OLD_OWNER_COMMENT = "owns the objects of dbinfer; its members deploy and manage models"

MEMBERS = """
SELECT r.rolname FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles r ON r.oid = m.member
 WHERE m.roleid = (SELECT o.oid FROM pg_catalog.pg_roles o WHERE o.rolname = %s) AND NOT r.rolsuper ORDER BY 1
"""


def comment(cur: Cursor, role: str) -> tuple[bool, str | None]:
    """Return whether a role exists, and its comment."""
    cur.execute(
        "SELECT pg_catalog.shobj_description(oid, 'pg_authid') FROM pg_catalog.pg_roles WHERE rolname = %s",
        (role,),
    )
    row = cur.fetchone()
    return row is not None, row[0] if row else None


def members(cur: Cursor, role: str = ADMIN) -> list[str]:
    """Return the direct members of a role."""
    cur.execute(MEMBERS, (role,))
    return [name for (name,) in cur.fetchall()]


def make_admin(cur: Cursor, adopt: bool) -> None:
    """Make the administrator's role, or check that the existing one is ours.

    Raises:
        InstallError: a role of that name is not ours, was not adopted before, and `adopt` is False.
    """
    # Roles belong to the whole cluster; only their comment says that dbinfer made them
    exists, said = comment(cur, ADMIN)
    if not exists:
        cur.execute(f"CREATE ROLE {ADMIN} NOLOGIN")
        cur.execute(f"COMMENT ON ROLE {ADMIN} IS %s", (ADMIN_COMMENT,))
    elif said != ADMIN_COMMENT and not adopt and lacks_rights(cur):
        raise _not_ours(cur, ADMIN)


def check_old_owner(cur: Cursor, adopt: bool) -> bool:
    """Return whether 0.1.0's owner role is there already: a fresh installation passes through it.

    Raises:
        InstallError: a role of that name is not ours, and `adopt` is False.
    """
    exists, said = comment(cur, OLD_OWNER)
    if exists and said != OLD_OWNER_COMMENT and not adopt:
        raise _not_ours(cur, OLD_OWNER)
    return exists


def _not_ours(cur: Cursor, role: str) -> InstallError:
    names = ", ".join(members(cur, role))
    who = f"its members ({names})" if names else "roles that are granted it"
    return InstallError(
        f"a role {role} exists already and was not made by dbinfer: {who} could deploy models",
        f"Rename it, or use it as it is: dbinfer install --adopt-role ({role} keeps its members).",
    )


def keep_deployers(cur: Cursor) -> None:
    """Let the members of 0.1.0's owner role go on deploying."""
    if comment(cur, OLD_OWNER) == (True, OLD_OWNER_COMMENT):
        cur.execute(f"GRANT {ADMIN} TO {OLD_OWNER}")


def owned_by_old_owner(cur: Cursor) -> bool:
    """Return whether the schemas still belong to 0.1.0's owner role."""
    cur.execute(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner "
        "WHERE n.nspname = 'dbinfer_private' AND r.rolname = %s)",
        (OLD_OWNER,),
    )
    return bool(one(cur))


def lacks_rights(cur: Cursor, platform: Platform | None = None) -> bool:
    """Return whether the administrator's role, or one of its rights here, is missing: after a restore, for example.

    Where the tables are alone, their owner administers, and nothing can be missing.
    """
    if platform is not None and platform.tables_only:
        return False
    cur.execute(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace, "
        "LATERAL pg_catalog.aclexplode(p.proacl) a JOIN pg_catalog.pg_roles r ON r.oid = a.grantee "
        "WHERE n.nspname = 'dbinfer' AND p.proname = 'activate' AND r.rolname = %s)",
        (ADMIN,),
    )
    return bool(one(cur))


def drop(cur: Cursor) -> list[str]:
    """Return the statements that drop those roles which we made."""
    ours = ((ADMIN, ADMIN_COMMENT), (OLD_OWNER, OLD_OWNER_COMMENT))
    return [f"DROP ROLE {role}" for role, said in ours if comment(cur, role) == (True, said)]


HAS_CODE = "SELECT dbinfer_private.has_code()"
KEEP_CODE = "SELECT dbinfer_private.keep_code()"

any_session = partial(session, error=InstallError, needs_dbinfer=False)
transaction = partial(any_session, catalog_only=True)


def installed(cur: Cursor) -> Installed | None:
    """Return which dbinfer this database has, or None; for superusers, also before 0.2.0."""
    cur.execute(
        # A table: a view of that name, planted by another user, would run with a superuser's rights
        "SELECT relkind OPERATOR(pg_catalog.=) 'r' FROM pg_catalog.pg_class "
        "WHERE oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('dbinfer_private.setting')::pg_catalog.oid"
    )
    release = settings_of(cur).get("version") if one(cur) else None
    if release is None:
        return None
    cur.execute("SELECT pg_catalog.count(*) FROM dbinfer_private.upgrade")
    return Installed(release, int(one(cur)))


def settings_of(cur: Cursor) -> dict[str, str]:
    """Return the settings that are stored in the database; none where it has no dbinfer."""
    cur.execute("SELECT name, value FROM dbinfer_private.setting")
    return dict(cur.fetchall())


def check_schemas(cur: Cursor) -> None:
    """Raise where schemas of our names exist already."""
    cur.execute(
        "SELECT string_agg(nspname, ', ') FROM pg_catalog.pg_namespace WHERE nspname IN ('dbinfer', 'dbinfer_private')"
    )
    taken = one(cur)
    if taken:
        raise InstallError(
            f"schema {taken} already exists and does not belong to dbinfer",
            "Rename or drop that schema, then install again.",
        )


def make_extension(cur: Cursor, platform: Platform) -> bool:
    """Create PL/Python where it is missing; return whether it was."""
    cur.execute("SELECT count(*) FROM pg_language WHERE lanname = 'plpython3u'")
    if one(cur):
        return False
    try:
        cur.execute("CREATE EXTENSION plpython3u")
    except (psycopg2.errors.UndefinedFile, psycopg2.errors.FeatureNotSupported) as err:
        # the extension is listed, but its library or that of Python is not on the host
        raise refusal(Offer("", superuser=True, python=False), platform) from err
    return True


def apply(cur: Cursor, platform: Platform, content: Content, adopt_role: bool = False) -> None:
    """Run what this distribution has and the database lacks: upgrades, re-runnable SQL, the runtime."""
    fresh = not _has_tables(cur)
    owner_stays = True
    if not platform.tables_only:
        owner_stays = check_old_owner(cur, adopt_role) if fresh else True
        make_admin(cur, adopt_role)
    steps = content.upgrades if fresh else pending(cur, content)
    for step in steps:
        _run(cur, f"upgrades/{step.name}.sql", platform.adapt(step.sql))
    for step in steps:
        cur.execute("INSERT INTO dbinfer_private.upgrade SELECT %s, %s, now()", (step.name, step.digest))
    if not platform.tables_only:
        cur.execute(read("install/own.sql"))
    for name, sql in content.rerun.items():
        _run(cur, name, platform.adapt(sql))
    check_foreign(cur, platform, content)
    # A fresh installation runs all upgrades, and the first one made this role
    if not owner_stays:
        cur.execute(f"DROP ROLE {OLD_OWNER}")
    _keep_modules(cur, platform, content)
    write_settings(
        cur,
        {"version": __version__, "runtime_digest": content.runtime_digest, "sql_digest": content.sql_digest}
        | platform.host_settings(cur),
    )
    # After a restore roles have other oids than those that the grants remember
    cur.execute("SELECT dbinfer_private.anchor_grants()")
    if not platform.tables_only:
        # Without it backends compile the sources; where they cannot, the checks of the backends say why
        attempt(cur, KEEP_CODE)


def _keep_modules(cur: Cursor, platform: Platform, content: Content) -> None:
    """Store what backends run; where no backend runs any, the key that signs who asks."""
    cur.execute("DELETE FROM dbinfer_private.runtime_module")
    cur.execute("DELETE FROM dbinfer_private.asking")
    if platform.tables_only:
        cur.execute("INSERT INTO dbinfer_private.asking VALUES (%s)", (secrets.token_hex(32),))
        return
    for name, source in content.modules.items():
        cur.execute("INSERT INTO dbinfer_private.runtime_module VALUES (%s, %s)", (name, source))


def keep_code(cur: Cursor) -> bool:
    """Keep the runtime as this server's Python compiles it; return whether it was missing and is there now."""
    cur.execute(HAS_CODE)
    if one(cur):
        return False
    attempt(cur, KEEP_CODE)
    cur.execute(HAS_CODE)
    return bool(one(cur))


def _run(cur: Cursor, name: str, sql: str) -> None:
    """Run one of our files; an error names it."""
    try:
        cur.execute(sql)
    except psycopg2.errors.LockNotAvailable:
        # No fault of the file: the caller that set the timeout explains it
        raise
    except psycopg2.Error as err:
        refusal = sentence(err, InstallError)
        raise type(refusal)(f"sql/{name} failed: {refusal.message}", refusal.hint) from err


def _has_tables(cur: Cursor) -> bool:
    cur.execute("SELECT to_regclass('dbinfer_private.upgrade') IS NOT NULL")
    return bool(one(cur))


def pending(cur: Cursor, content: Content) -> list[Upgrade]:
    """Return the upgrades that the database has not seen."""
    cur.execute("SELECT name FROM dbinfer_private.upgrade")
    done = {row[0] for row in cur.fetchall()}
    return [step for step in content.upgrades if step.name not in done]


def check_frozen(cur: Cursor, content: Content) -> None:
    """Raise where an upgrade that has run is no longer what it was."""
    cur.execute("SELECT name, sha256 FROM dbinfer_private.upgrade")
    done = dict(cur.fetchall())
    for step in content.upgrades:
        if done.get(step.name, step.digest) != step.digest:
            raise InstallError(
                f"upgrade {step.name} was edited after this database applied it",
                "Restore the released file and put the changes into a new upgrade.",
            )


def outdated(settings: Mapping[str, str], content: Content) -> bool:
    """Return whether the database has another version, runtime or SQL than this distribution."""
    wanted = {
        "version": __version__,
        "runtime_digest": content.runtime_digest,
        "sql_digest": content.sql_digest,
    }
    return any(settings.get(key) != value for key, value in wanted.items())


def write_settings(cur: Cursor, values: Mapping[str, str]) -> None:
    """Store settings; others stay."""
    for name, value in values.items():
        cur.execute("SELECT dbinfer_private.set_setting(%s, %s)", (name, str(value)))


def drop_roles(cur: Cursor) -> None:
    """Drop the roles of dbinfer that no database needs any more."""
    for statement in drop(cur):
        # Another database of the cluster may need the role
        attempt(cur, statement)


def attempt(cur: Cursor, sql: str) -> None:
    """Run what may fail because others use the thing, without losing the transaction."""
    cur.execute("SAVEPOINT dbinfer_try")
    try:
        cur.execute(sql)
    except psycopg2.Error:
        cur.execute("ROLLBACK TO SAVEPOINT dbinfer_try")
