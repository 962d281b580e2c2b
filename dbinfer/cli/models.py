"""deploy, models, activate, alias, default, drop, grant, revoke, usage, judge: the model registry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dbinfer
from dbinfer.cli.options import Dsn, Json, Stated
from dbinfer.cli.screen import bytes_text, console, print_json, print_table, say

if TYPE_CHECKING:
    from dbinfer.models.precision import Choice


# The functions whose results have labels
NAMING = ("classify", "detect")


def deploy(
    *,
    model: Annotated[
        Path,
        typer.Argument(
            help="The IR's .xml file, with its .bin file next to it; or cascade:SMALL+LARGE, two deployed classifiers "
            "as one model."
        ),
    ],
    options: dbinfer.DeployOptions,
    said: Stated,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The manifest inside the IR describes the model, or the model_info that other OpenVINO tools write; options
    override both. If its precision is auto, the fastest one that agrees with f32 is chosen now, on this machine, for
    all hosts.

    Examples:

        $ dbinfer deploy digits.xml
        deployed digits@1 (classification, 441.4 kB, 2 of 2 parts new, active)
          tried: 0.052 ms an image with one thread (0.012 in batches), 102.5 MB of memory
          try: SELECT dbinfer.classify(img, 'digits') FROM images

        $ dbinfer deploy flowers.xml
        ...
          labels: none for the 5 classes, so classify gives their numbers, and NULL as the label; ...

        $ dbinfer deploy resnet50.xml --name flowers --alias production --labels @flowers.txt

        $ dbinfer deploy cascade:small+large --sure 0.94 --name scans

        $ dbinfer deploy flowers.xml --source flowers.keras
        ...
          source: 1.2 MB, for dbinfer train --from flowers@2
        ...
    """
    from dbinfer.cli.progress import progress_bar  # Rich's bars, which a list of models does not need

    options = replace(options, values=said.values, layout=said.layout)
    with progress_bar() as progress:
        done = dbinfer.deploy(model, options, dsn, progress)
    if json:
        print_json(done.to_dict())
        return
    print_deployed(done)


def print_deployed(done: dbinfer.DeployReport) -> None:
    """Say what was deployed, and how to use it."""
    from dbinfer.score.options import BY_TASK, OF_TEXTS

    reference = f"{done.name}@{done.version}"
    state = "active" if done.active else f"not active: dbinfer activate {reference}"
    if not done.new:
        say(f"already deployed: {reference} ({state})")
        return
    say(
        f"deployed {reference} ({done.manifest.task}, {bytes_text(done.size)}, "
        f"{done.new_parts} of {done.parts} parts new, {state})"
    )
    if trial := done.trial:
        batched = f" ({trial.batch_milliseconds:.3g} in batches)" if trial.pays else ""
        more = (
            f", {trial.by_threads[str(trial.threads)]:.3g} with {trial.threads}" if trial.threads > 1 else ""
        )
        say(
            f"  tried: {trial.milliseconds:.3g} ms an image with one thread{batched}{more}, "
            f"{bytes_text(trial.peak_bytes)} of memory"
        )
    if done.choice:
        say(f"  precision: {_why(done.choice)}")
    for note in done.assumed:
        say(f"  assumed: {note}")
    if done.source_size:
        say(f"  source: {bytes_text(done.source_size)}, for dbinfer train --from {reference}")
    function = BY_TASK.get(done.manifest.task, "predict")
    if function in NAMING and not done.manifest.labels:
        say(f"  labels: none{_unnamed(function, done.classes)}")
    name = done.name if done.active else reference
    if done.tables_only:
        say(f"  try: dbinfer score --table images --model {name}")
        return
    if function in OF_TEXTS:
        say(f"  try: SELECT dbinfer.{function}('some words', '{name}')")
        return
    say(f"  try: SELECT dbinfer.{function}(img, '{name}') FROM images")
    if others := done.manifest.outputs[1:]:
        call = f"dbinfer.predict(img, '{name}', output => '{others[0]}')"
        say(f"  outputs: {', '.join(done.manifest.outputs)}; try: SELECT {call} FROM images")


def _unnamed(function: str, classes: int | None) -> str:
    """Return what a model without labels answers, and how to name its classes."""
    if classes == 1:
        return (
            ", so classify always gives class 0 of this one output; where it is the probability of the second of two "
            "classes, deploy it again with --labels no,yes"
        )
    what = f" for the {classes} classes, so {function} gives their numbers" if classes else ""
    return (
        f"{what or f', so {function} gives the numbers of classes'}, and NULL as the label; "
        "deploy it again with --labels a,b,c or --labels @FILE (a name per line)"
    )


def _why(choice: Choice) -> str:
    """Return the precision that was chosen, and how the others did."""
    tried = choice.tried or {}
    others = [
        f"{name} takes {one.milliseconds:.3g} ms, {choice.measure} {one.agreement:.4f} on {choice.images} images"
        for name, one in tried.items()
        if one.agreement is not None
    ]
    return "; ".join([choice.precision, *others])


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (deploy, models, activate, alias, default, drop, grant, revoke, usage, judge):
        app.command()(command)


