"""Workers killed again and again while rows are scored: every row once and right, or one clean error. LONG=1: more."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine_models
import pytest
import tiny_models
from engine_models import processes, wait_until

from dbinfer_udf.engine import client
from dbinfer_udf.errors import EngineError, RowError

LONG = bool(os.environ.get("LONG"))
ROWS = 100_000 if LONG else 6_000
SESSIONS = 4


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[client.Engine]:
    folder = tmp_path / "engine"
    folder.mkdir(mode=0o700)
    made = engine_models.engine(folder)
    yield made
    left = [pid for pids in processes(made).values() for pid in pids]
    client.stop(made.settings)
    wait_until(lambda: not engine_models.alive(left), "the end of all processes")


class Storm(threading.Thread):
    """Kills one process of a kind after another until it is told to stop."""

    def __init__(self, engine: client.Engine, kinds: tuple[str, ...], seconds: float) -> None:
        super().__init__()
        self.engine, self.kinds, self.seconds = engine, kinds, seconds
        self.over, self.killed = threading.Event(), 0

    def run(self) -> None:
        choice, pause = random.Random(0), 0.1  # the first soon: all rows may be scored within a second
        while not self.over.wait(pause):
            pause = self.seconds
            found = processes(self.engine)
            victims = [pid for kind in self.kinds for pid in found[kind]]
            if victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(choice.choice(victims), signal.SIGKILL)
                self.killed += 1


class Session(threading.Thread):
    """Scores rows; keeps what became of each."""

    def __init__(self, model: Any, rows: range) -> None:
        super().__init__()
        self.model, self.rows = model, rows
        self.found: dict[int, Any] = {}

    def run(self) -> None:
        for row in self.rows:
            img = tiny_models.file(tiny_models.picture(row % 256, row // 256 % 256, 7))
            try:
                self.found[row] = self.model.ask("predict", img, None)
            except (RowError, EngineError) as err:
                self.found[row] = err


def storm(engine: client.Engine, tmp_path: Path, kinds: tuple[str, ...], seconds: float) -> list[Any]:
    """Score rows in sessions at once while processes are killed; check those without an error, return the errors."""
    spec, entry = engine_models.ticket(tiny_models.colour_classifier(tmp_path), tmp_path / "cache")
    models = [engine.open(spec, entry.folder, 1) for _ in range(SESSIONS)]
    part = ROWS // SESSIONS
    sessions = [Session(model, range(n * part, (n + 1) * part)) for n, model in enumerate(models)]
    killer = Storm(engine, kinds, seconds)
    for thread in (killer, *sessions):
        thread.start()
    for session in sessions:
        session.join()
    killer.over.set()
    killer.join()
    found = {row: value for session in sessions for row, value in session.found.items()}
    assert sorted(found) == list(range(part * SESSIONS))
    errors = [value for value in found.values() if isinstance(value, Exception)]
    for row, value in found.items():
        right = f"{{{row % 256}.0,{row // 256 % 256}.0,7.0}}"
        assert isinstance(value, Exception) or value == right
    assert killer.killed > 0
    assert len(errors) <= killer.killed * SESSIONS
    return errors


@pytest.mark.wide
def test_every_row_is_right_or_one_clean_error(engine: client.Engine, tmp_path: Path) -> None:
    errors = storm(engine, tmp_path, ("worker",), 1.0 if LONG else 0.2)
    assert {str(err) for err in errors} <= {"the worker that scored this image was killed"}


@pytest.mark.wide
def test_the_same_where_whole_trees_die(engine: client.Engine, tmp_path: Path) -> None:
    begun = time.monotonic()
    errors = storm(engine, tmp_path, ("worker", "loader", "zygote", "engine"), 1.0)
    known = ("was killed", "was lost", "end again and again", "as soon as it has started", "has ended")
    assert [str(err) for err in errors if not any(word in str(err) for word in known)] == []
    # nobody waits for an engine that does not come
    assert time.monotonic() - begun < 500
