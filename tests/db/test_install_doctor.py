"""doctor: what it looks at, what it finds wrong, the hint it names, its exit code."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, role, rows
from common_folders import common_folder
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

from dbinfer.base.errors import ServerError
from dbinfer.database.backends import Check
from dbinfer.install import InstallOptions, install
from dbinfer.install.doctor import doctor as examine
from dbinfer.models import DeployOptions, deploy, drop
from dbinfer.models.precision import slow_hosts
from dbinfer_udf.host.process import precisions

PROGRAM = Path(sys.executable).with_name("dbinfer")


def doctor(dsn: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, "doctor", "--dsn", dsn, *args]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "220"}
    )


def wrong(dsn: str) -> list[Check]:
    return [check for check in examine(dsn).checks if not check.ok]


def test_a_well_installation(dsn: str, venv: Path) -> None:
    done = doctor(dsn, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (0, True), done.stdout
    assert all(set(check) == {"name", "ok", "detail", "hint"} for check in report["checks"])
    text = " ".join(f"{check['name']} {check['detail']}" for check in report["checks"])
    for word in ("python", "openvino", "numpy", "opencv", str(venv), "threads", "cache", "digest"):
        assert word in text
    table = doctor(dsn)
    assert table.returncode == 0
    assert "All is well." in table.stdout


@pytest.fixture
def setting(dsn: str) -> object:
    """Change a setting for one test."""
    before: list[tuple[str, str | None]] = []

    def change(name: str, value: str) -> None:
        with closing(psycopg2.connect(dsn)) as connection:
            connection.autocommit = True
            query = "SELECT value FROM dbinfer_private.setting WHERE name = %s"
            before.append((name, ask(connection, query, name)))
            rows(connection, "SELECT dbinfer_private.set_setting(%s, %s)", name, value)

    yield change
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        for name, value in before:
            if value is None:
                rows(connection, "DELETE FROM dbinfer_private.setting WHERE name = %s", name)
            else:
                rows(connection, "SELECT dbinfer_private.set_setting(%s, %s)", name, value)


@pytest.mark.wide
def test_a_venv_that_is_not_there(dsn: str, setting: object) -> None:
    setting("venv", "/nowhere/venv")  # type: ignore[operator]
    done = doctor(dsn, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (1, False)
    check, *others = [check for check in report["checks"] if not check["ok"]]  # one a segment
    assert all(other["hint"] == check["hint"] for other in others)
    assert "/nowhere/venv" in check["detail"]
    assert "-m venv /nowhere/venv" in check["hint"]
    assert "dbinfer install --venv" in check["hint"]
    table = doctor(dsn)
    assert table.returncode == 1
    assert "Something is wrong." in table.stdout


def test_install_says_at_once_what_doctor_would(dsn: str, setting: object) -> None:
    setting("venv", "/nowhere/other")  # type: ignore[operator]
    report = install(InstallOptions(venv="/nowhere/venv"), dsn)
    assert (report.changed, report.ok) == (True, False)
    assert list(report.problems) == wrong(dsn)
    assert "-m venv /nowhere/venv" in report.problems[0].hint


@pytest.mark.wide
def test_install_with_a_missing_venv_on_the_command_line(dsn: str, setting: object) -> None:
    setting("venv", "/nowhere/other")  # type: ignore[operator]
    command = [PROGRAM, "install", "--venv", "/nowhere/venv", "--dsn", dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "changed settings: venv = /nowhere/venv" in done.stdout
    assert "there is no folder /nowhere/venv" in done.stdout
    assert "/bin/pip install openvino" in done.stdout
    facts = json.loads(
        subprocess.run([*command, "--json"], capture_output=True, text=True, check=False).stdout
    )
    assert facts["ok"] is False
    assert "/nowhere/venv" in facts["problems"][0]["detail"]


def test_the_same_venv_in_a_query(dsn: str, setting: object, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 1), dsn=dsn)
    setting("venv", "/nowhere/venv")  # type: ignore[operator]
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        image = tiny_models.file(tiny_models.picture(1, 2, 3))
        diag = refused(connection, "58P01", "SELECT dbinfer.predict(%s)", image)
        assert "/nowhere/venv" in (diag.message_primary or "")
        assert "pip install" in (diag.message_hint or "")


def test_a_venv_without_the_packages(dsn: str, setting: object, server_dsn: str) -> None:
    with closing(psycopg2.connect(dsn)) as connection:
        version = ask(connection, "SELECT python FROM dbinfer.segments LIMIT 1").rpartition(".")[0]
    with common_folder("venv") as folder:
        (folder / "lib" / f"python{version}" / "site-packages").mkdir(parents=True)
        setting("venv", str(folder))  # type: ignore[operator]
        found = wrong(dsn)
    assert len(found) >= 1
    assert "cannot be imported" in found[0].detail


def test_a_venv_that_others_may_write_runs_nothing(dsn: str, setting: object, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 1), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as connection:
        version = ask(connection, "SELECT python FROM dbinfer.segments LIMIT 1").rpartition(".")[0]
    with common_folder("venv") as folder:
        folder.chmod(0o777)
        packages = folder / "lib" / f"python{version}" / "site-packages"
        packages.mkdir(parents=True)
        (packages / "trace.pth").write_text(f"import os; open('{folder}/ran', 'w').close()\n")
        setting("venv", "/nowhere/other")  # type: ignore[operator]
        report = install(InstallOptions(venv=str(folder)), dsn)
        image = tiny_models.file(tiny_models.picture(1, 2, 3))
        with closing(psycopg2.connect(dsn)) as connection:
            connection.autocommit = True
            diag = refused(connection, "42501", "SELECT dbinfer.predict(%s)", image)
        ran = (folder / "ran").exists()
    assert not ran
    assert f"everybody may write {folder}" in report.problems[0].detail
    assert "chmod -R go-w" in report.problems[0].hint
    assert f"everybody may write {folder}" in (diag.message_primary or "")


def test_a_cache_folder_that_cannot_be(dsn: str, setting: object) -> None:
    setting("cache_dir", "/proc/nowhere")  # type: ignore[operator]
    check = wrong(dsn)[0]  # one a segment
    assert "/proc/nowhere" in check.detail
    assert "--cache-dir" in check.hint + check.detail


def test_too_many_threads(dsn: str, setting: object) -> None:
    setting("threads", "999")  # type: ignore[operator]
    check = wrong(dsn)[0]  # one a segment
    assert check.name.endswith("threads")
    assert "999 of" in check.detail
    assert "--threads auto" in check.hint


def test_another_runtime_in_the_database(dsn: str, setting: object) -> None:
    setting("runtime_digest", "0" * 64)  # type: ignore[operator]
    assert any(check.hint == "dbinfer upgrade" for check in wrong(dsn))


def test_where_it_is_not_installed(empty_dsn: str, server_dsn: str) -> None:
    (check,) = wrong(make_dsn(server_dsn, dbname="template1"))
    assert (check.name, check.hint) == ("installed", "dbinfer install")
    assert doctor(make_dsn(server_dsn, dbname="template1")).returncode == 1


def test_a_role_without_rights_sees_the_places(dsn: str, db: Connection) -> None:
    with role(db) as name:
        report = examine(make_dsn(dsn, options=f"-c role={name}"))
        assert report.ok
        assert any("connect as a superuser" in check.detail for check in report.checks)
        said = " ".join(f"{check.name} {check.detail} {check.hint}" for check in report.checks)
        assert "None" not in said
        assert socket.gethostname() not in said


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ServerError):
        examine("host=127.0.0.1 port=1 connect_timeout=2")
    done = doctor("host=127.0.0.1 port=1 connect_timeout=2", "--json")
    assert done.returncode == 1
    assert "cannot connect" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_host_without_the_instructions_is_named(dsn: str, tmp_path: Path) -> None:
    """f16 needs what few processors have; where this one has it, the check is about nothing."""
    path = tiny_models.constant(tmp_path, 3, "halves")
    deploy(path, DeployOptions(values={"precision": "f16"}), dsn=dsn)
    found = [check for check in wrong(dsn) if check.name == "precision"]
    assert bool(found) == ("f16" not in precisions())
    for check in found:
        assert check.detail.startswith("halves computes in f16, for which ")
        assert "--precision f32" in check.hint
    drop("halves", True, dsn)


def test_hosts_are_told_apart_by_what_they_compute() -> None:
    answers = [
        [("fast", "bf16"), ("other", "f16")],
        [(0, "a", ["bf16"]), (1, "b", []), (2, "b", []), (3, None, ["bf16", "f16"]), (4, "old", None)],
    ]
    check = slow_hosts(FakeConnection(answers))  # type: ignore[arg-type]
    assert not check.ok
    assert check.detail == (
        "fast computes in bf16, for which b has no instructions; other computes in f16, for which a has no "
        "instructions; other computes in f16, for which b has no instructions"
    )
    assert slow_hosts(FakeConnection([[], answers[1]])).ok  # type: ignore[arg-type]


class FakeConnection:
    """Answers each statement with the next rows."""

    def __init__(self, answers: list[list[tuple[object, ...]]]) -> None:
        self.answers = iter(answers)

    def cursor(self) -> FakeConnection:
        return self

    def __enter__(self) -> FakeConnection:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def execute(self, text: str) -> None:
        self.rows = next(self.answers)

    def fetchall(self) -> list[tuple[object, ...]]:
        return self.rows


def test_a_registry_of_which_a_part_is_missing(db: Connection, dsn: str) -> None:
    """As a role without PL/Python restores a dump; it ended with `current transaction is aborted`."""
    for name in ("_status()", "_full_status()"):
        rows(db, f"ALTER FUNCTION dbinfer.{name} RENAME TO {name.strip('()')}_gone")
    try:
        assert [check for check in wrong(dsn) if "does not exist" in check.detail]
    finally:
        for name in ("_status", "_full_status"):
            rows(db, f"ALTER FUNCTION dbinfer.{name}_gone() RENAME TO {name}")
