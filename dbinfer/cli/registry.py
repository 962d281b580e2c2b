"""deploy, models, activate, drop, alias, grant, revoke: the model registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dbinfer.cli._options import Dsn, Json, bytes_text, console, err_console, print_json, print_table
from dbinfer.errors import UsageError

PANEL = "Models"


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    for command in (deploy, models, activate, alias, default, drop, grant, revoke):
        app.command(rich_help_panel=PANEL)(command)


def deploy(
    model: Annotated[Path, typer.Argument(help="The IR's .xml file; the .bin lies beside it.")],
    name: Annotated[
        str | None, typer.Option(help="Name in the database; default: the manifest's, else the file's.")
    ] = None,
    alias: Annotated[
        str | None, typer.Option(help="Second name of the new version, e.g. production.")
    ] = None,
    no_activate: Annotated[
        bool, typer.Option("--no-activate", help="Leave the active version as it is.")
    ] = False,
    default: Annotated[
        bool, typer.Option("--default", help="Use it in calls without a model's name.")
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="Grant a new model to nobody.")] = False,
    task: Annotated[
        str | None, typer.Option(help="classification, segmentation, embedding or tensor.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Comma-separated class names, or @FILE with one a line.")
    ] = None,
    mean: Annotated[str | None, typer.Option(help="Per channel, in grey levels: 123.7,116.3,103.5.")] = None,
    scale: Annotated[str | None, typer.Option(help="Per channel, in grey levels: 58.4,57.1,57.4.")] = None,
    color: Annotated[str | None, typer.Option(help="RGB, BGR or GRAY.")] = None,
    resize: Annotated[
        str | None, typer.Option(help="standard, fit_to_window, fit_to_window_letterbox or crop.")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="f32, bf16 or f16.")] = None,
    activation: Annotated[
        str | None, typer.Option(help="none, softmax or sigmoid: from output to scores.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Score above which a mask's pixel is set.")] = None,
    input_size: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH where the IR's is dynamic.")] = None,
    layout: Annotated[str | None, typer.Option(help="NHWC or NCHW where the shape does not tell.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Put a model into the database: every host and every session can score with it at once.

    What the IR says of itself (our manifest, or model_info of other OpenVINO tools) is used; options override it.

    Examples:

        dbinfer deploy digits.xml

        dbinfer deploy resnet50.xml --name flowers --alias production --labels @flowers.txt
    """
    from dbinfer.registry import DeployOptions
    from dbinfer.registry import deploy as run

    manifest: dict[str, Any] = {
        "task": task,
        "labels": _labels(labels),
        "mean": _numbers("--mean", mean),
        "scale": _numbers("--scale", scale),
        "color": color,
        "resize": resize,
        "precision": precision,
        "activation": activation,
        "threshold": threshold,
        "input_size": _size(input_size),
        "layout": _layout(layout),
    }
    options = DeployOptions(name, alias, not no_activate, default, private, manifest)
    with _bar() as progress:
        done = run(model, options, dsn, progress)
    if json:
        facts = {key: value for key, value in vars(done).items() if key != "manifest"}
        print_json({**facts, "manifest": done.manifest.to_dict()})
        return
    reference = f"{done.name}@{done.version}"
    state = "active" if done.active else f"not active: dbinfer activate {reference}"
    if not done.new:
        console.print(f"already deployed: {reference} ({state})")
        return
    console.print(
        f"deployed [bold]{reference}[/] ({done.manifest.task}, {bytes_text(done.size)}, "
        f"{done.new_parts} of {done.parts} parts new, {state})"
    )
    for note in done.assumed:
        console.print(f"  assumed: {note}")
    function = {"classification": "classify", "segmentation": "segment", "embedding": "embed"}.get(
        done.manifest.task, "predict"
    )
    console.print(f"  try: SELECT dbinfer.{function}(img, '{done.name}') FROM images", soft_wrap=True)


