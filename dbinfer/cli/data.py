"""load and predict: images into tables, and results of single files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbinfer.cli._dataview import show_answers, show_load
from dbinfer.cli._options import Dsn, Json, print_json
from dbinfer.cli._progress import progress_bar

Model = Annotated[str | None, typer.Option(help="name, name@3 or name@alias. Default: the default model.")]
FunctionName = Annotated[
    str | None,
    typer.Option(
        help="classify, classify_top, predict, segment, embed, ... Default: the one for the model's task."
    ),
]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    for command in (load, predict):
        app.command()(command)


def load(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER|FILES...", help="Folders, image files, zip and tar archives."),
    ] = None,
    table: Annotated[
        str, typer.Option(help="TABLE or SCHEMA.TABLE; created if it does not exist.")
    ] = "images",
    label_from: Annotated[
        str | None,
        typer.Option(metavar="folder", help="'folder': store the name of each file's folder as its label."),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(help="Store paths relative to this folder. Default: the parent of the folder you load."),
    ] = None,
    column: Annotated[str, typer.Option(help="Column with the images.")] = "img",
    path_column: Annotated[str, typer.Option(help="Column with the paths.")] = "path",
    label_column: Annotated[str, typer.Option(help="Column with the labels.")] = "label",
    recursive: Annotated[bool, typer.Option(help="Include subfolders.")] = True,
    update: Annotated[
        bool, typer.Option("--update", help="Replace images whose files have changed since they were loaded.")
    ] = False,
    from_list: Annotated[
        Path | None,
        typer.Option(metavar="FILE|-", help="Load the files named in this file, one a line; - reads stdin."),
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """All files are loaded in one transaction, or none. The stored path begins with the folder's name, for example
    photos/cat/1.jpg; images in an archive keep their path there. A file whose size or content has changed is
    counted, and replaced with --update; its row keeps its id. Files that are not images are listed and left out.
    The exit status is 1 when there was nothing to load.

    Examples:

        $ dbinfer load photos

        $ dbinfer load flowers/train --table flowers --label-from folder

        $ dbinfer load /data/a /data/b --base /data --table shop.images --json

        $ dbinfer load photos --update

        $ dbinfer load photos.tar.gz more.zip

        $ find /data -name '*.jpg' -newer last -print0 | dbinfer load --from-list -
    """
    from dbinfer.load import LoadOptions
    from dbinfer.load import load as run

    names = (column, path_column, label_column)
    options = LoadOptions(table, label_from, base, *names, recursive, update=update, from_list=from_list)
    with progress_bar() as progress:
        report = run(sources or [], options, dsn, progress)
    if json:
        print_json(report.to_dict())
    else:
        show_load(report)
    if not report.loaded + report.known:
        raise typer.Exit(1)


def predict(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Image files on this machine.")],
    model: Model = None,
    function: FunctionName = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes classify_top returns.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for masks (segment) and tensors.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The exit status is 1 when a file has no result.

    Examples:

        $ dbinfer predict cat.jpg dog.png

        $ dbinfer predict cat.jpg --function classify_top --top 3 --json

        $ dbinfer predict street.jpg --model roads --function segment --out masks
    """
    from dbinfer.score import PredictOptions
    from dbinfer.score import predict as run

    with progress_bar() as progress:
        report = run(files, PredictOptions(function, model, top, out, files_only=True), dsn, progress)
    if json:
        print_json(report.to_dict())
    else:
        show_answers(report)
    if not report.ok:
        raise typer.Exit(1)
