"""Answers requests: images that wait one by one, each for a worker that has its model loaded."""

from __future__ import annotations

import secrets
import time
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.database.connection import sentence
from dbinfer.score.options import BY_TASK, FUNCTIONS
from dbinfer.worker.hands import as_text
from dbinfer.worker.lane import Lane, heard, hears, listen
from dbinfer_udf.errors import UdfError

TAKE = "SELECT * FROM dbinfer._take_requests(%s, %s, %s, dbinfer._ask('dbinfer worker'))"
GIVE = "SELECT dbinfer._give_answer(%s, %s, %s, %s, %s, dbinfer._ask('dbinfer worker'))"
MOST = 8  # requests that one lane takes at once
# Seconds between two looks: where NOTIFY says when, and through a pooler, which does not pass it on
HEARD, UNHEARD = 2.0, 0.05
KNOWN = 60.0  # seconds after which a model's facts are asked for again
TOP = 5


class Requests:
    """The third hand of a lane."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._specs: dict[str, tuple[float, dict[str, Any]]] = {}

    def serve(self, conn: Connection) -> None:
        """Answer until told to stop."""
        pause = UNHEARD
        if hears(conn):
            listen(conn, "dbinfer_request")
            pause = HEARD
        while not self._lane.stop.is_set():
            token = secrets.token_hex(16)
            with conn.cursor() as cur:
                cur.execute(TAKE, (MOST, token, self._lane.lease))
                found = cur.fetchall()
            for number, _, model, function, img in found:
                self._answer(conn, number, token, (model, function, bytes(img)))
            if not found:
                heard(conn, pause, self._lane.stop)

    def _answer(
        self, conn: Connection, number: int, token: str, asked: tuple[str | None, str, bytes]
    ) -> None:
        begin = time.monotonic()
        result, problem = self._scored(conn, *asked)
        with conn.cursor() as cur:
            cur.execute(GIVE, (number, token, as_text(result), problem, time.monotonic() - begin))
        self._lane.say(answers=1)

    def _scored(
        self, conn: Connection, model: str | None, function: str, img: bytes
    ) -> tuple[Any, str | None]:
        if model is None:
            return None, "the model version was dropped before a worker came to this image"
        try:
            spec = self._spec(conn, model)
        except (psycopg2.ProgrammingError, UdfError) as err:
            # one request must not end the worker
            told = sentence(err) if isinstance(err, psycopg2.Error) else err
            return None, told.message
        wanted = FUNCTIONS.get(function or BY_TASK.get(spec["manifest"]["task"], "predict"))
        if wanted is None or not wanted.word:
            return None, f"there is no function {function}() for workers"
        try:
            with self._lane.turn():
                ((result, problem),) = self._lane.outside.score(
                    spec, wanted.word, [img], TOP if wanted.k else None
                )
        except UdfError as err:
            return None, err.public or err.message
        return result, problem or None

    def _spec(self, conn: Connection, model: str) -> dict[str, Any]:
        known = self._specs.get(model)
        if known is None or time.monotonic() - known[0] > KNOWN:
            known = self._specs[model] = time.monotonic(), self._lane.spec(conn, model)
        return known[1]
