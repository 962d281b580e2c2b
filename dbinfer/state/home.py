"""The state folder of the embedded server: where it lies and what is where inside it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

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
