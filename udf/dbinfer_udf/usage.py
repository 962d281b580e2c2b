"""Who used what: each process counts its rows in a file of the data directory, outside of any transaction.

So nobody waits for anybody, counts outlive processes, and a role and version have no more records than processes have
ever used it at once (see usage_file). Written, not mapped: on a full disk a write fails, while a page that cannot be
stored would end the backend.
"""

from __future__ import annotations

import contextlib
import json
import os
from time import perf_counter, time
from typing import Any, Dict, List, Optional

from .usage_file import RECORD, Key, book_of, path, records_of, take


class Usage:
    """Counts what the tickets of this process score.

    Args:
        gd: PL/Python's GD; keeps the open file and the records that this process has taken.
    """

    def __init__(self, gd: Dict[str, Any]) -> None:
        self._gd = gd

    def count(self, token: str, caller: int) -> None:
        """Count the rows of a ticket for a role from now on."""
        tickets = self._gd["dbinfer.tickets"]
        ticket = tickets[token]
        if ticket.version_id != 0:
            tickets[token] = Counted(ticket, Meter(self._gd, (caller, ticket.version_id)))

    def read(self, role: Optional[int]) -> str:
        """Return the sums of this file's records as JSON, of one role or of all."""
        sums: Dict[Key, List[float]] = {}
        # the open file: closing another of the same name would give all locks of this process back
        book = book_of(self._gd, make=False)
        number, records = records_of(book["fd"]) if book else ("", [])
        for _, key, rows, seconds, last in records:
            if key != (0, 0) and role in (None, key[0]):
                so_far = sums.get(key, [0, 0.0, 0.0])
                sums[key] = [so_far[0] + rows, so_far[1] + seconds, max(so_far[2], last)]
        names = ("source", "role", "version", "rows", "seconds", "last_used")
        return json.dumps([dict(zip(names, (number, *key, *values))) for key, values in sums.items()])

    def leave(self, databases: str) -> None:
        """Remove the counts of this database and of those that are gone (`databases`: oids of all, with commas)."""
        own, there = path(), databases.split(",")
        with contextlib.suppress(OSError):
            folder = os.path.dirname(own)
            for name in os.listdir(folder):
                if name == os.path.basename(own) or name not in there:
                    os.unlink(os.path.join(folder, name))
            os.rmdir(folder)  # only where it is empty


class Counted:
    """A ticket whose rows are counted; NULL images and warming up are none."""

    __slots__ = ("_meter", "_rows", "_scan", "_seconds", "_ticket", "spec", "transaction", "version_id")

    def __init__(self, ticket: Any, meter: Meter) -> None:
        self._ticket, self._meter = ticket, meter
        self.spec, self.transaction, self.version_id = ticket.spec, ticket.transaction, ticket.version_id
        self._scan, self._rows, self._seconds = "", 0, 0.0

    def run(
        self,
        plpy: Any,
        task: str,
        img: Optional[bytes],
        on_error: Optional[str],
        k: Any,
        row: Optional[int] = None,
    ) -> Any:
        """Score one image; see Ticket.run."""
        if img is None or task == "warm":
            return self._ticket.run(plpy, task, img, on_error, k, row)
        if task == "batch":
            return self._batch(plpy, on_error, k)
        if task == "rest":
            return self._rest(plpy, on_error, k)
        begin = perf_counter()
        try:
            return self._ticket.run(plpy, task, img, on_error, k, row)
        finally:
            self._meter.add(1, perf_counter() - begin)

    def _batch(self, plpy: Any, on_error: Optional[str], row: Any) -> Any:
        """Take a row of a batch; its rows count when it is whole, for those that are left wait for another function."""
        if row[1] != self._scan:
            self._scan, self._rows, self._seconds = row[1], 0, 0.0
        begin = perf_counter()
        found = self._ticket.run(plpy, "batch", b"", on_error, row)
        self._seconds += perf_counter() - begin
        self._rows += row[3] is not None
        if found is not None and self._rows:
            self._meter.add(self._rows, self._seconds)
            self._rows, self._seconds = 0, 0.0
        return found

    def _rest(self, plpy: Any, on_error: Optional[str], scan: Any) -> Any:
        """Score what is left of a scan; rows that have no result had no image, or a bad one."""
        begin = perf_counter()
        found = self._ticket.run(plpy, "rest", b"", on_error, scan)
        rows = sum(one is not None for _, *kinds, _ in found for kind in kinds for one in kind or ())
        if rows:
            self._meter.add(rows, perf_counter() - begin)
        return found


class Meter:
    """Adds rows to a record of this process; a failure is silent, because no statement may fail of it."""

    __slots__ = ("_gd", "_key", "_record", "_works")

    def __init__(self, gd: Dict[str, Any], key: Key) -> None:
        self._gd, self._key = gd, key
        self._record: Optional[List[Any]] = None
        self._works = True

    def add(self, rows: int, seconds: float) -> None:
        """Add rows, and the seconds that they took."""
        if not self._works:
            return
        try:
            record = self._record
            if record is None:
                record = self._record = take(book_of(self._gd), self._key)
            record[2] += rows
            record[3] += seconds
            os.pwrite(record[0], RECORD.pack(*self._key, record[2], record[3], time()), record[1])
        except OSError:
            self._works = False
