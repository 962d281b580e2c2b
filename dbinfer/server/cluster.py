"""The PostgreSQL cluster: an installed PostgreSQL with PL/Python, its settings and port, run by pg_ctl as the
server's user.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from dbinfer.base import apart
from dbinfer.base.errors import ServerError
from dbinfer.base.progress import Say
from dbinfer.database.state import USER, Home, State, children, recorded_pid
from dbinfer.server.account import Account, discard, utf8_locale

SUPPORTED = range(14, 19)
# no longer maintained: used only where DBINFER_PG_BIN names it
OLDEST = 13
# As Debian's packages and the RPMs of postgresql.org lay it out
PATTERNS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
INSTALL = "apt-get install postgresql postgresql-plpython3-{} (Debian, Ubuntu; scripts/bootstrap does it)"


@dataclass(frozen=True)
class Installation:
    """One PostgreSQL on this machine; `plpython` is the language's library, None when it is not installed."""

    bindir: Path
    version: str
    plpython: Path | None

    @property
    def major(self) -> int:
        """The major version, for example 15."""
        return int(self.version.split(".")[0])


def find(major: int | None = None) -> Installation:
    """Return the newest usable installation, or that of the version which an existing data folder needs.

    Args:
        major: the data folder's major version; None when there is no data folder yet.

    Raises:
        ServerError: no PostgreSQL, none of that version, or none with PL/Python.
    """
    versions = range(OLDEST, SUPPORTED.stop) if os.environ.get("DBINFER_PG_BIN") else SUPPORTED
    found = [one for one in map(inspect, candidates()) if one is not None and one.major in versions]
    if major is not None:
        found = [one for one in found if one.major == major]
    if not found:
        raise _not_found(major)
    usable = [one for one in found if one.plpython is not None]
    if not usable:
        newest = max(found, key=lambda one: one.major)
        raise ServerError(
            f"PostgreSQL {newest.version} in {newest.bindir} has no PL/Python (extension plpython3u)",
            f"Install it: apt-get install postgresql-plpython3-{newest.major}",
        )
    return max(usable, key=lambda one: [int(part) for part in one.version.split(".")])


def _not_found(major: int | None) -> ServerError:
    if major is None:
        return ServerError(
            f"no PostgreSQL {SUPPORTED[0]} to {SUPPORTED[-1]} is installed on this machine",
            f"Install it: {INSTALL.format(15)}, or set DBINFER_PG_BIN to the folder of its programs.",
        )
    return ServerError(
        f"the data folder was created by PostgreSQL {major}, which is not installed",
        f"Install it: apt-get install postgresql-{major} postgresql-plpython3-{major}, "
        "or choose another state folder with DBINFER_HOME.",
    )


def candidates(root: Path = Path("/")) -> list[Path]:
    """Return the folders that may hold a server's programs; $DBINFER_PG_BIN alone when it is set."""
    named = os.environ.get("DBINFER_PG_BIN")
    if named:
        return [Path(named)]
    folders = [folder for pattern in PATTERNS for folder in sorted(root.glob(pattern))]
    config = shutil.which("pg_config")
    if config:
        folders.append(Path(_output([config, "--bindir"])))
    return list(dict.fromkeys(folders))


