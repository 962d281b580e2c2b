"""PostgreSQL's official image with the three lines of docs/how-to/docker.md; or a stand-in for it."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask
from containers import ROOT, docker, free_port, need, run
from outside import dbinfer, facts, write_colours
from psycopg2.extensions import make_dsn

OFFICIAL, STANDIN, STANDIN_BASE = "postgres:17", "dbinfer-test-postgres:17", "debian:trixie-slim"
SETUP, IMAGE = "dbinfer-setup", "dbinfer-test-official"
LINES = re.compile(r"```dockerfile\n(FROM postgres:17\n.*?)```", re.DOTALL)


def build(text: str, tag: str, folder: Path) -> None:
    """Build an image from a Dockerfile of these lines."""
    (folder / "Dockerfile").write_text(text)
    docker("build", "-t", tag, str(folder), timeout=1800)


@pytest.fixture(scope="module")
def base() -> str:
    """The official image, or the stand-in."""
    if run(["docker", "pull", "-q", OFFICIAL], timeout=1800).returncode == 0:
        return OFFICIAL
    need(STANDIN_BASE, f"; {OFFICIAL} neither")
    docker("build", "-t", STANDIN, str(Path(__file__).parent / "official"), timeout=1800)
    return STANDIN


@pytest.fixture(scope="module")
def image(base: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image that the documentation's lines give."""
    file = str(ROOT / "docker/database/Dockerfile")
    docker("build", "-f", file, "--target", "setup", "-t", SETUP, str(ROOT), timeout=1800)
    found = LINES.search((ROOT / "docs" / "how-to" / "docker.md").read_text())
    assert found, "docs/how-to/docker.md shows no lines FROM postgres:17"
    assert len(found[1].splitlines()) == 3
    build(found[1].replace(OFFICIAL, base), IMAGE, tmp_path_factory.mktemp("official"))
    return IMAGE


@dataclass(frozen=True)
class Running:
    """A container and how it is reached from outside."""

    name: str
    dsn: str


@pytest.fixture(scope="module")
def official(image: str) -> Iterator[Running]:
    """The image, started as its users start the official one, with another user and database than postgres."""
    name, port = f"dbinfer-test-{uuid.uuid4().hex[:8]}", free_port()
    values = {"POSTGRES_USER": "alice", "POSTGRES_PASSWORD": "p'w d", "POSTGRES_DB": "photos"}
    words = [word for pair in values.items() for word in ("-e", "=".join(pair))]
    docker(
        "run",
        "-d",
        "--init",
        "--name",
        name,
        "--shm-size",
        "1g",
        "-p",
        f"127.0.0.1:{port}:5432",
        *words,
        image,
    )
    dsn = make_dsn(host="127.0.0.1", port=port, user="alice", dbname="photos", password="p'w d")
    try:
        wait(dsn, name)
        yield Running(name, dsn)
    finally:
        print(docker("logs", "--tail", "60", name))
        docker("rm", "-f", "-v", name)


def wait(dsn: str, name: str) -> None:
    """Return when the server takes connections from outside, which it does after its first start."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        with suppress(psycopg2.OperationalError):
            return psycopg2.connect(dsn).close()
        time.sleep(0.5)
    pytest.fail(f"the server did not answer: {docker('logs', name)}")


def test_the_first_start_installs_dbinfer(official: Running) -> None:
    with closing(psycopg2.connect(official.dsn)) as db:
        assert str(ask(db, "SHOW server_version")).startswith("17")
        assert ask(db, "SELECT count(*) FROM dbinfer.models") == 0
    assert facts(official.dsn, "doctor")["ok"]


def test_dbinfer_inside_reaches_the_database_that_the_image_made(official: Running) -> None:
    for user in ((), ("-u", "postgres")):
        # in any other database it would say that dbinfer is not there
        assert json.loads(docker("exec", *user, official.name, "dbinfer", "doctor", "--json"))["ok"]


def test_images_are_scored_in_it_and_in_its_engine(official: Running, tmp_path: Path) -> None:
    facts(official.dsn, "deploy", str(tiny_models.colour_classifier(tmp_path)), "--isolation", "always")
    loaded = facts(
        official.dsn,
        "load",
        str(write_colours(tmp_path / "images")),
        "--table",
        "colours",
        "--label-from",
        "folder",
    )
    assert loaded["loaded"] == 3
    right = "SELECT count(*) FROM colours WHERE (dbinfer.classify(img, 'colours')).label = label"
    with closing(psycopg2.connect(official.dsn)) as db:
        assert ask(db, right) == 3
        assert ask(db, "SELECT count(*) FROM dbinfer.engines") == 1


def test_its_data_outlives_a_restart(official: Running) -> None:
    docker("restart", official.name)
    wait(official.dsn, official.name)
    assert dbinfer(official.dsn, "doctor").returncode == 0


@pytest.mark.parametrize(
    ("base_image", "sentence"),
    [(STANDIN_BASE, "PG_MAJOR is not set: start from PostgreSQL's official image")],
)
def test_setup_refuses_another_base(image: str, base_image: str, sentence: str, tmp_path: Path) -> None:
    need(base_image, "")
    (tmp_path / "Dockerfile").write_text(f"FROM {base_image}\nCOPY --from={SETUP} / /\nRUN dbinfer-setup\n")
    done = run(["docker", "build", str(tmp_path)])
    assert done.returncode
    assert sentence in done.stdout + done.stderr
