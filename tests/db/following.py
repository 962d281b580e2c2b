"""What the tests of `score --follow` share: coloured images, what their results must be, and a job that watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg2
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.score import ScoreOptions, ScoreReport, cancel_job, jobs, score

COLOURS = {"red": (200, 0, 0), "green": (0, 200, 0), "blue": (0, 0, 200)}
IMAGES = {name: tiny_models.file(tiny_models.picture(*colour)) for name, colour in COLOURS.items()}
PATIENCE = 60.0


def follow(dsn: str, table: str = "images", **options: Any) -> ScoreReport:
    """Score a table into `predictions`, in small batches."""
    return score(table, options=ScoreOptions(**({"follow": True, "batch": 16} | options)), dsn=dsn)


def paint(db: Connection, colour: str, where: str, table: str = "images") -> None:
    """Give some rows another image."""
    rows(db, f"UPDATE {table} SET img = %s WHERE {where}", IMAGES[colour])


def labels(db: Connection) -> dict[Any, str]:
    """Return the stored label of each id."""
    return dict(rows(db, "SELECT id, label FROM predictions ORDER BY 1"))


def as_now(db: Connection, table: str = "images", key: str = "id") -> None:
    """See that the results are those of the images that are there now, each once."""
    expected = f"SELECT {key}, (dbinfer.classify(img, 'colours', 'null')).label FROM {table}"
    stored, bad = f"SELECT {key}, label FROM predictions", f"SELECT {key} FROM predictions_errors"
    good = f"SELECT * FROM ({expected}) now WHERE ({key}) NOT IN ({bad})"
    assert rows(db, f"({good} EXCEPT ALL {stored}) UNION ALL ({stored} EXCEPT ALL {good})") == []


def settled(db: Connection, table: str = "images", key: str = "id") -> bool:
    """Return whether the results are those of the images that are there now, and each damaged image has a reason."""
    try:
        as_now(db, table, key)
    except (AssertionError, psycopg2.errors.UndefinedTable):
        return False
    stored = "SELECT (SELECT count(*) FROM predictions) + (SELECT count(*) FROM predictions_errors)"
    return bool(ask(db, f"SELECT count(*) FROM {table}") == ask(db, stored))


def until(condition: Callable[[], Any]) -> None:
    """Wait for something that must happen."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


class watching:  # noqa: N801 - reads like a statement
    """A job that follows until the end of the block; `ended` has its report or its error."""

    def __init__(self, dsn: str, table: str = "images", **options: Any) -> None:
        self.dsn, self.table = dsn, table
        self.options = ScoreOptions(**({"follow": True, "watch": 0.1, "connections": 1} | options))
        self.ended: list[Any] = []
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.ended.append(score(self.table, options=self.options, dsn=self.dsn))
        except DataError as err:
            self.ended.append(err)

    def __enter__(self) -> watching:
        before = self._last()
        self.thread.start()
        until(lambda: self._last() != before)
        return self

    def _last(self) -> int:
        found = jobs(1, self.dsn).jobs
        return int(found[0]["id"]) if found else 0

    def __exit__(self, *exc: object) -> None:
        if not self.ended:
            cancel_job(self._last(), self.dsn)
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def write_all_the_time(stop: threading.Event, db: Connection, table: str = "images") -> None:
    """Change images, delete rows and add them again, damaged ones too, until told to stop."""
    turn = 0
    while not stop.is_set():
        turn += 1
        name = list(COLOURS)[turn % 3]
        paint(db, name, f"id %% 7 = {turn % 7}", table)
        rows(db, f"DELETE FROM {table} WHERE id = {turn % 60}")
        value = IMAGES[name] if turn % 5 else b"damaged"
        rows(db, f"INSERT INTO {table} (id, img) VALUES ({turn % 60}, %s)", value)
