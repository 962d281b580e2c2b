"""cache: the model files on the database's hosts."""

from __future__ import annotations

from typing import Annotated

import typer

from dbinfer.cli._options import Dsn, Json, bytes_text, console, print_json, print_table
from dbinfer.cli._progress import progress_bar


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(cache)


def cache(
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove models that no version uses, idle for an hour.")
    ] = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """A cache that several databases share holds models of the others too; --prune leaves those alone.

    Examples:

        $ dbinfer cache

        $ dbinfer cache --prune --json
    """
    from dbinfer.cache import CacheOptions
    from dbinfer.cache import cache as run

    with progress_bar() as progress:
        report = run(CacheOptions(prune), dsn, progress)
    if json:
        print_json(report.to_dict())
        return
    rows = [
        [_where(c.content), c.host, c.folder, c.models, bytes_text(c.used_bytes), bytes_text(c.free_bytes)]
        for c in report.caches
    ]
    print_table("caches", ["segment", "host", "folder", "models", "size", "free"], rows, drop=("segment",))
    if prune:
        count, size = (sum(getattr(c, name) for c in report.caches) for name in ("removed", "removed_bytes"))
        console.print(f"{count} {'model' if count == 1 else 'models'} removed, {bytes_text(size)}.")


def _where(content: int | None) -> str:
    if content is None:
        return ""
    return "coordinator" if content == -1 else str(content)
