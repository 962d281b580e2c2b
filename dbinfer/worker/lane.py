"""What the threads of one process of a worker share: the models, turns in scoring, the way to the server, the end."""

from __future__ import annotations

import json
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DbinferError, ServerError
from dbinfer.database.connection import connect, one, require_dbinfer, sentence
from dbinfer.install.content import Content
from dbinfer.models.registry import FILES, parts
from dbinfer_udf.errors import UdfError
from dbinfer_udf.session.outside import Outside

BACK = 15.0  # seconds between two tries to reach the server again, at most
# a server that has gone without a word is given up; libpq's own defaults wait for hours
KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# Of connections, what may be tried again, resources, sessions that the server ends; the last one: idle for too long
PASSING = ("08", "40", "53", "57P", "25P03")


def gone(err: Exception) -> bool:
    """Return whether another connection may help."""
    if isinstance(err, psycopg2.Error) and err.pgcode:
        return err.pgcode.startswith(PASSING)
    return isinstance(err, psycopg2.OperationalError | psycopg2.InterfaceError | ServerError)


class Lane:
    """One process of a worker.

    Args:
        values: of WorkerOptions.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        content = Content()
        self.lease: float = values["lease"]
        self.job: int | None = values["job"]
        self.concurrency: int = values["concurrency"]
        self._own = {"cache_dir": values["cache"], "engine_dir": values["engine_dir"] or ""}
        # the threads of an inference: the lanes of this host share its cores
        self._own |= {"venv": "", "workers": str(self.concurrency - 1)}
        self.outside = Outside(content.runtime_digest, lambda: content.modules)
        self.stop = threading.Event()
        self._files, self._scoring, self._urgent = threading.Lock(), threading.Lock(), threading.Event()
        self._saying = threading.Lock()
        self.failed = False

    def say(self, **event: Any) -> None:
        """Tell the worker's main process."""
        with self._saying:
            print(json.dumps(event), flush=True)

    @contextmanager
    def turn(self, keep: Callable[[], None] | None = None) -> Iterator[None]:
        """Score; a request goes first. `keep` is called while others score for long."""
        urgent = keep is None
        if urgent:
            self._urgent.set()
        else:
            while self._urgent.is_set() and not self.stop.is_set():
                time.sleep(0.0005)
        while not self._scoring.acquire(timeout=self.lease / 6):
            if keep is not None:
                keep()
        try:
            if urgent:
                self._urgent.clear()
            yield
        finally:
            self._scoring.release()

    def spec(self, conn: Connection, reference: str, isolated: bool = False) -> dict[str, Any]:
        """Return what scoring needs of a model version, whose files are then in this host's cache."""
        with conn.cursor() as cur:
            cur.execute(FILES, (reference,))
            spec: dict[str, Any] = json.loads(one(cur))
            wanted, settings = spec.pop("parts"), spec["settings"]
            settings.update(self._own)
            if isolated:
                settings["isolation"] = "always"
            with self._files:
                if self.outside.need(spec):
                    for kind, data in parts(cur, spec["id"], wanted):
                        self.outside.feed(kind, data)
                    self.outside.finish()
        return spec

    def run(self, work: Sequence[Callable[[Connection], None]]) -> int:
        """Do all this at once until told to stop, or until it has ended; return the exit status."""
        threading.Thread(target=self._hear, daemon=True).start()
        threads = [threading.Thread(target=self._guard, args=(each,), daemon=True) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return int(self.failed)

    def _hear(self) -> None:
        """Stop when the main process closes this one's input, or has ended."""
        sys.stdin.read()
        self.stop.set()

    def _guard(self, work: Callable[[Connection], None]) -> None:
        """Serve over one connection after another; whatever a hand holds when it loses one, others take over."""
        pause = 0.5
        while not self.stop.is_set():
            try:
                with closing(reached()) as conn:
                    pause = 0.5
                    work(conn)
                    return
            except (psycopg2.Error, DbinferError, UdfError) as err:
                if not gone(err):
                    self._fail(sentence(err) if isinstance(err, psycopg2.Error) else err)
                    return
                self.say(note=f"the server cannot be reached: {str(err).strip().splitlines()[0]}")
                self.stop.wait(pause)
                pause = min(2 * pause, BACK)

    def _fail(self, err: Any) -> None:
        self.failed = True
        self.say(problem=err.message, hint=err.hint)
        self.stop.set()


def hears(conn: Connection) -> bool:
    """Return whether notifications come through: a pooler passes none on, and names another process than the server."""
    with conn.cursor() as cur:
        cur.execute("SELECT pg_catalog.pg_backend_pid()")
        return bool(one(cur) == conn.get_backend_pid())


def listen(conn: Connection, channel: str) -> None:
    """Listen to a channel."""
    with conn.cursor() as cur:
        cur.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))


def heard(conn: Connection, seconds: float, stop: threading.Event) -> set[str]:
    """Wait for a notification, at most so many seconds; return the channels of those that came."""
    end = time.monotonic() + seconds
    while not stop.is_set() and time.monotonic() < end:
        if select.select([conn], [], [], min(0.2, seconds))[0]:
            conn.poll()
        if conn.notifies:
            found = {notify.channel for notify in conn.notifies}
            conn.notifies.clear()
            return found
    return set()


def reached() -> Connection:
    """Return a connection in autocommit mode, which notices within half a minute that the server has gone."""
    conn = connect(None, **KEEPALIVE)
    with suppress_and_close(conn):
        conn.set_client_encoding("UTF8")
        require_dbinfer(conn)
        conn.set_session(autocommit=True)
    return conn


@contextmanager
def suppress_and_close(conn: Connection) -> Iterator[None]:
    """Close the connection where what follows fails."""
    try:
        yield
    except BaseException:
        with suppress(psycopg2.Error):
            conn.close()
        raise
