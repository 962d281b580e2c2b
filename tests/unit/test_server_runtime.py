"""The backends' virtual environment: pins, checks, and what is said when it cannot be made."""

from __future__ import annotations

import hashlib
import os
import pwd
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from dbinfer.base.errors import ServerError, UsageError
from dbinfer.database import pins, state
from dbinfer.database.state import Home, State
from dbinfer.server import runtime
from dbinfer.server.account import Account, host_account
from dbinfer.server.runtime import HostVenvOptions, Python, host_venv

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


def test_a_runtime_with_the_current_pins_is_used_again(place: Home) -> None:
    said = list[str]()
    with pytest.raises(ServerError):
        runtime.ensure_venv(place, Python(program(place.path / "python", "exit 1"), "3.11"), said.append)
    venv = place.runtimes / said[0].rsplit("/", 1)[1]
    venv.mkdir()
    (venv / runtime.STAMP).write_text(pins.text())
    assert runtime.ensure_venv(place, Python(Path("/nowhere/python"), "3.11"), said.append) == venv
    assert len(said) == 1, "nothing is said when nothing is done"


def made(home: Home, name: str) -> Path:
    (home.runtimes / name).mkdir(parents=True)
    (home.runtimes / name / runtime.STAMP).write_text("pins of another version")
    return home.runtimes / name


