"""A database of 0.2.0, made and used by its own client: models, grants and results outlive the upgrade."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv as environments
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, role, rows
from catalog import another_database, snapshot

from dbinfer.install import InstallOptions, install, upgrade
from dbinfer.score import ScoreOptions, score

RELEASE = "0.2.0"
IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
Client = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The command `dbinfer` of that release, as its wheel had it."""
    folder = tmp_path_factory.mktemp("released")
    # of its own, because some of its processes heed no PYTHONPATH; our packages come after its own
    environments.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    wheel = Path(__file__).parent / "released" / f"dbinfer-{RELEASE}-py3-none-any.whl"
    zipfile.ZipFile(wheel).extractall(packages)
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))

    def call(dsn: str, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"DBINFER_DSN": dsn}
        # not from a clone, whose packages Python would take first
        return subprocess.run(
            [str(folder / "bin" / "python"), "-m", "dbinfer", *words],
            check=False, env=environment, cwd=folder, capture_output=True, text=True,
        )  # fmt: skip

    return call


@pytest.fixture
def old(server_dsn: str, venv: Path, client: Client, tmp_path: Path) -> Iterator[str]:
    """A database of 0.2.0 with m@1 (alias first), m@2 = m, secret, and a table that a job has scored."""
    with another_database(server_dsn, "test_released_2") as dsn:
        with closing(psycopg2.connect(dsn)) as connection, connection:
            rows(connection, "CREATE TABLE public.images (id integer PRIMARY KEY, img bytea)")
            rows(connection, "INSERT INTO public.images SELECT n, %s FROM generate_series(1, 5) n", IMAGE)
        models = [str(tiny_models.constant(tmp_path, number, f"n{number}")) for number in (1, 2, 5)]
        for words in (
            ("install", "--venv", str(venv)),
            ("deploy", models[0], "--name", "m", "--alias", "first"),
            ("deploy", models[1], "--name", "m"),
            ("deploy", models[2], "--name", "secret", "--private"),
            ("score", "--model", "m", "--function", "predict"),
        ):
            done = client(dsn, *words)
            assert done.returncode == 0, done.stdout + done.stderr
        yield dsn


REGISTRY = (
    "SELECT name, version, is_default, versions, aliases, granted_to, size, created_at FROM dbinfer.models",
    "SELECT name, version, active, aliases, digest, manifest, created_by FROM dbinfer.model_versions",
    "SELECT id, role, source, target, state, done, errors FROM dbinfer.jobs",
    "SELECT * FROM public.predictions",
)


@pytest.mark.wide
def test_all_is_as_before_and_goes_on(old: str, client: Client) -> None:
    predict = "SELECT dbinfer.predict(%s, %s)"
    with closing(psycopg2.connect(old)) as session:
        session.autocommit = True
        before = [sorted(map(str, rows(session, query))) for query in REGISTRY]
        assert [len(found) for found in before] == [2, 3, 1, 5]
        assert ask(session, predict, IMAGE, "m") == [2, 2, 2]

        assert upgrade(dsn=old).changed

        assert [sorted(map(str, rows(session, query))) for query in REGISTRY] == before
        # in the session that was open meanwhile
        assert ask(session, predict, IMAGE, "m@first") == [1, 1, 1]
        assert ask(session, predict, IMAGE, "secret") == [5, 5, 5]
        with role(session):
            assert ask(session, predict, IMAGE, "m") == [2, 2, 2]
            refused(session, "42501", predict, IMAGE, "secret")
        rows(session, "INSERT INTO public.images VALUES (6, %s)", IMAGE)
        assert score(options=ScoreOptions(model="m", function="predict"), dsn=old).rows == 1
    late = client(old, "models")
    assert late.returncode == 1, late.stdout
    assert f"newer than this client, {RELEASE}" in " ".join(late.stderr.split())


@pytest.mark.wide
def test_an_upgraded_database_equals_a_fresh_one(server_dsn: str, venv: Path, client: Client) -> None:
    with another_database(server_dsn, "test_old_2") as old, another_database(server_dsn, "test_new_2") as new:
        made = client(old, "install", "--venv", str(venv))
        assert made.returncode == 0, made.stderr
        upgrade(dsn=old)
        install(InstallOptions(venv=str(venv)), new)
        assert snapshot(old) == snapshot(new)
