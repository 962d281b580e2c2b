"""The steps of install and upgrade inside one transaction: checks, the extension, SQL files, runtime, settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import psycopg2
from psycopg2.extensions import cursor as Cursor

from dbinfer._version import __version__
from dbinfer.connection import Installed, one, sentence, session
from dbinfer.errors import InstallError
from dbinfer.install import roles
from dbinfer.install.content import Content, Upgrade
from dbinfer.install.foreign import check_foreign
from dbinfer.install.possible import Offer, refusal
from dbinfer.platform import Platform
from dbinfer.sqlfiles import read

HAS_CODE = "SELECT dbinfer_private.has_code()"
KEEP_CODE = "SELECT dbinfer_private.keep_code()"

any_session = partial(session, error=InstallError, needs_dbinfer=False)
transaction = partial(any_session, catalog_only=True)


def installed(cur: Cursor) -> Installed | None:
    """Return which dbinfer this database has, or None; for superusers, also before 0.2.0."""
    cur.execute(
        # A table: a view of that name, which somebody has planted, would run with a superuser's rights
        "SELECT relkind OPERATOR(pg_catalog.=) 'r' FROM pg_catalog.pg_class "
        "WHERE oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('dbinfer_private.setting')::pg_catalog.oid"
    )
    release = settings_of(cur).get("version") if one(cur) else None
    if release is None:
        return None
    cur.execute("SELECT pg_catalog.count(*) FROM dbinfer_private.upgrade")
    return Installed(release, int(one(cur)))


def settings_of(cur: Cursor) -> dict[str, str]:
    cur.execute("SELECT name, value FROM dbinfer_private.setting")
    return dict(cur.fetchall())


def check_schemas(cur: Cursor) -> None:
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
    fresh = not _has_tables(cur)
    owner_stays = roles.check_old_owner(cur, adopt_role) if fresh else True
    roles.make_admin(cur, adopt_role)
    steps = content.upgrades if fresh else pending(cur, content)
    for step in steps:
        _run(cur, f"upgrades/{step.name}.sql", platform.adapt(step.sql))
    for step in steps:
        cur.execute("INSERT INTO dbinfer_private.upgrade SELECT %s, %s, now()", (step.name, step.digest))
    cur.execute(read("install/own.sql"))
    for name, sql in content.rerun.items():
        _run(cur, name, platform.adapt(sql))
    check_foreign(cur, platform, content)
    # A fresh installation runs all upgrades, and the first one made this role
    if not owner_stays:
        cur.execute(f"DROP ROLE {roles.OLD_OWNER}")
    cur.execute("DELETE FROM dbinfer_private.runtime_module")
    for name, source in content.modules.items():
        cur.execute("INSERT INTO dbinfer_private.runtime_module VALUES (%s, %s)", (name, source))
    write_settings(
        cur,
        {"version": __version__, "runtime_digest": content.runtime_digest, "sql_digest": content.sql_digest}
        | platform.host_settings(cur),
    )
    # After a restore roles have other oids than those that the grants remember
    cur.execute("SELECT dbinfer_private.anchor_grants()")
    # Without it backends compile the sources; where they cannot, whoever looks at the backends says why
    attempt(cur, KEEP_CODE)


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
        # No fault of the file: whoever set the timeout has the words for it
        raise
    except psycopg2.Error as err:
        refusal = sentence(err, InstallError)
        raise type(refusal)(f"sql/{name} failed: {refusal.message}", refusal.cure) from err


def _has_tables(cur: Cursor) -> bool:
    cur.execute("SELECT to_regclass('dbinfer_private.upgrade') IS NOT NULL")
    return bool(one(cur))


def pending(cur: Cursor, content: Content) -> list[Upgrade]:
    cur.execute("SELECT name FROM dbinfer_private.upgrade")
    done = {row[0] for row in cur.fetchall()}
    return [step for step in content.upgrades if step.name not in done]


def check_frozen(cur: Cursor, content: Content) -> None:
    cur.execute("SELECT name, sha256 FROM dbinfer_private.upgrade")
    done = dict(cur.fetchall())
    for step in content.upgrades:
        if done.get(step.name, step.digest) != step.digest:
            raise InstallError(
                f"upgrade {step.name} was edited after this database applied it",
                "Restore the released file and put the changes into a new upgrade.",
            )


def outdated(settings: Mapping[str, str], content: Content) -> bool:
    wanted = {
        "version": __version__,
        "runtime_digest": content.runtime_digest,
        "sql_digest": content.sql_digest,
    }
    return any(settings.get(key) != value for key, value in wanted.items())


def write_settings(cur: Cursor, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        cur.execute("SELECT dbinfer_private.set_setting(%s, %s)", (name, str(value)))


def drop_roles(cur: Cursor) -> None:
    for statement in roles.drop(cur):
        # Another database of the cluster may need the role
        attempt(cur, statement)


def attempt(cur: Cursor, sql: str) -> None:
    """Run what may fail because others use the thing, without losing the transaction."""
    cur.execute("SAVEPOINT dbinfer_try")
    try:
        cur.execute(sql)
    except psycopg2.Error:
        cur.execute("ROLLBACK TO SAVEPOINT dbinfer_try")
