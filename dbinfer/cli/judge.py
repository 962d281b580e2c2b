"""judge: how good found boxes are."""

from __future__ import annotations

from typing import Annotated

import typer

from dbinfer.cli._options import Dsn, Json, print_json, print_table


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(judge)


def judge(
    query: Annotated[str, typer.Argument(help="Returns true boxes, then found ones.")],
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The first column of the query has the true boxes: json, jsonb, or an array of rows with label, x, y, width and
    height. The second one has what dbinfer.detect returns.

    Examples:

        $ dbinfer judge "SELECT boxes, dbinfer.detect(img, 'finder') FROM written"

        $ dbinfer judge "SELECT boxes, dbinfer.detect(img, 'finder@2') FROM written WHERE id % 10 = 0" --json
    """
    from dbinfer.judge import judge as run

    report = run(query, dsn)
    if json:
        print_json(report.to_dict())
        return
    columns = ["images", "true boxes", "found boxes", "mAP at 0.5", "mAP at 0.5 to 0.95"]
    values = [report.images, report.true, report.found, f"{report.map50:.4f}", f"{report.map50_95:.4f}"]
    print_table("judge", columns, [values])
