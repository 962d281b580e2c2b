"""The README's tour and the pages that begin where it ends are true: after `make demo` every line runs, and prints
what is shown."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import tour
from common_folders import common_folder
from labelling import Page, address
from tour import Step
from variants import wide

from dbinfer import server as embedded

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/how-to/arriving.md",
    "docs/how-to/compose.md",
    "docs/how-to/estimate.md",
    "docs/how-to/find.md",
    "docs/how-to/nightly.md",
    "docs/how-to/who-may-use.md",
)
# they train, and begin where the demo ends
WIDE = ("docs/how-to/label.md", "docs/tutorial/first-classifier.md")
STEPS, FURTHER = ([step for page in pages for step in tour.steps(ROOT / page)] for pages in (PAGES, WIDE))
PATIENCE = 60.0
INTERPRETERS = {"sql": ("dbinfer", "psql", "-X", "-v", "ON_ERROR_STOP=1"), "python": (sys.executable, "-")}
# The real demo; only the network of the masks is small and hardly trained, for time's sake.
DEMO = """
from dataclasses import replace
from dbinfer.cli import main
from dbinfer.demo import acts
make = acts.make_model
def make_model(story, name, job, *rest):
    small = replace(job, epochs=1, network_options={"size": 64, "depth": 2, "base_width": 4})
    make(story, name, small if name == "strokes" else job, *rest)
acts.make_model, acts.LEAST_DICE = make_model, 0.0
main(["demo"])
"""


@dataclass(frozen=True)
class Reader:
    """Somebody in a fresh folder after `make demo`, whose output is kept.

    Attributes:
        served: what a page calls /srv/photos, a folder that the database's server can read.
        watching: commands that do not end.
    """

    folder: Path
    env: dict[str, str]
    served: Path
    demo: str = ""
    watching: list[subprocess.Popen[str]] = field(default_factory=list)

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
        if step.stays:
            command = ["bash", "-c", f"exec {step.source}"]
            self.watching.append(subprocess.Popen(command, cwd=self.folder, env=self.env, text=True))
            return ""
        if step.answered:
            return self.answer(step.source)
        if step.kind == "console":
            return self.run("bash", "-o", "pipefail", "-c", step.source, fails=step.fails)
        source = step.source.replace("/srv/photos", str(self.served))
        return self.run(*INTERPRETERS[step.kind], stdin=source, fails=step.fails)

    def answer(self, command: str) -> str:
        """Label on the page that the command serves, by the truth in the table `pile`; return what it printed."""
        lines = self.run("dbinfer", "psql", "-X", "-A", "-t", "-c", "SELECT id, truth FROM pile").split()
        truth = dict(line.split("|") for line in lines)
        with subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self.env,
            text=True,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout
            page = Page(address(said := process.stdout.readline()))
            for number in range(page.ask("/api/work").json["rows"]):
                assert page.ask(f"/api/image/{number}").status == 200
                page.give(number, truth[page.ask(f"/api/row/{number}").json["key"]])
            page.ask("/api/finish", {})
            said += process.stdout.read()
        return said.replace(page.token, "...")

    def seen(self, step: Step) -> str:
        """Return what appears; what a command that does not end has still to do is waited for."""
        end = time.monotonic() + PATIENCE
        while self.watching and step.source.startswith("SELECT") and time.monotonic() < end:
            with suppress(AssertionError):
                if tour.alike(step, printed := self.follow(step)):
                    return printed
            time.sleep(0.2)
        return self.follow(step)


@pytest.fixture(scope="module")
def reader(tour_server: embedded.ServerReport, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader whose demo has run in the embedded server of the tests."""
    folder = tmp_path_factory.mktemp("clone")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "DBINFER_HOME": str(tour_server.home), "COLUMNS": "80", "TERM": "dumb"}
    with common_folder("photos") as served:
        start = Reader(folder, env, served)
        reader = Reader(folder, env, served, start.run(sys.executable, "-c", DEMO))
        photo = shutil.copy(folder / "out/demo/heldout/0/0009.png", served)
        os.chmod(photo, 0o644)
        yield reader
        for process in reader.watching:
            process.terminate()
            process.wait(PATIENCE)
    start.run("dbinfer", "psql", "-c", "DROP ROLE IF EXISTS analysts")


@pytest.mark.parametrize(
    "step",
    [*STEPS, *wide(*FURTHER)],
    ids=[f"{n:02d} {step}" for n, step in enumerate([*STEPS, *FURTHER])],
)
def test_tour(reader: Reader, step: Step) -> None:
    printed = reader.seen(step)
    assert tour.alike(step, printed), f"shown:\n{step.shown}\nprinted:\n{printed}"
