"""The view from outside a container: the command line of this machine, and small facts to score."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tiny_models

COLOURS = {"red": (200, 0, 0), "green": (0, 200, 0), "blue": (0, 0, 200)}


def dbinfer(dsn: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the dbinfer of this environment on the database of `dsn`."""
    program = Path(sys.executable).with_name("dbinfer")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "DBINFER_"))}
    return subprocess.run(
        [program, *words], capture_output=True, text=True, check=False, env={**env, "DBINFER_DSN": dsn}
    )


def facts(dsn: str, *words: str) -> Any:
    """Run a command of dbinfer that prints JSON, and return what it says."""
    done = dbinfer(dsn, *words, "--json")
    assert done.returncode == 0, f"dbinfer {' '.join(words)}\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def write_colours(folder: Path, count: int = 1) -> Path:
    """Write `count` images of each colour as folder/COLOUR/N.png."""
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / f"{number}.png").write_bytes(tiny_models.file(tiny_models.picture(*colour)))
    return folder
