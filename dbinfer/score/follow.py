"""follow: a trigger on a table of images that queues the keys of changed rows for the jobs that follow."""

from __future__ import annotations

from dataclasses import dataclass, replace

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.base.options import documented, option
from dbinfer.base.report import Report
from dbinfer.database.connection import session
from dbinfer.database.platform import detect
from dbinfer.database.sql import TableName, read, shortened
from dbinfer.score.options import ScoreOptions
from dbinfer.score.queue import queue_name
from dbinfer.score.statements import Key, columns_of, find
from dbinfer.score.tables import make_tables, prepare, target_kind


@documented
@dataclass(frozen=True)
class FollowOptions:
    """Which queue; all but the key counts where the table of results is to be made."""

    model: str | None = option(None, "name, name@3 or name@alias. Default: the default model.")
    function: str | None = option(None, "As of dbinfer score. Default: the one for the model's task.")
    column: str = option("img", "Column with the images.")
    key: str = option("id", "Column (or columns: a,b) that identifies a row.")
    drop: bool = option(False, "Remove the queue and its trigger; the results stay.")


@dataclass(frozen=True)
class FollowReport(Report):
    """What `follow` did.

    Attributes:
        table, into: full names of the tables of images and of results.
        queue: full name of the table of keys.
        dropped: it was removed, together with its trigger.
    """

    table: str
    into: str
    queue: str
    dropped: bool = False


def follow(
    table: str = "images",
    predictions: str = "predictions",
    options: FollowOptions | None = None,
    dsn: str | None = None,
) -> FollowReport:
    """Queue the keys of rows that change from now on; `score` with `follow` takes them instead of looking at all rows.

    Makes the tables of results where they are missing. Done again, it makes the queue anew.

    Args:
        table, predictions: names of tables as a user writes them.

    Raises:
        DataError: the table is not an own one, or none that has such triggers.
        UsageError: names that are none.
    """
    options = options or FollowOptions()
    with session(dsn) as conn, conn.cursor() as cur:
        platform = detect(conn)
        if platform.mpp:
            raise DataError(
                "triggers on a Greenplum cluster cannot write to a queue",
                "Use dbinfer score --follow, which finds the changed rows without one.",
            )
        queue = _Made(cur, table, predictions)
        if options.drop:
            queue.drop(cur)
            return replace(queue.report, dropped=True)
        if target_kind(cur, queue.table, queue.into) is None:
            asked = ScoreOptions(
                model=options.model,
                function=options.function,
                column=options.column,
                key=options.key,
                follow=True,
            )
            make_tables(cur, prepare(cur, table, predictions, asked, platform))
        queue.drop(cur)
        queue.make(cur, find(cur, queue.table, options.key, columns_of(cur, queue.table)))
        return queue.report


_OTHERS = {
    "v": ("a view", "Follow the table that it shows"),
    "m": ("a materialized view", "Follow the table that it shows"),
    "f": ("a foreign table, which changes on another server", "Follow it there"),
}


class _Made:
    """A queue with its trigger and function: whose they are, made and dropped."""

    def __init__(self, cur: Cursor, table: str, predictions: str) -> None:
        self.table = TableName.parse(table).resolve(cur)
        self.into = TableName.parse(predictions).resolve(cur)
        self.queue = queue_name(self.into)
        self.report = FollowReport(str(self.table), str(self.into), str(self.queue))
        names = {"table": self.table.identifier, "into": self.into.identifier}
        values = {name: value.as_string(cur) for name, value in names.items()}
        cur.execute(read("client/queue_roles.sql"), values | {"schema": self.into.schema})
        found = cur.fetchone()
        if found is None:
            missing = (
                f"table {self.table}" if not columns_of(cur, self.table) else f"schema {self.into.schema}"
            )
            raise DataError(
                f"{missing} does not exist", "Name the table of images, then --predictions for the results."
            )
        kind, self.owner, self.writer, *self._schema_owner, self.user, self._above = found
        if kind in _OTHERS:
            what, instead = _OTHERS[kind]
            raise DataError(
                f"{self.table} is {what}, and no trigger sees its rows change",
                f"{instead}, or use dbinfer score --follow, which needs no trigger.",
            )
        self._check_roles()

    def _check_roles(self) -> None:
        """Refuse what would let one role's code run with another's rights: the function runs with the owner's."""
        if not self._above and self.user != self.owner:
            raise DataError(
                f"only {self.owner}, who owns {self.table}, or a superuser may put a trigger on it",
                "Or use dbinfer score --follow, which needs no right but SELECT.",
            )
        if not self._above and self.writer not in (None, self.user):
            raise DataError(
                f"{self.into} belongs to {self.writer}, who takes from no queue of another role",
                "Let a superuser run this command for both, or choose another table with --predictions.",
            )
        owner, above = self._schema_owner
        if not above and owner != self.owner:
            raise DataError(
                f"the schema {self.into.schema} belongs to {owner}, who could put another table in the queue's place",
                f"Use a schema of {self.owner}, or dbinfer score --follow, which needs no queue.",
            )

    def _names(self) -> dict[str, sql.Composable]:
        trigger = shortened(f"dbinfer_{self.into.schema}_{self.into.name}")
        return {
            "table": self.table.identifier,
            "queue": self.queue.identifier,
            "function": self.queue.identifier,
            "trigger": sql.Identifier(trigger),
        }

    def drop(self, cur: Cursor) -> None:
        """Remove what is there."""
        there = columns_of(cur, self.queue)
        if there and "follower" not in there:
            raise DataError(
                f"{self.queue} is no queue of dbinfer",
                "Rename that table, or choose another table of results with --predictions.",
            )
        cur.execute(sql.SQL(read("client/queue_drop.sql")).format(**self._names()))

    def make(self, cur: Cursor, key: Key) -> None:
        """Make all of it, and let those use it who have to."""
        names = self._names() | {"keys": key.listed()}
        body = sql.SQL(read("client/queue_body.sql")).format(
            new=key.listed("new"), old=key.listed("old"), queue=names["queue"], keys=names["keys"]
        )
        made = sql.SQL(read("client/queue_create.sql")).format(
            **names,
            body=sql.Literal(body.as_string(cur)),
            name=sql.Literal(self.queue.identifier.as_string(cur)),
        )
        cur.execute(made)
        rights = {self.owner: "INSERT", self.writer or self.user: "SELECT, INSERT, DELETE"}
        for role, right in rights.items():
            grant = sql.SQL("GRANT {} ON {} TO {}").format(
                sql.SQL(right), names["queue"], sql.Identifier(role)
            )
            cur.execute(grant)
        owned = sql.SQL("ALTER FUNCTION {}() OWNER TO {}").format(
            names["function"], sql.Identifier(self.owner)
        )
        cur.execute(owned)