def models(dsn: Dsn = None, json: Json = False) -> None:
    """For each model: its active version, all versions, aliases, task, input, precision, size and metrics.

    Examples:

        $ dbinfer models

        $ dbinfer models --json
    """
    found = dbinfer.models(dsn).models
    if json:
        print_json(list(found))
        return
    rows = [
        [
            m["name"] + (" *" if m["default"] else ""),
            f"{m['version'] or 'none'} of {', '.join(str(v['version']) for v in m['history'] or [])}",
            ", ".join(m["aliases"] or []),
            m["task"],
            m["input"],
            m["precision"],
            m["isolation"] or "",
            _sizes(m),
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


def _sizes(model: dict[str, Any]) -> str:
    """Return the bytes of the active version, with its Keras file where it has one."""
    source = next(
        (v["source_size"] for v in model["history"] or [] if v["version"] == model["version"]), None
    )
    return bytes_text(model["size"]) + (f" + {bytes_text(source)} source" if source else "")


def activate(reference: Annotated[str, typer.Argument(metavar="NAME@VERSION")], dsn: Dsn = None) -> None:
    """Every session uses it from its next statement on. To go back, activate the earlier version.

    Examples:

        $ dbinfer activate digits@2
        digits@2 is active.

        $ dbinfer activate digits@1
        digits@1 is active.
    """
    dbinfer.activate(reference, dsn)
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
    dbinfer.alias(reference, name, dsn)
    console.print(f"{reference.partition('@')[0]}@{name} means {reference}.")


def default(name: str, dsn: Dsn = None) -> None:
    """Functions use it when a call names no model.

    Examples:

        $ dbinfer default digits
        digits is the default model.
    """
    dbinfer.default(name, dsn)
    console.print(f"{name} is the default model.")


def drop(
    reference: Annotated[str, typer.Argument(metavar="NAME[@VERSION]")],
    force: Annotated[
        bool, typer.Option("--force", help="Drop it even if it is active or was used lately.")
    ] = False,
    dsn: Dsn = None,
) -> None:
    """Dropping a version that is active, or that was used in the last 30 days (see `dbinfer usage`), takes --force.

    Examples:

        $ dbinfer drop digits@1
        digits@1 is dropped.

        $ dbinfer drop digits --force
        digits is dropped.
    """
    dbinfer.drop(reference, force, dsn)
    console.print(f"{reference} is dropped.")


def grant(name: str, role: str, dsn: Dsn = None) -> None:
    """The role `public` means everybody. The right to run a model does not let a role read its weights.

    Examples:

        $ dbinfer grant digits analysts
        analysts may run digits.
    """
    dbinfer.grant(name, role, dsn)
    console.print(f"{role} may run {name}.")


def revoke(name: str, role: str, dsn: Dsn = None) -> None:
    """Open sessions lose the right with their next statement.

    Examples:

        $ dbinfer revoke digits public
        public may no longer run digits.
    """
    dbinfer.revoke(name, role, dsn)
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


def usage(
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """You see your own use; administrators see everybody's, and the versions that nobody has used. Rows are counted
    while the setting `usage` is on: `dbinfer install --usage on`.

    Examples:

        $ dbinfer usage

        $ dbinfer usage --model digits --json
    """
    report = dbinfer.usage(model, dsn)
    if json:
        print_json(report.to_dict())
        return
    since = "while it was counted" if report.since is None else f"since {_minute(report.since)}"
    rows = [_cells(found, since) for found in report.usage]
    columns = ["version", "role", "rows", "seconds", "last used"]
    print_table("usage", columns, rows, drop=("seconds", "rows"))
    if report.since is None:
        console.print("Usage is not counted in this database. To count it: dbinfer install --usage on")


def _cells(found: dict[str, Any], since: str) -> list[Any]:
    name = f"{found['model']}@{found['version']}"
    if found["last_used"] is None:
        return [name, "", 0, "", f"never {since}"]
    return [name, found["role"], found["rows"], f"{found['seconds']:.1f}", _minute(found["last_used"])]


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")


def judge(
    query: Annotated[str, typer.Argument(help="A query that returns true boxes, then found boxes.")],
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The first column of the query holds the true boxes, as json, jsonb, or an array of rows with label, x, y,
    width and height; the second holds what dbinfer.detect returns. Training reports the same figures.

    Examples:

        $ dbinfer judge "SELECT boxes, dbinfer.detect(img, 'finder') FROM written"

        $ dbinfer judge "SELECT boxes, dbinfer.detect(img, 'finder@2') FROM written WHERE id % 10 = 0" --json
    """
    report = dbinfer.judge(query, dsn)
    if json:
        print_json(report.to_dict())
        return
    columns = ["images", "true boxes", "found boxes", "mAP at 0.5", "mAP at 0.5 to 0.95"]
    values = [report.images, report.true, report.found, f"{report.map50:.4f}", f"{report.map50_95:.4f}"]
    print_table("judge", columns, [values])
