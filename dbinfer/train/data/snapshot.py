"""One state of the database for everything that a run reads, in all its ranks.

The launching process exports its snapshot and keeps that transaction open until every rank has read its rows; a rank
imports it. Greenplum's pg_export_snapshot exports the coordinator's part only: an importing session saw rows that were
committed later. So there one process reads everything, in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError, TrainError
from dbinfer.database.connection import one, sentence, session
from dbinfer.database.platform import detect

VARIABLE = "DBINFER_TRAIN_SNAPSHOT"  # tells the ranks which snapshot to import
SETTINGS = (
    "SET LOCAL idle_in_transaction_session_timeout = 0",  # it waits while ranks start
    # without these two, rows that an ORDER BY leaves equal may come in another order in another session
    "SET LOCAL synchronize_seqscans = off",
    "SET LOCAL max_parallel_workers_per_gather = 0",
)


class Snapshot:
    """A read-only transaction that is opened when it is first used, and kept open until `close`.

    Args:
        dsn: the server.
        imported: name of a snapshot that another session has exported; else a new one.
    """

    def __init__(self, dsn: str, imported: str = "") -> None:
        self.dsn, self._imported = dsn, imported
        self._stack = ExitStack()
        self._connection: Connection | None = None

    @contextmanager
    def cursor(self, name: str | None = None) -> Iterator[Any]:
        """Yield a cursor, of the server where it has a name; errors of the server become a DataError."""
        connection = self._open()
        try:
            with connection.cursor(name) as cursor:
                yield cursor
        except psycopg2.Error as err:
            raise sentence(err, DataError) from err

    @property
    def on_segments(self) -> bool:
        """Return whether the rows lie on the segments of an MPP database."""
        return detect(self._open()).mpp

    def export(self) -> str:
        """Return the name under which other sessions can import this snapshot, as long as it is open."""
        with self.cursor() as cursor:
            cursor.execute("SELECT pg_catalog.pg_export_snapshot()")
            return str(one(cursor))

    def close(self) -> None:
        """End the transaction; a second call does nothing."""
        self._connection = None
        self._stack.close()

    def _open(self) -> Connection:
        if self._connection is None:
            opened = session(self.dsn or None, needs_dbinfer=False, readonly=True)
            connection = self._stack.enter_context(opened)
            # Below it each statement has a snapshot of its own, and the server imports none
            connection.set_session(isolation_level="REPEATABLE READ")
            self._connection = connection
            self._begin(connection)
        return self._connection

    def _begin(self, connection: Connection) -> None:
        with connection.cursor() as cursor:
            if self._imported:
                try:
                    # Before anything else: after a first query the server refuses it
                    cursor.execute("SET TRANSACTION SNAPSHOT %s", (self._imported,))
                except psycopg2.Error as err:
                    raise TrainError(
                        f"the snapshot {self._imported} of this run cannot be read: {err.diag.message_primary}",
                        "All ranks must reach one server, and the launching process must stay connected to it.",
                    ) from err
            for setting in SETTINGS:
                cursor.execute(setting)


def of_this_rank(dsn: str) -> Snapshot:
    """Return the snapshot that the launching process exported; a new one where there is no such process."""
    return Snapshot(dsn, os.environ.get(VARIABLE, ""))
