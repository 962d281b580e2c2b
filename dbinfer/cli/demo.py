"""demo: the whole way on real images, from training to SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(demo)


def demo(
    dsn: Annotated[
        str | None, typer.Option("--dsn", help="Use this database instead of the embedded server.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for models, images and pictures.")] = Path("out/demo"),
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the statements and their results (.png).")
    ] = None,
) -> None:
    """Models, images and pictures go to out/demo. Without --dsn the demo starts the embedded server.

    Examples:

        $ dbinfer demo
        ...
        ==> Accuracy, computed in SQL on images that training never saw
            0.9916 of 359 images
        ...

        $ dbinfer demo --dsn "host=coordinator dbname=test user=gpadmin"

        $ dbinfer demo --picture first-look.png
    """

    from dbinfer.cli._options import Screen
    from dbinfer.cli._progress import progress_bar
    from dbinfer.demo import DemoOptions
    from dbinfer.demo import demo as play

    with progress_bar(console=Screen(soft_wrap=True)) as progress:
        play(DemoOptions(out, picture), dsn, progress)
