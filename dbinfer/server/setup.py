"""The steps of `up`: the backends' venv, the cluster, the database, and dbinfer in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from psycopg2.extensions import connection as Connection

from dbinfer.connection import session
from dbinfer.errors import ServerError
from dbinfer.install import ensure
from dbinfer.server import folders, postgres, runtime
from dbinfer.server.account import Account
from dbinfer.server.cluster import Cluster
from dbinfer.server.folders import Say
from dbinfer.server.postgres import Installation
from dbinfer.state import process, record
from dbinfer.state.home import Home
from dbinfer.state.record import DATABASE, State


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
        assert self.found.plpython is not None, "postgres.find returns only installations with PL/Python"
        python = runtime.python_at(postgres.linked_python(self.found.plpython))
        keep = not self.known.own_venv and not own
        given = named.expanduser().absolute() if named else Path(self.known.venv) if keep else None
        venv = given or runtime.ensure(self.home, python, self.say)
        # before anything runs in it, and also where the server runs: the folder may have been opened since
        runtime.check_safe(venv, python, self.account)
        if str(venv) != self.known.venv or process.postmaster(self.home) is None:
            runtime.check(venv, python, self.account)
        self.known.venv, self.known.own_venv = str(venv), given is None

    def start(self) -> None:
        """Start the server unless it runs; make the cluster first when there is none."""
        pid = process.postmaster(self.home)
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
        assert self.found.plpython is not None, "postgres.find returns only installations with PL/Python"
        python = runtime.python_at(postgres.linked_python(self.found.plpython))
        runtime.discard_old(self.home, python, self.say)

    def _record(self) -> None:
        self.known.version, self.known.bindir = self.found.version, str(self.found.bindir)
        self.known.socket_dir = str(folders.socket_dir(self.home, self.account))
        record.save(self.home, self.known)

    def fill(self) -> None:
        """Make the database, install dbinfer in it, and save what is known now."""
        # Again: the start may have taken another port
        record.save(self.home, self.known)
        admin = record.dsn(self.home, self.known, "postgres")
        # no transaction: CREATE DATABASE takes none
        with session(admin, error=ServerError, needs_dbinfer=False, autocommit=True) as connection:
            make_database(connection)
        ensure(record.dsn(self.home, self.known), venv=self.known.venv)


def make_database(connection: Connection) -> None:
    """Create the database of the embedded server unless it is there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_catalog.pg_database WHERE datname = %s", (DATABASE,))
        if cursor.fetchone() is None:
            cursor.execute(f"CREATE DATABASE {DATABASE}")
        # the superuser's name is that of our schema, where "$user" would put people's tables
        cursor.execute(f"ALTER DATABASE {DATABASE} SET search_path = public")
