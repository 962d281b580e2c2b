"""The embedded server's state folder: where it lies, what the server remembers there, and which of its processes
are alive.

Connections look here for the server when none is named, so nothing in this file opens one.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

import platformdirs
from psycopg2.extensions import make_dsn

from dbinfer.base.errors import ServerError


def embedded_dsn(folder: Path | str | None = None) -> str | None:
    """Return the connection string of the embedded server; None when it does not run."""
    home = locate(folder)
    known = load(home)
    return dsn(home, known) if known is not None and postmaster(home) else None


ROOT_HOME = Path("/var/lib/dbinfer")


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


USER = DATABASE = "dbinfer"


@dataclass
class State:
    """The content of server.json; `own_venv` is false when the user named the venv."""

    port: int = 0
    version: str = ""
    bindir: str = ""
    socket_dir: str = ""
    venv: str = ""
    own_venv: bool = True
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


def load(home: Home) -> State | None:
    """Return what is recorded; None when no server was ever set up here.

    Raises:
        ServerError: the file belongs to another user, or is damaged.
    """
    try:
        return State(**json.loads(home.state.read_text()))
    except FileNotFoundError:
        return None
    except PermissionError as err:
        raise ServerError(
            f"the embedded server in {home.path} belongs to another user",
            "Run dbinfer as that user, or choose a folder of your own with DBINFER_HOME.",
        ) from err
    except (ValueError, TypeError) as err:
        raise ServerError(
            f"{home.state} is damaged: {err}",
            f"Restore it, or move the folder {home.path} away and start over.",
        ) from err


def save(home: Home, state: State) -> None:
    """Write server.json, the passfile and the service file, each readable by its owner only."""
    _write(home.state, json.dumps(asdict(state), indent=1) + "\n")
    # For every host and port: either may change at the next start
    _write(home.passfile, f"*:*:*:{USER}:{state.password}\n")
    service = {"host": state.socket_dir, "port": state.port, "dbname": DATABASE, "user": USER}
    lines = [f"{key}={value}" for key, value in {**service, "passfile": home.passfile}.items()]
    _write(home.servicefile, "\n".join(["[dbinfer]", *lines, ""]))


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    # Made with its mode: a chmod afterwards would leave a moment in which others can read the password
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write(text)
    temporary.replace(path)


def dsn(home: Home, state: State, database: str = DATABASE) -> str:
    """Return the connection string over the unix socket; the password stays in the passfile."""
    return make_dsn(
        host=state.socket_dir, port=state.port, dbname=database, user=USER, passfile=str(home.passfile)
    )


PROC = Path("/proc")


def postmaster(home: Home) -> int | None:
    """Return the process id of the running server; None when there is none (postmaster.pid may be stale)."""
    pid = recorded_pid(home)
    return pid if pid is not None and _is_postmaster(home, pid) else None


def recorded_pid(home: Home) -> int | None:
    """Return the process id that postmaster.pid names, whether or not that process is ours."""
    try:
        return int((home.data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _is_postmaster(home: Home, pid: int) -> bool:
    # macOS has no /proc: any process of that number has to do
    if not PROC.joinpath("self").exists():
        return _alive(pid)
    words = _cmdline(pid)
    # After a crash or a reboot the number may belong to another program; ours was started with -D DATA
    return bool(words) and Path(words[0]).name in ("postgres", "postmaster") and str(home.data) in words


def servers() -> list[Home] | None:
    """Return the state folders of all embedded servers that run on this machine; None where that is unknown."""
    if not PROC.joinpath("self").exists():
        return None
    found = (_home(_cmdline(int(entry.name))) for entry in PROC.glob("[0-9]*"))
    return [home for home in found if home is not None]


def _home(words: list[str]) -> Home | None:
    """Return the state folder of a postmaster with this command line, if it is an embedded one."""
    if Path(words[0] if words else "").name not in ("postgres", "postmaster"):
        return None
    homes = [Home(Path(word).parent) for word in words[1:] if word.startswith("/") and word.endswith("/data")]
    return next((home for home in homes if home.state.exists()), None)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # It lives, and belongs to another user
    return True


def children(home: Home) -> list[int]:
    """Return the server's sessions, parallel workers and helpers, orphaned ones too; not the postmaster."""
    title = f"postgres: {home.mark}: "
    # By title, not by parent: the orphans of a killed server have another one
    pids = (int(entry.name) for entry in PROC.glob("[0-9]*"))
    return sorted(pid for pid in pids if " ".join(_cmdline(pid)).startswith(title))


def _cmdline(pid: int) -> list[str]:
    try:
        return (PROC / str(pid) / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")
    except OSError:
        # It has ended since it was listed
        return []
