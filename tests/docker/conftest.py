"""The compose projects of the container tests, started when first needed and always removed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

sys.path.append(str(Path(__file__).parents[1] / "db"))  # tiny_models, asking

from asking import ask
from containers import BUILT, ROOT, RUNNING, Project, compose_command, need
from projects import DATABASE_IMAGE, Database, database_project, greenplum_project, training_project
from servers import ISOLATION

GREENPLUM_IMAGE = "DBINFER_TEST_GREENPLUM_IMAGE"
PUBLIC_GREENPLUM = "woblerr/greenplum:7.1.0"
DEBIAN = "debian:bookworm-slim"  # what the Dockerfiles start from


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Building the images takes minutes, the first time."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(3600))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failure shows the logs of the containers that run."""
    report = yield
    if report.failed:
        for project in RUNNING.values():
            report.sections.append((f"containers of docker/{project.folder}", project.logs()[-12000:]))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in BUILT:
        terminalreporter.write_line(f"docker/{line}")


@pytest.fixture(scope="session", autouse=True)
def compose() -> None:
    """Compose, in either of its two forms, and the base image of all but Greenplum's hosts."""
    if not compose_command():
        pytest.skip("neither 'docker compose' nor docker-compose is installed")
    need(DEBIAN, "")


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `make dist` makes."""
    folder = tmp_path_factory.mktemp("release")
    subprocess.run(["bash", "scripts/dist", folder], cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def database_image(compose: None) -> str:
    """The image of docker/database, built from this tree."""
    database_project().build("database")
    return DATABASE_IMAGE


@pytest.fixture(scope="session")
def database(database_image: str) -> Iterator[Database]:
    """PostgreSQL with dbinfer, started without any setting but the port."""
    project = database_project()
    try:
        project.up("database")
        password = project.execute("database", "cat", "/var/lib/dbinfer/password").stdout.strip()
        port = project.values["DBINFER_PORT"]
        dsn = make_dsn(host="127.0.0.1", port=port, user="dbinfer", dbname="dbinfer", password=password)
        if os.environ.get(ISOLATION):
            with closing(psycopg2.connect(dsn)) as db, db:
                ask(db, "SELECT dbinfer_private.set_setting('isolation', %s)", os.environ[ISOLATION])
        yield Database(project, dsn)
    finally:
        project.down()


@pytest.fixture(scope="session")
def training(compose: None) -> Iterator[Project]:
    """Two hosts that train together."""
    project = training_project()
    project.build("host1")
    try:
        project.up("host1", "host2")
        yield project
    finally:
        project.down()


@pytest.fixture(scope="session")
def greenplum(compose: None) -> Iterator[Project]:
    """A coordinator, two segment hosts and a client, with dbinfer installed from the client."""
    base = os.environ.get(GREENPLUM_IMAGE) or PUBLIC_GREENPLUM
    need(base, f"; {GREENPLUM_IMAGE} can name another one")
    project = greenplum_project(base)
    project.build("keys", "client")
    try:
        project.up("coordinator")
        isolation = os.environ.get(ISOLATION)
        words = ("--isolation", isolation) if isolation else ()
        project.execute("client", "dbinfer", "install", "--venv", "/opt/dbinfer/venv", *words)
        yield project
    finally:
        project.down()
