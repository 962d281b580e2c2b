"""Options that commands share, of settings that say where and within which bounds models run."""

from __future__ import annotations

from typing import Annotated

import typer

Isolation = Annotated[
    str | None,
    typer.Option(
        help="Whether the host's engine runs models, outside of the database's processes: "
        "auto, always or never. Default: auto."
    ),
]
ModelIsolation = Annotated[
    str | None,
    typer.Option("--isolation", help="The same for this model alone: auto, always or never."),
]
Usage = Annotated[
    str | None,
    typer.Option(
        help="Count who scores how many rows with which model (`dbinfer usage`): on or off. Default: off."
    ),
]
EngineDir = Annotated[
    str | None,
    typer.Option(help="Folder of the engine's sockets on every host. Default: below /run or /tmp."),
]
EngineIdle = Annotated[
    int | None,
    typer.Option(min=1, help="Seconds after which an engine that nobody asks ends. Default: 600."),
]
EngineMemory = Annotated[
    int | None, typer.Option(min=1, help="Memory of all models of an engine. Default: half of the host's.")
]