def inspect(bindir: Path) -> Installation | None:
    """Return what is installed in this folder; None when it is no PostgreSQL server (nor is Greenplum)."""
    if not (bindir / "postgres").exists() or not (bindir / "initdb").exists():
        return None
    # Greenplum also has programs of these names, but says (Greenplum Database)
    match = re.search(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?", _output([str(bindir / "postgres"), "--version"]))
    if match is None:
        return None
    version = f"{match[1]}.{match[2] or 0}"
    return Installation(bindir, version, _plpython(bindir))


def _plpython(bindir: Path) -> Path | None:
    config = str(bindir / "pg_config")
    control = Path(_output([config, "--sharedir"]), "extension", "plpython3u.control")
    folder = Path(_output([config, "--pkglibdir"]))
    library = next(
        (folder / name for name in ("plpython3.so", "plpython3.dylib") if (folder / name).exists()), None
    )
    return library if control.exists() else None


def _output(args: list[str]) -> str:
    try:
        return subprocess.run(
            args, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        ).stdout.strip()
    except OSError:
        return ""


def linked_python(plpython: Path) -> Path:
    """Return the Python program of the library that PL/Python is linked with.

    Raises:
        ServerError: the library or a Python program of its version is not there.
    """
    # Several Pythons may be installed: only the library knows which one it was built for
    linked = re.search(r"libpython(3\.\d+)\S* => (\S+)", _output(["ldd", str(plpython)]))
    if linked is None:
        raise ServerError(
            f"{plpython} is not linked with a Python library that is installed", "Reinstall PL/Python."
        )
    name = f"python{linked[1]}"
    # Debian has libpython in /usr/lib/ARCHITECTURE, a Python of its own prefix has bin beside lib
    prefixes = [Path("/usr"), *Path(linked[2]).parents]
    for program in (prefix / "bin" / name for prefix in prefixes):
        if program.exists():
            return program
    raise ServerError(
        f"PL/Python runs Python {linked[1]}, but there is no program {name} on this machine",
        f"Install it: apt-get install {name} {name}-venv",
    )


TEMPLATE = """\
# Written by 'dbinfer up' at each start; use ALTER SYSTEM for settings of your own.
cluster_name = '{mark}'
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '"{socket_dir}"'  # one folder, even with a comma in its name
password_encryption = 'scram-sha-256'
# One image is scored by one process: the leader and {gather} workers make {cores} processes on {cores} cores.
# The leader keeps its loaded model between statements; workers are new processes in each query.
max_worker_processes = {worker_processes}
max_parallel_workers = {cores}
max_parallel_workers_per_gather = {gather}
parallel_leader_participation = on
shared_buffers = {shared_buffers}MB
huge_pages = try
max_wal_size = 4GB
# Compiling expressions costs time in each worker and brings nothing to inference.
jit = off
logging_collector = off
log_line_prefix = '%m [%p] %q%u@%d '
"""


@dataclass(frozen=True)
class Size:
    """What the machine offers: cores, and memory in MB."""

    cores: int
    memory_mb: int


def this_machine() -> Size:
    """Return the size of this machine, within container limits."""
    return Size(apart.cores(), apart.memory_mb())


def render(home: Home, state: State, size: Size) -> str:
    """Return the settings file for this port, socket and machine."""
    return TEMPLATE.format(
        mark=home.mark,
        port=state.port,
        # Quoted twice: as a string of the file, and as one element of a list
        socket_dir=state.socket_dir.replace("'", "''").replace('"', '""'),
        cores=size.cores,
        gather=max(1, size.cores - 1),
        worker_processes=max(16, size.cores + 8),
        # what backends need for models and images comes first, in a small container above all
        shared_buffers=min(2048, max(32, size.memory_mb // 8)),
    )


# Below the ports that systems hand out to programs that ask for any
PORTS = range(15432, 15632)


def choose_port(state: State, say: Say) -> None:
    """Keep the recorded port while it is free; else record a free one and say so.

    Raises:
        ServerError: every port of the range is taken.
    """
    if state.port and port_is_free(state.port):
        return
    chosen = free_port()
    if chosen is None:
        raise ServerError(
            f"there is no free port between {PORTS[0]} and {PORTS[-1]} on 127.0.0.1",
            "Stop a program that listens on one of them.",
        )
    if state.port:
        say(f"port {state.port} is taken by another program; the embedded server now uses {chosen}.")
    state.port = chosen


def port_is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the server does: connections of a server just stopped linger for a minute, and hold the port
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(ports: range | None = None) -> int | None:
    """Return the first free port of the range (PORTS), which lies below the ports that systems hand out."""
    return next((port for port in ports or PORTS if port_is_free(port)), None)


START_SECONDS = 120
STOP_SECONDS = 60
ORPHAN_SECONDS = 15
PORTS_TRIED = 5
LOG_LIMIT = 16 << 20
INCLUDE = "include = '../dbinfer.conf'"


@dataclass(frozen=True)
class Cluster:
    """A state folder with the account and the programs that run its server."""

    home: Home
    account: Account
    bindir: Path

    def create(self, password: str) -> None:
        """Make the data folder, whole or not at all."""
        fresh = self.home.path / "data.new"
        # An earlier `up` may have been killed in the midst of initdb
        discard(fresh)
        self.account.own_folder(fresh, 0o700)
        self._initdb(fresh, password)
        # The words go to sh as arguments, so that no path is read as code
        self._must("/bin/sh", "-c", 'echo "$1" >> "$2"', "sh", INCLUDE, str(fresh / "postgresql.conf"))
        fresh.rename(self.home.data)

    def _initdb(self, folder: Path, password: str) -> None:
        secret = self.home.path / "initdb.pw"
        secret.unlink(missing_ok=True)
        # A file, because everybody can read the words of a command line; closed before the password is in it
        secret.touch(0o600)
        try:
            secret.write_text(password)
            if self.account.switch:
                os.chown(secret, self.account.uid, self.account.gid)
            options = ("-A", "scram-sha-256", "-E", "UTF8", f"--locale={utf8_locale()}", f"--pwfile={secret}")
            self._must(str(self.bindir / "initdb"), "-D", str(folder), "-U", USER, *options)
        finally:
            secret.unlink()

    def _must(self, *args: str) -> None:
        done = self.account.run(list(args))
        if done.returncode:
            raise ServerError(f"{Path(args[0]).name} failed: {(done.stderr or done.stdout).strip()}")

    def start(self, state: State, say: Say) -> None:
        """Start the server on the recorded port, or on a new one when another program took it.

        Raises:
            ServerError: it does not start; the message holds the end of its log.
        """
        self._clear_stale(state, say)
        # Before the start: pg_ctl -l only appends, and the server keeps the file open
        self._rotate_log()
        for _ in range(PORTS_TRIED):
            choose_port(state, say)
            # An error shows what this start wrote, not what earlier ones did
            begin = self.home.log.stat().st_size if self.home.log.exists() else 0
            if self._start_on(state):
                return
            # Another server that started at the same moment may have found the same port free
            if port_is_free(state.port):
                break
        raise ServerError(
            f"the embedded server did not start. The end of its log:\n{self.log_tail(begin)}",
            f"The whole log: {self.home.log}",
        )

    def _start_on(self, state: State) -> bool:
        self.home.settings.write_text(render(self.home, state, this_machine()))
        # Under root the server runs as another user, who must read it; it holds no secret
        self.home.settings.chmod(0o644)
        return self._pg_ctl("start", "-l", str(self.home.log), "-t", str(START_SECONDS))

    def stop(self, say: Say) -> None:
        """Stop the server; a session busy in native code is given a minute, then ended.

        Raises:
            ServerError: it runs on.
        """
        if self._pg_ctl("stop", "-m", "fast", "-t", str(STOP_SECONDS)):
            return
        say(
            f"some session did not end within {STOP_SECONDS} s; stopping at once (nothing committed is lost)."
        )
        if not self._pg_ctl("stop", "-m", "immediate", "-t", str(STOP_SECONDS)):
            raise ServerError("the embedded server does not stop", f"See its log: {self.home.log}")

    def _pg_ctl(self, action: str, *options: str) -> bool:
        args = [str(self.bindir / "pg_ctl"), action, "-D", str(self.home.data), "-w", *options]
        return self.account.run(args).returncode == 0

    def _clear_stale(self, state: State, say: Say) -> None:
        recorded = recorded_pid(self.home)
        # Before any file goes: postmaster.pid keeps a second server away from files that orphans still write
        self._await_orphans(say)
        if recorded is not None:
            say(f"the server did not end properly last time (its process {recorded} is gone); recovering.")
        stale = [self.home.data / "postmaster.pid", *Path(state.socket_dir).glob(".s.PGSQL.*")]
        for path in stale:
            path.unlink(missing_ok=True)

    def _await_orphans(self, say: Say) -> None:
        orphans = children(self.home)
        if orphans:
            say(f"waiting for {len(orphans)} processes of the earlier server to end.")
        deadline = time.monotonic() + ORPHAN_SECONDS
        while orphans and time.monotonic() < deadline:
            time.sleep(0.1)
            orphans = children(self.home)
        if orphans:
            pids = " ".join(map(str, orphans))
            raise ServerError(
                f"processes of the previous server are still running in {self.home.data}: {pids}",
                f"Wait until they end, or stop them: kill -QUIT {pids}",
            )

    def _rotate_log(self) -> None:
        if self.home.log.exists() and self.home.log.stat().st_size > LOG_LIMIT:
            self.home.log.replace(self.home.log.with_suffix(".log.1"))

    def log_tail(self, begin: int = 0, lines: int = 15) -> str:
        """Return the last lines of the log that were written after byte `begin`."""
        if not self.home.log.exists():
            return "(no log)"
        with self.home.log.open("rb") as handle:
            handle.seek(begin)
            return "\n".join(handle.read().decode(errors="replace").splitlines()[-lines:])
