"""Optuna's journal as a table of the database, and the locks that tell living workers from dead ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg2
from optuna.storages.journal import BaseJournalBackend

from dbinfer.connection import sentence, session
from dbinfer.errors import DataError

TURN = 0  # number of the lock beside those of the workers, which count from 1
WAIT = 0.1  # seconds between looks for a free number


class Journal(BaseJournalBackend):  # type: ignore[misc]
    """The numbered entries of one study, through a connection of its own.

    Locks are the session's: the server releases them when a process dies, however it dies.

    Args:
        dsn: the database, where dbinfer is installed.
        study: its name.
    """

    def __init__(self, dsn: str, study: str) -> None:
        self.study = study
        self._stack = ExitStack()
        self._connection = self._stack.enter_context(session(dsn or None, autocommit=True))

    def close(self) -> None:
        """Give all locks back."""
        self._stack.close()

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """Return the entries from a number on."""
        rows = self._ask("SELECT dbinfer._journal(%s, %s)", (self.study, log_number_from))
        return [row[0] for row in rows]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append entries; the server numbers them without a gap."""
        for log in logs:
            self._ask("SELECT dbinfer._add_journal_entry(%s, %s::jsonb)", (self.study, json.dumps(log)))

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let one process at a time decide which trial comes next."""
        with self._lock(TURN):
            yield

    def become_worker(self, most: int = 0) -> int:
        """Return the smallest number that no living worker has, and keep it; with `most`, wait for one up to it."""
        number = 1
        while not self._try(number):
            number += 1
            if most and number > most:
                # The server has not seen yet that the process which this one replaces is dead
                time.sleep(WAIT)
                number = 1
        return number

    def is_alive(self, worker: int) -> bool:
        """Return whether another process holds this worker's number."""
        if self._try(worker):
            self._unlock(worker)
            return False
        return True

    @contextmanager
    def _lock(self, number: int) -> Iterator[None]:
        self._ask("SELECT pg_catalog.pg_advisory_lock(pg_catalog.hashtext(%s), %s)", (self._name, number))
        try:
            yield
        finally:
            self._unlock(number)

    def _try(self, number: int) -> bool:
        text = "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext(%s), %s)"
        return bool(self._ask(text, (self._name, number))[0][0])

    def _unlock(self, number: int) -> None:
        self._ask("SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext(%s), %s)", (self._name, number))

    @property
    def _name(self) -> str:
        return f"dbinfer.tune {self.study}"

    def _ask(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(text, values)
                return list(cursor.fetchall())
        except psycopg2.Error as err:
            raise sentence(err, DataError) from err
