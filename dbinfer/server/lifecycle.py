"""Up, down and status of the embedded server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dbinfer import machine
from dbinfer.errors import ServerError
from dbinfer.progress import OnProgress, Progress, silent
from dbinfer.report import Report
from dbinfer.server import folders, postgres
from dbinfer.server.account import server_account
from dbinfer.server.cluster import Cluster
from dbinfer.server.folders import Say
from dbinfer.server.setup import Setup
from dbinfer.state import process, record
from dbinfer.state.home import Home, locate
from dbinfer.state.record import State


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
        home: the state folder; see dbinfer.state.locate.
    """
    found = locate(home)
    known = record.load(found)
    pid = process.postmaster(found)
    report = ServerReport(pid is not None, found.path, found.data, found.log, machine.cores())
    if known is None:
        return report
    return replace(
        report,
        dsn=record.dsn(found, known) if pid else None,
        port=known.port,
        socket_dir=known.socket_dir,
        version=known.version,
        bindir=known.bindir,
        venv=known.venv,
        pid=pid,
        processes=1 + len(process.children(found)) if pid else 0,
    )


def up(
    home: Path | str | None = None, options: UpOptions | None = None, progress: OnProgress = silent
) -> ServerReport:
    """Set up what is missing, start the server unless it runs, and install dbinfer in it.

    Args:
        home: the state folder; see dbinfer.state.locate.

    Raises:
        ServerError: anything that stands in the way, with its cure.
    """
    options, say = options or UpOptions(), _teller("starting the embedded server", progress)
    found, account = locate(home), server_account()
    folders.prepare(found, account)
    with folders.locked(found, say):
        ran = process.postmaster(found) is not None
        setup = Setup(found, account, _known(found), postgres.find(_major(found)), say)
        setup.choose_venv(options.venv, options.own_venv)
        setup.start()
        setup.fill()
        if not ran:
            setup.tidy()
    return replace(status(found.path), changed=not ran)


def _teller(step: str, progress: OnProgress) -> Say:
    """Return what tells a sentence as a note of one step."""
    progress(Progress(step))
    return lambda sentence: progress(Progress(step, note=sentence))


def _known(home: Home) -> State:
    known = record.load(home)
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
    known = record.load(found)
    if known is None:
        return status(found.path)
    say = _teller("stopping the embedded server", progress)
    with folders.locked(found, say):
        ran = process.postmaster(found) is not None
        if ran:
            Cluster(found, server_account(), Path(known.bindir)).stop(say)
    return replace(status(found.path), changed=ran)
