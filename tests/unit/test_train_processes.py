"""Processes that train: how they are ended."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dbinfer.train import processes


def test_one_that_ends_while_it_is_ended_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], text=True, start_new_session=True)
    process.wait()
    # another thread has seen its end after this one had asked
    monkeypatch.setattr(process, "poll", lambda: None)
    processes.stop(process)
    assert process.returncode == 0
