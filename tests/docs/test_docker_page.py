"""docs/how-to/docker.md: what its lines bring out of a container is a whole model."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import tour

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "docker.md"
# Runs the command that stands after the service's name here, on a folder that plays the container's /work.
DOCKER = """#!/bin/bash
while [ "$1" != host1 ]; do shift; done
shift
exec "${@//\\/work/$WORK}"
"""


def test_a_model_leaves_its_container_with_its_weights(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    inside, outside = tmp_path / "work" / "digits", tmp_path / "outside"
    inside.mkdir(parents=True)
    outside.mkdir()
    for name in ("digits.keras", "digits.xml", "digits.bin"):
        (inside / name).write_text(name)
    env = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "WORK": str(tmp_path / "work")}
    steps = [step.source for step in tour.steps(PAGE)]
    (after,) = (n for n, source in enumerate(steps, 1) if "dbinfer convert" in source)
    for source in steps[after:]:
        subprocess.run(["bash", "-o", "pipefail", "-c", source], cwd=outside, env=env, check=True)
    assert {file.name: file.read_text() for file in outside.iterdir()} == {
        "digits.xml": "digits.xml",
        "digits.bin": "digits.bin",
    }
