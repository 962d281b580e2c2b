"""install and upgrade: a database is compared with this distribution and changed in one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import psycopg2
from psycopg2.extensions import cursor as Cursor

from dbinfer._version import __version__
from dbinfer.backends import Check, check_backends, unfinished
from dbinfer.connection import Installed, not_installed
from dbinfer.errors import InstallError
from dbinfer.install import roles
from dbinfer.install._steps import (
    any_session,
    apply,
    check_frozen,
    check_schemas,
    installed,
    keep_code,
    make_extension,
    outdated,
    pending,
    settings_of,
    transaction,
    write_settings,
)
from dbinfer.install.content import Content
from dbinfer.install.engines import ask
from dbinfer.install.foreign import check_foreign
from dbinfer.install.possible import check_offer, check_server, note
from dbinfer.install.report import InstallOptions, InstallReport, UpgradeOptions
from dbinfer.platform import Platform, detect
from dbinfer.progress import OnProgress, Progress, silent

DEFAULT_VENV = "/opt/dbinfer/venv"
LOCK_WAIT = "10s"


def install(
    options: InstallOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> InstallReport:
    """Make roles, schemas, tables, functions and runtime in a database, and look whether its backends can score.

    Run again it changes nothing but the settings that are named. One of another version it leaves to `upgrade`.

    Raises:
        InstallError: no superuser, no PL/Python, or objects of that name that are not ours; or settings for a dbinfer
            that is older or newer than this client.
        UsageError: a setting that cannot be.
    """
    progress(Progress("installing"))
    options = options or InstallOptions()
    # options.settings: what is wrong with them comes before the server is asked
    old = _settings_that_work(dsn) if options.settings().get("venv") else {}
    report = _install(dsn, options)
    if report.changed and (options.engine_idle_seconds or options.engine_memory_mb):
        # an engine has the settings that it was started with
        _tell_engines(dsn, "stop")
    progress(Progress("asking the backends"))
    # a session of its own: backends of this one may have read the settings before they were changed
    with any_session(dsn, autocommit=True) as conn, conn.cursor() as cur:
        found = installed(cur)
        if found is None or found.order:
            return report
        checks = check_backends(conn, detect(conn), settings_of(cur))
    unfit = _unfit(checks, options.venv)
    if unfit is not None and old.get("venv") not in (None, options.venv):
        _put_back(dsn, old, options, unfit)
    return replace(report, problems=tuple(check for check in checks if not check.ok))


def _unfit(checks: Sequence[Check], venv: str | None) -> Check | None:
    """Return the check that finds a virtual environment unfit; None where there is none."""
    return next((check for check in checks if not check.ok and venv and venv in check.detail), None)


def _settings_that_work(dsn: str | None) -> dict[str, str]:
    """Return the settings of a database of this version whose backends can use its venv; else none."""
    with any_session(dsn, autocommit=True) as conn, conn.cursor() as cur:
        found = installed(cur)
        if found is None or found.order:
            return {}
        old = settings_of(cur)
        return {} if _unfit(check_backends(conn, detect(conn), old), old.get("venv")) else old


def _put_back(dsn: str | None, old: dict[str, str], options: InstallOptions, unfit: Check) -> None:
    """Put the old settings back, with which sessions may go on to score, and raise why."""
    with transaction(dsn) as conn, conn.cursor() as cur:
        named = dict(options.settings())
        cur.execute("DELETE FROM dbinfer_private.setting WHERE name = ANY (%s)", (list(named),))
        write_settings(cur, {name: old[name] for name in named if name in old})
    raise InstallError(f"{unfit.detail}; the setting venv stays {old['venv']}", unfit.hint)


def _install(dsn: str | None, options: InstallOptions, upgrading: bool = False) -> InstallReport:
    settings, content = options.settings(), Content()
    with transaction(dsn) as conn, conn.cursor() as cur:
        platform = detect(conn)
        # first: what follows asks for what some servers do not have
        check_server(platform)
        found = installed(cur)
        if found is not None:
            check_foreign(cur, platform, content)
            return _already(cur, found, dict(settings), content, upgrading)
        check_offer(cur, platform)
        check_schemas(cur)
        made_extension = make_extension(cur, platform)
        apply(cur, platform, content, options.adopt_role)
        write_settings(cur, {"venv": DEFAULT_VENV, **settings, "made_extension": str(made_extension)})
        message = f"dbinfer {__version__} is installed on {platform}.{note(platform)}"
        return _with_administrators(cur, InstallReport(True, message, __version__))


def _with_administrators(cur: Cursor, report: InstallReport) -> InstallReport:
    """Name who may deploy here because of a membership that another database of the cluster gave."""
    names = tuple(roles.members(cur))
    more = f" Members of {roles.ADMIN}, who may deploy here: {', '.join(names)}." if names else ""
    return replace(report, message=report.message + more, administrators=names)


def _already(
    cur: Cursor, found: Installed, settings: dict[str, str], content: Content, upgrading: bool
) -> InstallReport:
    version, have = found.release, settings_of(cur)
    other = {key: value for key, value in settings.items() if have.get(key) != value}
    if found.order and not upgrading:
        refusal = found.refusal(InstallError)
        if other:
            raise refusal
        return InstallReport(False, f"{refusal.message}; nothing changed. {refusal.cure}", version)
    if other:
        write_settings(cur, other)
        names = ", ".join(f"{key} = {value}" for key, value in other.items())
        return InstallReport(
            True, f"dbinfer {version} is already installed; changed settings: {names}.", version
        )
    if outdated(have, content) or roles.lacks_rights(cur):
        return InstallReport(
            False,
            f"dbinfer {version} is already installed, but differs from this client: dbinfer upgrade.",
            version,
        )
    return InstallReport(False, f"dbinfer {version} is already installed; nothing changed.", version)


def upgrade(
    options: UpgradeOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> InstallReport:
    """Bring the objects and the runtime in the database to the state of this distribution.

    Raises:
        InstallError: dbinfer is not installed there, is newer, or an applied upgrade was edited; or its schemas hold
            objects of others.
    """
    progress(Progress("upgrading"))
    report = _upgrade(options or UpgradeOptions(), dsn)
    if report.changed:
        _tell_engines(dsn, "replace")
    return report


def _tell_engines(dsn: str | None, action: str) -> None:
    """Tell engines to finish and go; what they do not hear they do when nobody asks them any more."""
    with (
        contextlib.suppress(psycopg2.Error, InstallError),
        any_session(dsn, autocommit=True) as conn,
    ):
        ask(conn, action)


def _upgrade(options: UpgradeOptions, dsn: str | None) -> InstallReport:
    content = Content()
    with transaction(dsn) as conn, conn.cursor() as cur:
        platform = detect(conn)
        # first: in utility mode the coordinator has no row of our tables
        check_server(platform)
        found = installed(cur)
        if found is None:
            raise not_installed(InstallError)
        version = found.release
        expansion = unfinished(conn, platform)
        if expansion is not None:
            raise InstallError(expansion.detail, expansion.hint)
        # Before our first change, which might fire a trigger of somebody else
        check_foreign(cur, platform, content)
        if found.newer:
            raise found.refusal(InstallError)
        check_frozen(cur, content)
        if not (outdated(settings_of(cur), content) or pending(cur, content) or roles.lacks_rights(cur)):
            return _follow_hosts(cur, platform, _follow_python(cur, version))
        # Asked before `apply`, which changes the owner
        was_owned = roles.owned_by_old_owner(cur)
        with _not_for_ever(cur):
            apply(cur, platform, content, options.adopt_role)
        if was_owned:
            roles.keep_deployers(cur)
        change = (
            f"from {version} to {__version__}" if version != __version__ else f"to this client's {version}"
        )
        message = f"dbinfer is upgraded {change}; open sessions follow at their next statement."
        return _with_administrators(cur, InstallReport(True, message, __version__))


@contextmanager
def _not_for_ever(cur: Cursor) -> Iterator[None]:
    """Give up where open transactions hold the tables: whoever scores would queue behind us."""
    # true: until the transaction ends, so that a pooler's next client does not get it
    cur.execute("SELECT pg_catalog.set_config('lock_timeout', %s, true)", (LOCK_WAIT,))
    try:
        yield
    except psycopg2.errors.LockNotAvailable as err:
        raise InstallError(
            f"open transactions that have scored still held the tables of dbinfer after {LOCK_WAIT}; nothing changed",
            "End them, then upgrade again. To list them: SELECT pid, state, query FROM pg_stat_activity",
        ) from err


def _follow_python(cur: Cursor, version: str) -> InstallReport:
    """Compile the runtime anew where the server has another Python since."""
    if keep_code(cur):
        message = (
            f"dbinfer {version} is up to date; its runtime is compiled anew, for the server's Python of now."
        )
        return InstallReport(True, message, version)
    return InstallReport(False, f"dbinfer {version} is up to date; nothing changed.", version)


def _follow_hosts(cur: Cursor, platform: Platform, report: InstallReport) -> InstallReport:
    """Note segments that were added or moved since; they decide how many threads each one takes."""
    hosts = platform.host_settings(cur)
    have = {key: value for key, value in settings_of(cur).items() if key.startswith("segments@")}
    if hosts == have:
        return report
    cur.execute("DELETE FROM dbinfer_private.setting WHERE name LIKE 'segments@%'")
    write_settings(cur, hosts)
    found = ", ".join(f"{key.partition('@')[2]} {value}" for key, value in sorted(hosts.items()))
    message = f"dbinfer {report.version} is up to date; segments per host are now: {found}."
    return replace(report, changed=True, message=message)


def ensure(dsn: str | None = None, venv: str | None = None) -> InstallReport:
    """Install where it is missing, upgrade where it is older, write the venv where it changed; nothing else."""
    first = _install(dsn, InstallOptions(venv=venv), upgrading=True)
    following = upgrade(dsn=dsn)
    return following if following.changed and not first.changed else first