def models(dsn: Dsn = None, json: Json = False) -> None:
    """List the deployed models.

    Examples:

        dbinfer models

        dbinfer models --json
    """
    from dbinfer.registry import models as run

    found = run(dsn)
    if json:
        print_json(found)
        return
    rows = [
        [
            m["name"] + (" *" if m["default"] else ""),
            f"{m['version'] or 'none'} of {', '.join(str(v['version']) for v in m['history'] or [])}",
            ", ".join(m["aliases"]),
            m["task"],
            m["input"],
            bytes_text(m["size"]),
            "\n".join(
                f"{key.removeprefix('val_')} {_short(value)}" for key, value in _telling(m["metrics"] or {})
            ),
        ]
        for m in found
    ]
    columns = ["model", "active of", "aliases", "task", "input", "size", "metrics"]
    print_table("models (* default)", columns, rows)
    if not found:
        console.print("No model is deployed yet: dbinfer deploy model.xml")


def activate(reference: Annotated[str, typer.Argument(metavar="NAME@VERSION")], dsn: Dsn = None) -> None:
    """Make a version the one that the plain name means; also the way back.

    Examples:

        dbinfer activate digits@1
    """
    from dbinfer.registry import activate as run

    run(reference, dsn)
    console.print(f"{reference} is active.")


def alias(
    reference: Annotated[str, typer.Argument(metavar="NAME@VERSION")],
    name: Annotated[str, typer.Argument(metavar="ALIAS")],
    dsn: Dsn = None,
) -> None:
    """Give a version a second name.

    Examples:

        dbinfer alias digits@2 production
    """
    from dbinfer.registry import set_alias

    set_alias(reference, name, dsn)
    console.print(f"{reference.partition('@')[0]}@{name} means {reference}.")


def default(name: str, dsn: Dsn = None) -> None:
    """Make a model the one that calls without a model's name use.

    Examples:

        dbinfer default digits
    """
    from dbinfer.registry import set_default

    set_default(name, dsn)
    console.print(f"{name} is the default model.")


def drop(
    reference: Annotated[str, typer.Argument(metavar="NAME[@VERSION]")],
    force: Annotated[bool, typer.Option("--force", help="Also where the version is active.")] = False,
    dsn: Dsn = None,
) -> None:
    """Remove a version, or with a name alone the whole model.

    Examples:

        dbinfer drop digits@1

        dbinfer drop digits --force
    """
    from dbinfer.registry import drop as run

    run(reference, force, dsn)
    console.print(f"{reference} is dropped.")


def grant(name: str, role: str, dsn: Dsn = None) -> None:
    """Let a role (public: everybody) run a model; its weights stay unreadable.

    Examples:

        dbinfer grant digits analysts
    """
    from dbinfer.registry import grant as run

    run(name, role, dsn)
    console.print(f"{role} may run {name}.")


def revoke(name: str, role: str, dsn: Dsn = None) -> None:
    """Take a grant back; it counts from the next statement of open sessions.

    Examples:

        dbinfer revoke digits public
    """
    from dbinfer.registry import revoke as run

    run(name, role, dsn)
    console.print(f"{role} may no longer run {name}.")


class _bar:  # noqa: N801 - reads like a statement
    """A progress bar on stderr, shown once there is something to send."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("sending"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(
            *columns, console=err_console, disable=not err_console.is_terminal, transient=True
        )
        self._task: Any = None

    def __enter__(self) -> Any:
        self._progress.start()
        return self._update

    def _update(self, done: int, total: int) -> None:
        if self._task is None:
            self._task = self._progress.add_task("", total=total)
        self._progress.update(self._task, completed=done)

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()


def _telling(metrics: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the metrics of the validation where there are any, without the losses."""
    told = {key: value for key, value in metrics.items() if "loss" not in key} or metrics
    return list(({key: told[key] for key in told if key.startswith("val_")} or told).items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _labels(text: str | None) -> list[str] | None:
    if text is None:
        return None
    if text.startswith("@"):
        path = Path(text[1:])
        if not path.is_file():
            raise UsageError(f"--labels names the file {path}, which is not there.")
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [label.strip() for label in text.split(",")]


def _numbers(option: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as err:
        raise UsageError(
            f"{option} is {text!r}, but must be numbers with commas, e.g. 127.5 or 123.7,116.3,103.5."
        ) from err


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    height, _, width = text.lower().partition("x")
    if not (height.isdigit() and width.isdigit()):
        raise UsageError(f"--input-size is {text!r}, but must be HEIGHTxWIDTH, e.g. 224x224.")
    return int(height), int(width)


def _layout(text: str | None) -> str | None:
    if text is not None and text not in ("NHWC", "NCHW"):
        raise UsageError(f"--layout is {text!r}, but must be NHWC or NCHW.")
    return text
