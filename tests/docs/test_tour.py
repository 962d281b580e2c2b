"""The README's tour is true for one who follows it after `make demo`: every line runs and prints what is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import tour
from tour import Step

from dbinfer import server as embedded

ROOT = Path(__file__).parents[2]
STEPS = tour.steps(ROOT / "README.md")
INTERPRETERS = {"sql": ("dbinfer", "psql", "-X", "-v", "ON_ERROR_STOP=1"), "python": (sys.executable, "-")}
# The real demo; only the network of the masks is small and hardly trained, for time's sake.
DEMO = """
from dataclasses import replace
from dbinfer.cli import main
from dbinfer.demo import _acts
make = _acts.make_model
def make_model(story, name, job, *rest):
    small = replace(job, epochs=1, network_options={"size": 64, "depth": 2, "base_width": 4})
    make(story, name, small if name == "strokes" else job, *rest)
_acts.make_model, _acts.LEAST_DICE = make_model, 0.0
main(["demo"])
"""


@dataclass(frozen=True)
class Reader:
    """Somebody in a fresh folder after `make demo`, whose output is kept."""

    folder: Path
    env: dict[str, str]
    demo: str = ""

    def run(self, *command: str, stdin: str = "", fails: bool = False) -> str:
        """Return what the command printed, both streams; it must fail if the page says so, and only then."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, input=stdin, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert bool(done.returncode) == fails, done.stdout
        return done.stdout

    def follow(self, step: Step) -> str:
        """Do what the page says and return what appears."""
        if step.source == "make demo":
            return self.demo
        if step.kind == "console":
            return self.run("bash", "-o", "pipefail", "-c", step.source, fails=step.fails)
        return self.run(*INTERPRETERS[step.kind], stdin=step.source, fails=step.fails)


@pytest.fixture(scope="module")
def reader(tour_server: embedded.ServerReport, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader whose demo has run in the embedded server of the tests."""
    folder = tmp_path_factory.mktemp("clone")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "DBINFER_HOME": str(tour_server.home), "COLUMNS": "80", "TERM": "dumb"}
    start = Reader(folder, env)
    yield Reader(folder, env, start.run(sys.executable, "-c", DEMO))
    start.run("dbinfer", "psql", "-c", "DROP ROLE IF EXISTS analysts")


@pytest.mark.parametrize("step", STEPS, ids=[f"{n:02d} {step}" for n, step in enumerate(STEPS)])
def test_tour(reader: Reader, step: Step) -> None:
    printed = reader.follow(step)
    assert tour.alike(step, printed), f"shown:\n{step.shown}\nprinted:\n{printed}"
