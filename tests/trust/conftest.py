"""What the trust tests share: servers of their own to break, and the table of what was done at the end of the run."""

from __future__ import annotations

from collections.abc import Iterator

import figures
import pytest
from asking import ask
from breakable import IMAGE, PREDICT, SEVEN, Breakable, breakable
from common_folders import common_folder
from servers import backend_venv, engine_dir

from dbinfer import server as embedded

# a folder of engines of their own: an engine that the other tests' server uses, too, does not end with a server
__all__ = ["engine_dir"]


@pytest.fixture(scope="module")
def own_server(session_env: pytest.MonkeyPatch) -> Iterator[embedded.ServerReport]:
    """An embedded server for this module alone, which may be killed and stopped."""
    with common_folder("trust") as folder:
        try:
            yield embedded.up(folder, embedded.UpOptions(backend_venv()))
        finally:
            embedded.down(folder)


@pytest.fixture(scope="module")
def broken(own_server: embedded.ServerReport, tmp_path_factory: pytest.TempPathFactory) -> Breakable:
    """A database with models, whose cache lies in a folder of its own."""
    return breakable(own_server, tmp_path_factory.mktemp("irs"))


@pytest.fixture
def as_before(broken: Breakable, request: pytest.FixtureRequest) -> Iterator[None]:
    """After a fault: nothing is left lying about, and a new session scores."""
    yield
    figures.record(request.node.name, faults=1)
    assert broken.leftovers() == []
    with broken.session() as db:
        assert ask(db, PREDICT, IMAGE, "seven") == SEVEN


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = {report.nodeid.partition("::")[0] for report in terminalreporter.stats.get("passed", ())}
    attacked = figures.boundaries(passed)
    if attacked:
        figures.record("boundaries: " + ", ".join(attacked), boundaries=len(attacked))
    lines = figures.table()
    if lines:
        terminalreporter.section("trust")
        for line in lines:
            terminalreporter.write_line(line)
        terminalreporter.write_line("" if figures.long() else "A part was tried; LONG=1 tries all of it.")
        if any(line.endswith("not tried") for line in lines):
            terminalreporter.write_line(
                "Not tried: by the tests of this run. `make test-trust` runs all of them."
            )
