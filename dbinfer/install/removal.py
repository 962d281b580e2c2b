"""uninstall: takes out of a database exactly what install put in."""

from __future__ import annotations

import psycopg2

from dbinfer.errors import InstallError
from dbinfer.install._steps import attempt, drop_roles, installed_version, settings_of, transaction
from dbinfer.install.content import Content
from dbinfer.install.report import InstallReport
from dbinfer.progress import OnProgress, Progress, silent
from dbinfer.sqlfiles import read


def uninstall(dsn: str | None = None, progress: OnProgress = silent) -> InstallReport:
    """Remove exactly what install made, the deployed models included.

    Raises:
        InstallError: an object of somebody else uses a function of dbinfer.
    """
    progress(Progress("uninstalling"))
    content = Content()
    with transaction(dsn) as conn, conn.cursor() as cur:
        version = installed_version(cur)
        if version is None:
            return InstallReport(False, "dbinfer is not installed in this database; nothing changed.", None)
        made_extension = settings_of(cur).get("made_extension") == "True"
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
        return InstallReport(True, f"dbinfer {version} is removed.", None)
