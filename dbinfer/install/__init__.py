"""install, upgrade and uninstall: a database is compared with this distribution and changed in one transaction."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

import psycopg2
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import InstallError, UsageError
from dbinfer.base.options import check, documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.base.version import __version__
from dbinfer.database.backends import Check, check_backends, unfinished
from dbinfer.database.connection import Installed, not_installed
from dbinfer.database.platform import Platform, detect
from dbinfer.database.sql import read
from dbinfer.install import steps
from dbinfer.install.content import Content
from dbinfer.install.hosts import ask
from dbinfer.models.describe import ISOLATIONS

__all__ = ["InstallOptions", "InstallReport", "UpgradeOptions", "ensure", "install", "uninstall", "upgrade"]


# a device of OpenVINO's, or several, each also for one host
DEVICES = r"{0}( {0})*".format(r"([^\s=]+=)?[A-Z]+(\.\d+)?(:[A-Z0-9.,()-]+)?")
CHOICES = ("adopt_role", "tables_only")  # options of install that are no settings


@documented
@dataclass(frozen=True)
class InstallOptions:
    """Settings of the database; what is None stays as it is."""

    venv: str | None = option(
        None, "Virtual environment with openvino, numpy, opencv and orjson, at this path on every host."
    )
    cache_dir: str | None = option(
        None, "Folder for model files on every host. Default: in the data directory."
    )
    cache_limit_mb: int | None = option(
        None, "Size of that folder; beyond it the least recently used models go. Default: 10240.", least=1
    )
    threads: str | None = option(None, "Threads per backend: 'auto' or a number.")
    device: str | None = option(
        None,
        "What computes, in OpenVINO's names: GPU, NPU, AUTO, HETERO:GPU,CPU; 'GPU sdw3=CPU' for another on one host. "
        "A host's processor computes those models on which the two do not agree. Default: CPU.",
    )
    max_models: int | None = option(None, "How many models a backend keeps loaded. Default: 4.", least=1)
    image_cache_mb: int | None = option(
        None,
        "Size of the images from stores that a server keeps, so that they are not sent again. Default: 256.",
        least=1,
    )
    max_image_bytes: int | None = option(None, "Largest image in bytes.", least=1)
    max_image_pixels: int | None = option(None, "Largest image in pixels.", least=1)
    max_compile_seconds: float | None = option(
        None, "Refuse a model that takes longer to compile. Default: 120.", least=0.1
    )
    max_inference_seconds: float | None = option(
        None, "Refuse a model that takes longer to score one image. Default: 30.", least=0.1
    )
    max_model_mb: int | None = option(None, "Refuse a model that takes more memory. Default: 4096.", least=1)
    min_free_mb: int | None = option(
        None, "Memory of a host that must stay free when a model is loaded. Default: 64.", least=0
    )
    isolation: str | None = option(
        None,
        "Whether the host's engine runs models, outside of the database's processes: {choices}. Default: auto.",
        choices=ISOLATIONS,
    )
    engine_dir: str | None = option(
        None, "Folder of the engine's sockets on every host. Default: below /run or /tmp."
    )
    engine_idle_seconds: int | None = option(
        None, "End an engine that has been idle for this many seconds. Default: 600.", least=1
    )
    engine_memory_mb: int | None = option(
        None, "Memory of all models of an engine. Default: half of the host's.", least=1
    )
    usage: str | None = option(
        None,
        "Count who scores how many rows with which model (`dbinfer usage`): {choices}. Default: off.",
        choices=("on", "off"),
    )
    adopt_role: bool = option(False, "Use an existing role dbinfer_admin; its members may then deploy.")
    tables_only: bool = option(
        False,
        "Install what needs no PL/Python and no superuser, only the right to create schemas; `dbinfer worker` scores.",
    )

    def settings(self) -> dict[str, str]:
        """Return those that are named, as the database stores them.

        Raises:
            UsageError: `device` is none, `threads` is neither auto nor a positive number, an option has none of its
                values, or the path of a folder is not absolute.
        """
        if self.threads is not None and not re.fullmatch("auto|0*[1-9][0-9]*", self.threads):
            raise UsageError(f"--threads is {self.threads!r}, but must be 'auto' or a positive number")
        if self.device is not None and not re.fullmatch(DEVICES, self.device):
            raise UsageError(
                f"--device is {self.device!r}, but must be a device of OpenVINO's such as GPU, AUTO or HETERO:GPU,CPU, "
                "and with a host before it, for that host alone: 'CPU sdw3=GPU'"
            )
        check(self)
        for name, folder in (("--venv", self.venv), ("--cache-dir", self.cache_dir)):
            # a backend works in its data directory, and the trial of a model elsewhere
            if folder and not folder.startswith("/"):
                raise UsageError(
                    f"{name} is {folder!r}, but must be an absolute path, the same on every host"
                )
        # a backend's working directory is the data directory, and a socket's name has room for about 100 bytes
        if self.engine_dir is not None and not re.fullmatch(rb"/[^\0\n]{0,69}", self.engine_dir.encode()):
            raise UsageError(
                f"--engine-dir is {self.engine_dir!r}, but must be an absolute path of at most 70 bytes"
            )
        named = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in CHOICES}
        return {name: str(value) for name, value in named.items() if value is not None}


@documented
@dataclass(frozen=True)
class UpgradeOptions:
    """What an upgrade may do besides."""

    adopt_role: bool = option(False, "Use an existing role dbinfer_admin; its members may then deploy.")


@dataclass(frozen=True)
class InstallReport(Report):
    """What install, upgrade or uninstall did.

    Attributes:
        changed: whether anything in the database is different now.
        message: one sentence for the user.
        version: of dbinfer in the database afterwards; None without it.
        administrators: roles that may deploy here, by their membership in dbinfer_admin.
        problems: what keeps backends from scoring, each with its hint; install looks for them.
    """

    derived = ("ok",)

    changed: bool
    message: str
    version: str | None
    administrators: tuple[str, ...] = ()
    problems: tuple[Check, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether every backend can score."""
        return not self.problems


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
    with steps.any_session(dsn, autocommit=True) as conn, conn.cursor() as cur:
        found, platform = steps.installed(cur), detect(conn)
        if found is None or found.order or platform.tables_only:
            return report
        checks = check_backends(conn, platform, steps.settings_of(cur))
    unfit = _unfit(checks, options.venv)
    if unfit is not None and old.get("venv") not in (None, options.venv):
        _put_back(dsn, old, options, unfit)
    return replace(report, problems=tuple(check for check in checks if not check.ok))


