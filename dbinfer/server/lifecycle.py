"""Up, down and status of the embedded server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dbinfer import machine
from dbinfer.errors import ServerError
from dbinfer.server import folders, postgres
from dbinfer.server.account import server_account
from dbinfer.server.cluster import Cluster
from dbinfer.server.folders import Say
from dbinfer.server.setup import Setup
from dbinfer.state import process, record
from dbinfer.state.home import Home, locate
from dbinfer.state.record import State


def quiet(message: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Server:
    """The facts of the embedded server; what is unknown before the first `up` is None.

    `cores` is the number of processes that share one scan, `processes` the number that live now.
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


def status(home: Path | str | None = None) -> Server:
    """Return the facts of the embedded server in this state folder; starts and changes nothing."""
    place = locate(home)
    known = record.load(place)
    pid = process.postmaster(place)
    facts = Server(pid is not None, place.path, place.data, place.log, machine.cores())
    if known is None:
        return facts
    return replace(
        facts,
        dsn=record.dsn(place, known) if pid else None,
        port=known.port,
        socket_dir=known.socket_dir,
        version=known.version,
        bindir=known.bindir,
        venv=known.venv,
        pid=pid,
        processes=1 + len(process.children(place)) if pid else 0,
    )


def up(
    home: Path | str | None = None, *, venv: Path | None = None, own_venv: bool = False, say: Say = quiet
) -> Server:
    """Set up what is missing, start the server unless it runs, and install dbinfer in it.

    Args:
        home: the state folder; see dbinfer.server.home.locate.
        venv: a virtual environment for the backends, instead of our own; it is remembered.
        own_venv: go back to our own, made in the state folder.
        say: called with a sentence at each step that takes time or decides something.

    Raises:
        ServerError: anything that stands in the way, with its cure.
    """
    place, account = locate(home), server_account()
    folders.prepare(place, account)
    with folders.locked(place, say):
        setup = Setup(place, account, _known(place), postgres.find(_major(place)), say)
        setup.choose_venv(venv, own_venv)
        setup.start()
        setup.fill()
    return status(place.path)


def _known(place: Home) -> State:
    known = record.load(place)
    if known is None and place.data.exists():
        raise ServerError(
            f"the folder {place.path} holds a server's data, but its password file server.json is gone.",
            f"Restore {place.state}, or move {place.data} away and start afresh.",
        )
    return known or State()


def _major(place: Home) -> int | None:
    recorded = place.data / "PG_VERSION"
    return int(recorded.read_text()) if recorded.exists() else None


def down(home: Path | str | None = None, *, say: Say = quiet) -> bool:
    """Stop the server and keep its data; return False when it did not run.

    Raises:
        ServerError: it belongs to another user, or does not stop.
    """
    place = locate(home)
    known = record.load(place)
    if known is None:
        return False
    with folders.locked(place, say):
        if process.postmaster(place) is None:
            return False
        Cluster(place, server_account(), Path(known.bindir)).stop(say)
    return True
