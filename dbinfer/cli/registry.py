"""models, activate, drop, alias, default, grant, revoke: the model registry."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dbinfer.cli._options import Dsn, Json, bytes_text, console, print_json, print_table


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    for command in (models, activate, alias, default, drop, grant, revoke):
        app.command()(command)


def models(dsn: Dsn = None, json: Json = False) -> None:
    """For each model: its active version, all versions, aliases, task, input, precision, size and metrics.

    Examples:

        $ dbinfer models

        $ dbinfer models --json
    """
    from dbinfer.registry import models as run

    found = run(dsn).models
    if json:
        print_json(list(found))
        return
    rows = [
        [
            m["name"] + (" *" if m["default"] else ""),
            f"{m['version'] or 'none'} of {', '.join(str(v['version']) for v in m['history'] or [])}",
            ", ".join(m["aliases"]),
            m["task"],
            m["input"],
            m["precision"],
            m["isolation"] or "",
            bytes_text(m["size"]),
            "\n".join(f"{key.removeprefix('val_')} {_short(value)}" for key, value in _telling(m["metrics"])),
        ]
        for m in found
    ]
    columns = ["model", "active of", "aliases", "task", "input", "precision", "isolation", "size", "metrics"]
    if not any(m["isolation"] for m in found):
        # most databases leave it to the setting
        columns.remove("isolation")
        rows = [row[:6] + row[7:] for row in rows]
    print_table(
        "models (* default)", columns, rows, drop=("isolation", "input", "size", "aliases", "precision")
    )
    if not found:
        console.print("No model is deployed yet. Deploy one: dbinfer deploy model.xml")


def activate(reference: Annotated[str, typer.Argument(metavar="NAME@VERSION")], dsn: Dsn = None) -> None:
    """Every session uses it from its next statement on. Go back in the same way.

    Examples:

        $ dbinfer activate digits@2
        digits@2 is active.

        $ dbinfer activate digits@1
        digits@1 is active.
    """
    from dbinfer.registry import activate as run

    run(reference, dsn)
    console.print(f"{reference} is active.")


def alias(
    reference: Annotated[str, typer.Argument(metavar="NAME@VERSION")],
    name: Annotated[str, typer.Argument(metavar="ALIAS")],
    dsn: Dsn = None,
) -> None:
    """Use it in SQL like a version: `dbinfer.classify(img, 'digits@production')`.

    Examples:

        $ dbinfer alias digits@2 production
        digits@production means digits@2.
    """
    from dbinfer.registry import alias as run

    run(reference, name, dsn)
    console.print(f"{reference.partition('@')[0]}@{name} means {reference}.")


def default(name: str, dsn: Dsn = None) -> None:
    """Functions use it when a call names no model.

    Examples:

        $ dbinfer default digits
        digits is the default model.
    """
    from dbinfer.registry import default as run

    run(name, dsn)
    console.print(f"{name} is the default model.")


def drop(
    reference: Annotated[str, typer.Argument(metavar="NAME[@VERSION]")],
    force: Annotated[
        bool, typer.Option("--force", help="Drop it even if it is active or was used lately.")
    ] = False,
    dsn: Dsn = None,
) -> None:
    """A version that is active, or that `dbinfer usage` has seen in use in the last 30 days, is only dropped with
    --force.

    Examples:

        $ dbinfer drop digits@1
        digits@1 is dropped.

        $ dbinfer drop digits --force
        digits is dropped.
    """
    from dbinfer.registry import drop as run

    run(reference, force, dsn)
    console.print(f"{reference} is dropped.")


def grant(name: str, role: str, dsn: Dsn = None) -> None:
    """The role `public` is everybody. A role that may run a model still cannot read its weights.

    Examples:

        $ dbinfer grant digits analysts
        analysts may run digits.
    """
    from dbinfer.registry import grant as run

    run(name, role, dsn)
    console.print(f"{role} may run {name}.")


def revoke(name: str, role: str, dsn: Dsn = None) -> None:
    """Open sessions lose it with their next statement.

    Examples:

        $ dbinfer revoke digits public
        public may no longer run digits.
    """
    from dbinfer.registry import revoke as run

    run(name, role, dsn)
    console.print(f"{role} may no longer run {name}.")


def _telling(metrics: Any) -> list[tuple[str, Any]]:
    """Return the metrics of the validation where there are any, without the losses."""
    # an older version has stored what it was given
    if not isinstance(metrics, dict):
        return []
    told = {key: value for key, value in metrics.items() if "loss" not in key} or metrics
    return list(({key: told[key] for key in told if key.startswith("val_")} or told).items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
