"""The state folder of the embedded server: where it lies and what is where inside it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from dbinfer.errors import ServerError
from dbinfer.server.account import Account, owner

Say = Callable[[str], None]
ROOT_HOME = Path("/var/lib/dbinfer")
SOCKET_PATH_LIMIT = 107
LONGEST_SOCKET_NAME = len("/.s.PGSQL.65535.lock")


@dataclass(frozen=True)
class Home:
    """The state folder `path` and its parts."""

    path: Path

    @property
    def data(self) -> Path:
        """PGDATA, readable by the server's user only."""
        return self.path / "data"

    @property
    def run(self) -> Path:
        """The folder of the unix socket, unless its path is too long."""
        return self.path / "run"

    @property
    def runtimes(self) -> Path:
        """The virtual environments that backends import from, one per Python and set of pins."""
        return self.path / "runtime"

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.path / "log" / "server.log"

    @property
    def state(self) -> Path:
        """server.json: port, version, password and the like; mode 0600."""
        return self.path / "server.json"

    @property
    def passfile(self) -> Path:
        """The password in libpq's form; mode 0600."""
        return self.path / "pgpass"

    @property
    def servicefile(self) -> Path:
        """The connection in libpq's form: PGSERVICEFILE=<this> psql service=dbinfer."""
        return self.path / "pg_service.conf"

    @property
    def settings(self) -> Path:
        """The settings that postgresql.conf includes."""
        return self.path / "dbinfer.conf"

    @property
    def mark(self) -> str:
        """The cluster's name: it stands in the title of each of its processes."""
        return "dbinfer-" + hashlib.sha256(str(self.data).encode()).hexdigest()[:10]


def locate(home: Path | str | None = None) -> Home:
    """Return the state folder: `home`, else $DBINFER_HOME, else the default one."""
    named = home or os.environ.get("DBINFER_HOME")
    return Home(Path(named).expanduser().resolve()) if named else Home(default())


def default() -> Path:
    """Return /var/lib/dbinfer for root, the user's data folder for others.

    Root's own data folder is not used: the server runs as another user, who cannot read /root.
    """
    return ROOT_HOME if os.geteuid() == 0 else Path(platformdirs.user_data_dir("dbinfer")).resolve()


def prepare(home: Home, account: Account) -> None:
    """Make the folders with their owners and modes, and check that the server's user can reach them.

    Raises:
        ServerError: the folder belongs to someone else, cannot be made, or is closed to the server's user.
    """
    try:
        account.check_reach(next(folder for folder in home.path.parents if folder.is_dir()))
        home.path.mkdir(parents=True, exist_ok=True)
        if home.path.stat().st_uid != os.geteuid():
            raise ServerError(
                f"the state folder {home.path} belongs to another user ({owner(home.path)}).",
                "Work as that user, or name a folder of your own with DBINFER_HOME.",
            )
        home.path.chmod(0o755 if account.switch else 0o700)
        home.runtimes.mkdir(exist_ok=True, mode=0o755)
        home.runtimes.chmod(0o755)
        account.own_folder(home.log.parent, 0o750)
        account.own_folder(home.run, 0o755)
    except OSError as err:
        raise ServerError(
            f"the state folder {home.path} cannot be made: {err.strerror}.",
            "Name a folder that you can write with DBINFER_HOME.",
        ) from err
    account.check_reach(home.path)


def socket_dir(home: Home, account: Account) -> Path:
    """Return the folder for the unix socket: home/run, or a short one when that is too long."""
    if len(os.fsencode(home.run)) + LONGEST_SOCKET_NAME <= SOCKET_PATH_LIMIT:
        return home.run
    base = Path("/run") if os.access("/run", os.W_OK) else Path("/tmp")
    short = base / home.mark
    account.own_folder(short, 0o755 if account.switch else 0o700)
    return short


@contextmanager
def locked(home: Home, say: Say) -> Iterator[None]:
    """Hold the state folder's lock, so that two `up` or `down` never work at once; wait for the other."""
    with (home.path / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another dbinfer command is starting or stopping this server; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def discard(folder: Path) -> None:
    """Remove a folder that an interrupted run left behind, if it is there."""
    if folder.exists():
        shutil.rmtree(folder)
