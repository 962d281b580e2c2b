"""Objects of others in our schemas or on our tables: a superuser's installation must not run or keep them."""

from __future__ import annotations

from psycopg2.extensions import cursor as Cursor

from dbinfer.errors import InstallError
from dbinfer.install.content import Content
from dbinfer.platform import Platform
from dbinfer.sqlfiles import read

SHOWN = 5


def check_foreign(cur: Cursor, platform: Platform, content: Content) -> None:
    """Refuse a database whose schemas hold what is not ours.

    Raises:
        InstallError: names what was found.
    """
    cur.execute(
        platform.adapt(read("install/foreign.sql")),
        {"functions": content.functions, "relations": content.relations},
    )
    found = [str(name) for (name,) in cur.fetchall()]
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise InstallError(
            f"the schemas of dbinfer hold what is not ours: {', '.join(found[:SHOWN])}{more}",
            "It would run with your rights. Look at it, then drop it or move it elsewhere.",
        )
