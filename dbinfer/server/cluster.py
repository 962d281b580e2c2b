"""The PostgreSQL cluster itself: made by initdb, started and stopped by pg_ctl, as the server's user."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from dbinfer.errors import ServerError
from dbinfer.server import settings
from dbinfer.server.account import Account, utf8_locale
from dbinfer.server.folders import Say, discard
from dbinfer.server.ports import choose_port, port_is_free
from dbinfer.state import process
from dbinfer.state.home import Home
from dbinfer.state.record import USER, State

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
        # Before the start: pg_ctl -l appends for ever, and the server keeps the file open
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
        self.home.settings.write_text(settings.render(self.home, state, settings.this_machine()))
        # Under root the server is another user, who reads it; there is no secret in it
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
        recorded = process.recorded_pid(self.home)
        # Before any file goes: postmaster.pid keeps a second server away from files that orphans still write
        self._await_orphans(say)
        if recorded is not None:
            say(f"the server did not end properly last time (its process {recorded} is gone); recovering.")
        stale = [self.home.data / "postmaster.pid", *Path(state.socket_dir).glob(".s.PGSQL.*")]
        for path in stale:
            path.unlink(missing_ok=True)

    def _await_orphans(self, say: Say) -> None:
        orphans = process.children(self.home)
        if orphans:
            say(f"waiting for {len(orphans)} processes of the earlier server to end.")
        deadline = time.monotonic() + ORPHAN_SECONDS
        while orphans and time.monotonic() < deadline:
            time.sleep(0.1)
            orphans = process.children(self.home)
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
