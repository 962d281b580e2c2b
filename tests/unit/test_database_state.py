"""What the embedded server remembers, the files libpq reads, and telling its processes from others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg2.extensions import parse_dsn

from dbinfer.base.errors import ServerError
from dbinfer.database import state
from dbinfer.database.state import Home, State


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    known = State(port=15432, version="15.20", socket_dir="/s", venv="/v", own_venv=False)
    state.save(Home(tmp_path), known)
    assert state.load(Home(tmp_path)) == known


def test_nothing_saved_is_none(tmp_path: Path) -> None:
    assert state.load(Home(tmp_path)) is None


def test_the_password_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    state.save(Home(tmp_path), State())
    for path in (Home(tmp_path).state, Home(tmp_path).passfile, Home(tmp_path).servicefile):
        assert path.stat().st_mode & 0o777 == 0o600, path


def test_passwords_differ_and_stay_out_of_repr() -> None:
    one, two = State(), State()
    assert one.password != two.password
    assert one.password not in repr(one)


def test_the_dsn_survives_a_path_with_spaces_and_holds_no_password(tmp_path: Path) -> None:
    place, known = Home(tmp_path / "a 'b"), State(port=1, socket_dir="/s p")
    parsed = parse_dsn(state.dsn(place, known))
    assert parsed["host"] == "/s p"
    assert parsed["passfile"] == str(place.passfile)
    assert "password" not in parsed


@pytest.mark.parametrize("content", ["", "{", "[]", '{"port": 1, "colour": "red"}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "server.json").write_text(content)
    with pytest.raises(ServerError, match=r"server\.json is damaged"):
        state.load(Home(tmp_path))


SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def place(tmp_path: Path) -> Home:
    (tmp_path / "data").mkdir()
    return Home(tmp_path)


@pytest.fixture
def stranger() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as running:
        yield running.pid
        running.kill()


def record(place: Home, content: object) -> None:
    (place.data / "postmaster.pid").write_text(f"{content}\n{place.data}\n")


def test_no_file_is_no_server(place: Home) -> None:
    assert state.postmaster(place) is None


@pytest.mark.parametrize("content", ["", "abc", "99999999"])
def test_a_stale_or_broken_file_is_no_server(place: Home, content: str) -> None:
    record(place, content)
    assert state.postmaster(place) is None


def test_a_process_of_another_program_is_no_server(place: Home, stranger: int) -> None:
    record(place, stranger)
    assert state.recorded_pid(place) == stranger
    assert state.postmaster(place) is None


def test_our_titles_are_recognised(place: Home) -> None:
    title = f"postgres: {place.mark}: parallel worker for PID 7"
    code = f"print(flush=True); {SLEEP}"
    with subprocess.Popen([title, "-c", code], executable=sys.executable, stdout=subprocess.PIPE) as ours:
        try:
            assert ours.stdout is not None
            ours.stdout.readline()  # the title is there once the program runs
            assert state.children(place) == [ours.pid]
            assert state.children(Home(place.path / "other")) == []
        finally:
            ours.kill()
