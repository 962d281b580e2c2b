"""uninstall: takes out of a database exactly what install put in."""

from __future__ import annotations

import psycopg2
from psycopg2.extensions import cursor as Cursor

from dbinfer.errors import InstallError
from dbinfer.install._steps import attempt, drop_roles, installed, settings_of, transaction
from dbinfer.install.content import Content
from dbinfer.install.report import InstallReport
from dbinfer.platform import Platform, detect
from dbinfer.progress import OnProgress, Progress, silent
from dbinfer.sqlfiles import read

# Whoever resolves a model waits, and so writes nothing after we have removed it
LOCK = "LOCK TABLE dbinfer_private.model_version IN ACCESS EXCLUSIVE MODE"
LEAVE = "SELECT dbinfer_private.leave_here()"


def uninstall(dsn: str | None = None, progress: OnProgress = silent) -> InstallReport:
    """Remove exactly what install made, the deployed models included, and their files in the host caches.

    What another database of the cluster uses too stays in the caches.

    Raises:
        InstallError: an object of somebody else uses a function of dbinfer; or dbinfer is newer than this client, which
            does not know all of its objects.
    """
    progress(Progress("uninstalling"))
    content = Content()
    with transaction(dsn) as conn, conn.cursor() as cur:
        found = installed(cur)
        if found is None:
            return InstallReport(False, "dbinfer is not installed in this database; nothing changed.", None)
        if found.newer:
            raise found.refusal(InstallError)
        made_extension = settings_of(cur).get("made_extension") == "True"
        kept = _leave_hosts(cur, detect(conn))
        try:
            cur.execute(
                read("install/uninstall.sql"),
                {"functions": content.functions, "relations": content.relations},
            )
        except psycopg2.errors.DependentObjectsStillExist as err:
            raise InstallError(
                f"other objects depend on dbinfer: {err.diag.message_detail}",
                "Drop them, then run uninstall again.",
            ) from err
        if made_extension:
            # Others may have functions in PL/Python by now; then it stays
            attempt(cur, "DROP EXTENSION plpython3u RESTRICT")
        drop_roles(cur)
        return InstallReport(True, f"dbinfer {found.release} is removed.{kept}", None)


def _leave_hosts(cur: Cursor, platform: Platform) -> str:
    """Remove from the hosts what only this database has put there; return what is to be said where that fails."""
    cur.execute("SAVEPOINT dbinfer_leave")
    try:
        cur.execute(LOCK)
        cur.execute(LEAVE)
        if platform.mpp:
            # gp_id has one row on each segment
            cur.execute(f"{LEAVE} FROM gp_dist_random('gp_id')")
    except psycopg2.Error as err:
        # An older release has no such function, or a host has no Python any more: the database can go all the same
        cur.execute("ROLLBACK TO SAVEPOINT dbinfer_leave")
        problem = str(err.diag.message_primary or err).strip()
        return f" Model files stay in the host caches ({problem}): delete the folders dbinfer_cache and dbinfer_entry."
    return ""