def _unfit(checks: Sequence[Check], venv: str | None) -> Check | None:
    """Return the check that finds a virtual environment unfit; None where there is none."""
    return next((check for check in checks if not check.ok and venv and venv in check.detail), None)


def _settings_that_work(dsn: str | None) -> dict[str, str]:
    """Return the settings of a database of this version whose backends can use its venv; else none."""
    with steps.any_session(dsn, autocommit=True) as conn, conn.cursor() as cur:
        found = steps.installed(cur)
        if found is None or found.order or detect(conn).tables_only:
            return {}
        old = steps.settings_of(cur)
        return {} if _unfit(check_backends(conn, detect(conn), old), old.get("venv")) else old


def _put_back(dsn: str | None, old: dict[str, str], options: InstallOptions, unfit: Check) -> None:
    """Restore the old settings, with which sessions can still score, and raise the reason."""
    with steps.transaction(dsn) as conn, conn.cursor() as cur:
        named = dict(options.settings())
        cur.execute("DELETE FROM dbinfer_private.setting WHERE name = ANY (%s)", (list(named),))
        steps.write_settings(cur, {name: old[name] for name in named if name in old})
    raise InstallError(f"{unfit.detail}; the setting venv stays {old['venv']}", unfit.hint)


def _install(dsn: str | None, options: InstallOptions, upgrading: bool = False) -> InstallReport:
    settings, content = options.settings(), Content()
    with steps.transaction(dsn) as conn, conn.cursor() as cur:
        platform = detect(conn)
        # first: what follows asks for what some servers do not have
        steps.check_server(platform)
        found = steps.installed(cur)
        completes = found is not None and platform.tables_only and _completes(cur, options)
        if found is not None and not completes:
            if options.tables_only and not platform.tables_only:
                raise InstallError(
                    "dbinfer is already installed here, with PL/Python", "Leave out --tables-only."
                )
            steps.act_as_owner(cur, platform)
            if not found.newer:
                steps.check_foreign(cur, platform, content)
            return _already(cur, found, dict(settings), content, upgrading)
        platform = replace(platform, tables_only=options.tables_only)
        if found is None:
            steps.check_schemas(cur)
        if options.tables_only:
            steps.check_tables_offer(cur, platform)
        else:
            steps.check_offer(cur, platform)
            made_extension = steps.make_extension(cur, platform)
            settings = {"venv": DEFAULT_VENV, **settings, "made_extension": str(made_extension)}
        steps.apply(cur, platform, content, options.adopt_role)
        steps.write_settings(cur, settings)
        how = ", tables only: dbinfer worker scores its rows" if options.tables_only else ""
        message = f"dbinfer {__version__} is installed on {platform}{how}.{steps.note(platform)}"
        return _with_administrators(cur, InstallReport(True, message, __version__))


