"""The backends' virtual environment: pins, checks, and what is said when it cannot be made."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dbinfer import server
from dbinfer.base.errors import ServerError
from dbinfer.database import pins, state
from dbinfer.database.state import Home, State
from dbinfer.server import Python
from dbinfer.server.account import Account

HERE = Python(Path(sys.executable), f"{sys.version_info[0]}.{sys.version_info[1]}")


@pytest.fixture
def myself() -> Account:
    entry = pwd.getpwuid(os.geteuid())
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, "/", switch=False)


@pytest.fixture
def place(tmp_path: Path) -> Home:
    (tmp_path / "runtime").mkdir()
    return Home(tmp_path)


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_each_python_gets_one_exact_version_of_each_package(subtests: pytest.Subtests) -> None:
    for version in ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]:
        with subtests.test(version=version):
            lines = [line for line in pins.text().splitlines() if not line.startswith("#")]
            wanted = [
                one
                for one in map(Requirement, lines)
                if one.marker is None or one.marker.evaluate({"python_version": version})
            ]
            assert sorted(one.name for one in wanted) == [
                "numpy",
                "obstore",
                "opencv-python-headless",
                "openvino",
                "orjson",
            ]
            assert all(str(one.specifier).startswith("==") for one in wanted)


def test_a_runtime_with_the_current_pins_is_used_again(place: Home) -> None:
    said = list[str]()
    with pytest.raises(ServerError):
        server.ensure_venv(place, Python(program(place.path / "python", "exit 1"), "3.11"), said.append)
    venv = place.runtimes / said[0].rsplit("/", 1)[1]
    venv.mkdir()
    (venv / server.STAMP).write_text(pins.text())
    assert server.ensure_venv(place, Python(Path("/nowhere/python"), "3.11"), said.append) == venv
    assert len(said) == 1, "nothing is said when nothing is done"


def made(home: Home, name: str) -> Path:
    (home.runtimes / name).mkdir(parents=True)
    (home.runtimes / name / server.STAMP).write_text("pins of another version")
    return home.runtimes / name


def test_runtimes_that_no_server_uses_go(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stays: our own, this server's, another running server's, and one that is being made."""
    other, stranger = Home(place.path / "other"), Home(place.path / "stranger")
    named, lent, old = made(place, "py3.9-named"), made(place, "py3.9-lent"), made(place, "py3.9-old")
    current = made(place, server.own_venv(place, HERE).name)
    (unfinished := place.runtimes / "py3.9-unfinished").mkdir()
    elsewhere = made(stranger, "py3.9-old")
    other.path.mkdir()
    for home, venv in ((place, named), (other, lent)):
        state.save(home, State(venv=str(venv)))
    monkeypatch.setattr(state, "servers", lambda: [other])
    server.discard_old(place, HERE, lambda text: None)
    assert not old.exists()
    assert all(folder.is_dir() for folder in (named, lent, current, unfinished, elsewhere))


def test_no_runtime_goes_where_a_servers_state_cannot_be_read(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, other = made(place, "py3.9-old"), Home(place.path / "other")
    other.path.mkdir()
    other.state.write_text("damaged")
    for known in ([other], None):
        monkeypatch.setattr(state, "servers", lambda known=known: known)
        server.discard_old(place, HERE, lambda text: None)
        assert old.is_dir()


def test_a_running_server_is_found_by_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "state folder")
    home.path.mkdir()
    home.state.write_text("{}")
    for number, words in enumerate(
        (["postgres", "-D", str(home.data)], ["postgres", "-D", "/x/data"], ["cat"], [])
    ):
        (tmp_path / "proc" / str(number)).mkdir(parents=True)
        (tmp_path / "proc" / str(number) / "cmdline").write_text("\0".join([*words, ""]))
    monkeypatch.setattr(state, "PROC", tmp_path / "proc")
    assert state.servers() is None
    (tmp_path / "proc" / "self").mkdir()
    assert state.servers() == [home]


def test_a_missing_venv_module_names_the_package(place: Home) -> None:
    python = Python(program(place.path / "python", "echo 'No module named venv' >&2; exit 1"), "3.11")
    with pytest.raises(ServerError, match="No module named venv") as caught:
        server.ensure_venv(place, python, lambda text: None)
    assert "apt-get install python3-venv" in caught.value.hint
    assert list(place.runtimes.iterdir()) == [], "no half-made runtime stays"


@pytest.mark.wide
def test_pip_without_a_source_of_packages_is_a_clear_error(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ServerError, match=r"pip could not install .* No matching distribution") as caught:
        server.ensure_venv(place, HERE, lambda text: None)
    assert "dbinfer up --venv PATH" in caught.value.hint
    assert list(place.runtimes.iterdir()) == []


def test_a_folder_that_is_no_venv_is_refused(tmp_path: Path, myself: Account) -> None:
    with pytest.raises(ServerError, match=r"not a virtual environment: it has no bin/python"):
        server.check_venv(tmp_path, HERE, myself)


def test_a_venv_without_the_packages_is_refused(tmp_path: Path, myself: Account) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    with pytest.raises(ServerError, match="No module named") as caught:
        server.check_venv(tmp_path / "venv", HERE, myself)
    assert "pip install" in caught.value.hint


def test_a_venv_of_another_python_is_refused(tmp_path: Path, myself: Account) -> None:
    program(tmp_path / "bin" / "python", "echo 3.8")
    with pytest.raises(ServerError, match=r"has Python 3\.8, but PL/Python runs"):
        server.check_venv(tmp_path, HERE, myself)


def test_a_python_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="does not run: broken"):
        server.python_at(program(tmp_path / "python", "echo broken >&2; exit 3"))
