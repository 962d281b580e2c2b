"""deploy: a model file into the registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbinfer.cli._manifest import Stated, takes_manifest
from dbinfer.cli._options import Dsn, Json, bytes_text, print_json, say
from dbinfer.cli._progress import progress_bar
from dbinfer.cli._settings import ModelIsolation

if TYPE_CHECKING:
    from dbinfer.registry.precision import Choice


# The functions whose results have labels
NAMING = ("classify", "detect")


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(deploy)


@takes_manifest
def deploy(
    *,
    model: Annotated[Path, typer.Argument(help="The IR's .xml file, with its .bin file next to it.")],
    said: Stated,
    name: Annotated[
        str | None, typer.Option(help="Name in the database. Default: the manifest's, else the file's.")
    ] = None,
    alias: Annotated[
        str | None, typer.Option(help="Alias for the new version, for example production.")
    ] = None,
    no_activate: Annotated[
        bool, typer.Option("--no-activate", help="Do not activate the new version.")
    ] = False,
    default: Annotated[
        bool, typer.Option("--default", help="Make it the default model, for calls that name none.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Let nobody else run a new model until you grant it.")
    ] = False,
    isolation: ModelIsolation = None,
    images: Annotated[
        str | None,
        typer.Option(
            help="Query for images on which another precision must agree with f32. Default: made-up pictures."
        ),
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The manifest inside the IR, or the model_info of other OpenVINO tools, describes the model. Options override it.
    Where its precision is auto, the fastest that agrees with f32 is chosen now, on this machine, for all hosts.

    Examples:

        $ dbinfer deploy digits.xml
        deployed digits@1 (classification, 441.4 kB, 2 of 2 parts new, active)
          tried: 0.052 ms an image with one thread (0.012 in batches), 102.5 MB of memory
          try: SELECT dbinfer.classify(img, 'digits') FROM images

        $ dbinfer deploy flowers.xml
        ...
          labels: none for the 5 classes, so classify gives their numbers, and NULL as the label; ...

        $ dbinfer deploy resnet50.xml --name flowers --alias production --labels @flowers.txt
    """
    from dbinfer.registry import DeployOptions
    from dbinfer.registry import deploy as run
    from dbinfer.score.functions import BY_TASK

    options = DeployOptions(
        name=name,
        alias=alias,
        activate=not no_activate,
        default=default,
        private=private,
        isolation=isolation,
        values=said.values,
        layout=said.layout,
        images=images,
    )
    with progress_bar() as progress:
        done = run(model, options, dsn, progress)
    if json:
        print_json(done.to_dict())
        return
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
    function = BY_TASK.get(done.manifest.task, "predict")
    if function in NAMING and not done.manifest.labels:
        say(f"  labels: none{_unnamed(function, done.classes)}")
    say(f"  try: SELECT dbinfer.{function}(img, '{done.name}') FROM images")
    if others := done.manifest.outputs[1:]:
        call = f"dbinfer.predict(img, '{done.name}', output => '{others[0]}')"
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
