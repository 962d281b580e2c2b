"""docker/database: one container that scores images, used from inside and from outside."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from containers import docker, run
from outside import dbinfer, facts, write_colours
from projects import Database
from psycopg2.extensions import make_dsn


def test_the_image_holds_no_tensorflow(database_image: str) -> None:
    find = (
        "find",
        "/opt",
        "/usr",
        "-path",
        "*-packages/*",
        "-name",
        "tensorflow*",
        "-o",
        "-name",
        "openvino",
    )
    found = docker("run", "--rm", database_image, *find).splitlines()
    assert {Path(path).parent.name for path in found if path.endswith("/openvino")} >= {"site-packages"}
    assert [path for path in found if path.endswith("-packages/tensorflow")] == []


def test_the_server_is_no_root(database: Database) -> None:
    owner = database.project.execute("database", "stat", "-c", "%u", "/proc/1").stdout.strip()
    assert owner == "10001"


def test_psql_inside_needs_no_password(database: Database) -> None:
    answer = database.project.execute("database", "psql", "-XAtc", "SELECT current_user, current_database()")
    assert answer.stdout.strip() == "dbinfer|dbinfer"


def test_a_wrong_password_is_refused_outside(database: Database) -> None:
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(make_dsn(database.dsn, password="wrong"))


def test_the_port_is_open_on_this_machine_only(database: Database) -> None:
    published = docker("port", database.project.container("database")).splitlines()
    assert [line.split(" -> ")[1].rpartition(":")[0] for line in published] == ["127.0.0.1"]


def test_parallel_workers_fit_the_cores(database: Database) -> None:
    cores = int(database.project.execute("database", "nproc").stdout)
    with closing(psycopg2.connect(database.dsn)) as db:
        assert ask(db, "SELECT current_setting('max_parallel_workers')::int") == cores
        assert ask(db, "SELECT current_setting('max_parallel_workers_per_gather')::int") == max(1, cores - 1)


def test_deploy_load_score_and_doctor_from_outside(database: Database, tmp_path: Path) -> None:
    facts(database.dsn, "deploy", str(tiny_models.colour_classifier(tmp_path)))
    images = write_colours(tmp_path / "images")
    loaded = facts(database.dsn, "load", str(images), "--table", "colours", "--label-from", "folder")
    assert loaded["loaded"] == 3
    facts(database.dsn, "score", "--table", "colours", "--predictions", "answers", "--model", "colours")
    with closing(psycopg2.connect(database.dsn)) as db:
        found = rows(db, "SELECT c.label, a.label FROM answers a JOIN colours c USING (id) ORDER BY 1")
    assert found == [("blue", "blue"), ("green", "green"), ("red", "red")]
    (answer,) = facts(database.dsn, "predict", str(images / "red" / "0.png"), "--model", "colours")["answers"]
    assert answer["value"]["label"] == "red"
    assert facts(database.dsn, "doctor")["ok"]


def test_data_and_models_outlive_the_container(database: Database, tmp_path: Path) -> None:
    facts(database.dsn, "deploy", str(tiny_models.constant(tmp_path, 7)))
    database.project.down(volumes=False)
    database.project.up("database")
    image = tiny_models.file(tiny_models.picture(1, 2, 3))
    with closing(psycopg2.connect(database.dsn)) as db:
        assert ask(db, "SELECT dbinfer.predict(%s, 'constant')", image) == [7, 7, 7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-e", "DBINFER_PASSWORD=a", "-e", "DBINFER_PASSWORD_FILE=/b"), "are both set"),
        (("-e", "DBINFER_PASSWORD_FILE=/missing"), "cannot be read"),
        (("-e", "DBINFER_PASSWORD_FILE=/dev/null"), "is empty"),
        (("--tmpfs", "/var/lib/dbinfer:uid=0,mode=0755"), "is not writable for uid 10001"),
    ],
)
def test_a_wrong_setting_is_one_sentence(database_image: str, options: tuple[str, ...], message: str) -> None:
    done = run(["docker", "run", "--rm", *options, database_image])
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_given_password_is_set_at_each_start(database: Database) -> None:
    """Quotes, blanks and dollar signs are part of it; the one made at the first start ends."""
    made = database.project.execute("database", "cat", "/var/lib/dbinfer/password").stdout.strip()
    given = 'it\'s a "b" $HOME\\'
    for password, former in ((given, made), (made, given)):
        values = {**database.project.values, "DBINFER_PASSWORD": password}
        replace(database.project, values=values).up("database")
        assert dbinfer(make_dsn(database.dsn, password=password), "doctor").returncode == 0
        refused = dbinfer(make_dsn(database.dsn, password=former), "doctor")
        assert refused.returncode == 1
        assert "password authentication failed" in refused.stderr