def _completes(cur: Cursor, options: InstallOptions) -> bool:
    """Return whether the tables, which are there alone, get the rest: a superuser installs, and PL/Python is there."""
    found = steps.offer(cur)
    return not options.tables_only and found.superuser and found.python


def _with_administrators(cur: Cursor, report: InstallReport) -> InstallReport:
    """Name the roles that may deploy here through a membership granted in another database of the cluster."""
    names = tuple(steps.members(cur))
    more = f" Members of {steps.ADMIN}, who may deploy here: {', '.join(names)}." if names else ""
    return replace(report, message=report.message + more, administrators=names)


def _already(
    cur: Cursor, found: Installed, settings: dict[str, str], content: Content, upgrading: bool
) -> InstallReport:
    version, have = found.release, steps.settings_of(cur)
    other = {key: value for key, value in settings.items() if have.get(key) != value}
    if found.order and not upgrading:
        refusal = found.refusal(InstallError)
        if other:
            raise refusal
        return InstallReport(False, f"{refusal.message}; nothing changed. {refusal.hint}", version)
    if other:
        steps.write_settings(cur, other)
        names = ", ".join(f"{key} = {value}" for key, value in other.items())
        return InstallReport(
            True, f"dbinfer {version} is already installed; changed settings: {names}.", version
        )
    if steps.outdated(have, content) or steps.lacks_rights(cur, detect(cur.connection)):
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
    """Let engines finish and end; one that cannot be reached ends by itself when it is idle."""
    with (
        contextlib.suppress(psycopg2.Error, InstallError),
        steps.any_session(dsn, autocommit=True) as conn,
    ):
        ask(conn, action)


def _upgrade(options: UpgradeOptions, dsn: str | None) -> InstallReport:
    content = Content()
    with steps.transaction(dsn) as conn, conn.cursor() as cur:
        platform = detect(conn)
        # first: in utility mode the coordinator has no row of our tables
        steps.check_server(platform)
        found = steps.installed(cur)
        if found is None:
            raise not_installed(InstallError)
        version = found.release
        expansion = unfinished(conn, platform)
        if expansion is not None:
            raise InstallError(expansion.detail, expansion.hint)
        # What a newer release brought is not a stranger's
        if found.newer:
            raise found.refusal(InstallError)
        steps.act_as_owner(cur, platform)
        # Before our first change, which might fire another user's trigger
        steps.check_foreign(cur, platform, content)
        steps.check_frozen(cur, content)
        if not (
            steps.outdated(steps.settings_of(cur), content)
            or steps.pending(cur, content)
            or steps.lacks_rights(cur, platform)
        ):
            return _follow_hosts(cur, platform, _follow_python(cur, platform, version))
        # Asked before `apply`, which changes the owner
        was_owned = not platform.tables_only and steps.owned_by_old_owner(cur)
        with _not_for_ever(cur):
            steps.apply(cur, platform, content, options.adopt_role)
        if was_owned:
            steps.keep_deployers(cur)
        change = (
            f"from {version} to {__version__}" if version != __version__ else f"to this client's {version}"
        )
        message = f"dbinfer is upgraded {change}; open sessions follow at their next statement."
        return _with_administrators(cur, InstallReport(True, message, __version__))


@contextmanager
def _not_for_ever(cur: Cursor) -> Iterator[None]:
    """Give up where open transactions hold the tables: sessions that score would queue behind us."""
    # true: until the transaction ends, so that a pooler's next client does not get it
    cur.execute("SELECT pg_catalog.set_config('lock_timeout', %s, true)", (LOCK_WAIT,))
    try:
        yield
    except psycopg2.errors.LockNotAvailable as err:
        raise InstallError(
            f"open transactions that have scored still held the tables of dbinfer after {LOCK_WAIT}; nothing changed",
            "End them, then upgrade again. To list them: SELECT pid, state, query FROM pg_stat_activity",
        ) from err


