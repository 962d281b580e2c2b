"""Telling our server's processes from others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbinfer.database import state
from dbinfer.database.state import Home

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
