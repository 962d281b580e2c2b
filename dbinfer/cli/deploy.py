"""deploy: a model file into the registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dbinfer.cli._options import Dsn, Json, bytes_text, console, err_console, print_json
from dbinfer.cli._values import labels as read_labels
from dbinfer.cli._values import numbers, size
from dbinfer.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command(rich_help_panel="Models")(deploy)


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
        "labels": read_labels(labels),
        "mean": numbers("mean", mean),
        "scale": numbers("scale", scale),
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


def _size(text: str | None) -> tuple[int, int] | None:
    found = size(text, "input-size")
    return (found["height"], found["width"]) if found else None


def _layout(text: str | None) -> str | None:
    if text is not None and text not in ("NHWC", "NCHW"):
        raise UsageError(f"--layout is {text!r}, but must be NHWC or NCHW.")
    return text