def _follow_python(cur: Cursor, platform: Platform, version: str) -> InstallReport:
    """Compile the runtime anew where the server has another Python since."""
    if not platform.tables_only and steps.keep_code(cur):
        message = f"dbinfer {version} is up to date; its runtime was compiled again for the server's present Python."
        return InstallReport(True, message, version)
    return InstallReport(False, f"dbinfer {version} is up to date; nothing changed.", version)


def _follow_hosts(cur: Cursor, platform: Platform, report: InstallReport) -> InstallReport:
    """Note segments that were added or moved since; they decide how many threads each one takes."""
    hosts = platform.host_settings(cur)
    have = {key: value for key, value in steps.settings_of(cur).items() if key.startswith("segments@")}
    if hosts == have:
        return report
    cur.execute("DELETE FROM dbinfer_private.setting WHERE name LIKE 'segments@%'")
    steps.write_settings(cur, hosts)
    found = ", ".join(f"{key.partition('@')[2]} {value}" for key, value in sorted(hosts.items()))
    message = f"dbinfer {report.version} is up to date; segments per host are now: {found}."
    return replace(report, changed=True, message=message)


def ensure(dsn: str | None = None, venv: str | None = None) -> InstallReport:
    """Install where it is missing, upgrade where it is older, write the venv where it changed; nothing else."""
    first = _install(dsn, InstallOptions(venv=venv), upgrading=True)
    following = upgrade(dsn=dsn)
    return following if following.changed and not first.changed else first


# Sessions that resolve a model wait, and so write nothing after we have removed it
LOCK = "LOCK TABLE dbinfer_private.model_version IN ACCESS EXCLUSIVE MODE"
LEAVE = "SELECT dbinfer_private.leave_here()"


def uninstall(dsn: str | None = None, progress: OnProgress = silent) -> InstallReport:
    """Remove exactly what install made, the deployed models included, and their files in the host caches.

    What another database of the cluster uses too stays in the caches.

    Raises:
        InstallError: another user's object uses a function of dbinfer; or dbinfer is newer than this client, which
            does not know all of its objects.
    """
    progress(Progress("uninstalling"))
    content = Content()
    with steps.transaction(dsn) as conn, conn.cursor() as cur:
        found = steps.installed(cur)
        if found is None:
            return InstallReport(False, "dbinfer is not installed in this database; nothing changed.", None)
        if found.newer:
            raise found.refusal(InstallError)
        made_extension = steps.settings_of(cur).get("made_extension") == "True"
        platform = detect(conn)
        steps.act_as_owner(cur, platform)
        kept = "" if platform.tables_only else _leave_hosts(cur, platform)
        try:
            cur.execute(
                read("install/uninstall.sql"),
                {"functions": content.functions, "relations": content.relations},
            )
        except psycopg2.errors.DependentObjectsStillExist as err:
            raise InstallError(
                f"other objects depend on dbinfer: {err.diag.message_detail}",
                "Drop them, then run uninstall again.",
            ) from err
        if made_extension:
            # Others may have functions in PL/Python by now; then it stays
            steps.attempt(cur, "DROP EXTENSION plpython3u RESTRICT")
        if not platform.tables_only:
            steps.drop_roles(cur)
        return InstallReport(True, f"dbinfer {found.release} is removed.{kept}", None)


def _leave_hosts(cur: Cursor, platform: Platform) -> str:
    """Remove from the hosts what only this database has put there; return what is to be said where that fails."""
    cur.execute("SAVEPOINT dbinfer_leave")
    try:
        cur.execute(LOCK)
        cur.execute(LEAVE)
        if platform.mpp:
            # gp_id has one row on each segment
            cur.execute(f"{LEAVE} FROM gp_dist_random('gp_id')")
    except psycopg2.Error as err:
        # An older release has no such function, or a host has lost its Python: neither keeps dbinfer in the database
        cur.execute("ROLLBACK TO SAVEPOINT dbinfer_leave")
        problem = str(err.diag.message_primary or err).strip()
        return f" Model files stay in the host caches ({problem}): delete the folders dbinfer_cache and dbinfer_entry."
    return ""
