"""up, down and status of the embedded server: the cluster, the backends' venv, dbinfer in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from psycopg2.extensions import connection as Connection

from dbinfer.base import apart
from dbinfer.base.errors import ServerError
from dbinfer.base.progress import OnProgress, Say, notes, silent
from dbinfer.base.report import Report
from dbinfer.database import state
from dbinfer.database.connection import session
from dbinfer.database.state import DATABASE, Home, State, locate
from dbinfer.install import ensure
from dbinfer.server.account import Account, locked, prepare, server_account, socket_dir
from dbinfer.server.cluster import Cluster, Installation, find, linked_python
from dbinfer.server.runtime import (
    HostVenvOptions,
    HostVenvReport,
    check_safe,
    check_venv,
    discard_old,
    ensure_venv,
    host_venv,
    python_at,
)

__all__ = [
    "HostVenvOptions",
    "HostVenvReport",
    "ServerReport",
    "UpOptions",
    "down",
    "host_venv",
    "status",
    "up",
]


@dataclass(frozen=True)
class Setup:
    """What one `up` works with; `known` is completed step by step and saved."""

    home: Home
    account: Account
    known: State
    found: Installation
    say: Say

    def choose_venv(self, named: Path | None, own: bool) -> None:
        """Record the backends' venv: the named one, the remembered one, or our own (made now if need be).

        Raises:
            ServerError: it cannot be made, or the server's user cannot use it.
        """
        assert self.found.plpython is not None, "find returns only installations with PL/Python"
        python = python_at(linked_python(self.found.plpython))
        keep = not self.known.own_venv and not own
        given = named.expanduser().absolute() if named else Path(self.known.venv) if keep else None
        venv = given or ensure_venv(self.home, python, self.say)
        # before anything runs in it, and also where the server runs: the folder may have been opened since
        check_safe(venv, python, self.account)
        if str(venv) != self.known.venv or state.postmaster(self.home) is None:
            check_venv(venv, python, self.account)
        self.known.venv, self.known.own_venv = str(venv), given is None

    def start(self) -> None:
        """Start the server unless it runs; make the cluster first when there is none."""
        pid = state.postmaster(self.home)
        if pid is not None:
            self.say(f"the embedded server runs already (process {pid}, port {self.known.port}).")
            return
        cluster = Cluster(self.home, self.account, self.found.bindir)
        # Before initdb: a killed `up` must not lose the password of the cluster that it has made
        self._record()
        if not self.home.data.exists():
            self.say(f"making a PostgreSQL {self.found.version} cluster in {self.home.data}")
            cluster.create(self.known.password)
        cluster.start(self.known, self.say)
        self.say(f"the embedded server runs on port {self.known.port} of 127.0.0.1.")

    def tidy(self) -> None:
        """Remove the runtimes of earlier versions; only where no session of before can still import from them."""
        assert self.found.plpython is not None, "find returns only installations with PL/Python"
        python = python_at(linked_python(self.found.plpython))
        discard_old(self.home, python, self.say)

    def _record(self) -> None:
        self.known.version, self.known.bindir = self.found.version, str(self.found.bindir)
        self.known.socket_dir = str(socket_dir(self.home, self.account))
        state.save(self.home, self.known)

    def fill(self) -> None:
        """Make the database, install dbinfer in it, and save what is known now."""
        # Again: the start may have taken another port
        state.save(self.home, self.known)
        admin = state.dsn(self.home, self.known, "postgres")
        # no transaction: CREATE DATABASE takes none
        with session(admin, error=ServerError, needs_dbinfer=False, autocommit=True) as connection:
            make_database(connection)
        ensure(state.dsn(self.home, self.known), venv=self.known.venv)


def make_database(connection: Connection) -> None:
    """Create the database of the embedded server unless it is there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_catalog.pg_database WHERE datname = %s", (DATABASE,))
        if cursor.fetchone() is None:
            cursor.execute(f"CREATE DATABASE {DATABASE}")
        # the superuser's name is that of our schema, where "$user" would put people's tables
        cursor.execute(f"ALTER DATABASE {DATABASE} SET search_path = public")


@dataclass(frozen=True)
class UpOptions:
    """Which virtual environment the backends import from; it is remembered.

    Attributes:
        venv: a folder; None: the remembered one, else our own, made in the state folder.
        own_venv: go back to our own.
    """

    venv: Path | None = None
    own_venv: bool = False


@dataclass(frozen=True)
class ServerReport(Report):
    """The embedded server; what is unknown before the first `up` is None.

    Attributes:
        running: now; changed: whether this call started or stopped it.
        home: the state folder.
        cores: number of processes that share one scan; processes: number that live now.
    """

    running: bool
    home: Path
    data_dir: Path
    log: Path
    cores: int
    dsn: str | None = None
    port: int | None = None
    socket_dir: str | None = None
    version: str | None = None
    bindir: str | None = None
    venv: str | None = None
    pid: int | None = None
    processes: int = 0
    changed: bool = False


def status(home: Path | str | None = None) -> ServerReport:
    """Return what is known of the embedded server in this state folder; starts and changes nothing.

    Args:
        home: the state folder; see dbinfer.database.state.locate.
    """
    found = locate(home)
    known = state.load(found)
    pid = state.postmaster(found)
    report = ServerReport(pid is not None, found.path, found.data, found.log, apart.cores())
    if known is None:
        return report
    return replace(
        report,
        dsn=state.dsn(found, known) if pid else None,
        port=known.port,
        socket_dir=known.socket_dir,
        version=known.version,
        bindir=known.bindir,
        venv=known.venv,
        pid=pid,
        processes=1 + len(state.children(found)) if pid else 0,
    )


def up(
    home: Path | str | None = None, options: UpOptions | None = None, progress: OnProgress = silent
) -> ServerReport:
    """Set up what is missing, start the server unless it runs, and install dbinfer in it.

    Args:
        home: the state folder; see dbinfer.database.state.locate.

    Raises:
        ServerError: anything that stands in the way, with its hint.
    """
    options, say = options or UpOptions(), notes("starting the embedded server", progress)
    found, account = locate(home), server_account()
    prepare(found, account)
    with locked(found, say):
        ran = state.postmaster(found) is not None
        setup = Setup(found, account, _known(found), find(_major(found)), say)
        setup.choose_venv(options.venv, options.own_venv)
        setup.start()
        setup.fill()
        if not ran:
            setup.tidy()
    return replace(status(found.path), changed=not ran)


def _known(home: Home) -> State:
    known = state.load(home)
    if known is None and home.data.exists():
        raise ServerError(
            f"the folder {home.path} contains a server's data, but its file server.json is missing",
            f"Restore {home.state}, or move {home.data} away and start over.",
        )
    return known or State()


def _major(home: Home) -> int | None:
    recorded = home.data / "PG_VERSION"
    return int(recorded.read_text()) if recorded.exists() else None


def down(home: Path | str | None = None, progress: OnProgress = silent) -> ServerReport:
    """Stop the server and keep its data; changes nothing where it does not run.

    Raises:
        ServerError: it belongs to another user, or does not stop.
    """
    found = locate(home)
    known = state.load(found)
    if known is None:
        return status(found.path)
    say = notes("stopping the embedded server", progress)
    with locked(found, say):
        ran = state.postmaster(found) is not None
        if ran:
            Cluster(found, server_account(), Path(known.bindir)).stop(say)
    return replace(status(found.path), changed=ran)
