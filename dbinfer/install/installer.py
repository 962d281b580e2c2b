"""install, upgrade, uninstall: a database is compared with this distribution and changed in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer._version import __version__
from dbinfer.connection import connect
from dbinfer.errors import DbinferError, InstallError
from dbinfer.install.content import Content
from dbinfer.platform import Platform, detect
from dbinfer.sqlfiles import read

DEFAULT_VENV = "/opt/dbinfer/venv"
ROLE_COMMENT = "owns the objects of dbinfer; its members deploy and manage models"


@dataclass(frozen=True)
class Outcome:
    """What a command did.

    Attributes:
        changed: whether anything in the database is different now.
        message: one sentence for the user.
        version: of dbinfer in the database afterwards; None without it.
    """

    changed: bool
    message: str
    version: str | None


def installed_version(cur: Cursor) -> str | None:
    """Return the version of dbinfer in this database, or None."""
    cur.execute("SELECT to_regclass('dbinfer_private.setting') IS NOT NULL")
    if not _one(cur):
        return None
    return _settings(cur).get("version")


def _one(cur: Cursor) -> object:
    row = cur.fetchone()
    return None if row is None else row[0]


def _settings(cur: Cursor) -> dict[str, str]:
    cur.execute("SELECT name, value FROM dbinfer_private.setting")
    return dict(cur.fetchall())


def install(dsn: str | None = None, settings: Mapping[str, str] | None = None) -> Outcome:
    """Make roles, schemas, tables, functions and runtime in the database of `dsn`.

    Args:
        dsn: the database; see dbinfer.dsn.
        settings: venv, cache_dir, threads, max_models, max_image_bytes, max_image_pixels.

    Raises:
        InstallError: no superuser, no PL/Python, or objects of that name that are not ours.
    """
    with _transaction(dsn) as (conn, cur, platform):
        version = installed_version(cur)
        if version is not None:
            return _already(cur, version, dict(settings or {}))
        _check_possible(cur)
        made_extension = _make_extension(cur)
        values = {"venv": DEFAULT_VENV, **(settings or {}), "made_extension": str(made_extension)}
        _apply(cur, platform, Content())
        _write_settings(cur, values)
        conn.commit()
        return Outcome(
            True, f"dbinfer {__version__} is installed on {platform.name} {platform.version}.", __version__
        )


def _already(cur: Cursor, version: str, settings: dict[str, str]) -> Outcome:
    have = _settings(cur)
    other = {key: value for key, value in settings.items() if have.get(key) != value}
    if other:
        _write_settings(cur, other)
        cur.connection.commit()
        names = ", ".join(f"{key} = {value}" for key, value in other.items())
        return Outcome(True, f"dbinfer {version} is already installed; changed settings: {names}.", version)
    if _outdated(have, Content()):
        return Outcome(
            False,
            f"dbinfer {version} is already installed, but differs from this client: dbinfer upgrade.",
            version,
        )
    return Outcome(False, f"dbinfer {version} is already installed; nothing changed.", version)


def upgrade(dsn: str | None = None) -> Outcome:
    """Bring the objects and the runtime in the database to the state of this distribution.

    Raises:
        InstallError: dbinfer is not installed there, is newer, or an applied upgrade was edited.
    """
    with _transaction(dsn) as (conn, cur, platform):
        version = installed_version(cur)
        if version is None:
            raise InstallError(
                "dbinfer is not installed in this database.", "Install it with: dbinfer install"
            )
        if _as_tuple(version) > _as_tuple(__version__):
            raise InstallError(
                f"the database has dbinfer {version}, this client is {__version__}.",
                "Upgrade the client with pip.",
            )
        content = Content()
        _check_frozen(cur, content)
        if not _outdated(_settings(cur), content) and not _pending(cur, content):
            return Outcome(False, f"dbinfer {version} is up to date; nothing changed.", version)
        _apply(cur, platform, content)
        conn.commit()
        change = (
            f"from {version} to {__version__}" if version != __version__ else f"to this client's {version}"
        )
        return Outcome(
            True, f"dbinfer is upgraded {change}; open sessions follow at their next statement.", __version__
        )


def uninstall(dsn: str | None = None) -> Outcome:
    """Remove exactly what install made, the deployed models included.

    Raises:
        InstallError: an object of somebody else uses a function of dbinfer.
    """
    with _transaction(dsn) as (conn, cur, _platform):
        version = installed_version(cur)
        if version is None:
            return Outcome(False, "dbinfer is not installed in this database; nothing changed.", None)
        made_extension = _settings(cur).get("made_extension") == "True"
        try:
            cur.execute(read("uninstall.sql"))
        except psycopg2.errors.DependentObjectsStillExist as err:
            raise InstallError(
                f"objects of yours use dbinfer: {err.diag.message_detail}",
                "Drop them first, then uninstall again.",
            ) from err
        if made_extension:
            _try(cur, "DROP EXTENSION plpython3u RESTRICT")
        _drop_role(cur)
        conn.commit()
        return Outcome(True, f"dbinfer {version} is removed.", None)


def ensure(dsn: str | None = None, settings: Mapping[str, str] | None = None) -> Outcome:
    """Install where it is missing, upgrade where it is older, write changed settings; nothing else."""
    outcome = install(dsn, settings)
    following = upgrade(dsn)
    return following if following.changed and not outcome.changed else outcome


class _transaction:  # noqa: N801 - reads like a statement
    """A connection whose transaction is rolled back unless committed; server errors become one sentence."""

    def __init__(self, dsn: str | None) -> None:
        self.conn: Connection = connect(dsn)

    def __enter__(self) -> tuple[Connection, Cursor, Platform]:
        platform = detect(self.conn)
        return self.conn, self.conn.cursor(), platform

    def __exit__(self, kind: object, err: BaseException | None, trace: object) -> None:
        self.conn.close()
        if isinstance(err, psycopg2.errors.InsufficientPrivilege):
            raise InstallError(
                f"permission denied: {err.diag.message_primary}.",
                "Connect as a superuser: functions in PL/Python need one.",
            ) from err
        if isinstance(err, psycopg2.Error) and not isinstance(err, DbinferError):
            raise InstallError(f"the server refused: {str(err).strip()}") from err


def _check_possible(cur: Cursor) -> None:
    cur.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    if not _one(cur):
        cur.execute("SELECT current_user")
        raise InstallError(
            f"role {_one(cur)!r} is no superuser, and functions in PL/Python need one.",
            "Connect as a superuser.",
        )
    cur.execute(
        "SELECT string_agg(nspname, ', ') FROM pg_namespace WHERE nspname IN ('dbinfer', 'dbinfer_private')"
    )
    taken = _one(cur)
    if taken:
        raise InstallError(
            f"schema {taken} exists already and is not ours.", "Rename or drop it, then install again."
        )


def _make_extension(cur: Cursor) -> bool:
    cur.execute("SELECT count(*) FROM pg_language WHERE lanname = 'plpython3u'")
    if _one(cur):
        return False
    try:
        cur.execute("CREATE EXTENSION plpython3u")
    except (psycopg2.errors.UndefinedFile, psycopg2.errors.FeatureNotSupported) as err:
        cur.connection.rollback()
        cur.execute("SHOW server_version_num")
        major = int(str(_one(cur))) // 10000
        raise InstallError(
            "the server has no PL/Python (language plpython3u).",
            f"On its host: apt-get install postgresql-plpython3-{major}",
        ) from err
    return True


def _apply(cur: Cursor, platform: Platform, content: Content) -> None:
    pending = _pending(cur, content) if _has_tables(cur) else content.upgrades
    for step in pending:
        cur.execute(platform.adapt(step.sql))
    for step in pending:
        cur.execute("INSERT INTO dbinfer_private.upgrade SELECT %s, %s, now()", (step.name, step.digest))
    for sql in content.rerun.values():
        cur.execute(platform.adapt(sql))
    cur.execute("DELETE FROM dbinfer_private.runtime_module")
    for name, source in content.modules.items():
        cur.execute("INSERT INTO dbinfer_private.runtime_module VALUES (%s, %s)", (name, source))
    _write_settings(
        cur,
        {"version": __version__, "runtime_digest": content.runtime_digest, "sql_digest": content.sql_digest}
        | platform.host_settings(cur),
    )


def _has_tables(cur: Cursor) -> bool:
    cur.execute("SELECT to_regclass('dbinfer_private.upgrade') IS NOT NULL")
    return bool(_one(cur))


def _pending(cur: Cursor, content: Content) -> list:  # type: ignore[type-arg]
    cur.execute("SELECT name FROM dbinfer_private.upgrade")
    done = {row[0] for row in cur.fetchall()}
    return [step for step in content.upgrades if step.name not in done]


def _check_frozen(cur: Cursor, content: Content) -> None:
    cur.execute("SELECT name, sha256 FROM dbinfer_private.upgrade")
    done = dict(cur.fetchall())
    for step in content.upgrades:
        if done.get(step.name, step.digest) != step.digest:
            raise InstallError(
                f"upgrade {step.name} was edited after this database applied it.",
                "Restore the file as it was released; put changes into a new upgrade.",
            )


def _outdated(settings: Mapping[str, str], content: Content) -> bool:
    wanted = {
        "version": __version__,
        "runtime_digest": content.runtime_digest,
        "sql_digest": content.sql_digest,
    }
    return any(settings.get(key) != value for key, value in wanted.items())


def _write_settings(cur: Cursor, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        cur.execute("SELECT dbinfer_private.set_setting(%s, %s)", (name, str(value)))


def _drop_role(cur: Cursor) -> None:
    cur.execute("SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = 'dbinfer_owner'")
    if _one(cur) == ROLE_COMMENT:
        _try(cur, "DROP ROLE dbinfer_owner")


def _try(cur: Cursor, sql: str) -> None:
    """Run what may fail because others use the thing, without losing the transaction."""
    cur.execute("SAVEPOINT dbinfer_try")
    try:
        cur.execute(sql)
    except psycopg2.Error:
        cur.execute("ROLLBACK TO SAVEPOINT dbinfer_try")


def _as_tuple(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
