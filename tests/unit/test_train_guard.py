"""What stands beside the launcher of a training: it ends as the launcher does, and ends it with the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dbinfer.train import guard


def guarded(*command: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-I", guard.__file__, *command]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(words, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[str]]:
    """A launcher with a rank, both of which wait for ever; its output ends when both have ended."""
    with guarded("sh", "-c", "sleep 1000 & echo ready; sleep 1000") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def test_the_exit_status_is_the_launchers() -> None:
    for command, status in (("exit 3", 3), ("true", 0), ("kill -9 $$", -9), ("kill -15 $$", -15)):
        with guarded("sh", "-c", command) as process:
            assert process.wait() == status


def test_everything_ends_with_the_command_that_held_the_input(waiting: subprocess.Popen[str]) -> None:
    assert waiting.stdin is not None
    assert waiting.stdout is not None
    waiting.stdin.close()
    assert waiting.stdout.read() == ""
    assert waiting.wait() == -signal.SIGTERM


def test_a_signal_to_the_group_ends_everything(waiting: subprocess.Popen[str]) -> None:
    assert waiting.stdout is not None
    os.killpg(waiting.pid, signal.SIGTERM)
    assert waiting.stdout.read() == ""
    assert waiting.wait() == -signal.SIGTERM


def test_the_input_is_the_guards_own() -> None:
    with guarded("cat") as process:
        assert process.wait() == 0