def test_runtimes_that_no_server_uses_go(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stays: our own, this server's, another running server's, and one that is being made."""
    other, stranger = Home(place.path / "other"), Home(place.path / "stranger")
    named, lent, old = made(place, "py3.9-named"), made(place, "py3.9-lent"), made(place, "py3.9-old")
    current = made(place, runtime.own_venv(place, HERE).name)
    (unfinished := place.runtimes / "py3.9-unfinished").mkdir()
    elsewhere = made(stranger, "py3.9-old")
    other.path.mkdir()
    for home, venv in ((place, named), (other, lent)):
        state.save(home, State(venv=str(venv)))
    monkeypatch.setattr(state, "servers", lambda: [other])
    runtime.discard_old(place, HERE, lambda text: None)
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
        runtime.discard_old(place, HERE, lambda text: None)
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
        runtime.ensure_venv(place, python, lambda text: None)
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
        runtime.ensure_venv(place, HERE, lambda text: None)
    assert "dbinfer up --venv PATH" in caught.value.hint
    assert list(place.runtimes.iterdir()) == []


def test_a_folder_that_is_no_venv_is_refused(tmp_path: Path, myself: Account) -> None:
    with pytest.raises(ServerError, match=r"not a virtual environment: it has no bin/python"):
        runtime.check_venv(tmp_path, HERE, myself)


def test_a_venv_without_the_packages_is_refused(tmp_path: Path, myself: Account) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    with pytest.raises(ServerError, match="No module named") as caught:
        runtime.check_venv(tmp_path / "venv", HERE, myself)
    assert "dbinfer host-venv" in caught.value.hint


def test_a_venv_of_another_python_is_refused(tmp_path: Path, myself: Account) -> None:
    program(tmp_path / "bin" / "python", "echo 3.8")
    with pytest.raises(ServerError, match=r"has Python 3\.8, but PL/Python runs"):
        runtime.check_venv(tmp_path, HERE, myself)


def test_a_python_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="does not run: broken"):
        runtime.python_at(program(tmp_path / "python", "echo broken >&2; exit 3"))


def wheel(folder: Path, name: str, version: str) -> str:
    """Make a wheel that holds an empty module; return its digest."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", "")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with wheels of what backends import, all empty, whose digests are the pins."""
    (folder := tmp_path / "carried").mkdir()
    digests = {name: wheel(folder, name, "1.0") for name in ("cv2", "numpy", "openvino", "orjson")}
    text = "".join(f"{name}==1.0 \\\n    --hash=sha256:{digest}\n" for name, digest in digests.items())
    monkeypatch.setattr(pins, "text", lambda: text)
    return folder


@pytest.fixture
def options(carried: Path) -> HostVenvOptions:
    return HostVenvOptions(Path(sys.executable).resolve(), pwd.getpwuid(os.geteuid()).pw_name, carried)


def test_a_hosts_environment_is_made_from_packages_that_were_carried_there(
    options: HostVenvOptions, tmp_path: Path
) -> None:
    """And checked where it is there; other packages than those of the release are named."""
    (folder := tmp_path / "host").mkdir()
    made = host_venv(folder, options)
    assert (made.new, made.packages) == (True, dict.fromkeys(["cv2", "numpy", "openvino", "orjson"], "1.0"))
    assert folder.stat().st_mode & 0o777 == 0o755
    assert replace(made, new=False) == host_venv(folder, options)
    metadata = next(folder.glob("lib/python3*/site-packages/numpy-1.0.dist-info/METADATA"))
    metadata.write_text(metadata.read_text().replace("1.0", "1.1"))
    with pytest.raises(ServerError, match=r"has numpy 1\.1; this release names .*numpy==1\.0") as caught:
        host_venv(folder, options)
    assert "make another one beside it" in caught.value.hint


def test_a_file_of_another_digest_is_refused_and_nothing_stays(
    options: HostVenvOptions, carried: Path, tmp_path: Path
) -> None:
    wheel(carried, "numpy", "1.0")
    with (carried / "numpy-1.0-py3-none-any.whl").open("ab") as file:
        file.write(b"more")
    with pytest.raises(
        ServerError, match=r"the file of numpy==1\.0 has another digest than this release names"
    ):
        host_venv(tmp_path / "host", options)
    assert not (tmp_path / "host").exists()


def test_what_cannot_be_a_hosts_environment(
    options: HostVenvOptions, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thing").touch()
    old = program(tmp_path / "python3.8", "echo 3.8")
    for folder, changed, message in [
        ("file", {}, "is not a folder"),
        ("other", {}, "is not a virtual environment"),
        ("host", {"python": tmp_path / "none"}, "cannot be run: No such file"),
        ("host", {"python": old}, r"is Python 3\.8"),
        ("host", {"user": "nobody_of_this_name"}, "no user named nobody_of_this_name"),
    ]:
        with subtests.test(message=message), pytest.raises(ServerError, match=message):
            host_venv(tmp_path / folder, replace(options, **changed))  # type: ignore[arg-type]
        assert not (tmp_path / "host").exists()
    for wrong, message in [
        ({"offline": tmp_path / "none"}, "there is no folder"),
        ({"python_version": "3.9"}, "only of --download"),
        ({"download": True, "offline": None, "python_version": "4"}, "'4' is no version of Python"),
        ({"download": True}, "both --download and --offline"),
    ]:
        with subtests.test(message=message), pytest.raises(UsageError, match=message):
            replace(options, **wrong)  # type: ignore[arg-type]
    for wrong_place in ("venv", ""):
        with pytest.raises(UsageError, match="is no absolute path"):
            host_venv(wrong_place, options)


def test_a_user_whom_the_host_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in containers that run with any number."""
    monkeypatch.setattr(os, "geteuid", lambda: 987654321)
    with pytest.raises(ServerError, match="the user id 987654321 has no entry in the user database"):
        host_account(None)


@pytest.mark.wide
def test_packages_are_fetched_for_the_python_of_other_hosts(
    options: HostVenvOptions, carried: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(carried))
    fetched = host_venv(tmp_path / "fetched", HostVenvOptions(download=True, python_version="3.12"))
    assert (fetched.python, fetched.user, len(fetched.packages)) == ("3.12", None, 4)
    there = sorted(path.name for path in fetched.folder.iterdir())
    assert there == sorted(["requirements-3.12.txt", *(path.name for path in carried.iterdir())])
    assert host_venv(tmp_path / "host", replace(options, offline=fetched.folder)).new
