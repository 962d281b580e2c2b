"""The queue of changed rows: a trigger adds their keys, and a job that follows takes them instead of a look at all.

Among the keys one row says who has looked at all rows, and in which tables and files they lay then. A job for which
this is still true needs the keys alone: whatever else changes rows, as TRUNCATE and ATTACH PARTITION do, changes files
or tables. All others look at every row first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.database.connection import one
from dbinfer.database.sql import TableName, read, shortened
from dbinfer.score.statements import Key, Listed, Plan

MOST = 100_000  # keys that are fetched at once


def queue_name(into: TableName) -> TableName:
    """Return the name of the queue for a table of results; its trigger's function has the same."""
    return TableName(into.schema, shortened(into.name, "_queue"))


class Queue:
    """The queue of a job, as statements."""

    def __init__(self, plan: Plan, name: TableName) -> None:
        self._plan, self._name = plan, name
        self._key: Key = plan.key
        options = plan.options
        self._job = [plan.reference, plan.function.name, options.top, options.where, options.column]

    def state(self, cur: Cursor) -> str | None:
        """Return what the queue answers for from now on; None: it does not answer for all rows."""
        names = {"table": self._plan.table.identifier, "function": self._name.identifier}
        texts = {name: value.as_string(cur) for name, value in names.items()}
        texts["function"] += "()"
        cur.execute(read("client/queue_state.sql"), texts)
        found = one(cur)
        return json.dumps([*self._job, self._plan.options.changed_column, found]) if found else None

    def known(self, cur: Cursor) -> bool:
        """Return whether this job has looked at all rows, and the queue has all that changed since."""
        state = self.state(cur)
        if state is None:
            return False
        self._do(cur, "queue_known", follower=sql.Literal(state))
        return bool(one(cur))

    def keys(self, cur: Cursor) -> Iterator[tuple[str, ...]]:
        """Yield keys of changed rows, each once."""
        self._do(cur, "queue_keys", texts=self._key.texts(), most=sql.Literal(MOST))
        yield from cur.fetchall()

    def take(self, cur: Cursor, keys: Listed) -> None:
        """Take keys out; what changes from now on is seen, or adds its keys again."""
        self._do(cur, "queue_take", listed=self._key.among("waiting", keys))

    def forget(self, cur: Cursor) -> None:
        """Let the next job look at all rows."""
        self._do(cur, "queue_forget")

    def remember(self, cur: Cursor, state: str | None) -> None:
        """Note that this job has looked at all rows since it asked for the state."""
        if state is not None:
            self._do(cur, "queue_remember", follower=sql.Literal(state))

    def _do(self, cur: Cursor, file: str, **more: sql.Composable) -> None:
        text = sql.SQL(read(f"client/{file}.sql"))
        cur.execute(text.format(queue=self._name.identifier, **more))
